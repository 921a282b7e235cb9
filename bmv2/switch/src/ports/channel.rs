//! Ports inside the process, for tests and for embedding.

use std::sync::Arc;

use crossbeam_queue::ArrayQueue;

use super::sys::Wake;

/// Packets that wait in one direction.
const CAPACITY: usize = 4096;

#[derive(Debug)]
struct Shared {
    to_switch: ArrayQueue<Vec<u8>>,
    from_switch: ArrayQueue<Vec<u8>>,
    wake: parking_lot::Mutex<Option<Arc<Wake>>>,
}

/// The outer end of a channel port: what a host on a wire would hold.
#[derive(Debug, Clone)]
pub struct ChannelPort {
    shared: Arc<Shared>,
}

/// The switch's end of a channel port.
#[derive(Debug)]
pub struct ChannelEnd {
    shared: Arc<Shared>,
}

/// A new channel port: the end for the caller and the end for the switch.
pub fn channel_port() -> (ChannelPort, ChannelEnd) {
    let shared = Arc::new(Shared {
        to_switch: ArrayQueue::new(CAPACITY),
        from_switch: ArrayQueue::new(CAPACITY),
        wake: parking_lot::Mutex::new(None),
    });
    (
        ChannelPort {
            shared: Arc::clone(&shared),
        },
        ChannelEnd { shared },
    )
}

impl ChannelPort {
    /// Sends a packet into the switch; gives it back if the queue is full.
    ///
    /// # Errors
    /// The packet, if 4,096 packets wait already.
    pub fn send(&self, packet: Vec<u8>) -> Result<(), Vec<u8>> {
        self.shared.to_switch.push(packet)?;
        if let Some(wake) = self.shared.wake.lock().as_ref() {
            wake.signal();
        }
        Ok(())
    }

    /// Takes a packet that the switch has sent.
    pub fn try_receive(&self) -> Option<Vec<u8>> {
        self.shared.from_switch.pop()
    }
}

impl ChannelEnd {
    /// Who to wake when a packet comes.
    pub(super) fn set_wake(&self, wake: Arc<Wake>) {
        *self.shared.wake.lock() = Some(wake);
    }

    pub(super) fn receive(&self) -> Option<Vec<u8>> {
        self.shared.to_switch.pop()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.shared.to_switch.is_empty()
    }

    /// False if the queue to the outside is full.
    pub(super) fn send(&self, packet: &[u8]) -> bool {
        self.shared.from_switch.push(packet.to_vec()).is_ok()
    }

    /// The same queue for the sending side of a worker.
    pub(super) fn share(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}
