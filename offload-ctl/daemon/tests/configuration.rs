//! Applying, changing and taking back configurations (I4).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Daemon, FakeSwitch, GATEWAY, Ld, eventually, settings, store_dir};
use offload_api::v1::{self, ctl_message, set_server_state_request::Action};
use offload_ctl::core::AdminRequest;
use offload_ctl::dataplane::{Update, UpdateError};
use offload_ctl::entry::{Entry, Key, Role, Table, Value};
use offload_ctl::flows::{Dir, Pair};

fn of_table(switch: &FakeSwitch, table: Table) -> Vec<Entry> {
    switch.with(|state| {
        let all = state.entries.values();
        all.filter(|e| e.key.table() == table).copied().collect()
    })
}

/// The lab's configuration without what is between two markers.
fn without(text: &str, from: &str, to: Option<&str>) -> String {
    let start = text.find(from).unwrap();
    let end = to.map_or(text.len(), |to| {
        start + from.len() + text[start + from.len()..].find(to).unwrap()
    });
    format!("{}{}", &text[..start], &text[end..])
}

/// Without server s3 of VIP "web".
fn without_s3() -> String {
    without(
        GATEWAY,
        "  [[vip.server]]\n  name    = \"s3\"\n  address = \"10.2.3.2\"\n  port    = 8080",
        Some("[[vip]]"),
    )
}

/// Without VIP "web".
fn without_web() -> String {
    let start = GATEWAY.find("[[vip]]").unwrap();
    let second = start + 7 + GATEWAY[start + 7..].find("[[vip]]").unwrap();
    format!("{}{}", &GATEWAY[..start], &GATEWAY[second..])
}

async fn set_state(
    daemon: &Daemon,
    vip: &str,
    server: &str,
    action: Action,
) -> Result<u64, tonic::Status> {
    let request = v1::SetServerStateRequest {
        vip: vip.to_owned(),
        server: server.to_owned(),
        action: action.into(),
    };
    daemon
        .api
        .ask(|reply| AdminRequest::SetServerState(request, reply))
        .await
        .map(|response| response.version)
}

fn state_of(vip: &v1::Vip, server: &str) -> v1::ServerState {
    let server = vip.servers.iter().find(|s| s.name == server);
    server.map_or(v1::ServerState::Unspecified, v1::Server::state)
}

#[tokio::test]
async fn the_lab_s_configuration_becomes_the_tables_of_the_contract() {
    let (dir, switch) = (store_dir(), FakeSwitch::new());
    let daemon = Daemon::start_configured(&dir, &switch).await;
    let web = daemon.vip("web").await;
    let entry = |key| switch.get(&key).map(|entry| entry.value);
    assert_eq!(
        entry(Key::IngressPort { port: 5, vid: 0 }),
        Some(Value::Port {
            role: Role::Ld,
            vni: 0,
            mac: 0x0200_0000_0301
        })
    );
    assert_eq!(entry(Key::EgressPort { port: 1 }), Some(Value::Untagged));
    let vtep = [10, 3, 0, 1].into();
    assert_eq!(entry(Key::Vtep { addr: vtep }), Some(Value::Decap));
    let vip = Key::VipV4 {
        vni: 0,
        protocol: 6,
        addr: [10, 100, 0, 10].into(),
        port_low: 80,
        port_high: 80,
    };
    let web_id = u16::try_from(web.vip_id).unwrap();
    assert!(matches!(entry(vip), Some(Value::Vip { vip_id, .. }) if vip_id == web_id));
    assert_eq!(
        entry(Key::VipOut { id: web_id }),
        Some(Value::VipOut {
            addr: [10, 100, 0, 10].into()
        })
    );
    // The servers of a VIP with a range of ports keep them.
    let echo = daemon.vip("echo").await;
    let s1 = u16::try_from(echo.servers[0].server_id).unwrap();
    assert_eq!(
        entry(Key::Server { id: s1 }),
        Some(Value::Server {
            addr: [10, 2, 1, 2].into(),
            port: 0
        })
    );
    // Sixteen local addresses, four for each of four slots.
    let lips = of_table(&switch, Table::LipV4);
    assert_eq!(lips.len(), 16);
    let buckets = of_table(&switch, Table::Bucket);
    assert_eq!(buckets.len(), 256);
    for slot in of_table(&switch, Table::Slot) {
        let Key::Slot { slot } = slot.key else {
            panic!("not a slot")
        };
        let lips = lips
            .iter()
            .filter(|e| matches!(e.value, Value::Lip { slot: of, .. } if of == slot));
        assert_eq!(lips.count(), 4);
        let share = buckets
            .iter()
            .filter(|e| e.value == Value::ToSlot { slot })
            .count();
        assert_eq!(share, 64);
    }
    // The tunnel to the LD leaves 1600 - 50 bytes; links to servers 1500.
    let mtus: Vec<Value> = of_table(&switch, Table::NexthopMtu)
        .iter()
        .map(|e| e.value)
        .collect();
    assert_eq!(
        mtus.iter()
            .filter(|v| **v == Value::Mtu { mtu: 1550 })
            .count(),
        1
    );
    assert_eq!(
        mtus.iter()
            .filter(|v| **v == Value::Mtu { mtu: 1500 })
            .count(),
        3
    );
    // No id is 0, and none is used twice.
    for table in [Table::Server, Table::Local, Table::VipOut, Table::Slot] {
        assert!(of_table(&switch, table).iter().all(|e| !matches!(
            e.key,
            Key::Server { id: 0 }
                | Key::Local { id: 0 }
                | Key::VipOut { id: 0 }
                | Key::Slot { slot: 0 }
        )));
    }
}

