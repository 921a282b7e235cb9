//! The program itself: what it says when it cannot start, and a life on a port
//! of `net_null`, whose packets are all zeros.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(20);

struct Slowpath {
    folder: tempfile::TempDir,
}

impl Slowpath {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn config(&self, text: &str) -> PathBuf {
        let path = self.folder.path().join("slowpath.toml");
        std::fs::write(&path, text).unwrap();
        path
    }

    fn command(&self, text: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_slowpath"));
        command.arg("--config").arg(self.config(text));
        command
    }

    /// What it says on standard error when it ends by itself; the last line.
    fn refusal(&self, text: &str) -> String {
        let output = wait(
            self.command(text)
                .stderr(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap(),
        );
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        let last = stderr.lines().last().unwrap_or_default().to_owned();
        assert!(last.starts_with("slowpath: "), "{stderr}");
        last
    }
}

fn wait(mut child: Child) -> Output {
    let until = Instant::now() + LIMIT;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > until {
            child.kill().unwrap();
            panic!("it did not end in time");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.wait_with_output().unwrap()
}

fn config(workers: u32, http: &str, device: &str, port: &str) -> String {
    format!(
        "name = \"ld1\"\napi = \"unix:/nonexistent/offload.sock\"\n{http}\nvtep = \
         \"10.3.0.2\"\nworkers = {workers}\nsessions_per_worker = 1000\n[eal]\nargs = \
         [\"--no-huge\", \"--no-shconf\", \"--no-pci\", \"--no-telemetry\", \"-m\", \"64\", \
         \"--vdev={device}\"]\nport = \"{port}\"\nmbufs = 2048\n"
    )
}

fn get(address: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let status = text.split(' ').nth(1).unwrap().parse().unwrap();
    let body = text.split_once("\r\n\r\n").unwrap().1.to_owned();
    (status, body)
}

fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mask = status
        .lines()
        .find_map(|l| l.strip_prefix("CapEff:"))
        .unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() >> 13 & 1 == 1
}

#[test]
fn says_in_a_sentence_what_is_wrong_with_the_files() {
    let slowpath = Slowpath::new();
    let output = wait(
        Command::new(env!("CARGO_BIN_EXE_slowpath"))
            .args(["--config", "/nonexistent/slowpath.toml"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text.contains("cannot read /nonexistent/slowpath.toml"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 1, "{text}");

    let good = config(1, "", "net_null0", "net_null0");
    let unknown = slowpath.refusal(&format!("colour = \"red\"\n{good}"));
    assert!(unknown.contains("colour"), "{unknown}");
    let workers = slowpath.refusal(&good.replace("workers = 1", "workers = 17"));
    assert!(workers.contains("workers"), "{workers}");
    let memory = slowpath.refusal(&good.replace("--no-shconf", "--in-memory"));
    assert!(memory.contains("--no-shconf"), "{memory}");

    let output = slowpath.command(&good).arg("--check").output().unwrap();
    assert!(output.status.success());
}

#[test]
fn says_in_a_sentence_what_is_wrong_with_the_port() {
    let slowpath = Slowpath::new();
    let missing = slowpath.refusal(&config(1, "", "net_null0", "net_null7"));
    assert!(
        missing.contains("net_null7") && missing.contains("net_null0"),
        "{missing}"
    );
    let driver = slowpath.refusal(&config(1, "", "net_nonsense0", "net_nonsense0"));
    assert!(driver.contains("net_nonsense"), "{driver}");
    let interface = slowpath.refusal(&config(
        1,
        "",
        "net_af_packet0,iface=sluice-none",
        "net_af_packet0",
    ));
    if !is_root() {
        assert!(interface.contains("CAP_NET_RAW"), "{interface}");
        println!("SKIPPED: an interface with too few queues; needs CAP_NET_RAW");
        return;
    }
    assert!(interface.contains("sluice-none"), "{interface}");
    let queues = slowpath.refusal(&config(
        2,
        "",
        "net_af_packet0,iface=lo,qpairs=1",
        "net_af_packet0",
    ));
    assert!(queues.contains("qpairs"), "{queues}");
    let mtu = slowpath.refusal(
        &config(1, "", "net_af_packet0,iface=lo,qpairs=1", "net_af_packet0")
            .replace("mbufs", "mtu = 9000\nmbufs"),
    );
    assert!(mtu.contains("9000") && mtu.contains("framesz"), "{mtu}");
}

#[test]
fn says_which_address_is_in_use() {
    let slowpath = Slowpath::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let refusal = slowpath.refusal(&config(
        1,
        &format!("http = \"{address}\""),
        "net_null0",
        "net_null0",
    ));
    assert!(
        refusal.contains(&address) && refusal.contains("slowpath.toml"),
        "{refusal}"
    );
}

#[test]
fn lives_counts_and_stops() {
    let slowpath = Slowpath::new();
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let child = slowpath
        .command(&config(
            2,
            &format!("http = \"{address}\""),
            "net_null0",
            "net_null0",
        ))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let value = |text: &str, name: &str| -> Option<u64> {
        let line = text.lines().find_map(|l| l.strip_prefix(name))?;
        line.trim().parse().ok()
    };
    let until = Instant::now() + LIMIT;
    let metrics = loop {
        if TcpStream::connect(&address).is_ok() {
            let (status, text) = get(&address, "/metrics");
            assert_eq!(status, 200);
            if value(&text, "sluice_slowpath_rx_packets_total").is_some_and(|n| n > 10_000) {
                break text;
            }
        }
        assert!(Instant::now() < until, "no packets were counted");
        std::thread::sleep(Duration::from_millis(50));
    };
    // Packets of zeros are no tunnel; all of them are accounted for.
    let received = value(&metrics, "sluice_slowpath_rx_packets_total");
    let dropped = value(
        &metrics,
        "sluice_slowpath_dropped_packets_total{reason=\"not_tunnel\"}",
    );
    assert_eq!(received, dropped);
    assert_eq!(
        value(&metrics, "sluice_slowpath_unaccounted_packets"),
        Some(0)
    );
    assert_eq!(get(&address, "/healthz"), (200, "ok\n".to_owned()));
    let (status, why) = get(&address, "/readyz");
    assert_eq!(status, 503);
    assert!(why.contains("no configuration yet"), "{why}");

    Command::new("kill")
        .args(["-TERM", &child.id().to_string()])
        .status()
        .unwrap();
    let output = wait(child);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{stderr}");
    assert!(stderr.contains("the port is released"), "{stderr}");
}
