//! The life of a session: LVS's TCP states, UDP's two, and those of a record
//! that no longer takes packets.

use packet::TcpFlags;

/// Which way a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the client to the server.
    Forward,
    /// From the server to the client.
    Reply,
}

/// State of a session record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum State {
    /// Not in use.
    #[default]
    Free,
    /// TCP: the client's SYN was seen.
    SynRecv,
    /// TCP: handshake complete.
    Established,
    /// TCP: the server has sent FIN, the client has not.
    FinWait,
    /// TCP: the client has sent FIN, the server has not.
    CloseWait,
    /// TCP: both have sent FIN.
    TimeWait,
    /// TCP: reset by either side.
    Close,
    /// UDP: only the client has sent.
    UdpUnreplied,
    /// UDP: both have sent.
    UdpReplied,
    /// Ended by the operator or by expiry; waits for the switch to give up its
    /// entries. Takes no packets.
    Killed,
    /// Ended; the local port rests. Takes no packets and is not in the index.
    Quarantine,
}

/// Number of [`State`]s.
pub(crate) const STATES: usize = 11;

impl State {
    /// For people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::SynRecv => "syn_recv",
            Self::Established => "established",
            Self::FinWait => "fin_wait",
            Self::CloseWait => "close_wait",
            Self::TimeWait => "time_wait",
            Self::Close => "close",
            Self::UdpUnreplied => "udp_unreplied",
            Self::UdpReplied => "udp_replied",
            Self::Killed => "killed",
            Self::Quarantine => "quarantine",
        }
    }

    /// Whether packets of the session pass.
    #[inline(always)]
    #[must_use]
    pub const fn is_live(self) -> bool {
        !matches!(self, Self::Free | Self::Killed | Self::Quarantine)
    }

    /// Whether a client's SYN means a new connection.
    #[must_use]
    pub const fn is_closing(self) -> bool {
        matches!(
            self,
            Self::FinWait | Self::CloseWait | Self::TimeWait | Self::Close | Self::Killed
        )
    }

    /// Whether the record counts as a session (it is in the index).
    #[must_use]
    pub const fn is_session(self) -> bool {
        !matches!(self, Self::Free | Self::Quarantine)
    }

    /// Whether both ends have finished.
    #[must_use]
    pub const fn is_over(self) -> bool {
        matches!(self, Self::TimeWait | Self::Close | Self::Killed)
    }

    /// Whether data flows and an entry in the switch is worth it.
    #[inline(always)]
    #[must_use]
    pub const fn is_offloadable(self) -> bool {
        matches!(self, Self::Established | Self::UdpReplied)
    }

    /// The state after a TCP segment, as in LVS's table for a NAT that sees
    /// both directions, but for one thing: the client's ACK completes the
    /// handshake only once the server's SYN-ACK was seen (`replied`).
    #[inline(always)]
    #[must_use]
    pub const fn after_tcp(self, dir: Direction, flags: TcpFlags, replied: bool) -> Self {
        if flags.rst() {
            return Self::Close;
        }
        match (dir, self) {
            (Direction::Forward, Self::SynRecv) if flags.fin() => Self::TimeWait,
            (Direction::Forward, Self::SynRecv) if flags.ack() && !flags.syn() && replied => {
                Self::Established
            }
            (Direction::Forward, Self::Established) if flags.fin() => Self::CloseWait,
            (Direction::Forward, Self::FinWait) if flags.fin() => Self::TimeWait,
            (Direction::Reply, Self::SynRecv | Self::Established) if flags.fin() => Self::FinWait,
            (Direction::Reply, Self::CloseWait) if flags.fin() => Self::TimeWait,
            _ => self,
        }
    }
}

/// How far a session's entries in the switch are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Offload {
    /// The switch has no entry of this session.
    #[default]
    None,
    /// Asked for; there may or may not be entries.
    Requested,
    /// Both directions acknowledged.
    Installed,
    /// Removal asked for; entries may still be there.
    Removing,
}

impl Offload {
    /// For people.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Requested => "requested",
            Self::Installed => "installed",
            Self::Removing => "removing",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Direction::{Forward, Reply};

    const SYN: u8 = TcpFlags::SYN;
    const ACK: u8 = TcpFlags::ACK;
    const FIN: u8 = TcpFlags::FIN | TcpFlags::ACK;
    const RST: u8 = TcpFlags::RST;

    /// Plays segments and gives the states after each.
    fn play(segments: &[(Direction, u8)]) -> Vec<State> {
        let mut s = State::SynRecv;
        let mut replied = false;
        segments
            .iter()
            .map(|(d, f)| {
                replied |= *d == Reply;
                s = s.after_tcp(*d, TcpFlags(*f), replied);
                s
            })
            .collect()
    }

    #[test]
    fn handshake_then_server_closes_first() {
        use State::{Established, FinWait, SynRecv, TimeWait};
        assert_eq!(
            play(&[
                (Forward, SYN),
                (Reply, SYN | ACK),
                (Forward, ACK),
                (Reply, ACK),
                (Reply, FIN),
                (Forward, ACK),
                (Forward, FIN),
                (Reply, ACK),
            ]),
            [
                SynRecv,
                SynRecv,
                Established,
                Established,
                FinWait,
                FinWait,
                TimeWait,
                TimeWait
            ]
        );
    }

    #[test]
    fn client_closes_first() {
        use State::{CloseWait, Established, SynRecv, TimeWait};
        assert_eq!(
            play(&[
                (Reply, SYN | ACK),
                (Forward, ACK),
                (Forward, FIN),
                (Reply, ACK),
                (Reply, FIN),
                (Forward, ACK),
            ]),
            [
                SynRecv,
                Established,
                CloseWait,
                CloseWait,
                TimeWait,
                TimeWait
            ]
        );
    }

    #[test]
    fn an_ack_without_the_servers_answer_opens_nothing() {
        assert_eq!(play(&[(Forward, ACK), (Forward, ACK)]), [State::SynRecv; 2]);
    }

    #[test]
    fn reset_from_either_side_closes_in_every_state() {
        for s in [
            State::SynRecv,
            State::Established,
            State::FinWait,
            State::CloseWait,
            State::TimeWait,
        ] {
            for d in [Forward, Reply] {
                assert_eq!(s.after_tcp(d, TcpFlags(RST | ACK), true), State::Close);
            }
        }
    }
}
