//! Between the messages of `offload.v1` and the session engine's types.

use std::net::Ipv4Addr;

use offload_api::v1;
use session_engine::{
    Direction, Explanation, FlowPair, Protocol, RejectReason, RemoveReason, SessionId, SessionInfo,
    Totals, Tuple,
};

/// A session as the API has it.
#[must_use]
pub fn to_api(session: SessionId, flow: &FlowPair) -> v1::FlowPair {
    v1::FlowPair {
        session_id: session.0,
        vip_id: flow.vip_id.into(),
        vip_port: flow.vip_port.into(),
        protocol: flow.protocol.number().into(),
        client_addr: flow.client.to_bits(),
        client_port: flow.client_port.into(),
        server_id: flow.server_id.into(),
        local_id: flow.local_id.into(),
        local_port: flow.local_port.into(),
        idle_timeout_ms: flow.idle_timeout_ms,
        generation: flow.generation,
    }
}

/// The entries of a session as the engine takes them over.
///
/// # Errors
/// A sentence that names the field that cannot be.
pub fn from_api(flow: &v1::FlowPair) -> Result<FlowPair, String> {
    let narrow = |name: &str, value: u32| {
        u16::try_from(value).map_err(|_| format!("{name} {value} does not fit 16 bits"))
    };
    Ok(FlowPair {
        vip_id: narrow("vip_id", flow.vip_id)?,
        vip_port: narrow("vip_port", flow.vip_port)?,
        protocol: protocol(flow.protocol)?,
        client: Ipv4Addr::from_bits(flow.client_addr),
        client_port: narrow("client_port", flow.client_port)?,
        server_id: narrow("server_id", flow.server_id)?,
        local_id: narrow("local_id", flow.local_id)?,
        local_port: narrow("local_port", flow.local_port)?,
        idle_timeout_ms: flow.idle_timeout_ms,
        generation: flow.generation,
    })
}

fn protocol(number: u32) -> Result<Protocol, String> {
    u8::try_from(number)
        .ok()
        .and_then(Protocol::from_number)
        .ok_or_else(|| format!("protocol {number} is neither TCP (6) nor UDP (17)"))
}

/// Why a session is taken off the switch.
#[must_use]
pub fn remove_reason(reason: RemoveReason) -> v1::RemoveReason {
    match reason {
        RemoveReason::Closed => v1::RemoveReason::Closed,
        RemoveReason::Idle => v1::RemoveReason::Idle,
        RemoveReason::Kill => v1::RemoveReason::Kill,
    }
}

/// Why a session is not on the switch.
#[must_use]
pub fn reject_reason(reason: v1::RejectReason) -> RejectReason {
    match reason {
        v1::RejectReason::TableFull => RejectReason::TableFull,
        v1::RejectReason::SwitchDown => RejectReason::SwitchDown,
        v1::RejectReason::Conflict => RejectReason::Conflict,
        v1::RejectReason::StaleConfig | v1::RejectReason::Invalid => RejectReason::Invalid,
        v1::RejectReason::SwitchError | v1::RejectReason::Unspecified => RejectReason::SwitchError,
    }
}

/// Final counters of a session's entries.
#[must_use]
pub fn totals(t: &v1::FlowTotals) -> Totals {
    Totals {
        fwd_packets: t.fwd_packets,
        fwd_bytes: t.fwd_bytes,
        rev_packets: t.rev_packets,
        rev_bytes: t.rev_bytes,
    }
}

/// A packet's tuple as the engine has it.
///
/// # Errors
/// A sentence that names the field that cannot be.
pub fn tuple(t: &v1::Tuple) -> Result<Tuple, String> {
    let port = |name: &str, value: u32| {
        u16::try_from(value).map_err(|_| format!("{name} {value} is no port"))
    };
    Ok(Tuple {
        vni: t.vni,
        protocol: protocol(t.protocol)?,
        src: Ipv4Addr::from_bits(t.src_addr),
        src_port: port("src_port", t.src_port)?,
        dst: Ipv4Addr::from_bits(t.dst_addr),
        dst_port: port("dst_port", t.dst_port)?,
    })
}

