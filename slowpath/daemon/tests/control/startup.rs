//! From the first connection to open workers: the configuration, the entries of an
//! earlier process, and the boot id.

use offload_api::v1::{self, Adopt, ctl_message::Message as Ctl, ld_message::Message as Ld};
use slowpath::message::{Command, Event};

use crate::ctl::FakeCtl;
use crate::world::World;
use crate::{common, flow};

#[tokio::test]
async fn ports_are_handed_out_only_after_everything_was_taken_over() {
    let world = World::new(2);
    let mut ctl = FakeCtl::start(&world.path);
    let mut ld = ctl.accept().await;
    let hello = ld.greet(true).await;
    assert_eq!((hello.name.as_str(), hello.workers), ("ld1", 2));
    assert_eq!(hello.config_version, 0);
    assert_eq!(hello.api_revision, offload_api::API_REVISION);
    assert!(matches!(ld.next().await, Ld::Resync(_)));

    // Entries arrive before the configuration and are held until then.
    ld.say(Ctl::Adopt(Adopt {
        flows: vec![flow(900, 2001)],
        done: false,
    }))
    .await;
    world.assert_quiet(1).await;
    ld.say(Ctl::Snapshot(common::snapshot())).await;
    assert!(matches!(world.command(0).await, Command::Configure(_)));
    assert!(matches!(world.command(1).await, Command::Configure(_)));
    // Port 2001 has shard 1: worker 1 of 2.
    assert!(matches!(world.command(1).await, Command::Adopt(f) if *f == flow(900, 2001)));
    ld.say(Ctl::Adopt(Adopt {
        flows: vec![flow(901, 2002)],
        done: true,
    }))
    .await;
    assert!(matches!(world.command(0).await, Command::Adopt(f) if *f == flow(901, 2002)));
    world.assert_quiet(0).await;
    world.assert_quiet(1).await;
    world.tell(
        1,
        Event::Adopted {
            flow: Box::new(flow(900, 2001)),
            result: Ok(55),
        },
    );
    world.assert_quiet(1).await;
    world.tell(
        0,
        Event::Adopted {
            flow: Box::new(flow(901, 2002)),
            result: Err("the VIP is not configured".to_owned()),
        },
    );
    assert!(matches!(world.command(0).await, Command::Open));
    assert!(matches!(world.command(1).await, Command::Open));

    let mut told = Vec::new();
    while told.len() < 2 {
        match ld.next().await {
            Ld::Adopted(adopted) => told.extend(adopted.sessions),
            other => panic!("{other:?}"),
        }
    }
    told.sort_by_key(|one| one.adopt_id);
    assert_eq!((told[0].adopt_id, told[0].session_id), (900, 55));
    assert_eq!(told[0].refused, "");
    assert_eq!(told[1].adopt_id, 901);
    assert_eq!(told[1].refused, "the VIP is not configured");

    // What was taken over is on the switch, as far as this process knows.
    ld.say(Ctl::Idle(v1::Idle {
        session_ids: vec![55],
    }))
    .await;
    assert!(matches!(world.command(1).await, Command::Idle(55)));
}

#[tokio::test]
async fn the_boot_id_stays_unless_nothing_was_taken_over_yet() {
    let world = World::new(1);
    let mut ctl = FakeCtl::start(&world.path);
    let mut ld = ctl.accept().await;
    let first = ld.greet(true).await.boot_id;
    // Lost before the sessions of the past were named.
    ctl.kill(ld).await;
    let mut ctl = FakeCtl::start(&world.path);
    let mut ld = ctl.accept().await;
    let second = ld.greet(true).await.boot_id;
    assert_ne!(first, second);
    ld.say(Ctl::Snapshot(common::snapshot())).await;
    ld.say(Ctl::Adopt(Adopt {
        flows: vec![],
        done: true,
    }))
    .await;
    assert!(matches!(world.command(0).await, Command::Configure(_)));
    assert!(matches!(world.command(0).await, Command::Open));
    ctl.kill(ld).await;
    let mut ctl = FakeCtl::start(&world.path);
    let mut ld = ctl.accept().await;
    assert_eq!(ld.greet(false).await.boot_id, second);
}

#[tokio::test]
async fn a_bad_configuration_is_refused_and_the_old_one_stays() {
    let (world, _ctl, mut ld) = World::ready(1).await;
    let mut bad = common::snapshot();
    bad.version = 8;
    bad.vips[1].vip_id = 1;
    ld.say(Ctl::Snapshot(bad)).await;
    let Ld::SnapshotAck(ack) = ld.next().await else {
        panic!("SnapshotAck");
    };
    assert_eq!(ack.version, 8);
    assert_eq!(ack.error, "two vips have the identifier 1");
    world.assert_quiet(0).await;
}
