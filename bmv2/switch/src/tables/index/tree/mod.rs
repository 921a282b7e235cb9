//! The index of all tables that are not exact: a tree of cuts.
//!
//! A cut looks at a few neighbouring bits of the key. Entries whose masks
//! cover these bits are in the child of their value, all others in the cut's
//! `wild` subtree; so every entry is in exactly one leaf, and adding or
//! removing it touches one path. A packet's key follows one child and the wild
//! subtree of each cut, the stronger first; whatever cannot beat what was
//! found is left out. With prefixes this is a multibit trie, with rules of many
//! masks a decision tree in the manner of HiCuts (Gupta and McKeown, 1999),
//! but without copies of wide rules.
//!
//! Inserting divides full leaves, nothing else. The tree that grows by this is
//! deeper than it need be, so [`Tree::rebuild`] makes a better one from time to
//! time, beside the one in use.

mod cut;

use smallvec::SmallVec;

use crate::tables::key::Encoded;
use cut::{Window, choose};

/// Entries of a leaf that is not divided.
const LEAF: usize = 8;
/// Trees of more entries are only divided further, not built anew: bounds the
/// time for which other writers wait.
const MOST_REBUILT: usize = 1 << 18;

/// What decides between entries, the greater the stronger: the rank, then the
/// lower slot. It also says which slot.
fn order(rank: i64, slot: u32) -> u64 {
    // Ranks are priorities (positive, 31 bits) or prefix lengths.
    (rank.clamp(0, i64::from(u32::MAX)) as u64) << 32 | u64::from(!slot)
}

fn slot_of(order: u64) -> u32 {
    !(order as u32)
}

/// Entries by value and mask.
#[derive(Debug)]
pub(crate) struct Tree {
    root: Child,
    /// Words of a key.
    words: usize,
    len: usize,
    /// Entries when it was last built.
    built: usize,
    /// Rises with every change.
    version: u64,
}

/// A subtree and the order of its strongest entry; 0 if it is empty.
#[derive(Debug, Default)]
struct Child {
    best: u64,
    node: Node,
}

#[derive(Debug)]
enum Node {
    /// Entries, the strongest first, each its order and then value and mask by
    /// word.
    Leaf(Box<[u64]>),
    Cut(Box<Cut>),
}

impl Default for Node {
    fn default() -> Self {
        Self::Leaf(Box::default())
    }
}

#[derive(Debug)]
struct Cut {
    place: Window,
    wild: Child,
    children: Box<[Child]>,
}

impl Child {
    fn refresh(&mut self) {
        self.best = match &self.node {
            Node::Leaf(rules) => rules.first().copied().unwrap_or(0),
            Node::Cut(c) => c
                .children
                .iter()
                .map(|c| c.best)
                .fold(c.wild.best, u64::max),
        };
    }
}

impl Cut {
    fn child_mut(&mut self, rule: &[u64]) -> Option<&mut Child> {
        match self.place.child(rule) {
            Some(at) => self.children.get_mut(at),
            None => Some(&mut self.wild),
        }
    }
}

/// The order of a leaf's strongest entry that matches and is stronger than
/// `best`; `best` if there is none.
#[inline(always)]
fn strongest(rules: &[u64], key: &[u64], best: u64, fits: impl Fn(u32) -> bool) -> u64 {
    let mut rest = rules;
    while let [order, others @ ..] = rest
        && *order > best
        && let Some((rule, next)) = others.split_at_checked(2 * key.len())
    {
        let pairs = rule.as_chunks().0.iter().zip(key);
        let wrong = pairs.fold(0, |wrong, ([value, mask], k)| wrong | ((k & mask) ^ value));
        if wrong == 0 && fits(slot_of(*order)) {
            return *order;
        }
        rest = next;
    }
    best
}

/// An entry as leaves hold it.
fn rule(e: &Encoded, order: u64) -> SmallVec<[u64; 9]> {
    let mut rule = SmallVec::with_capacity(1 + 2 * e.value.len());
    rule.push(order);
    for (v, m) in e.value.iter().zip(&e.mask) {
        rule.extend([*v, *m]);
    }
    rule
}

