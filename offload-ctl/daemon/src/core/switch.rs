//! What the core does with the switch: bring it up to date, keep it so.

use std::sync::Arc;
use std::time::Instant;

use sluice_config::Mac;
use tokio::sync::{mpsc, oneshot};

use super::writer::{self, Job};
use super::{Core, Event, ms, unix_ms};
use crate::dataplane::{Dataplane, Lost, Notice, Outcomes, Reading, Update};
use crate::entry::{Key, Value};
use crate::flows::{Batch, BatchOutcome, IdleCheck};
use crate::ids::{Identity, Kind};
use crate::neighbors::Outgoing;
use crate::session::{self, Up};

/// The switch as the core sees it.
#[derive(Default)]
pub(super) struct SwitchState {
    up: Option<Live>,
    /// Why it is down.
    pub(super) detail: String,
    pub(super) drift: u64,
    pub(super) last_readback_unix_ms: u64,
    next_readback: u64,
    reading_back: bool,
    retry_config_at: u64,
    pub(super) pushes: u64,
    pub(super) connections: u64,
    pub(super) packet_ins: u64,
}

struct Live {
    epoch: u64,
    dataplane: Arc<dyn Dataplane>,
    jobs: mpsc::UnboundedSender<Job>,
    hang_up: Option<oneshot::Sender<String>>,
    flow_batch_out: bool,
    last_flow_batch: Instant,
}

impl SwitchState {
    pub(super) fn dataplane(&self) -> Option<Arc<dyn Dataplane>> {
        self.up.as_ref().map(|live| live.dataplane.clone())
    }

    pub(super) fn is_up(&self) -> bool {
        self.up.is_some()
    }
}

impl Core {
    pub(super) fn is_current(&self, epoch: u64) -> bool {
        self.switch
            .up
            .as_ref()
            .is_some_and(|live| live.epoch == epoch)
    }

    pub(super) fn switch_up(&mut self, up: Up) {
        let (jobs, receiver) = mpsc::unbounded_channel();
        tokio::spawn(writer::run(
            up.dataplane.clone(),
            up.epoch,
            receiver,
            self.events.clone(),
        ));
        self.switch.up = Some(Live {
            epoch: up.epoch,
            dataplane: up.dataplane,
            jobs,
            hang_up: Some(up.hang_up),
            flow_batch_out: false,
            last_flow_batch: Instant::now(),
        });
        self.switch.detail.clear();
        self.switch.connections += 1;
        self.switch.pushes += u64::from(up.pushed);
        self.switch.reading_back = false;
        self.switch.next_readback = self.now() + self.settings.readback.map_or(0, ms);
        self.switch.retry_config_at = 0;
        self.mirror.reset(&up.readings);
        self.import_neighbors();
        self.neighbors.ask_all();
        self.rebuild();
        let flows: Vec<Reading> = up
            .readings
            .into_iter()
            .filter(|reading| reading.entry.key.table().is_flow())
            .collect();
        self.with_flows(|book, ids| book.switch_up(&flows, ids));
        self.tell_switch_state();
    }

    /// Next hops that the switch has: what an earlier process had resolved.
    fn import_neighbors(&mut self) {
        let hops: Vec<(u16, Identity)> = self
            .ids
            .of_kind(Kind::Nexthop)
            .map(|(id, identity)| (id, identity.clone()))
            .collect();
        for (id, identity) in hops {
            let Identity::Nexthop { port, addr, tunnel } = identity else {
                continue;
            };
            let Some(entry) = self.mirror.get(&Key::Nexthop { id }) else {
                continue;
            };
            let (on, dmac) = match entry.value {
                Value::Forward { port, dmac, .. } | Value::Vxlan { port, dmac, .. } => (port, dmac),
                _ => continue,
            };
            if on != port {
                continue;
            }
            let neighbor = if tunnel {
                self.intent
                    .effective
                    .next_hop(0, addr)
                    .map(|(neighbor, _)| neighbor)
            } else {
                Some(addr)
            };
            let [_, _, mac @ ..] = dmac.to_be_bytes();
            if let Some(neighbor) = neighbor {
                self.neighbors.import(port, neighbor, Mac(mac));
            }
        }
    }

    pub(super) fn switch_down(&mut self, epoch: u64, why: String) {
        let was_up = self.switch.up.is_some();
        if self
            .switch
            .up
            .as_ref()
            .is_some_and(|live| live.epoch > epoch)
        {
            return;
        }
        self.switch.up = None;
        self.switch.detail = why;
        self.mirror.finished();
        self.flows.switch_down();
        if was_up {
            self.tell_switch_state();
        }
    }

    pub(super) fn call_lost(&mut self, lost: Lost) {
        if let Some(live) = &mut self.switch.up {
            if let Some(hang_up) = live.hang_up.take() {
                let _ = hang_up.send(lost.0.clone());
            }
            let epoch = live.epoch;
            self.switch_down(epoch, lost.0);
        }
    }

    pub(super) fn notice(&mut self, notice: Notice) {
        let now = self.now();
        match notice {
            Notice::Idle(keys) => {
                if let Some(check) = self.flows.idle_notice(&keys, now) {
                    self.read_for_idle(check);
                }
            }
            Notice::PacketIn { port, frame, .. } => {
                self.switch.packet_ins += 1;
                let reaction = self.neighbors.frame(port, &frame, now);
                self.send_frames(reaction.send);
                if reaction.changed {
                    self.rebuild();
                }
            }
            Notice::Lost(_) => {}
        }
    }

