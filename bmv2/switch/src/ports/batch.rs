//! Packets waiting to be sent out of one port.

/// Packets one after the other in one buffer that is reused.
#[derive(Debug, Default)]
pub(super) struct TxBatch {
    data: Vec<u8>,
    /// Where each packet ends in `data`.
    ends: Vec<usize>,
}

impl TxBatch {
    pub(super) fn push(&mut self, packet: &[u8]) {
        self.data.extend_from_slice(packet);
        self.ends.push(self.data.len());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Bytes of all packets.
    pub(super) fn bytes(&self) -> usize {
        self.data.len()
    }

    /// The packet with this index.
    pub(super) fn packet(&self, index: usize) -> &[u8] {
        let start = match index {
            0 => 0,
            i => self.ends[i - 1],
        };
        &self.data[start..self.ends[index]]
    }

    pub(super) fn clear(&mut self) {
        self.data.clear();
        self.ends.clear();
    }
}
