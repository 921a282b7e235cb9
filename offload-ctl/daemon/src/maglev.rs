//! Maglev consistent hashing: which backend owns which bucket.
//!
//! Each backend has a permutation of the buckets derived from its name; in
//! turns, every backend takes the next free bucket of its permutation
//! (Eisenbud et al., "Maglev: A Fast and Reliable Software Network Load
//! Balancer", NSDI 2016, section 3.4). When a backend leaves, its buckets are
//! shared out and few others move.

/// Assigns `buckets` buckets to the named backends; the result holds an index
/// into `names` for each bucket and is empty when there is no backend. It
/// depends on the set of names, not on their order beyond the indices.
pub fn assign(names: &[&str], buckets: u16) -> Vec<usize> {
    if names.is_empty() || buckets == 0 {
        return Vec::new();
    }
    let size = u64::from(buckets);
    // In the order of names, so that the order in a file does not matter.
    let mut order: Vec<usize> = (0..names.len()).collect();
    order.sort_by_key(|&index| names[index]);
    let mut backends: Vec<Permutation> = order
        .iter()
        .map(|&index| Permutation::new(names[index], size))
        .collect();
    let mut owner: Vec<Option<usize>> = vec![None; usize::from(buckets)];
    let mut free = owner.len();
    'filling: loop {
        for (position, backend) in backends.iter_mut().enumerate() {
            for bucket in backend.by_ref() {
                if owner[bucket].is_none() {
                    owner[bucket] = Some(order[position]);
                    free -= 1;
                    break;
                }
            }
            if free == 0 {
                break 'filling;
            }
        }
    }
    owner.into_iter().flatten().collect()
}

/// A backend's order of preference. The step is coprime with the number of
/// buckets, so that every bucket comes once; bucket counts that are powers of
/// two (the switch masks a hash) need an odd step.
struct Permutation {
    next: u64,
    step: u64,
    size: u64,
    left: u64,
}

impl Permutation {
    fn new(name: &str, size: u64) -> Self {
        let mut step = 1 + fnv1a(name, 0x736b_6970) % size;
        while gcd(step, size) != 1 {
            step += 1;
        }
        Self {
            next: fnv1a(name, 0x6f66_6673) % size,
            step,
            size,
            left: size,
        }
    }
}

impl Iterator for Permutation {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        self.left = self.left.checked_sub(1)?;
        let bucket = self.next;
        self.next = (self.next + self.step) % self.size;
        usize::try_from(bucket).ok()
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// FNV-1a over a seed and a name, with a final mix so that short names that
/// differ in their last letter spread too.
fn fnv1a(text: &str, seed: u32) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for byte in seed.to_be_bytes().into_iter().chain(text.bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash ^= hash >> 33;
    hash = hash.wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(assigned: &[usize], backends: usize) -> Vec<usize> {
        let mut shares = vec![0; backends];
        for &owner in assigned {
            shares[owner] += 1;
        }
        shares
    }

    #[test]
    fn nobody_and_one() {
        assert!(assign(&[], 256).is_empty());
        assert_eq!(assign(&["a"], 256), vec![0; 256]);
    }

    #[test]
    fn shares_differ_by_one_at_most() {
        for backends in 2..=9 {
            let names: Vec<String> = (0..backends).map(|n| format!("ld{n}")).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let shares = shares(&assign(&names, 256), backends);
            let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
            assert!(most - least <= 1, "{shares:?}");
        }
    }

    #[test]
    fn order_in_the_file_does_not_matter() {
        let one = assign(&["a", "b", "c"], 256);
        let other = assign(&["c", "a", "b"], 256);
        let names = |assigned: Vec<usize>, names: [&'static str; 3]| -> Vec<&str> {
            assigned.into_iter().map(|index| names[index]).collect()
        };
        assert_eq!(names(one, ["a", "b", "c"]), names(other, ["c", "a", "b"]));
    }

    #[test]
    fn few_buckets_of_the_others_move_when_one_leaves() {
        let four = assign(&["a", "b", "c", "d"], 256);
        let three = assign(&["a", "b", "c"], 256);
        let moved = four
            .iter()
            .zip(&three)
            .filter(|&(&before, &after)| before != 3 && before != after)
            .count();
        assert!(moved < 256 / 4, "{moved} moved");
    }
}
