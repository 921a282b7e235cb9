//! Watches the interfaces behind the ports: tells the switch which are up, and
//! opens those again that have gone and come back.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, socket,
};
use parking_lot::Mutex;

use super::counters::{LinkState, PortCounters};
use super::dataplane::Shared;
use super::opening::PortSocket;
use super::port::{Capture, RxEnd, RxQueue, TxEnd, TxQueue};
use super::sys::{self, Link, Wake};
use super::{PortError, packet_socket, tap, xdp};
use crate::Switch;

/// How often interfaces are looked at even if the kernel tells of no change,
/// in milliseconds: a message may have been lost, or an opening failed.
const RESCAN_MS: u16 = 2_000;
/// RTMGRP_LINK of rtnetlink(7).
const LINK_GROUP: u32 = 1;

/// New ends of a port for a worker.
#[derive(Debug)]
pub(super) enum NewEnds {
    /// The port was opened again. The worker need not receive from it.
    Instead {
        port: u16,
        rx: Vec<RxEnd>,
        tx: TxEnd,
    },
    /// Its interface has one more queue.
    Further(RxEnd),
}

/// New ends of ports that wait for a worker, and its old ones.
#[derive(Debug, Default)]
pub(super) struct Mailbox {
    full: AtomicBool,
    ends: Mutex<Vec<NewEnds>>,
    /// To be closed by the thread that watches: that can take tens of
    /// milliseconds, which are not the worker's to lose.
    used: Mutex<Vec<(Vec<RxEnd>, Option<TxEnd>)>>,
}

impl Mailbox {
    fn put(&self, ends: NewEnds) {
        self.ends.lock().push(ends);
        self.full.store(true, Ordering::Release);
    }

    /// What has arrived.
    pub(super) fn take(&self) -> Vec<NewEnds> {
        if !self.full.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut ends = self.ends.lock();
        self.full.store(false, Ordering::Release);
        std::mem::take(&mut *ends)
    }

    /// Has the watching thread close ends.
    pub(super) fn give_back(&self, rx: Vec<RxEnd>, tx: Option<TxEnd>) {
        self.used.lock().push((rx, tx));
    }

    fn close_used(&self) {
        let used = std::mem::take(&mut *self.used.lock());
        drop(used);
    }
}

/// How a port gets at its interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// By an AF_PACKET ring.
    Packet,
    /// By the descriptor of a TAP device.
    Tap,
    /// By AF_XDP.
    Xdp,
}

/// An interface that is watched.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) port: u16,
    pub(super) interface: String,
    pub(super) counters: Arc<PortCounters>,
    pub(super) access: Access,
    /// Where to write what comes in and what goes out.
    pub(super) captures: [Option<Capture>; 2],
    /// The sockets, for the kernel's own count of drops.
    pub(super) sockets: Arc<Mutex<Vec<PortSocket>>>,
    /// The interface that the sockets belong to; `None` if it has gone.
    pub(super) opened: Option<Link>,
}

/// Watches until the switch stops.
#[derive(Debug)]
pub(super) struct Monitor {
    pub(super) watched: Vec<Watched>,
    pub(super) switch: Arc<Switch>,
    pub(super) shared: Arc<Shared>,
    pub(super) ring_frames: usize,
    /// Of each worker, what it is woken by and where its new ends go.
    pub(super) workers: Vec<(Arc<Wake>, Arc<Mailbox>)>,
    pub(super) wake: Arc<Wake>,
    netlink: OwnedFd,
}

