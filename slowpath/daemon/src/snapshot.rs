//! offload-ctl's snapshot as the session engine's configuration. Every field is
//! checked here: ids and ports travel in 32 bits and must fit 16.

use std::net::Ipv4Addr;

use offload_api::v1;
use session_engine::{
    Local, OffloadPolicy, Protocol, Scheduler, Server, ServerState, Snapshot, SnapshotError,
    SnapshotSpec, Timeouts, Vip,
};
use thiserror::Error;

/// Why a snapshot is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refused {
    /// A number that does not fit its field.
    #[error("{place}: {value} is more than {most}")]
    TooLarge {
        /// The place, like `vips[0].servers[2].port`.
        place: String,
        /// The value.
        value: u32,
        /// The largest value.
        most: u32,
    },
    /// An enumeration value, or protocol, that this build does not know.
    #[error("{place}: {value} is unknown to this version of slowpath")]
    Unknown {
        /// The place.
        place: String,
        /// The value.
        value: i64,
    },
    /// Values that contradict each other.
    #[error(transparent)]
    Contradiction(#[from] SnapshotError),
}

/// What a worker runs with.
#[derive(Debug)]
pub struct Config {
    /// For the session engine.
    pub engine: std::sync::Arc<Snapshot>,
    /// The switch's end of the tunnel.
    pub switch_vtep: Ipv4Addr,
    /// The snapshot's version.
    pub version: u64,
}

/// Checks a snapshot and builds its tables.
///
/// # Errors
/// [`Refused`] with the first thing that is wrong.
pub fn build(snapshot: &v1::Snapshot) -> Result<Config, Refused> {
    let mut vips = Vec::with_capacity(snapshot.vips.len());
    for (i, v) in snapshot.vips.iter().enumerate() {
        vips.push(vip(&format!("vips[{i}]"), v)?);
    }
    let mut locals = Vec::with_capacity(snapshot.locals.len());
    for (i, l) in snapshot.locals.iter().enumerate() {
        let at = |field: &str| format!("locals[{i}].{field}");
        locals.push(Local {
            local_id: narrow(l.local_id, || at("local_id"))?,
            address: Ipv4Addr::from_bits(l.address),
            vni: l.vni,
            // Slot 0 is nobody's: no session begins there, and those on the
            // switch can still be taken over.
            slot: if l.draining {
                0
            } else {
                narrow(l.slot, || at("slot"))?
            },
        });
    }
    let spec = SnapshotSpec {
        version: snapshot.version,
        vips,
        locals,
        client_mtu: narrow(snapshot.client_mtu, || "client_mtu".to_owned())?,
    };
    Ok(Config {
        engine: std::sync::Arc::new(Snapshot::build(spec)?),
        switch_vtep: Ipv4Addr::from_bits(snapshot.switch_vtep),
        version: snapshot.version,
    })
}

fn vip(place: &str, v: &v1::Vip) -> Result<Vip, Refused> {
    let at = |field: &str| format!("{place}.{field}");
    let protocol = u8::try_from(v.protocol)
        .ok()
        .and_then(Protocol::from_number)
        .ok_or_else(|| Refused::Unknown {
            place: at("protocol"),
            value: v.protocol.into(),
        })?;
    let scheduler = match v1::Scheduler::try_from(v.scheduler) {
        Ok(v1::Scheduler::Rr) => Scheduler::RoundRobin,
        Ok(v1::Scheduler::Wrr) => Scheduler::WeightedRoundRobin,
        Ok(v1::Scheduler::SourceHash) => Scheduler::SourceHash,
        Ok(v1::Scheduler::Unspecified) | Err(_) => {
            return Err(Refused::Unknown {
                place: at("scheduler"),
                value: v.scheduler.into(),
            });
        }
    };
    let mut servers = Vec::with_capacity(v.servers.len());
    for (i, s) in v.servers.iter().enumerate() {
        servers.push(server(&at(&format!("servers[{i}]")), s)?);
    }
    let offload = v.offload.unwrap_or_default();
    Ok(Vip {
        vip_id: narrow(v.vip_id, || at("vip_id"))?,
        vni: v.vni,
        address: Ipv4Addr::from_bits(v.address),
        port_low: narrow(v.port_low, || at("port_low"))?,
        port_high: narrow(v.port_high, || at("port_high"))?,
        protocol,
        scheduler,
        timeouts: timeouts(v.timeouts.unwrap_or_default()),
        offload: OffloadPolicy {
            enabled: offload.enabled,
            min_packets: offload.min_packets,
        },
        servers,
        generation: v.generation,
        max_sessions: v.max_sessions,
    })
}

fn server(place: &str, s: &v1::Server) -> Result<Server, Refused> {
    let at = |field: &str| format!("{place}.{field}");
    let state = match v1::ServerState::try_from(s.state) {
        Ok(v1::ServerState::Up) => ServerState::Up,
        Ok(v1::ServerState::Drain) => ServerState::Drain,
        Ok(v1::ServerState::Down) => ServerState::Down,
        Ok(v1::ServerState::Unspecified) | Err(_) => {
            return Err(Refused::Unknown {
                place: at("state"),
                value: s.state.into(),
            });
        }
    };
    Ok(Server {
        server_id: narrow(s.server_id, || at("server_id"))?,
        address: Ipv4Addr::from_bits(s.address),
        port: narrow(s.port, || at("port"))?,
        weight: s.weight,
        state,
        mtu: narrow(s.mtu, || at("mtu"))?,
    })
}

