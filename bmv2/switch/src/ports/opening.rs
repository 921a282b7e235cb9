//! Opening ports: from what was asked for to the workers' ends.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::PortError;
use super::counters::PortCounters;
use super::dataplane::{DataPlaneConfig, PortSpec};
use super::files::Input;
use super::monitor::{Access, Watched};
use super::pcap::PcapWriter;
use super::port::{Capture, RxEnd, RxQueue, TxEnd, TxQueue};
use super::sys::{self, Wake};
use super::xdp::XdpPort;

/// A worker's ends of all ports.
#[derive(Debug, Default)]
pub(super) struct Ends {
    pub(super) rx: Vec<RxEnd>,
    pub(super) tx: Vec<(u16, TxEnd)>,
}

/// The books of a port.
#[derive(Debug)]
pub(super) struct PortBooks {
    pub(super) port: u16,
    pub(super) interface: String,
    pub(super) counters: Arc<PortCounters>,
    /// For the kernel's own count of drops.
    pub(super) sockets: Arc<Mutex<Vec<PortSocket>>>,
}

/// A socket of a port.
#[derive(Debug)]
pub(super) enum PortSocket {
    Packet(Arc<OwnedFd>),
    Tap(Arc<OwnedFd>),
    Xdp(Arc<XdpPort>),
}

impl PortSocket {
    /// Lets packets in. Of the sockets that a port's workers share, none gets a
    /// packet before this.
    pub(super) fn start(&self) -> io::Result<()> {
        match self {
            Self::Packet(socket) => sys::open_gate(socket.as_fd()),
            Self::Tap(_) | Self::Xdp(_) => Ok(()),
        }
    }

    /// Lets no further packet in, so that another socket can go on in its place.
    pub(super) fn stop(&self) -> io::Result<()> {
        match self {
            Self::Packet(socket) => sys::close_gate(socket.as_fd()),
            Self::Tap(_) | Self::Xdp(_) => Ok(()),
        }
    }

    /// Counts what the kernel lost since the last call.
    pub(super) fn count_losses(&self, counters: &PortCounters) -> io::Result<()> {
        match self {
            Self::Packet(socket) => {
                let drops = sys::take_drops(socket.as_fd())?;
                counters.missed(drops.into());
                Ok(())
            }
            // What a TAP device drops is counted by the host's own stack.
            Self::Tap(_) => Ok(()),
            Self::Xdp(port) => port.count_losses(),
        }
    }
}

/// The ports opened so far.
#[derive(Debug)]
pub(super) struct Opening<'a> {
    pub(super) wakes: &'a [Arc<Wake>],
    pub(super) config: &'a DataPlaneConfig,
    pub(super) workers: Vec<Ends>,
    pub(super) inputs: Vec<Input>,
    pub(super) books: Vec<PortBooks>,
    pub(super) watched: Vec<Watched>,
}

impl Opening<'_> {
    pub(super) fn open(&mut self, spec: PortSpec) -> Result<(), PortError> {
        let counters = Arc::new(PortCounters::default());
        let port = spec.port();
        let books = PortBooks {
            port,
            interface: spec.name().to_owned(),
            counters: Arc::clone(&counters),
            sockets: Arc::default(),
        };
        match spec {
            PortSpec::Interface { interface, .. } => {
                self.open_interface(interface, Access::Packet, &books)?;
            }
            PortSpec::Tap { interface, .. } => {
                self.open_interface(interface, Access::Tap, &books)?;
            }
            PortSpec::Xdp { interface, .. } => {
                self.open_interface(interface, Access::Xdp, &books)?;
            }
            PortSpec::Files { input, output, .. } => {
                self.inputs.push(Input::open(port, &input, &counters)?);
                let writer = create(port, &output)?;
                for ends in &mut self.workers {
                    let queue = TxQueue::File(Arc::clone(&writer), Arc::clone(&counters));
                    let capture = None;
                    ends.tx.push((port, TxEnd { queue, capture }));
                }
            }
            PortSpec::Channel { end, .. } => {
                // Any worker may take from the queue; the first one is woken.
                end.set_wake(Arc::clone(&self.wakes[0]));
                for ends in &mut self.workers {
                    ends.rx.push(RxEnd {
                        port,
                        queue: RxQueue::Channel(end.share(), Arc::clone(&counters)),
                        capture: None,
                    });
                    let end = TxEnd {
                        queue: TxQueue::Channel(end.share(), Arc::clone(&counters)),
                        capture: None,
                    };
                    ends.tx.push((port, end));
                }
            }
        }
        self.books.push(books);
        Ok(())
    }

    /// Opens a port on an interface, which is watched from then on.
    fn open_interface(
        &mut self,
        interface: String,
        access: Access,
        books: &PortBooks,
    ) -> Result<(), PortError> {
        let (port, counters) = (books.port, Arc::clone(&books.counters));
        let captures = self.captures(port, &interface, &counters)?;
        let mut watched = Watched {
            port,
            interface,
            counters,
            access,
            captures,
            sockets: Arc::clone(&books.sockets),
            opened: None,
        };
        let (sockets, link, ends) = watched.open(self.config.ring_frames, self.workers.len())?;
        for socket in &sockets {
            socket.start().map_err(|source| PortError::Io {
                port,
                interface: watched.interface.clone(),
                action: "detach a filter",
                source,
            })?;
        }
        *books.sockets.lock() = sockets;
        watched.opened = link;
        self.watched.push(watched);
        for (worker, (rx, tx)) in self.workers.iter_mut().zip(ends) {
            worker.rx.extend(rx);
            worker.tx.push((port, tx));
        }
        Ok(())
    }

    /// The files for what comes in and what goes out, if they are wanted.
    fn captures(
        &self,
        port: u16,
        interface: &str,
        counters: &Arc<PortCounters>,
    ) -> Result<[Option<Capture>; 2], PortError> {
        let Some(folder) = &self.config.capture else {
            return Ok([None, None]);
        };
        let capture = |direction: &str| -> Result<_, PortError> {
            let path: PathBuf = folder.join(format!("{interface}_{direction}.pcap"));
            Ok(Some(Capture {
                writer: create(port, &path)?,
                counters: Arc::clone(counters),
            }))
        };
        Ok([capture("in")?, capture("out")?])
    }
}

fn create(port: u16, path: &Path) -> Result<Arc<Mutex<PcapWriter>>, PortError> {
    let writer = PcapWriter::create(path).map_err(|source| PortError::Output {
        port,
        path: path.to_owned(),
        source,
    })?;
    Ok(Arc::new(Mutex::new(writer)))
}
