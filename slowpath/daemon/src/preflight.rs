//! What is looked at before DPDK starts: it explains itself badly.

use std::path::Path;

use anyhow::bail;
use sluice_config::Slowpath;

/// Bit of CAP_NET_RAW in a capability mask (capabilities(7)).
const CAP_NET_RAW: u32 = 13;

/// Looks for what would make the start fail.
///
/// # Errors
/// One sentence: what, where, and the way out.
pub fn check(config: &Slowpath) -> anyhow::Result<()> {
    let args = &config.eal.args;
    for flag in ["--in-memory", "--no-huge"] {
        if !args.iter().any(|arg| arg == flag) {
            break;
        }
        if flag == "--no-huge" {
            bail!(
                "eal.args: DPDK refuses --in-memory together with --no-huge; write --no-shconf in \
                 place of --in-memory"
            );
        }
    }
    for device in af_packet(args) {
        if !has_capability(&std::fs::read_to_string("/proc/self/status").unwrap_or_default()) {
            bail!(
                "eal.args: {} needs the capability CAP_NET_RAW, which this process does not have; \
                 run it as root, or give it the capability with `setcap cap_net_raw+ep`",
                device.name
            );
        }
        let Some(interface) = device.interface else {
            bail!(
                "eal.args: --vdev={} names no interface; add iface=NAME",
                device.name
            );
        };
        if nix::net::if_::if_nametoindex(interface).is_err() {
            bail!(
                "eal.args: there is no network interface {interface:?} in this network namespace; \
                 create it, or correct iface= of {}",
                device.name
            );
        }
    }
    Ok(())
}

/// A line to add when DPDK did not start: a driver that is not installed.
#[must_use]
pub fn hint(config: &Slowpath) -> Option<String> {
    let drivers = vdevs(&config.eal.args).map(|device| {
        device
            .split(',')
            .next()
            .unwrap_or_default()
            .trim_end_matches(|c: char| c.is_ascii_digit())
            .to_owned()
    });
    for driver in drivers {
        if !is_installed(Path::new("/usr/lib"), &driver) {
            return Some(format!(
                "DPDK's driver {driver} was not found below /usr/lib; on Debian install the \
                 package librte-{}23",
                driver.replace('_', "-")
            ));
        }
    }
    None
}

/// Whether a driver's library is in one of DPDK's plugin directories, which are
/// `<lib>/<triplet>/dpdk/pmds-*`.
fn is_installed(lib: &Path, driver: &str) -> bool {
    let wanted = format!("librte_{driver}.so");
    let entries = |path: &Path| {
        std::fs::read_dir(path)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
    };
    entries(lib)
        .flat_map(|triplet| entries(&triplet.join("dpdk")).collect::<Vec<_>>())
        .flat_map(|plugins| entries(&plugins).collect::<Vec<_>>())
        .any(|file| {
            file.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with(&wanted))
        })
}

/// The values of all `--vdev` options.
fn vdevs(args: &[String]) -> impl Iterator<Item = &str> {
    let mut after_option = false;
    args.iter().filter_map(move |arg| {
        if std::mem::take(&mut after_option) {
            return Some(arg.as_str());
        }
        after_option = arg == "--vdev";
        arg.strip_prefix("--vdev=")
    })
}

struct AfPacket<'a> {
    name: &'a str,
    interface: Option<&'a str>,
}

fn af_packet(args: &[String]) -> impl Iterator<Item = AfPacket<'_>> {
    vdevs(args).filter_map(|device| {
        let mut parts = device.split(',');
        let name = parts.next()?;
        name.starts_with("net_af_packet").then(|| AfPacket {
            name,
            interface: parts.find_map(|part| part.strip_prefix("iface=")),
        })
    })
}

/// Whether the effective set in a `/proc/PID/status` has CAP_NET_RAW.
fn has_capability(status: &str) -> bool {
    status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask >> CAP_NET_RAW & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(args: &[&str]) -> Slowpath {
        let args: Vec<String> = args.iter().map(|a| format!("{a:?}")).collect();
        Slowpath::parse(&format!(
            "name = \"ld1\"\napi = \"unix:/run/x\"\nvtep = \"10.3.0.2\"\n[eal]\nargs = [{}]\nport \
             = \"net_af_packet0\"\n",
            args.join(",")
        ))
        .unwrap()
    }

    fn refusal(args: &[&str]) -> String {
        check(&config(args)).unwrap_err().to_string()
    }

    #[test]
    fn capabilities_are_read_from_the_effective_set() {
        assert!(has_capability("CapPrm:\t0\nCapEff:\t000001ffffffffff\n"));
        assert!(has_capability("CapEff:\t0000000000002000\n"));
        assert!(!has_capability(
            "CapPrm:\t2000\nCapEff:\t0000000000001000\n"
        ));
        assert!(!has_capability(""));
    }

    #[test]
    fn what_dpdk_would_refuse_is_refused_in_a_sentence() {
        assert!(refusal(&["--in-memory", "--no-huge"]).contains("--no-shconf"));
        assert!(check(&config(&["--no-huge", "--vdev=net_null0"])).is_ok());
        assert!(check(&config(&["--in-memory"])).is_ok());
        // As root the interface is what is missing, otherwise the capability.
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let missing = refusal(&["--vdev", "net_af_packet0,iface=sluice-none,qpairs=2"]);
        if has_capability(&status) {
            assert!(missing.contains("\"sluice-none\""), "{missing}");
            assert!(refusal(&["--vdev=net_af_packet0"]).contains("iface=NAME"));
        } else {
            assert!(missing.contains("CAP_NET_RAW"), "{missing}");
        }
    }

    #[test]
    fn finds_drivers_in_plugin_directories() {
        let lib = tempfile::tempdir().unwrap();
        let plugins = lib.path().join("x86_64-linux-gnu/dpdk/pmds-23.0");
        std::fs::create_dir_all(&plugins).unwrap();
        std::fs::write(plugins.join("librte_net_null.so.23"), "").unwrap();
        assert!(is_installed(lib.path(), "net_null"));
        assert!(!is_installed(lib.path(), "net_af_packet"));
    }
}