impl Monitor {
    /// Looks at all interfaces for the first time.
    pub(super) fn new(
        watched: Vec<Watched>,
        switch: Arc<Switch>,
        shared: Arc<Shared>,
        ring_frames: usize,
        workers: Vec<(Arc<Wake>, Arc<Mailbox>)>,
        wake: Arc<Wake>,
    ) -> std::io::Result<Self> {
        let netlink = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
            SockProtocol::NetlinkRoute,
        )?;
        bind(netlink.as_raw_fd(), &NetlinkAddr::new(0, LINK_GROUP))?;
        let mut this = Self {
            watched,
            switch,
            shared,
            ring_frames,
            workers,
            wake,
            netlink,
        };
        this.scan();
        Ok(this)
    }

    pub(super) fn run(mut self) {
        while !self.shared.stop.load(Ordering::Acquire) {
            let mut fds = [
                PollFd::new(self.wake.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.netlink.as_fd(), PollFlags::POLLIN),
            ];
            let _ = poll(&mut fds, PollTimeout::from(RESCAN_MS));
            // What a message says is looked up: only that there was one counts.
            // A read also takes the error of a queue that ran over.
            let mut buffer = [0; 8192];
            loop {
                use nix::errno::Errno::{EINTR, ENOBUFS};
                match nix::unistd::read(&self.netlink, &mut buffer) {
                    Ok(1..) | Err(EINTR | ENOBUFS) => {}
                    _ => break,
                }
            }
            self.scan();
            for (_, mailbox) in &self.workers {
                mailbox.close_used();
            }
        }
    }

    fn scan(&mut self) {
        let Self {
            watched,
            switch,
            ring_frames,
            workers,
            netlink,
            ..
        } = self;
        for this in watched {
            let link = match sys::link(netlink.as_fd(), &this.interface) {
                Ok(link) => link,
                Err(error) => {
                    tracing::debug!(port = this.port, %error, "cannot look up the interface");
                    continue;
                }
            };
            // A TAP device that was moved or renamed is still the port's own.
            let moved = this.access == Access::Tap
                && this.has_tap()
                && link.map(|l| l.index) != this.opened.map(|l| l.index);
            if moved {
                if this.counters.set_link(LinkState::Up) != LinkState::Up {
                    switch.set_port_up(this.port, true);
                }
                continue;
            }
            let stale = match (link, this.opened) {
                (Some(now), Some(then)) if this.access == Access::Xdp => {
                    this.note_mtu(now.mtu);
                    now.index != then.index
                }
                (Some(now), Some(then)) if this.access == Access::Tap => now.index != then.index,
                (Some(now), Some(then)) => now.index != then.index || now.mtu != then.mtu,
                (Some(_), None) => true,
                (None, _) => {
                    this.opened = None;
                    false
                }
            };
            let usable = !stale || this.reopen(*ring_frames, workers);
            if !stale && link.is_some() {
                this.follow_queues(workers);
            }
            let state = match link {
                Some(link) if link.running && usable => LinkState::Up,
                Some(_) => LinkState::Down,
                None => LinkState::Gone,
            };
            if this.counters.set_link(state) == state {
                continue;
            }
            let (port, interface) = (this.port, &this.interface);
            match state {
                LinkState::Up => {
                    tracing::info!(port, interface, "the port is up");
                    this.send_late();
                }
                LinkState::Down => tracing::warn!(
                    port,
                    interface,
                    "the port is down: `ip link set {interface} up` at both ends"
                ),
                LinkState::Gone => tracing::warn!(
                    port,
                    interface,
                    "the interface has gone; it is opened again when it comes back"
                ),
            }
            switch.set_port_up(port, state == LinkState::Up);
        }
    }
}

impl Watched {
    fn note_mtu(&self, mtu: u32) {
        for socket in &*self.sockets.lock() {
            if let PortSocket::Xdp(port) = socket {
                port.set_mtu(mtu);
            }
        }
    }

    /// Has the workers serve the queues that an interface by AF_XDP has got.
    fn follow_queues(&self, workers: &[(Arc<Wake>, Arc<Mailbox>)]) {
        for socket in &*self.sockets.lock() {
            let PortSocket::Xdp(port) = socket else {
                continue;
            };
            for (queue, rx) in port.follow_queues() {
                let (wake, mailbox) = &workers[queue % workers.len()];
                mailbox.put(NewEnds::Further(self.rx_end(RxQueue::Xdp(rx))));
                wake.signal();
            }
        }
    }

    /// Has what waits in sockets leave, now that the interface is up.
    fn send_late(&self) {
        for socket in &*self.sockets.lock() {
            if let PortSocket::Xdp(port) = socket {
                port.send_late();
            }
        }
    }