/// Zero, which is what a missing field reads as, means the default.
fn timeouts(t: v1::Timeouts) -> Timeouts {
    let or = |value: u32, default: u32| if value == 0 { default } else { value };
    let d = Timeouts::default();
    let udp_ms = or(t.udp_ms, d.udp_ms);
    Timeouts {
        syn_ms: or(t.syn_ms, d.syn_ms),
        established_ms: or(t.established_ms, d.established_ms),
        fin_ms: or(t.fin_ms, d.fin_ms),
        time_wait_ms: or(t.time_wait_ms, d.time_wait_ms),
        close_ms: or(t.close_ms, d.close_ms),
        udp_ms,
        udp_unreplied_ms: d.udp_unreplied_ms.min(udp_ms),
        port_hold_ms: or(t.port_hold_ms, d.port_hold_ms),
        udp_drain_ms: d.udp_drain_ms.min(udp_ms),
    }
}

fn narrow(value: u32, place: impl FnOnce() -> String) -> Result<u16, Refused> {
    u16::try_from(value).map_err(|_| Refused::TooLarge {
        place: place(),
        value,
        most: u16::MAX.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> v1::Snapshot {
        v1::Snapshot {
            version: 7,
            vips: vec![v1::Vip {
                vip_id: 1,
                name: "web".to_owned(),
                vni: 0,
                address: 0x0a64_000a,
                port_low: 80,
                port_high: 80,
                protocol: 6,
                scheduler: v1::Scheduler::Wrr.into(),
                timeouts: Some(v1::Timeouts {
                    syn_ms: 1,
                    established_ms: 2,
                    fin_ms: 3,
                    time_wait_ms: 4,
                    close_ms: 5,
                    udp_ms: 6,
                    port_hold_ms: 0,
                }),
                offload: Some(v1::OffloadPolicy {
                    enabled: true,
                    min_packets: 9,
                }),
                servers: vec![v1::Server {
                    server_id: 4,
                    name: "s1".to_owned(),
                    address: 0x0a02_0102,
                    port: 8080,
                    weight: 3,
                    state: v1::ServerState::Drain.into(),
                    mtu: 1400,
                }],
                generation: 12,
                max_sessions: 1000,
            }],
            locals: vec![
                v1::Local {
                    local_id: 2,
                    address: 0x0a09_0001,
                    slot: 3,
                    vni: 0,
                    draining: false,
                },
                v1::Local {
                    local_id: 5,
                    address: 0x0a09_0002,
                    slot: 3,
                    vni: 0,
                    draining: true,
                },
            ],
            client_mtu: 1500,
            switch_vtep: 0x0a03_0001,
            slots: vec![3],
        }
    }

    #[test]
    fn carries_every_field() {
        let config = build(&sample()).unwrap();
        assert_eq!(config.version, 7);
        assert_eq!(config.switch_vtep, Ipv4Addr::new(10, 3, 0, 1));
        assert_eq!(
            config.engine.spec(),
            &SnapshotSpec {
                version: 7,
                vips: vec![Vip {
                    vip_id: 1,
                    vni: 0,
                    address: [10, 100, 0, 10].into(),
                    port_low: 80,
                    port_high: 80,
                    protocol: Protocol::Tcp,
                    scheduler: Scheduler::WeightedRoundRobin,
                    timeouts: Timeouts {
                        syn_ms: 1,
                        established_ms: 2,
                        fin_ms: 3,
                        time_wait_ms: 4,
                        close_ms: 5,
                        udp_ms: 6,
                        udp_unreplied_ms: 6,
                        port_hold_ms: 5000,
                        udp_drain_ms: 6,
                    },
                    offload: OffloadPolicy {
                        enabled: true,
                        min_packets: 9
                    },
                    servers: vec![Server {
                        server_id: 4,
                        address: [10, 2, 1, 2].into(),
                        port: 8080,
                        weight: 3,
                        state: ServerState::Drain,
                        mtu: 1400,
                    }],
                    generation: 12,
                    max_sessions: 1000,
                }],
                locals: vec![
                    Local {
                        local_id: 2,
                        address: [10, 9, 0, 1].into(),
                        vni: 0,
                        slot: 3
                    },
                    Local {
                        local_id: 5,
                        address: [10, 9, 0, 2].into(),
                        vni: 0,
                        slot: 0
                    }
                ],
                client_mtu: 1500,
            }
        );
    }

    #[test]
    fn names_the_place_of_what_is_wrong() {
        let refuse = |change: &dyn Fn(&mut v1::Snapshot)| {
            let mut snapshot = sample();
            change(&mut snapshot);
            build(&snapshot).map(|_| ()).unwrap_err().to_string()
        };
        assert_eq!(
            refuse(&|s| s.vips[0].servers[0].port = 65_536),
            "vips[0].servers[0].port: 65536 is more than 65535"
        );
        assert_eq!(
            refuse(&|s| s.vips[0].protocol = 132),
            "vips[0].protocol: 132 is unknown to this version of slowpath"
        );
        assert_eq!(
            refuse(&|s| s.vips[0].scheduler = 77),
            "vips[0].scheduler: 77 is unknown to this version of slowpath"
        );
        assert!(refuse(&|s| s.locals[0].slot = 1 << 20).starts_with("locals[0].slot"));
        // The engine's own checks come through.
        assert!(refuse(&|s| s.vips[0].vip_id = 0).contains("zero"));
        assert!(refuse(&|s| s.locals[0].address = 0x0a64_000a).contains("vip 1"));
    }
}
