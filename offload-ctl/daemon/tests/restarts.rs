//! Switch, offload-ctl and LDs that go and come back (I1, I3, I6).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Daemon, FakeSwitch, Ld, eventually, store_dir};
use offload_api::v1::{RejectReason, ctl_message};
use offload_ctl::dataplane::Update;
use offload_ctl::entry::{Entry, Key, Value};
use offload_ctl::flows::{Dir, Pair};

fn config_entries(switch: &FakeSwitch) -> Vec<Entry> {
    switch.with(|state| {
        state
            .entries
            .values()
            .filter(|entry| !entry.key.table().is_flow())
            .copied()
            .collect()
    })
}

async fn with_sessions(count: u64) -> (tempfile::TempDir, std::sync::Arc<FakeSwitch>, Daemon, Ld) {
    let (dir, switch) = (store_dir(), FakeSwitch::new());
    let daemon = Daemon::start_configured(&dir, &switch).await;
    let mut ld = Ld::attach_empty(&daemon, 1).await;
    ld.install(
        (1..=count)
            .map(|id| ld.flow(id, 40_000 + id as u32))
            .collect(),
    )
    .await;
    ld.all_installed((1..=count).collect()).await;
    (dir, switch, daemon, ld)
}

#[tokio::test]
async fn a_restarted_switch_gets_everything_back() {
    let (_dir, switch, daemon, mut ld) = with_sessions(5).await;
    let (config, flows) = (config_entries(&switch), switch.flows());
    assert!(config.len() > 100);
    assert_eq!(flows.len(), 10);
    switch.restart();
    eventually("all entries are back", async || {
        config_entries(&switch) == config && switch.flows() == flows
    })
    .await;
    assert_eq!(switch.with(|state| state.pushes), 2);
    ld.silent_for(100).await;
    let status = daemon.status().await;
    assert_eq!(status.counters["reinstalled"], 5);
    assert_eq!(status.flows, 5);
}

#[tokio::test]
async fn lds_hear_that_the_switch_went_and_came() {
    let (_dir, switch, _daemon, mut ld) = with_sessions(1).await;
    switch.with(|state| state.reachable = false);
    switch.disconnect();
    let ctl_message::Message::SwitchState(state) = ld.hear().await.unwrap() else {
        panic!("SwitchState comes");
    };
    assert!(!state.up);
    ld.install(vec![ld.flow(2, 50_000)]).await;
    let rejected = ld.rejected().await;
    assert_eq!(rejected[0].reason(), RejectReason::SwitchDown);
    // A removal waits: the entries may be forwarding yet.
    ld.remove(vec![1]).await;
    ld.silent_for(200).await;
    switch.with(|state| state.reachable = true);
    let ctl_message::Message::SwitchState(state) = ld.hear().await.unwrap() else {
        panic!("SwitchState comes");
    };
    assert!(state.up);
    assert_eq!(ld.removed().await[0].session_id, 1);
    assert_eq!(switch.flows(), []);
}

#[tokio::test]
async fn a_lost_answer_is_settled_by_reading() {
    // The writes were carried out, only the answers are lost.
    let (_dir, switch, _daemon, mut ld) = with_sessions(1).await;
    switch.with(|state| state.lose_answers = 1);
    ld.install(vec![ld.flow(2, 50_000)]).await;
    assert_eq!(ld.installed().await, [2]);
    switch.with(|state| state.lose_answers = 1);
    ld.remove(vec![1]).await;
    assert_eq!(ld.removed().await[0].session_id, 1);
    assert_eq!(switch.flows().len(), 2);
    // The writes were not carried out at all.
    switch.with(|state| state.lose_writes = 1);
    ld.install(vec![ld.flow(3, 50_001)]).await;
    assert_eq!(ld.installed().await, [3]);
    switch.with(|state| state.lose_writes = 1);
    ld.remove(vec![2]).await;
    assert_eq!(ld.removed().await[0].session_id, 2);
    assert_eq!(switch.flows().len(), 2);
    assert_eq!(switch.with(|state| state.connections), 5);
    assert_eq!(switch.with(|state| state.pushes), 1, "nothing was wiped");
}

