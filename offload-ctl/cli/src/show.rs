//! `show status|vips|flows|drops|config`.

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use offload_api::address::ApiAddress;
use offload_api::v1;
use serde_json::json;

use crate::client::{Failure, connect};
use crate::output::{
    address, bytes, json_totals, packets, print, print_json, protocol, table, thousands,
};

pub(crate) async fn status(api: &ApiAddress, json: bool) -> Result<ExitCode, Failure> {
    let mut client = connect(api).await?;
    let status = client
        .get_status(v1::GetStatusRequest {})
        .await?
        .into_inner();
    if json {
        print_json(&json_status(&status));
        return Ok(ExitCode::SUCCESS);
    }
    let now = now_ms();
    println!(
        "{}, up {}, configuration version {}, {} offloaded sessions",
        status.software,
        age(now, status.started_unix_ms),
        status.config_version,
        thousands(status.flows)
    );
    if let Some(switch) = &status.switch {
        println!(
            "switch {}: {}, {}",
            switch.target,
            if switch.connected {
                "connected"
            } else {
                "not connected"
            },
            switch.detail
        );
        let compared = if switch.last_readback_unix_ms == 0 {
            "not compared yet".to_owned()
        } else {
            format!("compared {} ago", age(now, switch.last_readback_unix_ms))
        };
        println!(
            "  {compared}, {} differences repaired",
            switch.drift_repaired
        );
    }
    println!();
    let mut lds = table(
        &[
            "LD",
            "STATE",
            "VERSION",
            "HEARTBEAT",
            "WORKERS",
            "SESSIONS",
            "OFFLOADED",
            "SOFTWARE",
        ],
        &[2, 4, 5, 6],
    );
    for ld in &status.lds {
        let gauge = |name: &str| {
            ld.last
                .as_ref()
                .and_then(|heartbeat| heartbeat.gauges.get(name))
                .map_or_else(|| "?".to_owned(), |value| thousands(*value))
        };
        lds.add_row(vec![
            ld.name.clone(),
            ld_state(ld),
            ld.config_version.to_string(),
            if ld.last_heartbeat_unix_ms == 0 {
                "never".to_owned()
            } else {
                format!("{} ago", age(now, ld.last_heartbeat_unix_ms))
            },
            ld.workers.to_string(),
            gauge("sessions"),
            thousands(ld.flows),
            ld.software.clone(),
        ]);
    }
    print(&lds);
    println!();
    let mut tables = table(&["TABLE", "ENTRIES", "SIZE", "USED"], &[1, 2, 3]);
    for fill in status.switch.iter().flat_map(|switch| &switch.tables) {
        tables.add_row(vec![
            fill.table.clone(),
            thousands(fill.entries),
            thousands(fill.size),
            format!(
                "{}%",
                (fill.entries * 100).checked_div(fill.size).unwrap_or(0)
            ),
        ]);
    }
    print(&tables);
    Ok(ExitCode::SUCCESS)
}

fn ld_state(ld: &v1::LdStatus) -> String {
    if !ld.connected {
        return "not connected".to_owned();
    }
    if !ld.snapshot_error.is_empty() {
        return format!("snapshot refused: {}", ld.snapshot_error);
    }
    match &ld.last {
        Some(heartbeat) if !heartbeat.healthy => format!("unhealthy: {}", heartbeat.health_detail),
        _ => "connected".to_owned(),
    }
}

