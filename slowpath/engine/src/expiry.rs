//! Housekeeping: expiry, ports coming back, requests repeated, sessions killed.
//!
//! Each record has a `due` tick in an array of its own, which is swept every
//! half second, a piece at a time; records are looked at only when due. Packets
//! never touch it: they make deadlines later, and a record found due too early
//! is put off to its true deadline. What makes a deadline earlier (a FIN, a
//! request) sets it.

use crate::{
    api::CloseReason,
    engine::Engine,
    record::IDLE,
    state::{Offload, State},
    time::Tick,
};

/// Entries of `due` looked at in one call.
const SWEEP_STEP: usize = 8192;
/// Records acted on in one call.
const SWEEP_WORK: usize = 256;
/// Entries compared at once.
const CHUNK: usize = 32;
/// Ticks from the start of one pass to that of the next.
const PASS: u32 = 2;
/// Longest time that a 16-bit tick can express safely, in ticks (2 hours).
const FARTHEST: u32 = 0x7000;
/// Records looked at in one call for a kill.
const JOB_STEP: usize = 4096;

/// Where the sweep is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sweep {
    cursor: usize,
    /// When the pass under way, or the last one, began.
    began: Tick,
    running: bool,
}

/// A search for sessions to end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    /// VIP's identifier, zero for any.
    vip_id: u16,
    which: Which,
    cursor: usize,
    end: usize,
}

#[derive(Clone, Copy, Debug)]
enum Which {
    /// Of the server with this identifier, zero for any.
    ServerId(u16),
    /// UDP sessions of the engine's server of this index.
    UdpOf(u16),
}

/// The `due` value for `ticks` from now: never zero, never too far.
#[inline(always)]
pub(crate) const fn due_at(now: Tick, ticks: u32) -> u16 {
    let t = if ticks > FARTHEST { FARTHEST } else { ticks };
    match now.0.wrapping_add(t) as u16 {
        0 => 1,
        d => d,
    }
}

#[inline(always)]
const fn is_due(due: u16, now: u16) -> bool {
    // Signed distance; "never" is zero.
    due != 0 && (now.wrapping_sub(due) as i16) >= 0
}

impl Engine {
    /// Does a bounded piece of housekeeping. Call it once a burst, and again
    /// while it returns `true` and nothing else is to be done.
    pub fn tick(&mut self, now: Tick) -> bool {
        self.now = self.now.max(now);
        self.start_cutoffs();
        let jobs = self.run_job();
        let sweep = self.sweep_step();
        jobs || sweep
    }

    /// Ends all sessions of a VIP, of a server, or of a server's at a VIP (zero
    /// stands for any) in the course of the next calls of [`Engine::tick`].
    pub fn kill(&mut self, vip_id: u16, server_id: u16) {
        if vip_id == 0 && server_id == 0 {
            return;
        }
        self.jobs.push(Job {
            vip_id,
            which: Which::ServerId(server_id),
            cursor: 0,
            end: self.store.records.len(),
        });
    }

    fn start_cutoffs(&mut self) {
        let mut i = 0;
        while i < self.cutoffs.len() {
            let (at, server) = self.cutoffs[i];
            if at > self.now {
                i += 1;
                continue;
            }
            self.cutoffs.swap_remove(i);
            if !self.servers[usize::from(server)].takes_sessions() {
                self.jobs.push(Job {
                    vip_id: 0,
                    which: Which::UdpOf(server),
                    cursor: 0,
                    end: self.store.records.len(),
                });
            }
        }
    }

    fn run_job(&mut self) -> bool {
        let Some(job) = self.jobs.first().copied() else {
            return false;
        };
        let stop = (job.cursor + JOB_STEP).min(job.end);
        for at in job.cursor..stop {
            let r = &self.store.records[at];
            if !r.state.is_live() {
                continue;
            }
            let vip = self.vips[usize::from(r.vip_index)].config.vip_id;
            let hit = match job.which {
                Which::ServerId(id) => {
                    let server = self.servers[usize::from(r.server_index)].config.server_id;
                    id == 0 || id == server
                }
                Which::UdpOf(server) => r.server_index == server && r.protocol == packet::PROTO_UDP,
            };
            if hit && (job.vip_id == 0 || job.vip_id == vip) {
                self.end(at as u32, CloseReason::Killed);
            }
        }
        if stop == job.end {
            self.jobs.remove(0);
        } else if let Some(j) = self.jobs.first_mut() {
            j.cursor = stop;
        }
        !self.jobs.is_empty()
    }

    fn sweep_step(&mut self) -> bool {
        if !self.sweep.running {
            if self.now.since(self.sweep.began) < PASS && self.sweep.began != Tick(0) {
                return false;
            }
            self.sweep = Sweep {
                cursor: 0,
                began: self.now,
                running: true,
            };
        }
        let now = self.now.0 as u16;
        let end = (self.sweep.cursor + SWEEP_STEP).min(self.store.due.len());
        let mut found = [0_u32; SWEEP_WORK];
        let mut n = 0;
        let mut at = self.sweep.cursor;
        while at < end && n + CHUNK <= SWEEP_WORK {
            let chunk = &self.store.due[at..(at + CHUNK).min(end)];
            let any = chunk.iter().fold(false, |a, d| a | is_due(*d, now));
            if any {
                for (i, d) in chunk.iter().enumerate() {
                    if is_due(*d, now) {
                        found[n] = (at + i) as u32;
                        n += 1;
                    }
                }
            }
            at += CHUNK;
        }
        self.sweep.cursor = at.min(end);
        for id in &found[..n] {
            self.store.prefetch(*id);
        }
        for id in &found[..n] {
            self.look_after(*id);
        }
        self.sweep.running = self.sweep.cursor < self.store.due.len();
        self.sweep.running
    }

    /// A record's time may have come.
    fn look_after(&mut self, id: u32) {
        let r = &self.store.records[id as usize];
        match r.state {
            State::Free => self.store.due[id as usize] = 0,
            State::Quarantine => {
                if self.now.0 >= r.last_seen {
                    self.store.free(id);
                } else {
                    self.store.due[id as usize] = due_at(self.now, r.last_seen - self.now.0);
                }
            }
            _ if r.offload != Offload::None => self.offload_due(id),
            state => {
                let timeout = self.timeout(id);
                let quiet = self
                    .now
                    .since(Tick(self.store.records[id as usize].last_seen));
                if quiet < timeout {
                    self.store.due[id as usize] = due_at(self.now, timeout - quiet);
                    return;
                }
                let reason = match state {
                    State::TimeWait | State::Close => CloseReason::Finished,
                    _ => CloseReason::Expired,
                };
                debug_assert!(!self.store.records[id as usize].has(IDLE));
                self.close(id, reason);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_survives_the_wrap_of_sixteen_bits() {
        for now in [0_u32, 1, 0x7fff, 0x8000, 0xffff, 0x1_0000, 0x12_fff0] {
            let d = due_at(Tick(now), 16);
            assert_ne!(d, 0);
            assert!(!is_due(d, now as u16));
            assert!(!is_due(d, now.wrapping_add(15) as u16));
            // A due tick of zero is moved to one.
            assert!(is_due(d, now.wrapping_add(17) as u16));
            let far = due_at(Tick(now), u32::MAX);
            assert!(!is_due(far, now.wrapping_add(FARTHEST - 1) as u16));
            assert!(is_due(far, now.wrapping_add(FARTHEST + 1) as u16));
        }
        assert!(!is_due(0, 5), "zero is never");
    }
}
