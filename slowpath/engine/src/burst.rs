//! The path of a packet.
//!
//! A burst goes through three steps, each for all of its packets, so that the
//! memory a packet needs is on its way while others are worked on: read the
//! headers and ask for the index bucket (or, for a reply, the record); compare
//! tags and ask for the record; verify, account, rewrite. (A window in which the
//! steps follow each other at a distance of a few packets was measured too: with
//! distances of 4 and 8 it took 45 ns a packet where whole steps took 23, at
//! 65,536 sessions and bursts of 32.)
//!
//! What needs thought (no session, a SYN on a closing one, ICMP) waits until the
//! rest of the burst is done and is looked up again then, so that two SYNs of
//! one flow in one burst open one session.

use packet::{
    Delta, Fragment, Ipv4, PROTO_ICMP, PROTO_TCP, PROTO_UDP, Tcp, TcpFlags, Udp,
    icmp::make_frag_needed,
};

use crate::{
    api::{CloseReason, PacketIn, Redirect, Verdict},
    drops::DropReason,
    engine::Engine,
    ports::SHARDS,
    prefetch::prefetch,
    record::{IDLE, REPLIED, Record},
    rewrite::{Target, rewrite},
    snapshot::Protocol,
    state::{Direction, Offload, State},
    time::Tick,
};

/// Packets taken through the steps together.
pub(crate) const BURST: usize = 64;
/// Packets between asking for the headers and reading them.
const AHEAD: usize = 8;
const NO_RECORD: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Kind {
    #[default]
    Dropped,
    Forward,
    Reply,
    Icmp,
}

/// What is known of a packet between the steps.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Work {
    pub(crate) hash: u64,
    pub(crate) src: u32,
    pub(crate) dst: u32,
    pub(crate) vni: u32,
    /// The record it probably belongs to.
    record: u32,
    pub(crate) src_port: u16,
    pub(crate) dst_port: u16,
    total_len: u16,
    l4: u8,
    pub(crate) protocol: u8,
    /// TCP control bits.
    pub(crate) flags: u8,
    dont_fragment: bool,
    kind: Kind,
}

/// What a step does with a packet.
enum Outcome {
    Done(Verdict),
    /// To be looked at after the others.
    Later,
}

use Outcome::{Done, Later};

/// Whether a packet of `len` bytes is a whole TCP segment behind an IPv4 header
/// without options, with nothing wrong about its lengths.
#[inline(always)]
fn plain_tcp(h: &[u8; 40], len: usize) -> bool {
    let total = usize::from(u16::from_be_bytes([h[2], h[3]]));
    let fragment = u16::from_be_bytes([h[6], h[7]]) & 0x3fff;
    let tcp_len = usize::from(h[32] >> 4) * 4;
    h[0] == 0x45
        && h[9] == PROTO_TCP
        && fragment == 0
        && total <= len
        && tcp_len >= 20
        && 20 + tcp_len <= total
}

/// Reads the headers of any packet.
fn read_headers(w: &mut Work, data: &[u8]) -> Result<(), DropReason> {
    let ip = Ipv4::parse(data)?;
    if ip.fragment != Fragment::Whole {
        return Err(DropReason::Fragment);
    }
    w.src = ip.src.to_bits();
    w.dst = ip.dst.to_bits();
    w.protocol = ip.protocol;
    w.l4 = ip.header_len as u8;
    w.total_len = ip.total_len as u16;
    w.dont_fragment = ip.dont_fragment;
    let l4 = data
        .get(ip.header_len..ip.total_len)
        .ok_or(DropReason::BadIpv4Length)?;
    match ip.protocol {
        PROTO_TCP => {
            let t = Tcp::parse(l4)?;
            w.src_port = t.src_port;
            w.dst_port = t.dst_port;
            w.flags = t.flags.0;
        }
        PROTO_UDP => {
            let u = Udp::parse(l4, Fragment::Whole)?;
            w.src_port = u.src_port;
            w.dst_port = u.dst_port;
            w.flags = 0;
        }
        PROTO_ICMP => {}
        _ => return Err(DropReason::UnsupportedProtocol),
    }
    Ok(())
}

