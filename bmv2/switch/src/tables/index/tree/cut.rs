//! Where to cut: the neighbouring bits of a key that divide a list of entries
//! best.

use smallvec::SmallVec;

/// Most bits of a cut.
const WIDEST: u32 = 12;
/// Entries that a cut is chosen by.
const SAMPLE: usize = 256;
/// Cuts of which the effect on the sample is counted.
const TRIALS: usize = 6;
/// A cut must leave fewer than this share of the entries to look at.
const WORTH: f64 = 0.85;

/// `width` bits from `shift` on of a word.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    pub(super) word: usize,
    shift: u32,
    pub(super) width: u32,
}

impl Window {
    fn ones(self) -> u64 {
        (1 << self.width) - 1
    }

    #[inline(always)]
    pub(super) fn of(self, word: u64) -> usize {
        ((word >> self.shift) & self.ones()) as usize
    }

    /// The child of an entry (order, then value and mask by word); `None` if
    /// its mask does not cover the window.
    pub(super) fn child(self, rule: &[u64]) -> Option<usize> {
        let (value, mask) = (
            rule.get(1 + 2 * self.word).copied().unwrap_or(0),
            rule.get(2 + 2 * self.word).copied().unwrap_or(0),
        );
        (self.of(mask) as u64 == self.ones()).then(|| self.of(value))
    }
}

/// The cut that leaves a packet the fewest entries to look at; `None` if none
/// is worth while.
pub(super) fn choose(list: &[&[u64]], stride: usize) -> Option<Window> {
    let step = list.len().div_ceil(SAMPLE);
    let sample: Vec<&[u64]> = list.iter().step_by(step).copied().collect();
    let n = sample.len() as f64;
    // No more than a child for each entry.
    let widest = WIDEST.min(list.len().ilog2().max(1));
    let mut trials: SmallVec<[(f64, Window); TRIALS + 1]> = SmallVec::new();
    for word in 0..(stride - 1) / 2 {
        let bits = bit_counts(&sample, word);
        for shift in 0..64u32 {
            // An estimate from single bits: how many masks cover the window,
            // and how likely two values are the same in it.
            let (mut covered, mut same) = (n, 1.0);
            for width in 1..=widest.min(64 - shift) {
                let Some(&(specified, ones)) = bits.get((shift + width - 1) as usize) else {
                    break;
                };
                if specified == 0 {
                    break;
                }
                let (specified, ones) = (f64::from(specified), f64::from(ones));
                let zeros = specified - ones;
                covered = covered.min(specified);
                same *= (ones * ones + zeros * zeros) / (specified * specified);
                let left = (n - covered) + covered * same;
                let window = Window { word, shift, width };
                let at = trials.partition_point(|(l, _)| *l <= left);
                trials.insert(at.min(TRIALS), (left, window));
                trials.truncate(TRIALS);
            }
        }
    }
    trials
        .into_iter()
        .map(|(_, window)| (left_of(&sample, window), window))
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .filter(|(left, _)| *left < WORTH * n)
        .map(|(_, window)| window)
}

/// For every bit of a word, in how many masks and in how many values it is.
fn bit_counts(sample: &[&[u64]], word: usize) -> [(u32, u32); 64] {
    let mut counts = [(0, 0); 64];
    for r in sample {
        let (value, mask) = (
            r.get(1 + 2 * word).copied().unwrap_or(0),
            r.get(2 + 2 * word).copied().unwrap_or(0),
        );
        if mask == 0 {
            continue;
        }
        for (bit, (m, v)) in counts.iter_mut().enumerate() {
            *m += (mask >> bit) as u32 & 1;
            *v += (value >> bit) as u32 & 1;
        }
    }
    counts
}

/// How many entries of the sample a packet is left with, if packets look like
/// the entries.
fn left_of(sample: &[&[u64]], window: Window) -> f64 {
    let mut children = vec![0u32; 1 << window.width];
    let (mut wild, mut covered) = (0u32, 0u32);
    for r in sample {
        match window.child(r).and_then(|at| children.get_mut(at)) {
            Some(n) => {
                *n += 1;
                covered += 1;
            }
            None => wild += 1,
        }
    }
    // An entry meets itself in any case: only pairs count, scaled to all.
    let pairs: u64 = children
        .iter()
        .map(|&n| u64::from(n) * u64::from(n.saturating_sub(1)))
        .sum();
    let met = pairs as f64 / f64::from(covered.saturating_sub(1).max(1));
    f64::from(wild) + met
}
