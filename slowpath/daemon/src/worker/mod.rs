//! A worker: one thread, one queue pair, one session engine, nothing shared.
//!
//! [`Worker::turn`] is one turn of its loop: frames from the port, frames from
//! other workers, commands, time. A frame's way is in `Worker::handle`.

mod idle;

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::Arc;

use offload_api::v1;
use session_engine::{
    DropReason, Effect, Engine, PacketIn, Redirect, SessionId, TICK_MS, Tick, Verdict,
};
use smallvec::SmallVec;
use tokio::sync::Notify;

use crate::clock::Clock;
use crate::control::Rings;
use crate::convert;
use crate::drops::FrameDrop;
use crate::io::{BURST, Burst, Packet, PacketIo};
use crate::message::{Command, Event};
use crate::report::{FrameCounters, Report};
use crate::tunnel::{Outer, Place, SHARDS, ends, owners};

pub use idle::Idle;

/// How often the rest of a burst is offered to a full transmit queue.
const TX_TRIES: u32 = 8;
/// Most commands taken in one turn.
const COMMANDS: usize = 256;
/// Pause between two looks at the time, ms.
const HOUSEKEEPING_MS: u64 = 1;

/// What a worker is told at its start.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Number, from 0.
    pub worker: u16,
    /// How many there are.
    pub workers: u16,
    /// This LD's end of the tunnel.
    pub vtep: Ipv4Addr,
    /// To and from the control thread.
    pub rings: Rings,
    /// Tells the control thread that events wait.
    pub notify: Arc<Notify>,
}

/// Where a frame goes.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Forward,
    Reply,
    /// To a worker. Counted when it is in the ring.
    Pass(u16),
    /// Counted already.
    Gone,
}

/// See the module.
#[derive(Debug)]
pub struct Worker<I: PacketIo, C: Clock> {
    setup: Setup,
    io: I,
    clock: C,
    engine: Engine,
    /// The ends of the tunnel that frames must have.
    ends: u64,
    /// Of each shard.
    owners: [u16; SHARDS],
    configured: bool,
    opened: bool,
    /// Both of these.
    ready: bool,
    frames: FrameCounters,
    tx: I::Burst,
    /// Of the frames in `tx`, by position: this LD's own answers.
    answers: u32,
    /// Events that found the ring full.
    backlog: VecDeque<Event>,
    started: u64,
    next_housekeeping: u64,
    housekeeping: u64,
    /// The engine's time, as of the last housekeeping.
    now: Tick,
    /// Ticks spent on packets since the last report, and when that was.
    busy: u64,
    reported: u64,
    closed: u64,
}

impl<I: PacketIo, C: Clock> Worker<I, C> {
    /// A worker that drops everything until it is configured and opened.
    pub fn new(setup: Setup, io: I, clock: C, engine: Engine) -> Self {
        let now = clock.now();
        let housekeeping = (clock.hz() / 1000 * HOUSEKEEPING_MS).max(1);
        Self {
            owners: owners(setup.workers),
            setup,
            io,
            clock,
            engine,
            ends: 0,
            configured: false,
            opened: false,
            ready: false,
            frames: FrameCounters::default(),
            tx: I::Burst::default(),
            answers: 0,
            backlog: VecDeque::new(),
            started: now,
            next_housekeeping: now,
            housekeeping,
            now: Tick(0),
            busy: 0,
            reported: now,
            closed: 0,
        }
    }

    /// The worker's ends of its port.
    pub fn io(&mut self) -> &mut I {
        &mut self.io
    }

    /// Ends the worker and gives its ends of the port back.
    pub fn into_io(self) -> I {
        self.io
    }

    /// Works until told to stop.
    pub fn run(&mut self, idle: &mut Idle) {
        let mut burst = I::Burst::default();
        loop {
            match self.turn(&mut burst) {
                Turn::Busy => idle.busy(),
                Turn::Idle => {
                    if let Some(limit) = idle.idle() {
                        let commands = &self.setup.rings.commands;
                        self.io.wait(limit, || commands.is_empty());
                    }
                }
                Turn::Stop => return,
            }
        }
    }

