//! ARP and ICMP echo by packet-in and packet-out.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Daemon, FakeSwitch, eventually, settings, store_dir};
use offload_ctl::dataplane::Notice;
use offload_ctl::entry::{Key, Value};
use offload_ctl::frames::{self, Arp, Frame};
use sluice_config::Mac;

const CLIENT: Mac = Mac([2, 0, 0, 0, 0x99, 1]);

fn arp_of(frame: &[u8]) -> Arp {
    match frames::parse(frame) {
        Some(Frame::Arp(arp)) => arp,
        other => panic!("not ARP: {other:?}"),
    }
}

/// What went out of a port that is a reply, as far as it is ARP.
fn replies(switch: &FakeSwitch) -> Vec<(u16, Arp)> {
    switch.with(|state| {
        let sent = state.packets_out.iter();
        sent.filter_map(|(port, frame)| match frames::parse(frame) {
            Some(Frame::Arp(arp)) if !arp.request => Some((*port, arp)),
            _ => None,
        })
        .collect()
    })
}

async fn packet_in(switch: &FakeSwitch, port: u16, frame: Vec<u8>) {
    switch
        .notice(Notice::PacketIn {
            port,
            reason: 1,
            frame,
        })
        .await;
}

/// The Ethernet address that the switch sends packets for `addr` to.
fn next_hop(switch: &FakeSwitch, addr: [u8; 4]) -> Option<(u16, u64)> {
    let route = switch.get(&Key::RouteV4 {
        vni: 0,
        addr: addr.into(),
        len: 32,
    })?;
    let Value::ToNexthop { nexthop_id } = route.value else {
        return None;
    };
    match switch.get(&Key::Nexthop { id: nexthop_id })?.value {
        Value::Forward { port, dmac, .. } => Some((port, dmac)),
        _ => None,
    }
}

#[tokio::test]
async fn next_hops_are_asked_for_and_learned() {
    let (dir, switch) = (store_dir(), FakeSwitch::new());
    let daemon = Daemon::start_configured(&dir, &switch).await;
    // Servers and the LD, each from its own port with the switch's addresses.
    eventually("all are asked for", async || {
        let asked = switch.with(|state| {
            let mut asked: Vec<(u16, Arp)> = state
                .packets_out
                .iter()
                .map(|(port, frame)| (*port, arp_of(frame)))
                .collect();
            asked.sort_by_key(|(port, _)| *port);
            asked.dedup();
            asked
        });
        let targets: Vec<(u16, String)> = asked
            .iter()
            .map(|(port, arp)| (*port, arp.target.to_string()))
            .collect();
        targets
            == [
                (2, "10.2.1.2".to_owned()),
                (3, "10.2.2.2".to_owned()),
                (4, "10.2.3.2".to_owned()),
                (5, "10.3.0.2".to_owned()),
            ]
    })
    .await;
    let detail = daemon.status().await.switch.unwrap().detail;
    assert!(detail.contains("10.2.1.2 on port 2"), "{detail}");
    assert_eq!(next_hop(&switch, [10, 2, 1, 2]), None);
    for (port, addr, mac) in [
        (2, [10, 2, 1, 2], [2, 0, 0, 0, 0xa, 1]),
        (5, [10, 3, 0, 2], [2, 0, 0, 0, 0xb, 1]),
    ] {
        let request =
            frames::arp_request(Mac([2, 0, 0, 0, 9, 9]), [1, 1, 1, 1].into(), addr.into());
        packet_in(
            &switch,
            port,
            frames::arp_reply(Mac(mac), &arp_of(&request)),
        )
        .await;
    }
    eventually("the server's next hop is there", async || {
        next_hop(&switch, [10, 2, 1, 2]) == Some((2, 0x0200_0000_0a01))
    })
    .await;
    // The LD's is a tunnel.
    eventually("the LD's next hop is there", async || {
        switch.with(|state| {
            state.entries.values().any(|e| {
                matches!(e.value, Value::Vxlan { port: 5, smac: 0x0200_0000_0301, dmac: 0x0200_0000_0b01, src, dst }
                    if src.octets() == [10, 3, 0, 1] && dst.octets() == [10, 3, 0, 2])
            })
        })
    })
    .await;
    // A server that moves to another interface is followed.
    let moved = frames::arp_request(
        Mac([2, 0, 0, 0, 0xa, 2]),
        [10, 2, 1, 2].into(),
        [10, 2, 1, 1].into(),
    );
    packet_in(&switch, 2, moved).await;
    eventually("the new address is written", async || {
        next_hop(&switch, [10, 2, 1, 2]) == Some((2, 0x0200_0000_0a02))
    })
    .await;
}

