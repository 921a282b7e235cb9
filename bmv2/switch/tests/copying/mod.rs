//! A switch that copies packets, but not for ever.

use std::sync::Arc;

use softswitch::{CloneSession, MulticastGroup, Program, Replica, Switch, SwitchConfig};

/// Most passes of one packet in these tests.
pub(crate) const PASSES: u32 = 20;

/// A switch that runs a program, with groups and clone sessions 0 to 3 of three
/// replicas each.
pub(crate) fn switch(program: Program) -> Arc<Switch> {
    let s = Switch::new(SwitchConfig {
        cpu_port: Some(510),
        max_passes: PASSES,
        ..SwitchConfig::default()
    });
    s.install(program);
    let replicas: Vec<Replica> = (0..3).map(|port| Replica { instance: 1, port }).collect();
    for id in 0..4 {
        s.set_multicast_group(MulticastGroup {
            id,
            replicas: replicas.clone(),
        });
        s.set_clone_session(CloneSession {
            id,
            replicas: replicas.clone(),
            truncate_to: 0,
            class_of_service: 0,
        });
    }
    s
}
