//! Frames that wait for the end of a burst, to leave by their priority.

use crate::switch::Output;

/// Where a frame goes, and how urgent it is.
#[derive(Debug, Clone, Copy)]
struct Frame {
    /// `None`: to the controller.
    port: Option<u16>,
    priority: u8,
    /// Where its bytes begin and end.
    from: usize,
    to: usize,
}

/// Frames of one burst.
#[derive(Debug, Default)]
pub(super) struct Held {
    frames: Vec<Frame>,
    bytes: Vec<u8>,
}

impl Held {
    /// Keeps a frame; `None` is the controller.
    pub(super) fn push(&mut self, port: Option<u16>, priority: u8, bytes: &[u8]) {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.frames.push(Frame {
            port,
            priority,
            from,
            to: self.bytes.len(),
        });
    }

    /// Gives all frames away: of each port the highest priority first, in the
    /// order of arrival within one.
    pub(super) fn drain(&mut self, out: &mut impl FnMut(Output<'_>)) {
        self.frames.sort_by_key(|f| std::cmp::Reverse(f.priority));
        for f in self.frames.drain(..) {
            let bytes = self.bytes.get(f.from..f.to).unwrap_or(&[]);
            out(match f.port {
                Some(port) => Output::Transmit { port, bytes },
                None => Output::PacketIn { bytes },
            });
        }
        self.bytes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_priority_leaves_first() {
        let mut held = Held::default();
        for (port, priority, byte) in [
            (Some(1), 0, 10),
            (Some(2), 0, 20),
            (Some(1), 7, 11),
            (None, 3, 30),
            (Some(1), 7, 12),
            (Some(2), 1, 21),
        ] {
            held.push(port, priority, &[byte; 3]);
        }
        let mut seen = Vec::new();
        held.drain(&mut |o| match o {
            Output::Transmit { port, bytes } => seen.push((Some(port), bytes.to_vec())),
            Output::PacketIn { bytes } => seen.push((None, bytes.to_vec())),
            Output::Dropped { .. } => {}
        });
        let of = |wanted: Option<u16>| -> Vec<Vec<u8>> {
            let frames = seen.iter().filter(|(port, _)| *port == wanted);
            frames.map(|(_, bytes)| bytes.clone()).collect()
        };
        assert_eq!(of(Some(1)), [[11; 3], [12; 3], [10; 3]]);
        assert_eq!(of(Some(2)), [[21; 3], [20; 3]]);
        assert_eq!(of(None), [[30; 3]]);
        held.drain(&mut |_| panic!("something is left"));
    }
}
