//! What concerns all workers at once: questions, kills, the switch's state, and a
//! worker that is stuck.

use offload_api::v1::{self, Installed, ctl_message::Message as Ctl, ld_message::Message as Ld};
use slowpath::message::{Command, Event};

use crate::world::World;
use crate::{LIMIT, flow, totals};

#[tokio::test]
async fn questions_go_to_all_workers_and_one_answer_comes_back() {
    let (world, _ctl, mut ld) = World::ready(2).await;
    ld.say(Ctl::Explain(v1::ExplainQuery {
        query_id: 77,
        tuple: Some(v1::Tuple {
            dst_port: 80,
            ..v1::Tuple::default()
        }),
    }))
    .await;
    for worker in 0..2 {
        assert!(matches!(
            world.command(worker).await,
            Command::Explain { query_id: 77, tuple } if tuple.dst_port == 80
        ));
    }
    world.tell(
        0,
        Event::Explained(Box::new(v1::ExplainAnswer {
            query_id: 77,
            facts: vec!["no session on worker 0".to_owned()],
            ..v1::ExplainAnswer::default()
        })),
    );
    let found = v1::ExplainAnswer {
        query_id: 77,
        found: true,
        worker: 1,
        ..v1::ExplainAnswer::default()
    };
    world.tell(1, Event::Explained(Box::new(found.clone())));
    assert!(matches!(ld.next().await, Ld::Explain(answer) if answer == found));

    // Nobody knows it: what all of them say.
    ld.say(Ctl::Explain(v1::ExplainQuery {
        query_id: 78,
        tuple: None,
    }))
    .await;
    for worker in 0..2 {
        assert!(matches!(
            world.command(worker).await,
            Command::Explain { query_id: 78, .. }
        ));
        world.tell(
            worker,
            Event::Explained(Box::new(v1::ExplainAnswer {
                query_id: 78,
                facts: vec![format!("no session on worker {worker}")],
                ..v1::ExplainAnswer::default()
            })),
        );
    }
    let Ld::Explain(answer) = ld.next().await else {
        panic!("ExplainAnswer");
    };
    assert!(!answer.found);
    assert_eq!(
        answer.facts,
        ["no session on worker 0", "no session on worker 1"]
    );
}

#[tokio::test]
async fn switch_state_kills_and_evictions_reach_the_workers() {
    let (world, _ctl, mut ld) = World::ready(2).await;
    ld.say(Ctl::SwitchState(v1::SwitchState {
        up: false,
        detail: "the switch is away".to_owned(),
    }))
    .await;
    ld.say(Ctl::Kill(v1::Kill {
        vip_id: 1,
        server_id: 2,
    }))
    .await;
    for worker in 0..2 {
        assert!(matches!(
            world.command(worker).await,
            Command::SwitchState { up: false }
        ));
        assert!(matches!(
            world.command(worker).await,
            Command::Kill {
                vip_id: 1,
                server_id: 2
            }
        ));
    }
    world.tell(1, Event::Install(flow(3, 2001)));
    assert!(matches!(ld.next().await, Ld::Install(_)));
    ld.say(Ctl::Installed(Installed {
        session_ids: vec![3],
    }))
    .await;
    ld.say(Ctl::Evicted(v1::Evicted {
        sessions: vec![totals(3, 4)],
        why: "the switch was restarted".to_owned(),
    }))
    .await;
    assert!(matches!(world.command(1).await, Command::Installed(3)));
    assert!(matches!(world.command(1).await, Command::Evicted(t) if t == totals(3, 4)));
}

#[tokio::test]
async fn a_stuck_worker_makes_the_process_unhealthy() {
    let (world, _ctl, _ld) = World::ready(2).await;
    // Worker 1 never answers.
    let mut status = world.status.clone();
    let unhealthy = async {
        loop {
            world.assert_quiet(0).await;
            let now = status.borrow_and_update().clone();
            if !now.healthy && now.detail.contains("worker") {
                return now;
            }
        }
    };
    let status = tokio::time::timeout(LIMIT, unhealthy).await.unwrap();
    assert_eq!(status.detail, "no answer from worker 1");
    assert!(!status.ready);
}