fn json_status(status: &v1::GetStatusResponse) -> serde_json::Value {
    let switch = status.switch.as_ref().map(|switch| {
        let tables: Vec<_> = switch
            .tables
            .iter()
            .map(|fill| json!({"table": fill.table, "entries": fill.entries, "size": fill.size}))
            .collect();
        json!({
            "target": switch.target,
            "connected": switch.connected,
            "primary": switch.primary,
            "converged": switch.converged,
            "detail": switch.detail,
            "pipeline_cookie": format!("{:#018x}", switch.pipeline_cookie),
            "wanted_cookie": format!("{:#018x}", switch.wanted_cookie),
            "drift_repaired": switch.drift_repaired,
            "last_readback_unix_ms": switch.last_readback_unix_ms,
            "tables": tables,
        })
    });
    let lds: Vec<_> = status
        .lds
        .iter()
        .map(|ld| {
            json!({
                "name": ld.name,
                "connected": ld.connected,
                "boot_id": format!("{:#018x}", ld.boot_id),
                "config_version": ld.config_version,
                "last_heartbeat_unix_ms": ld.last_heartbeat_unix_ms,
                "flows": ld.flows,
                "software": ld.software,
                "workers": ld.workers,
                "snapshot_error": ld.snapshot_error,
                "healthy": ld.last.as_ref().map(|heartbeat| heartbeat.healthy),
                "health_detail": ld.last.as_ref().map(|heartbeat| &heartbeat.health_detail),
                "counters": ld.last.as_ref().map(|heartbeat| &heartbeat.counters),
                "gauges": ld.last.as_ref().map(|heartbeat| &heartbeat.gauges),
            })
        })
        .collect();
    json!({
        "config_version": status.config_version,
        "software": status.software,
        "started_unix_ms": status.started_unix_ms,
        "flows": status.flows,
        "switch": switch,
        "lds": lds,
        "counters": status.counters,
    })
}

async fn all_vips(api: &ApiAddress) -> Result<Vec<v1::VipStatus>, Failure> {
    let mut client = connect(api).await?;
    let mut vips = Vec::new();
    let mut page_token = String::new();
    loop {
        let page = client
            .list_vips(v1::ListVipsRequest {
                page_size: 500,
                page_token,
            })
            .await?
            .into_inner();
        vips.extend(page.vips);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return Ok(vips);
        }
    }
}

pub(crate) async fn vips(api: &ApiAddress, json: bool) -> Result<ExitCode, Failure> {
    let vips = all_vips(api).await?;
    if json {
        let vips: Vec<_> = vips.iter().map(json_vip).collect();
        print_json(&json!({ "vips": vips }));
        return Ok(ExitCode::SUCCESS);
    }
    let mut rows = table(
        &[
            "VIP",
            "ADDRESS",
            "SERVER",
            "STATE",
            "WEIGHT",
            "PACKETS",
            "FAST TO",
            "FAST FROM",
        ],
        &[4, 5, 6, 7],
    );
    for status in &vips {
        let Some(vip) = &status.vip else { continue };
        rows.add_row(vec![
            vip.name.clone(),
            format!(
                "{} {}:{}",
                protocol(vip.protocol),
                address(vip.address),
                ports(vip.port_low, vip.port_high)
            ),
            match status.servers.len() {
                1 => "1 server".to_owned(),
                count => format!("{count} servers"),
            },
            if status.retiring {
                "removed, ending".to_owned()
            } else {
                scheduler(vip).to_owned()
            },
            String::new(),
            packets(status.rx.as_ref()),
            packets(status.fast_fwd.as_ref()),
            packets(status.fast_rev.as_ref()),
        ]);
        for server in &status.servers {
            let Some(one) = &server.server else { continue };
            rows.add_row(vec![
                String::new(),
                String::new(),
                format!("{} {}", one.name, server_address(one)),
                server_state(one).to_owned(),
                one.weight.to_string(),
                String::new(),
                packets(server.fast_fwd.as_ref()),
                packets(server.fast_rev.as_ref()),
            ]);
        }
    }
    print(&rows);
    Ok(ExitCode::SUCCESS)
}

fn ports(low: u32, high: u32) -> String {
    if low == high {
        low.to_string()
    } else {
        format!("{low}-{high}")
    }
}

fn server_address(server: &v1::Server) -> String {
    if server.port == 0 {
        address(server.address)
    } else {
        format!("{}:{}", address(server.address), server.port)
    }
}

fn scheduler(vip: &v1::Vip) -> &'static str {
    match vip.scheduler() {
        v1::Scheduler::Rr => "rr",
        v1::Scheduler::Wrr => "wrr",
        v1::Scheduler::SourceHash => "sh",
        v1::Scheduler::Unspecified => "?",
    }
}

fn server_state(server: &v1::Server) -> &'static str {
    match server.state() {
        v1::ServerState::Up => "up",
        v1::ServerState::Drain => "draining",
        v1::ServerState::Down => "down",
        v1::ServerState::Unspecified => "?",
    }
}