    fn rx_end(&self, queue: RxQueue) -> RxEnd {
        RxEnd {
            port: self.port,
            queue,
            capture: self.captures[0].clone(),
        }
    }

    fn tx_end(&self, queue: TxQueue) -> TxEnd {
        TxEnd {
            queue,
            capture: self.captures[1].clone(),
        }
    }

    fn has_tap(&self) -> bool {
        self.sockets
            .lock()
            .iter()
            .any(|socket| matches!(socket, PortSocket::Tap(fd) if sys::has_tap(fd.as_fd())))
    }

    fn reopen(&mut self, ring_frames: usize, workers: &[(Arc<Wake>, Arc<Mailbox>)]) -> bool {
        let (new, link, ends) = match self.open(ring_frames, workers.len()) {
            Ok(opened) => opened,
            Err(error) => {
                // Tried again at the next look.
                tracing::debug!(%error, "the interface cannot be opened again yet");
                return false;
            }
        };
        if let Err(error) = self.hand_over(&new) {
            tracing::debug!(%error, "the interface cannot be received from yet");
            return false;
        }
        let old: Vec<_> = std::mem::replace(&mut *self.sockets.lock(), new);
        for socket in old {
            if let Err(error) = socket.count_losses(&self.counters) {
                tracing::debug!(port = self.port, %error, "no statistics");
            }
        }
        self.opened = link;
        self.counters.reopened();
        for ((rx, tx), (wake, mailbox)) in ends.into_iter().zip(workers) {
            let port = self.port;
            mailbox.put(NewEnds::Instead { port, rx, tx });
            wake.signal();
        }
        tracing::info!(port = self.port, interface = self.interface, "opened again");
        true
    }

    /// Has new sockets receive in place of the ones so far: first those stop, so
    /// that no packet comes to both.
    fn hand_over(&self, new: &[PortSocket]) -> std::io::Result<()> {
        for socket in &*self.sockets.lock() {
            socket.stop()?;
        }
        new.iter().try_for_each(PortSocket::start)
    }

    /// Opens the interface for so many workers. Nothing is received before the
    /// sockets have been started.
    pub(super) fn open(&self, ring_frames: usize, workers: usize) -> Result<Opened, PortError> {
        let (port, interface, counters) = (self.port, &self.interface, &self.counters);
        match self.access {
            Access::Packet => {
                let opened = packet_socket::open(port, interface, ring_frames, workers, counters)?;
                let sockets = opened.ends.iter();
                let sockets = sockets.map(|(rx, _)| PortSocket::Packet(rx.share_fd()));
                let sockets = sockets.collect();
                let ends = opened.ends.into_iter().map(|(rx, tx)| {
                    let rx = self.rx_end(RxQueue::Packet(rx));
                    (vec![rx], self.tx_end(TxQueue::Packet(tx)))
                });
                Ok((sockets, opened.link, ends.collect()))
            }
            Access::Tap => {
                let (rx, tx, link) = tap::open(port, interface, counters)?;
                let sockets = vec![PortSocket::Tap(rx.share_fd())];
                // The first worker receives.
                let mut rx = vec![self.rx_end(RxQueue::Tap(rx))];
                let ends = std::iter::repeat_with(|| {
                    (
                        std::mem::take(&mut rx),
                        self.tx_end(TxQueue::Tap(tx.clone())),
                    )
                });
                Ok((sockets, link, ends.take(workers).collect()))
            }
            Access::Xdp => {
                let opened = xdp::open(port, interface, ring_frames, workers, counters)?;
                let sockets = vec![PortSocket::Xdp(opened.port)];
                let ends = opened.ends.into_iter().map(|(rx, tx)| {
                    let rx = rx.into_iter().map(|rx| self.rx_end(RxQueue::Xdp(rx)));
                    (rx.collect(), self.tx_end(TxQueue::Xdp(tx)))
                });
                Ok((sockets, Some(opened.link), ends.collect()))
            }
        }
    }
}

/// The sockets, what the interface was like, and each worker's ends.
pub(super) type Opened = (Vec<PortSocket>, Option<Link>, Vec<(Vec<RxEnd>, TxEnd)>);
