//! One received packet, from the parser to its last copy.

use std::sync::Arc;

use super::Work;
use crate::exec::{Env, State, deparse, learn, parse, tuned};
use crate::switch::{Digest, DropReason, Output, Pipeline};
use crate::trace::{TraceEvent, Tracer};

/// v1model's `instance_type`.
pub(super) mod instance {
    pub(in crate::worker) const NORMAL: u64 = 0;
    pub(in crate::worker) const INGRESS_CLONE: u64 = 1;
    pub(in crate::worker) const EGRESS_CLONE: u64 = 2;
    pub(in crate::worker) const RECIRCULATED: u64 = 4;
    pub(in crate::worker) const REPLICATED: u64 = 5;
    pub(in crate::worker) const RESUBMITTED: u64 = 6;
}

/// A packet's bytes: those that arrived, or those of a recirculated one.
#[derive(Debug, Clone)]
pub(super) enum Bytes {
    Arrived,
    Made(Arc<Vec<u8>>),
}

/// Work that a packet left behind.
#[derive(Debug)]
pub(super) enum Job {
    /// From the parser on.
    Ingress(State, Bytes),
    /// From egress on, towards a port.
    Egress(State, Bytes, u16),
}

/// Where a pass through ingress ends.
pub(super) enum After {
    /// Nothing is left to do.
    Done,
    /// Egress on the same state.
    Egress(u16),
}

/// One received packet's run.
pub(super) struct Run<'r, 'w, 'p> {
    pub(super) env: &'r Env<'r>,
    pub(super) pipeline: &'r Pipeline,
    pub(super) packet: &'p [u8],
    pub(super) work: &'r mut Work<'w>,
    /// Passes begun because of this packet.
    pub(super) passes: u32,
    pub(super) port: u16,
}

impl Run<'_, '_, '_> {
    /// The pass of the packet as it arrived.
    pub(super) fn first<T: Tracer>(
        &mut self,
        st: &mut State,
        out: &mut impl FnMut(Output<'_>),
        tr: &mut T,
    ) {
        let ir = self.env.ir;
        st.reset(ir);
        let len = u32::try_from(self.packet.len()).unwrap_or(u32::MAX);
        st.length = len;
        st.ingress_length = len;
        st.set_optional(ir.standard.ingress_port, u64::from(self.port));
        st.set_optional(ir.standard.packet_length, u64::from(len));
        if let Some(at) = ir.standard.ingress_timestamp {
            st.set(at, self.env.now.as_micros());
        }
        self.ingress_then_egress(st, &Bytes::Arrived, out, tr);
    }

    /// Everything that the first pass left behind.
    pub(super) fn rest<T: Tracer>(&mut self, out: &mut impl FnMut(Output<'_>), tr: &mut T) {
        while let Some(job) = self.work.jobs.pop_front() {
            let st = match job {
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
                self.work.spare.push(st);
            }
        }
    }

    pub(super) fn bytes<'b>(&'b self, bytes: &'b Bytes) -> &'b [u8] {
        match bytes {
            Bytes::Arrived => self.packet,
            Bytes::Made(v) => v,
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
        let standard = &env.ir.standard;
        {
            let packet = self.bytes(bytes);
            tr.event(|| TraceEvent::Ingress {
                instance_type: st.get(standard.instance_type) as u32,
                bytes: packet.len(),
            });
            parse(env, st, packet, tr);
            st.set_optional(standard.parser_error, u64::from(st.parser_error));
            st.set_optional(standard.checksum_error, u64::from(st.checksum_error));
            if st.faulted().is_none() {
                let code = env.ir.code_for(T::ON);
                tuned::run(
                    env,
                    &self.pipeline.program,
                    code,
                    code.ingress,
                    st,
                    packet,
                    tr,
                );
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
        let group = standard.mcast_grp.map_or(0, |loc| st.get(loc) as u16);
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
        let port = st.get(standard.egress_spec) as u16;
        if port == env.drop_port {
            self.work.dropped(DropReason::Ingress, out, tr);
            return After::Done;
        }
        st.set(standard.instance_type, instance::NORMAL);
        After::Egress(port)
    }

    fn digest<T: Tracer>(&mut self, st: &mut State, tr: &mut T) {
        let id = std::mem::take(&mut st.requests.digest);
        let infos = &self.pipeline.program.digests;
        let Some(index) = infos.iter().position(|d| d.json_id == id) else {
            return;
        };
        let ir = self.env.ir;
        let fields = ir.digests.get(index).map_or(&[][..], Vec::as_slice);
        let values = fields.iter().map(|f| learn(ir, st, *f)).collect();
        tr.event(|| TraceEvent::Digest {
            name: infos
                .get(index)
                .map_or_else(String::new, |d| d.name.clone()),
        });
        self.work.digests.push(Digest {
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
        let s = &env.ir.standard;
        let config = &self.work.switch.config;
        let (cpu_port, queues) = (config.cpu_port, config.priority_queues);
        let priority = s.priority.map_or(0, |loc| st.get(loc));
        if priority >= u64::from(queues) {
            return self.work.dropped(DropReason::NoSuchQueue, out, tr);
        }
        for at in [s.egress_timestamp, s.enq_timestamp].into_iter().flatten() {
            st.set(at, env.now.as_micros());
        }
        st.set_optional(s.enq_qdepth, 0);
        st.set_optional(s.deq_timedelta, 0);
        st.set_optional(s.deq_qdepth, 0);
        st.set_optional(s.egress_port, u64::from(port));
        // Anything but the drop port.
        st.set(s.egress_spec, u64::from(env.drop_port) + 1);
        st.set_optional(s.packet_length, u64::from(st.length));
        tr.event(|| TraceEvent::Egress {
            port,
            instance_type: st.get(s.instance_type) as u32,
        });
        st.requests = crate::exec::Requests::default();
        let code = env.ir.code_for(T::ON);
        tuned::run(
            env,
            &self.pipeline.program,
            code,
            code.egress,
            st,
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
        if st.get(s.egress_spec) == u64::from(env.drop_port) {
            return self.work.dropped(DropReason::Egress, out, tr);
        }
        let mut buffer = std::mem::take(self.work.out);
        deparse(env, st, self.bytes(bytes), &mut buffer, tr);
        if let Some(reason) = st.faulted() {
            *self.work.out = buffer;
            return self.work.dropped(reason, out, tr);
        }
        if st.requests.recirculate != 0 {
            self.recirculate(st, &buffer, out, tr);
        } else {
            // What is recirculated begins again uncut.
            buffer.truncate(st.truncate);
            tr.event(|| TraceEvent::Sent {
                port,
                bytes: buffer.len(),
            });
            let to_cpu = cpu_port == Some(port);
            if to_cpu {
                self.work.local.packet_ins += 1;
            } else {
                self.work.local.transmitted += 1;
            }
            if queues > 1 {
                let to = (!to_cpu).then_some(port);
                let priority = priority.min(u64::from(u8::MAX)) as u8;
                self.work.held.push(to, priority, &buffer);
            } else if to_cpu {
                out(Output::PacketIn { bytes: &buffer });
            } else {
                out(Output::Transmit {
                    port,
                    bytes: &buffer,
                });
            }
        }
        *self.work.out = buffer;
    }
}