fn json_vip(status: &v1::VipStatus) -> serde_json::Value {
    let vip = status.vip.clone().unwrap_or_default();
    let servers: Vec<_> = status
        .servers
        .iter()
        .map(|server| {
            let one = server.server.clone().unwrap_or_default();
            json!({
                "server_id": one.server_id,
                "name": one.name,
                "address": address(one.address),
                "port": one.port,
                "weight": one.weight,
                "state": server_state(&one),
                "fast_fwd": json_totals(server.fast_fwd.as_ref()),
                "fast_rev": json_totals(server.fast_rev.as_ref()),
            })
        })
        .collect();
    json!({
        "vip_id": vip.vip_id,
        "name": vip.name,
        "vni": vip.vni,
        "address": address(vip.address),
        "port_low": vip.port_low,
        "port_high": vip.port_high,
        "protocol": protocol(vip.protocol),
        "scheduler": scheduler(&vip),
        "group": status.group,
        "generation": vip.generation,
        "retiring": status.retiring,
        "rx": json_totals(status.rx.as_ref()),
        "fast_fwd": json_totals(status.fast_fwd.as_ref()),
        "fast_rev": json_totals(status.fast_rev.as_ref()),
        "servers": servers,
    })
}

/// Which flows to show.
pub(crate) struct FlowFilter {
    /// Of a VIP by name.
    pub(crate) vip: Option<String>,
    /// Of an LD by name; empty for all.
    pub(crate) ld: String,
    /// With counters.
    pub(crate) counters: bool,
    /// How many.
    pub(crate) limit: usize,
}

pub(crate) async fn flows(
    api: &ApiAddress,
    filter: &FlowFilter,
    json: bool,
) -> Result<ExitCode, Failure> {
    let vips = all_vips(api).await?;
    let name_of = |id: u32| {
        let vip = vips.iter().filter_map(|status| status.vip.as_ref());
        vip.clone()
            .find(|vip| vip.vip_id == id)
            .map_or_else(|| id.to_string(), |vip| vip.name.clone())
    };
    let server_of = |id: u32| {
        vips.iter()
            .flat_map(|status| &status.servers)
            .filter_map(|status| status.server.as_ref())
            .find(|server| server.server_id == id)
            .map_or_else(|| id.to_string(), |server| server.name.clone())
    };
    let vip_id = match &filter.vip {
        None => 0,
        Some(name) => vips
            .iter()
            .filter_map(|status| status.vip.as_ref())
            .find(|vip| vip.name == *name)
            .map(|vip| vip.vip_id)
            .ok_or_else(|| Failure::Refused(format!("there is no vip \"{name}\"")))?,
    };
    let mut client = connect(api).await?;
    let mut flows = Vec::new();
    let mut page_token = String::new();
    let total = loop {
        let page = client
            .list_flows(v1::ListFlowsRequest {
                page_size: u32::try_from((filter.limit - flows.len()).min(1000)).unwrap_or(1000),
                page_token,
                vip_id,
                ld: filter.ld.clone(),
                with_counters: filter.counters,
            })
            .await?
            .into_inner();
        flows.extend(page.flows);
        page_token = page.next_page_token;
        if page_token.is_empty() || flows.len() >= filter.limit {
            break page.total;
        }
    };
    if json {
        let flows: Vec<_> = flows
            .iter()
            .map(|status| {
                json!({
                    "ld": status.ld,
                    "state": status.state,
                    "flow": status.flow.as_ref().map(json_flow),
                    "fwd": json_totals(status.fwd.as_ref()),
                    "rev": json_totals(status.rev.as_ref()),
                })
            })
            .collect();
        print_json(&json!({ "total": total, "flows": flows }));
        return Ok(ExitCode::SUCCESS);
    }
    let mut rows = table(
        &[
            "VIP",
            "PORT",
            "CLIENT",
            "SERVER",
            "LOCAL PORT",
            "LD",
            "STATE",
            "PACKETS TO",
            "PACKETS FROM",
        ],
        &[1, 4, 7, 8],
    );
    for status in &flows {
        let flow = status.flow.unwrap_or_default();
        rows.add_row(vec![
            name_of(flow.vip_id),
            flow.vip_port.to_string(),
            format!("{}:{}", address(flow.client_addr), flow.client_port),
            server_of(flow.server_id),
            flow.local_port.to_string(),
            status.ld.clone(),
            status.state.clone(),
            status
                .fwd
                .as_ref()
                .map_or_else(String::new, |t| thousands(t.packets)),
            status
                .rev
                .as_ref()
                .map_or_else(String::new, |t| thousands(t.packets)),
        ]);
    }
    print(&rows);
    println!("{} of {} flows", flows.len(), thousands(total));
    Ok(ExitCode::SUCCESS)
}

