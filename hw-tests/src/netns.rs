//! A network namespace with the veth pairs of a switch.
//!
//! The thread that makes one enters it, and so does everything that this
//! thread starts afterwards: sockets, processes, an asynchronous runtime. A
//! server on 127.0.0.1 can then meet neither other tests nor the machine's
//! own services.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use nix::sched::{CloneFlags, setns};

/// `hw-tests-<process id>-<name>`: unique, and a later run can tell what a
/// killed one left behind.
const PREFIX: &str = "hw-tests-";

/// A namespace that the current thread is in. Dropping it (on the same
/// thread) leaves it and deletes it with all its interfaces.
#[derive(Debug)]
pub struct Namespace {
    name: String,
    home: OwnedFd,
}

impl Namespace {
    /// Creates a namespace and enters it with the current thread.
    ///
    /// # Errors
    /// If iproute2 or the kernel refuse: no root, no iproute2.
    pub fn enter(name: &str) -> Result<Self> {
        sweep();
        let home = File::open("/proc/thread-self/ns/net")
            .context("can't open the network namespace of this thread")?
            .into();
        let name = format!("{PREFIX}{}-{name}", std::process::id());
        run("ip", &["netns", "add", &name])?;
        let namespace = Self { name, home };
        let file = File::open(format!("/run/netns/{}", namespace.name))
            .context("can't open the new network namespace")?;
        setns(&file, CloneFlags::CLONE_NEWNET).context("can't enter the new network namespace")?;
        // No router solicitations and no MLD: only the test's own packets.
        for scope in ["all", "default"] {
            let path = format!("/proc/sys/net/ipv6/conf/{scope}/disable_ipv6");
            if std::path::Path::new(&path).exists() {
                std::fs::write(&path, "1").with_context(|| format!("can't write {path}"))?;
            }
        }
        run("ip", &["link", "set", "lo", "up"])?;
        Ok(namespace)
    }

    /// Its name, as `ip netns` knows it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Adds a veth pair, both ends in this namespace, with checksum offload
    /// off: what a raw socket sends and sees is then the whole packet.
    ///
    /// # Errors
    /// With what iproute2 or ethtool said.
    pub fn add_link(&self, a: &str, b: &str, mtu: u16) -> Result<()> {
        run("ip", &["link", "add", a, "type", "veth", "peer", "name", b])?;
        let mtu = mtu.to_string();
        for end in [a, b] {
            run(
                "ip",
                &["link", "set", end, "mtu", &mtu, "txqueuelen", "10000"],
            )?;
            run(
                "ethtool",
                &[
                    "-K", end, "tx", "off", "gso", "off", "tso", "off", "gro", "off",
                ],
            )?;
            run("ip", &["link", "set", end, "up"])?;
        }
        Ok(())
    }

    /// Takes an interface down or up; the other end of a veth pair loses or
    /// gets its carrier.
    ///
    /// # Errors
    /// With what iproute2 said.
    pub fn set_link(&self, interface: &str, up: bool) -> Result<()> {
        let state = if up { "up" } else { "down" };
        run("ip", &["link", "set", interface, state])
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // Nothing can be done about a failure; the next run sweeps.
        let _ = setns(&self.home, CloneFlags::CLONE_NEWNET);
        let _ = run("ip", &["netns", "delete", &self.name]);
    }
}

/// Why no namespace can be made here, if that is so.
pub fn missing() -> Option<String> {
    if !nix::unistd::Uid::effective().is_root() {
        return Some("network namespaces need root".into());
    }
    for (program, argument, package) in [
        ("ip", "-V", "iproute2"),
        ("ethtool", "--version", "ethtool"),
    ] {
        if run(program, &[argument]).is_err() {
            return Some(format!(
                "{program} is not installed (Debian package {package})"
            ));
        }
    }
    None
}

/// Frames that arrived at an interface of this thread's namespace.
///
/// # Errors
/// If the kernel does not list the interface.
pub fn received_frames(interface: &str) -> Result<u64> {
    let table = std::fs::read_to_string("/proc/thread-self/net/dev")?;
    table
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.trim() == interface)
        // Receive bytes, then receive packets.
        .and_then(|(_, numbers)| numbers.split_whitespace().nth(1)?.parse().ok())
        .with_context(|| format!("no interface {interface}"))
}

/// Deletes what runs left behind whose process is gone.
fn sweep() {
    let Ok(folder) = std::fs::read_dir("/run/netns") else {
        return;
    };
    for name in folder
        .flatten()
        .filter_map(|e| e.file_name().into_string().ok())
    {
        let owner = name
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split('-').next())
            .and_then(|id| id.parse::<u32>().ok());
        if owner.is_some_and(|id| !std::path::Path::new(&format!("/proc/{id}")).exists()) {
            let _ = run("ip", &["netns", "delete", &name]);
        }
    }
}

fn run(program: &str, arguments: &[&str]) -> Result<()> {
    let done = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("can't run {program}"))?;
    if !done.status.success() {
        bail!(
            "{program} {}: {}",
            arguments.join(" "),
            String::from_utf8_lossy(&done.stderr).trim()
        );
    }
    Ok(())
}
