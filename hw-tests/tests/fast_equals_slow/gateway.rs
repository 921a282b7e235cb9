//! A gateway that takes frames and entries.

use std::time::Duration;

use anyhow::{Result, ensure};
use hw_tests::embedded::Embedded;
use hw_tests::rig::Rig;
use p4_contract::tables::AnyEntry;

/// How long a real switch may take for one packet.
const PATIENCE: Duration = Duration::from_secs(2);

/// A switch with the gateway's pipeline.
pub trait Gateway {
    /// The frame that leaves, and by which port, when this one arrives.
    fn pass(&mut self, port: u16, frame: &[u8]) -> Result<Option<(u16, Vec<u8>)>>;

    /// Adds entries.
    fn insert(&mut self, entries: &[AnyEntry]) -> Result<()>;
}

impl Gateway for Embedded {
    fn pass(&mut self, port: u16, frame: &[u8]) -> Result<Option<(u16, Vec<u8>)>> {
        let mut sent = Self::pass(self, port, frame);
        ensure!(sent.len() < 2, "one frame in, {} out", sent.len());
        Ok(sent.pop())
    }

    fn insert(&mut self, entries: &[AnyEntry]) -> Result<()> {
        self.controller.insert(entries)
    }
}

impl Gateway for Rig {
    fn pass(&mut self, port: u16, frame: &[u8]) -> Result<Option<(u16, Vec<u8>)>> {
        self.wire(port)?.send(frame)?;
        self.receive_any(PATIENCE)
    }

    fn insert(&mut self, entries: &[AnyEntry]) -> Result<()> {
        self.controller.insert(entries)
    }
}