/// A flow as JSON.
pub(crate) fn json_flow(flow: &v1::FlowPair) -> serde_json::Value {
    json!({
        "session_id": format!("{:#018x}", flow.session_id),
        "vip_id": flow.vip_id,
        "vip_port": flow.vip_port,
        "protocol": protocol(flow.protocol),
        "client": format!("{}:{}", address(flow.client_addr), flow.client_port),
        "server_id": flow.server_id,
        "local_id": flow.local_id,
        "local_port": flow.local_port,
        "idle_timeout_ms": flow.idle_timeout_ms,
        "generation": flow.generation,
    })
}

pub(crate) async fn drops(api: &ApiAddress, json: bool) -> Result<ExitCode, Failure> {
    let mut client = connect(api).await?;
    let books = client.get_books(v1::GetBooksRequest {}).await?.into_inner();
    if json {
        let named = |list: &[v1::NamedTotals]| -> Vec<serde_json::Value> {
            list.iter()
                .map(|one| {
                    json!({
                        "name": one.name,
                        "index": one.index,
                        "packets": one.totals.map_or(0, |totals| totals.packets),
                        "bytes": one.totals.map_or(0, |totals| totals.bytes),
                    })
                })
                .collect()
        };
        print_json(&json!({
            "ports_rx": named(&books.ports_rx),
            "ports_tx": named(&books.ports_tx),
            "paths": named(&books.paths),
            "drops": named(&books.drops),
            "unaccounted_packets": books.unaccounted_packets,
            "flow_fwd_entries": books.flow_fwd_entries,
            "flow_rev_entries": books.flow_rev_entries,
        }));
        return Ok(ExitCode::SUCCESS);
    }
    for (title, list) in [
        ("IN BY PORT", &books.ports_rx),
        ("OUT BY PORT", &books.ports_tx),
        ("WAY", &books.paths),
        ("DROPPED BECAUSE", &books.drops),
    ] {
        let mut rows = table(&[title, "PACKETS", "BYTES"], &[1, 2]);
        for one in list {
            let totals = one.totals.unwrap_or_default();
            rows.add_row(vec![
                one.name.clone(),
                thousands(totals.packets),
                bytes(totals.bytes),
            ]);
        }
        print(&rows);
        if list.is_empty() {
            println!("nothing");
        }
        println!();
    }
    if books.unaccounted_packets == 0 {
        println!("the books balance: every packet in is out or dropped for a reason");
    } else {
        println!(
            "{} packets are not accounted for (some may have been under way while this was read)",
            books.unaccounted_packets
        );
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn config(
    api: &ApiAddress,
    version: u64,
    json: bool,
) -> Result<ExitCode, Failure> {
    let mut client = connect(api).await?;
    let config = client
        .get_config(v1::GetConfigRequest { version })
        .await?
        .into_inner();
    if json {
        print_json(&json!({
            "version": config.version,
            "applied_unix_ms": config.applied_unix_ms,
            "drained": config.drained,
            "config_toml": config.config_toml,
        }));
    } else if config.version == 0 {
        println!("# nothing was applied yet");
    } else {
        println!(
            "# version {}, applied {} ago",
            config.version,
            age(now_ms(), config.applied_unix_ms)
        );
        for server in &config.drained {
            println!("# drained by an operator: {server}");
        }
        print!("{}", config.config_toml);
    }
    Ok(ExitCode::SUCCESS)
}

fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| {
            u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
        })
}

/// Time between two moments, for people.
fn age(now: u64, then: u64) -> String {
    let seconds = now.saturating_sub(then) / 1000;
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        7200..=172_799 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}
