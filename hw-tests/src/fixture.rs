//! What a packet must cause: frames, packet-ins, counters, and nothing else.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use p4_contract::constants::CPU_PORT;
use p4_contract::tables::AnyEntry;
use p4_contract::{DropReason, PacketIn, PacketOut, Path, PuntReason};
use p4runtime_client::{Event, entry};
use p4runtime_proto::p4::v1::Update;

use crate::books::{self, Cell, Count, Counts};
use crate::frame;
use crate::rig::Rig;

/// How long anything may take that must happen.
const PATIENCE: Duration = Duration::from_secs(3);

/// How long it is watched that nothing more happens. Counters were read before
/// that, so a stray packet is on its way already.
const GRACE: Duration = Duration::from_millis(3);

/// A switch under test, with the writes of the current case to be undone.
#[derive(Debug)]
pub struct Fixture {
    /// The switch.
    pub rig: Rig,
    undo: Vec<Update>,
}

/// What must become of a packet.
enum Fate {
    Transmit {
        port: u16,
        frame: Vec<u8>,
    },
    Punt {
        ingress_port: u16,
        reason: PuntReason,
        frame: Vec<u8>,
    },
    Drop,
}

/// Where a packet comes from.
enum Source {
    Port(u16),
    Controller(u16),
}

/// A packet and what it must cause.
#[must_use = "nothing is sent before check"]
pub struct Packet<'a> {
    fixture: &'a mut Fixture,
    source: Source,
    sent: Vec<u8>,
    fate: Option<Fate>,
    cells: Vec<Cell>,
}

impl Fixture {
    /// A fixture on a switch that has its configuration.
    pub fn new(rig: Rig) -> Self {
        Self {
            rig,
            undo: Vec::new(),
        }
    }

    /// Inserts an entry until the end of the case.
    ///
    /// # Errors
    /// If the switch refuses.
    pub fn insert(&mut self, entry: &AnyEntry) -> Result<()> {
        self.change(
            entry::insert(entry.to_proto()),
            entry::delete(entry.to_proto()),
        )
    }

    /// Deletes an entry until the end of the case.
    ///
    /// # Errors
    /// If the switch refuses.
    pub fn delete(&mut self, entry: &AnyEntry) -> Result<()> {
        self.change(
            entry::delete(entry.to_proto()),
            entry::insert(entry.to_proto()),
        )
    }

    /// Modifies an entry until the end of the case.
    ///
    /// # Errors
    /// If the switch refuses.
    pub fn modify(&mut self, old: &AnyEntry, new: &AnyEntry) -> Result<()> {
        self.change(entry::modify(new.to_proto()), entry::modify(old.to_proto()))
    }

    fn change(&mut self, update: Update, inverse: Update) -> Result<()> {
        self.rig.controller.write(vec![update])?;
        self.undo.push(inverse);
        Ok(())
    }

    /// Takes back what the case wrote, the last first.
    ///
    /// # Errors
    /// If the switch refuses.
    pub fn undo(&mut self) -> Result<()> {
        let mut failed = Ok(());
        while let Some(update) = self.undo.pop() {
            // One by one: order matters, and the rest is tried all the same.
            if let Err(error) = self.rig.controller.write(vec![update]) {
                failed = Err(error);
            }
        }
        failed.context("the case's writes could not be undone")
    }

    /// Has nothing to undo: the case has done so itself.
    pub fn forget(&mut self) {
        self.undo.clear();
    }

    /// A frame that arrives at a port.
    pub fn packet(&mut self, port: u16, frame: Vec<u8>) -> Packet<'_> {
        Packet {
            fixture: self,
            source: Source::Port(port),
            sent: frame,
            fate: None,
            cells: vec![Cell::IngressRx(port)],
        }
    }

    /// A frame that the controller sends out of a port.
    pub fn packet_out(&mut self, egress_port: u16, frame: Vec<u8>) -> Packet<'_> {
        Packet {
            fixture: self,
            source: Source::Controller(egress_port),
            sent: frame,
            fate: None,
            cells: vec![Cell::IngressRx(CPU_PORT)],
        }
    }

    /// Fails if a frame or a packet-in is there that nobody expected.
    ///
    /// # Errors
    /// With the frame.
    pub fn expect_silence(&mut self, grace: Duration) -> Result<()> {
        std::thread::sleep(grace);
        for (port, wire) in &mut self.rig.wires {
            if let Some(frame) = wire.receive(Duration::ZERO)? {
                bail!(
                    "port {port} sent a frame that nobody expected: {}",
                    frame::hex(&frame, usize::MAX - 64)
                );
            }
        }
        while let Ok(event) = self.rig.controller.events.try_recv() {
            match event {
                Event::Arbitration(_) => {}
                other => bail!("an event that nobody expected: {other:?}"),
            }
        }
        Ok(())
    }

    /// The next event but arbitration, `None` if none comes in time.
    ///
    /// # Errors
    /// If the stream ended.
    pub fn event(&mut self, patience: Duration) -> Result<Option<Event>> {
        let deadline = Instant::now() + patience;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let controller = &mut self.rig.controller;
            let events = &mut controller.events;
            let next = controller
                .runtime
                .block_on(async { tokio::time::timeout(left, events.recv()).await });
            match next {
                Err(_) => return Ok(None),
                Ok(None) => bail!("the stream to the switch has ended"),
                Ok(Some(Event::Disconnected { reason })) => {
                    bail!("{reason}: {}", self.rig.process.log_tail())
                }
                Ok(Some(Event::Arbitration(_))) => {}
                Ok(Some(event)) => return Ok(Some(event)),
            }
        }
    }

    /// All counters that are not zero.
    ///
    /// # Errors
    /// If the switch does not answer.
    pub fn counts(&self) -> Result<Counts> {
        self.rig
            .controller
            .wait(books::read(&self.rig.controller.client))
    }
}

