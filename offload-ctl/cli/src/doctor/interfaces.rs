//! Interfaces: there, up, large enough, without checksum offload.

use std::path::PathBuf;

use sluice_config::{Gateway, Slowpath};

use super::offload_state;
use super::report::Report;

/// IFF_UP of an interface's flags (linux/if.h).
const IFF_UP: u32 = 1;

/// The kernel interfaces that a slow path's EAL arguments name.
pub(super) fn of_slowpath(slowpath: &Slowpath, report: &mut Report) {
    for argument in &slowpath.eal.args {
        for part in argument.split(',') {
            if let Some(name) = part.strip_prefix("iface=") {
                look(name, slowpath.eal.mtu, "slowpath.toml eal.mtu", report);
            }
        }
    }
}

/// An interface of the software switch, `PORT@IFACE`.
pub(super) fn of_switch(text: &str, gateway: Option<&Gateway>, report: &mut Report) {
    let Some((number, name)) = text.split_once('@') else {
        report.problem(
            format!("--interface {text}"),
            "is not PORT@IFACE",
            "write it as for softswitch -i, like 1@veth0",
        );
        return;
    };
    let port = gateway.and_then(|gateway| {
        let number: u16 = number.parse().ok()?;
        gateway.ports.iter().find(|port| port.number == number)
    });
    if let (Some(_), None) = (gateway, port) {
        report.problem(
            format!("--interface {text}"),
            format!("there is no port {number} in gateway.toml"),
            "correct the number, or add the port",
        );
    }
    let needed = port.map_or(1500, |port| port.mtu);
    look(name, needed, "the port's mtu in gateway.toml", report);
}

fn look(name: &str, mtu_needed: u16, mtu_from: &str, report: &mut Report) {
    let what = format!("interface {name}");
    let folder = PathBuf::from("/sys/class/net").join(name);
    if name.is_empty() || name.contains('/') || !folder.exists() {
        report.problem(
            what,
            "is not in this network namespace",
            "create it, correct its name, or run doctor in the namespace that has it (ip netns exec NAME sluice doctor ...)",
        );
        return;
    }
    let mut fine = true;
    let number = |file: &str| -> Option<u32> {
        let text = std::fs::read_to_string(folder.join(file)).ok()?;
        let text = text.trim();
        match text.strip_prefix("0x") {
            Some(hex) => u32::from_str_radix(hex, 16).ok(),
            None => text.parse().ok(),
        }
    };
    if number("flags").is_some_and(|flags| flags & IFF_UP == 0) {
        fine = false;
        report.problem(what.clone(), "is down", format!("ip link set {name} up"));
    }
    let mtu = number("mtu").unwrap_or(0);
    if mtu < u32::from(mtu_needed) {
        fine = false;
        report.problem(
            what.clone(),
            format!("has MTU {mtu}, but {mtu_needed} bytes are needed ({mtu_from})"),
            format!("ip link set {name} mtu {mtu_needed}"),
        );
    }
    match offload_state::tx_checksum(name) {
        Ok(true) => {
            fine = false;
            report.problem(
                what.clone(),
                "leaves checksums to its other end (tx-checksumming is on); packet sockets see wrong ones and TCP fails while ping works",
                format!("ethtool -K {name} tx off, on both ends of a veth pair"),
            );
        }
        Ok(false) => {}
        Err(error) => report.note(
            what.clone(),
            format!("does not tell whether tx-checksumming is off ({error})"),
        ),
    }
    if fine {
        report.ok(what, format!("up, MTU {mtu}"));
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::Level;
    use super::*;

    fn levels(report: &Report) -> Vec<Level> {
        report.findings.iter().map(|f| f.level).collect()
    }

    #[test]
    fn an_interface_that_is_not_there_is_named() {
        let mut report = Report::default();
        of_switch("1@nosuch0", None, &mut report);
        assert_eq!(levels(&report), [Level::Problem]);
        assert_eq!(report.findings[0].what, "interface nosuch0");
        for text in ["veth0", "1@../net/lo", "1@"] {
            let mut report = Report::default();
            of_switch(text, None, &mut report);
            assert_eq!(levels(&report), [Level::Problem], "{text}");
        }
    }

    #[test]
    fn an_mtu_that_is_too_small_is_told_with_the_command() {
        let mut report = Report::default();
        // Loopback has at most 65536; nothing asks for that much, so lower it
        // by asking for an interface that cannot have enough.
        look("lo", u16::MAX, "test", &mut report);
        let mtu: u32 = std::fs::read_to_string("/sys/class/net/lo/mtu")
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        let told = report
            .findings
            .iter()
            .any(|f| f.way_out == "ip link set lo mtu 65535");
        assert_eq!(told, mtu < 65_535);
    }
}