#[tokio::test]
async fn a_bad_configuration_changes_nothing() {
    let (dir, switch) = (store_dir(), FakeSwitch::new());
    let daemon = Daemon::start_configured(&dir, &switch).await;
    let before = switch.with(|state| (state.entries.clone(), state.log.len()));
    let overlap = GATEWAY.replace("port      = 5201", "port      = 80");
    let cases = [
        (overlap.as_str(), "vip[1] \"iperf\""),
        (
            &GATEWAY.replace("scheduler = \"rr\"", "sheduler = \"rr\""),
            "line ",
        ),
        (&GATEWAY.replace("10.9.0.0/28", "10.9.0.0/33"), "line "),
        (
            &GATEWAY.replace("10.9.0.0/28", "10.2.1.0/28"),
            "group[0] \"edge\".lips",
        ),
        ("", "the file"),
    ];
    for (text, place) in cases {
        let response = daemon.try_apply(text, false).await;
        assert_eq!(response.version, 1);
        let told = response
            .problems
            .iter()
            .any(|p| p.place.starts_with(place) && !p.what.is_empty() && !p.way_out.is_empty());
        assert!(
            told || place == "the file" && !response.problems.is_empty(),
            "{place}: {response:?}"
        );
    }
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    assert_eq!(
        switch.with(|state| (state.entries.clone(), state.log.len())),
        before
    );
    assert_eq!(daemon.status().await.config_version, 1);
}

#[tokio::test]
async fn a_plan_names_the_changes_and_makes_none() {
    let (dir, switch) = (store_dir(), FakeSwitch::new());
    let daemon = Daemon::start_configured(&dir, &switch).await;
    let written = switch.with(|state| state.log.len());
    let text = without_s3().replace("scheduler = \"rr\"", "scheduler = \"wrr\"");
    let plan = daemon.try_apply(&text, true).await;
    let lines: Vec<(String, String)> = plan
        .changes
        .iter()
        .map(|c| (format!("{:?} {}", c.kind(), c.object), c.detail.clone()))
        .collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(lines[0].0, "Modify vip \"web\"");
    assert_eq!(lines[0].1, "scheduler: rr -> wrr");
    assert_eq!(lines[1].0, "Remove vip \"web\" server \"s3\"");
    assert_eq!(plan.version, 1);
    assert_eq!(daemon.try_apply(GATEWAY, true).await.changes, vec![]);
    assert_eq!(daemon.status().await.config_version, 1);
    assert_eq!(switch.with(|state| state.log.len()), written);
}