    /// One turn of the loop. Never waits. `burst` is room for frames, empty
    /// before and after.
    #[inline]
    pub fn turn(&mut self, burst: &mut I::Burst) -> Turn {
        let start = self.clock.now();
        let mut work = false;
        let received = self.io.receive(burst);
        if received > 0 {
            self.frames.received += received as u64;
            self.handle(burst, Origin::Port);
            work = true;
        }
        let redirected = self.io.receive_redirected(burst);
        if redirected > 0 {
            self.frames.redirected_in += redirected as u64;
            self.handle(burst, Origin::Worker);
            work = true;
        }
        if !self.setup.rings.commands.is_empty() {
            if self.obey() {
                return Turn::Stop;
            }
            work = true;
        }
        if start >= self.next_housekeeping {
            self.now = self.tick_at(start);
            // More of it at once, between bursts, while there is more to do.
            let more = self.engine.tick(self.now);
            let pause = if more { 0 } else { self.housekeeping };
            self.next_housekeeping = start + pause;
            work |= more;
            self.collect();
        }
        if work {
            self.busy += self.clock.now().wrapping_sub(start);
            Turn::Busy
        } else {
            Turn::Idle
        }
    }

    /// The engine's time.
    fn tick_at(&self, now: u64) -> Tick {
        let ms = self.clock.hz() / 1000;
        Tick::from_millis(now.wrapping_sub(self.started) / ms.max(1))
    }

    // --------------------------------------------------------------- frames

