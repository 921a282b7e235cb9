//! What happens to a packet, told from what the switch was given and what the
//! load directors say.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use offload_api::v1;
use tokio::sync::mpsc;
use tonic::Status;

use super::Core;
use crate::dataplane::Dataplane;
use crate::desired::{self, slot_owners};
use crate::entry::{Entry, FwdKey, Key, RevKey, Table, Value};
use crate::flows::{Dir, LdName, View};

/// Queries that LDs have not answered yet.
#[derive(Default)]
pub(super) struct Queries {
    last: u64,
    open: BTreeMap<u64, mpsc::Sender<v1::ExplainAnswer>>,
}

/// What the core can say at once, and whom else to ask.
pub struct ExplainPart {
    /// Steps so far.
    pub steps: Vec<String>,
    /// Verdict, if it does not depend on an LD.
    pub verdict: String,
    /// The offloaded session, if there is one.
    pub flow: Option<v1::FlowPair>,
    /// Entries to read, with what they are.
    pub entries: Vec<(String, Key)>,
    /// Where to read them.
    pub dataplane: Option<Arc<dyn Dataplane>>,
    /// LDs that were asked.
    pub asked: Vec<LdName>,
    /// Their answers.
    pub answers: mpsc::Receiver<v1::ExplainAnswer>,
}

const TCP: u8 = 6;
const UDP: u8 = 17;

impl Core {
    pub(super) fn explained(&mut self, answer: &v1::ExplainAnswer) {
        if let Some(waiting) = self.queries.open.get(&answer.query_id) {
            // A full channel has more answers than LDs were asked.
            let _ = waiting.try_send(answer.clone());
        }
    }

    pub(super) fn explain(&mut self, tuple: v1::Tuple) -> Result<ExplainPart, Status> {
        let protocol = match tuple.protocol {
            6 => TCP,
            17 => UDP,
            other => {
                return Err(Status::invalid_argument(format!(
                    "protocol {other}: only tcp (6) and udp (17) have sessions"
                )));
            }
        };
        let port = |name: &str, port: u32| {
            u16::try_from(port)
                .ok()
                .filter(|&port| port != 0)
                .ok_or_else(|| {
                    Status::invalid_argument(format!("{name} port {port}: write 1 to 65535"))
                })
        };
        let (src_port, dst_port) = (
            port("source", tuple.src_port)?,
            port("destination", tuple.dst_port)?,
        );
        let (src, dst) = (
            Ipv4Addr::from(tuple.src_addr),
            Ipv4Addr::from(tuple.dst_addr),
        );
        let (sender, answers) = mpsc::channel(64);
        let mut part = ExplainPart {
            steps: Vec::new(),
            verdict: String::new(),
            flow: None,
            entries: Vec::new(),
            dataplane: self.dataplane(),
            asked: Vec::new(),
            answers,
        };
        self.arrival(tuple.vni, src, &mut part);
        let vip = self.intent.effective.vips.iter().find(|vip| {
            vip.vni == tuple.vni
                && vip.address == dst
                && vip.protocol.number() == protocol
                && vip.port.contains(dst_port)
        });
        let lip = self.intent.local(tuple.vni, dst).and_then(|local| {
            let groups = &self.intent.effective.groups;
            let group = groups.iter().find(|group| group.name == local.group)?;
            Some((group.clone(), local.number))
        });
        if let Some(vip) = vip.cloned() {
            self.explain_vip(&vip, (src, src_port), dst_port, &mut part);
        } else if let Some((group, number)) = lip {
            self.explain_lip(
                &group, number, tuple.vni, dst, dst_port, protocol, &mut part,
            );
        } else {
            let named = self
                .intent
                .effective
                .vips
                .iter()
                .any(|vip| vip.vni == tuple.vni && vip.address == dst);
            if named {
                part.steps.push(format!(
                    "class: {dst} is a VIP's address, but no VIP there has {} port {dst_port}",
                    if protocol == TCP { "tcp" } else { "udp" }
                ));
                part.verdict = "drop:VIP_NO_PORT".to_owned();
            } else {
                part.steps
                    .push(format!("class: {dst} is neither a VIP nor a local address"));
                self.route(tuple.vni, dst, &mut part);
                if part.verdict.is_empty() {
                    part.verdict = "routed".to_owned();
                }
            }
        }
        if part.verdict.is_empty() || part.verdict == "fast" {
            self.ask(tuple, sender, &mut part);
        }
        Ok(part)
    }

    fn arrival(&self, vni: u32, src: Ipv4Addr, part: &mut ExplainPart) {
        match &part.dataplane {
            Some(_) => part.steps.push(format!(
                "switch {}: connected, configuration version {}{}",
                self.settings.target,
                self.intent.version.version,
                if self.mirror.converged(&self.target) {
                    ", all entries written"
                } else {
                    ", entries are missing yet"
                }
            )),
            None => part.steps.push(format!(
                "switch {}: not connected ({}); what follows is what it was given last",
                self.settings.target, self.switch.detail
            )),
        }
        match self.intent.effective.next_hop(vni, src) {
            Some((_, port)) => part.steps.push(format!(
                "port: {src} is behind port {} \"{}\"",
                port.number, port.name
            )),
            None => part.steps.push(format!(
                "port: no route leads back to {src}; replies would be dropped (NO_ROUTE)"
            )),
        }
    }

