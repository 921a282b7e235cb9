//! A switch by P4Runtime.

mod convert;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use p4_contract::{PacketIn, PacketOut, counters};
use p4runtime_client::{Client, ConnectOptions, Error, Event, Events, UpdateStatus};
use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1::get_forwarding_pipeline_config_request::ResponseType;
use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime_proto::p4::v1::write_request::Atomicity;
use p4runtime_proto::p4::v1::{
    self as p4, CounterData, Entity, TableEntry, entity, table_entry, update,
};
use tokio::sync::mpsc;
use tonic::Code;

pub use convert::info;

use crate::dataplane::{
    Cells, ConnectError, Connection, Connector, Count, Counter, Dataplane, Lost, Notice, Outcomes,
    Reading, Update, UpdateError,
};
use crate::entry::{Key, Table};

/// The pipeline that the switch is to run.
#[derive(Clone)]
pub struct Pipeline {
    /// P4Info.
    pub p4info: P4Info,
    /// What the compiler made for the target.
    pub device_config: Vec<u8>,
    /// Tells this pipeline from any other.
    pub cookie: u64,
}

/// Why there is no pipeline to load.
#[derive(Debug, thiserror::Error)]
pub enum PipelineError {
    /// A file cannot be read.
    #[error("the pipeline file {} cannot be read: {source}; correct `pipeline` in offload-ctl.toml", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// P4Info cannot be read.
    #[error("the P4Info cannot be read: {0}")]
    P4Info(#[from] p4runtime_proto::p4info::P4InfoError),
    /// It is not a build of our program.
    #[error(
        "the pipeline does not match the contract: {0}; use the pipeline that this version was built with"
    )]
    Contract(#[from] p4_contract::ContractMismatch),
}

impl Pipeline {
    /// The pipeline that is built in.
    ///
    /// # Errors
    /// Never with a release.
    pub fn built_in() -> Result<Self, PipelineError> {
        Ok(Self {
            p4info: p4_contract::p4info()?,
            device_config: p4_contract::PIPELINE_JSON.to_vec(),
            cookie: p4_contract::COOKIE,
        })
    }

    /// Another build of our program, for instance for hardware.
    ///
    /// # Errors
    /// If a file cannot be read, or it is not a build of our program.
    pub fn from_files(files: &sluice_config::Pipeline) -> Result<Self, PipelineError> {
        let read = |path: &PathBuf| {
            std::fs::read(path).map_err(|source| PipelineError::File {
                path: path.clone(),
                source,
            })
        };
        let device_config = read(&files.device_config)?;
        let text = read(&files.p4info)?;
        let p4info = p4runtime_proto::p4info::from_text(&String::from_utf8_lossy(&text))?;
        p4_contract::compatible(&p4info)?;
        Ok(Self {
            p4info,
            cookie: fnv1a(&[&device_config, &text]),
            device_config,
        })
    }
}

fn fnv1a(parts: &[&[u8]]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for byte in parts.iter().copied().flatten() {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash
}

/// Makes connections by P4Runtime.
pub struct P4RuntimeConnector {
    /// The switch and our claim to it.
    pub options: ConnectOptions,
    /// What it is to run.
    pub pipeline: Pipeline,
}

impl Connector for P4RuntimeConnector {
    fn connect(&self) -> BoxFuture<'_, Result<Connection, ConnectError>> {
        self.connect_inner().boxed()
    }

    fn target(&self) -> String {
        self.options.address.clone()
    }
}

