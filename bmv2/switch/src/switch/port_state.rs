//! Which ports are down.

/// Ports, by number; those beyond 511 do not exist (`standard_metadata` has
/// nine bits for a port).
pub(crate) const PORTS: u16 = 512;

/// The ports that are down; at first none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PortsDown([u64; PORTS as usize / 64]);

impl PortsDown {
    /// Whether a port is down. One that cannot exist is.
    pub(crate) fn contains(&self, port: u16) -> bool {
        match self.0.get(usize::from(port) / 64) {
            Some(word) => word >> (port % 64) & 1 == 1,
            None => true,
        }
    }

    /// Marks a port; whether that changed anything.
    pub(crate) fn set(&mut self, port: u16, down: bool) -> bool {
        let Some(word) = self.0.get_mut(usize::from(port) / 64) else {
            return false;
        };
        let (old, bit) = (*word, 1 << (port % 64));
        *word = if down { old | bit } else { old & !bit };
        *word != old
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_port_has_its_own_mark() {
        let mut down = PortsDown::default();
        assert!(!down.contains(0) && !down.contains(511));
        assert!(down.set(511, true) && down.set(64, true));
        assert!(!down.set(64, true), "it was down already");
        let all: Vec<u16> = (0..PORTS).filter(|&p| down.contains(p)).collect();
        assert_eq!(all, [64, 511]);
        assert!(down.set(64, false) && !down.contains(64));
        // There is no such port.
        assert!(down.contains(512) && !down.set(512, false));
    }
}
