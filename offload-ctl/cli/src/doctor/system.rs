//! Capabilities, huge pages, addresses, the store.

use std::io::ErrorKind;
use std::time::Duration;

use offload_api::address::{self, ApiAddress};
use offload_api::v1::GetStatusRequest;
use offload_api::v1::admin_client::AdminClient;
use sluice_config::{OffloadCtl, Slowpath};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::report::Report;

/// Bits of a capability mask (linux/capability.h).
const CAP_NET_ADMIN: u64 = 1 << 12;
const CAP_NET_RAW: u64 = 1 << 13;
const ANSWER: Duration = Duration::from_secs(2);

/// Capabilities and memory.
pub(super) fn look(slowpath: Option<&Slowpath>, switch: bool, report: &mut Report) {
    if slowpath.is_some() || switch {
        match effective_capabilities() {
            Some(have) => {
                for (bit, name) in [
                    (CAP_NET_RAW, "CAP_NET_RAW"),
                    (CAP_NET_ADMIN, "CAP_NET_ADMIN"),
                ] {
                    if have & bit == 0 {
                        report.problem(
                            format!("capability {name}"),
                            "is missing; packet sockets cannot be opened",
                            "run as root, or give it: setcap cap_net_raw,cap_net_admin+ep PROGRAM",
                        );
                    } else {
                        report.ok(format!("capability {name}"), "there");
                    }
                }
            }
            None => report.note("capabilities", "/proc/self/status does not tell"),
        }
    }
    if let Some(slowpath) = slowpath {
        huge_pages(slowpath, report);
    }
}

fn effective_capabilities() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    capabilities_in(&status)
}

fn capabilities_in(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|l| l.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

fn huge_pages(slowpath: &Slowpath, report: &mut Report) {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let free = field(&meminfo, "HugePages_Free:");
    let total = field(&meminfo, "HugePages_Total:");
    let (free, total) = (free.unwrap_or(0), total.unwrap_or(0));
    let needed = !slowpath.eal.args.iter().any(|arg| arg == "--no-huge");
    if !needed {
        report.note(
            "huge pages",
            format!("not needed (--no-huge); {free} of {total} are free"),
        );
    } else if free == 0 {
        report.problem(
            "huge pages",
            format!("none free ({total} in all), and eal.args asks for them"),
            "sysctl vm.nr_hugepages=512, or add \"--no-huge\" to eal.args",
        );
    } else {
        report.ok("huge pages", format!("{free} of {total} are free"));
    }
}

fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Can the store be written?
pub(super) fn store(config: &OffloadCtl, report: &mut Report) {
    let what = format!("store {}", config.store.display());
    let mut folder = config.store.parent();
    while let Some(path) = folder {
        if path.as_os_str().is_empty() || path.exists() {
            break;
        }
        folder = path.parent();
    }
    let folder = match folder {
        Some(path) if !path.as_os_str().is_empty() => path,
        _ => std::path::Path::new("."),
    };
    let read_only = std::fs::metadata(folder)
        .map(|metadata| !metadata.is_dir() || metadata.permissions().readonly())
        .unwrap_or(true);
    if read_only {
        report.problem(
            what,
            format!("{} cannot be written", folder.display()),
            "correct `store` in offload-ctl.toml, or the folder's permissions",
        );
    } else if config.store.exists() {
        report.ok(what, "there; its configuration goes on being in force");
    } else {
        report.ok(what, "will be created");
    }
}

/// Are the addresses free, or does an offload-ctl answer?
pub(super) async fn addresses(config: &OffloadCtl, report: &mut Report) {
    for address in &config.api {
        let what = format!("api {address}");
        match timeout(ANSWER, status_of(address)).await {
            Ok(Ok(version)) => report.ok(
                what,
                format!("offload-ctl answers, configuration version {version}"),
            ),
            Ok(Err(Answer::Nobody)) => free(address, what, report).await,
            Ok(Err(Answer::Something(error))) => report.problem(
                what,
                format!("something else answers there ({error})"),
                "stop that program, or set another address at `api` in offload-ctl.toml",
            ),
            Err(_) => report.problem(
                what,
                "is taken, but what has it does not answer",
                "stop that program, or set another address at `api` in offload-ctl.toml",
            ),
        }
    }
    if let Some(http) = config.http {
        let what = format!("http {http}");
        match TcpListener::bind(http).await {
            Ok(_) => report.ok(what, "free"),
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                match timeout(ANSWER, TcpStream::connect(http)).await {
                    Ok(Ok(_)) => report.note(what, "in use, by offload-ctl if it is running"),
                    _ => report.problem(
                        what,
                        "is in use",
                        "set another address at `http` in offload-ctl.toml",
                    ),
                }
            }
            Err(error) => report.problem(
                what,
                format!("cannot be used: {error}"),
                "correct `http` in offload-ctl.toml",
            ),
        }
    }
}

enum Answer {
    Nobody,
    Something(String),
}

async fn status_of(api: &ApiAddress) -> Result<u64, Answer> {
    let channel = address::connect(api).await.map_err(|_| Answer::Nobody)?;
    AdminClient::new(channel)
        .get_status(GetStatusRequest {})
        .await
        .map(|status| status.into_inner().config_version)
        .map_err(|status| Answer::Something(format!("{:?}", status.code())))
}

async fn free(api: &ApiAddress, what: String, report: &mut Report) {
    match api {
        ApiAddress::Tcp(address) => match TcpListener::bind(address).await {
            Ok(_) => report.ok(what, "free; offload-ctl is not running"),
            Err(error) => report.problem(
                what,
                format!("cannot be used: {error}"),
                "correct `api` in offload-ctl.toml",
            ),
        },
        ApiAddress::Unix(path) if path.exists() => report.ok(
            what,
            "left behind by a process that is gone; offload-ctl takes it over",
        ),
        ApiAddress::Unix(_) => report.ok(what, "free; offload-ctl is not running"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_effective_capabilities() {
        let status = "Name:\tx\nCapPrm:\t0000000000000000\nCapEff:\t0000000000003000\n";
        let have = capabilities_in(status).unwrap();
        assert_eq!(have, CAP_NET_ADMIN | CAP_NET_RAW);
        assert_eq!(capabilities_in("Name:\tx\n"), None);
    }

    #[test]
    fn reads_meminfo() {
        let text = "HugePages_Total:     512\nHugePages_Free:       12\n";
        assert_eq!(field(text, "HugePages_Free:"), Some(12));
        assert_eq!(field(text, "HugePages_Rsvd:"), None);
    }
}