impl P4RuntimeConnector {
    async fn connect_inner(&self) -> Result<Connection, ConnectError> {
        let retry = |error: Error| ConnectError::Retry(error.to_string());
        let (client, events) = Client::connect_with(self.options.clone())
            .await
            .map_err(retry)?;
        if !client.is_primary() {
            let other = client
                .arbitration()
                .and_then(|arbitration| arbitration.primary_id);
            return Err(ConnectError::Retry(format!(
                "another controller is primary{}; stop it, or set a higher p4runtime.election_id",
                other.map_or_else(String::new, |id| format!(" with election id {id}"))
            )));
        }
        let present = client
            .get_pipeline(ResponseType::CookieOnly)
            .await
            .map_err(retry)?
            .and_then(|config| config.cookie)
            .map(|cookie| cookie.cookie);
        let pushed = present != Some(self.pipeline.cookie);
        if pushed {
            tracing::info!(
                ?present,
                wanted = self.pipeline.cookie,
                "the switch has another pipeline or none, setting ours"
            );
            client
                .set_pipeline(
                    Action::VerifyAndCommit,
                    self.pipeline.p4info.clone(),
                    self.pipeline.device_config.clone(),
                    self.pipeline.cookie,
                )
                .await
                .map_err(|error| match error.code() {
                    Some(Code::InvalidArgument | Code::Unimplemented) => {
                        ConnectError::Fatal(format!("the switch refuses the pipeline: {error}"))
                    }
                    _ => retry(error),
                })?;
        }
        // Adopted or pushed: what counts is what the switch says it runs.
        let running = client
            .get_pipeline(ResponseType::P4infoAndCookie)
            .await
            .map_err(retry)?
            .and_then(|config| config.p4info);
        if let Some(running) = running {
            p4_contract::compatible(&running).map_err(|mismatch| {
                ConnectError::Fatal(format!(
                    "the switch's pipeline does not match the contract: {mismatch}; load the pipeline that this version was built with"
                ))
            })?;
        }
        let (sender, notices) = mpsc::channel(1024);
        tokio::spawn(forward(events, sender));
        Ok(Connection {
            dataplane: Arc::new(P4RuntimeDataplane { client }),
            notices,
            pushed,
        })
    }
}

async fn forward(mut events: Events, sender: mpsc::Sender<Notice>) {
    while let Some(event) = events.recv().await {
        let notice = match event {
            Event::IdleTimeout(entries) => Notice::Idle(
                entries
                    .iter()
                    .filter_map(|entry| convert::flow_key(entry).ok().flatten())
                    .collect(),
            ),
            Event::PacketIn { payload, metadata } => match PacketIn::from_metadata(&metadata) {
                Ok(header) => Notice::PacketIn {
                    port: header.ingress_port,
                    reason: header.reason as u8,
                    frame: payload,
                },
                Err(error) => {
                    tracing::warn!(%error, "packet-in without its header");
                    continue;
                }
            },
            Event::Arbitration(arbitration) if !arbitration.primary => {
                Notice::Lost("another controller has become primary".to_owned())
            }
            Event::Disconnected { reason } => Notice::Lost(reason.to_string()),
            Event::StreamError(error) => {
                tracing::warn!(?error, "the switch refuses a message");
                continue;
            }
            Event::Arbitration(_) | Event::Digest(_) => continue,
        };
        let last = matches!(notice, Notice::Lost(_));
        if sender.send(notice).await.is_err() || last {
            return;
        }
    }
    let _ = sender
        .send(Notice::Lost("the stream has ended".to_owned()))
        .await;
}

struct P4RuntimeDataplane {
    client: Client,
}

