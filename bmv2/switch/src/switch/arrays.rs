//! What whole arrays hold, compactly: to put them back.

use super::Pipeline;
use crate::tables::{Array, Held};

/// What the cells of an array hold now; `None` if there is no such array.
pub(super) fn held(p: &Pipeline, array: Array) -> Option<Held> {
    match array {
        Array::Counter(id) => {
            let cells = p.counter(id).ok()?;
            let values = (0..cells.size()).filter_map(|i| cells.get(i));
            Some(Held::Counters(values.collect()))
        }
        Array::Rates(id) | Array::Colours(id) => {
            let meters = &p.meter(id).ok()?.cells;
            Some(Held::Meters(meters.iter().map(|m| m.state()).collect()))
        }
        Array::Register(id) => Some(p.register(id).ok()?.held()),
    }
}

/// Puts back what the cells of an array held.
pub(super) fn put_back(p: &Pipeline, array: Array, held: Held) {
    match (array, held) {
        (Array::Counter(id), Held::Counters(values)) => {
            if let Ok(cells) = p.counter(id) {
                for (i, value) in values.into_iter().enumerate() {
                    cells.set(i, value);
                }
            }
        }
        (Array::Rates(id), Held::Meters(states)) => {
            if let Ok(meters) = p.meter(id) {
                let pairs = meters.cells.iter().zip(&states);
                pairs.for_each(|(meter, state)| meter.restore_rates(state));
            }
        }
        (Array::Colours(id), Held::Meters(states)) => {
            if let Ok(meters) = p.meter(id) {
                let pairs = meters.cells.iter().zip(&states);
                pairs.for_each(|(meter, state)| meter.restore_counts(state));
            }
        }
        (Array::Register(id), held) => {
            if let Ok(cells) = p.register(id) {
                cells.put_back(held);
            }
        }
        // No array holds anything else.
        _ => {}
    }
}
