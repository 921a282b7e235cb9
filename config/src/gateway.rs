//! `gateway.toml`: what operators want of the gateway as a whole.

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};

use crate::mac::Mac;
use crate::ports::PortRange;
use crate::problem::{self, Invalid};

mod validate;

/// Sizes that the P4 program is built with; a configuration that needs more is
/// refused before the switch has to.
pub mod limits {
    /// VIPs.
    pub const VIPS: usize = 4096;
    /// Servers over all VIPs.
    pub const SERVERS: usize = 16_384;
    /// Local addresses.
    pub const LOCALS: usize = 4096;
    /// Steering slots over all groups.
    pub const SLOTS: usize = 4096;
    /// Maglev buckets of a steering group; also its most slots.
    pub const BUCKETS: usize = 256;
    /// VLAN ids go to 4094 (IEEE 802.1Q).
    pub const VLAN_MAX: u16 = 4094;
    /// VXLAN network identifiers have 24 bits (RFC 7348).
    pub const VNI_MAX: u32 = (1 << 24) - 1;
    /// Highest port number a bmv2-like switch forwards to: 510 is the CPU port
    /// and 511 drops.
    pub const SWITCH_PORT_MAX: u16 = 509;
}

/// The operators' intent: one file, applied as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gateway {
    /// The switch as a host in the network.
    pub switch: Switch,
    /// Its ports.
    #[serde(rename = "port")]
    pub ports: Vec<Port>,
    /// Next hops whose Ethernet address is not to be asked for.
    #[serde(default, rename = "neighbor")]
    pub neighbors: Vec<Neighbor>,
    /// Routes beyond the ports' own prefixes.
    #[serde(default, rename = "route")]
    pub routes: Vec<Route>,
    /// Load directors.
    #[serde(default, rename = "ld")]
    pub lds: Vec<Ld>,
    /// Steering groups.
    #[serde(default, rename = "group")]
    pub groups: Vec<Group>,
    /// Virtual services.
    #[serde(default, rename = "vip")]
    pub vips: Vec<Vip>,
}

/// The switch as a host in the network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Switch {
    /// Its end of the tunnels to the load directors.
    pub vtep: Ipv4Addr,
}

/// What is behind a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PortRole {
    /// Clients.
    Uplink,
    /// Servers.
    Fabric,
    /// Load directors.
    Ld,
}

/// A port of the switch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Port {
    /// Number on the switch.
    pub number: u16,
    /// Name for people.
    pub name: String,
    /// What is behind it.
    pub role: PortRole,
    /// The switch's Ethernet address there.
    pub mac: Mac,
    /// The switch's address there, with the prefix length of the link.
    pub address: Ipv4Net,
    /// VLAN id of its frames, 0 for untagged.
    #[serde(default)]
    pub vlan: u16,
    /// Largest IPv4 packet on the link, bytes.
    #[serde(default = "ethernet_mtu")]
    pub mtu: u16,
    /// Tenant of what arrives here without a tunnel, 0 for public.
    #[serde(default)]
    pub vni: u32,
}

/// A next hop with its Ethernet address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Neighbor {
    /// The next hop, on the link of one of the ports.
    pub address: Ipv4Addr,
    /// Its Ethernet address.
    pub mac: Mac,
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// Destination.
    pub prefix: Ipv4Net,
    /// Next hop, on the link of one of the ports.
    pub via: Ipv4Addr,
    /// Tenant, 0 for public.
    #[serde(default)]
    pub vni: u32,
}

/// A load director: a node that runs slowpath.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ld {
    /// Name, the one in its slowpath.toml.
    pub name: String,
    /// Its end of the tunnel.
    pub vtep: Ipv4Addr,
}

/// A steering group: load directors and the local addresses they share out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Name for people and for VIPs.
    pub name: String,
    /// Names of its load directors.
    pub lds: Vec<String>,
    /// Prefixes of local addresses (LIPs); every address in them is used.
    pub lips: Vec<Ipv4Net>,
    /// Slots: units of ownership that move between load directors whole.
    pub slots: u16,
    /// Tenant of the local addresses, 0 for public.
    #[serde(default)]
    pub vni: u32,
}

/// Transport protocol of a VIP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// RFC 9293.
    Tcp,
    /// RFC 768.
    Udp,
}

impl Protocol {
    /// Number in the IP header (IANA).
    pub fn number(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
        }
    }
}

/// How a server is chosen, with the names IPVS has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Scheduler {
    /// Round robin, weights ignored (0 excepted).
    #[default]
    #[serde(rename = "rr")]
    RoundRobin,
    /// Smooth weighted round robin.
    #[serde(rename = "wrr")]
    WeightedRoundRobin,
    /// Client address by Maglev's table.
    #[serde(rename = "sh")]
    SourceHash,
}

