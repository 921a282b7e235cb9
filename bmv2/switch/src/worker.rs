//! Workers: packets from arrival to their last copy.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLockReadGuard;

use crate::exec::{Env, State, deparse, parse, pipeline};
use crate::ir::bits::load64;
use crate::replication::Replication;
use crate::switch::{
    Digest, DropReason, MAX_PACKET, Output, Pipeline, Replica, Switch, Timestamp, Totals,
};
use crate::tables::Tables;
use crate::tables::key::{bytes_to_limbs, limbs_to_bytes};
use crate::trace::{Silent, TraceEvent, Tracer};

/// v1model's `instance_type`.
mod instance {
    pub(super) const NORMAL: u64 = 0;
    pub(super) const INGRESS_CLONE: u64 = 1;
    pub(super) const EGRESS_CLONE: u64 = 2;
    pub(super) const RECIRCULATED: u64 = 4;
    pub(super) const REPLICATED: u64 = 5;
    pub(super) const RESUBMITTED: u64 = 6;
}

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

/// A packet's bytes: those that arrived, or those of a recirculated one.
#[derive(Debug, Clone)]
enum Bytes {
    Arrived,
    Made(Arc<Vec<u8>>),
}

/// Work that a packet left behind.
#[derive(Debug)]
enum Job {
    /// From the parser on.
    Ingress(State, Bytes),
    /// From egress on, towards a port.
    Egress(State, Bytes, u16),
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
    /// control operations wait for them.
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
            ..
        } = self;
        Burst {
            tables: pipeline.as_ref().map(|p| p.tables.read()),
            pipeline: pipeline.as_deref(),
            work: Work {
                switch,
                replication,
                state,
                out,
                jobs,
                spare,
                local,
            },
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
        self.burst(now).process(port, packet, out);
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
        self.burst(now).run(port, packet, out, &mut events);
        events
    }
}

/// What a burst works with, the tables apart.
#[derive(Debug)]
struct Work<'w> {
    switch: &'w Switch,
    replication: &'w Replication,
    state: &'w mut State,
    out: &'w mut Vec<u8>,
    jobs: &'w mut VecDeque<Job>,
    spare: &'w mut Vec<State>,
    local: &'w mut Local,
}

/// A burst of packets on one worker.
#[derive(Debug)]
pub struct Burst<'w> {
    tables: Option<RwLockReadGuard<'w, Tables>>,
    pipeline: Option<&'w Pipeline>,
    work: Work<'w>,
    now: Timestamp,
}

impl Drop for Burst<'_> {
    fn drop(&mut self) {
        self.work.local.flush(&self.work.switch.totals);
    }
}

/// Where a pass through ingress ends.
enum After {
    /// Nothing is left to do.
    Done,
    /// Egress on the same state.
    Egress(u16),
}

impl Burst<'_> {
    /// Processes one packet to its end. `out` is called once for every copy,
    /// in order, before this returns.
    pub fn process(&mut self, port: u16, packet: &[u8], out: &mut impl FnMut(Output<'_>)) {
        self.run(port, packet, out, &mut Silent);
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
            registers: &p.registers,
            counters: &p.counters,
            meters: &p.meters,
            now: self.now,
            drop_port: config.drop_port,
        };
        let mut run = Run {
            env,
            pipeline: p,
            packet,
            work: &mut self.work,
            passes: 1,
            port,
        };
        run.first(out, tr);
        run.rest(out, tr);
    }
}

/// One received packet's run.
struct Run<'r, 'w, 'p> {
    env: Env<'r>,
    pipeline: &'r Pipeline,
    packet: &'p [u8],
    work: &'r mut Work<'w>,
    /// Passes begun because of this packet.
    passes: u32,
    port: u16,
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

