//! Copies of a packet, and packets that begin again.

use std::sync::Arc;

use super::run::{After, Bytes, Job, Run, instance};
use crate::exec::{State, parse};
use crate::switch::{DropReason, MAX_PACKET, Output, Replica};
use crate::trace::{Silent, TraceEvent, Tracer};

impl Run<'_, '_, '_> {
    /// Whether one more pass may begin.
    pub(super) fn allow(&mut self) -> bool {
        self.passes += 1;
        self.passes <= self.work.switch.config.max_passes
    }

    pub(super) fn fresh(&mut self) -> State {
        match self.work.spare.pop() {
            Some(mut st) => {
                st.reset(self.env.ir);
                st
            }
            None => State::new(self.env.ir, self.work.switch.config.seed),
        }
    }

    /// The original bytes, parsed again; metadata zero but for the field list.
    pub(super) fn clone_at_ingress<T: Tracer>(
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
            tr.event(|| TraceEvent::NotCloned {
                session,
                session_exists: false,
            });
            return;
        };
        let env = self.env;
        note_empty(session, replicas, tr);
        let mut copy = self.fresh();
        copy.length = st.ingress_length;
        copy.ingress_length = st.ingress_length;
        copy.set_optional(env.ir.standard.ingress_port, u64::from(self.port));
        parse(env, &mut copy, self.bytes(bytes), &mut Silent);
        copy.become_clone(env.ir, st, fields, instance::INGRESS_CLONE);
        self.replicate(&copy, bytes, replicas, cut, "clone", out, tr);
        self.work.spare.push(copy);
    }

    /// Headers as they are now; metadata zero but for the field list.
    pub(super) fn clone_at_egress<T: Tracer>(
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
            tr.event(|| TraceEvent::NotCloned {
                session,
                session_exists: false,
            });
            return;
        };
        note_empty(session, replicas, tr);
        let mut copy = self.fresh();
        copy.copy_from(st);
        copy.become_clone(self.env.ir, st, fields, instance::EGRESS_CLONE);
        self.replicate(&copy, bytes, replicas, cut, "clone", out, tr);
        self.work.spare.push(copy);
    }

    /// Queues a copy for every replica.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn replicate<T: Tracer>(
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

    pub(super) fn resubmit<T: Tracer>(
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
        again.set_optional(env.ir.standard.packet_length, u64::from(st.ingress_length));
        self.work.local.reruns += 1;
        self.work.jobs.push_back(Job::Ingress(again, bytes.clone()));
        After::Done
    }

    /// The packet as deparsed goes to the parser again.
    pub(super) fn recirculate<T: Tracer>(
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
        again.set_optional(env.ir.standard.packet_length, u64::from(len));
        self.work.local.reruns += 1;
        let bytes = Bytes::Made(Arc::new(bytes.to_vec()));
        self.work.jobs.push_back(Job::Ingress(again, bytes));
    }
}

/// A session without replicas makes no copy, and so would leave no trace.
fn note_empty<T: Tracer>(session: u16, replicas: &[Replica], tr: &mut T) {
    if T::ON && replicas.is_empty() {
        tr.event(|| TraceEvent::NotCloned {
            session,
            session_exists: true,
        });
    }
}
