//! Requests of load directors: whatever they hold, no panic, and what does not
//! fit the switch's tables is refused by the field's name.

use bolero::TypeGenerator;
use offload_api::v1;
use offload_ctl::flows::{Dir, FlowBook, IdCheck, LdName, Pair};

struct Everything;

impl IdCheck for Everything {
    fn check(&self, _: &Pair) -> Result<(), String> {
        Ok(())
    }

    fn owner(&self, _: u16) -> Option<LdName> {
        Some("ld1".into())
    }
}

#[derive(Clone, Debug, TypeGenerator)]
struct Numbers([u8; 12], u32, u32);

fn flow(numbers: &Numbers) -> v1::FlowPair {
    let Numbers(small, wide, idle) = numbers;
    // Mostly small numbers, so that keys collide and fields are valid often.
    let number = |index: usize| match small[index] {
        255 => *wide,
        value => u32::from(value % 4),
    };
    v1::FlowPair {
        session_id: u64::from(small[0] % 8),
        vip_id: number(1),
        vip_port: number(2),
        protocol: if small[3] < 200 { 6 } else { number(3) },
        client_addr: number(4),
        client_port: number(5),
        server_id: number(6),
        local_id: number(7),
        local_port: 1024 + number(8) % 65_000,
        idle_timeout_ms: *idle,
        generation: number(9),
    }
}

#[test]
fn any_numbers_as_a_flow() {
    bolero::check!()
        .with_iterations(20_000)
        .with_type::<Numbers>()
        .for_each(|numbers| {
            let flow = flow(numbers);
            if let Ok(pair) = Pair::from_api(&flow) {
                assert_eq!(pair.to_api(flow.session_id, flow.generation), flow);
                let (fwd, rev) = (pair.entry(Dir::Fwd), pair.entry(Dir::Rev));
                assert_eq!(Pair::from_entries(&fwd, &rev), Some(pair));
            }
        });
}

/// Any order of requests: the book never panics, and never has more sessions
/// than requests, nor two with one key.
#[test]
fn any_order_of_requests() {
    bolero::check!()
        .with_iterations(2_000)
        .with_type::<Vec<(u8, Numbers)>>()
        .for_each(|steps| {
            let ld: LdName = "ld1".into();
            let mut book = FlowBook::new(16);
            book.switch_up(&[], &Everything);
            book.ld_hello(&ld, false);
            for (step, numbers) in steps {
                let flow = flow(numbers);
                match step % 8 {
                    0..=2 => book.install(&ld, vec![flow], &Everything),
                    3 => book.remove(&ld, &[flow.session_id]),
                    4 => {
                        let resync = v1::Resync {
                            flows: vec![flow],
                            removing: vec![flow.session_id + 1],
                            done: step % 16 == 4,
                        };
                        book.resync(&ld, resync, &Everything);
                    }
                    5 => book.ld_hello(&ld, step % 16 == 5),
                    6 => {
                        book.switch_down();
                        book.switch_up(&[], &Everything);
                    }
                    _ => book.ld_gone(&ld, u64::from(*step)),
                }
                if let Some(batch) = book.next_batch(10) {
                    let outcome = offload_ctl::flows::BatchOutcome {
                        counts: Default::default(),
                        outcomes: Some(batch.updates.iter().map(|_| Ok(())).collect()),
                    };
                    book.batch_done(batch, outcome);
                }
                let _ = book.take_replies();
                assert!(book.len() <= 16);
                let mut keys: Vec<_> = book.views(0).map(|view| view.pair.fwd).collect();
                let all = keys.len();
                keys.sort_unstable();
                keys.dedup();
                assert_eq!(keys.len(), all);
            }
        });
}
