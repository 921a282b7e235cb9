//! An offload-ctl of canned answers, and the command run against it.

#![allow(dead_code)] // each test uses its part

use std::path::PathBuf;
use std::process::{Command, Output};

use offload_api::v1;
use offload_api::v1::admin_server::{Admin, AdminServer};
use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status};

/// Serves canned answers on a Unix socket for as long as it lives.
pub struct Canned {
    _runtime: tokio::runtime::Runtime,
    dir: TempDir,
}

impl Canned {
    pub fn serve() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let dir = tempfile::tempdir().unwrap();
        let listener =
            runtime.block_on(async { UnixListener::bind(dir.path().join("api")).unwrap() });
        runtime.spawn(
            tonic::transport::Server::builder()
                .add_service(AdminServer::new(Answers))
                .serve_with_incoming(UnixListenerStream::new(listener)),
        );
        Self {
            _runtime: runtime,
            dir,
        }
    }

    pub fn api(&self) -> String {
        format!("unix:{}", self.dir.path().join("api").display())
    }

    /// A file beside the socket.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    pub fn sluice(&self, arguments: &[&str]) -> Output {
        let api = self.api();
        sluice(&[&["--api", &api], arguments].concat())
    }
}

/// Runs the command.
pub fn sluice(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sluice"))
        .args(arguments)
        .env_remove("SLUICE_API")
        .output()
        .unwrap()
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn unix_ms() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_millis() as u64
}

struct Answers;

fn totals(packets: u64, bytes: u64) -> Option<v1::Totals> {
    Some(v1::Totals { packets, bytes })
}

fn named(name: &str, index: u32, packets: u64, bytes: u64) -> v1::NamedTotals {
    v1::NamedTotals {
        name: name.to_owned(),
        index,
        totals: totals(packets, bytes),
    }
}

fn flow() -> v1::FlowPair {
    v1::FlowPair {
        session_id: 0x0100_0000_0000_0001,
        vip_id: 1,
        vip_port: 80,
        protocol: 6,
        client_addr: 0x0a01_0002,
        client_port: 40_000,
        server_id: 2,
        local_id: 3,
        local_port: 2048,
        idle_timeout_ms: 900_000,
        generation: 1,
    }
}

#[tonic::async_trait]
impl Admin for Answers {
    async fn apply(
        &self,
        request: Request<v1::ApplyRequest>,
    ) -> Result<Response<v1::ApplyResponse>, Status> {
        let request = request.into_inner();
        if request.expected_version == 99 {
            return Err(Status::failed_precondition(
                "the configuration is at version 4, not 99",
            ));
        }
        let change = |kind: v1::change::Kind, object: &str, detail: &str| v1::Change {
            kind: kind.into(),
            object: object.to_owned(),
            detail: detail.to_owned(),
        };
        use v1::change::Kind::{Add, Modify, Remove};
        let bad = request.config_toml.contains("bad");
        Ok(Response::new(v1::ApplyResponse {
            version: if request.dry_run || bad { 4 } else { 5 },
            changes: if bad {
                vec![]
            } else {
                vec![
                    change(Modify, "vip \"web\"", "scheduler: rr -> wrr"),
                    change(
                        Add,
                        "vip \"web\" server \"s4\"",
                        "address 10.2.4.2, port 8080",
                    ),
                    change(Remove, "vip \"echo\"", "address 10.100.0.10"),
                ]
            },
            problems: if bad {
                vec![v1::Problem {
                    place: "vip[1] \"iperf\".port".to_owned(),
                    what: "10.100.0.10 port 80 overlaps port 80 of vip[0] \"web\"".to_owned(),
                    way_out: "change address, protocol or ports".to_owned(),
                }]
            } else {
                vec![]
            },
        }))
    }

    async fn get_config(
        &self,
        request: Request<v1::GetConfigRequest>,
    ) -> Result<Response<v1::GetConfigResponse>, Status> {
        let version = match request.into_inner().version {
            0 => 4,
            1 => return Err(Status::not_found("version 1 is not kept")),
            other => other,
        };
        Ok(Response::new(v1::GetConfigResponse {
            version,
            config_toml: "[switch]\nvtep = \"10.3.0.1\"\n".to_owned(),
            applied_unix_ms: unix_ms() - 190_000,
            drained: vec!["web/s2".to_owned()],
        }))
    }

