//! The loop of one worker thread.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use smallvec::SmallVec;

use super::batch::TxBatch;
use super::dataplane::Shared;
use super::monitor::{Mailbox, NewEnds};
use super::port::{RxEnd, TxEnd};
use super::sys::Wake;
use super::turn::{self, Order};
use crate::{Burst, Output, Worker};

/// Packets taken from one port before the next one has its turn.
const BURST: usize = 64;
/// Bytes that may wait for one port before they are sent in the middle of a
/// burst: bounds memory when a burst is multiplied.
const MAX_BATCH_BYTES: usize = 1 << 20;

/// After how many milliseconds an interface that was too busy is asked again, if
/// nothing else happens.
const BUSY_MS: u16 = 1;

/// All ports of a worker, to send to.
#[derive(Debug)]
pub(super) struct TxPorts {
    queues: Vec<(TxEnd, TxBatch)>,
    /// Position in `queues` by port number.
    by_port: Vec<Option<u16>>,
    /// Positions whose batch is not empty.
    pending: Vec<u16>,
    /// Positions whose interface was too busy for all that was sent.
    waiting: Vec<u16>,
    /// Packets for the controller. It gets them when the burst has ended, so
    /// that it finds them in the counters.
    packet_ins: TxBatch,
}

impl TxPorts {
    pub(super) fn new(queues: Vec<(u16, TxEnd)>) -> Self {
        let ports = queues.iter().map(|(port, _)| usize::from(*port) + 1).max();
        let mut by_port = vec![None; ports.unwrap_or(0)];
        for (position, (port, _)) in (0..).zip(&queues) {
            by_port[usize::from(*port)] = Some(position);
        }
        Self {
            queues: queues
                .into_iter()
                .map(|(_, queue)| (queue, TxBatch::default()))
                .collect(),
            by_port,
            pending: Vec::new(),
            waiting: Vec::new(),
            packet_ins: TxBatch::default(),
        }
    }

    /// Puts a new end in place; returns the one before.
    fn replace(&mut self, port: u16, new: TxEnd) -> Option<TxEnd> {
        let position = (*self.by_port.get(usize::from(port))?)?;
        let (end, _) = self.queues.get_mut(usize::from(position))?;
        Some(std::mem::replace(end, new))
    }

    /// False if there is no such port.
    fn push(&mut self, port: u16, packet: &[u8]) -> bool {
        let Some(Some(position)) = self.by_port.get(usize::from(port)) else {
            return false;
        };
        let (queue, batch) = &mut self.queues[usize::from(*position)];
        if batch.is_empty() {
            self.pending.push(*position);
        } else if batch.bytes() > MAX_BATCH_BYTES {
            send(queue, batch, &mut self.waiting, *position);
        }
        batch.push(packet);
        true
    }

    /// Gives the controller its packets.
    fn notify(&mut self, shared: &Shared) {
        for at in 0..self.packet_ins.len() {
            shared.packet_in(self.packet_ins.packet(at));
        }
        self.packet_ins.clear();
    }

    fn flush(&mut self) {
        for position in self.pending.drain(..) {
            let (queue, batch) = &mut self.queues[usize::from(position)];
            send(queue, batch, &mut self.waiting, position);
        }
    }

    /// Has what waits for busy interfaces leave, as far as it can.
    fn resume(&mut self) {
        self.waiting.retain(|position| {
            let (queue, _) = &mut self.queues[usize::from(*position)];
            queue.resume();
            queue.is_waiting()
        });
    }
}

/// Sends a batch and empties it; notes where some of it waits.
fn send(queue: &mut TxEnd, batch: &mut TxBatch, waiting: &mut Vec<u16>, position: u16) {
    queue.send(batch);
    batch.clear();
    if queue.is_waiting() && !waiting.contains(&position) {
        waiting.push(position);
    }
}

/// One worker with its ends of the ports.
#[derive(Debug)]
pub(super) struct WorkerLoop {
    pub(super) worker: Worker,
    pub(super) shared: Arc<Shared>,
    pub(super) wake: Arc<Wake>,
    pub(super) rx: Vec<RxEnd>,
    pub(super) tx: TxPorts,
    /// Whether this worker takes the packets that the control side injects.
    pub(super) takes_injected: bool,
    /// Where new ends of ports arrive.
    pub(super) mailbox: Arc<Mailbox>,
    /// Set if there are other workers.
    pub(super) order: Option<Order>,
    /// Empty passes before the worker goes to sleep.
    pub(super) spins: u32,
}

impl WorkerLoop {
    pub(super) fn run(mut self) {
        let mut empty_passes = 0;
        while !self.shared.stop.load(Ordering::Acquire) {
            if self.pass() > 0 {
                empty_passes = 0;
            } else if empty_passes < self.spins {
                empty_passes += 1;
                std::hint::spin_loop();
            } else {
                empty_passes = 0;
                self.sleep();
            }
        }
    }

