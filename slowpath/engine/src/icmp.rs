//! ICMP: echo requests are answered, errors about sessions are relayed.
//!
//! An error quotes the packet it is about, as that packet was where the error
//! arose. Towards the client that is the reply after its rewrite, towards the
//! server the request after its rewrite; the quotation is rewritten to what the
//! receiver of the error sent itself. The error's own source becomes the
//! address that the receiver knows: the VIP for a client, the local address for
//! a server (as RFC 5508 section 4.2 has it for errors that leave a NAT).

use packet::{
    Delta, Fragment, Icmp, Ipv4, Quoted,
    bytes::{put_u16, put_u32},
    checksum,
    icmp::{ECHO_REQUEST, ICMP_CHECKSUM, ICMP_LEN, make_echo_reply},
};

use crate::{
    api::{PacketIn, Redirect, Verdict},
    drops::DropReason,
    engine::Engine,
    rewrite::{Target, rewrite_at},
    snapshot::Protocol,
    state::Direction,
};

impl Engine {
    /// An ICMP packet, already known to be whole.
    #[inline(never)]
    pub(crate) fn icmp(&mut self, p: &mut PacketIn<'_>) -> Verdict {
        match self.icmp_or_drop(p) {
            Ok(v) => v,
            Err(reason) => Verdict::Drop(reason),
        }
    }

    fn icmp_or_drop(&mut self, p: &mut PacketIn<'_>) -> Result<Verdict, DropReason> {
        let ip = Ipv4::parse(p.data)?;
        let message = p
            .data
            .get(ip.header_len..ip.total_len)
            .ok_or(DropReason::BadIpv4Length)?;
        let icmp = Icmp::parse(message)?;
        let lip = self.store.lip_at(p.vni, ip.dst.to_bits());
        if lip.is_none() && !self.snapshot.is_vip_address(p.vni, ip.dst) {
            // A VIP that is gone may have sessions left.
            let known = icmp.is_error() && self.has_sessions_on(p.vni, ip.dst.to_bits());
            if !known {
                return Err(DropReason::UnknownDestination);
            }
        }
        if icmp.kind == ECHO_REQUEST {
            if !checksum::is_valid(message) {
                return Err(DropReason::IcmpBadChecksum);
            }
            if !self.icmp_limit.take(self.now) {
                return Err(DropReason::IcmpRateLimited);
            }
            if !make_echo_reply(p.data) {
                return Err(DropReason::IcmpUnsupported);
            }
            return Ok(Verdict::Reply {
                len: ip.total_len as u16,
            });
        }
        if !icmp.is_error() {
            // An echo reply among them: nobody here asked for one.
            return Err(DropReason::IcmpUnsupported);
        }
        if !checksum::is_valid(message) {
            return Err(DropReason::IcmpBadChecksum);
        }
        let quote = message.get(ICMP_LEN..).ok_or(DropReason::ShortIcmp)?;
        let quoted = Quoted::parse(quote).map_err(|_| DropReason::IcmpBadQuote)?;
        // The packet's sender is who gets the error.
        if quoted.ip.src != ip.dst || quoted.ip.fragment == Fragment::Later {
            return Err(DropReason::IcmpBadQuote);
        }
        let protocol =
            Protocol::from_number(quoted.ip.protocol).ok_or(DropReason::IcmpUnsupported)?;
        match lip {
            Some(lip) => self.error_for_client(p, &ip, &quoted, lip, protocol),
            None => self.error_for_server(p, &ip, &quoted),
        }
    }

    fn has_sessions_on(&self, vni: u32, addr: u32) -> bool {
        self.vips
            .iter()
            .any(|v| v.sessions > 0 && v.config.vni == vni && v.config.address.to_bits() == addr)
    }

    /// From the servers' side, about a request.
    fn error_for_client(
        &mut self,
        p: &mut PacketIn<'_>,
        ip: &Ipv4,
        q: &Quoted,
        lip: u16,
        protocol: Protocol,
    ) -> Result<Verdict, DropReason> {
        if !self.store.owns(q.src_port) {
            return Ok(self.redirect_by_port(q.src_port, p.hops));
        }
        let r = self
            .store
            .record_at(lip, protocol, q.src_port)
            .and_then(|id| self.store.records.get(id as usize))
            .filter(|r| {
                r.state.is_live() && r.server == q.ip.dst.to_bits() && r.server_port == q.dst_port
            })
            .ok_or(DropReason::IcmpNoSession)?;
        let as_sent = Target {
            src: r.client,
            dst: r.vip,
            src_port: r.client_port,
            dst_port: r.vip_port,
            l3: Delta::from_bits(r.l3_delta).reversed(),
            l4: Delta::from_bits(r.l4_delta).reversed(),
        };
        let (from, to) = (r.vip, r.client);
        relay(p.data, ip, q, &as_sent, from, to);
        Ok(Verdict::Forward(Direction::Reply))
    }

    /// From the clients' side, about a reply.
    fn error_for_server(
        &mut self,
        p: &mut PacketIn<'_>,
        ip: &Ipv4,
        q: &Quoted,
    ) -> Result<Verdict, DropReason> {
        let client = (q.ip.dst.to_bits(), q.dst_port);
        let vip = (q.ip.src.to_bits(), q.src_port);
        let hash = self.config.keys.flow(p.vni, q.ip.protocol, client, vip);
        let found = self
            .find_forward(hash, p.vni, q.ip.protocol, client, vip)
            .and_then(|id| self.store.records.get(id as usize))
            .filter(|r| r.state.is_live());
        let Some(r) = found else {
            // Any worker may have it; each is asked once.
            return if p.hops + 1 < self.config.workers {
                Ok(Verdict::Redirect(Redirect::Next))
            } else {
                Err(DropReason::IcmpNoSession)
            };
        };
        let as_sent = Target {
            src: r.server,
            dst: r.local,
            src_port: r.server_port,
            dst_port: r.local_port,
            l3: Delta::from_bits(r.l3_delta),
            l4: Delta::from_bits(r.l4_delta),
        };
        let (from, to) = (r.local, r.server);
        relay(p.data, ip, q, &as_sent, from, to);
        Ok(Verdict::Forward(Direction::Forward))
    }
}

/// Rewrites an error: the quotation to `as_sent`, its own addresses to `from`
/// and `to`, and all checksums.
fn relay(data: &mut [u8], ip: &Ipv4, q: &Quoted, as_sent: &Target, from: u32, to: u32) {
    let l3 = Delta::ZERO
        .with_u32(ip.src.to_bits(), from)
        .with_u32(ip.dst.to_bits(), to);
    put_u16(data, 10, l3.apply(ip.checksum));
    put_u32(data, 12, from);
    put_u32(data, 16, to);
    let Some(message) = data.get_mut(ip.header_len..ip.total_len) else {
        return;
    };
    if let Some(quote) = message.get_mut(ICMP_LEN..) {
        // Where the quotation ends before the transport checksum, nothing is
        // written there.
        rewrite_at(quote, q.ip.header_len, q.ip.protocol, as_sent);
    }
    put_u16(message, ICMP_CHECKSUM, 0);
    let c = checksum::checksum(message);
    put_u16(message, ICMP_CHECKSUM, c);
}
