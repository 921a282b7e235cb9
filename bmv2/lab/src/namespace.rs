//! Network namespaces of the lab, by iproute2.
//!
//! A name is `sluice-<pid of the lab>-<host>`: unique per run, and a later run
//! can tell what a killed one left behind.

use std::io::Write;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

const PREFIX: &str = "sluice-";

/// A network namespace that is deleted, with its interfaces, when dropped.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    keep: bool,
}

impl Namespace {
    /// Creates the namespace of `host` for the run of process `run`.
    ///
    /// # Errors
    /// If iproute2 refuses: no root, or the name exists.
    pub fn create(run: u32, host: &str) -> Result<Self> {
        let name = format!("{PREFIX}{run}-{host}");
        ip(&["netns", "add", &name])?;
        let namespace = Self { name, keep: false };
        // No router solicitations, no MLD: what enters the switch is the
        // lab's traffic only.
        namespace.shell(
            "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6; \
             echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6",
        )?;
        namespace.ip(&["link", "set", "lo", "up"])?;
        Ok(namespace)
    }

    /// Its name, for `ip netns exec`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Leaves the namespace behind when dropped.
    pub fn keep(&mut self) {
        self.keep = true;
    }

    /// Runs `ip` inside.
    ///
    /// # Errors
    /// With what `ip` said.
    pub fn ip(&self, arguments: &[&str]) -> Result<()> {
        let mut all = vec!["-n", self.name.as_str()];
        all.extend(arguments);
        ip(&all)
    }

    /// Runs a shell line inside.
    ///
    /// # Errors
    /// With what it said.
    pub fn shell(&self, line: &str) -> Result<String> {
        let mut command = self.command("sh");
        command.args(["-c", line]);
        output(&mut command)
    }

    /// Gives a program's command line, to run inside.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]);
        command
    }

    /// Loads an nftables ruleset inside.
    ///
    /// # Errors
    /// With what `nft` said.
    pub fn nft(&self, rules: &str) -> Result<()> {
        let mut child = self
            .command("nft")
            .args(["-f", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("can't run nft")?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(rules.as_bytes())?;
        }
        let done = child.wait_with_output()?;
        if !done.status.success() {
            bail!(
                "nft in {}: {}",
                self.name,
                String::from_utf8_lossy(&done.stderr).trim()
            );
        }
        Ok(())
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if !self.keep {
            // The report is printed already; a failure is seen by the next run.
            let _ = ip(&["netns", "delete", &self.name]);
        }
    }
}

/// Connects two namespaces by a veth pair with transmit checksum offload off
/// on both ends: AF_PACKET would see partial checksums.
///
/// # Errors
/// With what iproute2 or ethtool said.
pub fn link(a: &Namespace, a_name: &str, b: &Namespace, b_name: &str, mtu: u16) -> Result<()> {
    ip(&[
        "link",
        "add",
        a_name,
        "netns",
        a.name(),
        "type",
        "veth",
        "peer",
        "name",
        b_name,
        "netns",
        b.name(),
    ])?;
    for (namespace, name) in [(a, a_name), (b, b_name)] {
        namespace.ip(&[
            "link",
            "set",
            name,
            "mtu",
            &mtu.to_string(),
            "txqueuelen",
            "10000",
        ])?;
        let mut ethtool = namespace.command("ethtool");
        ethtool.args([
            "-K", name, "tx", "off", "gso", "off", "tso", "off", "gro", "off",
        ]);
        output(&mut ethtool)?;
        namespace.ip(&["link", "set", name, "up"])?;
    }
    Ok(())
}

/// Deletes the namespaces of runs whose process is gone, unless they are kept.
/// Returns their names.
pub fn sweep(is_kept: impl Fn(u32) -> bool) -> Vec<String> {
    let Ok(listed) = output(Command::new("ip").args(["netns", "list"])) else {
        return Vec::new();
    };
    let mut swept = Vec::new();
    for name in listed
        .lines()
        .filter_map(|line| line.split_whitespace().next())
    {
        let Some(run) = name
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split_once('-'))
            .and_then(|(run, _)| run.parse::<u32>().ok())
        else {
            continue;
        };
        let alive = std::path::Path::new(&format!("/proc/{run}")).exists();
        if !alive && !is_kept(run) && ip(&["netns", "delete", name]).is_ok() {
            swept.push(name.to_owned());
        }
    }
    swept
}

/// Deletes every namespace of `run`.
pub fn delete_run(run: u32) {
    let prefix = format!("{PREFIX}{run}-");
    let Ok(listed) = output(Command::new("ip").args(["netns", "list"])) else {
        return;
    };
    for name in listed
        .lines()
        .filter_map(|line| line.split_whitespace().next())
    {
        if name.starts_with(&prefix) {
            let _ = ip(&["netns", "delete", name]);
        }
    }
}

/// The namespaces of `run` that exist.
pub fn of_run(run: u32) -> Vec<String> {
    let prefix = format!("{PREFIX}{run}-");
    output(Command::new("ip").args(["netns", "list"]))
        .unwrap_or_default()
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| name.starts_with(&prefix))
        .map(str::to_owned)
        .collect()
}

fn ip(arguments: &[&str]) -> Result<()> {
    output(Command::new("ip").args(arguments)).map(drop)
}

/// Runs a command to its end and returns what it printed.
///
/// # Errors
/// With what it said, if it can't be started or fails.
pub fn output(command: &mut Command) -> Result<String> {
    let done = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("can't run {:?}", command.get_program()))?;
    if !done.status.success() {
        let words: Vec<_> = command.get_args().map(|a| a.to_string_lossy()).collect();
        bail!(
            "{} {}: {}",
            command.get_program().to_string_lossy(),
            words.join(" "),
            String::from_utf8_lossy(&done.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}