impl Engine {
    /// Handles packets, giving each a verdict. Packets are rewritten in place.
    /// `verdicts` must be as long as `packets`; of unequal slices the rest of
    /// the longer is left alone.
    pub fn process_burst(
        &mut self,
        now: Tick,
        packets: &mut [PacketIn<'_>],
        verdicts: &mut [Verdict],
    ) {
        self.now = self.now.max(now);
        for (p, v) in packets.chunks_mut(BURST).zip(verdicts.chunks_mut(BURST)) {
            self.steps(p, v);
        }
    }

    fn steps(&mut self, packets: &mut [PacketIn<'_>], verdicts: &mut [Verdict]) {
        let n = packets.len().min(verdicts.len()).min(BURST);
        let (packets, verdicts) = (&mut packets[..n], &mut verdicts[..n]);
        self.slow.clear();
        for i in 0..n {
            if let Some(p) = packets.get(i + AHEAD) {
                prefetch(p.data, 0);
            }
            if let Err(reason) = self.classify(&packets[i], i) {
                self.work[i].kind = Kind::Dropped;
                verdicts[i] = Verdict::Drop(reason);
            }
        }
        for i in 0..n {
            self.compare_tags(i);
        }
        for i in 0..n {
            let outcome = match self.work[i].kind {
                Kind::Dropped => Done(verdicts[i]),
                Kind::Forward => self.forward_fast(i, packets[i].data),
                Kind::Reply => self.reply(i, &mut packets[i]),
                Kind::Icmp => Later,
            };
            match outcome {
                Done(v) => {
                    self.count(&v);
                    verdicts[i] = v;
                }
                Later => self.slow.push(i as u16),
            }
        }
        for k in 0..self.slow.len() {
            let i = usize::from(self.slow[k]);
            let v = match self.work[i].kind {
                Kind::Icmp => self.icmp(&mut packets[i]),
                _ => self.forward_slow(i, &mut packets[i]),
            };
            self.count(&v);
            verdicts[i] = v;
        }
        self.counters.packets += n as u64;
    }

    #[inline(always)]
    fn count(&mut self, v: &Verdict) {
        match v {
            Verdict::Forward(Direction::Forward) => self.counters.forwarded += 1,
            Verdict::Forward(Direction::Reply) => self.counters.forwarded_replies += 1,
            Verdict::Reply { .. } => self.counters.answered += 1,
            Verdict::Redirect(_) => self.counters.redirected += 1,
            Verdict::Drop(reason) => self.counters.drops[reason.index()] += 1,
        }
    }

    /// Reads the headers, decides the direction, and asks for memory.
    #[inline(always)]
    fn classify(&mut self, p: &PacketIn<'_>, at: usize) -> Result<(), DropReason> {
        let w = &mut self.work[at];
        w.vni = p.vni;
        w.record = NO_RECORD;
        // A whole TCP segment without IP options is recognised in one go.
        match p.data.first_chunk::<40>() {
            Some(h) if plain_tcp(h, p.data.len()) => {
                w.src = u32::from_be_bytes([h[12], h[13], h[14], h[15]]);
                w.dst = u32::from_be_bytes([h[16], h[17], h[18], h[19]]);
                w.src_port = u16::from_be_bytes([h[20], h[21]]);
                w.dst_port = u16::from_be_bytes([h[22], h[23]]);
                w.total_len = u16::from_be_bytes([h[2], h[3]]);
                w.dont_fragment = h[6] & 0x40 != 0;
                w.protocol = PROTO_TCP;
                w.l4 = 20;
                w.flags = h[33];
            }
            _ => read_headers(w, p.data)?,
        }
        if w.protocol == PROTO_ICMP {
            w.kind = Kind::Icmp;
            return Ok(());
        }
        if let Some(lip) = self.store.lip_at(w.vni, w.dst) {
            w.kind = Kind::Reply;
            let protocol = if w.protocol == PROTO_TCP {
                Protocol::Tcp
            } else {
                Protocol::Udp
            };
            if let Some(record) = self.store.record_at(lip, protocol, w.dst_port) {
                w.record = record;
                self.store.prefetch(record);
            }
        } else {
            w.kind = Kind::Forward;
            w.hash =
                self.config
                    .keys
                    .flow(w.vni, w.protocol, (w.src, w.src_port), (w.dst, w.dst_port));
            // Until the tags are compared, the place of the bucket.
            w.record = self.index.prefetch(w.hash);
        }
        Ok(())
    }

    #[inline(always)]
    fn compare_tags(&mut self, at: usize) {
        let w = &mut self.work[at];
        if w.kind == Kind::Forward {
            w.record = self.index.guess(w.hash, w.record).unwrap_or(NO_RECORD);
            self.store.prefetch(w.record);
        }
    }

    /// Whether a record is the session of a client's tuple.
    #[inline(always)]
    fn is_forward(
        &self,
        r: &Record,
        vni: u32,
        protocol: u8,
        client: (u32, u16),
        vip: (u32, u16),
    ) -> bool {
        r.client == client.0
            && r.vip == vip.0
            && r.client_port == client.1
            && r.vip_port == vip.1
            && r.protocol == protocol
            && r.state.is_session()
            && self.vip_hot[usize::from(r.vip_index)].vni == vni
    }

    /// The record of a client's tuple.
    pub(crate) fn find_forward(
        &self,
        hash: u64,
        vni: u32,
        protocol: u8,
        client: (u32, u16),
        vip: (u32, u16),
    ) -> Option<u32> {
        self.index.find(hash, |id| {
            self.is_forward(&self.store.records[id as usize], vni, protocol, client, vip)
        })
    }

    /// A client's packet whose session is there and needs no thought.
    #[inline(always)]
    fn forward_fast(&mut self, at: usize, data: &mut [u8]) -> Outcome {
        let w = &self.work[at];
        let (client, vip) = ((w.src, w.src_port), (w.dst, w.dst_port));
        let Some(r) = self.store.records.get(w.record as usize) else {
            return Later;
        };
        if !self.is_forward(r, w.vni, w.protocol, client, vip)
            || !r.state.is_live()
            || TcpFlags(w.flags).opens()
        {
            return Later;
        }
        Done(self.forward_hit(at, w.record, data))
    }

    #[inline(always)]
    fn forward_hit(&mut self, at: usize, id: u32, data: &mut [u8]) -> Verdict {
        let w = self.work[at];
        let r = &mut self.store.records[id as usize];
        let mtu = self.server_mtu[usize::from(r.server_index)];
        if w.total_len > mtu {
            return self.too_big(&w, data, mtu);
        }
        r.last_seen = self.now.0;
        r.flags &= !IDLE;
        let full = r.fwd.count(w.total_len);
        let v = &mut self.vip_hot[usize::from(r.vip_index)];
        v.fwd_packets += 1;
        v.fwd_bytes += u64::from(w.total_len);
        let target = Target {
            src: r.local,
            dst: r.server,
            src_port: r.local_port,
            dst_port: r.server_port,
            l3: Delta::from_bits(r.l3_delta),
            l4: Delta::from_bits(r.l4_delta),
        };
        rewrite(data, usize::from(w.l4), w.protocol, &target);
        let min = v.offload_min;
        let r = &*r;
        if r.state == State::SynRecv || w.flags & ENDS != 0 {
            self.apply_tcp(id, Direction::Forward, TcpFlags(w.flags));
        }
        self.after_hit(id, w.flags, min);
        if full {
            self.spill_totals(id);
        }
        Verdict::Forward(Direction::Forward)
    }

    /// Offload and late packets: after the state is known.
    #[inline(always)]
    fn after_hit(&mut self, id: u32, flags: u8, min: u64) {
        let r = &mut self.store.records[id as usize];
        match r.offload {
            Offload::None
                if r.fwd.packets() + r.rev.packets() >= min && r.state.is_offloadable() =>
            {
                self.maybe_request(id);
            }
            Offload::Installed if flags & ENDS == 0 => {
                r.aux = r.aux.saturating_add(1);
                self.counters.late_packets += 1;
            }
            _ => {}
        }
    }

    /// A packet to a local address.
    #[inline(always)]
    fn reply(&mut self, at: usize, p: &mut PacketIn<'_>) -> Outcome {
        let w = self.work[at];
        let Some(r) = self.store.records.get_mut(w.record as usize) else {
            return Done(self.reply_unknown(w.dst_port, p.hops));
        };
        if !r.state.is_live() {
            let killed = r.state == State::Killed;
            return Done(Verdict::Drop(if killed {
                DropReason::SessionKilled
            } else {
                DropReason::ReplyNoSession
            }));
        }
        if r.server != w.src || r.server_port != w.src_port {
            return Done(Verdict::Drop(DropReason::ReplySourceMismatch));
        }
        if w.total_len > self.client_mtu {
            return Done(self.too_big(&w, p.data, self.client_mtu));
        }
        r.last_seen = self.now.0;
        if !r.has(REPLIED) {
            r.flags |= REPLIED;
            self.vips[usize::from(r.vip_index)].unreplied -= 1;
        }
        r.flags &= !IDLE;
        let full = r.rev.count(w.total_len);
        let v = &mut self.vip_hot[usize::from(r.vip_index)];
        v.rev_packets += 1;
        v.rev_bytes += u64::from(w.total_len);
        let target = Target {
            src: r.vip,
            dst: r.client,
            src_port: r.vip_port,
            dst_port: r.client_port,
            l3: Delta::from_bits(r.l3_delta).reversed(),
            l4: Delta::from_bits(r.l4_delta).reversed(),
        };
        rewrite(p.data, usize::from(w.l4), w.protocol, &target);
        let min = v.offload_min;
        if r.state == State::UdpUnreplied {
            r.state = State::UdpReplied;
        } else if w.flags & ENDS != 0 {
            self.apply_tcp(w.record, Direction::Reply, TcpFlags(w.flags));
        }
        self.after_hit(w.record, w.flags, min);
        if full {
            self.spill_totals(w.record);
        }
        Done(Verdict::Forward(Direction::Reply))
    }

    /// A packet to a local port that never was in use here.
    fn reply_unknown(&self, port: u16, hops: u8) -> Verdict {
        if self.store.owns(port) {
            return Verdict::Drop(DropReason::ReplyNoSession);
        }
        self.redirect_by_port(port, hops)
    }

    /// To the worker that owns a local port.
    pub(crate) fn redirect_by_port(&self, port: u16, hops: u8) -> Verdict {
        if hops > 0 {
            return Verdict::Drop(DropReason::RedirectLoop);
        }
        let shard = (port % SHARDS) as u8;
        Verdict::Redirect(Redirect::Worker(shard % self.config.workers))
    }

    /// A client's packet without a session, or one that needs a decision.
    #[inline(never)]
    fn forward_slow(&mut self, at: usize, p: &mut PacketIn<'_>) -> Verdict {
        let w = self.work[at];
        let found = self.find_forward(
            w.hash,
            w.vni,
            w.protocol,
            (w.src, w.src_port),
            (w.dst, w.dst_port),
        );
        let opens = w.protocol == PROTO_UDP || TcpFlags(w.flags).opens();
        let id = match found {
            None => match self.open(&w, p.slot) {
                Ok(id) => id,
                Err(reason) => return Verdict::Drop(reason),
            },
            Some(id) if opens && self.wants_new_session(id) => match self.replace(id, &w, p.slot) {
                Ok(id) => id,
                Err(reason) => return Verdict::Drop(reason),
            },
            Some(id) => {
                if !self.store.records[id as usize].state.is_live() {
                    return Verdict::Drop(DropReason::SessionKilled);
                }
                id
            }
        };
        self.forward_hit(at, id, p.data)
    }

    /// Whether a packet that can open a session shall do so although there is
    /// one: that one is ending, or its server will not answer.
    fn wants_new_session(&self, id: u32) -> bool {
        let r = &self.store.records[id as usize];
        if r.state.is_closing() {
            return true;
        }
        match r.state {
            State::SynRecv => !r.has(REPLIED) && !self.server_takes(id),
            State::Established => {
                let s = &self.servers[usize::from(r.server_index)];
                s.configured && s.config.state == crate::snapshot::ServerState::Down
            }
            _ => false,
        }
    }

    /// A new session on a tuple that has one.
    fn replace(&mut self, id: u32, w: &crate::burst::Work, slot: u16) -> Result<u32, DropReason> {
        let r = &self.store.records[id as usize];
        if r.offload != Offload::None {
            // The switch may still rewrite this tuple as before: only the same
            // server and port are safe.
            let again = r.state != State::Killed && self.server_takes(id);
            if !again {
                self.request_remove(id, crate::api::RemoveReason::Closed);
                return Err(DropReason::OffloadPending);
            }
            self.reuse(id);
            return Ok(id);
        }
        let dead = *r;
        self.close(id, CloseReason::Replaced);
        match self.open(w, slot) {
            Err(DropReason::PortExhausted | DropReason::SessionTableFull) => {
                // The old port has not rested, but its own server knows it.
                self.revive(id, &dead)
            }
            other => other,
        }
    }
}

/// Control bits that never take the fast path in the switch.
const ENDS: u8 = TcpFlags::SYN | TcpFlags::FIN | TcpFlags::RST;

impl Engine {
    /// Takes a session just closed back for a new connection of its client,
    /// because there is no other port.
    fn revive(&mut self, id: u32, dead: &Record) -> Result<u32, DropReason> {
        let server = &self.servers[usize::from(dead.server_index)];
        let vip = &self.vips[usize::from(dead.vip_index)];
        if !server.takes_sessions() || !vip.configured {
            return Err(DropReason::PortExhausted);
        }
        let hash = self.hash_of(dead);
        if self.index.insert(hash, id).is_err() {
            return Err(DropReason::IndexFull);
        }
        let r = &mut self.store.records[id as usize];
        *r = Record {
            state: State::SynRecv,
            flags: 0,
            generation: r.generation.wrapping_add(1),
            fwd: Default::default(),
            rev: Default::default(),
            ..*dead
        };
        self.count_session(id);
        self.reuse(id);
        Ok(id)
    }

    /// A packet larger than its next hop takes: its sender is told, if it asked
    /// to be (RFC 1191), else it is dropped, as the switch does not fragment.
    #[cold]
    fn too_big(&mut self, w: &Work, data: &mut [u8], mtu: u16) -> Verdict {
        if !w.dont_fragment {
            return Verdict::Drop(DropReason::MtuExceeded);
        }
        if !self.icmp_limit.take(self.now) {
            return Verdict::Drop(DropReason::IcmpRateLimited);
        }
        match make_frag_needed(data, w.dst.into(), mtu) {
            Some(len) => Verdict::Reply { len: len as u16 },
            None => Verdict::Drop(DropReason::MtuExceeded),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The quick recognition never disagrees with the full reading.
        #[test]
        fn plain_tcp_is_what_the_readers_say(
            mut bytes in proptest::collection::vec(any::<u8>(), 40..80),
            keep: [bool; 5],
            len in 30_u8..90,
        ) {
            // Each of the conditions holds in half of the cases.
            if keep[0] { bytes[0] = 0x45; }
            if keep[1] { bytes[9] = PROTO_TCP; }
            if keep[2] { bytes[6] &= 0x40; bytes[7] = 0; }
            if keep[3] { bytes[2] = 0; bytes[3] = len; }
            if keep[4] { bytes[32] = 0x50; }
            let head: &[u8; 40] = bytes.first_chunk().unwrap();
            let mut w = Work::default();
            let read = read_headers(&mut w, &bytes);
            let plain = read.is_ok() && w.protocol == PROTO_TCP && w.l4 == 20;
            prop_assert_eq!(plain_tcp(head, bytes.len()), plain);
        }
    }
}