#[tokio::test]
async fn clients_get_an_answer_and_a_route_that_outlives_restarts() {
    let (dir, switch) = (store_dir(), FakeSwitch::new());
    let daemon = Daemon::start_configured(&dir, &switch).await;
    let request = frames::arp_request(CLIENT, [10, 1, 0, 2].into(), [10, 1, 0, 1].into());
    packet_in(&switch, 1, request.clone()).await;
    eventually("the answer", async || !replies(&switch).is_empty()).await;
    let (port, reply) = replies(&switch)[0];
    assert_eq!(port, 1);
    assert_eq!(reply.sender_mac, [2, 0, 0, 0, 1, 1]);
    assert_eq!(reply.sender.octets(), [10, 1, 0, 1]);
    assert_eq!(reply.target_mac, CLIENT.0);
    eventually("the route to the client", async || {
        next_hop(&switch, [10, 1, 0, 2]) == Some((1, CLIENT.to_u64()))
    })
    .await;
    let entries = switch.with(|state| state.entries.clone());
    daemon.kill().await;
    switch.disconnect();
    let written = switch.with(|state| state.log.len());
    let daemon = Daemon::start(&dir, &switch, settings());
    daemon.converged().await;
    assert_eq!(switch.with(|state| state.entries.clone()), entries);
    assert_eq!(switch.with(|state| state.log.len()), written);
    // Both gone: the client is asked for without its having to speak first.
    daemon.kill().await;
    switch.restart();
    switch.with(|state| state.packets_out.clear());
    let _daemon = Daemon::start(&dir, &switch, settings());
    eventually("the client is asked for", async || {
        switch.with(|state| {
            state.packets_out.iter().any(|(port, frame)| {
                let arp = arp_of(frame);
                *port == 1 && arp.request && arp.target.octets() == [10, 1, 0, 2]
            })
        })
    })
    .await;
}

#[tokio::test]
async fn what_is_not_for_us_is_neither_answered_nor_learned() {
    let (dir, switch) = (store_dir(), FakeSwitch::new());
    let daemon = Daemon::start_configured(&dir, &switch).await;
    let asks = |mac: Mac, sender: [u8; 4], target: [u8; 4]| {
        frames::arp_request(mac, sender.into(), target.into())
    };
    let strange = [
        // For another host of the link.
        (1, asks(CLIENT, [10, 1, 0, 2], [10, 1, 0, 3])),
        // From another link.
        (2, asks(CLIENT, [10, 1, 0, 2], [10, 1, 0, 1])),
        // From a port that is not configured.
        (77, asks(CLIENT, [10, 1, 0, 2], [10, 1, 0, 1])),
        // Cut short.
        (1, asks(CLIENT, [10, 1, 0, 2], [10, 1, 0, 1])[..30].to_vec()),
    ];
    for (port, frame) in strange {
        packet_in(&switch, port, frame).await;
    }
    // Somebody claims to be us: neither believed nor answered for long.
    packet_in(&switch, 1, asks(CLIENT, [10, 1, 0, 1], [10, 1, 0, 9])).await;
    eventually("all have been looked at", async || {
        daemon.status().await.counters["packet_ins"] == 5
    })
    .await;
    assert_eq!(replies(&switch), []);
    assert_eq!(next_hop(&switch, [10, 1, 0, 2]), None);
    assert_eq!(daemon.status().await.counters["drop.unwanted"], 2);
}

