//! The switch in memory.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use futures::FutureExt;
use futures::future::BoxFuture;
use offload_ctl::dataplane::{
    Cells, ConnectError, Connection, Connector, Count, Counter, Dataplane, Lost, Notice, Outcomes,
    Reading, Update, UpdateError,
};
use offload_ctl::entry::{Entry, Key, Table};
use tokio::sync::mpsc;

/// What may go wrong, looked at before each update.
pub type Fault = Box<dyn FnMut(&Update) -> Option<UpdateError> + Send>;

#[derive(Default)]
pub struct State {
    pub pipeline: bool,
    pub entries: BTreeMap<Key, Entry>,
    pub counts: HashMap<Key, Count>,
    pub idle_ms: HashMap<Key, u64>,
    /// Whether reads tell the time since the last hit.
    pub tells_idle: bool,
    pub fault: Option<Fault>,
    /// The next writes are carried out, but the answer is lost.
    pub lose_answers: u32,
    /// The next writes are not carried out, and the connection is lost.
    pub lose_writes: u32,
    pub reachable: bool,
    pub connections: u32,
    pub pushes: u32,
    pub sizes: BTreeMap<Table, usize>,
    pub packets_out: VecDeque<(u16, Vec<u8>)>,
    /// All updates in the order in which they came, with what came of them.
    pub log: Vec<(Update, bool)>,
    pub batches: Vec<usize>,
    notices: Option<mpsc::Sender<Notice>>,
    generation: u64,
}

/// A switch that outlives connections.
pub struct FakeSwitch {
    pub state: Arc<Mutex<State>>,
}

impl FakeSwitch {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            state: Arc::new(Mutex::new(State {
                reachable: true,
                tells_idle: true,
                ..State::default()
            })),
        })
    }

    pub fn with<R>(&self, act: impl FnOnce(&mut State) -> R) -> R {
        act(&mut self.state.lock().unwrap())
    }

    /// The stream breaks; the tables stay.
    pub fn disconnect(&self) {
        let sender = self.with(|state| {
            state.generation += 1;
            state.notices.take()
        });
        if let Some(sender) = sender {
            let _ = sender.try_send(Notice::Lost("cut by the test".to_owned()));
        }
    }

    /// Everything is gone, pipeline included, and the stream breaks.
    pub fn restart(&self) {
        self.with(|state| {
            state.pipeline = false;
            state.entries.clear();
            state.counts.clear();
            state.idle_ms.clear();
        });
        self.disconnect();
    }

    pub async fn notice(&self, notice: Notice) {
        let sender = self.with(|state| state.notices.clone());
        sender.unwrap().send(notice).await.unwrap();
    }

    pub fn flows(&self) -> Vec<Entry> {
        self.with(|state| {
            state
                .entries
                .values()
                .filter(|entry| entry.key.table().is_flow())
                .copied()
                .collect()
        })
    }

    pub fn has(&self, key: &Key) -> bool {
        self.with(|state| state.entries.contains_key(key))
    }

    pub fn get(&self, key: &Key) -> Option<Entry> {
        self.with(|state| state.entries.get(key).copied())
    }
}

impl State {
    fn apply(&mut self, update: &Update) -> Result<(), UpdateError> {
        if let Some(fault) = &mut self.fault
            && let Some(error) = fault(update)
        {
            return Err(error);
        }
        match update {
            Update::Insert(entry) => {
                if self.entries.contains_key(&entry.key) {
                    return Err(UpdateError::Exists);
                }
                let table = entry.key.table();
                let used = self.entries.keys().filter(|k| k.table() == table).count();
                if self.sizes.get(&table).is_some_and(|size| used >= *size) {
                    return Err(UpdateError::Full(format!("{used} entries")));
                }
                self.entries.insert(entry.key, *entry);
                Ok(())
            }
            Update::Modify(entry) => match self.entries.get_mut(&entry.key) {
                Some(present) => {
                    *present = *entry;
                    Ok(())
                }
                None => Err(UpdateError::NotFound),
            },
            Update::Delete(key) => match self.entries.remove(key) {
                Some(_) => {
                    self.counts.remove(key);
                    Ok(())
                }
                None => Err(UpdateError::NotFound),
            },
        }
    }

