//! Install, remove, idle: what an LD sees, and what the switch has.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Daemon, FakeSwitch, Ld, eventually, store_dir};
use offload_api::v1::{RejectReason, ctl_message};
use offload_ctl::dataplane::{Count, Notice, Update, UpdateError};
use offload_ctl::entry::{Key, Table};
use offload_ctl::flows::{Dir, Pair};

#[tokio::test]
async fn a_session_lives_from_install_to_removed() {
    let (dir, switch) = (store_dir(), FakeSwitch::new());
    let daemon = Daemon::start_configured(&dir, &switch).await;
    let mut ld = Ld::attach_empty(&daemon, 1).await;
    let flow = ld.flow(7, 40_000);
    let pair = Pair::from_api(&flow).unwrap();
    ld.install(vec![flow]).await;
    assert_eq!(ld.installed().await, [7]);
    for dir in Dir::BOTH {
        assert_eq!(switch.get(&pair.key(dir)), Some(pair.entry(dir)));
    }
    // Asked again: told again, nothing written.
    let written = switch.with(|state| state.log.len());
    ld.install(vec![flow]).await;
    assert_eq!(ld.installed().await, [7]);
    assert_eq!(switch.with(|state| state.log.len()), written);

    let count = |packets, bytes| Count { packets, bytes };
    switch.with(|state| {
        state.counts.insert(pair.key(Dir::Fwd), count(10, 1000));
        state.counts.insert(pair.key(Dir::Rev), count(20, 30_000));
    });
    ld.remove(vec![7]).await;
    let totals = ld.removed().await;
    assert_eq!(totals.len(), 1);
    assert_eq!(
        (totals[0].fwd_packets, totals[0].fwd_bytes),
        (10, 1000),
        "final counters are read before the deletion"
    );
    assert_eq!((totals[0].rev_packets, totals[0].rev_bytes), (20, 30_000));
    assert_eq!(switch.flows(), []);
    // Unknown by now: removed all the same, without counters.
    ld.remove(vec![7]).await;
    assert_eq!(ld.removed().await[0].fwd_packets, 0);
    let status = daemon.status().await;
    assert_eq!(status.flows, 0);
    assert_eq!(status.counters["installs"], 1);
    assert_eq!(status.counters["removes"], 1);
}

#[tokio::test]
async fn many_sessions_share_writes() {
    let (dir, switch) = (store_dir(), FakeSwitch::new());
    let daemon = Daemon::start_configured(&dir, &switch).await;
    let mut ld = Ld::attach_empty(&daemon, 1).await;
    let before = switch.with(|state| state.batches.len());
    for id in 1..=600u64 {
        ld.install(vec![ld.flow(id, 40_000 + id as u32)]).await;
    }
    ld.all_installed((1..=600).collect()).await;
    let batches = switch.with(|state| state.batches[before..].to_vec());
    assert_eq!(batches.iter().sum::<usize>(), 1200);
    assert!(batches.iter().all(|size| *size <= 500), "{batches:?}");
    assert!(batches.len() < 300, "{} writes", batches.len());
    ld.remove((1..=600).collect()).await;
    let mut removed = 0;
    while removed < 600 {
        removed += ld.removed().await.len();
    }
    assert_eq!(switch.flows(), []);
}

#[tokio::test]
async fn one_direction_refused_leaves_neither() {
    for table in [Table::FlowFwdV4, Table::FlowRevV4] {
        let (dir, switch) = (store_dir(), FakeSwitch::new());
        let daemon = Daemon::start_configured(&dir, &switch).await;
        let mut ld = Ld::attach_empty(&daemon, 1).await;
        switch.with(|state| {
            state.fault = Some(Box::new(move |update| match update {
                Update::Insert(entry) if entry.key.table() == table => {
                    Some(UpdateError::Full("by the test".to_owned()))
                }
                _ => None,
            }));
        });
        ld.install(vec![ld.flow(1, 40_000)]).await;
        let rejected = ld.rejected().await;
        assert_eq!(rejected[0].session_id, 1);
        assert_eq!(rejected[0].reason(), RejectReason::TableFull);
        assert!(rejected[0].detail.contains("table flow_"), "{rejected:?}");
        assert_eq!(switch.flows(), [], "{table:?}");
        // The keys are free again.
        switch.with(|state| state.fault = None);
        ld.install(vec![ld.flow(2, 40_000)]).await;
        assert_eq!(ld.installed().await, [2]);
    }
}

#[tokio::test]
async fn a_full_table_is_told_without_asking_the_switch() {
    let (dir, switch) = (store_dir(), FakeSwitch::new());
    let mut settings = common::settings();
    settings.flow_capacity = 3;
    let daemon = Daemon::start(&dir, &switch, settings);
    daemon.apply(common::GATEWAY).await;
    daemon.converged().await;
    let mut ld = Ld::attach_empty(&daemon, 1).await;
    ld.install((1..=3).map(|id| ld.flow(id, 40_000 + id as u32)).collect())
        .await;
    ld.all_installed(vec![1, 2, 3]).await;
    ld.install(vec![ld.flow(4, 50_000)]).await;
    let rejected = ld.rejected().await;
    assert_eq!(rejected[0].reason(), RejectReason::TableFull);
    assert!(
        rejected[0].detail.contains("hold 3 entries"),
        "{rejected:?}"
    );
}

