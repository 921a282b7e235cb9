//! Ethernet addresses of next hops, and answers for the switch's own.
//!
//! Next hops are asked for ahead of traffic and asked again from time to time;
//! one that stops answering keeps its last address, since a wrong guess costs
//! no more than a missing one. Hosts of a link that ask for the switch's
//! address, or that a packet was for, are learned as well, up to a limit.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use sluice_config::{Gateway, Mac, PortRole};

use crate::desired::{Hop, LearnedHost};
use crate::frames::{self, Frame};

/// Most hosts that are learned without being configured.
const LEARNED_MAX: usize = 1024;
/// Hosts that were learned are forgotten after this many refreshes without an
/// answer.
const FORGET_AFTER: u32 = 10;
/// Most requests a tick; the rest wait for the next.
const REQUESTS_PER_TICK: usize = 64;
/// Most frames answered a second.
const ANSWERS_PER_SECOND: u32 = 2_000;

/// A frame and the port it goes out of.
pub type Outgoing = (u16, Vec<u8>);

#[derive(Clone, Debug)]
struct Port {
    mac: Mac,
    link: Ipv4Net,
    vni: u32,
    role: PortRole,
}

#[derive(Clone, Debug)]
struct State {
    mac: Option<Mac>,
    fixed: bool,
    /// Some entry leads to it; otherwise it was learned.
    needed: bool,
    /// When to ask next, ms.
    ask_at: u64,
    unanswered: u32,
}

/// What came of a frame.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reaction {
    /// To be sent.
    pub send: Vec<Outgoing>,
    /// The Ethernet address of a next hop is new or another.
    pub changed: bool,
    /// A host that was not known.
    pub learned: Option<LearnedHost>,
}

/// Totals since start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// ARP requests answered.
    pub arp_answered: u64,
    /// ARP requests sent.
    pub arp_asked: u64,
    /// Pings answered.
    pub echo_answered: u64,
    /// Packets for hosts of a link that are not known yet, dropped.
    pub unresolved_dropped: u64,
    /// Frames that nobody here wants, dropped.
    pub unwanted_dropped: u64,
    /// Frames dropped because too many came in a second.
    pub rate_limited: u64,
}

/// All neighbours.
#[derive(Debug)]
pub struct Neighbors {
    retry_ms: u64,
    refresh_ms: u64,
    ports: BTreeMap<u16, Port>,
    states: BTreeMap<(u16, Ipv4Addr), State>,
    /// VIPs and local addresses, (vni, address): answered for where they are
    /// of a link's prefix.
    virtual_addresses: HashSet<(u32, Ipv4Addr)>,
    window: (u64, u32),
    stats: Stats,
}

impl Neighbors {
    /// Nothing known yet.
    pub fn new(retry_ms: u64, refresh_ms: u64) -> Self {
        Self {
            retry_ms,
            refresh_ms,
            ports: BTreeMap::new(),
            states: BTreeMap::new(),
            virtual_addresses: HashSet::new(),
            window: (0, 0),
            stats: Stats::default(),
        }
    }

    /// Totals since start.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Next hops that are needed and not resolved.
    pub fn unresolved(&self) -> Vec<(u16, Ipv4Addr)> {
        self.states
            .iter()
            .filter(|(_, state)| state.needed && state.mac.is_none())
            .map(|(&key, _)| key)
            .collect()
    }