impl Tree {
    pub(super) fn new(words: usize) -> Self {
        Self {
            root: Child::default(),
            words,
            len: 0,
            built: 0,
            version: 0,
        }
    }

    /// The strongest entry that a packet's key matches and `fits` accepts.
    #[inline(always)]
    pub(super) fn lookup(&self, key: &[u64], fits: impl Fn(u32) -> bool) -> Option<u32> {
        let best = match &self.root.node {
            Node::Leaf(rules) => strongest(rules, key, 0, fits),
            Node::Cut(_) => self.search(key, fits),
        };
        (best > 0).then(|| slot_of(best))
    }

    /// The order of the entry that [`Tree::lookup`] finds, or 0.
    #[inline(never)]
    fn search(&self, key: &[u64], fits: impl Fn(u32) -> bool) -> u64 {
        let mut best = 0;
        let mut rest: SmallVec<[&Child; 16]> = SmallVec::new();
        let mut at = &self.root;
        loop {
            if at.best > best {
                match &at.node {
                    Node::Leaf(rules) => best = strongest(rules, key, best, &fits),
                    Node::Cut(cut) => {
                        let word = key.get(cut.place.word).copied().unwrap_or(0);
                        let child = cut.children.get(cut.place.of(word));
                        let wild = &cut.wild;
                        let child = child.unwrap_or(wild);
                        let (first, second) = if child.best >= wild.best {
                            (child, wild)
                        } else {
                            (wild, child)
                        };
                        if second.best > best {
                            rest.push(second);
                        }
                        at = first;
                        continue;
                    }
                }
            }
            match rest.pop() {
                Some(next) => at = next,
                None => return best,
            }
        }
    }

    /// The slot of the entry with exactly this value, mask and rank that
    /// `is_it` accepts.
    pub(super) fn find(&self, e: &Encoded, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let wanted = rule(e, 0);
        let rank = order(e.rank, 0) >> 32;
        let mut at = &self.root;
        loop {
            match &at.node {
                Node::Cut(c) => {
                    at = match c.place.child(&wanted) {
                        Some(i) => c.children.get(i)?,
                        None => &c.wild,
                    };
                }
                Node::Leaf(rules) => {
                    return rules
                        .chunks_exact(1 + 2 * self.words)
                        .filter(|r| r.first().is_some_and(|o| o >> 32 == rank))
                        .filter(|r| r.get(1..) == wanted.get(1..))
                        .filter_map(|r| Some(slot_of(*r.first()?)))
                        .find(|&slot| is_it(slot));
                }
            }
        }
    }

    /// Adds an entry that is not there.
    pub(super) fn insert(&mut self, e: &Encoded, slot: u32) {
        let new = rule(e, order(e.rank, slot));
        let order = new.first().copied().unwrap_or(0);
        self.version += 1;
        self.len += 1;
        let mut at = &mut self.root;
        loop {
            at.best = at.best.max(order);
            if let Node::Leaf(rules) = &mut at.node {
                at.node = inserted(rules, &new);
                return;
            }
            let Node::Cut(cut) = &mut at.node else { return };
            let Some(next) = cut.child_mut(&new) else {
                return;
            };
            at = next;
        }
    }

    /// Takes an entry out.
    pub(super) fn remove(&mut self, e: &Encoded, slot: u32) {
        let old = rule(e, order(e.rank, slot));
        self.version += 1;
        if remove(&mut self.root, &old) {
            self.len -= 1;
        }
    }

    /// Whether it has changed so much that building it anew is worth while.
    pub(crate) fn is_worn(&self) -> bool {
        let (small, large) = (self.built / 4, (2 * self.built).max(4 * LEAF));
        self.len <= MOST_REBUILT && (self.len > large || self.len < small)
    }

    /// A better tree of the same entries, to [`Tree::replace`] this one by.
    pub(crate) fn rebuild(&self) -> Self {
        let stride = 1 + 2 * self.words;
        let mut list = Vec::with_capacity(self.len);
        let mut rest = vec![&self.root];
        while let Some(child) = rest.pop() {
            match &child.node {
                Node::Leaf(rules) => list.extend(rules.chunks_exact(stride)),
                Node::Cut(c) => {
                    rest.push(&c.wild);
                    rest.extend(c.children.iter());
                }
            }
        }
        list.sort_unstable_by_key(|r| std::cmp::Reverse(r.first().copied()));
        Self {
            root: build(&list, stride),
            words: self.words,
            len: self.len,
            built: self.len,
            version: self.version,
        }
    }

