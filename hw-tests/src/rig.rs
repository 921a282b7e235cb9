//! A running switch with the gateway's pipeline, and raw sockets on its ports.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use p4runtime_client::{Client, Error, Events};

use crate::controller::Controller;
use crate::netns::Namespace;
use crate::target::{DEVICE, Process, Target};
use crate::wire::{self, Wire};

/// How long a switch may take until it answers.
const START: Duration = Duration::from_secs(15);

/// The server's address inside the namespace.
pub const ADDRESS: &str = "127.0.0.1:9559";

/// A switch in a namespace of its own. Drop it on the thread that made it.
// Fields are dropped in this order: the namespace last.
pub struct Rig {
    /// Which switch it is.
    pub target: Target,
    /// The controller.
    pub controller: Controller,
    /// The switch's process.
    pub process: Process,
    /// The far end of each port.
    pub wires: BTreeMap<u16, Wire>,
    namespace: Namespace,
}

impl Rig {
    /// Starts a switch with these ports and gives it the pipeline. Its tables
    /// are empty.
    ///
    /// # Errors
    /// If anything of it fails, with the switch's last words.
    pub fn start(target: Target, name: &str, ports: &[u16], mtu: u16) -> Result<Self> {
        Self::start_with(target, "", name, ports, mtu)
    }

    /// As [`start`](Self::start), with ports of another kind: what softswitch
    /// takes before an interface's name, such as `xdp:`.
    ///
    /// # Errors
    /// If anything of it fails, with the switch's last words.
    pub fn start_with(
        target: Target,
        kind: &str,
        name: &str,
        ports: &[u16],
        mtu: u16,
    ) -> Result<Self> {
        let namespace = Namespace::enter(name)?;
        let mut wires = BTreeMap::new();
        for port in ports {
            namespace.add_link(&switch_end(*port), &test_end(*port), mtu)?;
            wires.insert(*port, Wire::open(&test_end(*port))?);
        }
        let interfaces = ports
            .iter()
            .map(|port| (*port, format!("{kind}{}", switch_end(*port))));
        Self::run(target, name, interfaces, None, wires, namespace)
    }

    /// As [`start`](Self::start), with ports that are files of a folder,
    /// [`input_file`] and [`output_file`]. The input files must be there; of a
    /// pipe the header must already be in it, since bmv2 waits for it.
    ///
    /// # Errors
    /// If anything of it fails, with the switch's last words.
    pub fn start_on_files(
        target: Target,
        name: &str,
        ports: &[u16],
        folder: &Path,
    ) -> Result<Self> {
        let namespace = Namespace::enter(name)?;
        let names = ports.iter().map(|port| (*port, switch_end(*port)));
        let wires = BTreeMap::new();
        Self::run(target, name, names, Some(folder), wires, namespace)
    }

    fn run(
        target: Target,
        name: &str,
        ports: impl IntoIterator<Item = (u16, String)>,
        files: Option<&Path>,
        wires: BTreeMap<u16, Wire>,
        namespace: Namespace,
    ) -> Result<Self> {
        let log = log_file(target, name)?;
        let mut process = target.start(ports, files, ADDRESS, &log)?;
        let runtime = Controller::runtime()?;
        let (client, events) = runtime
            .block_on(connect(&mut process))
            .with_context(|| format!("{target}: {}", process.log_tail()))?;
        let controller = Controller {
            client,
            events,
            runtime,
        };
        controller
            .set_pipeline()
            .with_context(|| format!("{target}: {}", process.log_tail()))?;
        Ok(Self {
            target,
            controller,
            process,
            wires,
            namespace,
        })
    }

    /// The first frame that arrives at any port within `patience`.
    ///
    /// # Errors
    /// If a socket fails.
    pub fn receive_any(&mut self, patience: Duration) -> Result<Option<(u16, Vec<u8>)>> {
        let deadline = Instant::now() + patience;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let ready = wire::ready(&self.wires, left)?;
            for port in ready {
                if let Some(frame) = self.wire(port)?.receive(Duration::ZERO)? {
                    return Ok(Some((port, frame)));
                }
            }
            if left.is_zero() {
                return Ok(None);
            }
        }
    }

    /// The far end of a port.
    ///
    /// # Errors
    /// If the switch was started without it.
    pub fn wire(&mut self, port: u16) -> Result<&mut Wire> {
        self.wires
            .get_mut(&port)
            .with_context(|| format!("there is no port {port}"))
    }
}

impl std::fmt::Debug for Rig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rig")
            .field("target", &self.target)
            .field("process", &self.process)
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

/// The interface that the switch opens.
pub fn switch_end(port: u16) -> String {
    format!("sw{port}")
}

/// The file that a port's packets come from; see [`Rig::start_on_files`].
pub fn input_file(port: u16) -> String {
    format!("{}_in.pcap", switch_end(port))
}

/// The file that a port's packets go to.
pub fn output_file(port: u16) -> String {
    format!("{}_out.pcap", switch_end(port))
}

/// The interface at the other end of the link.
pub fn test_end(port: u16) -> String {
    format!("to{port}")
}

/// Where the switch's output goes: beside the program's own results.
fn log_file(target: Target, name: &str) -> Result<PathBuf> {
    let folder = std::env::current_exe()?
        .ancestors()
        .nth(3)
        .context("this program is not in a target directory")?
        .join("hw-tests");
    std::fs::create_dir_all(&folder).with_context(|| format!("can't make {}", folder.display()))?;
    Ok(folder.join(format!("{name}-{target}.log")))
}

/// Tries until the switch listens.
async fn connect(process: &mut Process) -> Result<(Client, Events)> {
    let start = Instant::now();
    loop {
        process.check()?;
        match Client::connect(ADDRESS, DEVICE, 1, None).await {
            Err(Error::Connect { .. }) if start.elapsed() < START => {}
            result => return Ok(result?),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
