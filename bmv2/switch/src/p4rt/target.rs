//! A pipeline with all that controllers have written to it.

use std::collections::HashMap;
use std::sync::Arc;

use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1::ValueSetEntry;

use super::Mode;
use super::binding::Binding;
use super::digest::SwitchedOn;
use super::profiles::Profiles;
use super::replication::Replication;
use crate::Switch;

/// A pipeline configuration as it was pushed, bound to its program.
#[derive(Debug)]
pub(super) struct Pipeline {
    pub(super) p4info: P4Info,
    pub(super) device_config: Vec<u8>,
    pub(super) cookie: Option<u64>,
    pub(super) binding: Binding,
}

/// The controller's own marks on a default entry, which tables do not keep.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Marks {
    pub(super) cookie: u64,
    pub(super) metadata: Vec<u8>,
}

/// What Read and Write work on: the switch, the pipeline that runs on it, and
/// what P4Runtime keeps beside its tables.
///
/// A clone is cheap and shows the server's own records as they were; a write
/// copies those that a clone still holds.
#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) mode: Mode,
    pub(super) switch: Arc<Switch>,
    pub(super) pipeline: Arc<Pipeline>,
    pub(super) profiles: Arc<Profiles>,
    pub(super) replication: Arc<Replication>,
    pub(super) default_marks: Arc<HashMap<u32, Marks>>,
    /// Digests that are switched on.
    pub(super) digests: Arc<HashMap<u32, SwitchedOn>>,
    /// How often any was switched on.
    pub(super) digests_switched_on: u64,
    /// Value sets as they were written.
    pub(super) value_sets: Arc<HashMap<u32, ValueSetEntry>>,
}

impl Target {
    pub(super) fn new(mode: Mode, switch: Arc<Switch>, pipeline: Arc<Pipeline>) -> Self {
        Self {
            mode,
            switch,
            pipeline,
            profiles: Arc::default(),
            replication: Arc::default(),
            default_marks: Arc::default(),
            digests: Arc::default(),
            digests_switched_on: 0,
            value_sets: Arc::default(),
        }
    }
}
