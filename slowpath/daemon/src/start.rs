//! From a configuration to running workers.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Instant;

use anyhow::{Context, anyhow};
use dpdk::{
    Eal, EalArgs, FlowRule, HEADROOM, Mempool, PoolConfig, Port, PortConfig, Started, Tsc,
    UdpSourceMatch, Waker, ring,
};
use packet::vxlan::VXLAN_PORT;
use session_engine::{Engine, EngineConfig, HashKeys};
use sluice_config::{IdlePolicy, Slowpath};
use tokio::sync::{Notify, mpsc};

use crate::control::{Link, Rings};
use crate::io::PortIo;
use crate::preflight;
use crate::tunnel::SHARD_MASK;
use crate::worker::{Idle, Setup, Worker};

/// Frames in a ring between two workers.
const REDIRECT_RING: usize = 1024;
/// Ethernet header and two VLAN tags.
const FRAME_OVERHEAD: u16 = 14 + 2 * 4;
/// Least size of a buffer, without headroom.
const LEAST_ROOM: u16 = 2048;
/// A frame limit above this is no limit but a driver's way to say so.
const NO_LIMIT: u32 = 16 * 1024;

/// Workers that run.
#[derive(Debug)]
pub struct Running {
    /// The control thread's ends.
    pub links: Vec<Link>,
    /// Says that a worker has something to tell.
    pub notify: Arc<Notify>,
    /// The threads.
    pub threads: Vec<JoinHandle<()>>,
    /// Workers that have ended, as they do, and why.
    pub ended: mpsc::UnboundedReceiver<(u16, String)>,
}

/// Starts the EAL, and the port with a queue pair for each worker. What
/// [`preflight::check`] finds is found better before this.
///
/// # Errors
/// One sentence: what, where, and the way out.
pub fn open_port(config: &Slowpath) -> anyhow::Result<(Eal, Started)> {
    let eal =
        Eal::init(&EalArgs::from(config.eal.args.clone())).map_err(
            |error| match preflight::hint(config) {
                Some(hint) => anyhow!("{error}. {hint}"),
                None => anyhow!(error),
            },
        )?;
    let port = eal.port(&config.eal.port).context("eal.port")?;
    let info = port.info().clone();
    let pool = Mempool::create(
        eal,
        "packets",
        PoolConfig {
            count: config.eal.mbufs,
            cache: (config.eal.mbufs / 64).min(256),
            data_room: data_room(config.eal.mtu, info.max_frame),
        },
    )
    .context("eal.mbufs")?;
    let started = port
        .start(
            &PortConfig {
                rx_queues: config.workers,
                tx_queues: config.workers,
                rx_descriptors: config.eal.descriptors,
                tx_descriptors: config.eal.descriptors,
                mtu: config.eal.mtu,
                ..PortConfig::default()
            },
            &[pool],
        )
        .with_context(|| {
            format!(
                "eal.port {} with {} workers and mtu {}",
                config.eal.port, config.workers, config.eal.mtu
            )
        })?;
    tracing::info!(
        port = info.name,
        driver = info.driver,
        queues = config.workers,
        mtu = config.eal.mtu,
        "port started"
    );
    Ok((eal, started))
}

/// Bytes of a buffer, headroom included: room for the MTU, and for the largest
/// frame that the driver hands over.
fn data_room(mtu: u16, max_frame: u32) -> u16 {
    // AF_PACKET wants room for its ring frame less 32 bytes, and names as its
    // limit the ring frame less 66.
    let of_driver = match u16::try_from(max_frame) {
        Ok(frame) if max_frame <= NO_LIMIT => frame.saturating_add(66 - 32),
        _ => 0,
    };
    mtu.saturating_add(FRAME_OVERHEAD)
        .max(of_driver)
        .max(LEAST_ROOM)
        .saturating_add(HEADROOM)
}

/// Has the port put each frame into its worker's queue, where it can: one rule
/// for each value of the shard bits in the outer UDP source port. Without them
/// frames go from worker to worker.
#[must_use]
pub fn steer(port: &Port, workers: u16) -> Vec<FlowRule> {
    if workers < 2 {
        return Vec::new();
    }
    let rules: dpdk::Result<Vec<FlowRule>> = (0..=SHARD_MASK)
        .map(|shard| {
            let matches = UdpSourceMatch {
                port: shard,
                mask: SHARD_MASK,
                destination: Some(VXLAN_PORT),
            };
            port.add_flow(matches, shard % workers)
        })
        .collect();
    match rules {
        Ok(rules) => {
            tracing::info!("the port brings frames to their workers");
            rules
        }
        Err(error) => {
            tracing::info!(%error, "frames in the wrong queue go from worker to worker");
            Vec::new()
        }
    }
}

/// What workers need to know apart from their port.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How many workers.
    pub workers: u16,
    /// This LD's end of the tunnel.
    pub vtep: Ipv4Addr,
    /// Most records of one worker.
    pub max_records: u32,
    /// Without packets.
    pub idle: IdlePolicy,
    /// Processor of the first worker; the others follow. `None`: any.
    pub first_cpu: Option<usize>,
}

