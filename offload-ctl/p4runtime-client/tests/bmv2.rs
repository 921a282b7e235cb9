//! The client against a real switch, bmv2's simple_switch_grpc.
//!
//! Skipped where the switch or the P4 compiler is not installed. It needs no
//! privileges: the switch has no ports but the controller's.

#![allow(clippy::unwrap_used, reason = "the steps of a test are its verdict")]

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use p4runtime_client::{
    BatchLimits, Client, Disconnect, Error, Event, Events, UpdateStatus,
    entry::{self, exact, param},
};
use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1::get_forwarding_pipeline_config_request::ResponseType;
use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime_proto::p4::v1::{
    TableEntry, Update, entity::Entity as Kind, write_request::Atomicity,
};
use p4runtime_proto::p4info;
use tokio::time::{sleep, timeout};
use tonic::Code;

const SWITCH: &str = "simple_switch_grpc";
const COMPILER: &str = "p4c-bm2-ss";
const DEVICE: u64 = 1;
const SOON: Duration = Duration::from_secs(10);

fn installed(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok()
}

/// Killed when dropped.
struct Switch {
    process: Child,
    address: SocketAddr,
}

impl Drop for Switch {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn start_switch() -> std::io::Result<Switch> {
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let process = Command::new(SWITCH)
        .args(["--no-p4", "--device-id"])
        .arg(DEVICE.to_string())
        .args(["--", "--cpu-port", "510", "--grpc-server-addr"])
        .arg(address.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    Ok(Switch { process, address })
}

fn compile(out: &Path) -> std::io::Result<bool> {
    Command::new(COMPILER)
        .arg("--p4runtime-files")
        .arg(out.join("p4info.txtpb"))
        .arg("-o")
        .arg(out.join("program.json"))
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/reflect.p4"))
        .status()
        .map(|status| status.success())
}

/// Tries until the switch listens.
async fn connect(switch: &Switch, election_id: u128) -> Result<(Client, Events), Error> {
    let address = format!("http://{}", switch.address);
    let mut tries = 100;
    loop {
        match Client::connect(&address, DEVICE, election_id, None).await {
            Err(Error::Connect { .. }) if tries > 0 => tries -= 1,
            result => return result,
        }
        sleep(Duration::from_millis(100)).await;
    }
}

async fn next(events: &mut Events) -> Option<Event> {
    timeout(SOON, events.recv()).await.ok().flatten()
}

/// Entries of the program's only table, `stations`.
struct Stations {
    table: u32,
    forward: u32,
}

impl Stations {
    fn of(p4info: &P4Info) -> Option<Self> {
        let forward = p4info.actions.iter().find_map(|action| {
            let preamble = action.preamble.as_ref()?;
            (preamble.alias == "send").then_some(preamble.id)
        })?;
        let table = p4info.tables.first()?.preamble.as_ref()?.id;
        Some(Self { table, forward })
    }

    fn insert(&self, station: u128, port: u128) -> Update {
        entry::insert(TableEntry {
            table_id: self.table,
            r#match: vec![exact(1, station)],
            action: Some(entry::direct_action(self.forward, vec![param(1, port)])),
            ..TableEntry::default()
        })
    }