#[tokio::test]
async fn a_restarted_daemon_wipes_nothing_and_knows_its_sessions_again() {
    let (dir, switch, daemon, mut ld) = with_sessions(3).await;
    let flows = [ld.flow(1, 40_001), ld.flow(2, 40_002), ld.flow(3, 40_003)];
    let (config, on_switch) = (config_entries(&switch), switch.flows());
    daemon.kill().await;
    switch.disconnect();
    let written = switch.with(|state| state.log.len());

    let daemon = Daemon::start(&dir, &switch, common::settings());
    daemon.converged().await;
    assert_eq!(
        switch.with(|state| state.log.len()),
        written,
        "not one update"
    );
    assert_eq!(config_entries(&switch), config);
    assert_eq!(switch.flows(), on_switch);
    assert_eq!(daemon.status().await.flows, 3);

    // The LD, still the same process, has closed session 3 meanwhile and takes
    // 4 for installed, which the switch does not have.
    ld = Ld::attach(&daemon, 1).await;
    assert!(!ld.new_boot);
    let fourth = ld.flow(4, 40_004);
    ld.resync(vec![flows[0], flows[1], fourth], vec![3]).await;
    let mut heard = (Vec::new(), Vec::new());
    while heard.0.len() < 3 || heard.1.is_empty() {
        match ld.answer().await {
            ctl_message::Message::Installed(installed) => heard.0.extend(installed.session_ids),
            ctl_message::Message::Removed(removed) => {
                assert_eq!(
                    switch.get(&Pair::from_api(&flows[2]).unwrap().key(Dir::Rev)),
                    None,
                    "its entries are gone before it is said"
                );
                heard
                    .1
                    .extend(removed.sessions.iter().map(|s| s.session_id));
            }
            other => panic!("unexpected: {other:?}"),
        }
    }
    heard.0.sort_unstable();
    assert_eq!(heard, (vec![1, 2, 4], vec![3]));
    let mut wanted = Vec::new();
    for flow in [flows[0], flows[1], fourth] {
        let pair = Pair::from_api(&flow).unwrap();
        wanted.extend(Dir::BOTH.map(|dir| pair.entry(dir)));
    }
    wanted.sort_by_key(|entry| entry.key);
    assert_eq!(switch.flows(), wanted);
    // Sessions 1 and 2 were never touched.
    let touched = switch.with(|state| {
        let keys: Vec<Key> = flows[..2]
            .iter()
            .flat_map(|flow| {
                let pair = Pair::from_api(flow).unwrap();
                Dir::BOTH.map(|dir| pair.key(dir))
            })
            .collect();
        state.log[written..]
            .iter()
            .filter(|(update, _)| keys.contains(&update.key()))
            .count()
    });
    assert_eq!(touched, 0);
}

#[tokio::test]
async fn entries_of_an_absent_ld_stay() {
    let (dir, switch, daemon, ld) = with_sessions(2).await;
    ld.leave().await;
    daemon.kill().await;
    switch.disconnect();
    let daemon = Daemon::start(&dir, &switch, common::settings());
    daemon.converged().await;
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert_eq!(switch.flows().len(), 4);
    daemon.kill().await;
    switch.disconnect();
    // Until the grace is over.
    let mut settings = common::settings();
    settings.absent_ld_grace = std::time::Duration::from_millis(100);
    let _daemon = Daemon::start(&dir, &switch, settings);
    eventually("the entries are gone", async || switch.flows().is_empty()).await;
}

#[tokio::test]
async fn half_a_session_is_cleared_away() {
    let (dir, switch, daemon, ld) = with_sessions(2).await;
    let half = Pair::from_api(&ld.flow(1, 40_001)).unwrap();
    daemon.kill().await;
    switch.with(|state| state.entries.remove(&half.key(Dir::Fwd)));
    switch.disconnect();
    let daemon = Daemon::start(&dir, &switch, common::settings());
    eventually("the half is gone", async || switch.flows().len() == 2).await;
    assert_eq!(switch.get(&half.key(Dir::Rev)), None);
    assert_eq!(daemon.status().await.flows, 1);
}

