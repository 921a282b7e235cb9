//! All counters of the switch, and what changed between two readings.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Context, Result, bail};
use p4_contract::tables::{AnyEntry, flow_fwd_v4, flow_rev_v4};
use p4_contract::{Counter, DropReason, Path, counters};
use p4runtime_client::Client;
use p4runtime_proto::p4::v1::{
    CounterData, CounterEntry, Entity, TableEntry, entity::Entity as Kind,
};

use crate::scene;

/// One counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cell {
    /// `ingress_port_rx`.
    IngressRx(u16),
    /// `egress_port_tx`.
    EgressTx(u16),
    /// `drop`.
    Drop(DropReason),
    /// `path`.
    Path(Path),
    /// `vip_rx`.
    VipRx(u16),
    /// `vip_fast_fwd`.
    VipFastFwd(u16),
    /// `vip_fast_rev`.
    VipFastRev(u16),
    /// `server_fast_fwd`.
    ServerFastFwd(u16),
    /// `server_fast_rev`.
    ServerFastRev(u16),
    /// An entry of `flow_fwd_v4`.
    FlowFwd(flow_fwd_v4::Key),
    /// An entry of `flow_rev_v4`.
    FlowRev(flow_rev_v4::Key),
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IngressRx(at) => write!(f, "ingress_port_rx[{at}]"),
            Self::EgressTx(at) => write!(f, "egress_port_tx[{at}]"),
            Self::Drop(reason) => write!(f, "drop[{reason}]"),
            Self::Path(path) => write!(f, "path[{path}]"),
            Self::VipRx(at) => write!(f, "vip_rx[{at}]"),
            Self::VipFastFwd(at) => write!(f, "vip_fast_fwd[{at}]"),
            Self::VipFastRev(at) => write!(f, "vip_fast_rev[{at}]"),
            Self::ServerFastFwd(at) => write!(f, "server_fast_fwd[{at}]"),
            Self::ServerFastRev(at) => write!(f, "server_fast_rev[{at}]"),
            Self::FlowFwd(key) => write!(f, "{key:?}"),
            Self::FlowRev(key) => write!(f, "{key:?}"),
        }
    }
}

/// Packets and bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// Packets.
    pub packets: u64,
    /// Bytes of whole frames.
    pub bytes: u64,
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} packets, {} bytes", self.packets, self.bytes)
    }
}

/// Counters that are not zero.
pub type Counts = BTreeMap<Cell, Count>;

/// Reads every counter that the tests can move, and all flow entries'.
///
/// # Errors
/// If the switch does not answer as the contract has it.
pub async fn read(client: &Client) -> Result<Counts> {
    let cells = watched();
    let mut queries: Vec<Entity> = cells
        .iter()
        .filter_map(|cell| indexed(*cell))
        .map(|(counter, index)| counter.cell(index).into())
        .collect();
    for table in [flow_fwd_v4::INFO, flow_rev_v4::INFO] {
        let mut all: TableEntry = table.all_entries();
        all.counter_data = Some(CounterData::default());
        queries.push(all.into());
    }
    let mut counts = Counts::new();
    for entity in client.read(queries).await? {
        let (cell, data) = match entity.entity {
            Some(Kind::CounterEntry(cell)) => (named(&cell)?, cell.data),
            Some(Kind::TableEntry(entry)) if entry.is_default_action => continue,
            Some(Kind::TableEntry(entry)) => {
                let cell = match AnyEntry::from_proto(&entry)? {
                    AnyEntry::FlowFwdV4(flow) => Cell::FlowFwd(flow.key),
                    AnyEntry::FlowRevV4(flow) => Cell::FlowRev(flow.key),
                    other => bail!("asked for flows, got {other:?}"),
                };
                (cell, entry.counter_data)
            }
            other => bail!("asked for counters, got {other:?}"),
        };
        let data = data.with_context(|| format!("{cell} has no value"))?;
        insert(&mut counts, cell, &data)?;
    }
    Ok(counts)
}

/// Reads all cells of all arrays.
///
/// # Errors
/// If the switch does not answer as the contract has it.
pub async fn read_all(client: &Client) -> Result<Counts> {
    let mut counts = Counts::new();
    for counter in counters::ALL {
        let mut cells = 0;
        for entity in client.read(vec![counter.all_cells().into()]).await? {
            let Some(Kind::CounterEntry(cell)) = entity.entity else {
                bail!("asked for {}, got {entity:?}", counter.name);
            };
            cells += 1;
            let Some(data) = cell.data else { continue };
            if data.packet_count == 0 && data.byte_count == 0 {
                continue;
            }
            insert(&mut counts, named(&cell)?, &data)?;
        }
        if cells != counter.size {
            bail!(
                "{} has {} cells, {cells} were read",
                counter.name,
                counter.size
            );
        }
    }
    Ok(counts)
}

/// What was counted between two readings.
pub fn difference(before: &Counts, after: &Counts) -> Counts {
    let mut changed = Counts::new();
    for (cell, now) in after {
        let was = before.get(cell).copied().unwrap_or_default();
        let count = Count {
            // An entry that was written anew counts from zero.
            packets: now.packets.wrapping_sub(was.packets),
            bytes: now.bytes.wrapping_sub(was.bytes),
        };
        if count != Count::default() {
            changed.insert(*cell, count);
        }
    }
    changed
}