    fn delete(&self, station: u128) -> Update {
        entry::delete(TableEntry {
            table_id: self.table,
            r#match: vec![exact(1, station)],
            ..TableEntry::default()
        })
    }
}

#[tokio::test]
async fn bmv2_understands_the_client() {
    for program in [SWITCH, COMPILER] {
        if !installed(program) {
            eprintln!("SKIPPED: {program} is not installed");
            return;
        }
    }
    let directory = tempfile::tempdir().unwrap();
    assert!(compile(directory.path()).unwrap());
    let p4info = p4info::read(&directory.path().join("p4info.txtpb")).unwrap();
    let json = std::fs::read(directory.path().join("program.json")).unwrap();
    let stations = Stations::of(&p4info).unwrap();
    let mut switch = start_switch().unwrap();

    let (client, mut events) = connect(&switch, 2).await.unwrap();
    assert!(client.is_primary());
    next(&mut events).await.unwrap();
    assert_eq!(client.get_pipeline(ResponseType::All).await.unwrap(), None);
    client
        .set_pipeline(Action::VerifyAndCommit, p4info.clone(), json, 42)
        .await
        .unwrap();
    let config = client
        .get_pipeline(ResponseType::P4infoAndCookie)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(config.cookie.unwrap().cookie, 42);
    assert_eq!(config.p4info, Some(p4info));

    backups_may_not_write(&switch, &stations).await;
    writes_are_accounted_for(&client, &stations).await;
    packets_come_back(&client, &mut events).await;

    switch.process.kill().unwrap();
    assert!(matches!(
        next(&mut events).await,
        Some(Event::Disconnected {
            reason: Disconnect::Failed { .. } | Disconnect::Closed
        })
    ));
}

async fn backups_may_not_write(switch: &Switch, stations: &Stations) {
    let (backup, _events) = connect(switch, 1).await.unwrap();
    let arbitration = backup.arbitration().unwrap();
    assert!(!arbitration.primary);
    assert_eq!(arbitration.primary_id, Some(2));
    let error = backup
        .write(vec![stations.insert(1, 1)], Atomicity::ContinueOnError)
        .await
        .unwrap_err();
    assert!(
        matches!(
            error,
            Error::NotPrimary {
                primary_id: Some(2),
                ..
            }
        ),
        "{error}"
    );
    let error = connect(switch, 2).await.unwrap_err();
    assert_eq!(error.code(), Some(Code::InvalidArgument), "{error}");
}

async fn writes_are_accounted_for(client: &Client, stations: &Stations) {
    // More than two batches of distinct stations.
    let count = 2_500;
    let inserts: Vec<_> = (0..count).map(|n| stations.insert(n, n % 500)).collect();
    let limits = BatchLimits::default();
    let outcome = client.write_batched(inserts.clone(), limits).await.unwrap();
    assert!(outcome.all_applied());

    // All of them again: whole batches fail, and the account arrives.
    let outcome = client.write_batched(inserts, limits).await.unwrap();
    let exists = |status: &UpdateStatus| status.code() == Some(Code::AlreadyExists);
    assert!(outcome.statuses.iter().all(exists));

    // One station comes and goes in one call, in the order given.
    let mixed = vec![
        stations.delete(7),
        stations.insert(7, 9),
        stations.delete(7),
        stations.delete(7),
        stations.insert(1 << 47, 3),
    ];
    let outcome = client.write_batched(mixed, limits).await.unwrap();
    let codes: Vec<_> = outcome.statuses.iter().map(UpdateStatus::code).collect();
    let ok = Some(Code::Ok);
    assert_eq!(codes, [ok, ok, ok, Some(Code::NotFound), ok]);

    let all = TableEntry {
        table_id: stations.table,
        ..TableEntry::default()
    };
    let read = client.read(vec![all.into()]).await.unwrap();
    let mut keys: Vec<_> = read
        .iter()
        .filter_map(|entity| match entity.entity.as_ref()? {
            Kind::TableEntry(entry) if !entry.is_default_action => {
                entry::read_exact(entry, 1, 48).ok()
            }
            _ => None,
        })
        .collect();
    keys.sort_unstable();
    let mut expected: Vec<_> = (0..count).filter(|n| *n != 7).collect();
    expected.push(1 << 47);
    assert_eq!(keys, expected);
}

async fn packets_come_back(client: &Client, events: &mut Events) {
    let frame: Vec<u8> = (0..60).collect();
    client
        .packet_out(frame.clone(), vec![entry::metadata(1, 0x1233)])
        .await
        .unwrap();
    loop {
        match next(events).await {
            Some(Event::PacketIn { payload, metadata }) => {
                assert_eq!(payload, frame);
                assert_eq!(entry::read_metadata(&metadata, 1, 16), Ok(0x1234));
                return;
            }
            // Other controllers came and went.
            Some(Event::Arbitration(arbitration)) => assert!(arbitration.primary),
            other => panic!("instead of a packet: {other:?}"),
        }
    }
}
