//! What operators ask for.

use std::collections::HashMap;
use std::sync::Arc;

use offload_api::v1::{self, set_server_state_request::Action};
use sluice_config::Gateway;
use tokio::sync::oneshot;
use tonic::Status;

use super::{Core, explain, unix_ms};
use crate::dataplane::Dataplane;
use crate::desired::{self, Intent, api_vip};
use crate::entry::Table;
use crate::flows::View;
use crate::ids::Kind;
use crate::wire;

type Reply<T> = oneshot::Sender<Result<T, Status>>;

/// A question or an order; the answer goes to the sender inside.
pub enum AdminRequest {
    /// Replace the configuration, or plan it.
    Apply(v1::ApplyRequest, Reply<v1::ApplyResponse>),
    /// What was applied.
    GetConfig(v1::GetConfigRequest, Reply<v1::GetConfigResponse>),
    /// Status, as far as the core knows.
    GetStatus(Reply<v1::GetStatusResponse>),
    /// VIPs without counters.
    ListVips(v1::ListVipsRequest, Reply<VipsPage>),
    /// Flows without counters.
    ListFlows(v1::ListFlowsRequest, Reply<FlowsPage>),
    /// Servers in and out of service.
    SetServerState(v1::SetServerStateRequest, Reply<v1::SetServerStateResponse>),
    /// What it takes to read counters.
    Counters(Reply<CounterView>),
    /// First half of an explanation.
    Explain(v1::Tuple, Reply<explain::ExplainPart>),
}

/// VIPs, and where to read their counters.
pub struct VipsPage {
    /// The VIPs.
    pub response: v1::ListVipsResponse,
    /// The switch, if it is there.
    pub dataplane: Option<Arc<dyn Dataplane>>,
}

/// Flows, and where to read their counters.
pub struct FlowsPage {
    /// The flows.
    pub views: Vec<View>,
    /// For the next page.
    pub next_page_token: String,
    /// How many there are in all.
    pub total: u64,
    /// The switch, if it is there.
    pub dataplane: Option<Arc<dyn Dataplane>>,
}

/// Names for indices of counters, and where to read them.
pub struct CounterView {
    /// The switch.
    pub dataplane: Arc<dyn Dataplane>,
    /// Names of ports by number.
    pub ports: HashMap<u32, String>,
}

const PAGE: usize = 100;
const PAGE_MAX: usize = 1000;

impl Core {
    pub(super) fn admin(&mut self, request: AdminRequest) {
        // Whoever asked may be gone; then nobody wants the answer.
        match request {
            AdminRequest::Apply(request, reply) => {
                let _ = reply.send(self.apply(request));
            }
            AdminRequest::GetConfig(request, reply) => {
                let _ = reply.send(self.get_config(request.version));
            }
            AdminRequest::GetStatus(reply) => {
                let _ = reply.send(Ok(self.status()));
            }
            AdminRequest::ListVips(request, reply) => {
                let _ = reply.send(self.vips(&request));
            }
            AdminRequest::ListFlows(request, reply) => {
                let _ = reply.send(self.list_flows(&request));
            }
            AdminRequest::SetServerState(request, reply) => {
                let _ = reply.send(self.set_server_state(&request));
            }
            AdminRequest::Counters(reply) => {
                let _ = reply.send(self.counters());
            }
            AdminRequest::Explain(tuple, reply) => {
                let _ = reply.send(self.explain(tuple));
            }
        }
    }

    fn get_config(&self, version: u64) -> Result<v1::GetConfigResponse, Status> {
        let present = &self.intent.version;
        let stored = if version == 0 || version == present.version {
            present.clone()
        } else {
            self.store
                .version(version)
                .map_err(|error| Status::unavailable(error.to_string()))?
                .ok_or_else(|| {
                    Status::not_found(format!(
                        "version {version} is not kept; in force is {}, and the {} before it are kept",
                        present.version,
                        crate::store::HISTORY - 1
                    ))
                })?
        };
        Ok(v1::GetConfigResponse {
            version: stored.version,
            config_toml: stored.text,
            applied_unix_ms: stored.applied_unix_ms,
            drained: stored
                .drained
                .into_iter()
                .map(|(vip, server)| format!("{vip}/{server}"))
                .collect(),
        })
    }