    /// Takes a rebuilt tree's place, unless something changed since then.
    /// What is no longer needed is in `other` afterwards.
    pub(crate) fn replace(&mut self, other: &mut Self) {
        if self.version == other.version {
            std::mem::swap(self, other);
        }
    }
}

/// A leaf with one more entry, or what comes in its place if that is too full.
fn inserted(rules: &[u64], new: &[u64]) -> Node {
    let stride = new.len();
    let place = rules
        .chunks_exact(stride)
        .position(|r| r.first() < new.first());
    let (before, after) = match place {
        Some(p) => rules.split_at(p * stride),
        None => (rules, &[][..]),
    };
    let rules: Box<[u64]> = [before, new, after].concat().into();
    // A leaf that could not be divided is tried again when it has doubled.
    let over = (rules.len() / stride).saturating_sub(1);
    if !over.is_multiple_of(LEAF) || !(over / LEAF).is_power_of_two() {
        return Node::Leaf(rules);
    }
    let list: Vec<&[u64]> = rules.chunks_exact(stride).collect();
    build(&list, stride).node
}

/// Removes an entry; whether it was there.
fn remove(at: &mut Child, old: &[u64]) -> bool {
    let found = match &mut at.node {
        Node::Leaf(rules) => {
            let place = rules
                .chunks_exact(old.len())
                .position(|r| r.first() == old.first());
            if let Some(p) = place {
                let (before, rest) = rules.split_at(p * old.len());
                let after = rest.get(old.len()..).unwrap_or(&[]);
                *rules = [before, after].concat().into();
            }
            place.is_some()
        }
        Node::Cut(cut) => cut.child_mut(old).is_some_and(|c| remove(c, old)),
    };
    if found && old.first() == Some(&at.best) {
        at.refresh();
    }
    found
}