impl Dataplane for P4RuntimeDataplane {
    fn write(&self, updates: Vec<Update>) -> BoxFuture<'_, Result<Outcomes, Lost>> {
        self.write_inner(updates).boxed()
    }

    fn read_table(&self, table: Table) -> BoxFuture<'_, Result<Vec<Reading>, Lost>> {
        let info = info(table);
        let mut query = info.all_entries();
        ask_for_counters(&mut query, table);
        async move { readings(self.read(vec![query]).await?) }.boxed()
    }

    fn read_entries(&self, keys: Vec<Key>) -> BoxFuture<'_, Result<Vec<Reading>, Lost>> {
        let queries = keys
            .iter()
            .map(|key| {
                let mut query = convert::key_to_proto(key);
                ask_for_counters(&mut query, key.table());
                query
            })
            .collect();
        async move { readings(self.read_some(queries).await?) }.boxed()
    }

    fn read_counters(&self, counters: Vec<Counter>) -> BoxFuture<'_, Result<Cells, Lost>> {
        self.read_counters_inner(counters).boxed()
    }

    fn packet_out(&self, port: u16, frame: Vec<u8>) -> BoxFuture<'_, Result<(), Lost>> {
        let metadata = PacketOut { egress_port: port }.to_metadata();
        async move { self.client.packet_out(frame, metadata).await.map_err(lost) }.boxed()
    }
}

fn lost(error: Error) -> Lost {
    Lost(error.to_string())
}

/// Asks for what a flow entry has beside its key and action.
fn ask_for_counters(query: &mut TableEntry, table: Table) {
    let info = info(table);
    if info.direct_counter.is_some() {
        query.counter_data = Some(CounterData::default());
    }
    if info.idle_timeout {
        query.time_since_last_hit = Some(table_entry::IdleTimeout::default());
    }
}

fn readings(entries: Vec<TableEntry>) -> Result<Vec<Reading>, Lost> {
    let mut readings = Vec::with_capacity(entries.len());
    for entry in entries {
        if entry.is_default_action {
            continue;
        }
        match convert::entry_from_proto(&entry) {
            Ok(read) => readings.push(Reading {
                entry: read,
                count: entry.counter_data.map(count),
                idle_ms: entry
                    .time_since_last_hit
                    .and_then(|time| u64::try_from(time.elapsed_ns / 1_000_000).ok()),
            }),
            // An entry that nobody here can have written and that could not
            // be deleted by its key either.
            Err(error) => tracing::warn!(%error, "the switch has an entry that cannot be read"),
        }
    }
    Ok(readings)
}

fn count(data: CounterData) -> Count {
    Count {
        packets: u64::try_from(data.packet_count).unwrap_or(0),
        bytes: u64::try_from(data.byte_count).unwrap_or(0),
    }
}

impl P4RuntimeDataplane {
    async fn write_inner(&self, updates: Vec<Update>) -> Result<Outcomes, Lost> {
        let mut messages = Vec::with_capacity(updates.len());
        let mut refused_here = Vec::new();
        for (index, update) in updates.iter().enumerate() {
            let (kind, entry) = match update {
                Update::Insert(entry) => (update::Type::Insert, convert::entry_to_proto(entry)),
                Update::Modify(entry) => (update::Type::Modify, convert::entry_to_proto(entry)),
                Update::Delete(key) => (update::Type::Delete, Some(convert::key_to_proto(key))),
            };
            let Some(entry) = entry else {
                refused_here.push(index);
                continue;
            };
            messages.push(p4::Update {
                r#type: kind.into(),
                entity: Some(Entity {
                    entity: Some(entity::Entity::TableEntry(entry)),
                }),
            });
        }
        let outcome = self
            .client
            .write(messages, Atomicity::ContinueOnError)
            .await
            .map_err(lost)?;
        let mut outcomes: Outcomes = Vec::with_capacity(updates.len());
        let mut statuses = outcome.statuses.into_iter();
        for index in 0..updates.len() {
            if refused_here.contains(&index) {
                let what = "key and action are of two tables".to_owned();
                outcomes.push(Err(UpdateError::Refused(what)));
                continue;
            }
            outcomes.push(match statuses.next() {
                Some(UpdateStatus::Applied) => Ok(()),
                Some(UpdateStatus::Failed(error)) => Err(update_error(&error)),
                _ => return Err(Lost("the switch did not answer for all updates".to_owned())),
            });
        }
        Ok(outcomes)
    }

    async fn read(&self, queries: Vec<TableEntry>) -> Result<Vec<TableEntry>, Lost> {
        self.read_raw(queries).await.map_err(lost)
    }