impl Packet<'_> {
    /// It leaves by a port, as this frame.
    pub fn transmits(mut self, port: u16, path: Path, frame: Vec<u8>) -> Self {
        self.cells.extend([Cell::EgressTx(port), Cell::Path(path)]);
        self.fate = Some(Fate::Transmit { port, frame });
        self
    }

    /// It goes to the controller, as it came.
    pub fn punts(mut self, reason: PuntReason) -> Self {
        self.cells
            .extend([Cell::EgressTx(CPU_PORT), Cell::Path(Path::ToCpu)]);
        let ingress_port = match self.source {
            Source::Port(port) => port,
            Source::Controller(_) => CPU_PORT,
        };
        self.fate = Some(Fate::Punt {
            ingress_port,
            reason,
            frame: self.sent.clone(),
        });
        self
    }

    /// It is dropped.
    pub fn drops(mut self, reason: DropReason) -> Self {
        self.cells.push(Cell::Drop(reason));
        self.fate = Some(Fate::Drop);
        self
    }

    /// It is counted there, besides port, path and drop.
    pub fn counts(mut self, cells: &[Cell]) -> Self {
        self.cells.extend(cells);
        self
    }

    /// Sends it and checks that all of this happens, and nothing else.
    ///
    /// # Errors
    /// With the difference.
    pub fn check(self) -> Result<()> {
        let fixture = self.fixture;
        fixture.expect_silence(Duration::ZERO).context("before")?;
        let before = fixture.counts()?;

        let mut length = self.sent.len() as u64;
        match self.source {
            Source::Port(port) => fixture.rig.wire(port)?.send(&self.sent)?,
            Source::Controller(egress_port) => {
                // What the pipeline receives begins with the packet_out header.
                length += 2;
                let metadata = PacketOut { egress_port }.to_metadata();
                let rig = &fixture.rig;
                rig.controller
                    .wait(rig.controller.client.packet_out(self.sent, metadata))?;
            }
        }

        match self
            .fate
            .context("the case does not say what must happen")?
        {
            Fate::Transmit { port, frame } => {
                let Some(found) = fixture.rig.wire(port)?.receive(PATIENCE)? else {
                    let now = fixture.counts()?;
                    bail!(
                        "nothing left by port {port}; counted:{}",
                        listed(&books::difference(&before, &now))
                    );
                };
                ensure!(
                    found == frame,
                    "port {port}: {}",
                    frame::difference(&frame, &found)
                );
            }
            Fate::Punt {
                ingress_port,
                reason,
                frame,
            } => match fixture.event(PATIENCE)? {
                Some(Event::PacketIn { payload, metadata }) => {
                    ensure!(
                        payload == frame,
                        "packet-in: {}",
                        frame::difference(&frame, &payload)
                    );
                    let expected = PacketIn {
                        ingress_port,
                        reason,
                    };
                    let found = PacketIn::from_metadata(&metadata)?;
                    ensure!(found == expected, "expected {expected:?}, found {found:?}");
                }
                Some(other) => bail!("instead of a packet-in: {other:?}"),
                None => {
                    let now = fixture.counts()?;
                    bail!(
                        "no packet-in; counted:{}",
                        listed(&books::difference(&before, &now))
                    );
                }
            },
            Fate::Drop => {}
        }

        // Each cell counts this one packet.
        let once = Count {
            packets: 1,
            bytes: length,
        };
        let expected: Counts = self.cells.into_iter().map(|cell| (cell, once)).collect();
        let start = Instant::now();
        loop {
            let found = books::difference(&before, &fixture.counts()?);
            if found == expected {
                break;
            }
            if start.elapsed() > PATIENCE {
                bail!(
                    "counters\n  expected:{}\n  found:{}",
                    listed(&expected),
                    listed(&found)
                );
            }
        }
        fixture.expect_silence(GRACE).context("afterwards")
    }
}

fn listed(counts: &Counts) -> String {
    if counts.is_empty() {
        return " nothing".into();
    }
    counts
        .iter()
        .map(|(cell, count)| format!("\n    {cell}: {count}"))
        .collect()
}
