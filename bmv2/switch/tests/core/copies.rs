//! Copies of packets, and packets that begin again.

use softswitch::{CloneSession, MulticastGroup, Replica};

use crate::build::{Out, run};
use crate::commands::{Cmd, answer, ask, r, switch};

#[test]
fn multicast_makes_a_copy_for_each_replica() {
    let s = switch();
    s.set_multicast_group(MulticastGroup {
        id: 5,
        replicas: vec![r(2, 9), r(1, 8), r(2, 4)],
    });
    let mut w = s.worker();
    let copy = |rid, port| {
        Out::Sent(
            port,
            Cmd {
                instance: 5,
                rid,
                ..answer(2, 0, 5)
            }
            .packet(),
        )
    };
    // It beats the drop that the program also asked for.
    assert_eq!(
        run(&mut w, 3, &ask(2, 0, 5), 0),
        [copy(1, 8), copy(2, 4), copy(2, 9)]
    );
    assert_eq!(
        run(&mut w, 3, &ask(2, 0, 6), 0),
        [Out::Dropped("no_replica")]
    );
    assert_eq!(s.multicast_groups().len(), 1);
    assert!(s.delete_multicast_group(5));
    assert!(!s.delete_multicast_group(5));
    assert_eq!(
        run(&mut w, 3, &ask(2, 0, 5), 0),
        [Out::Dropped("no_replica")]
    );
    assert_eq!(s.stats().copies, 2, "the packet itself is one of the three");
}

fn session(id: u16, truncate_to: u32, replicas: Vec<Replica>) -> CloneSession {
    CloneSession {
        id,
        replicas,
        truncate_to,
        class_of_service: 0,
    }
}

#[test]
fn clones_at_ingress_are_the_original_packet() {
    let s = switch();
    s.set_clone_session(session(9, 0, vec![r(3, 7)]));
    let mut w = s.worker();
    let got = run(&mut w, 3, &ask(3, 9, 1), 0);
    // The clone goes first, as bmv2 queues it before the packet itself. It is
    // parsed again, its metadata zero but for what the field list keeps.
    let clone = Cmd {
        instance: 1,
        rid: 3,
        kept: 0x5a,
        lost: 0,
        port: 0,
        ..answer(3, 9, 1)
    };
    assert_eq!(
        got,
        [
            Out::Sent(7, clone.packet()),
            Out::Sent(1, answer(3, 9, 0xffff).packet())
        ]
    );
    // A session that nobody configured does nothing.
    assert_eq!(
        run(&mut w, 3, &ask(3, 10, 1), 0),
        [Out::Sent(1, answer(3, 10, 0xffff).packet())]
    );
    // A session may cut its copies.
    s.set_clone_session(session(9, 5, vec![r(3, 7)]));
    let got = run(&mut w, 3, &ask(3, 9, 1), 0);
    assert_eq!(got[0], Out::Sent(7, clone.packet()[..5].to_vec()));
}

#[test]
fn clones_at_egress_keep_the_headers() {
    let s = switch();
    s.set_clone_session(session(9, 0, vec![r(0, 7)]));
    let mut w = s.worker();
    let got = run(&mut w, 3, &ask(4, 9, 1), 0);
    let clone = Cmd {
        instance: 2,
        lost: 0,
        port: 0,
        ..answer(4, 9, 0xeeee)
    };
    assert_eq!(
        got,
        [
            Out::Sent(1, answer(4, 9, 0xeeee).packet()),
            Out::Sent(7, clone.packet())
        ]
    );
}

#[test]
fn resubmitted_packets_begin_again_unchanged() {
    let s = switch();
    let mut w = s.worker();
    let again = Cmd {
        lost: 0,
        port: 0,
        ..answer(5, 0, 1)
    };
    assert_eq!(
        run(&mut w, 3, &ask(5, 0, 1), 0),
        [Out::Sent(1, again.packet())]
    );
    assert_eq!(s.stats().reruns, 1);
}

#[test]
fn recirculated_packets_begin_again_as_deparsed() {
    let s = switch();
    let mut w = s.worker();
    let again = Cmd {
        lost: 0,
        port: 0,
        ..answer(6, 1, 2)
    };
    assert_eq!(
        run(&mut w, 3, &ask(6, 0, 1), 0),
        [Out::Sent(1, again.packet())]
    );
}

#[test]
fn an_endless_packet_ends() {
    let s = switch();
    let mut w = s.worker();
    assert_eq!(
        run(&mut w, 3, &ask(14, 0, 0), 0),
        [Out::Dropped("too_many_passes")]
    );
    assert_eq!(s.stats().reruns, 49);
}
