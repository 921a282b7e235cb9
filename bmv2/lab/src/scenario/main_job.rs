//! The main job: downloads, a UDP service, iperf3; then the books.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use offload_api::v1::Totals;

use super::Lab;
use crate::books::{self, Books};
use crate::report::{OffloadLatency, Report, Transfer, VipPackets};
use crate::stack::Target;
use crate::traffic::{self, Download};

const DOWNLOADS: usize = 200;
/// Least share of the large transfer's packets that the switch must rewrite.
const SHARE: f64 = 0.99;
const UDP_SOCKETS: u16 = 64;
const UDP_REQUESTS: u32 = 50;
const IPERF_SECONDS: u32 = 3;

/// Runs the main job and records what must hold.
pub fn run(lab: &mut Lab, report: &mut Report) {
    report.check(
        "200 downloads of 1 MiB at once, SHA-256 right, over three servers",
        |summary| {
            let servers = traffic::many(
                &lab.topology.client,
                lab.vip,
                &lab.small,
                &lab.downloads,
                DOWNLOADS,
            )?;
            summary.downloads_by_server = servers.clone();
            ensure!(
                servers.len() == 3 && servers.values().all(|count| *count >= DOWNLOADS / 6),
                "by server: {servers:?}"
            );
            Ok(format!("by server: {servers:?}"))
        },
    );
    report.check(
        "one download of 1 GiB, SHA-256 right, 99 % of packets by the switch",
        |summary| {
            settle(lab)?;
            let before = Books::settled(&lab.admin)?;
            let path = lab.downloads.join("large");
            let done =
                Download::start(&lab.topology.client, lab.vip, &lab.large, path, None)?.finish()?;
            let after = Books::settled(&lab.admin)?;
            let fast = after.fast() - before.fast();
            let slow = after.slow() - before.slow();
            ensure!(
                fast + slow > 700_000,
                "only {fast} + {slow} packets for 1 GiB"
            );
            let share = fast as f64 / (fast + slow) as f64;
            summary.transfer = Transfer {
                bytes: lab.large.bytes,
                seconds: done.seconds,
                switch_packets: fast,
                slow_path_packets: slow,
                switch_share: share,
            };
            ensure!(
                share >= SHARE,
                "{fast} by the switch, {slow} by the slow path"
            );
            Ok(format!(
                "{:.3} % of {} packets, {:.1} s",
                share * 100.0,
                fast + slow,
                done.seconds
            ))
        },
    );
    report.check("a UDP request/response service", |_| {
        let answers = traffic::udp(&lab.topology.client, lab.vip, UDP_SOCKETS, UDP_REQUESTS)?;
        let asked = u64::from(UDP_SOCKETS) * u64::from(UDP_REQUESTS);
        let seen = format!(
            "{} of {} answered, {} sent again, {} wrong, by server: {:?}",
            answers.answered, answers.asked, answers.resent, answers.wrong, answers.by_server
        );
        ensure!(
            answers.asked == asked
                && answers.answered == asked
                && answers.wrong == 0
                && answers.by_server.len() == 3,
            "{seen}"
        );
        Ok(seen)
    });
    report.check("iperf3 to and from a server", |summary| {
        let up = traffic::iperf3(&lab.topology.client, lab.vip, IPERF_SECONDS, false)?;
        let down = traffic::iperf3(&lab.topology.client, lab.vip, IPERF_SECONDS, true)?;
        summary.iperf3_mbits = (up, down);
        ensure!(up > 1.0 && down > 1.0, "{up:.1} and {down:.1} Mbit/s");
        Ok(format!("{up:.0} and {down:.0} Mbit/s"))
    });
    report.check("after the last connection nothing is left", |_| {
        settle(lab)?;
        Ok("no entry, no session, no local port in use".into())
    });
    report.check(
        "the books balance: forwarded, punted or dropped under a name",
        |summary| {
            let books = Books::settled(&lab.admin)?;
            summary.missed_before_switch = books::missed_before_switch(&lab.topology, &books)?;
            summary.slow_path = lab.admin.ld()?.counters;
            summary.switch = books.clone();
            for vip in lab.admin.vips()? {
                let packets = |totals: Option<Totals>| totals.map_or(0, |totals| totals.packets);
                let name = vip.vip.map(|vip| vip.name).unwrap_or_default();
                summary.vips.insert(
                    name,
                    VipPackets {
                        received: packets(vip.rx),
                        switch_to_servers: packets(vip.fast_fwd),
                        switch_to_clients: packets(vip.fast_rev),
                    },
                );
            }
            ensure!(books.entered > 0, "the switch has counted nothing");
            ensure!(
                books.unaccounted_packets == 0,
                "{} packets unaccounted",
                books.unaccounted_packets
            );
            // bmv2 has queues that overflow; ours runs to completion.
            ensure!(
                summary.target != Target::Softswitch.name()
                    || !books.dropped.contains_key("EGRESS_QUEUE_FULL"),
                "lost between ingress and egress: {:?}",
                books.dropped
            );
            Ok(format!(
                "{} entered, {} forwarded, {} punted, {} dropped, 0 unaccounted",
                books.entered,
                books.forwarded,
                books.punted,
                books.dropped.values().sum::<u64>()
            ))
        },
    );
    report.check("the slow path's books balance", |_| {
        let ld = lab.admin.ld()?;
        let dropped: u64 = ld
            .counters
            .iter()
            .filter(|(name, _)| name.starts_with("drop."))
            .map(|(_, packets)| packets)
            .sum();
        let received = ld.counter("rx_packets");
        let out = ld.counter("forwarded_packets") + ld.counter("replied_packets") + dropped;
        ensure!(received > 0, "it has received nothing");
        ensure!(
            received == out,
            "{received} received, {out} forwarded, answered or dropped"
        );
        Ok(format!(
            "{received} received, all forwarded, answered or dropped ({dropped})"
        ))
    });
    report.check("offload latency is measured", |summary| {
        let ld = lab.admin.ld()?;
        summary.offload_latency = OffloadLatency {
            p50_us: ld.gauge("offload_p50_us")?,
            p99_us: ld.gauge("offload_p99_us")?,
            count: ld.gauge("offload_count")?,
        };
        summary.switchover_late_packets = ld.counter("switchover_late_packets");
        let latency = &summary.offload_latency;
        if latency.count < DOWNLOADS as u64
            || latency.p50_us == 0
            || latency.p50_us > latency.p99_us
        {
            bail!("{latency:?}");
        }
        Ok(format!(
            "p50 {} µs, p99 {} µs over {} sessions",
            latency.p50_us, latency.p99_us, latency.count
        ))
    });
}

/// Waits until nothing of any connection is left.
fn settle(lab: &mut Lab) -> Result<()> {
    lab.stack.check()?;
    books::wait_for_rest(&lab.admin, Duration::from_secs(40)).context("connections have ended")
}
