//! Workers: packets from arrival to their last copy.

mod copies;
mod held;
mod run;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLockReadGuard;

use crate::counters::Pending;
use crate::exec::{Env, Recent, State};
use crate::replication::Replication;
use crate::switch::{Digest, DropReason, MAX_PACKET, Output, Pipeline, Switch, Timestamp, Totals};
use crate::tables::Tables;
use crate::trace::{Silent, TraceEvent, Tracer};
use held::Held;
use run::{Job, Run};

/// Totals of one burst.
#[derive(Debug, Default)]
struct Local {
    received: u64,
    transmitted: u64,
    packet_ins: u64,
    copies: u64,
    reruns: u64,
    dropped: [u64; DropReason::ALL.len()],
}

impl Local {
    fn flush(&mut self, totals: &Totals) {
        let add = |to: &AtomicU64, n: &mut u64| {
            if *n > 0 {
                to.fetch_add(std::mem::take(n), Ordering::Relaxed);
            }
        };
        add(&totals.received, &mut self.received);
        add(&totals.transmitted, &mut self.transmitted);
        add(&totals.packet_ins, &mut self.packet_ins);
        add(&totals.copies, &mut self.copies);
        add(&totals.reruns, &mut self.reruns);
        for (to, n) in totals.dropped.iter().zip(&mut self.dropped) {
            add(to, n);
        }
    }
}

/// One thread's way to push packets through the switch.
#[derive(Debug)]
pub struct Worker {
    switch: Arc<Switch>,
    pipeline: Option<Arc<Pipeline>>,
    generation: u64,
    replication: Arc<Replication>,
    replication_generation: u64,
    state: State,
    out: Vec<u8>,
    jobs: VecDeque<Job>,
    /// States to use again.
    spare: Vec<State>,
    local: Local,
    pending: Pending,
    recent: Recent,
    held: Held,
    digests: Vec<Digest>,
}

impl Worker {
    pub(crate) fn new(switch: Arc<Switch>) -> Self {
        Self {
            switch,
            pipeline: None,
            generation: u64::MAX,
            replication: Arc::default(),
            replication_generation: u64::MAX,
            state: State::default(),
            out: Vec::new(),
            jobs: VecDeque::new(),
            spare: Vec::new(),
            local: Local::default(),
            pending: Pending::default(),
            recent: Recent::default(),
            held: Held::default(),
            digests: Vec::new(),
        }
    }

    /// Catches up with what was installed.
    fn refresh(&mut self) {
        let generation = self.switch.generation.load(Ordering::Acquire);
        if generation != self.generation {
            self.generation = generation;
            self.pipeline = self.switch.running();
            self.spare.clear();
            if let Some(p) = &self.pipeline {
                let seed = self.switch.config.seed;
                self.state = State::new(&p.program.ir, seed);
                self.pending = Pending::new(p.counters.len(), p.program.tables.len());
                self.recent = Recent::new(p.program.tables.len());
            }
        }
        let replication = self.switch.replication_generation.load(Ordering::Acquire);
        if replication != self.replication_generation {
            self.replication_generation = replication;
            self.replication = Arc::clone(&self.switch.replication.read());
        }
    }