#[tokio::test]
async fn a_new_process_of_an_ld_adopts_what_is_on_the_switch() {
    let (_dir, switch, daemon, ld) = with_sessions(2).await;
    let on_switch = switch.flows();
    let flows = [ld.flow(1, 40_001), ld.flow(2, 40_002)];
    ld.leave().await;
    let mut ld = Ld::attach_empty(&daemon, 2).await;
    assert!(ld.new_boot);
    let ctl_message::Message::Adopt(adopt) = ld.answer().await else {
        panic!("Adopt comes");
    };
    let mut adopt = adopt.flows;
    adopt.sort_by_key(|flow| flow.client_port);
    for (given, known) in adopt.iter().zip(&flows) {
        let mut given = *given;
        given.session_id = known.session_id;
        assert_eq!(given, *known);
    }
    // One is taken over, one refused.
    let one = |adopt_id, session_id, refused: &str| offload_api::v1::adopted::One {
        adopt_id,
        session_id,
        refused: refused.to_owned(),
    };
    ld.say(offload_api::v1::ld_message::Message::Adopted(
        offload_api::v1::Adopted {
            sessions: vec![
                one(adopt[0].session_id, 77, ""),
                one(adopt[1].session_id, 0, "no room"),
            ],
        },
    ))
    .await;
    eventually("the refused one is gone", async || {
        switch.flows().len() == 2
    })
    .await;
    let kept = Pair::from_api(&flows[0]).unwrap();
    assert!(on_switch.contains(&kept.entry(Dir::Fwd)));
    assert_eq!(switch.get(&kept.key(Dir::Rev)), Some(kept.entry(Dir::Rev)));
    // From now on it is known by its new id.
    ld.remove(vec![77]).await;
    assert_eq!(ld.removed().await[0].session_id, 77);
    assert_eq!(switch.flows(), []);
    // The same process does not adopt again.
    ld.leave().await;
    let ld = Ld::attach(&daemon, 2).await;
    assert!(!ld.new_boot);
}

#[tokio::test]
async fn a_new_process_waits_for_the_switch_to_be_read() {
    let (dir, switch, daemon, _ld) = with_sessions(1).await;
    daemon.kill().await;
    switch.with(|state| state.reachable = false);
    switch.disconnect();
    let daemon = Daemon::start(&dir, &switch, common::settings());
    let mut ld = Ld::attach_empty(&daemon, 2).await;
    ld.silent_for(200).await;
    switch.with(|state| state.reachable = true);
    let ctl_message::Message::Adopt(adopt) = ld.answer().await else {
        panic!("Adopt comes");
    };
    assert_eq!(adopt.flows.len(), 1);
}

#[tokio::test]
async fn drift_is_found_and_repaired() {
    let (dir, switch) = (store_dir(), FakeSwitch::new());
    let mut settings = common::settings();
    settings.readback = Some(std::time::Duration::from_millis(100));
    let daemon = Daemon::start(&dir, &switch, settings);
    daemon.apply(common::GATEWAY).await;
    daemon.converged().await;
    let mut ld = Ld::attach_empty(&daemon, 1).await;
    ld.install((1..=2).map(|id| ld.flow(id, 40_000 + id as u32)).collect())
        .await;
    ld.all_installed(vec![1, 2]).await;
    let (config, flows) = (config_entries(&switch), switch.flows());
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert_eq!(
        daemon.status().await.switch.unwrap().drift_repaired,
        0,
        "what we write ourselves is no drift"
    );
    // Somebody deletes a route, changes a server, deletes a flow entry, and
    // adds an entry of its own.
    let route = config
        .iter()
        .find(|e| matches!(e.key, Key::RouteV4 { len: 32, .. }));
    let server = config.iter().find(|e| matches!(e.key, Key::Server { .. }));
    let (route, server) = (*route.unwrap(), *server.unwrap());
    switch.with(|state| {
        state.entries.remove(&route.key);
        let wrong = Value::Server {
            addr: [9, 9, 9, 9].into(),
            port: 9,
        };
        state
            .entries
            .insert(server.key, Entry::new(server.key, wrong));
        state.entries.remove(&flows[0].key);
        let slot = Key::Slot { slot: 4000 };
        state
            .entries
            .insert(slot, Entry::new(slot, Value::ToLd { nexthop_id: 9 }));
    });
    eventually("all is as it was", async || {
        config_entries(&switch) == config && switch.flows() == flows
    })
    .await;
    eventually("four differences are told", async || {
        daemon.status().await.switch.unwrap().drift_repaired == 4
    })
    .await;
    ld.silent_for(50).await;
}

