//! The clients: curl and iperf3, run in the client's namespace.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};

use crate::namespace::{self, Namespace};
use crate::servers::{Offered, hex};
use crate::stack::sibling;
use crate::udp::Answers;

/// A download by curl into a file.
#[derive(Debug)]
pub struct Download {
    child: Option<Child>,
    path: PathBuf,
    offered: Offered,
    started: Instant,
}

/// How a download went.
#[derive(Clone, Debug)]
pub struct Downloaded {
    /// The server that answered.
    pub server: String,
    /// Wall time.
    pub seconds: f64,
}

impl Download {
    /// Starts curl for `offered` from the VIP, at most `rate` MB/s if given.
    ///
    /// # Errors
    /// If curl can't be started.
    pub fn start(
        client: &Namespace,
        vip: Ipv4Addr,
        offered: &Offered,
        path: PathBuf,
        rate: Option<u32>,
    ) -> Result<Self> {
        let mut command = setpriv(client, "curl");
        command.args([
            "--silent",
            "--show-error",
            "--fail",
            "--no-keepalive",
            "--connect-timeout",
            "20",
            "--max-time",
            "240",
            "--write-out",
            "%header{x-server}",
        ]);
        if let Some(rate) = rate {
            command.args(["--limit-rate", &format!("{rate}M")]);
        }
        command
            .arg("--output")
            .arg(&path)
            .arg(format!("http://{vip}/{}", offered.name));
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("can't run curl")?;
        Ok(Self {
            child: Some(child),
            path,
            offered: offered.clone(),
            started: Instant::now(),
        })
    }

    /// Bytes that have arrived.
    pub fn progress(&self) -> u64 {
        std::fs::metadata(&self.path).map_or(0, |meta| meta.len())
    }

    /// Whether curl has ended.
    ///
    /// # Errors
    /// If it can't be told.
    pub fn is_done(&mut self) -> Result<bool> {
        match &mut self.child {
            Some(child) => Ok(child.try_wait()?.is_some()),
            None => Ok(true),
        }
    }

    /// Waits for the end and compares the SHA-256.
    ///
    /// # Errors
    /// With what curl said, or if the bytes are wrong.
    pub fn finish(mut self) -> Result<Downloaded> {
        let child = self.child.take().context("already finished")?;
        let done = child.wait_with_output()?;
        let seconds = self.started.elapsed().as_secs_f64();
        if !done.status.success() {
            bail!(
                "download of {}: {} after {seconds:.1} s and {} bytes",
                self.offered.name,
                String::from_utf8_lossy(&done.stderr).trim(),
                self.progress()
            );
        }
        let (bytes, sha256) = digest(&self.path)?;
        if sha256 != self.offered.sha256 {
            bail!(
                "download of {}: {bytes} bytes with SHA-256 {sha256}, offered were {} with {}",
                self.offered.name,
                self.offered.bytes,
                self.offered.sha256
            );
        }
        Ok(Downloaded {
            server: String::from_utf8_lossy(&done.stdout).trim().to_owned(),
            seconds,
        })
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = std::fs::remove_file(&self.path);
    }
}

fn digest(path: &Path) -> Result<(u64, String)> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut block = vec![0u8; 1 << 20];
    let mut bytes = 0;
    loop {
        let length = file.read(&mut block)?;
        if length == 0 {
            return Ok((bytes, hex(&hash.finalize())));
        }
        bytes += length as u64;
        hash.update(block.get(..length).unwrap_or_default());
    }
}

/// `count` downloads at once; returns how many each server answered.
///
/// # Errors
/// With the first that fails.
pub fn many(
    client: &Namespace,
    vip: Ipv4Addr,
    offered: &Offered,
    folder: &Path,
    count: usize,
) -> Result<BTreeMap<String, usize>> {
    let mut running = Vec::with_capacity(count);
    for number in 0..count {
        let path = folder.join(format!("many-{number}"));
        running.push(Download::start(client, vip, offered, path, None)?);
    }
    let mut servers = BTreeMap::new();
    let mut failures = Vec::new();
    for download in running {
        match download.finish() {
            Ok(done) => *servers.entry(done.server).or_default() += 1,
            Err(error) => failures.push(error.to_string()),
        }
    }
    match failures.first() {
        None => Ok(servers),
        Some(first) => bail!("{} of {count} failed; the first: {first}", failures.len()),
    }
}

/// Runs iperf3 for `seconds`; `reverse` has the server send. Returns Mbit/s
/// that arrived.
///
/// # Errors
/// With what iperf3 said.
pub fn iperf3(client: &Namespace, vip: Ipv4Addr, seconds: u32, reverse: bool) -> Result<f64> {
    let mut command = setpriv(client, "iperf3");
    command.args([
        "--json",
        "--client",
        &vip.to_string(),
        "--time",
        &seconds.to_string(),
    ]);
    command.args(["--connect-timeout", "10000"]);
    if reverse {
        command.arg("--reverse");
    }
    let done = command
        .stdin(Stdio::null())
        .output()
        .context("can't run iperf3")?;
    let report: serde_json::Value = serde_json::from_slice(&done.stdout).with_context(|| {
        format!(
            "iperf3 ({}) printed no JSON: {}",
            done.status,
            String::from_utf8_lossy(&done.stderr).trim()
        )
    })?;
    if let Some(error) = report.get("error").and_then(|e| e.as_str()) {
        bail!("iperf3: {error}");
    }
    report
        .pointer("/end/sum_received/bits_per_second")
        .and_then(serde_json::Value::as_f64)
        .map(|bits| bits / 1e6)
        .context("iperf3's report has no end/sum_received/bits_per_second")
}

/// Runs the UDP client in the client's namespace.
///
/// # Errors
/// If it can't be run.
pub fn udp(client: &Namespace, vip: Ipv4Addr, sockets: u16, requests: u32) -> Result<Answers> {
    let program = sibling("sluice-lab")?;
    let mut command = setpriv(client, &program.display().to_string());
    command.args([
        "udp-client",
        "--vip",
        &vip.to_string(),
        "--sockets",
        &sockets.to_string(),
        "--requests",
        &requests.to_string(),
    ]);
    let text = namespace::output(&mut command)?;
    serde_json::from_str(&text).context("the UDP client printed no report")
}

/// Waits until `condition` holds.
///
/// # Errors
/// If it does not within `limit`, or fails.
pub fn wait_for(
    what: &str,
    limit: Duration,
    mut condition: impl FnMut() -> Result<bool>,
) -> Result<Duration> {
    let start = Instant::now();
    loop {
        crate::interrupt::check()?;
        if condition()? {
            return Ok(start.elapsed());
        }
        if start.elapsed() > limit {
            bail!("{what}: not within {} s", limit.as_secs());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn setpriv(client: &Namespace, program: &str) -> Command {
    let mut command = client.command("setpriv");
    command.args(["--pdeathsig", "KILL", program]);
    command
}