    /// Handles frames: each is sent, handed to another worker or dropped, and
    /// counted once. Leaves `burst` empty.
    fn handle(&mut self, burst: &mut I::Burst, origin: Origin) {
        for packet in burst.iter() {
            packet.prefetch();
        }
        let mut fates = [Fate::Gone; BURST];
        let mut packets: SmallVec<[PacketIn<'_>; BURST]> = SmallVec::new();
        let mut places: SmallVec<[(u8, Place); BURST]> = SmallVec::new();
        for (i, (packet, fate)) in burst.iter_mut().zip(&mut fates).enumerate() {
            match self.classify(packet, origin) {
                Class::Mine { outer, hops } => {
                    let inner = outer.place.inner();
                    // The range was checked when the headers were parsed.
                    if let Some(data) = packet.bytes_mut().get_mut(inner) {
                        packets.push(PacketIn {
                            data,
                            vni: outer.vni(),
                            slot: outer.slot(),
                            hops,
                        });
                        places.push((i as u8, outer.place));
                    }
                }
                Class::Other(worker) => *fate = Fate::Pass(worker),
                Class::Drop(reason) => self.frames.drops[reason.index()] += 1,
            }
        }
        let mut verdicts = [Verdict::Drop(DropReason::Malformed); BURST];
        if !packets.is_empty() {
            self.engine
                .process_burst(self.now, &mut packets, &mut verdicts);
        }
        drop(packets);
        for ((i, place), verdict) in places.iter().zip(verdicts) {
            let i = usize::from(*i);
            if let (Some(packet), Some(fate)) = (burst.get_mut(i), fates.get_mut(i)) {
                *fate = self.conclude(packet, place, verdict);
            }
        }
        self.dispatch(burst, &fates);
        self.collect();
    }

    /// Whose frame it is.
    #[inline(always)]
    fn classify(&self, packet: &mut <I::Burst as Burst>::Packet, origin: Origin) -> Class {
        if !packet.is_contiguous() {
            return Class::Drop(FrameDrop::Scattered);
        }
        let frame = packet.bytes_mut();
        let outer = match Outer::parse(frame) {
            Ok(outer) => outer,
            Err(reason) => return Class::Drop(reason.into()),
        };
        if origin == Origin::Worker {
            return Class::Mine {
                hops: outer.place.hops(frame),
                outer,
            };
        }
        if !self.ready || outer.ends() != self.ends {
            return Class::Drop(self.refuse(&outer));
        }
        let owner = self.owners.get(outer.shard()).copied().unwrap_or(0);
        if owner != self.setup.worker {
            outer.place.set_hops(frame, 0);
            return Class::Other(owner);
        }
        Class::Mine { outer, hops: 0 }
    }

    /// Why a tunnel frame is not taken.
    #[cold]
    fn refuse(&self, outer: &Outer) -> FrameDrop {
        if outer.ends() as u32 != self.setup.vtep.to_bits() {
            FrameDrop::WrongVtep
        } else if !self.ready {
            FrameDrop::NoConfiguration
        } else {
            FrameDrop::UnknownPeer
        }
    }

    /// What the engine's verdict means for the frame.
    #[inline]
    fn conclude(
        &mut self,
        packet: &mut <I::Burst as Burst>::Packet,
        place: &Place,
        verdict: Verdict,
    ) -> Fate {
        let (inner_len, fate) = match verdict {
            Verdict::Forward(_) => (place.inner().len(), Fate::Forward),
            Verdict::Reply { len } => (usize::from(len), Fate::Reply),
            Verdict::Redirect(to) => {
                let frame = packet.bytes_mut();
                let hops = place.hops(frame).saturating_add(1);
                place.set_hops(frame, hops);
                return Fate::Pass(match to {
                    Redirect::Worker(worker) => worker.into(),
                    Redirect::Next => (self.setup.worker + 1) % self.setup.workers.max(1),
                });
            }
            // Counted by the engine.
            Verdict::Drop(_) => return Fate::Gone,
        };
        let len = place.send_back(packet.bytes_mut(), inner_len);
        if len.is_some_and(|len| packet.truncate(len)) {
            fate
        } else {
            self.frames.drops[FrameDrop::ReplyTooLong.index()] += 1;
            Fate::Gone
        }
    }

    /// Sends frames, hands them over, or drops them.
    #[inline]
    fn dispatch(&mut self, burst: &mut I::Burst, fates: &[Fate; BURST]) {
        let mut woken = 0;
        for (packet, fate) in burst.drain().zip(fates) {
            match fate {
                Fate::Forward | Fate::Reply => {
                    let answer = u32::from(matches!(fate, Fate::Reply));
                    self.answers |= answer << self.tx.len();
                    // Empty before, and as long as `burst`: there is room.
                    if self.tx.push(packet).is_err() {
                        self.frames.drops[FrameDrop::TxFull.index()] += 1;
                    }
                }
                Fate::Pass(worker) => match self.io.redirect(*worker, packet) {
                    Ok(()) => {
                        self.frames.redirected_out += 1;
                        woken |= 1_u32.checked_shl((*worker).into()).unwrap_or(0);
                    }
                    Err(packet) => {
                        drop(packet);
                        self.frames.drops[FrameDrop::RedirectFull.index()] += 1;
                    }
                },
                Fate::Gone => drop(packet),
            }
        }
        if woken != 0 {
            self.io.wake(woken);
        }
        if !self.tx.is_empty() {
            self.transmit();
        }
    }

    /// Sends `tx`, and drops what the port does not take after some tries.
    fn transmit(&mut self) {
        for _ in 0..TX_TRIES {
            let sent = self.io.send(&mut self.tx) as u32;
            let taken = self.answers & 1_u32.checked_shl(sent).unwrap_or(0).wrapping_sub(1);
            let answers = taken.count_ones();
            self.frames.replied += u64::from(answers);
            self.frames.forwarded += u64::from(sent - answers);
            self.answers = self.answers.checked_shr(sent).unwrap_or(0);
            if self.tx.is_empty() {
                return;
            }
            std::hint::spin_loop();
        }
        self.frames.drops[FrameDrop::TxFull.index()] += self.tx.len() as u64;
        self.answers = 0;
        self.tx.clear();
    }

    // ------------------------------------------------------ control thread

    /// Passes on what the engine wants told.
    fn collect(&mut self) {
        for effect in self.engine.effects() {
            let event = match effect {
                Effect::Install(session, flow) => Event::Install(convert::to_api(session, &flow)),
                Effect::Remove(session, reason) => Event::Remove {
                    session_id: session.0,
                    reason: convert::remove_reason(reason),
                },
                Effect::Closed(session) => {
                    self.closed += 1;
                    tracing::trace!(?session, "session closed");
                    continue;
                }
            };
            self.backlog.push_back(event);
        }
        self.flush();
    }

    /// Moves waiting events into the ring, and wakes the control thread.
    fn flush(&mut self) {
        if self.backlog.is_empty() {
            return;
        }
        while let Some(event) = self.backlog.pop_front() {
            if let Err(event) = self.setup.rings.events.push(event) {
                self.backlog.push_front(event);
                break;
            }
        }
        self.setup.notify.notify_one();
    }

    /// Takes commands; says whether to stop.
    fn obey(&mut self) -> bool {
        for _ in 0..COMMANDS {
            let Some(command) = self.setup.rings.commands.pop() else {
                break;
            };
            match command {
                Command::Configure(config) => {
                    self.engine.set_snapshot(Arc::clone(&config.engine));
                    self.ends = ends(config.switch_vtep.to_bits(), self.setup.vtep.to_bits());
                    self.configured = true;
                    self.backlog.push_back(Event::Configured {
                        version: config.version,
                    });
                }
                Command::Open => self.opened = true,
                Command::Installed(id) => self.engine.on_installed(SessionId(id)),
                Command::Rejected(id, reason) => {
                    self.engine
                        .on_rejected(SessionId(id), convert::reject_reason(reason));
                }
                Command::Removed(t) => {
                    self.engine
                        .on_removed(SessionId(t.session_id), &convert::totals(&t));
                }
                Command::Idle(id) => self.engine.on_idle(SessionId(id)),
                Command::Evicted(t) => {
                    self.engine
                        .on_evicted(SessionId(t.session_id), &convert::totals(&t));
                }
                Command::SwitchState { up: true } => self.engine.on_switch_up(),
                Command::SwitchState { up: false } => self.engine.on_switch_down(),
                Command::Adopt(flow) => {
                    let result = self.adopt(&flow);
                    self.backlog.push_back(Event::Adopted { flow, result });
                }
                Command::Kill { vip_id, server_id } => self.engine.kill(vip_id, server_id),
                Command::Explain { query_id, tuple } => {
                    let answer = self.explain(query_id, &tuple);
                    self.backlog.push_back(Event::Explained(Box::new(answer)));
                }
                Command::Report(mut report) => {
                    self.report(&mut report);
                    self.backlog.push_back(Event::Report(report));
                }
                Command::Drain => self.kill_all(),
                Command::Stop => return true,
            }
        }
        self.ready = self.configured && self.opened;
        self.collect();
        // Some commands are carried out by housekeeping.
        self.next_housekeeping = 0;
        false
    }

    fn kill_all(&mut self) {
        let vips: Vec<u16> = self.engine.vip_stats().map(|v| v.vip_id).collect();
        for vip_id in vips {
            self.engine.kill(vip_id, 0);
        }
    }

    fn adopt(&mut self, flow: &v1::FlowPair) -> Result<u64, String> {
        let adoption = convert::from_api(flow)?;
        self.engine
            .adopt(&adoption)
            .map(|session| session.0)
            .map_err(|error| error.to_string())
    }

    fn explain(&self, query_id: u64, tuple: &v1::Tuple) -> v1::ExplainAnswer {
        let mut answer = v1::ExplainAnswer {
            query_id,
            worker: self.setup.worker.into(),
            ..v1::ExplainAnswer::default()
        };
        if !self.ready {
            answer.facts.push(
                "the load director has no configuration yet and drops every packet".to_owned(),
            );
        }
        match convert::tuple(tuple) {
            Ok(tuple) => convert::explanation(&self.engine.lookup(&tuple), &mut answer),
            Err(why) => answer.facts.push(why),
        }
        answer
    }

    fn report(&mut self, report: &mut Report) {
        report.frames = self.frames;
        report.engine.clone_from(self.engine.counters());
        report.gauges = self.engine.gauges();
        report.vips.clear();
        report.vips.extend(self.engine.vip_stats());
        let now = self.clock.now();
        let span = now.wrapping_sub(self.reported).max(1);
        report.busy_permille = (u128::from(self.busy) * 1000 / u128::from(span)) as u64;
        self.busy = 0;
        self.reported = now;
        report.events_waiting = self.backlog.len() as u64;
        report.closed = self.closed;
    }
}

/// What a turn of the loop was like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// There was something to do.
    Busy,
    /// There was nothing.
    Idle,
    /// Told to stop.
    Stop,
}

/// Where frames come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Port,
    Worker,
}

/// Whose frame it is.
enum Class {
    Mine { outer: Outer, hops: u8 },
    Other(u16),
    Drop(FrameDrop),
}

/// Time passes in ticks of this many milliseconds for sessions.
pub const SESSION_TICK_MS: u32 = TICK_MS;