    /// Takes in a configuration and the next hops that it leads to.
    pub fn configure(&mut self, gateway: &Gateway, hops: &BTreeMap<u16, Hop>) {
        self.ports = gateway
            .ports
            .iter()
            .map(|port| {
                (
                    port.number,
                    Port {
                        mac: port.mac,
                        link: port.address,
                        vni: port.vni,
                        role: port.role,
                    },
                )
            })
            .collect();
        self.virtual_addresses = gateway
            .vips
            .iter()
            .map(|vip| (vip.vni, vip.address))
            .chain(gateway.groups.iter().flat_map(|group| {
                let addresses = group.locals();
                addresses.map(|(addr, _)| (group.vni, addr))
            }))
            .collect();
        let fixed: HashMap<Ipv4Addr, Mac> = gateway
            .neighbors
            .iter()
            .map(|neighbor| (neighbor.address, neighbor.mac))
            .collect();
        let ports = &self.ports;
        self.states
            .retain(|(port, addr), _| ports.get(port).is_some_and(|p| p.link.contains(addr)));
        for state in self.states.values_mut() {
            state.needed = false;
            state.fixed = false;
        }
        for hop in hops.values().filter(|hop| hop.configured) {
            self.states
                .entry((hop.port, hop.neighbor))
                .or_insert_with(State::unknown)
                .needed = true;
        }
        for ((_, addr), state) in &mut self.states {
            if let Some(mac) = fixed.get(addr) {
                state.mac = Some(*mac);
                state.fixed = true;
            }
        }
    }

    /// Hosts that were learned, for routes to them.
    pub fn learned(&self) -> BTreeSet<LearnedHost> {
        self.states
            .iter()
            .filter(|((port, _), state)| {
                state.mac.is_some()
                    && self
                        .ports
                        .get(port)
                        .is_some_and(|port| port.role != PortRole::Ld)
            })
            .map(|(&(port, addr), _)| LearnedHost { port, addr })
            .collect()
    }

    /// The Ethernet address of a neighbour.
    pub fn mac(&self, port: u16, addr: Ipv4Addr) -> Option<Mac> {
        self.states.get(&(port, addr))?.mac
    }

    /// Takes over what an earlier process had put on the switch.
    pub fn import(&mut self, port: u16, addr: Ipv4Addr, mac: Mac) {
        let state = self
            .states
            .entry((port, addr))
            .or_insert_with(State::unknown);
        if state.mac.is_none() {
            state.mac = Some(mac);
        }
    }

    /// Asks for a host that an earlier process had learned.
    pub fn remember(&mut self, port: u16, addr: Ipv4Addr) {
        let on_link = self
            .ports
            .get(&port)
            .is_some_and(|p| p.link.contains(&addr));
        if on_link {
            self.states
                .entry((port, addr))
                .or_insert_with(State::unknown);
        }
    }

    /// A frame has come in by packet-in.
    pub fn frame(&mut self, port: u16, frame: &[u8], now: u64) -> Reaction {
        if self.window.0 != now / 1000 {
            self.window = (now / 1000, 0);
        }
        self.window.1 += 1;
        if self.window.1 > ANSWERS_PER_SECOND {
            self.stats.rate_limited += 1;
            return Reaction::default();
        }
        let Some(here) = self.ports.get(&port).cloned() else {
            self.stats.unwanted_dropped += 1;
            return Reaction::default();
        };
        match frames::parse(frame) {
            Some(Frame::Arp(arp)) => self.arp(port, &here, &arp, now),
            Some(Frame::Ipv4(packet)) => self.packet(port, &here, &packet, now),
            None => {
                self.stats.unwanted_dropped += 1;
                Reaction::default()
            }
        }
    }

    fn arp(&mut self, port: u16, here: &Port, arp: &frames::Arp, now: u64) -> Reaction {
        let mut reaction = Reaction::default();
        let own = here.link.addr();
        let ours = |addr: Ipv4Addr| {
            addr == own
                || (here.link.contains(&addr) && self.virtual_addresses.contains(&(here.vni, addr)))
        };
        let for_us = ours(arp.target);
        let sender_is_us = ours(arp.sender);
        let mac = Mac(arp.sender_mac);
        let unicast = mac.0[0] & 1 == 0 && mac.0 != [0; 6];
        if !sender_is_us && here.link.contains(&arp.sender) && unicast {
            self.learn(port, arp.sender, mac, for_us, now, &mut reaction);
        }
        if arp.request && for_us {
            self.stats.arp_answered += 1;
            reaction.send.push((port, frames::arp_reply(here.mac, arp)));
        }
        reaction
    }

