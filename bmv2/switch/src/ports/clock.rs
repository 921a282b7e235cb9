//! The switch's clock.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::Timestamp;

/// Time since the switch started, the same for packets and for the control
/// side.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Self {
        Self {
            origin: Instant::now(),
        }
    }

    /// Time since the start.
    pub fn now(self) -> Timestamp {
        let ns = self.origin.elapsed().as_nanos();
        Timestamp::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// Nanoseconds since the Unix epoch, for messages to controllers.
    pub fn unix_nanos() -> i64 {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .ok()
            .and_then(|d| i64::try_from(d.as_nanos()).ok())
            .unwrap_or(0)
    }
}
