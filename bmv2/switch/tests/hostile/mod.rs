//! What must hold of hostile programs and packets: a program is refused with a
//! reason, or its packets come to an end, soon, and are counted.

use std::sync::Arc;

use serde_json::Value as Json;
use softswitch::{LoadError, Output, Program, Switch, Timestamp};

use crate::copying::PASSES;

/// Sends packets through a fresh switch; every one must come to an end.
pub(crate) fn send(s: &Arc<Switch>, packets: &[(u16, &[u8])]) {
    let mut w = s.worker();
    for (port, packet) in packets {
        let mut ends = 0u32;
        w.process(*port, packet, Timestamp::from_micros(5), &mut |o| {
            ends += 1;
            if let Output::Transmit { bytes, .. } = o {
                // What came in and what all headers of a program may hold.
                assert!(bytes.len() <= softswitch::switch::MAX_PACKET + (1 << 18));
            }
        });
        assert!((1..=4 * PASSES + 64).contains(&ends), "{ends} ends");
    }
    let stats = s.stats();
    let dropped: u64 = stats.dropped.iter().sum();
    assert_eq!(stats.received, packets.len() as u64);
    let ends = stats.transmitted + stats.packet_ins + dropped;
    assert_eq!(stats.received + stats.copies, ends, "{stats:?}");
}

/// The program, if it is accepted. A refusal says why, and where; the loader
/// itself never fails.
pub(crate) fn load(document: &[u8]) -> Option<Program> {
    match Program::load(document) {
        Ok(program) => Some(program),
        Err(LoadError::Syntax(text)) => {
            assert!(!text.contains("the loader failed"), "the loader panicked");
            assert!(!text.is_empty());
            None
        }
        Err(
            LoadError::Invalid { place, what }
            | LoadError::Unsupported { place, what }
            | LoadError::Limit { place, what, .. },
        ) => {
            assert!(!place.is_empty() && !what.is_empty());
            None
        }
        Err(LoadError::Version { .. }) => None,
    }
}

/// How many values a document has.
pub(crate) fn count(json: &Json) -> usize {
    1 + match json {
        Json::Array(a) => a.iter().map(count).sum(),
        Json::Object(o) => o.values().map(count).sum(),
        _ => 0,
    }
}

/// The `n`th value of a document, depth first.
pub(crate) fn nth<'j>(json: &'j mut Json, n: &mut usize) -> Option<&'j mut Json> {
    if *n == 0 {
        return Some(json);
    }
    *n -= 1;
    match json {
        Json::Array(a) => a.iter_mut().find_map(|j| nth(j, n)),
        Json::Object(o) => o.values_mut().find_map(|j| nth(j, n)),
        _ => None,
    }
}
