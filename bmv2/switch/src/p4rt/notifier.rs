//! The thread that sends digests and idle notices.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::stream_message_response::Update;

use super::digest::List;
use super::read::encode_entry;
use super::server::Server;
use crate::IdleNotice;
use crate::ports::Clock;

/// How often the data plane is asked for idle entries; digests wake the thread.
const IDLE_PERIOD: Duration = Duration::from_millis(100);
/// How often a digest list that is not full is looked at.
const DIGEST_PERIOD: Duration = Duration::from_millis(2);
/// Digests taken from the data plane at once.
const DIGEST_SLICE: usize = 1024;
/// Entries in one notice.
const NOTICE_SIZE: usize = 256;

/// The running thread. Dropping it stops it.
#[derive(Debug)]
pub(super) struct Notifier {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Notifier {
    pub(super) fn start(server: &Arc<Server>) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let server = Arc::downgrade(server);
        let thread = std::thread::Builder::new()
            .name("notifier".into())
            .spawn(move || run(&server, &stopped))?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            if thread.join().is_err() {
                tracing::error!("the notifier had panicked");
            }
        }
    }
}

fn run(server: &Weak<Server>, stop: &AtomicBool) {
    let thread = std::thread::current();
    match server.upgrade() {
        Some(server) => server.switch.set_digest_waker(move || thread.unpark()),
        None => return,
    }
    let mut next_idle = Instant::now() + IDLE_PERIOD;
    while !stop.load(Ordering::Acquire) {
        let Some(server) = server.upgrade() else {
            return;
        };
        let waiting = digests(&server);
        let now = Instant::now();
        if now >= next_idle {
            next_idle = now + IDLE_PERIOD;
            idle(&server);
        }
        drop(server);
        std::thread::park_timeout(if waiting { DIGEST_PERIOD } else { IDLE_PERIOD });
    }
}

/// Sends the digests that are due; returns whether others wait for their time.
fn digests(server: &Server) -> bool {
    let now = server.clock.now();
    let control = server.control.read();
    let Some(target) = control.committed.as_ref() else {
        return false;
    };
    let mut buffers = server.digests.lock();
    buffers.retain(|digest| target.digests.contains_key(&digest));
    let mut due = Vec::new();
    if !target.digests.is_empty() {
        loop {
            let taken = server.switch.drain_digests(DIGEST_SLICE);
            let more = taken.len() == DIGEST_SLICE;
            for digest in taken {
                let bound = target.pipeline.binding.digest_of_core(digest.digest);
                let on = bound.and_then(|(id, _)| Some((id, target.digests.get(&id)?)));
                if let Some((id, on)) = on {
                    due.extend(buffers.push(id, on, digest.values, now));
                }
            }
            if !more {
                break;
            }
        }
        for (id, on) in target.digests.iter() {
            due.extend(buffers.poll(*id, on, now));
        }
    } else {
        // Nobody wants them; they must not pile up.
        while server.switch.drain_digests(DIGEST_SLICE).len() == DIGEST_SLICE {}
    }
    let waiting = buffers.is_waiting();
    drop(buffers);
    for list in due {
        if let Some(message) = encode_list(target, list) {
            server.to_primaries(Update::Digest(message));
        }
    }
    waiting
}

fn encode_list(target: &super::target::Target, list: List) -> Option<p4::DigestList> {
    let bound = target.pipeline.binding.digests.get(&list.digest)?;
    let data = bound.data.as_ref().ok()?;
    Some(p4::DigestList {
        digest_id: list.digest,
        list_id: list.list,
        data: list
            .messages
            .iter()
            .map(|values| data.encode(&mut values.iter().map(Into::into)))
            .collect(),
        timestamp: Clock::unix_nanos(),
    })
}

/// Sends notices about idle entries, one message for each table.
fn idle(server: &Server) {
    let control = server.control.read();
    let Some(target) = control.committed.as_ref() else {
        return;
    };
    let notices = server.switch.poll_idle(server.clock.now());
    if notices.is_empty() {
        return;
    }
    let query = p4::TableEntry {
        time_since_last_hit: Some(p4::table_entry::IdleTimeout::default()),
        ..p4::TableEntry::default()
    };
    let mut by_table: BTreeMap<u32, Vec<p4::TableEntry>> = BTreeMap::new();
    for IdleNotice { table, entry } in notices {
        let Some(table) = target.pipeline.binding.table_of_core(table) else {
            continue;
        };
        let entry = encode_entry(target, table, &query, entry);
        by_table.entry(table.id).or_default().push(entry);
    }
    for mut entries in by_table.into_values() {
        while !entries.is_empty() {
            let rest = entries.split_off(entries.len().min(NOTICE_SIZE));
            server.to_primaries(Update::IdleTimeoutNotification(
                p4::IdleTimeoutNotification {
                    table_entry: std::mem::replace(&mut entries, rest),
                    timestamp: Clock::unix_nanos(),
                },
            ));
        }
    }
}