    fn reading(&self, entry: &Entry) -> Reading {
        let flow = entry.key.table().is_flow();
        Reading {
            entry: *entry,
            count: flow.then(|| self.counts.get(&entry.key).copied().unwrap_or_default()),
            idle_ms: (flow && self.tells_idle)
                .then(|| self.idle_ms.get(&entry.key).copied().unwrap_or(0)),
        }
    }
}

impl Connector for FakeSwitch {
    fn connect(&self) -> BoxFuture<'_, Result<Connection, ConnectError>> {
        async move {
            self.with(|state| {
                if !state.reachable {
                    return Err(ConnectError::Retry("nobody answers".to_owned()));
                }
                let pushed = !state.pipeline;
                if pushed {
                    state.pipeline = true;
                    state.pushes += 1;
                    state.entries.clear();
                }
                state.connections += 1;
                let (sender, notices) = mpsc::channel(64);
                state.notices = Some(sender);
                Ok((notices, pushed, state.generation))
            })
        }
        .map(|result| {
            let (notices, pushed, generation) = result?;
            Ok(Connection {
                dataplane: Arc::new(Live {
                    state: self.state.clone(),
                    generation,
                }),
                notices,
                pushed,
            })
        })
        .boxed()
    }

    fn target(&self) -> String {
        "fake".to_owned()
    }
}

/// One connection.
struct Live {
    state: Arc<Mutex<State>>,
    generation: u64,
}

impl Live {
    fn with<R>(&self, act: impl FnOnce(&mut State) -> R) -> Result<R, Lost> {
        let mut state = self.state.lock().unwrap();
        if state.generation != self.generation {
            return Err(Lost("the connection is gone".to_owned()));
        }
        Ok(act(&mut state))
    }
}

impl Dataplane for Live {
    fn write(&self, updates: Vec<Update>) -> BoxFuture<'_, Result<Outcomes, Lost>> {
        async move {
            tokio::task::yield_now().await;
            self.with(|state| {
                if state.lose_writes > 0 {
                    state.lose_writes -= 1;
                    return Err(Lost("the write was lost".to_owned()));
                }
                state.batches.push(updates.len());
                let mut keys = std::collections::HashSet::new();
                let mut outcomes = Vec::new();
                for update in &updates {
                    assert!(keys.insert(update.key()), "one key twice in a batch");
                    let outcome = state.apply(update);
                    state.log.push((*update, outcome.is_ok()));
                    outcomes.push(outcome);
                }
                if state.lose_answers > 0 {
                    state.lose_answers -= 1;
                    return Err(Lost("the answer was lost".to_owned()));
                }
                Ok(outcomes)
            })?
        }
        .boxed()
    }

    fn read_table(&self, table: Table) -> BoxFuture<'_, Result<Vec<Reading>, Lost>> {
        async move {
            self.with(|state| {
                state
                    .entries
                    .values()
                    .filter(|entry| entry.key.table() == table)
                    .map(|entry| state.reading(entry))
                    .collect()
            })
        }
        .boxed()
    }

    fn read_entries(&self, keys: Vec<Key>) -> BoxFuture<'_, Result<Vec<Reading>, Lost>> {
        async move {
            self.with(|state| {
                keys.iter()
                    .filter_map(|key| state.entries.get(key))
                    .map(|entry| state.reading(entry))
                    .collect()
            })
        }
        .boxed()
    }

    fn read_counters(&self, counters: Vec<Counter>) -> BoxFuture<'_, Result<Cells, Lost>> {
        async move {
            self.with(|_| {
                counters
                    .into_iter()
                    .map(|counter| (counter, BTreeMap::new()))
                    .collect()
            })
        }
        .boxed()
    }

    fn packet_out(&self, port: u16, frame: Vec<u8>) -> BoxFuture<'_, Result<(), Lost>> {
        async move { self.with(|state| state.packets_out.push_back((port, frame))) }.boxed()
    }
}