/// What would become of a packet, put into an answer.
pub fn explanation(explanation: &Explanation, answer: &mut v1::ExplainAnswer) {
    let worker = answer.worker;
    match explanation {
        Explanation::Session(direction, session) => {
            answer.found = true;
            answer.flow = Some(to_api(session.session, &session.flow));
            session.offload.name().clone_into(&mut answer.offload_state);
            session.state.name().clone_into(&mut answer.tcp_state);
            answer.facts.extend(facts(*direction, session, worker));
        }
        Explanation::WouldOpen { vip_id, servers } => answer.facts.push(format!(
            "no session on worker {worker}; a first packet would open one at VIP {vip_id}, which \
             has {servers} servers in service"
        )),
        Explanation::WouldDrop(reason) => answer.facts.push(format!(
            "no session on worker {worker}; the packet would be dropped: {}",
            reason.name()
        )),
        Explanation::OtherWorker(other) => answer.facts.push(format!(
            "the local port belongs to worker {other}, not to worker {worker}"
        )),
    }
}

fn facts(direction: Direction, s: &SessionInfo, worker: u32) -> [String; 4] {
    let (way, rewrite) = match direction {
        Direction::Forward => (
            "request",
            format!(
                "rewritten to {}:{} -> {}:{}",
                s.local, s.flow.local_port, s.server, s.server_port
            ),
        ),
        Direction::Reply => (
            "reply",
            format!(
                "rewritten to {}:{} -> {}:{}",
                s.vip, s.flow.vip_port, s.flow.client, s.flow.client_port
            ),
        ),
    };
    [
        format!(
            "{way} of session {:#018x} on worker {worker}: client {}:{}, VIP {} ({}:{}), server \
             {} ({}:{}), local address {} ({}:{})",
            s.session.0,
            s.flow.client,
            s.flow.client_port,
            s.flow.vip_id,
            s.vip,
            s.flow.vip_port,
            s.flow.server_id,
            s.server,
            s.server_port,
            s.flow.local_id,
            s.local,
            s.flow.local_port,
        ),
        rewrite,
        format!(
            "state {}, idle for {} ms, {} + {} packets, {} + {} bytes",
            s.state.name(),
            s.idle_ms,
            s.totals.fwd_packets,
            s.totals.rev_packets,
            s.totals.fwd_bytes,
            s.totals.rev_bytes,
        ),
        format!(
            "entries in the switch: {}{}, {} packets came here in spite of them",
            s.offload.name(),
            if s.adopted {
                " (taken over from an earlier process)"
            } else {
                ""
            },
            s.late_packets,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_survives_the_way_there_and_back() {
        let flow = FlowPair {
            vip_id: 1,
            vip_port: 2,
            protocol: Protocol::Udp,
            client: [10, 1, 0, 2].into(),
            client_port: 3,
            server_id: 4,
            local_id: 5,
            local_port: 6,
            idle_timeout_ms: 7,
            generation: 8,
        };
        let api = to_api(SessionId(9), &flow);
        assert_eq!(
            api,
            v1::FlowPair {
                session_id: 9,
                vip_id: 1,
                vip_port: 2,
                protocol: 17,
                client_addr: 0x0a01_0002,
                client_port: 3,
                server_id: 4,
                local_id: 5,
                local_port: 6,
                idle_timeout_ms: 7,
                generation: 8,
            }
        );
        assert_eq!(from_api(&api), Ok(flow));
    }

    #[test]
    fn names_the_field_that_cannot_be() {
        let api = v1::FlowPair {
            protocol: 6,
            local_port: 65_536,
            ..v1::FlowPair::default()
        };
        assert_eq!(
            from_api(&api),
            Err("local_port 65536 does not fit 16 bits".to_owned())
        );
        let t = v1::Tuple {
            protocol: 1,
            ..v1::Tuple::default()
        };
        assert!(
            tuple(&t)
                .unwrap_err()
                .contains("neither TCP (6) nor UDP (17)")
        );
    }
}
