//! Questions of people: asked of all workers, answered once.

use std::time::{Duration, Instant};

use offload_api::v1::{ExplainAnswer, ExplainQuery, ld_message};

use super::Control;
use super::stream::Stream;
use crate::message::Command;

/// How long answers of workers to an ExplainQuery are waited for.
const EXPLAIN_LIMIT: Duration = Duration::from_secs(1);

/// A question whose answers are being gathered.
#[derive(Debug)]
pub(super) struct Explaining {
    since: Instant,
    /// Workers that have yet to answer.
    waiting: usize,
    /// The best answer so far.
    answer: Option<ExplainAnswer>,
}

impl Control {
    /// Asks all workers.
    pub(super) fn explain(&mut self, query: &ExplainQuery, now: Instant) {
        let query_id = query.query_id;
        let tuple = query.tuple.unwrap_or_default();
        self.explaining.insert(
            query_id,
            Explaining {
                since: now,
                waiting: self.links.len(),
                answer: None,
            },
        );
        self.tell_all(|| Command::Explain { query_id, tuple });
    }

    /// A worker answers; the last one completes the answer.
    pub(super) fn explained(&mut self, answer: ExplainAnswer) {
        let query_id = answer.query_id;
        let Some(explaining) = self.explaining.get_mut(&query_id) else {
            return;
        };
        explaining.waiting = explaining.waiting.saturating_sub(1);
        match &mut explaining.answer {
            Some(known) if known.found => {}
            // Nobody knows it so far: what each worker would do with it.
            Some(known) if !answer.found => known.facts.extend(answer.facts),
            _ => explaining.answer = Some(answer),
        }
        if explaining.waiting == 0 {
            self.answer(query_id);
        }
    }

    /// Answers what has waited for too long with what is known by now.
    pub(super) fn answer_late(&mut self, now: Instant) {
        let late: Vec<u64> = self
            .explaining
            .iter()
            .filter(|(_, e)| now.saturating_duration_since(e.since) > EXPLAIN_LIMIT)
            .map(|(id, _)| *id)
            .collect();
        for query_id in late {
            self.answer(query_id);
        }
    }

    /// Answers a question with what the workers have said.
    fn answer(&mut self, query_id: u64) {
        let Some(explaining) = self.explaining.remove(&query_id) else {
            return;
        };
        let mut answer = explaining.answer.unwrap_or_default();
        answer.query_id = query_id;
        if explaining.waiting > 0 {
            answer.facts.push(format!(
                "{} of {} workers did not answer in time",
                explaining.waiting,
                self.links.len()
            ));
        }
        if self.stream == Stream::Attached {
            self.say(ld_message::Message::Explain(answer));
        }
    }
}
