//! What must outlive the process: operators' intent, ids, LDs' boot ids.
//!
//! One transaction writes all that belongs together, so that a crash leaves
//! either the old version or the new one.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use redb::{Database, DatabaseError, ReadableDatabase, ReadableTable, TableDefinition};
use serde::{Deserialize, Serialize};

use crate::ids::{IdBook, Identity, Kind, Limits};

/// Versions kept for a way back.
pub const HISTORY: u64 = 16;

const VERSIONS: TableDefinition<u64, &str> = TableDefinition::new("versions");
const IDS: TableDefinition<u64, &str> = TableDefinition::new("ids");
const CURSORS: TableDefinition<&str, u64> = TableDefinition::new("cursors");
const BOOTS: TableDefinition<&str, u64> = TableDefinition::new("boots");

/// A version of operators' intent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// Counted from 1; 0: nothing was ever applied.
    pub version: u64,
    /// When, ms since 1970.
    pub applied_unix_ms: u64,
    /// gateway.toml.
    pub text: String,
    /// Servers that operators took out of service, (VIP, server) by name.
    #[serde(default)]
    pub drained: Vec<(String, String)>,
    /// Removed VIPs that may have sessions yet, as they were.
    #[serde(default)]
    pub retiring: Vec<RetiringVip>,
    /// Local addresses with their slots.
    #[serde(default)]
    pub locals: Vec<LocalSlot>,
    /// Removed local addresses that may have sessions yet.
    #[serde(default)]
    pub retiring_locals: Vec<LocalSlot>,
    /// Version that changed a VIP last, by id.
    #[serde(default)]
    pub generations: BTreeMap<u16, u32>,
}

/// A VIP that was removed from the configuration and may still carry sessions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetiringVip {
    /// The VIP as it was.
    pub vip: sluice_config::Vip,
    /// Its group as it was, for when that is removed too.
    pub group: sluice_config::Group,
}

/// A local address and the slot that owns it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalSlot {
    /// Tenant.
    pub vni: u32,
    /// The address.
    pub addr: Ipv4Addr,
    /// Group of its slot.
    pub group: String,
    /// Number of its slot in the group.
    pub number: u16,
}