/// A subtree of these entries, which are in order.
fn build(list: &[&[u64]], stride: usize) -> Child {
    let best = list.first().and_then(|r| r.first()).copied().unwrap_or(0);
    let place = (list.len() > LEAF).then(|| choose(list, stride)).flatten();
    let node = match place {
        None => Node::Leaf(list.concat().into()),
        Some(place) => {
            let mut parts = vec![Vec::new(); 1 << place.width];
            let mut wild = Vec::new();
            for r in list {
                match place.child(r).and_then(|at| parts.get_mut(at)) {
                    Some(part) => part.push(*r),
                    None => wild.push(*r),
                }
            }
            Node::Cut(Box::new(Cut {
                place,
                wild: build(&wild, stride),
                children: parts.iter().map(|p| build(p, stride)).collect(),
            }))
        }
    };
    Child { best, node }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;

    use super::*;

    /// splitmix64.
    struct Random(u64);

    impl Random {
        fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        }

        /// A mask: a prefix, any bits, all or none.
        fn mask(&mut self) -> u64 {
            match self.next() % 5 {
                0 => 0,
                1 => u64::MAX,
                2 => self.next() & self.next(),
                _ => u64::MAX.checked_shl(self.next() as u32 % 65).unwrap_or(0),
            }
        }
    }

    type Entry = (u32, Encoded);

    fn entry(r: &mut Random, words: usize, slot: u32, ranks: u64) -> Entry {
        let mask: SmallVec<[u64; 4]> = (0..words).map(|_| r.mask()).collect();
        // Few values in the high bits, so that entries overlap.
        let value = mask
            .iter()
            .map(|m| (r.next() & 0x8000_00ff_0000_000f) & m)
            .collect();
        let e = Encoded {
            value,
            mask,
            bounds: SmallVec::new(),
            rank: (r.next() % ranks) as i64 + 1,
            hash: 0,
        };
        (slot, e)
    }

    /// The highest rank, of these the lowest slot.
    fn oracle(entries: &[Entry], key: &[u64]) -> Option<u32> {
        let fits = |e: &Encoded| {
            let mut words = key.iter().zip(&e.value).zip(&e.mask);
            words.all(|((k, v), m)| k & m == *v)
        };
        entries
            .iter()
            .filter(|(_, e)| fits(e))
            .min_by_key(|(slot, e)| (Reverse(e.rank), *slot))
            .map(|(slot, _)| *slot)
    }

    fn check(tree: &Tree, entries: &[Entry], r: &mut Random, words: usize) {
        for i in 0..300 {
            // Keys near entries, and some near nothing.
            let key: Vec<u64> = match entries.get(r.next() as usize % entries.len().max(1)) {
                Some((_, e)) if i % 8 != 0 => {
                    let pairs = e.value.iter().zip(&e.mask);
                    pairs.map(|(v, m)| v | (r.next() & !m)).collect()
                }
                _ => (0..words)
                    .map(|_| r.next() & 0x8000_00ff_0000_000f)
                    .collect(),
            };
            assert_eq!(
                tree.lookup(&key, |_| true),
                oracle(entries, &key),
                "{key:x?}"
            );
        }
        assert_eq!(tree.len, entries.len());
        for (slot, e) in entries.iter().take(200) {
            assert_eq!(tree.find(e, |s| s == *slot), Some(*slot));
        }
    }

    #[test]
    fn thousands_of_entries_come_and_go_as_in_a_list() {
        for (words, ranks) in [(1, 1), (1, 60_000), (2, 5), (3, 60_000)] {
            let mut r = Random(words as u64 * 1000 + ranks);
            let mut tree = Tree::new(words);
            let mut entries: Vec<Entry> = Vec::new();
            for slot in 0..4000 {
                let new = entry(&mut r, words, slot, ranks);
                tree.insert(&new.1, slot);
                entries.push(new);
                if tree.is_worn() && slot % 3 != 0 {
                    let mut better = tree.rebuild();
                    tree.replace(&mut better);
                    assert!(!tree.is_worn());
                }
                if slot % 1000 == 999 {
                    check(&tree, &entries, &mut r, words);
                }
            }
            while entries.len() > 10 {
                let (slot, e) = entries.swap_remove(r.next() as usize % entries.len());
                tree.remove(&e, slot);
                assert_eq!(tree.find(&e, |s| s == slot), None);
                if entries.len().is_multiple_of(1000) {
                    check(&tree, &entries, &mut r, words);
                }
            }
            check(&tree, &entries, &mut r, words);
        }
    }

    #[test]
    fn a_tree_that_changed_is_not_replaced() {
        let mut r = Random(1);
        let mut tree = Tree::new(1);
        let (first, second) = (entry(&mut r, 1, 0, 9), entry(&mut r, 1, 1, 9));
        tree.insert(&first.1, 0);
        let mut old = tree.rebuild();
        tree.insert(&second.1, 1);
        tree.replace(&mut old);
        assert_eq!(tree.find(&second.1, |s| s == 1), Some(1));
    }

    #[test]
    fn prefixes_divide_into_short_leaves() {
        let mut r = Random(2);
        let mut tree = Tree::new(1);
        for slot in 0..5000 {
            let len = 8 + r.next() % 17;
            let mask = (u64::MAX << (32 - len)) & 0xffff_ffff;
            let e = Encoded {
                value: SmallVec::from_slice(&[r.next() & mask]),
                mask: SmallVec::from_slice(&[mask]),
                bounds: SmallVec::new(),
                rank: len as i64,
                hash: 0,
            };
            tree.insert(&e, slot);
        }
        let mut longest = 0;
        let mut rest = vec![&tree.root];
        while let Some(child) = rest.pop() {
            match &child.node {
                Node::Leaf(rules) => longest = longest.max(rules.len() / 3),
                Node::Cut(c) => {
                    rest.push(&c.wild);
                    rest.extend(c.children.iter());
                }
            }
        }
        // Equal prefixes, of which there are few of 8 bits, stay together.
        assert!(longest <= 64, "{longest} entries in a leaf");
        assert_eq!(size_of::<Child>(), 24);
    }
}
