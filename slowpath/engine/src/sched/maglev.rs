//! Maglev consistent hashing (NSDI'16, section 3.4), with weights: in each
//! round a server takes a slot only when its share of the highest weight has
//! added up to a whole turn.

use crate::hash::mix64;

/// Prime table sizes; the smallest with at least a hundred slots a server is
/// used, so that the shares are within about one per cent.
const PRIMES: [u32; 6] = [251, 1_021, 4_093, 16_381, 65_521, 262_139];

/// The table size for so many servers.
#[must_use]
pub fn table_size(servers: usize) -> u32 {
    let want = servers.saturating_mul(100);
    PRIMES
        .into_iter()
        .find(|p| *p as usize >= want)
        .unwrap_or(PRIMES[PRIMES.len() - 1])
}

/// A filled table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Maglev {
    slots: Box<[u16]>,
}

impl Maglev {
    /// Fills a table of `size` slots, which must be prime. `servers` are
    /// (identity, weight): a server keeps most of its slots as long as its
    /// identity stays the same. Slots hold indices into `servers`.
    ///
    /// `None` when no server has a weight, or there are more than 65,535.
    #[must_use]
    pub fn new(size: u32, servers: &[(u64, u32)]) -> Option<Self> {
        struct Filler {
            index: u16,
            offset: u64,
            skip: u64,
            tried: u64,
            weight: u64,
            credit: u64,
        }
        if size < 2 || u16::try_from(servers.len()).is_err() {
            return None;
        }
        let m = u64::from(size);
        let mut fillers: Vec<Filler> = servers
            .iter()
            .enumerate()
            .filter(|(_, (_, weight))| *weight > 0)
            .map(|(i, (identity, weight))| {
                let h = mix64(*identity);
                Filler {
                    index: i as u16,
                    offset: h % m,
                    skip: mix64(h ^ 0x6d61_676c_6576) % (m - 1) + 1,
                    tried: 0,
                    weight: u64::from(*weight),
                    credit: 0,
                }
            })
            .collect();
        // The order of turns must not depend on the order of configuration.
        fillers.sort_by_key(|f| mix64(servers[usize::from(f.index)].0));
        let heaviest = fillers.iter().map(|f| f.weight).max()?;
        const FREE: u16 = u16::MAX;
        let mut slots = vec![FREE; size as usize].into_boxed_slice();
        let mut left = slots.len();
        loop {
            for f in &mut fillers {
                f.credit += f.weight;
                if f.credit < heaviest {
                    continue;
                }
                f.credit -= heaviest;
                loop {
                    // `size` is prime, so all slots come up within `size` tries.
                    let at = ((f.offset + f.tried * f.skip) % m) as usize;
                    f.tried += 1;
                    if slots[at] == FREE {
                        slots[at] = f.index;
                        break;
                    }
                }
                left -= 1;
                if left == 0 {
                    return Some(Self { slots });
                }
            }
        }
    }

    /// The server of a client, given a hash of what identifies it.
    #[must_use]
    pub fn get(&self, hash: u64) -> usize {
        usize::from(self.slots[(hash % self.slots.len() as u64) as usize])
    }

    /// The table.
    #[must_use]
    pub fn slots(&self) -> &[u16] {
        &self.slots
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn equal(n: u64) -> Vec<(u64, u32)> {
        (0..n).map(|i| (i * 7919 + 1, 1)).collect()
    }

    fn share(t: &Maglev, server: u16) -> f64 {
        let n = t.slots().iter().filter(|s| **s == server).count();
        n as f64 / t.slots().len() as f64
    }

    #[test]
    fn nobody_gives_no_table() {
        assert_eq!(Maglev::new(251, &[]), None);
        assert_eq!(Maglev::new(251, &[(1, 0), (2, 0)]), None);
    }

    #[test]
    fn one_server_gets_everything() {
        let t = Maglev::new(251, &[(9, 0), (5, 3)]).unwrap();
        assert!(t.slots().iter().all(|s| *s == 1));
    }

    #[test]
    fn sizes_are_prime() {
        for p in PRIMES {
            assert!(
                (2..p).take_while(|d| d * d <= p).all(|d| p % d != 0),
                "{p} is not prime"
            );
        }
        assert_eq!(table_size(2), 251);
        assert_eq!(table_size(10), 1_021);
        assert_eq!(table_size(1_000_000), 262_139);
    }

    #[test]
    fn every_slot_is_filled_and_shares_are_even() {
        let servers = equal(10);
        let t = Maglev::new(table_size(10), &servers).unwrap();
        for i in 0..10 {
            assert!((share(&t, i) - 0.1).abs() < 0.005, "{}", share(&t, i));
        }
    }

    #[test]
    fn shares_follow_the_weights() {
        let t = Maglev::new(4_093, &[(11, 1), (22, 2), (33, 5)]).unwrap();
        for (i, w) in [(0, 1.0), (1, 2.0), (2, 5.0)] {
            assert!((share(&t, i) - w / 8.0).abs() < 0.01);
        }
    }

    #[test]
    fn the_order_of_configuration_does_not_matter() {
        let a = Maglev::new(1_021, &[(11, 1), (22, 2), (33, 5)]).unwrap();
        let b = Maglev::new(1_021, &[(33, 5), (11, 1), (22, 2)]).unwrap();
        let back = [2, 0, 1];
        for (x, y) in a.slots().iter().zip(b.slots()) {
            assert_eq!(*x, back[usize::from(*y)]);
        }
    }

    #[test]
    fn a_removed_server_disturbs_few_others() {
        let servers = equal(20);
        let size = 16_381;
        let before = Maglev::new(size, &servers).unwrap();
        let mut fewer = servers.clone();
        fewer[7].1 = 0;
        let after = Maglev::new(size, &fewer).unwrap();
        let moved = before
            .slots()
            .iter()
            .zip(after.slots())
            .filter(|(b, a)| **b != 7 && b != a)
            .count();
        // The paper's figure for a table of this density: a few per cent.
        let share = moved as f64 / f64::from(size);
        assert!(share < 0.05, "{share} of the others' slots moved");
        assert!(after.slots().iter().all(|s| *s != 7));
    }
}