    /// Begins a burst: the pipeline and its tables stay as they are until the
    /// returned guard is dropped. Keep bursts short (32 to 256 packets);
    /// control operations wait for them. [`Burst::finish`] ends it.
    pub fn burst(&mut self, now: Timestamp) -> Burst<'_> {
        self.refresh();
        let Self {
            switch,
            pipeline,
            replication,
            state,
            out,
            jobs,
            spare,
            local,
            pending,
            recent,
            held,
            digests,
            ..
        } = self;
        let tables = pipeline.as_ref().map(|p| p.tables.read());
        if let Some(tables) = &tables {
            recent.refresh(tables);
        }
        Burst {
            tables,
            pipeline: pipeline.as_deref(),
            work: Work {
                switch,
                replication,
                out,
                jobs,
                spare,
                local,
                pending,
                recent,
                held,
                digests,
            },
            state,
            now,
        }
    }

    /// Processes one packet as a burst of its own.
    pub fn process(
        &mut self,
        port: u16,
        packet: &[u8],
        now: Timestamp,
        out: &mut impl FnMut(Output<'_>),
    ) {
        let mut burst = self.burst(now);
        burst.process(port, packet, out);
        burst.finish(out);
    }

    /// Processes one packet and keeps every step of its path.
    pub fn trace(
        &mut self,
        port: u16,
        packet: &[u8],
        now: Timestamp,
        out: &mut impl FnMut(Output<'_>),
    ) -> Vec<TraceEvent> {
        let mut events = Vec::new();
        let mut burst = self.burst(now);
        burst.run(port, packet, out, &mut events);
        burst.finish(out);
        events
    }
}

/// What a burst works with, the tables apart.
#[derive(Debug)]
struct Work<'w> {
    switch: &'w Switch,
    replication: &'w Replication,
    out: &'w mut Vec<u8>,
    jobs: &'w mut VecDeque<Job>,
    spare: &'w mut Vec<State>,
    local: &'w mut Local,
    pending: &'w Pending,
    recent: &'w Recent,
    held: &'w mut Held,
    /// Digests of the burst: whoever gets one finds its packet counted.
    digests: &'w mut Vec<Digest>,
}

/// A burst of packets on one worker.
#[derive(Debug)]
pub struct Burst<'w> {
    tables: Option<RwLockReadGuard<'w, Tables>>,
    pipeline: Option<&'w Pipeline>,
    work: Work<'w>,
    /// Of the packet that is being processed.
    state: &'w mut State,
    now: Timestamp,
}

impl Drop for Burst<'_> {
    fn drop(&mut self) {
        self.work.local.flush(&self.work.switch.totals);
        // While the tables are held, so that no control operation sees a part.
        if let (Some(p), Some(tables)) = (self.pipeline, &self.tables) {
            let missed = |table, value| tables.count_misses(table, value);
            self.work.pending.flush(&p.counters, missed);
        }
        for digest in self.work.digests.drain(..) {
            self.work.switch.push_digest(digest);
        }
    }
}

impl Burst<'_> {
    /// Processes one packet to its end. `out` is called once for every copy,
    /// in order, before this returns; with
    /// [priority queues](crate::SwitchConfig::priority_queues), for copies to a
    /// port not before [`finish`](Self::finish).
    pub fn process(&mut self, port: u16, packet: &[u8], out: &mut impl FnMut(Output<'_>)) {
        self.run(port, packet, out, &mut Silent);
    }

    /// Whether the program has registers or meters.
    pub(crate) fn is_stateful(&self) -> bool {
        self.pipeline.is_some_and(|p| p.program.is_stateful())
    }

    /// Ends the burst: what waits in priority queues leaves. Without this it
    /// would be lost.
    pub fn finish(self, out: &mut impl FnMut(Output<'_>)) {
        self.work.held.drain(out);
    }

    fn run<T: Tracer>(
        &mut self,
        port: u16,
        packet: &[u8],
        out: &mut impl FnMut(Output<'_>),
        tr: &mut T,
    ) {
        self.work.local.received += 1;
        let (Some(p), Some(tables)) = (self.pipeline, self.tables.as_deref()) else {
            return self.work.dropped(DropReason::NoPipeline, out, tr);
        };
        if packet.len() > MAX_PACKET {
            return self.work.dropped(DropReason::TooLong, out, tr);
        }
        let config = &self.work.switch.config;
        let env = Env {
            ir: &p.program.ir,
            tables,
            recent: self.work.recent,
            registers: &p.registers,
            counters: &p.counters,
            pending: self.work.pending,
            meters: &p.meters,
            now: self.now,
            drop_port: config.drop_port,
        };
        let mut run = Run {
            env: &env,
            pipeline: p,
            packet,
            work: &mut self.work,
            passes: 1,
            port,
        };
        run.first(self.state, out, tr);
        run.rest(out, tr);
    }
}

impl Work<'_> {
    fn dropped<T: Tracer>(
        &mut self,
        reason: DropReason,
        out: &mut impl FnMut(Output<'_>),
        tr: &mut T,
    ) {
        if let Some(n) = self.local.dropped.get_mut(reason as usize) {
            *n += 1;
        }
        tr.event(|| TraceEvent::Dropped {
            reason: reason.name(),
        });
        out(Output::Dropped { reason });
    }
}