#[tokio::test]
async fn a_stale_expectation_is_refused() {
    let (dir, switch) = (store_dir(), FakeSwitch::new());
    let daemon = Daemon::start_configured(&dir, &switch).await;
    let request = v1::ApplyRequest {
        config_toml: GATEWAY.to_owned(),
        dry_run: false,
        expected_version: 7,
    };
    let refused = daemon
        .api
        .ask(|reply| AdminRequest::Apply(request, reply))
        .await
        .unwrap_err();
    assert!(
        refused.message().contains("version 1, not 7"),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_removed_server_keeps_its_sessions_until_they_end() {
    let (dir, switch) = (store_dir(), FakeSwitch::new());
    let daemon = Daemon::start_configured(&dir, &switch).await;
    let mut ld = Ld::attach_empty(&daemon, 1).await;
    let web = daemon.vip("web").await;
    let s3 = web
        .servers
        .iter()
        .find(|s| s.name == "s3")
        .unwrap()
        .server_id;
    let mut flow = ld.flow(1, 40_000);
    flow.server_id = s3;
    ld.install(vec![flow]).await;
    ld.installed().await;
    let key = Key::Server {
        id: u16::try_from(s3).unwrap(),
    };
    let (server, pair) = (switch.get(&key), Pair::from_api(&flow).unwrap());
    assert!(server.is_some());
    let written = switch.with(|state| state.log.len());

    daemon.apply(&without_s3()).await;
    daemon.converged().await;
    let ctl_message::Message::Snapshot(snapshot) = ld.hear().await.unwrap() else {
        panic!("a snapshot comes");
    };
    assert_eq!(snapshot.version, 2);
    assert!(
        snapshot
            .vips
            .iter()
            .all(|v| v.name != "web" || v.servers.len() == 2)
    );
    assert_eq!(switch.get(&key), server);
    for dir in Dir::BOTH {
        assert_eq!(switch.get(&pair.key(dir)), Some(pair.entry(dir)));
    }
    // Nothing that the session needs was even touched.
    switch.with(|state| {
        for (update, _) in &state.log[written..] {
            assert!(
                update.key() != key && !update.key().table().is_flow(),
                "{update:?}"
            );
        }
    });
    // After a restart too.
    ld.leave().await;
    daemon.kill().await;
    switch.disconnect();
    let daemon = Daemon::start(&dir, &switch, settings());
    daemon.converged().await;
    assert_eq!(switch.get(&key), server);
    // The server comes back: the same id again.
    daemon.apply(GATEWAY).await;
    let web = daemon.vip("web").await;
    assert_eq!(
        web.servers
            .iter()
            .find(|s| s.name == "s3")
            .unwrap()
            .server_id,
        s3
    );
}

#[tokio::test]
async fn a_removed_vip_retires_once_its_sessions_are_gone() {
    let (dir, switch) = (store_dir(), FakeSwitch::new());
    let daemon = Daemon::start_configured(&dir, &switch).await;
    let mut ld = Ld::attach_empty(&daemon, 1).await;
    let flow = ld.flow(1, 40_000);
    ld.install(vec![flow]).await;
    ld.installed().await;
    let class = |switch: &FakeSwitch| {
        of_table(switch, Table::VipV4)
            .iter()
            .any(|e| matches!(e.key, Key::VipV4 { port_low: 80, .. }))
    };
    let heartbeat = |sessions| v1::Heartbeat {
        gauges: [(format!("vip.{}.sessions", flow.vip_id), sessions)].into(),
        healthy: true,
        ..v1::Heartbeat::default()
    };
    ld.say(v1::ld_message::Message::Heartbeat(heartbeat(1)))
        .await;

    daemon.apply(&without_web()).await;
    daemon.converged().await;
    let ctl_message::Message::Snapshot(snapshot) = ld.hear().await.unwrap() else {
        panic!("a snapshot comes");
    };
    // Its packets still find it, but nobody new does.
    let web = snapshot.vips.iter().find(|v| v.name == "web").unwrap();
    assert!(
        web.servers
            .iter()
            .all(|s| s.state() == v1::ServerState::Drain)
    );
    assert!(class(&switch));
    assert!(daemon.vips().await.iter().any(|v| v.retiring));

    ld.remove(vec![1]).await;
    assert_eq!(ld.removed().await[0].session_id, 1);
    // Sessions that were never offloaded count as well.
    tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
    assert!(class(&switch));
    ld.say(v1::ld_message::Message::Heartbeat(heartbeat(0)))
        .await;
    eventually("the VIP is gone", async || !class(&switch)).await;
    assert!(daemon.vips().await.iter().all(|v| !v.retiring));
    let id = u16::try_from(flow.vip_id).unwrap();
    eventually("and so is its id", async || {
        !switch.has(&Key::VipOut { id })
    })
    .await;
}

#[tokio::test]
async fn drain_and_undrain_outlive_apply_and_restart() {
    let (dir, switch) = (store_dir(), FakeSwitch::new());
    let daemon = Daemon::start_configured(&dir, &switch).await;
    assert_eq!(
        set_state(&daemon, "web", "s2", Action::Drain)
            .await
            .unwrap(),
        2
    );
    assert_eq!(
        state_of(&daemon.vip("web").await, "s2"),
        v1::ServerState::Drain
    );
    assert_eq!(
        state_of(&daemon.vip("iperf").await, "s2"),
        v1::ServerState::Up
    );
    // Once more: nothing changes.
    assert_eq!(
        set_state(&daemon, "web", "s2", Action::Drain)
            .await
            .unwrap(),
        2
    );
    daemon.apply(GATEWAY).await;
    daemon.kill().await;
    switch.disconnect();
    let daemon = Daemon::start(&dir, &switch, settings());
    assert_eq!(
        state_of(&daemon.vip("web").await, "s2"),
        v1::ServerState::Drain
    );
    let generation = daemon.vip("web").await.generation;
    set_state(&daemon, "web", "s2", Action::Up).await.unwrap();
    let web = daemon.vip("web").await;
    assert_eq!(state_of(&web, "s2"), v1::ServerState::Up);
    assert!(web.generation > generation);
    for (vip, server, names) in [
        ("nosuch", "s2", "web, iperf, echo"),
        ("web", "s9", "s1, s2, s3"),
    ] {
        let refused = set_state(&daemon, vip, server, Action::Drain)
            .await
            .unwrap_err();
        assert!(refused.message().ends_with(names), "{refused:?}");
    }
}

#[tokio::test]
async fn kill_ends_sessions_at_connected_and_absent_lds() {
    let (dir, switch) = (store_dir(), FakeSwitch::new());
    let daemon = Daemon::start_configured(&dir, &switch).await;
    let mut ld = Ld::attach_empty(&daemon, 1).await;
    let (one, other) = (ld.flow(1, 40_000), ld.flow(2, 40_001));
    assert_ne!(one.server_id, other.server_id);
    ld.install(vec![one, other]).await;
    ld.all_installed(vec![1, 2]).await;
    let name = |id: u32, vip: &v1::Vip| {
        let server = vip.servers.iter().find(|s| s.server_id == id);
        server.unwrap().name.clone()
    };
    let web = daemon.vip("web").await;
    let killed = name(one.server_id, &web);
    set_state(&daemon, "web", &killed, Action::Kill)
        .await
        .unwrap();
    let ctl_message::Message::Kill(kill) = ld.answer().await else {
        panic!("not Kill");
    };
    assert_eq!((kill.vip_id, kill.server_id), (one.vip_id, one.server_id));
    assert_eq!(switch.flows().len(), 4, "the LD ends its sessions");
    ld.leave().await;
    set_state(&daemon, "web", &killed, Action::Kill)
        .await
        .unwrap();
    let gone = Pair::from_api(&one).unwrap();
    eventually("nobody was there, so offload-ctl does", async || {
        !switch.has(&gone.key(Dir::Fwd)) && !switch.has(&gone.key(Dir::Rev))
    })
    .await;
    assert_eq!(switch.flows().len(), 2);
}

#[tokio::test]
async fn a_refused_entry_is_told_and_tried_again() {
    let (dir, switch) = (store_dir(), FakeSwitch::new());
    switch.with(|state| {
        state.fault = Some(Box::new(|update| match update {
            Update::Insert(entry) if entry.key.table() == Table::Vtep => {
                Some(UpdateError::Refused("by the test".to_owned()))
            }
            _ => None,
        }));
    });
    let daemon = Daemon::start(&dir, &switch, settings());
    daemon.apply(GATEWAY).await;
    eventually("the refusal is told", async || {
        let detail = daemon.status().await.switch.unwrap().detail;
        detail.contains("1 entries were refused") && detail.contains("by the test")
    })
    .await;
    // Everything else is there.
    assert_eq!(of_table(&switch, Table::Bucket).len(), 256);
    switch.with(|state| state.fault = None);
    daemon.converged().await;
}

#[tokio::test]
async fn entries_are_written_from_the_bottom_up() {
    let (dir, switch) = (store_dir(), FakeSwitch::new());
    let _daemon = Daemon::start_configured(&dir, &switch).await;
    let order: Vec<Table> =
        switch.with(|state| state.log.iter().map(|(u, _)| u.key().table()).collect());
    assert!(order.is_sorted(), "{order:?}");
}

#[tokio::test]
async fn an_ld_that_does_not_belong_is_told_why() {
    let (dir, switch) = (store_dir(), FakeSwitch::new());
    let daemon = Daemon::start(&dir, &switch, settings());
    let refused = Ld::try_attach(&daemon, "ld1", 1).await.err().unwrap();
    assert!(refused.message().contains("sluice apply"), "{refused:?}");
    daemon.apply(GATEWAY).await;
    let refused = Ld::try_attach(&daemon, "ld7", 1).await.err().unwrap();
    assert!(refused.message().contains("no ld \"ld7\""), "{refused:?}");
    assert!(refused.message().contains("ld1"), "{refused:?}");
    // A second process under one name takes the first one's place.
    let mut first = Ld::attach(&daemon, 1).await;
    let _second = Ld::attach(&daemon, 2).await;
    let ended = first.hear().await.err().unwrap();
    assert_eq!(ended.code(), tonic::Code::Aborted);
}

#[tokio::test]
async fn earlier_versions_are_kept_for_a_way_back() {
    let (dir, switch) = (store_dir(), FakeSwitch::new());
    let daemon = Daemon::start_configured(&dir, &switch).await;
    daemon.apply(&without_web()).await;
    set_state(&daemon, "iperf", "s1", Action::Drain)
        .await
        .unwrap();
    let get = async |version| {
        let request = v1::GetConfigRequest { version };
        daemon
            .api
            .ask(|reply| AdminRequest::GetConfig(request, reply))
            .await
    };
    let now = get(0).await.unwrap();
    assert_eq!((now.version, now.config_toml), (3, without_web()));
    assert_eq!(now.drained, ["iperf/s1"]);
    let first = get(1).await.unwrap();
    assert_eq!(first.config_toml, GATEWAY);
    assert!(first.applied_unix_ms > 1_700_000_000_000);
    daemon.apply(&first.config_toml).await;
    assert_eq!(get(0).await.unwrap().version, 4);
    assert!(daemon.vips().await.iter().all(|vip| !vip.retiring));
    let missing = get(77).await.unwrap_err();
    assert!(missing.message().contains("in force is 4"), "{missing:?}");
}

#[tokio::test]
async fn a_removed_local_address_keeps_its_sessions_and_gets_no_new_ones() {
    let (dir, switch) = (store_dir(), FakeSwitch::new());
    let daemon = Daemon::start_configured(&dir, &switch).await;
    let mut ld = Ld::attach_empty(&daemon, 1).await;
    let flow = ld.flow(1, 40_000);
    ld.install(vec![flow]).await;
    ld.installed().await;
    let before = of_table(&switch, Table::LipV4);
    let id = u16::try_from(flow.local_id).unwrap();
    // All local addresses are replaced by others.
    daemon
        .apply(&GATEWAY.replace("10.9.0.0/28", "10.9.1.0/28"))
        .await;
    daemon.converged().await;
    let ctl_message::Message::Snapshot(snapshot) = ld.hear().await.unwrap() else {
        panic!("a snapshot comes");
    };
    let draining = snapshot.locals.iter().filter(|local| local.draining);
    assert_eq!(draining.count(), 16);
    assert_eq!(snapshot.locals.len(), 32);
    let after = of_table(&switch, Table::LipV4);
    assert_eq!(after.len(), 32);
    assert!(before.iter().all(|entry| after.contains(entry)));
    assert!(switch.has(&Key::Local { id }));
    assert_eq!(switch.flows().len(), 2);
    // They come back: the same ids and slots, and no longer draining.
    daemon.apply(GATEWAY).await;
    daemon.converged().await;
    let again = of_table(&switch, Table::LipV4);
    assert!(before.iter().all(|entry| again.contains(entry)));
}
