//! The Debian packages that building, testing and measuring need.

use std::path::Path;
use std::process::Command;

use crate::step;

/// To build.
pub(crate) const BUILD: &[&str] = &[
    "gcc",
    "libc6-dev",
    "pkg-config",
    "clang",
    "libclang-dev",
    "libdpdk-dev",
];

/// To build, to test and to run the lab.
pub(crate) const ALL: &[&str] = &[
    "gcc",
    "libc6-dev",
    "pkg-config",
    "clang",
    "libclang-dev",
    "libdpdk-dev",
    "iproute2",
    "ethtool",
    "nftables",
    "util-linux",
    "nginx-light",
    "curl",
    "iperf3",
    // For the tests with P4Runtime clients from PyPI.
    "python3",
    "python3-pip",
    "python3-venv",
];

/// To measure beside a peer: `dpdk-testpmd`.
pub(crate) const BENCH: &[&str] = &[
    "gcc",
    "libc6-dev",
    "pkg-config",
    "clang",
    "libclang-dev",
    "libdpdk-dev",
    "iproute2",
    "ethtool",
    "dpdk-dev",
];

/// Installs those of `wanted` that are missing.
///
/// # Errors
/// A sentence that names the packages, if apt-get can't be used or fails.
pub(crate) fn install(wanted: &[&str]) -> Result<(), String> {
    if !step::on_path("dpkg-query") {
        println!(
            "xtask: no dpkg here, so nothing is installed; needed are the equivalents of: {}",
            wanted.join(" ")
        );
        return Ok(());
    }
    let missing: Vec<&str> = wanted
        .iter()
        .copied()
        .filter(|package| !is_installed(package))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let by_hand = format!("apt-get install {}", missing.join(" "));
    if !is_root() {
        return Err(format!(
            "Debian packages are missing and this user may not install them; as root: {by_hand}"
        ));
    }
    let quiet = QuietServices::begin();
    let apt = |arguments: &[&str]| {
        Command::new("apt-get")
            .env("DEBIAN_FRONTEND", "noninteractive")
            .args([
                "-qq",
                "-o",
                "DPkg::Lock::Timeout=300",
                "-o",
                "Dpkg::Use-Pty=0",
            ])
            .args(arguments)
            .status()
            .is_ok_and(|status| status.success())
    };
    println!("== installing from Debian: {}", missing.join(" "));
    let mut arguments = vec!["install", "--yes", "--no-install-recommends"];
    arguments.extend(&missing);
    // Package lists may be absent or old: then once more after an update.
    let done = apt(&arguments) || (apt(&["update"]) && apt(&arguments));
    drop(quiet);
    if done {
        Ok(())
    } else {
        Err(format!(
            "apt-get failed, its words stand above; by hand: {by_hand}"
        ))
    }
}

fn is_installed(package: &str) -> bool {
    Command::new("dpkg-query")
        .args(["--show", "--showformat=${db:Status-Status}", package])
        .output()
        .is_ok_and(|output| output.stdout == b"installed")
}

/// Whether this process is root's.
pub(crate) fn is_root() -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| {
        status
            .lines()
            .find_map(|line| line.strip_prefix("Uid:"))
            .and_then(|ids| ids.split_whitespace().nth(1))
            == Some("0")
    })
}

/// While it lives, package scripts start no service: nginx would take port 80
/// of the machine, and the lab runs its own inside namespaces.
struct QuietServices {
    ours: bool,
}

const POLICY: &str = "/usr/sbin/policy-rc.d";

impl QuietServices {
    fn begin() -> Self {
        use std::os::unix::fs::PermissionsExt;
        // An administrator's policy is left alone.
        let ours = !Path::new(POLICY).exists()
            && std::fs::write(POLICY, "#!/bin/sh\nexit 101\n").is_ok()
            && std::fs::set_permissions(POLICY, std::fs::Permissions::from_mode(0o755)).is_ok();
        Self { ours }
    }
}

impl Drop for QuietServices {
    fn drop(&mut self) {
        if self.ours {
            // Nothing to be done about a failure here.
            let _ = std::fs::remove_file(POLICY);
        }
    }
}