    fn send_frames(&self, frames: Vec<Outgoing>) {
        let Some(dataplane) = self.dataplane().filter(|_| !frames.is_empty()) else {
            return;
        };
        tokio::spawn(async move {
            for (port, frame) in frames {
                if dataplane.packet_out(port, frame).await.is_err() {
                    // The stream's end is noticed where it is read.
                    return;
                }
            }
        });
    }

    fn read_for_idle(&self, check: IdleCheck) {
        let Some(live) = &self.switch.up else { return };
        let (dataplane, epoch, events) = (live.dataplane.clone(), live.epoch, self.events.clone());
        tokio::spawn(async move {
            let event = match dataplane.read_entries(check.keys.clone()).await {
                Ok(readings) => Event::IdleRead {
                    epoch,
                    check,
                    readings,
                },
                Err(lost) => Event::CallLost { epoch, lost },
            };
            let _ = events.send(event).await;
        });
    }

    pub(super) fn flows_written(&mut self, batch: Batch, outcome: BatchOutcome) {
        if let Some(live) = &mut self.switch.up {
            live.flow_batch_out = false;
        }
        self.flows.batch_done(batch, outcome);
    }

    pub(super) fn config_written(&mut self, updates: &[Update], outcomes: &Outcomes, last: bool) {
        self.mirror.batch_done(updates, outcomes);
        for (update, outcome) in updates.iter().zip(outcomes) {
            if let Err(error) = outcome {
                tracing::warn!(key = ?update.key(), %error, "configuration entry not written");
            }
        }
        if last {
            self.mirror.finished();
            if !self.mirror.failed().is_empty() {
                self.switch.retry_config_at = self.now() + 1000;
            }
        }
    }

    pub(super) fn read_back(
        &mut self,
        flows_at: u64,
        config_at: Option<u64>,
        readings: &[Reading],
    ) {
        self.switch.reading_back = false;
        self.switch.last_readback_unix_ms = unix_ms();
        let flows: Vec<Reading> = readings
            .iter()
            .filter(|reading| reading.entry.key.table().is_flow())
            .copied()
            .collect();
        let mut drift = self.flows.readback_done(flows_at, &flows);
        if let Some(at) = config_at {
            drift += self.mirror.readback(at, readings);
        }
        if drift > 0 {
            tracing::warn!(
                drift,
                "the switch was not as it had been written, repairing"
            );
            self.switch.drift += drift;
        }
    }

    pub(super) fn tick_switch(&mut self, now: u64) {
        if self.switch.is_up() {
            let (frames, forgot) = self.neighbors.tick(now);
            self.send_frames(frames);
            if forgot {
                self.rebuild();
            }
        }
        if let Some(check) = self.flows.idle_due(now) {
            self.read_for_idle(check);
        }
        if let Some(interval) = self.settings.readback
            && self.switch.is_up()
            && !self.switch.reading_back
            && now >= self.switch.next_readback
        {
            self.switch.next_readback = now + ms(interval);
            self.start_readback();
        }
    }

    fn start_readback(&mut self) {
        let Some(live) = &self.switch.up else { return };
        let (dataplane, epoch, events) = (live.dataplane.clone(), live.epoch, self.events.clone());
        self.switch.reading_back = true;
        let flows_at = self.flows.readback_started();
        let config_at = self.mirror.readback_started();
        tokio::spawn(async move {
            let event = match session::read_all(&*dataplane).await {
                Ok(readings) => Event::ReadBack {
                    epoch,
                    flows_at,
                    config_at,
                    readings,
                },
                Err(lost) => Event::CallLost { epoch, lost },
            };
            let _ = events.send(event).await;
        });
    }

    /// Writes what is missing of the configuration.
    pub(super) fn send_config(&mut self) {
        let now = self.now();
        let Some(live) = &self.switch.up else { return };
        if now < self.switch.retry_config_at {
            return;
        }
        if let Some(batches) = self.mirror.next_batches(&self.target, self.settings.batch) {
            let _ = live.jobs.send(Job::Config(batches));
        }
    }

    /// Writes the next batch of flow updates, if it is time.
    pub(super) fn send_flows(&mut self) {
        let due = self.flush_at() <= Instant::now();
        let Some(live) = &mut self.switch.up else {
            return;
        };
        if live.flow_batch_out || !due {
            return;
        }
        if let Some(batch) = self.flows.next_batch(self.settings.batch) {
            live.flow_batch_out = true;
            live.last_flow_batch = Instant::now();
            let _ = live.jobs.send(Job::Flows(batch));
        }
    }

    /// When the next batch of flow updates is to go: at once after a pause,
    /// otherwise not before the linger is over, so that requests which come
    /// one by one share a Write.
    pub(super) fn flush_at(&self) -> Instant {
        let never = Instant::now() + std::time::Duration::from_secs(3600);
        match &self.switch.up {
            Some(live) if !live.flow_batch_out && self.flows.has_work() => {
                if self.flows.backlog() * 2 >= self.settings.batch {
                    Instant::now()
                } else {
                    live.last_flow_batch + self.settings.linger
                }
            }
            _ => never,
        }
    }
}
