//! `sluice doctor`: what it finds, and that it finds nothing where all is well.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Canned, sluice, stdout};

const GATEWAY: &str = include_str!("../../../config/samples/gateway.toml");
const SLOWPATH: &str = include_str!("../../../config/samples/slowpath.toml");

fn findings(arguments: &[&str]) -> (Vec<(String, String, String)>, Option<i32>) {
    let output = sluice(&[&["doctor", "--json"], arguments].concat());
    let value: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let findings = value["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| (text(&f["level"]), text(&f["what"]), text(&f["found"])))
        .collect();
    (findings, output.status.code())
}

#[test]
fn without_files_the_running_gateway_is_looked_at() {
    let canned = Canned::serve();
    let output = canned.sluice(&["doctor"]);
    assert_eq!(
        stdout(&output),
        "\
ok      offload-ctl API: configuration version 4
ok      switch 127.0.0.1:9559: in line with the configuration
ok      ld \"ld1\": connected, 2 workers, 200 offloaded sessions
PROBLEM ld \"ld2\": is not connected to offload-ctl; packets that need it are lost
        -> start slowpath on it, and look at its log
doctor: 1 problem
"
        .replace("API", &canned.api())
    );
    assert_eq!(output.status.code(), Some(1));
    let (found, code) = findings(&["--api", "unix:/nosuch/socket"]);
    assert_eq!(code, Some(1));
    assert_eq!(found[0].1, "offload-ctl unix:/nosuch/socket");
}

#[test]
fn a_good_gateway_passes_and_a_bad_one_is_told_with_its_places() {
    let canned = Canned::serve();
    let good = canned.file("gateway.toml", GATEWAY);
    let (found, code) = findings(&["--gateway", good.to_str().unwrap()]);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].0, "ok");
    assert_eq!(code, Some(0));

    let bad = canned.file(
        "bad.toml",
        &GATEWAY.replace("port      = 5201", "port = 80"),
    );
    let (found, code) = findings(&["--gateway", bad.to_str().unwrap()]);
    assert_eq!(code, Some(1));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].1.ends_with("bad.toml vip[1] \"iperf\".port"),
        "{found:?}"
    );

    let unknown = canned.file(
        "typo.toml",
        &GATEWAY.replace("scheduler = \"rr\"", "sheduler = \"rr\""),
    );
    let (found, code) = findings(&["--gateway", unknown.to_str().unwrap()]);
    assert_eq!(code, Some(1));
    assert!(found[0].1.contains("line "), "{found:?}");
    assert!(found[0].2.contains("sheduler"), "{found:?}");
}

#[test]
fn files_that_do_not_fit_together() {
    let canned = Canned::serve();
    let gateway = canned.file("gateway.toml", GATEWAY);
    let slowpath = SLOWPATH
        .replace("vtep    = \"10.3.0.2\"", "vtep = \"10.3.0.9\"")
        .replace("mtu         = 1550", "mtu = 1549")
        .replace("iface=ld0", "iface=nosuch0");
    let slowpath = canned.file("slowpath.toml", &slowpath);
    let (found, code) = findings(&[
        "--gateway",
        gateway.to_str().unwrap(),
        "--slowpath",
        slowpath.to_str().unwrap(),
    ]);
    assert_eq!(code, Some(1));
    let problems: Vec<&str> = found
        .iter()
        .filter(|(level, what, _)| level == "problem" && !what.starts_with("capability"))
        .map(|(_, what, _)| what.as_str())
        .collect();
    assert_eq!(
        problems,
        [
            "slowpath.toml vtep",
            "slowpath.toml eal.mtu",
            "interface nosuch0"
        ]
    );
}

#[test]
fn a_running_offload_ctl_and_a_missing_switch_are_seen() {
    let canned = Canned::serve();
    // A port that was free a moment ago; nobody answers there.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let switch = free.local_addr().unwrap();
    drop(free);
    let store = canned.file("store.redb", "");
    let config = canned.file(
        "offload-ctl.toml",
        &format!(
            "api = [\"{}\", \"unix:{}.new\"]\nstore = \"{}\"\n[p4runtime]\naddress = \"{switch}\"\n",
            canned.api(),
            store.display(),
            store.display()
        ),
    );
    let (found, code) = findings(&["--config", config.to_str().unwrap()]);
    assert_eq!(code, Some(1));
    let line = |start: &str| {
        found
            .iter()
            .find(|(_, what, _)| what.starts_with(start))
            .map(|(level, _, found)| (level.as_str(), found.as_str()))
            .unwrap()
    };
    let running = format!("api {}", canned.api());
    assert_eq!(
        line(&running),
        ("ok", "offload-ctl answers, configuration version 4")
    );
    assert_eq!(line("switch "), ("problem", "nobody answers"));
    let second = format!("api unix:{}.new", store.display());
    assert_eq!(line(&second), ("ok", "free; offload-ctl is not running"));
}
