//! The tests' controller of a switch: primary, with the gateway's pipeline.

use std::future::Future;

use anyhow::Result;
use p4_contract::tables::AnyEntry;
use p4_contract::{COOKIE, PIPELINE_JSON, p4info};
use p4runtime_client::{BatchLimits, Client, Events, entry};
use p4runtime_proto::p4::v1::{Update, set_forwarding_pipeline_config_request::Action};
use tokio::runtime::Runtime;

/// A controller and the runtime it lives in.
#[derive(Debug)]
pub struct Controller {
    /// The connection.
    pub client: Client,
    /// What the switch tells unasked.
    pub events: Events,
    /// Where both run.
    pub runtime: Runtime,
}

impl Controller {
    /// A runtime for a controller. Its one thread is made by the current one,
    /// and so belongs to the same network namespace.
    ///
    /// # Errors
    /// If the thread can't be made.
    pub fn runtime() -> Result<Runtime> {
        Ok(tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?)
    }

    /// Runs a call to its end; each has its own deadline.
    pub fn wait<T>(&self, call: impl Future<Output = T>) -> T {
        self.runtime.block_on(call)
    }

    /// Gives the switch the gateway's pipeline, with empty tables.
    ///
    /// # Errors
    /// If the switch refuses it.
    pub fn set_pipeline(&self) -> Result<()> {
        let json = PIPELINE_JSON.to_vec();
        let set = self
            .client
            .set_pipeline(Action::VerifyAndCommit, p4info()?, json, COOKIE);
        Ok(self.wait(set)?)
    }

    /// Writes updates, in as few requests as order allows.
    ///
    /// # Errors
    /// If the switch refused one.
    pub fn write(&self, updates: Vec<Update>) -> Result<()> {
        self.wait(self.client.write_batched(updates, BatchLimits::default()))?
            .into_result()?;
        Ok(())
    }

    /// Inserts entries.
    ///
    /// # Errors
    /// If the switch refused one.
    pub fn insert<'a>(&self, entries: impl IntoIterator<Item = &'a AnyEntry>) -> Result<()> {
        let inserts = entries.into_iter().map(|e| entry::insert(e.to_proto()));
        self.write(inserts.collect())
    }
}