    fn learn(
        &mut self,
        port: u16,
        addr: Ipv4Addr,
        mac: Mac,
        for_us: bool,
        now: u64,
        reaction: &mut Reaction,
    ) {
        if !self.states.contains_key(&(port, addr)) {
            if !for_us || self.states.len() >= LEARNED_MAX + self.needed() {
                return;
            }
            self.states.insert((port, addr), State::unknown());
        }
        let Some(state) = self.states.get_mut(&(port, addr)) else {
            return;
        };
        if state.fixed {
            return;
        }
        state.unanswered = 0;
        state.ask_at = now + self.refresh_ms;
        if state.mac != Some(mac) {
            if state.mac.is_none() && !state.needed {
                reaction.learned = Some(LearnedHost { port, addr });
            }
            state.mac = Some(mac);
            reaction.changed = true;
        }
    }

    fn needed(&self) -> usize {
        self.states.values().filter(|state| state.needed).count()
    }

    fn packet(&mut self, port: u16, here: &Port, packet: &frames::Ipv4<'_>, now: u64) -> Reaction {
        let mut reaction = Reaction::default();
        let ours = self
            .ports
            .values()
            .any(|p| p.vni == here.vni && p.link.addr() == packet.destination);
        if ours {
            match frames::echo_reply(here.mac, packet) {
                Some(reply) => {
                    self.stats.echo_answered += 1;
                    reaction.send.push((port, reply));
                }
                None => self.stats.unwanted_dropped += 1,
            }
            return reaction;
        }
        // A host of a link that nobody has asked for yet: ask, and let the
        // sender try again.
        self.stats.unresolved_dropped += 1;
        let link = self.ports.iter().find(|(_, p)| {
            p.vni == here.vni
                && p.role != PortRole::Ld
                && p.link.contains(&packet.destination)
                && packet.destination != p.link.network()
                && packet.destination != p.link.broadcast()
        });
        if let Some((&out, _)) = link {
            let key = (out, packet.destination);
            if !self.states.contains_key(&key) && self.states.len() < LEARNED_MAX + self.needed() {
                self.states.insert(key, State::unknown());
                reaction.send.extend(self.ask(key, now));
            }
        }
        reaction
    }

    fn ask(&mut self, (port, addr): (u16, Ipv4Addr), now: u64) -> Option<Outgoing> {
        let here = self.ports.get(&port)?;
        let state = self.states.get_mut(&(port, addr))?;
        state.unanswered = state.unanswered.saturating_add(1);
        state.ask_at = now
            + if state.mac.is_none() {
                // Up to 16 times the interval while nothing answers.
                self.retry_ms << state.unanswered.saturating_sub(8).min(4)
            } else if state.unanswered > 3 {
                self.refresh_ms
            } else {
                self.retry_ms
            };
        self.stats.arp_asked += 1;
        Some((port, frames::arp_request(here.mac, here.link.addr(), addr)))
    }

    /// The switch has come (back): what was asked meanwhile went nowhere, so
    /// ask for all anew.
    pub fn ask_all(&mut self) {
        for state in self.states.values_mut() {
            state.ask_at = 0;
            state.unanswered = 0;
        }
    }

    /// What is due now, while the switch is there. The second value tells whether a learned host was
    /// forgotten.
    pub fn tick(&mut self, now: u64) -> (Vec<Outgoing>, bool) {
        let before = self.states.len();
        self.states
            .retain(|_, state| state.needed || state.fixed || state.unanswered < FORGET_AFTER);
        let forgot = self.states.len() != before;
        let due: Vec<(u16, Ipv4Addr)> = self
            .states
            .iter()
            .filter(|(_, state)| !state.fixed && state.ask_at <= now)
            .map(|(&key, _)| key)
            .take(REQUESTS_PER_TICK)
            .collect();
        let frames = due
            .into_iter()
            .filter_map(|key| self.ask(key, now))
            .collect();
        (frames, forgot)
    }
}

impl State {
    fn unknown() -> Self {
        Self {
            mac: None,
            fixed: false,
            needed: false,
            ask_at: 0,
            unanswered: 0,
        }
    }
}
