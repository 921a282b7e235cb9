//! What a load director gets: the whole configuration, ids resolved.

use offload_api::v1;
use sluice_config::{PortRole, Scheduler, ServerState};

use super::{
    Intent, group_identity, local_identity, server_identity, slot_identity, slot_owners,
    vip_identity,
};
use crate::ids::IdBook;

/// The snapshot for the LD of this name; `None` if it is not configured.
pub fn snapshot(intent: &Intent, ids: &IdBook, ld: &str) -> Option<v1::Snapshot> {
    let gateway = &intent.effective;
    if !gateway.lds.iter().any(|other| other.name == ld) {
        return None;
    }
    let mut snapshot = v1::Snapshot {
        version: intent.version.version,
        client_mtu: gateway
            .ports
            .iter()
            .filter(|port| port.role == PortRole::Uplink)
            .map(|port| u32::from(port.mtu))
            .min()
            .unwrap_or(1500),
        switch_vtep: gateway.switch.vtep.into(),
        ..v1::Snapshot::default()
    };
    for group in &gateway.groups {
        if ids.find(&group_identity(&group.name)).is_none() {
            continue;
        }
        let owners = slot_owners(group);
        let owns = |number: u16| owners.get(usize::from(number)) == Some(&ld);
        for number in (0..group.slots).filter(|&number| owns(number)) {
            let slot = ids.find(&slot_identity(&group.name, number));
            snapshot.slots.extend(slot.map(u32::from));
        }
        let version = &intent.version;
        let in_force = version.locals.iter().map(|local| (local, false));
        let retiring = version.retiring_locals.iter().map(|local| (local, true));
        let all = in_force.chain(retiring);
        for (local, draining) in all.filter(|(local, _)| local.group == group.name) {
            let slot = ids.find(&slot_identity(&group.name, local.number));
            let local_id = ids.find(&local_identity(local.vni, local.addr));
            if let (Some(slot), Some(local_id)) = (slot, local_id)
                && owns(local.number)
            {
                snapshot.locals.push(v1::Local {
                    local_id: local_id.into(),
                    address: local.addr.into(),
                    slot: slot.into(),
                    vni: local.vni,
                    draining,
                });
            }
        }
        if group.lds.iter().any(|name| name == ld) {
            let vips = gateway.vips.iter().filter(|vip| vip.group == group.name);
            snapshot
                .vips
                .extend(vips.filter_map(|vip| api_vip(intent, ids, vip)));
        }
    }
    Some(snapshot)
}

/// A VIP as the API has it; `None` if it has no id.
pub(crate) fn api_vip(intent: &Intent, ids: &IdBook, vip: &sluice_config::Vip) -> Option<v1::Vip> {
    let vip_id = ids.find(&vip_identity(vip))?;
    let timeouts = vip.timeouts;
    let scheduler = match vip.scheduler {
        Scheduler::RoundRobin => v1::Scheduler::Rr,
        Scheduler::WeightedRoundRobin => v1::Scheduler::Wrr,
        Scheduler::SourceHash => v1::Scheduler::SourceHash,
    };
    Some(v1::Vip {
        vip_id: vip_id.into(),
        name: vip.name.clone(),
        vni: vip.vni,
        address: vip.address.into(),
        port_low: vip.port.low().into(),
        port_high: vip.port.high().into(),
        protocol: vip.protocol.number().into(),
        scheduler: scheduler.into(),
        timeouts: Some(v1::Timeouts {
            syn_ms: timeouts.syn_ms,
            established_ms: timeouts.established_ms,
            fin_ms: timeouts.fin_ms,
            time_wait_ms: timeouts.time_wait_ms,
            close_ms: timeouts.close_ms,
            udp_ms: timeouts.udp_ms,
            port_hold_ms: timeouts.port_hold_ms,
        }),
        offload: Some(v1::OffloadPolicy {
            enabled: vip.offload.enabled,
            min_packets: vip.offload.min_packets,
        }),
        servers: vip
            .servers
            .iter()
            .filter_map(|server| {
                let state = match server.state {
                    ServerState::Up => v1::ServerState::Up,
                    ServerState::Drain => v1::ServerState::Drain,
                };
                Some(v1::Server {
                    server_id: ids.find(&server_identity(vip_id, server))?.into(),
                    name: server.name.clone(),
                    address: server.address.into(),
                    port: server.port.unwrap_or(0).into(),
                    weight: server.weight.into(),
                    state: state.into(),
                    mtu: intent
                        .effective
                        .next_hop(vip.vni, server.address)
                        .map_or(1500, |(_, port)| u32::from(port.mtu)),
                })
            })
            .collect(),
        generation: intent
            .version
            .generations
            .get(&vip_id)
            .copied()
            .unwrap_or_default(),
        max_sessions: vip.max_sessions,
    })
}
