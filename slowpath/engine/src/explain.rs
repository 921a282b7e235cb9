//! What the engine knows about a packet's tuple, for people.

use std::net::Ipv4Addr;

use crate::{
    api::{FlowPair, SessionId, Totals},
    drops::DropReason,
    engine::Engine,
    record::{ADOPTED, REPLIED},
    snapshot::Protocol,
    state::{Direction, Offload, State},
    time::Tick,
};

/// A packet's addresses and ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tuple {
    /// Network.
    pub vni: u32,
    /// Protocol.
    pub protocol: Protocol,
    /// Source address.
    pub src: Ipv4Addr,
    /// Source port.
    pub src_port: u16,
    /// Destination address.
    pub dst: Ipv4Addr,
    /// Destination port.
    pub dst_port: u16,
}

/// A session, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionInfo {
    /// Identifier.
    pub session: SessionId,
    /// Tuple and identifiers.
    pub flow: FlowPair,
    /// VIP's address.
    pub vip: Ipv4Addr,
    /// Local address.
    pub local: Ipv4Addr,
    /// Server's address.
    pub server: Ipv4Addr,
    /// Server's port.
    pub server_port: u16,
    /// State.
    pub state: State,
    /// How far its entries in the switch are.
    pub offload: Offload,
    /// Whether the server has answered.
    pub replied: bool,
    /// Whether it was taken over from the switch.
    pub adopted: bool,
    /// Milliseconds since the last packet here.
    pub idle_ms: u64,
    /// Packets that came here although the switch had entries.
    pub late_packets: u32,
    /// What it has carried, without what the switch has not reported yet.
    pub totals: Totals,
}

/// What would become of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Explanation {
    /// It belongs to a session and is rewritten.
    Session(Direction, SessionInfo),
    /// A TCP SYN or a UDP packet would open a session at this VIP.
    WouldOpen {
        /// VIP's identifier.
        vip_id: u16,
        /// Servers that take new sessions.
        servers: u16,
    },
    /// It would be dropped.
    WouldDrop(DropReason),
    /// Its local port belongs to this worker.
    OtherWorker(u8),
}

impl Engine {
    /// Explains what would become of a packet with this tuple.
    #[must_use]
    pub fn lookup(&self, t: &Tuple) -> Explanation {
        let (src, dst) = (t.src.to_bits(), t.dst.to_bits());
        if let Some(lip) = self.store.lip_at(t.vni, dst) {
            if !self.store.owns(t.dst_port) {
                let shard = (t.dst_port % crate::ports::SHARDS) as u8;
                return Explanation::OtherWorker(shard % self.config.workers);
            }
            let Some(id) = self
                .store
                .record_at(lip, t.protocol, t.dst_port)
                .filter(|id| self.store.records[*id as usize].state.is_session())
            else {
                return Explanation::WouldDrop(DropReason::ReplyNoSession);
            };
            let r = &self.store.records[id as usize];
            if (r.server, r.server_port) != (src, t.src_port) {
                return Explanation::WouldDrop(DropReason::ReplySourceMismatch);
            }
            return Explanation::Session(Direction::Reply, self.info(id));
        }
        let number = t.protocol.number();
        let (client, vip) = ((src, t.src_port), (dst, t.dst_port));
        let hash = self.config.keys.flow(t.vni, number, client, vip);
        if let Some(id) = self.find_forward(hash, t.vni, number, client, vip) {
            return Explanation::Session(Direction::Forward, self.info(id));
        }
        let Some(at) = self.snapshot.vip_at(t.vni, t.protocol, t.dst, t.dst_port) else {
            return Explanation::WouldDrop(if self.snapshot.is_vip_address(t.vni, t.dst) {
                DropReason::VipNoPort
            } else {
                DropReason::UnknownDestination
            });
        };
        let v = &self.vips[usize::from(self.vip_of[at])];
        let servers = v
            .servers
            .iter()
            .filter(|s| self.servers[usize::from(**s)].takes_sessions())
            .count();
        if servers == 0 {
            return Explanation::WouldDrop(DropReason::NoServer);
        }
        Explanation::WouldOpen {
            vip_id: v.config.vip_id,
            servers: servers as u16,
        }
    }

    /// A session by its identifier.
    #[must_use]
    pub fn session(&self, session: SessionId) -> Option<SessionInfo> {
        self.record_of(session).map(|id| self.info(id))
    }

    fn info(&self, id: u32) -> SessionInfo {
        let r = &self.store.records[id as usize];
        SessionInfo {
            session: self.session_id(id),
            flow: self.flow_pair(id),
            vip: r.vip.into(),
            local: r.local.into(),
            server: r.server.into(),
            server_port: r.server_port,
            state: r.state,
            offload: r.offload,
            replied: r.has(REPLIED),
            adopted: r.has(ADOPTED),
            idle_ms: u64::from(self.now.since(Tick(r.last_seen))) * u64::from(crate::TICK_MS),
            late_packets: if r.offload == Offload::Installed {
                r.aux
            } else {
                0
            },
            totals: self.totals(id),
        }
    }
}
