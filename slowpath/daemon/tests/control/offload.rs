//! Sessions on their way to the switch and back, and what is told again after the
//! connection was lost.

use offload_api::v1::{
    self, Installed, Removed, ctl_message::Message as Ctl, ld_message::Message as Ld,
};
use slowpath::message::{Command, Event};

use crate::ctl::FakeCtl;
use crate::world::World;
use crate::{common, flow, ids, totals};

#[tokio::test]
async fn offload_there_and_back() {
    let (world, _ctl, mut ld) = World::ready(2).await;
    world.tell(0, Event::Install(flow(1, 2000)));
    world.tell(1, Event::Install(flow(2, 2001)));
    let mut asked = Vec::new();
    while asked.len() < 2 {
        match ld.next().await {
            Ld::Install(install) => asked.extend(install.flows),
            other => panic!("{other:?}"),
        }
    }
    asked.sort_by_key(|f| f.session_id);
    assert_eq!(asked, [flow(1, 2000), flow(2, 2001)]);
    ld.say(Ctl::Installed(Installed {
        session_ids: vec![1],
    }))
    .await;
    ld.say(Ctl::Rejected(v1::Rejected {
        sessions: vec![v1::rejected::One {
            session_id: 2,
            reason: v1::RejectReason::TableFull.into(),
            detail: "flow_fwd_v4 is full".to_owned(),
        }],
    }))
    .await;
    assert!(matches!(world.command(0).await, Command::Installed(1)));
    assert!(matches!(
        world.command(1).await,
        Command::Rejected(2, v1::RejectReason::TableFull)
    ));
    let heartbeat = {
        // Reports have to come back for the figures to be renewed.
        let answer = async {
            loop {
                world.assert_quiet(0).await;
                world.assert_quiet(1).await;
            }
        };
        tokio::select! {
            heartbeat = ld.heartbeat_with(|h| h.gauges.get("offload_count") == Some(&1)) => heartbeat,
            () = answer => unreachable!(),
        }
    };
    assert!(heartbeat.healthy);
    assert_eq!(heartbeat.gauges["offloaded_sessions"], 1);
    assert!(heartbeat.gauges["offload_p50_us"] > 0);
    assert!(heartbeat.gauges["offload_p99_us"] >= heartbeat.gauges["offload_p50_us"]);
    assert_eq!(heartbeat.counters["offload.requested"], 2);
    assert_eq!(heartbeat.counters["offload.rejected"], 1);
    assert_eq!(heartbeat.counters["rx_packets"], 0);
    assert!(world.status.borrow().ready);

    world.tell(
        0,
        Event::Remove {
            session_id: 1,
            reason: v1::RemoveReason::Closed,
        },
    );
    let Ld::Remove(remove) = ld.next().await else {
        panic!("Remove");
    };
    assert_eq!(remove.session_ids, [1]);
    assert_eq!(remove.reason(), v1::RemoveReason::Closed);
    ld.say(Ctl::Removed(Removed {
        sessions: vec![totals(1, 42)],
    }))
    .await;
    assert!(matches!(world.command(0).await, Command::Removed(t) if t == totals(1, 42)));
}

#[tokio::test]
async fn a_restarted_controller_is_told_everything_again() {
    let (world, ctl, mut ld) = World::ready(1).await;
    for id in 1..=3 {
        world.tell(0, Event::Install(flow(id, 2000 + id as u32)));
    }
    let mut asked = 0;
    while asked < 3 {
        if let Ld::Install(install) = ld.next().await {
            asked += install.flows.len();
        }
    }
    ld.say(Ctl::Installed(Installed {
        session_ids: vec![1, 2],
    }))
    .await;
    assert!(matches!(world.command(0).await, Command::Installed(1)));
    assert!(matches!(world.command(0).await, Command::Installed(2)));
    world.tell(
        0,
        Event::Remove {
            session_id: 2,
            reason: v1::RemoveReason::Closed,
        },
    );
    assert!(matches!(ld.next().await, Ld::Remove(_)));
    ctl.kill(ld).await;
    world.disconnected().await;

    // Meanwhile work goes on: a new session, and the end of one.
    world.tell(0, Event::Install(flow(4, 2004)));
    world.tell(0, Event::Install(flow(5, 2005)));
    world.tell(
        0,
        Event::Remove {
            session_id: 5,
            reason: v1::RemoveReason::Closed,
        },
    );
    // Session 5 was never told to anybody: its port is free at once. The port
    // of session 2 is not.
    assert!(matches!(world.command(0).await, Command::Removed(t) if t == totals(5, 0)));
    world.assert_quiet(0).await;

    let mut ctl = FakeCtl::start(&world.path);
    let mut ld = ctl.accept().await;
    let hello = ld.greet(false).await;
    assert_eq!(hello.config_version, 7);
    let Ld::Resync(resync) = ld.next().await else {
        panic!("Resync");
    };
    assert_eq!(ids(&resync.flows), [1, 3]);
    assert_eq!(resync.removing, [2]);
    assert!(resync.done);
    let (mut installs, mut removes) = (Vec::new(), Vec::new());
    while installs.len() < 2 || removes.is_empty() {
        match ld.next().await {
            Ld::Install(install) => installs.extend(ids(&install.flows)),
            Ld::Remove(remove) => removes.extend(remove.session_ids),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((installs, removes), (vec![3, 4], vec![2]));
    ld.say(Ctl::Removed(Removed {
        sessions: vec![totals(2, 9)],
    }))
    .await;
    assert!(matches!(world.command(0).await, Command::Removed(t) if t == totals(2, 9)));

    // The same configuration again changes nothing and is acknowledged.
    ld.say(Ctl::Snapshot(common::snapshot())).await;
    assert!(matches!(ld.next().await, Ld::SnapshotAck(ack) if ack.version == 7));
    world.assert_quiet(0).await;
}
