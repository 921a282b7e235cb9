//! The bursts of several workers: one after the other, where a program has
//! registers or meters.

use parking_lot::Mutex;

use super::clock::Clock;
use crate::{Burst, Worker};

/// Whether a worker's last burst had to wait for its turn, as the next one
/// will, most likely.
#[derive(Debug, Default)]
pub(super) struct Order {
    matters: bool,
}

/// Has `run` process a burst, with `turn` held if the program needs that. Of a
/// worker that is alone there is no `order`.
pub(super) fn burst<R>(
    worker: &mut Worker,
    clock: Clock,
    order: Option<&mut Order>,
    turn: &Mutex<()>,
    run: impl FnOnce(Burst<'_>) -> R,
) -> R {
    let Some(order) = order else {
        return run(worker.burst(clock.now()));
    };
    if !order.matters {
        let burst = worker.burst(clock.now());
        // Only the burst itself tells which program it runs: that may have
        // changed just now.
        if !burst.is_stateful() {
            return run(burst);
        }
    }
    // Nobody waits here who keeps others from the tables. Time is taken after
    // it, so that it does not go back from turn to turn.
    let _held = turn.lock();
    let burst = worker.burst(clock.now());
    order.matters = burst.is_stateful();
    run(burst)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Program, Switch, SwitchConfig};

    const STATEFUL: &[u8] = include_bytes!("../../testdata/externs.json");
    const STATELESS: &[u8] = include_bytes!("../../testdata/tables.json");

    #[test]
    fn a_new_programs_first_burst_has_its_turn() {
        let switch = Switch::new(SwitchConfig::default());
        let mut worker = switch.worker();
        let (turn, clock) = (Mutex::new(()), Clock::start());
        let mut order = Order::default();
        let mut has_turn = |alone: bool, install: Option<&[u8]>| {
            if let Some(json) = install {
                switch.install(Program::load(json).unwrap());
            }
            let order = (!alone).then_some(&mut order);
            burst(&mut worker, clock, order, &turn, |_| turn.is_locked())
        };
        assert!(!has_turn(false, None));
        assert!(has_turn(false, Some(STATEFUL)));
        assert!(has_turn(false, None));
        assert!(!has_turn(true, None));
        // What is not needed any more does no harm once.
        has_turn(false, Some(STATELESS));
        assert!(!has_turn(false, None));
        assert!(has_turn(false, Some(STATEFUL)));
    }
}