#[tokio::test]
async fn removed_is_not_said_before_the_switch_has_deleted() {
    let (dir, switch) = (store_dir(), FakeSwitch::new());
    let daemon = Daemon::start_configured(&dir, &switch).await;
    let mut ld = Ld::attach_empty(&daemon, 1).await;
    ld.install(vec![ld.flow(1, 40_000)]).await;
    ld.installed().await;
    // The switch refuses deletions of one direction for a while.
    switch.with(|state| {
        state.fault = Some(Box::new(|update| match update {
            Update::Delete(Key::FlowRev(_)) => Some(UpdateError::Refused("busy".to_owned())),
            _ => None,
        }));
    });
    ld.remove(vec![1]).await;
    ld.silent_for(300).await;
    assert_eq!(switch.flows().len(), 1);
    switch.with(|state| state.fault = None);
    assert_eq!(ld.removed().await[0].session_id, 1);
    assert_eq!(switch.flows(), []);
}

#[tokio::test]
async fn a_client_that_reuses_its_port_waits_for_the_old_session_s_end() {
    let (dir, switch) = (store_dir(), FakeSwitch::new());
    let daemon = Daemon::start_configured(&dir, &switch).await;
    let mut ld = Ld::attach_empty(&daemon, 1).await;
    let old = ld.flow(1, 40_000);
    ld.install(vec![old]).await;
    ld.installed().await;
    // The same client tuple, another local port: the forward key is taken.
    let mut new = ld.flow(2, 40_000);
    new.local_port = 5555;
    ld.install(vec![new]).await;
    let rejected = ld.rejected().await;
    assert_eq!(rejected[0].reason(), RejectReason::Conflict);
    // After Remove the new one goes in by itself, without another request.
    ld.remove(vec![1]).await;
    ld.install(vec![new]).await;
    assert_eq!(ld.removed().await[0].session_id, 1);
    assert_eq!(ld.installed().await, [2]);
    let pair = Pair::from_api(&new).unwrap();
    assert_eq!(switch.get(&pair.key(Dir::Fwd)), Some(pair.entry(Dir::Fwd)));
    assert_eq!(switch.flows().len(), 2);
}

#[tokio::test]
async fn ids_that_are_not_configured_are_refused() {
    let (dir, switch) = (store_dir(), FakeSwitch::new());
    let daemon = Daemon::start_configured(&dir, &switch).await;
    let mut ld = Ld::attach_empty(&daemon, 1).await;
    let mut flow = ld.flow(1, 40_000);
    flow.server_id = 999;
    ld.install(vec![flow]).await;
    let rejected = ld.rejected().await;
    assert_eq!(rejected[0].reason(), RejectReason::StaleConfig);
    assert!(rejected[0].detail.contains("server 999"), "{rejected:?}");
    // A server of another VIP would be a wrong delivery.
    let iperf = ld.snapshot.vips.iter().find(|v| v.name == "iperf").unwrap();
    let mut flow = ld.flow(2, 40_000);
    flow.server_id = iperf.servers[0].server_id;
    ld.install(vec![flow]).await;
    assert_eq!(ld.rejected().await[0].reason(), RejectReason::StaleConfig);
    let mut flow = ld.flow(3, 40_000);
    flow.local_port = 80;
    ld.install(vec![flow]).await;
    assert_eq!(ld.rejected().await[0].reason(), RejectReason::Invalid);
    assert_eq!(switch.flows(), []);
}

#[tokio::test]
async fn idle_is_said_once_both_directions_are() {
    let (dir, switch) = (store_dir(), FakeSwitch::new());
    let daemon = Daemon::start_configured(&dir, &switch).await;
    let mut ld = Ld::attach_empty(&daemon, 1).await;
    let flow = ld.flow(1, 40_000);
    let pair = Pair::from_api(&flow).unwrap();
    ld.install(vec![flow]).await;
    ld.installed().await;
    // One direction is idle, the other was hit 9.7 s ago of 10.
    switch.with(|state| {
        state.idle_ms.insert(pair.key(Dir::Fwd), 10_000);
        state.idle_ms.insert(pair.key(Dir::Rev), 9_700);
    });
    switch.notice(Notice::Idle(vec![pair.key(Dir::Fwd)])).await;
    ld.silent_for(100).await;
    // No further notice is needed: it is looked at again when it can be idle.
    switch.with(|state| state.idle_ms.insert(pair.key(Dir::Rev), 10_100));
    let ctl_message::Message::Idle(idle) = ld.answer().await else {
        panic!("not Idle");
    };
    assert_eq!(idle.session_ids, [1]);
    // bmv2 repeats itself every other second; once is enough.
    for _ in 0..3 {
        let keys = vec![pair.key(Dir::Fwd), pair.key(Dir::Rev)];
        switch.notice(Notice::Idle(keys)).await;
    }
    ld.silent_for(200).await;
    assert_eq!(switch.flows().len(), 2, "the LD decides, not offload-ctl");
}

#[tokio::test]
async fn idle_sessions_of_an_absent_ld_are_deleted() {
    let (dir, switch) = (store_dir(), FakeSwitch::new());
    let daemon = Daemon::start_configured(&dir, &switch).await;
    let mut ld = Ld::attach_empty(&daemon, 1).await;
    let flow = ld.flow(1, 40_000);
    let pair = Pair::from_api(&flow).unwrap();
    ld.install(vec![flow]).await;
    ld.installed().await;
    ld.leave().await;
    switch.with(|state| {
        state.idle_ms.insert(pair.key(Dir::Fwd), 10_000);
        state.idle_ms.insert(pair.key(Dir::Rev), 10_000);
    });
    assert_eq!(switch.flows().len(), 2);
    switch.notice(Notice::Idle(vec![pair.key(Dir::Fwd)])).await;
    eventually("the entries are gone", async || switch.flows().is_empty()).await;
}