    async fn get_status(
        &self,
        _: Request<v1::GetStatusRequest>,
    ) -> Result<Response<v1::GetStatusResponse>, Status> {
        let now = unix_ms();
        let ago = |minutes: u64| now - minutes * 60_000 - 10_000;
        Ok(Response::new(v1::GetStatusResponse {
            config_version: 4,
            software: "offload-ctl 0.1.0".to_owned(),
            started_unix_ms: ago(7),
            switch: Some(v1::SwitchStatus {
                target: "127.0.0.1:9559".to_owned(),
                connected: true,
                primary: true,
                detail: "in line with the configuration".to_owned(),
                tables: vec![v1::TableFill {
                    table: "flow_fwd_v4".to_owned(),
                    entries: 131_072,
                    size: 262_144,
                }],
                drift_repaired: 2,
                last_readback_unix_ms: ago(3),
                converged: true,
                ..v1::SwitchStatus::default()
            }),
            lds: vec![
                v1::LdStatus {
                    name: "ld1".to_owned(),
                    connected: true,
                    config_version: 4,
                    last_heartbeat_unix_ms: ago(2),
                    last: Some(v1::Heartbeat {
                        gauges: [("sessions".to_owned(), 1234)].into(),
                        healthy: true,
                        ..v1::Heartbeat::default()
                    }),
                    flows: 200,
                    software: "0.1.0".to_owned(),
                    workers: 2,
                    ..v1::LdStatus::default()
                },
                v1::LdStatus {
                    name: "ld2".to_owned(),
                    ..v1::LdStatus::default()
                },
            ],
            flows: 200,
            counters: [("installs".to_owned(), 300)].into(),
        }))
    }

    async fn list_vips(
        &self,
        request: Request<v1::ListVipsRequest>,
    ) -> Result<Response<v1::ListVipsResponse>, Status> {
        // Two pages, to see that the second is asked for.
        let second = request.into_inner().page_token == "1";
        let server = v1::Server {
            server_id: 2,
            name: "s1".to_owned(),
            address: 0x0a02_0102,
            port: if second { 0 } else { 8080 },
            weight: 3,
            state: v1::ServerState::Drain.into(),
            mtu: 1500,
        };
        let status = v1::VipStatus {
            vip: Some(v1::Vip {
                vip_id: if second { 2 } else { 1 },
                name: if second { "echo" } else { "web" }.to_owned(),
                address: 0x0a64_000a,
                port_low: if second { 7000 } else { 80 },
                port_high: if second { 7007 } else { 80 },
                protocol: if second { 17 } else { 6 },
                scheduler: v1::Scheduler::Wrr.into(),
                ..v1::Vip::default()
            }),
            group: "edge".to_owned(),
            rx: totals(1_000_000, 1_500_000_000),
            fast_fwd: totals(999_000, 0),
            fast_rev: totals(2_000_000, 0),
            servers: vec![v1::ServerStatus {
                server: Some(server),
                fast_fwd: totals(999_000, 0),
                fast_rev: None,
            }],
            retiring: second,
        };
        Ok(Response::new(v1::ListVipsResponse {
            vips: vec![status],
            next_page_token: if second { "" } else { "1" }.to_owned(),
        }))
    }

    async fn list_flows(
        &self,
        request: Request<v1::ListFlowsRequest>,
    ) -> Result<Response<v1::ListFlowsResponse>, Status> {
        let with_counters = request.into_inner().with_counters;
        Ok(Response::new(v1::ListFlowsResponse {
            flows: vec![v1::FlowStatus {
                flow: Some(flow()),
                ld: "ld1".to_owned(),
                state: "installed".to_owned(),
                fwd: totals(10, 1000).filter(|_| with_counters),
                rev: totals(2000, 3_000_000).filter(|_| with_counters),
            }],
            next_page_token: String::new(),
            total: 1,
        }))
    }

    async fn get_books(
        &self,
        _: Request<v1::GetBooksRequest>,
    ) -> Result<Response<v1::GetBooksResponse>, Status> {
        Ok(Response::new(v1::GetBooksResponse {
            ports_rx: vec![named("clients", 1, 1000, 64_000)],
            ports_tx: vec![named("s1", 2, 990, 1_500_000)],
            paths: vec![named("FAST_FWD", 1, 990, 1_500_000)],
            drops: vec![named("NO_ROUTE", 14, 7, 420)],
            unaccounted_packets: 3,
            flow_fwd_entries: 1,
            flow_rev_entries: 1,
        }))
    }

    async fn explain(
        &self,
        request: Request<v1::ExplainRequest>,
    ) -> Result<Response<v1::ExplainResponse>, Status> {
        let tuple = request.into_inner().tuple.unwrap();
        assert_eq!(
            (tuple.protocol, tuple.src_addr, tuple.src_port),
            (6, 0x0a01_0002, 40_000)
        );
        assert_eq!((tuple.dst_addr, tuple.dst_port), (0x0a64_000a, 80));
        Ok(Response::new(v1::ExplainResponse {
            steps: vec!["class: vip \"web\"".to_owned(), "fast path: yes".to_owned()],
            verdict: "fast".to_owned(),
            flow: Some(flow()),
        }))
    }

    async fn set_server_state(
        &self,
        request: Request<v1::SetServerStateRequest>,
    ) -> Result<Response<v1::SetServerStateResponse>, Status> {
        let request = request.into_inner();
        if request.server == "s9" {
            return Err(Status::not_found(
                "vip \"web\" has no server \"s9\"; it has: s1, s2",
            ));
        }
        Ok(Response::new(v1::SetServerStateResponse {
            version: 5 + request.action as u64,
        }))
    }
}