#[tokio::test]
async fn a_host_that_nobody_has_asked_for_is_asked_for_when_a_packet_needs_it() {
    let (dir, switch) = (store_dir(), FakeSwitch::new());
    let daemon = Daemon::start_configured(&dir, &switch).await;
    // An IPv4 packet for 10.1.0.7 from the LD's side.
    let mut frame = vec![2, 0, 0, 0, 3, 1, 2, 0, 0, 0, 9, 9, 8, 0];
    frame.extend([0x45, 0, 0, 20, 0, 0, 0, 0, 63, 6, 0, 0]);
    frame.extend([10, 100, 0, 10, 10, 1, 0, 7]);
    packet_in(&switch, 5, frame).await;
    eventually("it is asked for", async || {
        switch.with(|state| {
            state
                .packets_out
                .iter()
                .any(|(port, frame)| *port == 1 && arp_of(frame).target.octets() == [10, 1, 0, 7])
        })
    })
    .await;
    assert_eq!(daemon.status().await.counters["drop.unresolved"], 1);
}

#[tokio::test]
async fn virtual_addresses_of_a_link_are_answered_for() {
    let (dir, switch) = (store_dir(), FakeSwitch::new());
    let daemon = Daemon::start(&dir, &switch, settings());
    // The VIPs are of the clients' link, and nobody else has them.
    daemon
        .apply(&common::GATEWAY.replace("10.100.0.10", "10.1.0.100"))
        .await;
    daemon.converged().await;
    let asks = |target: [u8; 4]| frames::arp_request(CLIENT, [10, 1, 0, 2].into(), target.into());
    packet_in(&switch, 1, asks([10, 1, 0, 100])).await;
    // Local addresses are of no link here, nor is that one a VIP.
    packet_in(&switch, 1, asks([10, 9, 0, 1])).await;
    packet_in(&switch, 1, asks([10, 1, 0, 101])).await;
    eventually("all have been looked at", async || {
        daemon.status().await.counters["packet_ins"] == 3
    })
    .await;
    let replies = replies(&switch);
    assert_eq!(replies.len(), 1);
    assert_eq!(replies[0].1.sender.octets(), [10, 1, 0, 100]);
    assert_eq!(replies[0].1.sender_mac, [2, 0, 0, 0, 1, 1]);
}

#[tokio::test]
async fn clients_are_not_forgotten_while_the_switch_is_away() {
    let (dir, switch) = (store_dir(), FakeSwitch::new());
    let mut settings = settings();
    settings.arp_retry = std::time::Duration::from_millis(1);
    settings.arp_refresh = std::time::Duration::from_millis(1);
    let daemon = Daemon::start(&dir, &switch, settings);
    daemon.apply(common::GATEWAY).await;
    daemon.converged().await;
    let request = || frames::arp_request(CLIENT, [10, 1, 0, 2].into(), [10, 1, 0, 1].into());
    packet_in(&switch, 1, request()).await;
    eventually("the route to the client", async || {
        next_hop(&switch, [10, 1, 0, 2]).is_some()
    })
    .await;
    // Away for twenty ticks, in which nobody could have answered.
    switch.with(|state| state.reachable = false);
    switch.restart();
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    switch.with(|state| state.reachable = true);
    eventually("the route is back at once", async || {
        next_hop(&switch, [10, 1, 0, 2]) == Some((1, CLIENT.to_u64()))
    })
    .await;
    // One that is there and does not answer is forgotten in the end.
    eventually("the route is gone", async || {
        next_hop(&switch, [10, 1, 0, 2]).is_none()
    })
    .await;
}
