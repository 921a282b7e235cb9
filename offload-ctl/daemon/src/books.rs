//! The switch's books: every packet that entered is forwarded, handed to us or
//! dropped under a name.

use std::collections::HashMap;

use offload_api::v1;
use p4_contract::Path;
use p4_contract::constants::CPU_PORT;

use crate::dataplane::{Count, Counter, Dataplane, Lost};
use crate::entry::Table;
use crate::grpc::{drop_name, totals};

/// The name of what a switch loses between ingress and egress. No counter of
/// the P4 program can see it: bmv2 drops at the tail of its egress queues.
const EGRESS_QUEUE_FULL: &str = "EGRESS_QUEUE_FULL";

/// Packets of some counter cells together.
fn packets<'a>(cells: impl Iterator<Item = (&'a u32, &'a Count)>) -> i64 {
    cells
        .map(|(_, count)| i64::try_from(count.packets).unwrap_or(i64::MAX))
        .fold(0, i64::saturating_add)
}

/// The indexed counters with names, and whether they add up.
///
/// # Errors
/// If the switch could not be read.
pub async fn read(
    dataplane: &dyn Dataplane,
    ports: &HashMap<u32, String>,
) -> Result<v1::GetBooksResponse, Lost> {
    let cells = dataplane
        .read_counters(vec![
            Counter::IngressPortRx,
            Counter::EgressPortTx,
            Counter::Drop,
            Counter::Path,
        ])
        .await?;
    let flow_fwd = dataplane.read_table(Table::FlowFwdV4).await?.len() as u64;
    let flow_rev = dataplane.read_table(Table::FlowRevV4).await?.len() as u64;
    let named = |counter: Counter, name: &dyn Fn(u32) -> String| -> Vec<v1::NamedTotals> {
        cells
            .get(&counter)
            .into_iter()
            .flatten()
            .map(|(&index, count)| v1::NamedTotals {
                name: name(index),
                index,
                totals: Some(totals(count)),
            })
            .collect()
    };
    let port_name = |port: u32| {
        if port == u32::from(CPU_PORT) {
            return "cpu".to_owned();
        }
        ports
            .get(&port)
            .cloned()
            .unwrap_or_else(|| format!("port {port}"))
    };
    let path_name = |index: u32| {
        let path = Path::ALL.into_iter().find(|path| *path as u32 == index);
        path.map_or_else(|| format!("PATH_{index}"), |path| path.name().to_owned())
    };
    let sum = |counter: Counter| packets(cells.get(&counter).into_iter().flatten());
    let mut drops = named(Counter::Drop, &drop_name);
    // Sent on by ingress, never seen by egress: the queue between them was
    // full. A packet counts once as a path, FAST_INCOMPLETE aside.
    let sent_on = packets(
        cells
            .get(&Counter::Path)
            .into_iter()
            .flatten()
            .filter(|(index, _)| **index != Path::FastIncomplete as u32),
    );
    let queue = sent_on.saturating_sub(sum(Counter::EgressPortTx)).max(0);
    if let Ok(queue @ 1..) = u64::try_from(queue) {
        drops.push(v1::NamedTotals {
            name: EGRESS_QUEUE_FULL.to_owned(),
            index: u32::MAX,
            totals: Some(v1::Totals {
                packets: queue,
                // The queue's switch does not say.
                bytes: 0,
            }),
        });
    }
    Ok(v1::GetBooksResponse {
        ports_rx: named(Counter::IngressPortRx, &port_name),
        ports_tx: named(Counter::EgressPortTx, &port_name),
        paths: named(Counter::Path, &path_name),
        drops,
        unaccounted_packets: sum(Counter::IngressPortRx)
            - sum(Counter::EgressPortTx)
            - sum(Counter::Drop)
            - queue,
        flow_fwd_entries: flow_fwd,
        flow_rev_entries: flow_rev,
    })
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use futures::future::BoxFuture;

    use super::*;
    use crate::dataplane::{Cells, Outcomes, Reading, Update};
    use crate::entry::Key;

    /// A switch that only has counters.
    struct Counters(Vec<(Counter, u32, u64)>);

    impl Dataplane for Counters {
        fn write(&self, updates: Vec<Update>) -> BoxFuture<'_, Result<Outcomes, Lost>> {
            async move { Ok(updates.iter().map(|_| Ok(())).collect()) }.boxed()
        }

        fn read_table(&self, _: Table) -> BoxFuture<'_, Result<Vec<Reading>, Lost>> {
            async { Ok(Vec::new()) }.boxed()
        }

        fn read_entries(&self, _: Vec<Key>) -> BoxFuture<'_, Result<Vec<Reading>, Lost>> {
            async { Ok(Vec::new()) }.boxed()
        }

        fn read_counters(&self, _: Vec<Counter>) -> BoxFuture<'_, Result<Cells, Lost>> {
            let mut cells = Cells::new();
            for &(counter, index, packets) in &self.0 {
                let count = Count {
                    packets,
                    bytes: 64 * packets,
                };
                cells.entry(counter).or_default().insert(index, count);
            }
            async move { Ok(cells) }.boxed()
        }

        fn packet_out(&self, _: u16, _: Vec<u8>) -> BoxFuture<'_, Result<(), Lost>> {
            async { Ok(()) }.boxed()
        }
    }

    async fn books(counters: &[(Counter, u32, u64)]) -> (i64, Vec<(String, u64)>) {
        let books = read(&Counters(counters.to_vec()), &HashMap::new())
            .await
            .unwrap();
        let drops = books
            .drops
            .iter()
            .map(|drop| (drop.name.clone(), drop.totals.unwrap().packets))
            .collect();
        (books.unaccounted_packets, drops)
    }

    #[tokio::test]
    async fn what_a_queue_lost_has_a_name() {
        let fast = Path::FastFwd as u32;
        let incomplete = Path::FastIncomplete as u32;
        let rx = (Counter::IngressPortRx, 1, 100);
        // 10 dropped in ingress, 90 sent on, 83 came out. FAST_INCOMPLETE is a
        // second count of some of the 90.
        let (unaccounted, drops) = books(&[
            rx,
            (Counter::Drop, 13, 10),
            (Counter::Path, fast, 90),
            (Counter::Path, incomplete, 40),
            (Counter::EgressPortTx, 2, 80),
            (Counter::EgressPortTx, 510, 3),
        ])
        .await;
        assert_eq!(unaccounted, 0);
        assert_eq!(drops[1], (EGRESS_QUEUE_FULL.to_owned(), 7));
    }

    #[tokio::test]
    async fn what_ingress_forgot_stays_unaccounted() {
        let (unaccounted, drops) = books(&[
            (Counter::IngressPortRx, 1, 100),
            (Counter::Path, Path::FastFwd as u32, 90),
            (Counter::EgressPortTx, 2, 90),
        ])
        .await;
        assert_eq!((unaccounted, drops.len()), (10, 0));
    }

    #[tokio::test]
    async fn what_egress_counts_twice_stays_unaccounted() {
        let (unaccounted, drops) = books(&[
            (Counter::IngressPortRx, 1, 100),
            (Counter::Path, Path::FastFwd as u32, 100),
            (Counter::EgressPortTx, 2, 105),
        ])
        .await;
        assert_eq!((unaccounted, drops.len()), (-5, 0));
    }
}