/// Why the store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process has it open.
    #[error("the store {} is locked: another offload-ctl uses it; stop that one or set another `store`", .0.display())]
    Locked(PathBuf),
    /// It cannot be opened.
    #[error("the store {} cannot be opened: {source}; check the path and its permissions", .path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A read or a write failed.
    #[error("the store failed: {0}")]
    Database(#[from] Box<redb::Error>),
    /// A record cannot be read.
    #[error("the store holds a record that this version cannot read: {0}")]
    Record(#[from] serde_json::Error),
}

macro_rules! from_redb {
    ($($error:ty),*) => {
        $(impl From<$error> for StoreError {
            fn from(error: $error) -> Self {
                StoreError::Database(Box::new(error.into()))
            }
        })*
    };
}
from_redb!(
    redb::TransactionError,
    redb::TableError,
    redb::StorageError,
    redb::CommitError
);

#[derive(Serialize, Deserialize)]
struct IdRecord {
    kind: Kind,
    id: u16,
    identity: Identity,
}

/// The embedded store.
pub struct Store {
    database: Database,
}

impl Store {
    /// Opens the store, or makes it.
    ///
    /// # Errors
    /// [`StoreError::Locked`] if another process has it, else
    /// [`StoreError::Open`].
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let open_error = |source: Box<dyn std::error::Error + Send + Sync>| StoreError::Open {
            path: path.to_owned(),
            source,
        };
        if let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
            std::fs::create_dir_all(parent).map_err(|error| open_error(Box::new(error)))?;
        }
        let database = Database::create(path).map_err(|error| match error {
            DatabaseError::DatabaseAlreadyOpen => StoreError::Locked(path.to_owned()),
            other => open_error(Box::new(other)),
        })?;
        let transaction = database.begin_write()?;
        transaction.open_table(VERSIONS)?;
        transaction.open_table(IDS)?;
        transaction.open_table(CURSORS)?;
        transaction.open_table(BOOTS)?;
        transaction.commit()?;
        Ok(Self { database })
    }

    /// The present version and the ids.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn load(&self, limits: Limits) -> Result<(Version, IdBook), StoreError> {
        let transaction = self.database.begin_read()?;
        let version = match transaction.open_table(VERSIONS)?.last()? {
            Some((_, json)) => serde_json::from_str(json.value())?,
            None => Version::default(),
        };
        let mut ids = IdBook::new(limits);
        for record in transaction.open_table(IDS)?.iter()? {
            let record: IdRecord = serde_json::from_str(record?.1.value())?;
            ids.insert(record.id, record.identity);
        }
        let cursors = transaction.open_table(CURSORS)?;
        for kind in Kind::ALL {
            if let Some(cursor) = cursors.get(kind.name())? {
                ids.set_cursor(kind, u16::try_from(cursor.value()).unwrap_or(0));
            }
        }
        Ok((version, ids))
    }

    /// An earlier version, if it is still kept.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn version(&self, version: u64) -> Result<Option<Version>, StoreError> {
        let transaction = self.database.begin_read()?;
        let table = transaction.open_table(VERSIONS)?;
        Ok(match table.get(version)? {
            Some(json) => Some(serde_json::from_str(json.value())?),
            None => None,
        })
    }

    /// Writes a version and the ids that it uses, all or nothing.
    ///
    /// # Errors
    /// If the store cannot be written; nothing has changed then.
    pub fn save(&self, version: &Version, ids: &IdBook) -> Result<(), StoreError> {
        let transaction = self.database.begin_write()?;
        {
            let mut versions = transaction.open_table(VERSIONS)?;
            versions.insert(version.version, serde_json::to_string(version)?.as_str())?;
            let oldest = version.version.saturating_sub(HISTORY - 1);
            versions.retain(|number, _| number >= oldest)?;
            let mut table = transaction.open_table(IDS)?;
            table.retain(|_, _| false)?;
            for (index, (kind, id, identity)) in (0u64..).zip(ids.iter()) {
                let record = IdRecord {
                    kind,
                    id,
                    identity: identity.clone(),
                };
                table.insert(index, serde_json::to_string(&record)?.as_str())?;
            }
            let mut cursors = transaction.open_table(CURSORS)?;
            for (kind, id) in ids.cursors() {
                cursors.insert(kind.name(), u64::from(id))?;
            }
        }
        transaction.commit()?;
        Ok(())
    }

    /// The boot id that an LD had when it was last seen.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn boot(&self, ld: &str) -> Result<Option<u64>, StoreError> {
        let transaction = self.database.begin_read()?;
        let table = transaction.open_table(BOOTS)?;
        Ok(table.get(ld)?.map(|boot| boot.value()))
    }

    /// Remembers an LD's boot id.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub fn set_boot(&self, ld: &str, boot: u64) -> Result<(), StoreError> {
        let transaction = self.database.begin_write()?;
        transaction.open_table(BOOTS)?.insert(ld, boot)?;
        transaction.commit()?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const LIMITS: Limits = Limits {
        vips: 10,
        servers: 10,
        locals: 10,
        slots: 10,
        nexthops: 10,
        groups: 10,
    };

    fn version(number: u64) -> Version {
        Version {
            version: number,
            applied_unix_ms: 1_700_000_000_000,
            text: format!("# {number}"),
            drained: vec![("web".into(), "s1".into())],
            ..Version::default()
        }
    }

    #[test]
    fn what_was_saved_comes_back_after_reopening() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/store.redb");
        let mut ids = IdBook::new(LIMITS);
        let local = |last| Identity::Local {
            vni: 7,
            addr: Ipv4Addr::new(10, 9, 0, last),
        };
        ids.allocate(&local(1)).unwrap();
        ids.allocate(&local(2)).unwrap();
        ids.release(Kind::Local, 2);
        {
            let store = Store::open(&path).unwrap();
            assert_eq!(store.load(LIMITS).unwrap().0, Version::default());
            store.save(&version(1), &ids).unwrap();
            store.set_boot("ld1", 42).unwrap();
        }
        let store = Store::open(&path).unwrap();
        let (loaded, mut book) = store.load(LIMITS).unwrap();
        assert_eq!(loaded, version(1));
        assert_eq!(book, ids);
        assert_eq!(book.allocate(&local(3)), Ok(3), "2 rests");
        assert_eq!(store.boot("ld1").unwrap(), Some(42));
        assert_eq!(store.boot("ld2").unwrap(), None);
    }

    #[test]
    fn history_is_bounded_and_the_last_version_is_loaded() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("s")).unwrap();
        for number in 1..=HISTORY + 3 {
            store.save(&version(number), &IdBook::new(LIMITS)).unwrap();
        }
        assert_eq!(store.load(LIMITS).unwrap().0.version, HISTORY + 3);
        assert_eq!(store.version(3).unwrap(), None);
        assert_eq!(store.version(4).unwrap(), Some(version(4)));
    }

    #[test]
    fn a_second_opener_is_told_that_it_is_locked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let _first = Store::open(&path).unwrap();
        let error = Store::open(&path).err().unwrap().to_string();
        assert!(error.contains("locked"), "{error}");
    }

    #[test]
    fn a_file_that_is_no_store_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        std::fs::write(&path, "not a database, but long enough to be looked at").unwrap();
        let error = Store::open(&path).err().unwrap().to_string();
        assert!(error.contains(path.to_str().unwrap()), "{error}");
    }
}
