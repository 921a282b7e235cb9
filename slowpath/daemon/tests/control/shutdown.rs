//! How the process ends: a stop, or a drain.

use offload_api::v1::{
    self, Installed, LdMessage, Removed, ctl_message::Message as Ctl, ld_message::Message as Ld,
};
use slowpath::control::Shutdown;
use slowpath::message::{Command, Event};

use crate::world::World;
use crate::{LIMIT, flow, totals};

#[tokio::test]
async fn a_stop_leaves_the_switch_alone_and_a_drain_empties_it() {
    let (world, _ctl, mut ld) = World::ready(1).await;
    world.tell(0, Event::Install(flow(1, 2000)));
    assert!(matches!(ld.next().await, Ld::Install(_)));
    ld.say(Ctl::Installed(Installed {
        session_ids: vec![1],
    }))
    .await;
    assert!(matches!(world.command(0).await, Command::Installed(1)));
    world.shutdown.send(Shutdown::Drain).unwrap();
    assert!(matches!(world.command(0).await, Command::Drain));
    world.assert_quiet(0).await;
    world.tell(
        0,
        Event::Remove {
            session_id: 1,
            reason: v1::RemoveReason::Kill,
        },
    );
    assert!(matches!(ld.next().await, Ld::Remove(_)));
    world.assert_quiet(0).await;
    ld.say(Ctl::Removed(Removed {
        sessions: vec![totals(1, 1)],
    }))
    .await;
    assert!(matches!(world.command(0).await, Command::Removed(_)));
    assert!(matches!(world.command(0).await, Command::Stop));
    tokio::time::timeout(LIMIT, world.control)
        .await
        .unwrap()
        .unwrap();

    let (world, _ctl, mut ld) = World::ready(1).await;
    world.tell(0, Event::Install(flow(1, 2000)));
    assert!(matches!(ld.next().await, Ld::Install(_)));
    world.shutdown.send(Shutdown::Stop).unwrap();
    assert!(matches!(world.command(0).await, Command::Stop));
    tokio::time::timeout(LIMIT, world.control)
        .await
        .unwrap()
        .unwrap();
    // The stream ends without a Remove.
    loop {
        match ld.from_ld.message().await {
            Ok(Some(LdMessage {
                message: Some(Ld::Heartbeat(_)),
            })) => {}
            Ok(Some(other)) => panic!("{other:?}"),
            Ok(None) | Err(_) => break,
        }
    }
}