    fn apply(&mut self, request: v1::ApplyRequest) -> Result<v1::ApplyResponse, Status> {
        let present = self.intent.version.version;
        if request.expected_version != 0 && request.expected_version != present {
            return Err(Status::failed_precondition(format!(
                "the configuration is at version {present}, not {}; look at `sluice show config` and plan again",
                request.expected_version
            )));
        }
        let gateway = match Gateway::parse(&request.config_toml) {
            Ok(gateway) => gateway,
            Err(invalid) => {
                return Ok(v1::ApplyResponse {
                    version: present,
                    problems: invalid
                        .problems
                        .into_iter()
                        .map(|problem| v1::Problem {
                            place: problem.place,
                            what: problem.what,
                            way_out: problem.way_out,
                        })
                        .collect(),
                    ..v1::ApplyResponse::default()
                });
            }
        };
        let changes = desired::changes(&self.intent.gateway, &gateway);
        let mut ids = self.ids.clone();
        let next = match self
            .intent
            .next(request.config_toml, gateway, unix_ms(), &mut ids)
        {
            Ok(next) => next,
            Err(exhausted) => {
                return Ok(v1::ApplyResponse {
                    version: present,
                    problems: vec![v1::Problem {
                        place: "the configuration as a whole".to_owned(),
                        what: exhausted.to_string(),
                        way_out: "wait until removed objects have no sessions left, or use fewer"
                            .to_owned(),
                    }],
                    ..v1::ApplyResponse::default()
                });
            }
        };
        if request.dry_run {
            return Ok(v1::ApplyResponse {
                version: present,
                changes,
                problems: Vec::new(),
            });
        }
        self.commit(next, ids)?;
        tracing::info!(
            version = self.intent.version.version,
            changes = changes.len(),
            "configuration applied"
        );
        Ok(v1::ApplyResponse {
            version: self.intent.version.version,
            changes,
            problems: Vec::new(),
        })
    }

    /// Stores an intent, then has it carried out.
    fn commit(&mut self, next: Intent, ids: crate::ids::IdBook) -> Result<(), Status> {
        self.store
            .save(&next.version, &ids)
            .map_err(|error| Status::unavailable(format!("nothing was changed: {error}")))?;
        self.intent = next;
        self.ids = ids;
        self.rebuild();
        self.send_snapshots();
        Ok(())
    }

    fn set_server_state(
        &mut self,
        request: &v1::SetServerStateRequest,
    ) -> Result<v1::SetServerStateResponse, Status> {
        let vip = self
            .intent
            .gateway
            .vips
            .iter()
            .find(|vip| vip.name == request.vip)
            .ok_or_else(|| {
                let names: Vec<&str> = self
                    .intent
                    .gateway
                    .vips
                    .iter()
                    .map(|vip| vip.name.as_str())
                    .collect();
                Status::not_found(format!(
                    "there is no vip \"{}\"; there are: {}",
                    request.vip,
                    names.join(", ")
                ))
            })?;
        let server = vip
            .servers
            .iter()
            .find(|server| server.name == request.server)
            .ok_or_else(|| {
                let names: Vec<&str> = vip.servers.iter().map(|s| s.name.as_str()).collect();
                Status::not_found(format!(
                    "vip \"{}\" has no server \"{}\"; it has: {}",
                    request.vip,
                    request.server,
                    names.join(", ")
                ))
            })?;
        let in_file = server.state;
        let vip_id = self.ids.find(&desired::vip_identity(vip)).unwrap_or(0);
        let server_id = self
            .ids
            .find(&desired::server_identity(vip_id, server))
            .unwrap_or(0);
        let name = (request.vip.clone(), request.server.clone());
        let mut drained = self.intent.version.drained.clone();
        match request.action() {
            Action::Unspecified => {
                return Err(Status::invalid_argument(
                    "name an action: up, drain or kill",
                ));
            }
            Action::Up => {
                drained.retain(|other| *other != name);
                if in_file == sluice_config::ServerState::Drain {
                    return Err(Status::failed_precondition(format!(
                        "server \"{}\" of vip \"{}\" has state = \"drain\" in gateway.toml; change it there and apply",
                        request.server, request.vip
                    )));
                }
            }
            Action::Drain | Action::Kill => {
                if !drained.contains(&name) {
                    drained.push(name);
                }
            }
        }
        if drained != self.intent.version.drained {
            let next = self.intent.with_drained(drained, unix_ms(), &self.ids);
            self.commit(next, self.ids.clone())?;
        }
        if request.action() == Action::Kill && vip_id != 0 && server_id != 0 {
            let kill = v1::Kill {
                vip_id: vip_id.into(),
                server_id: server_id.into(),
            };
            let connected = self.connected_lds();
            for ld in &connected {
                self.tell(ld, v1::ctl_message::Message::Kill(kill));
            }
            self.flows.kill(vip_id, server_id, |ld| {
                connected.iter().any(|name| &**name == ld)
            });
        }
        Ok(v1::SetServerStateResponse {
            version: self.intent.version.version,
        })
    }

