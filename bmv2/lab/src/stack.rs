//! Sluice's own processes in the lab: the switch, offload-ctl, slowpath.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use sluice_config::{ApiAddress, OffloadCtl, Slowpath};

use crate::process::{Process, Spec};
use crate::topology::{LD_INTERFACE, Topology};

const OFFLOAD_CTL: &str = include_str!("../../../config/samples/offload-ctl.toml");
const SLOWPATH: &str = include_str!("../../../config/samples/slowpath.toml");

/// The CPU port that the pipeline is built with.
const CPU_PORT: u16 = 510;

/// A P4Runtime switch that the lab can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Target {
    /// Ours.
    Softswitch,
    /// `simple_switch_grpc`, if it is installed.
    Bmv2,
}

impl Target {
    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Softswitch => "softswitch",
            Self::Bmv2 => "bmv2",
        }
    }

    /// Where its program is.
    ///
    /// # Errors
    /// A sentence that says how to get it.
    pub fn program(self) -> Result<PathBuf> {
        match self {
            Self::Softswitch => sibling("softswitch"),
            Self::Bmv2 => std::env::var_os("PATH")
                .and_then(|path| {
                    std::env::split_paths(&path)
                        .map(|folder| folder.join("simple_switch_grpc"))
                        .find(|program| program.is_file())
                })
                .context(
                    "simple_switch_grpc is not on the PATH; install bmv2, \
                     or use --target softswitch",
                ),
        }
    }
}

/// A program that was built beside this one.
///
/// # Errors
/// If it is not there.
pub fn sibling(name: &str) -> Result<PathBuf> {
    let own = std::env::current_exe().context("can't tell where this program is")?;
    let program = own.with_file_name(name);
    if !program.is_file() {
        bail!(
            "{} is not built; run cargo xtask lab, which builds it",
            program.display()
        );
    }
    Ok(program)
}

/// Files of one run.
#[derive(Clone, Debug)]
pub struct Files {
    /// Sockets, stores and configuration of this run. Short: a socket's path
    /// may have 107 bytes.
    pub run: PathBuf,
    /// Logs of all processes.
    pub logs: PathBuf,
}

impl Files {
    /// The socket of offload-ctl's API.
    pub fn api(&self) -> ApiAddress {
        ApiAddress::Unix(self.run.join("offload.sock"))
    }

    /// Writes a file of this run.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.run.join(name);
        std::fs::write(&path, text).with_context(|| format!("can't write {}", path.display()))?;
        Ok(path)
    }
}

/// Sluice's processes; each can be killed and started again.
#[derive(Debug)]
pub struct Stack {
    target: Target,
    files: Files,
    keep: bool,
    /// The switch.
    pub switch: Option<Process>,
    /// The controller.
    pub offload_ctl: Option<Process>,
    /// The load director.
    pub slowpath: Option<Process>,
}

impl Stack {
    /// Writes the configuration of the processes; starts none.
    ///
    /// # Errors
    /// If a file can't be written.
    pub fn prepare(target: Target, files: &Files, keep: bool) -> Result<Self> {
        let mut ctl = OffloadCtl::parse(OFFLOAD_CTL)?;
        ctl.api = vec![files.api()];
        ctl.store = files.run.join("offload.redb");
        ctl.readback.interval_s = 5;
        files.write("offload-ctl.toml", &toml::to_string(&ctl)?)?;
        let mut ld = Slowpath::parse(SLOWPATH)?;
        ld.api = files.api();
        for argument in &mut ld.eal.args {
            *argument = argument.replace("iface=ld0", &format!("iface={LD_INTERFACE}"));
        }
        files.write("slowpath.toml", &toml::to_string(&ld)?)?;
        Ok(Self {
            target,
            files: files.clone(),
            keep,
            switch: None,
            offload_ctl: None,
            slowpath: None,
        })
    }

    /// Starts the switch, without a pipeline.
    ///
    /// # Errors
    /// If it can't be started.
    pub fn start_switch(&mut self, topology: &Topology) -> Result<()> {
        let mut arguments = Vec::new();
        for (number, interface) in &topology.ports {
            arguments.extend(["-i".into(), format!("{number}@{interface}")]);
        }
        for word in [
            "--no-p4",
            "--device-id",
            "1",
            "--",
            "--grpc-server-addr",
            "127.0.0.1:9559",
        ] {
            arguments.push(word.into());
        }
        arguments.extend(["--cpu-port".into(), CPU_PORT.to_string()]);
        let program = self.target.program()?;
        self.switch = Some(self.start("switch", &topology.gateway, &program, arguments)?);
        Ok(())
    }

    /// Starts offload-ctl.
    ///
    /// # Errors
    /// If it can't be started.
    pub fn start_offload_ctl(&mut self, topology: &Topology) -> Result<()> {
        let config = self.config("offload-ctl.toml");
        let program = sibling("offload-ctl")?;
        self.offload_ctl = Some(self.start("offload-ctl", &topology.gateway, &program, config)?);
        Ok(())
    }

    /// Starts slowpath.
    ///
    /// # Errors
    /// If it can't be started.
    pub fn start_slowpath(&mut self, topology: &Topology) -> Result<()> {
        let config = self.config("slowpath.toml");
        let program = sibling("slowpath")?;
        self.slowpath = Some(self.start("slowpath", &topology.ld, &program, config)?);
        Ok(())
    }

    /// Fails if one of them ended by itself.
    ///
    /// # Errors
    /// With the end of its log.
    pub fn check(&mut self) -> Result<()> {
        for process in [&mut self.switch, &mut self.offload_ctl, &mut self.slowpath]
            .into_iter()
            .flatten()
        {
            process.check()?;
        }
        Ok(())
    }

    fn config(&self, name: &str) -> Vec<String> {
        vec![
            "--config".into(),
            self.files.run.join(name).display().to_string(),
        ]
    }

    fn start(
        &self,
        what: &str,
        namespace: &crate::namespace::Namespace,
        program: &Path,
        arguments: Vec<String>,
    ) -> Result<Process> {
        Process::start(Spec {
            what,
            namespace,
            program,
            arguments,
            logs: &self.files.logs,
            keep: self.keep,
        })
    }
}