    fn explain_vip(
        &mut self,
        vip: &sluice_config::Vip,
        client: (Ipv4Addr, u16),
        vip_port: u16,
        part: &mut ExplainPart,
    ) {
        let Some(vip_id) = self.ids.find(&desired::vip_identity(vip)) else {
            part.verdict = "unknown".to_owned();
            return;
        };
        let retiring = if self.intent.is_retiring(vip) {
            ", removed from the configuration: no new sessions"
        } else {
            ""
        };
        part.steps.push(format!(
            "class: vip \"{}\" (vip_id {vip_id}, group \"{}\"{retiring})",
            vip.name, vip.group
        ));
        let key = FwdKey {
            vip_id,
            vip_port,
            client_addr: client.0,
            client_port: client.1,
        };
        match self.flows.find_fwd(&key) {
            Some(view) => {
                self.fast(&view, Dir::Fwd, part);
                if let Some(server) = self.server_addr(view.pair.server_id) {
                    self.route(vip.vni, server, part);
                }
            }
            None => {
                part.steps
                    .push("fast path: no entry; packets go the slow way".to_owned());
                let group = self
                    .intent
                    .effective
                    .groups
                    .iter()
                    .find(|group| group.name == vip.group);
                if let Some(group) = group.cloned() {
                    self.steer(&group, None, part);
                }
            }
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn explain_lip(
        &mut self,
        group: &sluice_config::Group,
        number: u16,
        vni: u32,
        dst: Ipv4Addr,
        local_port: u16,
        protocol: u8,
        part: &mut ExplainPart,
    ) {
        let local_id = self
            .ids
            .find(&desired::local_identity(vni, dst))
            .unwrap_or(0);
        part.steps.push(format!(
            "class: local address (local_id {local_id}) of group \"{}\", slot {number}",
            group.name
        ));
        let key = RevKey {
            local_id,
            local_port,
            protocol,
        };
        match self.flows.find_rev(&key) {
            Some(view) => {
                self.fast(&view, Dir::Rev, part);
                self.route(vni, view.pair.fwd.client_addr, part);
            }
            None => {
                part.steps
                    .push("fast path: no entry; packets go the slow way".to_owned());
                self.steer(group, Some(number), part);
            }
        }
    }

    fn fast(&self, view: &View, dir: Dir, part: &mut ExplainPart) {
        let pair = &view.pair;
        part.flow = Some(view.flow);
        part.steps.push(format!(
            "session {:#x} of ld \"{}\": {}",
            view.flow.session_id, view.ld, view.state
        ));
        part.steps.push(format!(
            "rewrite: {}, source {} port {} on the way to it, client {} port {} on the way back",
            self.server_name(pair.server_id),
            self.local_addr(pair.rev.local_id)
                .map_or_else(|| "?".to_owned(), |addr| addr.to_string()),
            pair.rev.local_port,
            pair.fwd.client_addr,
            pair.fwd.client_port,
        ));
        for dir in Dir::BOTH {
            let name = match dir {
                Dir::Fwd => "flow_fwd_v4",
                Dir::Rev => "flow_rev_v4",
            };
            part.entries.push((name.to_owned(), pair.key(dir)));
        }
        let complete = [
            Key::Server { id: pair.server_id },
            Key::Local {
                id: pair.rev.local_id,
            },
            Key::VipOut {
                id: pair.fwd.vip_id,
            },
        ]
        .iter()
        .all(|key| self.mirror.get(key).is_some());
        if !complete {
            part.steps.push(
                "rewrite: server, local or vip_out has no entry yet; packets go the slow way (FAST_INCOMPLETE)"
                    .to_owned(),
            );
        }
        if view.state == "installed" && complete {
            part.verdict = "fast".to_owned();
            part.steps.push(format!(
                "fast path: {}; SYN, FIN and RST go to the ld all the same",
                match dir {
                    Dir::Fwd => "the switch sends it to the server itself",
                    Dir::Rev => "the switch sends it to the client itself",
                }
            ));
        }
    }

    fn server_addr(&self, id: u16) -> Option<Ipv4Addr> {
        match self.mirror.get(&Key::Server { id })?.value {
            Value::Server { addr, .. } => Some(addr),
            _ => None,
        }
    }

    fn local_addr(&self, id: u16) -> Option<Ipv4Addr> {
        match self.mirror.get(&Key::Local { id })?.value {
            Value::Local { addr } => Some(addr),
            _ => None,
        }
    }

    /// Who gets what the fast path does not take.
    fn steer(&self, group: &sluice_config::Group, slot: Option<u16>, part: &mut ExplainPart) {
        let owners = slot_owners(group);
        let names: Vec<&str> = match slot {
            Some(number) => owners
                .get(usize::from(number))
                .copied()
                .into_iter()
                .collect(),
            None => {
                let mut names = owners.clone();
                names.sort_unstable();
                names.dedup();
                names
            }
        };
        for name in &names {
            let connected = self.connected_lds().iter().any(|ld| &**ld == *name);
            let hop = self
                .desired
                .hops
                .values()
                .find(|hop| {
                    let vtep = self
                        .intent
                        .effective
                        .lds
                        .iter()
                        .find(|ld| ld.name == *name)
                        .map(|ld| ld.vtep);
                    hop.tunnel.map(|(_, dst)| dst) == vtep
                })
                .map(|hop| hop.id);
            let reachable = hop.is_some_and(|id| self.mirror.get(&Key::Nexthop { id }).is_some());
            part.steps.push(format!(
                "steering: {} ld \"{name}\": {}, next hop {}",
                match slot {
                    Some(number) => format!("slot {number} belongs to"),
                    None => format!(
                        "{} of {} slots belong to",
                        owners.iter().filter(|owner| *owner == name).count(),
                        group.slots
                    ),
                },
                if connected {
                    "connected"
                } else {
                    "not connected to offload-ctl"
                },
                if reachable {
                    "resolved"
                } else {
                    "not resolved: dropped (NEXTHOP_MISS)"
                }
            ));
            if names.len() == 1 && !reachable {
                part.verdict = "drop:NEXTHOP_MISS".to_owned();
            }
        }
        if names.is_empty() {
            part.steps
                .push("steering: no ld owns the slot: dropped (STEERING_MISS)".to_owned());
            part.verdict = "drop:STEERING_MISS".to_owned();
        }
    }

    fn route(&self, vni: u32, dst: Ipv4Addr, part: &mut ExplainPart) {
        let best = self
            .mirror
            .of_table(Table::RouteV4)
            .filter_map(|entry| match entry.key {
                Key::RouteV4 { vni: of, addr, len }
                    if of == vni && prefix_holds(addr, len, dst) =>
                {
                    Some((len, addr, entry))
                }
                _ => None,
            })
            .max_by_key(|(len, _, _)| *len);
        let Some((len, addr, entry)) = best else {
            part.steps
                .push(format!("route: none to {dst}: dropped (NO_ROUTE)"));
            part.verdict = "drop:NO_ROUTE".to_owned();
            return;
        };
        match entry.value {
            Value::ToNexthop { nexthop_id } => self.next_hop(nexthop_id, addr, len, part),
            _ if self.is_own(dst) => {
                part.steps.push(format!(
                    "route: {dst} is the switch's own address; the controller answers"
                ));
                part.verdict = "cpu".to_owned();
            }
            _ => {
                part.steps.push(format!(
                    "route: {addr}/{len} is a link, and {dst} has not been seen there; the controller asks for it and the packet is dropped (unresolved)"
                ));
                part.verdict = "drop:unresolved".to_owned();
            }
        }
    }

    fn next_hop(&self, id: u16, addr: Ipv4Addr, len: u8, part: &mut ExplainPart) {
        match self.mirror.get(&Key::Nexthop { id }) {
            Some(Entry {
                value: Value::Forward { port, dmac, .. },
                ..
            }) => {
                let [_, _, a, b, c, d, e, f] = dmac.to_be_bytes();
                part.steps.push(format!(
                    "route: {addr}/{len} by next hop {id}: port {port}, to {a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}"
                ));
            }
            Some(_) => part
                .steps
                .push(format!("route: {addr}/{len} by next hop {id}, a tunnel")),
            None => {
                part.steps.push(format!(
                    "route: {addr}/{len} by next hop {id}, which does not answer ARP: dropped (NEXTHOP_MISS)"
                ));
                part.verdict = "drop:NEXTHOP_MISS".to_owned();
            }
        }
    }

    fn is_own(&self, addr: Ipv4Addr) -> bool {
        self.intent
            .effective
            .ports
            .iter()
            .any(|port| port.address.addr() == addr)
    }

    /// Asks every connected LD.
    fn ask(
        &mut self,
        tuple: v1::Tuple,
        sender: mpsc::Sender<v1::ExplainAnswer>,
        part: &mut ExplainPart,
    ) {
        self.queries.open.retain(|_, waiting| !waiting.is_closed());
        self.queries.last += 1;
        let query_id = self.queries.last;
        self.queries.open.insert(query_id, sender);
        for name in self.connected_lds() {
            let query = v1::ExplainQuery {
                query_id,
                tuple: Some(tuple),
            };
            self.tell(&name, v1::ctl_message::Message::Explain(query));
            part.asked.push(name);
        }
    }
}

fn prefix_holds(addr: Ipv4Addr, len: u8, dst: Ipv4Addr) -> bool {
    ipnet::Ipv4Net::new(addr, len).is_ok_and(|prefix| prefix.contains(&dst))
}