    fn status(&self) -> v1::GetStatusResponse {
        let fill = self.mirror.fill();
        let flows = self.flows.len() as u64;
        let tables = Table::ALL
            .into_iter()
            .map(|table| {
                let info = wire::info(table);
                let entries = if table.is_flow() {
                    flows
                } else {
                    fill.get(&table).copied().unwrap_or(0)
                };
                v1::TableFill {
                    table: info.name.to_owned(),
                    entries,
                    size: info.size,
                }
            })
            .collect();
        let up = self.switch.is_up();
        let detail = if !up {
            if self.switch.detail.is_empty() {
                "connecting".to_owned()
            } else {
                self.switch.detail.clone()
            }
        } else if let Some((key, error)) = self.mirror.failed().iter().next() {
            format!(
                "{} entries were refused, the first {key:?}: {error}",
                self.mirror.failed().len()
            )
        } else if !self.neighbors.unresolved().is_empty() {
            let unresolved: Vec<String> = self
                .neighbors
                .unresolved()
                .into_iter()
                .map(|(port, addr)| format!("{addr} on port {port}"))
                .collect();
            format!("next hops not resolved: {}", unresolved.join(", "))
        } else if !self.mirror.converged(&self.target) {
            "entries are being written".to_owned()
        } else {
            "in line with the configuration".to_owned()
        };
        let wanted_cookie = self.settings.cookie;
        v1::GetStatusResponse {
            config_version: self.intent.version.version,
            software: concat!("offload-ctl ", env!("CARGO_PKG_VERSION")).to_owned(),
            started_unix_ms: self.started_unix_ms,
            switch: Some(v1::SwitchStatus {
                target: self.settings.target.clone(),
                connected: up,
                primary: up,
                detail,
                pipeline_cookie: if up { wanted_cookie } else { 0 },
                wanted_cookie,
                tables,
                drift_repaired: self.switch.drift,
                last_readback_unix_ms: self.switch.last_readback_unix_ms,
                converged: up && self.mirror.converged(&self.target),
            }),
            lds: self.ld_status(),
            flows,
            counters: self.totals(),
        }
    }

    fn ld_status(&self) -> Vec<v1::LdStatus> {
        let configured = self.intent.effective.lds.iter().map(|ld| ld.name.as_str());
        configured
            .map(|name| {
                let ld = self.lds.get(name);
                v1::LdStatus {
                    name: name.to_owned(),
                    connected: ld.is_some_and(super::lds::Ld::connected),
                    boot_id: ld.map_or(0, |ld| ld.boot_id),
                    config_version: ld.map_or(0, |ld| ld.acked),
                    last_heartbeat_unix_ms: ld.map_or(0, |ld| ld.last_unix_ms),
                    last: ld.and_then(|ld| ld.last.clone()),
                    flows: self.flows.of_ld(name) as u64,
                    software: ld.map_or_else(String::new, |ld| ld.software.clone()),
                    workers: ld.map_or(0, |ld| ld.workers),
                    snapshot_error: ld.map_or_else(String::new, |ld| ld.snapshot_error.clone()),
                }
            })
            .collect()
    }

