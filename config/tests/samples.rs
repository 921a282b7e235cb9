//! The samples parse, and bad configurations get one clear sentence each.

use sluice_config::{Gateway, OffloadCtl, Slowpath};

const GATEWAY: &str = include_str!("../samples/gateway.toml");
const OFFLOAD_CTL: &str = include_str!("../samples/offload-ctl.toml");
const SLOWPATH: &str = include_str!("../samples/slowpath.toml");

/// The problems of the sample after `from` was replaced by `to`, as sentences.
fn broken(from: &str, to: &str) -> Vec<String> {
    assert!(GATEWAY.contains(from), "the sample no longer has {from:?}");
    match Gateway::parse(&GATEWAY.replacen(from, to, 1)) {
        Ok(_) => panic!("{to:?} in place of {from:?} was accepted"),
        Err(invalid) => invalid.problems.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn samples_are_valid() {
    let gateway = Gateway::parse(GATEWAY).unwrap();
    assert_eq!(gateway.vips.len(), 3);
    assert_eq!(gateway.ports.len(), 5);
    OffloadCtl::parse(OFFLOAD_CTL).unwrap();
    Slowpath::parse(SLOWPATH).unwrap();
}

#[test]
fn a_gateway_survives_being_written_and_read() {
    let gateway = Gateway::parse(GATEWAY).unwrap();
    let text = toml::to_string(&gateway).unwrap();
    assert_eq!(Gateway::parse(&text).unwrap(), gateway);
}

#[test]
fn local_addresses_take_turns_over_the_slots() {
    let gateway = Gateway::parse(GATEWAY).unwrap();
    let locals: Vec<_> = gateway.groups[0].locals().collect();
    assert_eq!(locals.len(), 16);
    assert_eq!(locals[0], ("10.9.0.0".parse().unwrap(), 0));
    assert_eq!(locals[5], ("10.9.0.5".parse().unwrap(), 1));
    assert_eq!(locals[15], ("10.9.0.15".parse().unwrap(), 3));
}

#[test]
fn next_hops_follow_links_then_the_longest_route() {
    let text = GATEWAY.replacen(
        "[[ld]]",
        "[[route]]\nprefix = \"0.0.0.0/0\"\nvia = \"10.1.0.254\"\n\
         [[route]]\nprefix = \"10.2.9.0/24\"\nvia = \"10.2.1.7\"\n[[ld]]",
        1,
    );
    let gateway = Gateway::parse(&text).unwrap();
    let hop = |address: &str| {
        gateway
            .next_hop(0, address.parse().unwrap())
            .map(|(hop, port)| (hop.to_string(), port.number))
    };
    assert_eq!(hop("10.2.3.2"), Some(("10.2.3.2".into(), 4)));
    assert_eq!(hop("10.2.9.9"), Some(("10.2.1.7".into(), 2)));
    assert_eq!(hop("192.0.2.1"), Some(("10.1.0.254".into(), 1)));
    assert_eq!(gateway.next_hop(7, "10.2.3.2".parse().unwrap()), None);
}

#[test]
fn an_unknown_field_is_named_with_its_line() {
    let problems = broken("vtep = \"10.3.0.1\"", "vtepp = \"10.3.0.1\"");
    assert_eq!(problems.len(), 1);
    assert!(
        problems[0].starts_with("line 6, column 1: unknown field `vtepp`"),
        "{problems:?}"
    );
    assert!(problems[0].contains("remove the field or correct its name"));
}

#[test]
fn a_bad_prefix_is_named_with_its_line() {
    let problems = broken("10.1.0.1/24", "10.1.0.1/33");
    assert_eq!(problems.len(), 1);
    assert!(problems[0].starts_with("line 13, column"), "{problems:?}");
}

#[test]
fn an_overlapping_vip_is_refused() {
    let problems = broken(
        "port      = 5201\nprotocol",
        "port      = \"70-90\"\nprotocol",
    );
    assert!(
        problems
            .iter()
            .any(|p| p.starts_with("vip[1] \"iperf\".port")
                && p.contains("overlaps port 80 of vip[0] \"web\"")),
        "{problems:?}"
    );
}

#[test]
fn a_local_address_that_is_a_server_is_refused() {
    let problems = broken("10.9.0.0/28", "10.2.1.0/28");
    assert!(
        problems
            .iter()
            .any(|p| p.contains("contains 10.2.1.2, server \"s1\"")),
        "{problems:?}"
    );
}

#[test]
fn each_fault_names_its_place() {
    for (from, to, place) in [
        ("vtep = \"10.3.0.1\"", "vtep = \"224.0.0.1\"", "switch.vtep"),
        ("number  = 2", "number  = 1", "port[1] \"s1\".number"),
        ("number  = 2", "number  = 510", "port[1] \"s1\".number"),
        ("10.2.2.1/24", "10.2.1.9/24", "port[2] \"s2\".address"),
        ("10.2.2.1/24", "10.2.2.0/24", "port[2] \"s2\".address"),
        ("mtu     = 1600", "mtu     = 1500", "port \"ld1\".mtu"),
        (
            "role    = \"ld\"",
            "role    = \"fabric\"",
            "ld[0] \"ld1\".vtep",
        ),
        (
            "lds   = [\"ld1\"]",
            "lds   = [\"ld2\"]",
            "group[0] \"edge\".lds",
        ),
        (
            "lips  = [\"10.9.0.0/28\"]",
            "lips  = [\"10.9.0.1/28\"]",
            "group[0] \"edge\".lips",
        ),
        ("slots = 4", "slots = 17", "group[0] \"edge\".lips"),
        ("slots = 4", "slots = 0", "group[0] \"edge\".slots"),
        (
            "group     = \"edge\"",
            "group     = \"core\"",
            "vip[0] \"web\".group",
        ),
        (
            "address   = \"10.100.0.10\"",
            "address   = \"10.3.0.2\"",
            "vip[0] \"web\".address",
        ),
        (
            "address = \"10.2.1.2\"",
            "address = \"10.77.0.1\"",
            "vip[0] \"web\".server[0] \"s1\".address",
        ),
        (
            "port    = 8080",
            "port    = 0",
            "vip[0] \"web\".server[0] \"s1\".port",
        ),
        (
            "fin_ms = 3000",
            "fin_ms = 10",
            "vip[0] \"web\".timeouts.fin_ms",
        ),
        (
            "name    = \"s2\"\n  address",
            "name    = \"s1\"\n  address",
            "vip[0] \"web\".server[1].name",
        ),
        (
            "weight  = 3",
            "port    = 7000",
            "vip[2] \"echo\".server[0] \"s1\".port",
        ),
    ] {
        let problems = broken(from, to);
        assert!(
            problems.iter().any(|p| p.starts_with(place)),
            "{to:?}: no problem at {place}: {problems:?}"
        );
    }
}

#[test]
fn daemons_files_name_their_faults() {
    let refuse = |text: String, place: &str| {
        let problems = OffloadCtl::parse(&text).unwrap_err().problems;
        assert!(problems.iter().any(|p| p.place == place), "{problems:?}");
    };
    refuse(
        OFFLOAD_CTL.replacen("batch             = 500", "batch = 0", 1),
        "flows.batch",
    );
    let problems = Slowpath::parse(&SLOWPATH.replacen("workers = 2", "workers = 17", 1))
        .unwrap_err()
        .problems;
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].place, "workers");
}
