//! Which slot owns which local address, kept from one version to the next.
//!
//! A session's replies go to the LD that owns the slot of its local address.
//! If a change of `lips` moved addresses between slots, replies would go to an
//! LD that does not know the session; so an address stays in its slot for as
//! long as both exist, and only a slot without any address takes one away.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use sluice_config::{Gateway, Group};

use crate::store::LocalSlot;

/// The owners of a gateway's local addresses, given the ones before.
pub(super) fn assign(gateway: &Gateway, before: &[LocalSlot]) -> Vec<LocalSlot> {
    gateway
        .groups
        .iter()
        .flat_map(|group| assign_group(group, before))
        .collect()
}

fn assign_group(group: &Group, before: &[LocalSlot]) -> Vec<LocalSlot> {
    let slots = usize::from(group.slots.max(1));
    let known: HashMap<Ipv4Addr, u16> = before
        .iter()
        .filter(|local| local.group == group.name && local.vni == group.vni)
        .filter(|local| usize::from(local.number) < slots)
        .map(|local| (local.addr, local.number))
        .collect();
    let addresses: Vec<Ipv4Addr> = group.locals().map(|(addr, _)| addr).collect();
    let mut shares = vec![0usize; slots];
    for number in addresses.iter().filter_map(|addr| known.get(addr)) {
        shares[usize::from(*number)] += 1;
    }
    let mut locals: Vec<LocalSlot> = Vec::with_capacity(addresses.len());
    for addr in addresses {
        let number = known.get(&addr).copied().unwrap_or_else(|| {
            let least = least_of(&shares);
            shares[least] += 1;
            // `slots` comes from a u16.
            least as u16
        });
        locals.push(LocalSlot {
            vni: group.vni,
            addr,
            group: group.name.clone(),
            number,
        });
    }
    // A slot without an address could open no session at all.
    while let Some(empty) = shares.iter().position(|share| *share == 0) {
        let (most, share) = most_of(&shares);
        let last = locals
            .iter_mut()
            .rev()
            .find(|local| usize::from(local.number) == most);
        let Some(last) = last.filter(|_| share > 1) else {
            break;
        };
        last.number = empty as u16;
        shares[most] -= 1;
        shares[empty] += 1;
    }
    locals
}

/// The first of those with the least.
fn least_of(shares: &[usize]) -> usize {
    let least = shares.iter().min().copied().unwrap_or(0);
    shares.iter().position(|s| *s == least).unwrap_or(0)
}

/// The first of those with the most, and how much that is.
fn most_of(shares: &[usize]) -> (usize, usize) {
    let most = shares.iter().max().copied().unwrap_or(0);
    (shares.iter().position(|s| *s == most).unwrap_or(0), most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(lips: &[&str], slots: u16) -> Group {
        Group {
            name: "edge".into(),
            lds: vec!["ld1".into()],
            lips: lips.iter().map(|lip| lip.parse().unwrap()).collect(),
            slots,
            vni: 0,
        }
    }

    fn numbers(locals: &[LocalSlot]) -> Vec<(u8, u16)> {
        locals
            .iter()
            .map(|local| (local.addr.octets()[3], local.number))
            .collect()
    }

    #[test]
    fn slots_take_turns_at_first() {
        let locals = assign_group(&group(&["10.9.0.0/29"], 4), &[]);
        let expected = [
            (0, 0),
            (1, 1),
            (2, 2),
            (3, 3),
            (4, 0),
            (5, 1),
            (6, 2),
            (7, 3),
        ];
        assert_eq!(numbers(&locals), expected);
    }

    #[test]
    fn addresses_stay_where_they_are_when_others_come_and_go() {
        let before = assign_group(&group(&["10.9.0.4/30"], 4), &[]);
        assert_eq!(numbers(&before), [(4, 0), (5, 1), (6, 2), (7, 3)]);
        // Two come in front, and one of the old ones goes.
        let after = assign_group(
            &group(&["10.9.0.0/31", "10.9.0.4/31", "10.9.0.7/32"], 4),
            &before,
        );
        assert_eq!(
            numbers(&after),
            [(0, 2), (1, 0), (4, 0), (5, 1), (7, 3)],
            "the free slot is filled first"
        );
    }

    #[test]
    fn no_slot_is_left_without_an_address() {
        let before = assign_group(&group(&["10.9.0.0/30"], 2), &[]);
        assert_eq!(numbers(&before), [(0, 0), (1, 1), (2, 0), (3, 1)]);
        let after = assign_group(&group(&["10.9.0.0/30"], 4), &before);
        assert_eq!(numbers(&after), [(0, 0), (1, 1), (2, 2), (3, 3)]);
        // Fewer slots: only what has lost its slot moves.
        let fewer = assign_group(&group(&["10.9.0.0/30"], 3), &after);
        assert_eq!(numbers(&fewer), [(0, 0), (1, 1), (2, 2), (3, 0)]);
    }
}
