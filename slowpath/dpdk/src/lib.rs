//! Safe wrappers for the parts of DPDK that Sluice uses.
//!
//! This crate is the only user of `dpdk-sys`. It has the environment
//! ([`Eal`]), packet buffers ([`Mempool`], [`Mbuf`], [`Burst`]), ports and
//! their queues ([`Port`], [`RxQueue`], [`TxQueue`]), rings between workers
//! ([`ring`]), worker threads ([`thread`]), steering rules ([`FlowRule`]) and
//! the clock ([`Tsc`]).
//!
//! # Ownership
//!
//! - The EAL and pools live as long as the process. An [`Mbuf`] therefore never
//!   outlives the memory it points into, and needs no reference count.
//! - An [`Mbuf`] owns its buffer alone: its bytes are borrowed as ordinary
//!   slices, and dropping it gives the buffer back. It can go to another
//!   thread.
//! - A queue belongs to one thread at a time: [`RxQueue`] and [`TxQueue`] are
//!   `Send`, not `Sync`, not `Clone`, and made once, when the port starts. The
//!   port closes when its [`Port`] handles and queues are all gone.
//! - A ring has one producer and one consumer, as two values.
//!
//! # Example
//!
//! ```no_run
//! use dpdk::{Burst, Eal, EalArgs, Mempool, PoolConfig, PortConfig};
//!
//! # fn main() -> dpdk::Result<()> {
//! let args = EalArgs::without_huge_pages(128).vdev("net_null0");
//! let eal = Eal::init(&args)?;
//! let pool = Mempool::create(eal, "packets", PoolConfig::default())?;
//! let mut started = eal.port("net_null0")?.start(&PortConfig::default(), &[pool])?;
//! let (rx, tx) = (&mut started.rx[0], &mut started.tx[0]);
//! let mut burst: Burst = Burst::new();
//! rx.rx_burst(&mut burst);
//! tx.tx_burst(&mut burst);
//! let unsent = burst.len();
//! # let _ = unsent;
//! # Ok(())
//! # }
//! ```
//!
//! # Names of EAL arguments that matter in a lab
//!
//! `--no-huge -m 256 --no-shconf --no-pci --no-telemetry` runs without huge
//! pages, files in `/var/run` and network cards, as any number of processes
//! side by side; [`EalArgs::without_huge_pages`] has them. In DPDK 22.11
//! `--in-memory` cannot be combined with `--no-huge` (the EAL refuses it,
//! because no-huge implies legacy memory); `--no-shconf` is what it needs.
//! An AF_PACKET port's socket is opened in the network namespace that the
//! thread calling [`Eal::init`] is in; see [`af_packet`] for that driver.
//!
//! # Comparing with `dpdk-testpmd`
//!
//! `dpdk-dev` has the program. Without huge pages, on a port that loops to
//! itself, swapping the 5-tuple (the floor of any forwarder), and on a port
//! that makes and swallows packets:
//!
//! ```text
//! EAL="--no-huge --no-shconf -m 256 --no-pci --no-telemetry -l 0,1"
//! FWD="--port-topology=loop --nb-cores=1 --total-num-mbufs=16384 --stats-period=1"
//! dpdk-testpmd $EAL --vdev=net_ring0 -- $FWD --forward-mode=5tswap --tx-first
//! dpdk-testpmd $EAL --vdev=net_null0 -- $FWD --forward-mode=5tswap
//! dpdk-testpmd $EAL --vdev=net_null0 -- $FWD --forward-mode=io
//! ```
//!
//! testpmd forwards on the second core of the list. `--total-num-mbufs` is
//! needed: the default pool does not fit into 256 MiB. Packets of `net_null`
//! are empty, so its 5tswap swaps MAC addresses only; the burst that
//! `--tx-first` puts into `net_ring0` is 32 real UDP packets, which go round
//! for ever. `examples/floor.rs` does the same loops over this crate and, with
//! `--testpmd`, runs both. Processor time on one core of a virtual AMD EPYC
//! (Zen 5), DPDK 22.11.11, in November 2026:
//!
//! | loop | this crate | testpmd |
//! |---|---|---|
//! | `net_null`, io | 15.4 ns/packet | 14.9 ns/packet |
//! | `net_ring`, 5-tuple swap, 32 packets | 3.7 ns/packet | 6.7 ns/packet |
//!
//! (testpmd's swap also fills in mbuf fields for offloads and keeps statistics.)

// The wrappers call C. Each block has a SAFETY line.
#![allow(unsafe_code)]
#![warn(clippy::undocumented_unsafe_blocks)]

pub mod af_packet;
mod burst;
mod eal;
mod error;
mod flow;
mod idle;
mod mbuf;
mod mempool;
mod port;
mod port_info;
mod queue;
pub mod ring;
mod stats;
pub mod thread;
mod tsc;

pub use burst::{BURST, Burst};
pub use eal::{Eal, EalArgs, version};
pub use error::{Errno, Error, Result};
pub use flow::{FlowRule, UdpSourceMatch};
pub use idle::{Wake, Waker};
pub use mbuf::{HEADROOM, Mbuf};
pub use mempool::{Mempool, PoolConfig};
pub use port::{Link, Port, Started, UnconfiguredPort};
pub use port_info::{PortConfig, PortInfo};
pub use queue::{RxQueue, TxQueue};
pub use stats::{ExtendedStat, PortStats};
pub use tsc::Tsc;