    /// One burst from every port; returns the number of packets.
    fn pass(&mut self) -> usize {
        self.replace_ends();
        self.tx.resume();
        let mut packets = 0;
        if self.takes_injected {
            packets += self.injected();
            packets += self.read_from_files();
        }
        let Self {
            worker,
            shared,
            rx,
            tx,
            order,
            ..
        } = self;
        for end in rx {
            if !end.is_ready() {
                continue;
            }
            let port = end.port;
            packets += run_burst(worker, shared, tx, order, |underway| {
                end.receive(BURST, |packet| underway.process(port, packet))
            });
        }
        self.tx.flush();
        packets
    }

    /// Takes over the sockets of interfaces that were opened again, and those
    /// of further queues.
    fn replace_ends(&mut self) {
        for new in self.mailbox.take() {
            match new {
                NewEnds::Instead { port, rx, tx } => {
                    let mut old: Vec<_> = self.rx.extract_if(.., |end| end.port == port).collect();
                    // What they have left comes before what the new ones have.
                    for end in &mut old {
                        while self.receive(end) >= BURST {}
                    }
                    self.tx.flush();
                    self.rx.extend(rx);
                    let before = self.tx.replace(port, tx);
                    self.mailbox.give_back(old, before);
                }
                NewEnds::Further(rx) => self.rx.push(rx),
            }
        }
    }

    /// One burst from a port; returns the number of packets.
    fn receive(&mut self, end: &mut RxEnd) -> usize {
        let port = end.port;
        self.burst(|underway| end.receive(BURST, |packet| underway.process(port, packet)))
    }

    /// One burst of what the control side injects.
    fn injected(&mut self) -> usize {
        if self.shared.injected.is_empty() {
            return 0;
        }
        self.burst(|underway| {
            let mut packets = 0;
            while packets < BURST
                && let Some((port, packet)) = underway.shared.injected.pop()
            {
                underway.process(port, &packet);
                packets += 1;
            }
            packets
        })
    }

    /// One burst of what comes from files.
    fn read_from_files(&mut self) -> usize {
        let Some(read) = self.shared.from_files.pop() else {
            return 0;
        };
        self.burst(|underway| {
            let mut packets = 0;
            for (port, packet) in read.iter() {
                underway.process(port, packet);
                packets += 1;
            }
            packets
        })
    }

    fn burst(&mut self, feed: impl FnOnce(&mut Underway<'_>) -> usize) -> usize {
        let Self {
            worker,
            shared,
            tx,
            order,
            ..
        } = self;
        run_burst(worker, shared, tx, order, feed)
    }

    fn sleep(&self) {
        let mut fds: SmallVec<[PollFd<'_>; 16]> = SmallVec::new();
        fds.push(PollFd::new(self.wake.as_fd(), PollFlags::POLLIN));
        let mut ends: SmallVec<[&RxEnd; 16]> = SmallVec::new();
        for end in &self.rx {
            if let Some(fd) = end.fd() {
                fds.push(PollFd::new(fd, PollFlags::POLLIN));
                ends.push(end);
            }
        }
        let timeout = match self.tx.waiting.is_empty() {
            true => PollTimeout::NONE,
            false => PollTimeout::from(BUSY_MS),
        };
        if poll(&mut fds, timeout).is_err() {
            return; // interrupted by a signal
        }
        if fds[0].any() == Some(true) {
            self.wake.clear();
        }
        for (fd, end) in fds[1..].iter().zip(ends) {
            if fd
                .revents()
                .is_some_and(|r| r.intersects(PollFlags::POLLERR))
            {
                end.take_error();
            }
        }
    }
}

/// A burst under way, and where its packets go.
struct Underway<'a> {
    burst: Burst<'a>,
    tx: &'a mut TxPorts,
    shared: &'a Shared,
}

impl Underway<'_> {
    #[inline]
    fn process(&mut self, port: u16, packet: &[u8]) {
        let Self { burst, tx, shared } = self;
        burst.process(port, packet, &mut |output| deliver(tx, shared, &output));
    }
}

/// Runs a burst, whose packets `feed` processes; returns what `feed` does, how
/// many there were. The controller is told when they have been counted.
fn run_burst(
    worker: &mut Worker,
    shared: &Shared,
    tx: &mut TxPorts,
    order: &mut Option<Order>,
    feed: impl FnOnce(&mut Underway<'_>) -> usize,
) -> usize {
    let _gate = shared.gate.read();
    turn::burst(
        worker,
        shared.clock,
        order.as_mut(),
        &shared.in_order,
        |burst| {
            let mut underway = Underway { burst, tx, shared };
            let packets = feed(&mut underway);
            let Underway { burst, tx, .. } = underway;
            burst.finish(&mut |output| deliver(tx, shared, &output));
            tx.notify(shared);
            packets
        },
    )
}

fn deliver(tx: &mut TxPorts, shared: &Shared, output: &Output<'_>) {
    match output {
        Output::Transmit { port, bytes } => {
            if !tx.push(*port, bytes) {
                shared.no_such_port.fetch_add(1, Ordering::Relaxed);
            }
        }
        Output::PacketIn { bytes } => {
            if tx.packet_ins.bytes() > MAX_BATCH_BYTES {
                tx.notify(shared);
            }
            tx.packet_ins.push(bytes);
        }
        // Counted by the switch.
        Output::Dropped { .. } => {}
    }
}
