//! Putting back the VLAN tag that the kernel took out of a received frame.

/// Length of a VLAN tag in bytes.
pub(super) const TAG_LEN: usize = 4;
/// Both MAC addresses; the tag follows them (IEEE 802.1Q).
const MACS_LEN: usize = 12;

/// Moves the MAC addresses of the Ethernet frame at `start` back by four bytes
/// and writes the tag behind them. Returns where the frame now starts; `None`
/// if there is no room or no whole Ethernet header's worth of addresses.
pub(super) fn reinsert(buffer: &mut [u8], start: usize, tpid: u16, tci: u16) -> Option<usize> {
    let new_start = start.checked_sub(TAG_LEN)?;
    let macs_end = start.checked_add(MACS_LEN)?;
    if macs_end > buffer.len() {
        return None;
    }
    buffer.copy_within(start..macs_end, new_start);
    let tag = macs_end - TAG_LEN;
    buffer[tag..tag + 2].copy_from_slice(&tpid.to_be_bytes());
    buffer[tag + 2..tag + 4].copy_from_slice(&tci.to_be_bytes());
    Some(new_start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tag_follows_the_addresses() {
        let mut buffer = vec![0xee; 8];
        buffer.extend([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0x08, 0x00, 0x45]);
        let start = reinsert(&mut buffer, 8, 0x88a8, 0x6123);
        assert_eq!(start, Some(4));
        assert_eq!(
            buffer[4..],
            [
                1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0x88, 0xa8, 0x61, 0x23, 0x08, 0x00, 0x45
            ]
        );
        assert_eq!(buffer[..4], [0xee; 4]);
    }

    #[test]
    fn refuses_without_room() {
        assert_eq!(reinsert(&mut [0; 32], 3, 0x8100, 1), None);
        assert_eq!(reinsert(&mut [0; 15], 4, 0x8100, 1), None);
        assert_eq!(reinsert(&mut [0; 16], 4, 0x8100, 1), Some(0));
    }
}