    /// Counters of offload-ctl itself.
    fn totals(&self) -> HashMap<String, u64> {
        let flows = self.flows.stats();
        let neighbors = self.neighbors.stats();
        [
            ("installs", flows.installs),
            ("install_failures", flows.rejected),
            ("removes", flows.removes),
            ("idle", flows.idle),
            ("evicted", flows.evicted),
            ("imported", flows.imported),
            ("adopted", flows.adopted),
            ("reinstalled", flows.reinstalled),
            ("strays", flows.strays),
            ("update_errors", flows.update_errors),
            ("switch_connections", self.switch.connections),
            ("pipeline_pushes", self.switch.pushes),
            ("drift_repaired", self.switch.drift),
            ("packet_ins", self.switch.packet_ins),
            ("arp_answered", neighbors.arp_answered),
            ("arp_asked", neighbors.arp_asked),
            ("echo_answered", neighbors.echo_answered),
            ("drop.unresolved", neighbors.unresolved_dropped),
            ("drop.unwanted", neighbors.unwanted_dropped),
            ("drop.rate_limited", neighbors.rate_limited),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
    }

    fn vips(&self, request: &v1::ListVipsRequest) -> Result<VipsPage, Status> {
        let after = page_token(&request.page_token)?;
        let size = page_size(request.page_size);
        let mut vips: Vec<(u64, &sluice_config::Vip)> = self
            .intent
            .effective
            .vips
            .iter()
            .filter_map(|vip| Some((self.ids.find(&desired::vip_identity(vip))?.into(), vip)))
            .filter(|(id, _)| *id > after)
            .collect();
        vips.sort_by_key(|(id, _)| *id);
        let more = vips.len() > size;
        vips.truncate(size);
        let next_page_token = match vips.last() {
            Some((id, _)) if more => id.to_string(),
            _ => String::new(),
        };
        let vips = vips
            .into_iter()
            .filter_map(|(_, vip)| {
                let status = api_vip(&self.intent, &self.ids, vip)?;
                let servers = status
                    .servers
                    .iter()
                    .map(|server| v1::ServerStatus {
                        server: Some(server.clone()),
                        ..v1::ServerStatus::default()
                    })
                    .collect();
                Some(v1::VipStatus {
                    vip: Some(status),
                    group: vip.group.clone(),
                    servers,
                    retiring: self.intent.is_retiring(vip),
                    ..v1::VipStatus::default()
                })
            })
            .collect();
        Ok(VipsPage {
            response: v1::ListVipsResponse {
                vips,
                next_page_token,
            },
            dataplane: self.dataplane(),
        })
    }

    fn list_flows(&self, request: &v1::ListFlowsRequest) -> Result<FlowsPage, Status> {
        let after = page_token(&request.page_token)?;
        let size = page_size(request.page_size);
        let matches = |view: &View| {
            (request.vip_id == 0 || view.flow.vip_id == request.vip_id)
                && (request.ld.is_empty() || *view.ld == *request.ld)
        };
        let total = if request.vip_id == 0 && request.ld.is_empty() {
            self.flows.len()
        } else {
            self.flows.views(0).filter(matches).count()
        };
        let mut views: Vec<View> = self
            .flows
            .views(after)
            .filter(matches)
            .take(size + 1)
            .collect();
        let more = views.len() > size;
        views.truncate(size);
        let next_page_token = match views.last() {
            Some(view) if more => view.id.to_string(),
            _ => String::new(),
        };
        Ok(FlowsPage {
            views,
            next_page_token,
            total: total as u64,
            dataplane: self.dataplane(),
        })
    }

    fn counters(&self) -> Result<CounterView, Status> {
        let dataplane = self.dataplane().ok_or_else(|| {
            Status::unavailable(format!(
                "no connection to the switch at {}: {}",
                self.settings.target, self.switch.detail
            ))
        })?;
        let ports = self
            .intent
            .effective
            .ports
            .iter()
            .map(|port| (u32::from(port.number), port.name.clone()))
            .collect();
        Ok(CounterView { dataplane, ports })
    }

    /// Names of the things that ids stand for, for explanations.
    pub(super) fn server_name(&self, server_id: u16) -> String {
        let effective = &self.intent.effective;
        for vip in &effective.vips {
            let Some(vip_id) = self.ids.find(&desired::vip_identity(vip)) else {
                continue;
            };
            for server in &vip.servers {
                let identity = desired::server_identity(vip_id, server);
                if self.ids.find(&identity) == Some(server_id) {
                    return format!("server \"{}\" ({})", server.name, server.address);
                }
            }
        }
        match self.ids.identity(Kind::Server, server_id) {
            Some(crate::ids::Identity::Server { addr, .. }) => {
                format!("removed server {server_id} ({addr})")
            }
            _ => format!("unknown server {server_id}"),
        }
    }
}

fn page_size(asked: u32) -> usize {
    match usize::try_from(asked) {
        Ok(0) => PAGE,
        Ok(size) => size.min(PAGE_MAX),
        Err(_) => PAGE_MAX,
    }
}

fn page_token(token: &str) -> Result<u64, Status> {
    if token.is_empty() {
        return Ok(0);
    }
    token.parse().map_err(|_| {
        Status::invalid_argument("page_token is not one that was given out; start without")
    })
}