impl From<&Slowpath> for Plan {
    fn from(config: &Slowpath) -> Self {
        Self {
            workers: config.workers,
            vtep: config.vtep,
            max_records: config.sessions_per_worker,
            idle: config.idle.clone(),
            first_cpu: None,
        }
    }
}

/// Starts the workers.
///
/// # Errors
/// One sentence: what, where, and the way out.
pub fn workers(
    eal: Eal,
    plan: &Plan,
    queues: (Vec<dpdk::RxQueue>, Vec<dpdk::TxQueue>),
) -> anyhow::Result<Running> {
    let n = usize::from(plan.workers);
    let wakers = (0..n)
        .map(|_| Waker::new())
        .collect::<Result<Vec<_>, _>>()
        .context("an event descriptor for each worker")?;
    let mut rings = redirect_rings(eal, n)?;
    let keys = HashKeys(rand::random());
    let boot = rand::random();
    let notify = Arc::new(Notify::new());
    let (ended_in, ended) = mpsc::unbounded_channel();
    let mut links = Vec::with_capacity(n);
    let mut threads = Vec::with_capacity(n);
    for (worker, (rx, tx)) in queues.0.into_iter().zip(queues.1).enumerate() {
        let engine = Engine::new(EngineConfig {
            worker: worker as u8,
            workers: plan.workers as u8,
            max_records: plan.max_records,
            ..EngineConfig::new(boot, keys)
        })
        .context("sessions_per_worker")?;
        let to_control = Rings::new();
        let setup = Setup {
            worker: worker as u16,
            workers: plan.workers,
            vtep: plan.vtep,
            rings: to_control.clone(),
            notify: Arc::clone(&notify),
        };
        let (outgoing, incoming) = rings.remove(0);
        let io = PortIo {
            rx,
            tx,
            outgoing,
            incoming,
            next: 0,
            wakers: wakers.clone(),
            worker: worker as u16,
        };
        let idle = Idle::new(&plan.idle);
        let farewell = Farewell {
            worker: worker as u16,
            to: ended_in.clone(),
            why: "it panicked; the log has the place".to_owned(),
        };
        let cpu = plan.first_cpu.map(|cpu| cpu + worker);
        let thread =
            dpdk::thread::spawn(eal, &format!("worker-{worker}"), cpu, move |registered| {
                let mut farewell = farewell;
                let mut idle = idle;
                match registered {
                    Ok(_) => {
                        Worker::new(setup, io, Tsc::new(eal), engine).run(&mut idle);
                        farewell.why.clear();
                    }
                    Err(error) => farewell.why = error.to_string(),
                }
            })?;
        let waker = wakers.get(worker).cloned();
        let wake = Box::new(move || {
            if let Some(waker) = &waker {
                waker.wake();
            }
        });
        links.push(Link::new(to_control, wake, Instant::now()));
        threads.push(thread);
    }
    Ok(Running {
        links,
        notify,
        threads,
        ended,
    })
}

/// Says that a worker's thread has ended, also when it panicked.
struct Farewell {
    worker: u16,
    to: mpsc::UnboundedSender<(u16, String)>,
    why: String,
}

impl Drop for Farewell {
    fn drop(&mut self) {
        // Nobody listens when the process ends as well.
        let _ = self.to.send((self.worker, std::mem::take(&mut self.why)));
    }
}

/// Of a worker: the rings to the others, by worker, and those from them.
type Ends = (Vec<Option<ring::Producer>>, Vec<ring::Consumer>);

fn redirect_rings(eal: Eal, workers: usize) -> anyhow::Result<Vec<Ends>> {
    let mut ends: Vec<Ends> = (0..workers).map(|_| (Vec::new(), Vec::new())).collect();
    for from in 0..workers {
        for to in 0..workers {
            let producer = if from == to {
                None
            } else {
                let name = format!("redirect_{from}_{to}");
                let (producer, consumer) = ring::create(eal, &name, REDIRECT_RING)?;
                if let Some((_, incoming)) = ends.get_mut(to) {
                    incoming.push(consumer);
                }
                Some(producer)
            };
            if let Some((outgoing, _)) = ends.get_mut(from) {
                outgoing.push(producer);
            }
        }
    }
    Ok(ends)
}

/// The port's own counters, by name: what was lost where no worker sees it.
pub fn port_counters(port: &Port, counters: &mut std::collections::BTreeMap<String, u64>) {
    match port.stats() {
        Ok(stats) => {
            for (name, value) in [
                ("port.rx_missed", stats.rx_missed),
                ("port.rx_errors", stats.rx_errors),
                ("port.rx_no_mbuf", stats.rx_no_mbuf),
                ("port.tx_errors", stats.tx_errors),
            ] {
                counters.insert(name.to_owned(), value);
            }
        }
        Err(error) => tracing::debug!(%error, "the port's counters"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_hold_the_mtu_and_what_the_driver_hands_over() {
        // net_af_packet with frames of 2048 bytes: 1982 at most, 2016 wanted.
        assert_eq!(data_room(1550, 2048 - 66), 2048 + HEADROOM);
        // With frames of 4096.
        assert_eq!(data_room(1550, 4096 - 66), 4064 + HEADROOM);
        assert_eq!(data_room(9000, u32::MAX), 9022 + HEADROOM);
        assert_eq!(data_room(65_535, u32::MAX), u16::MAX);
    }
}
