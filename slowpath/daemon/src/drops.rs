//! Why a worker drops a frame before or after the session engine saw it. The
//! engine has its own reasons ([`session_engine::DropReason`]).

use crate::tunnel::NotTunnelled;

/// Why a frame was dropped outside the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameDrop {
    /// Not VXLAN over IPv4: ARP and what else is the kernel's.
    NotTunnel,
    /// VXLAN with headers that contradict each other.
    TunnelMalformed,
    /// The inner frame is not IPv4.
    InnerNotIpv4,
    /// The tunnel header names no steering slot.
    NoSlot,
    /// VXLAN for another tunnel end.
    WrongVtep,
    /// VXLAN from another tunnel end than the switch's.
    UnknownPeer,
    /// The frame is spread over several buffers.
    Scattered,
    /// No configuration has arrived yet, or the sessions of an earlier process
    /// have not been taken over yet.
    NoConfiguration,
    /// The ring to the worker that owns the session is full.
    RedirectFull,
    /// The port's transmit queue stayed full.
    TxFull,
    /// The answer does not fit into the frame that it answers.
    ReplyTooLong,
}

impl FrameDrop {
    /// Every reason, in the order of [`FrameDrop::index`].
    pub const ALL: [Self; 11] = [
        Self::NotTunnel,
        Self::TunnelMalformed,
        Self::InnerNotIpv4,
        Self::NoSlot,
        Self::WrongVtep,
        Self::UnknownPeer,
        Self::Scattered,
        Self::NoConfiguration,
        Self::RedirectFull,
        Self::TxFull,
        Self::ReplyTooLong,
    ];
    /// Number of reasons.
    pub const COUNT: usize = Self::ALL.len();

    /// Place in [`FrameDrop::ALL`] and in the counters.
    #[inline(always)]
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The name under which it is counted and shown.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotTunnel => "not_tunnel",
            Self::TunnelMalformed => "tunnel_malformed",
            Self::InnerNotIpv4 => "inner_not_ipv4",
            Self::NoSlot => "no_slot",
            Self::WrongVtep => "wrong_vtep",
            Self::UnknownPeer => "unknown_peer",
            Self::Scattered => "scattered",
            Self::NoConfiguration => "no_configuration",
            Self::RedirectFull => "redirect_full",
            Self::TxFull => "tx_full",
            Self::ReplyTooLong => "reply_too_long",
        }
    }
}

impl From<NotTunnelled> for FrameDrop {
    fn from(reason: NotTunnelled) -> Self {
        match reason {
            NotTunnelled::Other => Self::NotTunnel,
            NotTunnelled::Malformed => Self::TunnelMalformed,
            NotTunnelled::InnerNotIpv4 => Self::InnerNotIpv4,
            NotTunnelled::NoSlot => Self::NoSlot,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use session_engine::DropReason;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_across_both_lists() {
        for (i, reason) in FrameDrop::ALL.iter().enumerate() {
            assert_eq!(reason.index(), i);
        }
        let mut names: HashSet<&str> = FrameDrop::ALL.iter().map(|r| r.name()).collect();
        names.extend(DropReason::ALL.iter().map(|r| r.name()));
        assert_eq!(names.len(), FrameDrop::COUNT + DropReason::COUNT);
    }
}