/// A virtual service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vip {
    /// Name for people.
    pub name: String,
    /// Virtual address.
    pub address: Ipv4Addr,
    /// Virtual port, or ports.
    pub port: PortRange,
    /// Transport protocol.
    pub protocol: Protocol,
    /// Tenant, 0 for public.
    #[serde(default)]
    pub vni: u32,
    /// Steering group that serves it.
    pub group: String,
    /// How a server is chosen.
    #[serde(default)]
    pub scheduler: Scheduler,
    /// How long sessions live without packets.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// When sessions go to the switch.
    #[serde(default)]
    pub offload: OffloadPolicy,
    /// Most sessions it may hold, 0 for no limit.
    #[serde(default)]
    pub max_sessions: u64,
    /// Real servers.
    #[serde(default, rename = "server")]
    pub servers: Vec<Server>,
}

/// How long sessions live without packets, ms. Defaults are those of LVS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Timeouts {
    /// TCP before it is established.
    pub syn_ms: u32,
    /// TCP established.
    pub established_ms: u32,
    /// TCP after the first FIN.
    pub fin_ms: u32,
    /// TCP after both FINs.
    pub time_wait_ms: u32,
    /// TCP after RST.
    pub close_ms: u32,
    /// UDP.
    pub udp_ms: u32,
    /// Least rest of a local port between two sessions.
    pub port_hold_ms: u32,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            syn_ms: 60_000,
            established_ms: 900_000,
            fin_ms: 60_000,
            time_wait_ms: 60_000,
            close_ms: 10_000,
            udp_ms: 300_000,
            port_hold_ms: 2_000,
        }
    }
}

/// When sessions go to the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OffloadPolicy {
    /// Whether they do at all.
    pub enabled: bool,
    /// Packets, both directions together, before a session is worth an entry.
    pub min_packets: u32,
}

impl Default for OffloadPolicy {
    fn default() -> Self {
        Self {
            enabled: true,
            min_packets: 4,
        }
    }
}

/// Operators' state of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ServerState {
    /// In service.
    #[default]
    Up,
    /// Established connections go on, no new ones.
    Drain,
}

/// A real server of one VIP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Name for people, unique within the VIP.
    pub name: String,
    /// Address.
    pub address: Ipv4Addr,
    /// Port; absent keeps the port the client used, which a VIP with a range
    /// of ports needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Share of new connections, 0 for none.
    #[serde(default = "weight_one")]
    pub weight: u16,
    /// Operators' state.
    #[serde(default)]
    pub state: ServerState,
}

fn ethernet_mtu() -> u16 {
    1500
}

fn weight_one() -> u16 {
    1
}

impl Gateway {
    /// Reads and validates `gateway.toml`.
    ///
    /// # Errors
    /// [`Invalid`] with everything that is wrong: one problem if the text
    /// cannot be parsed, else all that validation finds.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let gateway: Self = problem::parse(text)?;
        let problems = validate::problems(&gateway);
        if problems.is_empty() {
            Ok(gateway)
        } else {
            Err(Invalid { problems })
        }
    }

    /// The port on whose link `address` is, within a tenant.
    pub fn port_for(&self, vni: u32, address: Ipv4Addr) -> Option<&Port> {
        self.ports
            .iter()
            .find(|port| port.vni == vni && port.address.contains(&address))
    }

    /// The next hop towards `address` and the port it is behind: the address
    /// itself on a link, otherwise the gateway of the longest matching route.
    pub fn next_hop(&self, vni: u32, address: Ipv4Addr) -> Option<(Ipv4Addr, &Port)> {
        if let Some(port) = self.port_for(vni, address) {
            return Some((address, port));
        }
        let route = self
            .routes
            .iter()
            .filter(|route| route.vni == vni && route.prefix.contains(&address))
            .max_by_key(|route| route.prefix.prefix_len())?;
        self.port_for(vni, route.via).map(|port| (route.via, port))
    }
}

impl Group {
    /// Every local address of the group with the index of the slot that owns
    /// it, in address order; slots take turns.
    pub fn locals(&self) -> impl Iterator<Item = (Ipv4Addr, u16)> + '_ {
        let slots = self.slots.max(1);
        self.lips
            .iter()
            .flat_map(|prefix| {
                let first = u32::from(prefix.network());
                let last = u32::from(prefix.broadcast());
                (first..=last).map(Ipv4Addr::from)
            })
            .zip((0..slots).cycle())
    }
}