impl Run<'_, '_, '_> {
    /// The pass of the packet as it arrived, on the worker's own state.
    fn first<T: Tracer>(&mut self, out: &mut impl FnMut(Output<'_>), tr: &mut T) {
        let mut st = std::mem::take(self.work.state);
        let ir = self.env.ir;
        st.reset(ir);
        let len = u32::try_from(self.packet.len()).unwrap_or(u32::MAX);
        st.length = len;
        st.ingress_length = len;
        st.set(ir.standard.ingress_port, u64::from(self.port));
        st.set(ir.standard.packet_length, u64::from(len));
        st.set_optional(ir.standard.ingress_timestamp, self.env.now.as_micros());
        self.ingress_then_egress(&mut st, &Bytes::Arrived, out, tr);
        *self.work.state = st;
    }

    /// Everything that the first pass left behind.
    fn rest<T: Tracer>(&mut self, out: &mut impl FnMut(Output<'_>), tr: &mut T) {
        while let Some(job) = self.work.jobs.pop_front() {
            let mut st = match job {
                Job::Ingress(mut st, bytes) => {
                    self.ingress_then_egress(&mut st, &bytes, out, tr);
                    st
                }
                Job::Egress(mut st, bytes, port) => {
                    self.egress(&mut st, &bytes, port, out, tr);
                    st
                }
            };
            if self.work.spare.len() < 64 {
                st.params.clear();
                self.work.spare.push(st);
            }
        }
    }

    fn bytes<'b>(&'b self, bytes: &'b Bytes) -> &'b [u8] {
        match bytes {
            Bytes::Arrived => self.packet,
            Bytes::Made(v) => v,
        }
    }

    /// Whether one more pass may begin.
    fn allow(&mut self) -> bool {
        self.passes += 1;
        self.passes <= self.work.switch.config.max_passes
    }

    fn fresh(&mut self) -> State {
        match self.work.spare.pop() {
            Some(mut st) => {
                st.reset(self.env.ir);
                st
            }
            None => State::new(self.env.ir, self.work.switch.config.seed),
        }
    }

    fn ingress_then_egress<T: Tracer>(
        &mut self,
        st: &mut State,
        bytes: &Bytes,
        out: &mut impl FnMut(Output<'_>),
        tr: &mut T,
    ) {
        let After::Egress(port) = self.ingress(st, bytes, out, tr) else {
            return;
        };
        if self.work.jobs.is_empty() {
            return self.egress(st, bytes, port, out, tr);
        }
        // Clones made at ingress were queued first, and leave first.
        let behind = self.fresh();
        let st = std::mem::replace(st, behind);
        self.work
            .jobs
            .push_back(Job::Egress(st, bytes.clone(), port));
    }

    fn ingress<T: Tracer>(
        &mut self,
        st: &mut State,
        bytes: &Bytes,
        out: &mut impl FnMut(Output<'_>),
        tr: &mut T,
    ) -> After {
        let env = self.env;
        let standard = env.ir.standard;
        {
            let packet = self.bytes(bytes);
            tr.event(|| TraceEvent::Ingress {
                instance_type: load64(&st.image, standard.instance_type) as u32,
                bytes: packet.len(),
            });
            parse(&env, st, packet, tr);
            st.set_optional(standard.parser_error, u64::from(st.parser_error));
            st.set_optional(standard.checksum_error, u64::from(st.checksum_error));
            if st.faulted().is_none() {
                pipeline::run(&env, &self.pipeline.program, st, env.ir.ingress, packet, tr);
            }
        }
        if let Some(reason) = st.faulted() {
            self.work.dropped(reason, out, tr);
            return After::Done;
        }
        st.exit = false;
        if let Some((session, fields)) = st.requests.clone.take() {
            self.clone_at_ingress(st, bytes, session, fields, out, tr);
        }
        if st.requests.digest != 0 {
            self.digest(st, tr);
        }
        if st.requests.resubmit != 0 {
            return self.resubmit(st, bytes, out, tr);
        }
        let group = standard
            .mcast_grp
            .map_or(0, |loc| load64(&st.image, loc) as u16);
        if group != 0 {
            st.set(standard.instance_type, instance::REPLICATED);
            let replication = self.work.replication;
            let replicas = replication.group(group);
            if replicas.is_empty() {
                self.work.dropped(DropReason::NoReplica, out, tr);
            }
            self.replicate(st, bytes, replicas, usize::MAX, "multicast", out, tr);
            // The packet itself is one of them.
            if !replicas.is_empty() {
                self.work.local.copies -= 1;
            }
            return After::Done;
        }
        let port = load64(&st.image, standard.egress_spec) as u16;
        if port == env.drop_port {
            self.work.dropped(DropReason::Ingress, out, tr);
            return After::Done;
        }
        st.set(standard.instance_type, instance::NORMAL);
        After::Egress(port)
    }

    /// The original bytes, parsed again; metadata zero but for the field list.
    fn clone_at_ingress<T: Tracer>(
        &mut self,
        st: &State,
        bytes: &Bytes,
        session: u16,
        fields: u32,
        out: &mut impl FnMut(Output<'_>),
        tr: &mut T,
    ) {
        let replication = self.work.replication;
        let Some((replicas, cut)) = replication.session(session) else {
            return;
        };
        let env = self.env;
        let mut copy = self.fresh();
        copy.length = st.ingress_length;
        copy.ingress_length = st.ingress_length;
        copy.set(env.ir.standard.ingress_port, u64::from(self.port));
        parse(&env, &mut copy, self.bytes(bytes), &mut Silent);
        copy.reset_metadata(env.ir);
        copy.copy_fields(env.ir, fields, st);
        copy.set(env.ir.standard.instance_type, instance::INGRESS_CLONE);
        self.replicate(&copy, bytes, replicas, cut, "clone", out, tr);
        self.work.spare.push(copy);
    }

    fn resubmit<T: Tracer>(
        &mut self,
        st: &State,
        bytes: &Bytes,
        out: &mut impl FnMut(Output<'_>),
        tr: &mut T,
    ) -> After {
        if !self.allow() {
            self.work.dropped(DropReason::TooManyPasses, out, tr);
            return After::Done;
        }
        let env = self.env;
        let mut again = self.fresh();
        again.length = st.ingress_length;
        again.ingress_length = st.ingress_length;
        again.copy_fields(env.ir, st.requests.resubmit, st);
        again.set(env.ir.standard.instance_type, instance::RESUBMITTED);
        again.set(env.ir.standard.packet_length, u64::from(st.ingress_length));
        self.work.local.reruns += 1;
        self.work.jobs.push_back(Job::Ingress(again, bytes.clone()));
        After::Done
    }

    /// Queues a copy for every replica.
    #[allow(clippy::too_many_arguments)]
    fn replicate<T: Tracer>(
        &mut self,
        st: &State,
        bytes: &Bytes,
        replicas: &[Replica],
        cut: usize,
        why: &'static str,
        out: &mut impl FnMut(Output<'_>),
        tr: &mut T,
    ) {
        for r in replicas {
            self.work.local.copies += 1;
            if !self.allow() {
                self.work.dropped(DropReason::TooManyPasses, out, tr);
                continue;
            }
            tr.event(|| TraceEvent::Copied {
                why,
                port: r.port,
                instance: r.instance,
            });
            let mut copy = self.fresh();
            copy.copy_from(st);
            copy.truncate = cut;
            copy.set_optional(self.env.ir.standard.egress_rid, u64::from(r.instance));
            self.work
                .jobs
                .push_back(Job::Egress(copy, bytes.clone(), r.port));
        }
    }

    fn digest<T: Tracer>(&mut self, st: &mut State, tr: &mut T) {
        let id = std::mem::take(&mut st.requests.digest);
        let infos = &self.pipeline.program.digests;
        let Some(index) = infos.iter().position(|d| d.json_id == id) else {
            return;
        };
        let fields = self
            .env
            .ir
            .digests
            .get(index)
            .map_or(&[][..], Vec::as_slice);
        let values = fields
            .iter()
            .map(|f| {
                let n = crate::ir::expr::wrap(crate::ir::expr::read_field(st, *f), f.width, false);
                let limbs = bytes_to_limbs(&n.to_bytes_be().1, f.width.div_ceil(64) as usize);
                limbs_to_bytes(&limbs, f.width)
            })
            .collect();
        tr.event(|| TraceEvent::Digest {
            name: infos
                .get(index)
                .map_or_else(String::new, |d| d.name.clone()),
        });
        self.work.switch.push_digest(Digest {
            digest: crate::program::DigestId(u32::try_from(index).unwrap_or(u32::MAX)),
            values,
            at: self.env.now,
        });
    }

    fn egress<T: Tracer>(
        &mut self,
        st: &mut State,
        bytes: &Bytes,
        port: u16,
        out: &mut impl FnMut(Output<'_>),
        tr: &mut T,
    ) {
        let env = self.env;
        let s = env.ir.standard;
        let config = &self.work.switch.config;
        let (cpu_port, queues) = (config.cpu_port, config.priority_queues);
        if s.priority
            .is_some_and(|loc| load64(&st.image, loc) >= u64::from(queues))
        {
            return self.work.dropped(DropReason::NoSuchQueue, out, tr);
        }
        let micros = env.now.as_micros();
        st.set_optional(s.egress_timestamp, micros);
        st.set_optional(s.enq_timestamp, micros);
        st.set_optional(s.enq_qdepth, 0);
        st.set_optional(s.deq_timedelta, 0);
        st.set_optional(s.deq_qdepth, 0);
        st.set(s.egress_port, u64::from(port));
        // Anything but the drop port.
        st.set(s.egress_spec, u64::from(env.drop_port) + 1);
        st.set(s.packet_length, u64::from(st.length));
        tr.event(|| TraceEvent::Egress {
            port,
            instance_type: load64(&st.image, s.instance_type) as u32,
        });
        st.requests = crate::exec::Requests::default();
        pipeline::run(
            &env,
            &self.pipeline.program,
            st,
            env.ir.egress,
            self.bytes(bytes),
            tr,
        );
        if let Some(reason) = st.faulted() {
            return self.work.dropped(reason, out, tr);
        }
        st.exit = false;
        if let Some((session, fields)) = st.requests.clone.take() {
            self.clone_at_egress(st, bytes, session, fields, out, tr);
        }
        if load64(&st.image, s.egress_spec) == u64::from(env.drop_port) {
            return self.work.dropped(DropReason::Egress, out, tr);
        }
        let mut buffer = std::mem::take(self.work.out);
        deparse(&env, st, self.bytes(bytes), &mut buffer, tr);
        if let Some(reason) = st.faulted() {
            *self.work.out = buffer;
            return self.work.dropped(reason, out, tr);
        }
        if st.requests.recirculate != 0 {
            self.recirculate(st, &buffer, out, tr);
        } else {
            tr.event(|| TraceEvent::Sent {
                port,
                bytes: buffer.len(),
            });
            if cpu_port == Some(port) {
                self.work.local.packet_ins += 1;
                out(Output::PacketIn { bytes: &buffer });
            } else {
                self.work.local.transmitted += 1;
                out(Output::Transmit {
                    port,
                    bytes: &buffer,
                });
            }
        }
        *self.work.out = buffer;
    }

    /// Headers as they are now; metadata zero but for the field list.
    fn clone_at_egress<T: Tracer>(
        &mut self,
        st: &State,
        bytes: &Bytes,
        session: u16,
        fields: u32,
        out: &mut impl FnMut(Output<'_>),
        tr: &mut T,
    ) {
        let replication = self.work.replication;
        let Some((replicas, cut)) = replication.session(session) else {
            return;
        };
        let env = self.env;
        let mut copy = self.fresh();
        copy.copy_from(st);
        copy.reset_metadata(env.ir);
        copy.copy_fields(env.ir, fields, st);
        copy.set(env.ir.standard.instance_type, instance::EGRESS_CLONE);
        self.replicate(&copy, bytes, replicas, cut, "clone", out, tr);
        self.work.spare.push(copy);
    }

    /// The packet as deparsed goes to the parser again.
    fn recirculate<T: Tracer>(
        &mut self,
        st: &State,
        bytes: &[u8],
        out: &mut impl FnMut(Output<'_>),
        tr: &mut T,
    ) {
        if !self.allow() {
            return self.work.dropped(DropReason::TooManyPasses, out, tr);
        }
        if bytes.len() > MAX_PACKET {
            return self.work.dropped(DropReason::TooLong, out, tr);
        }
        let env = self.env;
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let mut again = self.fresh();
        again.length = len;
        again.ingress_length = len;
        again.copy_fields(env.ir, st.requests.recirculate, st);
        again.set(env.ir.standard.instance_type, instance::RECIRCULATED);
        again.set(env.ir.standard.packet_length, u64::from(len));
        self.work.local.reruns += 1;
        let bytes = Bytes::Made(Arc::new(bytes.to_vec()));
        self.work.jobs.push_back(Job::Ingress(again, bytes));
    }
}