/// Whatever fails, an LD is told Removed or Rejected only when nothing of the
/// session is on the switch, Installed only when both entries are, and in the
/// end the switch holds exactly what was told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_order_of_faults_breaks_what_an_ld_was_told() {
    use rand::{Rng, SeedableRng};
    for seed in 0..3u64 {
        let mut rng = rand::rngs::StdRng::seed_from_u64(seed);
        let (_dir, switch, _daemon, mut ld) = with_sessions(0).await;
        let mut faults = rand::rngs::StdRng::seed_from_u64(seed + 100);
        switch.with(|state| {
            state.fault = Some(Box::new(move |update: &Update| {
                use offload_ctl::dataplane::UpdateError as E;
                update.key().table().is_flow().then_some(())?;
                match faults.random_range(0..10) {
                    0 => Some(E::Full("by chance".to_owned())),
                    1 => Some(E::Refused("by chance".to_owned())),
                    _ => None,
                }
            }));
        });
        let mut live: Vec<u64> = Vec::new();
        let mut open = 0usize;
        let mut next = 1u64;
        for step in 0..80 {
            match rng.random_range(0..10) {
                0..=4 => {
                    let flow = ld.flow(next, 40_000 + next as u32);
                    next += 1;
                    open += 1;
                    ld.install(vec![flow]).await;
                }
                5..=7 if !live.is_empty() => {
                    let at = rng.random_range(0..live.len());
                    open += 1;
                    ld.remove(vec![live.swap_remove(at)]).await;
                }
                8 if step % 3 == 0 => switch.disconnect(),
                9 if step % 4 == 0 => switch.restart(),
                _ => {
                    let lose = rng.random_bool(0.5);
                    switch.with(|state| {
                        if lose {
                            state.lose_answers = 1;
                        } else {
                            state.lose_writes = 1;
                        }
                    });
                }
            }
            while open > 0 && rng.random_bool(0.7) {
                open -= hear_one(&mut ld, &mut live, &switch).await;
            }
        }
        switch.with(|state| state.fault = None);
        while open > 0 {
            open -= hear_one(&mut ld, &mut live, &switch).await;
        }
        // A session that could not be put back after the last restart may be
        // told to be evicted yet.
        let until = tokio::time::Instant::now() + std::time::Duration::from_secs(20);
        loop {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            let mail = ld.has_mail();
            if mail {
                let answered = hear_unasked(&mut ld, &mut live, &switch).await;
                assert_eq!(answered, 0, "nothing was asked for any more");
            }
            let mut wanted: Vec<Entry> = live
                .iter()
                .flat_map(|id| {
                    let pair = Pair::from_api(&ld.flow(*id, 40_000 + *id as u32)).unwrap();
                    Dir::BOTH.map(|dir| pair.entry(dir))
                })
                .collect();
            wanted.sort_by_key(|entry| entry.key);
            if !mail && switch.flows() == wanted {
                break;
            }
            assert!(
                tokio::time::Instant::now() < until,
                "seed {seed}: told {wanted:?}, on the switch {:?}",
                switch.flows()
            );
        }
    }
}

/// Hears a message that may be mere news; see [`hear_one`].
async fn hear_unasked(ld: &mut Ld, live: &mut Vec<u64>, switch: &FakeSwitch) -> usize {
    // Nothing comes of news about the switch or the configuration.
    let limit = std::time::Duration::from_millis(200);
    tokio::time::timeout(limit, hear_one(ld, live, switch))
        .await
        .unwrap_or_default()
}

/// Hears one message, checks it against the switch, and returns how many open
/// requests it answers.
async fn hear_one(ld: &mut Ld, live: &mut Vec<u64>, switch: &FakeSwitch) -> usize {
    let gone = |ld: &Ld, id: u64| {
        let pair = Pair::from_api(&ld.flow(id, 40_000 + id as u32)).unwrap();
        for dir in Dir::BOTH {
            assert!(!switch.has(&pair.key(dir)), "session {id} is still there");
        }
    };
    match ld.answer().await {
        ctl_message::Message::Installed(installed) => {
            let count = installed.session_ids.len();
            live.extend(installed.session_ids);
            count
        }
        ctl_message::Message::Rejected(rejected) => {
            for one in &rejected.sessions {
                gone(ld, one.session_id);
            }
            rejected.sessions.len()
        }
        ctl_message::Message::Removed(removed) => {
            for one in &removed.sessions {
                gone(ld, one.session_id);
            }
            removed.sessions.len()
        }
        ctl_message::Message::Evicted(evicted) => {
            // Told of a session that was live, or that is being removed: that
            // removal is answered on its own.
            for one in &evicted.sessions {
                gone(ld, one.session_id);
                live.retain(|id| *id != one.session_id);
            }
            0
        }
        other => panic!("unexpected: {other:?}"),
    }
}
