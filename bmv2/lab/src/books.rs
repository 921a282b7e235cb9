//! The switch's and the load director's counters, and what they add up to.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, bail};
use offload_api::v1::{GetBooksResponse, NamedTotals};
use serde::Serialize;

use crate::admin::Admin;
use crate::topology::Topology;
use crate::traffic::wait_for;

/// The port index under which the switch counts what it hands to offload-ctl.
const CPU_PORT: u32 = 510;

/// The switch's counters at one moment, packets.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Books {
    /// Entered, all ports.
    pub entered: u64,
    /// Of these, from offload-ctl (packet-out).
    pub entered_from_cpu: u64,
    /// Left through a port.
    pub forwarded: u64,
    /// Handed to offload-ctl (packet-in).
    pub punted: u64,
    /// Dropped, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Entered, less all of the above.
    pub unaccounted_packets: i64,
    /// Which way packets took, by name.
    pub paths: BTreeMap<String, u64>,
    /// Entries in the flow tables: towards servers, towards clients.
    pub flow_entries: (u64, u64),
    /// Entered, by port.
    #[serde(skip)]
    pub by_port: BTreeMap<u16, u64>,
}

impl Books {
    /// Reads the switch's counters through offload-ctl.
    ///
    /// # Errors
    /// If it can't.
    pub fn read(admin: &Admin) -> Result<Self> {
        let read = admin.books()?;
        let mut books = Self::from(&read);
        // The same sum is made by offload-ctl; two ways that differ are a bug.
        let dropped: u64 = books.dropped.values().sum();
        let sum = i64::try_from(books.entered)?
            - i64::try_from(books.forwarded + books.punted + dropped)?;
        if sum != read.unaccounted_packets {
            bail!(
                "offload-ctl counts {} unaccounted packets, the lab {sum} from the same counters",
                read.unaccounted_packets
            );
        }
        books.unaccounted_packets = sum;
        Ok(books)
    }

    /// Reads them when traffic has ended: counters are read one after the
    /// other, so a packet on its way shows as a difference that passes.
    ///
    /// # Errors
    /// If they can't be read.
    pub fn settled(admin: &Admin) -> Result<Self> {
        let mut last = Self::read(admin)?;
        for _ in 0..10 {
            if last.unaccounted_packets == 0 {
                break;
            }
            std::thread::sleep(Duration::from_millis(200));
            last = Self::read(admin)?;
        }
        Ok(last)
    }

    /// Packets that took `path`.
    pub fn path(&self, path: &str) -> u64 {
        self.paths.get(path).copied().unwrap_or_default()
    }

    /// Packets the switch rewrote itself.
    pub fn fast(&self) -> u64 {
        self.path("FAST_FWD") + self.path("FAST_REV")
    }

    /// Packets of VIPs that went to a load director.
    pub fn slow(&self) -> u64 {
        self.path("STEER_VIP") + self.path("STEER_LIP") + self.path("STEER_MTU")
    }
}

impl From<&GetBooksResponse> for Books {
    fn from(read: &GetBooksResponse) -> Self {
        let packets = |entry: &NamedTotals| entry.totals.map_or(0, |totals| totals.packets);
        let named = |entries: &[NamedTotals]| -> BTreeMap<String, u64> {
            entries
                .iter()
                .filter(|entry| packets(entry) > 0)
                .map(|entry| (entry.name.clone(), packets(entry)))
                .collect()
        };
        let sum = |entries: &[NamedTotals], cpu: bool| -> u64 {
            entries
                .iter()
                .filter(|entry| (entry.index == CPU_PORT) == cpu)
                .map(packets)
                .sum()
        };
        Self {
            entered: sum(&read.ports_rx, false) + sum(&read.ports_rx, true),
            entered_from_cpu: sum(&read.ports_rx, true),
            forwarded: sum(&read.ports_tx, false),
            punted: sum(&read.ports_tx, true),
            dropped: named(&read.drops),
            unaccounted_packets: 0,
            paths: named(&read.paths),
            flow_entries: (read.flow_fwd_entries, read.flow_rev_entries),
            by_port: read
                .ports_rx
                .iter()
                .filter_map(|entry| Some((u16::try_from(entry.index).ok()?, packets(entry))))
                .collect(),
        }
    }
}

/// Packets that the kernel delivered to the switch's interfaces and the switch
/// did not count: lost in front of the pipeline, in the socket's ring.
///
/// # Errors
/// If a counter can't be read.
pub fn missed_before_switch(topology: &Topology, books: &Books) -> Result<i64> {
    let mut missed = 0;
    for (port, delivered) in topology.delivered()? {
        let counted = books.by_port.get(&port).copied().unwrap_or_default();
        missed += i64::try_from(delivered)? - i64::try_from(counted)?;
    }
    Ok(missed)
}

/// Waits until nothing of any connection is left: no entry on the switch, no
/// session and no local port in the load director.
///
/// # Errors
/// If something is left after `limit`; says what.
pub fn wait_for_rest(admin: &Admin, limit: Duration) -> Result<()> {
    let mut left = String::new();
    let waited = wait_for("rest", limit, || {
        let books = Books::read(admin)?;
        let ld = admin.ld()?;
        let (fwd, rev) = books.flow_entries;
        let sessions = ld.gauge("sessions")?;
        let in_use = ld.gauge("local_ports_in_use")?;
        let resting = ld.gauge("local_ports_quarantined")?;
        let flows = admin.flows()?;
        left = format!(
            "{fwd} + {rev} entries on the switch, {flows} flows in offload-ctl, {sessions} sessions, \
             {in_use} local ports in use and {resting} resting in the load director"
        );
        Ok(fwd + rev + flows + sessions + in_use + resting == 0)
    });
    match waited {
        Ok(_) => Ok(()),
        Err(error) => bail!("{error}; left: {left}"),
    }
}
