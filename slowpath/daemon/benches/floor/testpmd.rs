//! `dpdk-testpmd` under the same conditions.

use std::io::{BufRead, BufReader, ErrorKind};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::traffic::Kind;

/// Longest wait for its first figures.
const START_LIMIT: Duration = Duration::from_secs(20);

/// Processor time of a thread, ns, from its `schedstat`.
pub(crate) fn processor_ns(path: &str) -> anyhow::Result<u64> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    let first = text.split_whitespace().next().unwrap_or_default();
    first.parse().with_context(|| format!("{path} has no time"))
}

/// Processor time a packet of a 5-tuple swap, ns; `None` if the program is not
/// installed.
pub(crate) fn measure(kind: Kind, cpu: usize, time: Duration) -> anyhow::Result<Option<f64>> {
    // The first processor of the list is for its command line.
    let main = if cpu == 0 { 1 } else { 0 };
    let child = Command::new("dpdk-testpmd")
        .args([
            "--no-huge",
            "--no-shconf",
            "-m",
            "256",
            "--no-pci",
            "--no-telemetry",
        ])
        .arg(format!("--lcores=0@{main},1@{cpu}"))
        .arg(format!("--vdev={}", kind.device()))
        .arg("--")
        .args([
            "--port-topology=loop",
            "--nb-cores=1",
            "--total-num-mbufs=16384",
        ])
        .args(["--forward-mode=5tswap", "--stats-period=1"])
        .args((kind == Kind::Ring).then_some("--tx-first"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).context("cannot run dpdk-testpmd"),
    };
    let result = watch(&mut child, time);
    child.kill().context("cannot stop dpdk-testpmd")?;
    child.wait().context("cannot wait for dpdk-testpmd")?;
    result.map(Some)
}

fn watch(child: &mut std::process::Child, time: Duration) -> anyhow::Result<f64> {
    let output = child.stdout.take().context("dpdk-testpmd has no output")?;
    let tasks = format!("/proc/{}/task", child.id());
    let seconds = time.as_secs().max(1) as usize;
    let began = Instant::now();
    let mut samples: Vec<(u64, u64)> = Vec::new();
    for line in BufReader::new(output).lines() {
        let line = line?;
        if began.elapsed() > START_LIMIT + time {
            break;
        }
        let Some(rest) = line.trim().strip_prefix("RX-packets:") else {
            continue;
        };
        let packets = rest
            .split_whitespace()
            .next()
            .unwrap_or_default()
            .parse()
            .context("dpdk-testpmd prints no number of packets")?;
        let mut spent = 0;
        for task in std::fs::read_dir(&tasks)? {
            let task = task?.path();
            spent += processor_ns(&task.join("schedstat").to_string_lossy())?;
        }
        samples.push((packets, spent));
        // The first is from the start of the program.
        if samples.len() > seconds + 1 {
            break;
        }
    }
    match (samples.get(1), samples.last()) {
        (Some(first), Some(last)) if last.0 > first.0 => {
            Ok((last.1 - first.1) as f64 / (last.0 - first.0) as f64)
        }
        _ => bail!("dpdk-testpmd forwarded nothing; run it by hand to see why"),
    }
}
