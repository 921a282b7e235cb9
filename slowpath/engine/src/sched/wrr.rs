//! Smooth weighted round robin: each pick raises every server's credit by its
//! weight, takes the highest, and lowers that one by the total. Weights 5, 1, 1
//! give a a b a c a a rather than five of the same in a row.

/// State of one VIP's rotation.
#[derive(Clone, Debug, Default)]
pub struct SmoothWrr {
    credit: Vec<i64>,
}

impl SmoothWrr {
    /// The next server: an index into `weights`, `None` if all are zero. A
    /// change of the number of servers starts the rotation anew.
    pub fn pick(&mut self, weights: impl ExactSizeIterator<Item = u32>) -> Option<usize> {
        if self.credit.len() != weights.len() {
            self.credit.clear();
            self.credit.resize(weights.len(), 0);
        }
        let mut total = 0_i64;
        let mut best: Option<(usize, i64)> = None;
        for (i, (credit, weight)) in self.credit.iter_mut().zip(weights).enumerate() {
            if weight == 0 {
                *credit = 0;
                continue;
            }
            total += i64::from(weight);
            *credit += i64::from(weight);
            if best.is_none_or(|(_, c)| *credit > c) {
                best = Some((i, *credit));
            }
        }
        let (i, _) = best?;
        self.credit[i] -= total;
        Some(i)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run(weights: &[u32], n: usize) -> Vec<usize> {
        let mut s = SmoothWrr::default();
        (0..n)
            .map(|_| s.pick(weights.iter().copied()).unwrap())
            .collect()
    }

    #[test]
    fn the_known_sequence_for_5_1_1() {
        assert_eq!(run(&[5, 1, 1], 7), [0, 0, 1, 0, 2, 0, 0]);
    }

    #[test]
    fn nobody_to_pick() {
        let mut s = SmoothWrr::default();
        assert_eq!(s.pick([].into_iter()), None);
        assert_eq!(s.pick([0, 0].into_iter()), None);
    }

    #[test]
    fn a_weight_of_zero_is_never_picked() {
        assert!(run(&[3, 0, 2], 100).iter().all(|i| *i != 1));
    }

    proptest! {
        /// Over one round every server comes up exactly as often as it weighs.
        #[test]
        fn one_round_is_exact(weights in proptest::collection::vec(1_u32..20, 1..8)) {
            let total: u32 = weights.iter().sum();
            let picks = run(&weights, total as usize * 3);
            for round in picks.chunks(total as usize) {
                for (i, w) in weights.iter().enumerate() {
                    prop_assert_eq!(round.iter().filter(|p| **p == i).count(), *w as usize);
                }
            }
        }
    }
}