    async fn read_raw(&self, queries: Vec<TableEntry>) -> Result<Vec<TableEntry>, Error> {
        let entities = queries
            .into_iter()
            .map(|query| Entity {
                entity: Some(entity::Entity::TableEntry(query)),
            })
            .collect();
        Ok(self
            .client
            .read(entities)
            .await?
            .into_iter()
            .filter_map(|entity| match entity.entity {
                Some(entity::Entity::TableEntry(entry)) => Some(entry),
                _ => None,
            })
            .collect())
    }

    /// Reads what is there of these. Some switches refuse a read that names an
    /// entry that is not there; then each is asked for by itself.
    async fn read_some(&self, queries: Vec<TableEntry>) -> Result<Vec<TableEntry>, Lost> {
        match self.read_raw(queries.clone()).await {
            Ok(entries) => return Ok(entries),
            Err(Error::PerUpdate(_)) => {}
            Err(error) if error.code() == Some(Code::NotFound) => {}
            Err(error) => return Err(lost(error)),
        }
        let mut entries = Vec::new();
        for query in queries {
            match self.read_raw(vec![query]).await {
                Ok(found) => entries.extend(found),
                Err(Error::PerUpdate(_)) => {}
                Err(error) if error.code() == Some(Code::NotFound) => {}
                Err(error) => return Err(lost(error)),
            }
        }
        Ok(entries)
    }

    async fn read_counters_inner(&self, wanted: Vec<Counter>) -> Result<Cells, Lost> {
        let queries = wanted
            .iter()
            .map(|counter| Entity {
                entity: Some(entity::Entity::CounterEntry(
                    counter_info(*counter).all_cells(),
                )),
            })
            .collect();
        let by_id: BTreeMap<u32, Counter> = wanted
            .iter()
            .map(|counter| (counter_info(*counter).id, *counter))
            .collect();
        let mut cells: Cells = wanted
            .into_iter()
            .map(|counter| (counter, BTreeMap::new()))
            .collect();
        for entity in self.client.read(queries).await.map_err(lost)? {
            let Some(entity::Entity::CounterEntry(cell)) = entity.entity else {
                continue;
            };
            let counter = by_id.get(&cell.counter_id);
            let index = cell.index.and_then(|index| u32::try_from(index.index).ok());
            let count = cell.data.map(count).unwrap_or_default();
            if let (Some(counter), Some(index)) = (counter, index)
                && count != Count::default()
            {
                cells.entry(*counter).or_default().insert(index, count);
            }
        }
        Ok(cells)
    }
}

fn counter_info(counter: Counter) -> p4_contract::Counter {
    match counter {
        Counter::IngressPortRx => counters::INGRESS_PORT_RX,
        Counter::EgressPortTx => counters::EGRESS_PORT_TX,
        Counter::Drop => counters::DROP,
        Counter::Path => counters::PATH,
        Counter::VipRx => counters::VIP_RX,
        Counter::VipFastFwd => counters::VIP_FAST_FWD,
        Counter::VipFastRev => counters::VIP_FAST_REV,
        Counter::ServerFastFwd => counters::SERVER_FAST_FWD,
        Counter::ServerFastRev => counters::SERVER_FAST_REV,
    }
}

/// bmv2 tells of a full table by no code of its own, and by words that are not
/// to be relied on; the book's own count comes first.
fn update_error(error: &p4runtime_client::UpdateError) -> UpdateError {
    let text = if error.message.is_empty() {
        format!("{:?}", error.code)
    } else {
        format!("{:?}: {}", error.code, error.message)
    };
    match error.code {
        Code::AlreadyExists => UpdateError::Exists,
        Code::NotFound => UpdateError::NotFound,
        Code::ResourceExhausted => UpdateError::Full(text),
        _ => UpdateError::Refused(text),
    }
}
