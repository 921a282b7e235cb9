//! The same on real P4Runtime servers: bmv2's simple_switch_grpc where it is
//! installed, and softswitch where it has been built. Neither needs interfaces
//! or privileges here.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use common::{Daemon, GATEWAY, Ld, eventually, settings, store_dir};
use offload_api::v1::ctl_message;
use offload_ctl::dataplane::{ConnectError, Connector, Counter, Update, UpdateError};
use offload_ctl::entry::{Entry, Key, Table};
use offload_ctl::flows::{Dir, Pair};
use offload_ctl::wire::{P4RuntimeConnector, Pipeline};
use p4runtime_client::ConnectOptions;

/// A switch that runs; it ends with this value.
struct Switch {
    child: Child,
    program: PathBuf,
    port: u16,
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Switch {
    fn start(program: &str) -> Option<Self> {
        let program = find(program)?;
        // Free a moment ago; a race would fail the test loudly, not quietly.
        let port = {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            listener.local_addr().unwrap().port()
        };
        let child = spawn(&program, port);
        Some(Self {
            child,
            program,
            port,
        })
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn restart(&mut self) {
        self.kill();
        self.child = spawn(&self.program, self.port);
    }

    fn connector(&self, election_id: u128) -> P4RuntimeConnector {
        P4RuntimeConnector {
            options: ConnectOptions::new(format!("127.0.0.1:{}", self.port), 0, election_id),
            pipeline: Pipeline::built_in().unwrap(),
        }
    }
}

fn spawn(program: &PathBuf, port: u16) -> Child {
    let address = format!("127.0.0.1:{port}");
    let mut command = Command::new(program);
    command.args(["--no-p4", "--device-id", "0"]);
    command.args(["--", "--grpc-server-addr", &address, "--cpu-port", "510"]);
    command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// In PATH, or beside the folder of the test's own program.
fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let own = std::env::current_exe().ok()?;
    let built = own.parent().and_then(|deps| deps.parent());
    std::env::split_paths(&path)
        .chain(built.map(PathBuf::from))
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// All entries of some tables, read by a connection of our own while no
/// offload-ctl runs.
async fn entries(switch: &Switch, tables: impl IntoIterator<Item = Table>) -> Vec<Entry> {
    let connection = connected(&switch.connector(1)).await;
    let mut entries = Vec::new();
    for table in tables {
        let readings = connection.dataplane.read_table(table).await.unwrap();
        entries.extend(readings.into_iter().map(|reading| reading.entry));
    }
    entries.sort_by_key(|entry| entry.key);
    entries
}

async fn each_switch(test: impl AsyncFn(Switch)) {
    for program in ["simple_switch_grpc", "softswitch"] {
        match Switch::start(program) {
            Some(switch) => {
                println!("RUNNING on {}", switch.program.display());
                test(switch).await;
            }
            None => println!("SKIPPED on {program}: it is not installed"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_outcome_of_an_update_is_understood() {
    each_switch(async |switch| {
        let connector = switch.connector(1);
        let connection = connected(&connector).await;
        assert!(connection.pushed);
        let dataplane = &connection.dataplane;
        let pair = Pair::from_api(&offload_api::v1::FlowPair {
            session_id: 1,
            vip_id: 1,
            vip_port: 80,
            protocol: 6,
            client_addr: 0x0a01_0002,
            client_port: 40_000,
            server_id: 2,
            local_id: 3,
            local_port: 2048,
            idle_timeout_ms: 10_000,
            generation: 1,
        })
        .unwrap();
        let [fwd, rev] = Dir::BOTH.map(|dir| pair.entry(dir));
        let insert = vec![Update::Insert(fwd), Update::Insert(rev)];
        assert_eq!(
            dataplane.write(insert.clone()).await.unwrap(),
            [Ok(()), Ok(())]
        );
        // Both there already; one there and one missing; both missing.
        let exists = Err(UpdateError::Exists);
        assert_eq!(
            dataplane.write(insert).await.unwrap(),
            [exists.clone(), exists]
        );
        let mixed = vec![Update::Modify(fwd), Update::Delete(rev.key)];
        assert_eq!(dataplane.write(mixed).await.unwrap(), [Ok(()), Ok(())]);
        let missing = Err(UpdateError::NotFound);
        let gone = vec![Update::Delete(rev.key), Update::Modify(fwd)];
        assert_eq!(dataplane.write(gone).await.unwrap(), [missing, Ok(())]);
        // What is there is read with its counters, what is not is left out.
        let readings = dataplane
            .read_entries(vec![fwd.key, rev.key])
            .await
            .unwrap();
        assert_eq!(readings.len(), 1);
        assert_eq!(readings[0].entry, fwd);
        assert_eq!(readings[0].count.unwrap().packets, 0);
        let cells = dataplane
            .read_counters(vec![Counter::Drop, Counter::VipRx])
            .await
            .unwrap();
        assert_eq!(cells.len(), 2);
        assert!(cells.values().all(|cells| cells.is_empty()));
        // A second controller with a lower claim is refused, not served.
        let other = switch.connector(0);
        match other.connect().await {
            Err(ConnectError::Retry(why)) => {
                assert!(why.contains("another controller is primary"), "{why}");
            }
            Err(other) => panic!("not to be tried again: {other}"),
            Ok(_) => panic!("two primaries"),
        }
    })
    .await;
}

async fn connected(connector: &P4RuntimeConnector) -> offload_ctl::dataplane::Connection {
    let until = tokio::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        match connector.connect().await {
            Ok(connection) => return connection,
            Err(ConnectError::Retry(why)) if tokio::time::Instant::now() > until => {
                panic!("never connected: {why}")
            }
            Err(ConnectError::Retry(_)) => {
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
            Err(fatal) => panic!("{fatal}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_life_of_sessions_with_restarts_on_both_sides() {
    each_switch(async |mut switch| {
        let dir = store_dir();
        let mut settings = settings();
        settings.cookie = Pipeline::built_in().unwrap().cookie;
        settings.flow_capacity = 10_000;
        let start = |settings| {
            let connector = Arc::new(switch.connector(1));
            Daemon::start_with(&dir, connector, settings)
        };
        let daemon = start(settings.clone());
        daemon.apply(GATEWAY).await;
        daemon.converged().await;
        let mut ld = Ld::attach_empty(&daemon, 1).await;
        let flows: Vec<_> = (1..=300)
            .map(|id| {
                let mut flow = ld.flow(id, 40_000 + id as u32);
                // Long: nobody sends packets here.
                flow.idle_timeout_ms = 3_600_000;
                flow
            })
            .collect();
        ld.install(flows.clone()).await;
        ld.all_installed((1..=300).collect()).await;
        ld.remove((201..=300).collect()).await;
        let mut removed = 0;
        while removed < 100 {
            removed += ld.removed().await.len();
        }
        let mut wanted: Vec<Entry> = flows[..200]
            .iter()
            .flat_map(|flow| {
                let pair = Pair::from_api(flow).unwrap();
                Dir::BOTH.map(|dir| pair.entry(dir))
            })
            .collect();
        wanted.sort_by_key(|entry| entry.key);

        // A restart of offload-ctl: nothing is wiped, nothing is written.
        drop(ld);
        daemon.kill().await;
        let on_switch = entries(&switch, [Table::FlowFwdV4, Table::FlowRevV4]).await;
        assert_eq!(on_switch, wanted);
        let config = entries(&switch, Table::config()).await;
        let daemon = start(settings.clone());
        daemon.converged().await;
        let status = daemon.status().await;
        assert_eq!(status.flows, 200);
        assert_eq!(status.counters["pipeline_pushes"], 0);
        let mut ld = Ld::attach(&daemon, 1).await;
        ld.resync(flows[..200].to_vec(), vec![]).await;
        ld.all_installed((1..=200).collect()).await;

        // A restart of the switch: everything comes back.
        switch.restart();
        eventually("the switch has everything again", async || {
            let status = daemon.status().await;
            status.counters["pipeline_pushes"] == 1
                && status.counters["reinstalled"] == 200
                && status.switch.is_some_and(|switch| switch.converged)
        })
        .await;
        ld.remove(vec![1]).await;
        assert_eq!(ld.removed().await[0].session_id, 1);
        drop(ld);
        daemon.kill().await;
        let gone = Pair::from_api(&flows[0]).unwrap();
        wanted.retain(|entry| Dir::BOTH.iter().all(|dir| entry.key != gone.key(*dir)));
        let on_switch = entries(&switch, [Table::FlowFwdV4, Table::FlowRevV4]).await;
        assert_eq!(on_switch, wanted);
        assert_eq!(entries(&switch, Table::config()).await, config);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_without_packets_is_reported_idle() {
    each_switch(async |switch| {
        let dir = store_dir();
        let daemon = Daemon::start_with(&dir, Arc::new(switch.connector(1)), settings());
        daemon.apply(GATEWAY).await;
        daemon.converged().await;
        let mut ld = Ld::attach_empty(&daemon, 1).await;
        let mut flow = ld.flow(7, 40_000);
        flow.idle_timeout_ms = 2_000;
        ld.install(vec![flow]).await;
        assert_eq!(ld.installed().await, [7]);
        let ctl_message::Message::Idle(idle) = ld.answer().await else {
            panic!("not Idle");
        };
        assert_eq!(idle.session_ids, [7]);
        ld.remove(vec![7]).await;
        // It may have been told again meanwhile.
        loop {
            match ld.answer().await {
                ctl_message::Message::Idle(_) => {}
                ctl_message::Message::Removed(removed) => {
                    assert_eq!(removed.sessions[0].session_id, 7);
                    break;
                }
                other => panic!("unexpected: {other:?}"),
            }
        }
        let key = Key::FlowFwd(Pair::from_api(&flow).unwrap().fwd);
        drop(ld);
        daemon.kill().await;
        let left = entries(&switch, [Table::FlowFwdV4]).await;
        assert!(left.iter().all(|entry| entry.key != key));
    })
    .await;
}