/// Fails unless every packet that came in went out or was dropped under a
/// name, and every one that was not dropped has a path.
///
/// # Errors
/// With the sums.
pub fn balance(counts: &Counts) -> Result<()> {
    let sum = |belongs: fn(&Cell) -> bool| {
        counts
            .iter()
            .filter(|(cell, _)| belongs(cell))
            .fold(Count::default(), |sum, (_, count)| Count {
                packets: sum.packets + count.packets,
                bytes: sum.bytes + count.bytes,
            })
    };
    let came = sum(|cell| matches!(cell, Cell::IngressRx(_)));
    let went = sum(|cell| matches!(cell, Cell::EgressTx(_)));
    let dropped = sum(|cell| matches!(cell, Cell::Drop(_)));
    let ways = sum(|cell| matches!(cell, Cell::Path(path) if *path != Path::FastIncomplete));
    if came.packets != went.packets + dropped.packets || came.bytes != went.bytes + dropped.bytes {
        bail!("the books do not balance: {came} in, {went} out, {dropped} dropped");
    }
    if ways != went {
        bail!("the books do not balance: {went} out, {ways} by path");
    }
    for cell in [Cell::Drop(DropReason::None), Cell::Path(Path::None)] {
        if let Some(count) = counts.get(&cell) {
            bail!("{cell} is {count} and must never be counted");
        }
    }
    Ok(())
}

fn insert(counts: &mut Counts, cell: Cell, data: &CounterData) -> Result<()> {
    let count = Count {
        packets: u64::try_from(data.packet_count).with_context(|| format!("{cell} < 0"))?,
        bytes: u64::try_from(data.byte_count).with_context(|| format!("{cell} < 0"))?,
    };
    if count != Count::default() {
        counts.insert(cell, count);
    }
    Ok(())
}

/// All indexed cells that a case can move.
fn watched() -> Vec<Cell> {
    let ports = || (0..=8).chain([510, 511]);
    let mut cells: Vec<Cell> = ports().map(Cell::IngressRx).collect();
    cells.extend(ports().map(Cell::EgressTx));
    cells.extend(DropReason::ALL.map(Cell::Drop));
    cells.extend(Path::ALL.map(Cell::Path));
    for id in 0..=scene::TENANT_WEB + 1 {
        cells.extend([Cell::VipRx(id), Cell::VipFastFwd(id), Cell::VipFastRev(id)]);
    }
    for id in scene::WEB_SERVER - 1..=scene::SMALL_WEB_SERVER + 1 {
        cells.extend([Cell::ServerFastFwd(id), Cell::ServerFastRev(id)]);
    }
    cells
}

fn indexed(cell: Cell) -> Option<(Counter, u32)> {
    let (counter, index) = match cell {
        Cell::IngressRx(at) => (counters::INGRESS_PORT_RX, at),
        Cell::EgressTx(at) => (counters::EGRESS_PORT_TX, at),
        Cell::Drop(reason) => (counters::DROP, u16::from(u8::from(reason))),
        Cell::Path(path) => (counters::PATH, u16::from(u8::from(path))),
        Cell::VipRx(at) => (counters::VIP_RX, at),
        Cell::VipFastFwd(at) => (counters::VIP_FAST_FWD, at),
        Cell::VipFastRev(at) => (counters::VIP_FAST_REV, at),
        Cell::ServerFastFwd(at) => (counters::SERVER_FAST_FWD, at),
        Cell::ServerFastRev(at) => (counters::SERVER_FAST_REV, at),
        Cell::FlowFwd(_) | Cell::FlowRev(_) => return None,
    };
    Some((counter, index.into()))
}

fn named(cell: &CounterEntry) -> Result<Cell> {
    let index = cell
        .index
        .as_ref()
        .and_then(|index| u16::try_from(index.index).ok())
        .context("a counter cell without index")?;
    let member = || u8::try_from(index).with_context(|| format!("no member {index}"));
    Ok(match cell.counter_id {
        id if id == counters::INGRESS_PORT_RX.id => Cell::IngressRx(index),
        id if id == counters::EGRESS_PORT_TX.id => Cell::EgressTx(index),
        id if id == counters::DROP.id => Cell::Drop(member()?.try_into()?),
        id if id == counters::PATH.id => Cell::Path(member()?.try_into()?),
        id if id == counters::VIP_RX.id => Cell::VipRx(index),
        id if id == counters::VIP_FAST_FWD.id => Cell::VipFastFwd(index),
        id if id == counters::VIP_FAST_REV.id => Cell::VipFastRev(index),
        id if id == counters::SERVER_FAST_FWD.id => Cell::ServerFastFwd(index),
        id if id == counters::SERVER_FAST_REV.id => Cell::ServerFastRev(index),
        id => bail!("the program has no counter {id:#x}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(cells: &[(Cell, u64)]) -> Counts {
        cells
            .iter()
            .map(|(cell, packets)| {
                let bytes = packets * 100;
                (
                    *cell,
                    Count {
                        packets: *packets,
                        bytes,
                    },
                )
            })
            .collect()
    }

    #[test]
    fn a_lost_packet_is_noticed() {
        let good = [
            (Cell::IngressRx(1), 3),
            (Cell::EgressTx(2), 2),
            (Cell::Path(Path::Routed), 2),
            (Cell::Path(Path::FastIncomplete), 1),
            (Cell::Drop(DropReason::NoRoute), 1),
        ];
        assert!(balance(&counts(&good)).is_ok());
        for at in [0, 1, 2, 4] {
            let mut bad = good;
            bad[at].1 += 1;
            assert!(balance(&counts(&bad)).is_err(), "{at}");
        }
    }

    #[test]
    fn only_what_changed_is_a_difference() {
        let before = counts(&[(Cell::IngressRx(1), 3), (Cell::EgressTx(2), 2)]);
        let after = counts(&[(Cell::IngressRx(1), 3), (Cell::EgressTx(2), 4)]);
        assert_eq!(
            difference(&before, &after),
            counts(&[(Cell::EgressTx(2), 2)])
        );
    }
}
