//! Frames that our programs understand.

use anyhow::Result;
use hw_tests::frame::{self, Ip};

use super::random::Random;

/// The Ethernet type of requests.
const REQUEST: u16 = 0x88b5;

const MAC_A: u64 = 0x0200_0000_0001;
const MAC_B: u64 = 0x0200_0000_0002;

/// Frames for `clients`.
pub(super) fn plain() -> Result<Vec<Vec<u8>>> {
    let (a, b) = (frame::addr(10, 0, 0, 1), frame::addr(10, 1, 2, 3));
    Ok(vec![
        frame::ipv4(MAC_A, MAC_B, &Ip::tcp((a, 1000), (b, 80), 2))?,
        frame::ipv4(MAC_B, MAC_A, &Ip::udp((b, 53), (a, 2000)))?,
        frame::ipv4(MAC_A, MAC_B, &Ip::echo(a, b))?,
        frame::ethernet(MAC_B, MAC_A, 0x88b5, b"something else altogether"),
        frame::ethernet(0xffff_ffff_ffff, MAC_A, 0x0806, &[0; 28]),
    ])
}

/// Frames for `parsing`.
pub(super) fn parsing() -> Result<Vec<Vec<u8>>> {
    let (a, b) = (frame::addr(10, 0, 0, 1), frame::addr(10, 1, 2, 3));
    let udp = Ip::udp((a, 1), (b, 2));
    let with_options = Ip::udp((a, 1), (b, 2)).options(&[1, 1, 1, 1, 7, 4, 0, 0]);
    let packet = udp.bytes()?;
    let labels = |count: u8| -> Vec<u8> {
        (1..=count)
            .flat_map(|n| [0, n, 0x10 | u8::from(n == count), 64])
            .collect()
    };
    let under = |count: u8| [labels(count), packet.clone()].concat();
    Ok(vec![
        frame::ipv4(MAC_A, MAC_B, &udp)?,
        frame::ipv4(MAC_A, MAC_B, &with_options)?,
        frame::ethernet(MAC_A, MAC_B, 0x8847, &under(1)),
        frame::ethernet(MAC_A, MAC_B, 0x8847, &under(3)),
        frame::ethernet(MAC_A, MAC_B, 0x8847, &under(4)),
        frame::ethernet(MAC_A, MAC_B, 0x8847, &under(6)),
        frame::ethernet(MAC_A, MAC_B, 0x0901, &[1, 0xff, 3, 4, 5, 6]),
        frame::ethernet(MAC_A, MAC_B, 0x0902, &[2, 0xff, 3, 4, 5, 6]),
        frame::ethernet(MAC_A, MAC_B, 0x0903, &[3, 0xff, 3, 4, 5, 6]),
        frame::ethernet(MAC_A, MAC_B, 0x1001, &[9, 8, 1, 7, 6, 5]),
        frame::ethernet(MAC_A, MAC_B, 0x1002, &[9]),
        frame::ethernet(MAC_A, MAC_B, 0x0800, &[0x65, 0, 0, 20]),
        frame::ethernet(MAC_A, MAC_B, 0x0800, &[&[0x43][..], &[0; 40]].concat()),
    ])
}

/// For `externs`, one request for each operation, several for those with a
/// state.
pub(super) fn externs() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for what in (0..=28).chain(40..=44) {
        let times = if matches!(what, 16 | 17) { 9 } else { 2 };
        for n in 0..times {
            let (a, b): (u32, u32) = match what {
                9..=17 => (1 + n % 2, 0x1234_5678 + n),
                26 | 28 => (1 + n, 0),
                _ => (0x8000_00f0 + n * 77, 0x1_0003 * (n + 1)),
            };
            let mut request = vec![what, 2, 0, 1];
            request.extend(a.to_be_bytes());
            request.extend(b.to_be_bytes());
            request.extend([0x11; 8]);
            request.push(0x85);
            request.extend([0x80, 0x01, 0x7f, 0xfe]);
            request.extend(b"trailing payload");
            frames.push(frame::ethernet(MAC_A, MAC_B, REQUEST, &request));
        }
    }
    frames
}

fn request(body: &[u8]) -> Vec<u8> {
    frame::ethernet(MAC_A, MAC_B, REQUEST, body)
}

/// For `wide`, each operation with operands of all sizes.
pub(super) fn wide() -> Vec<Vec<u8>> {
    let mut random = Random::new(0x71de);
    let mut frames = Vec::new();
    for what in 1..=16 {
        for by in [0, 1, 3, 63, 64, 65, 71, 100, 127, 128, 199, 200, 255] {
            // Registers have few cells, and are read where they were written.
            let by = if what >= 14 { by % 6 } else { by };
            let mut body = vec![what, by, 0, 1];
            // Their bytes: a, b, sa, sb, n, m, x, y, big, other.
            for length in [16, 16, 16, 16, 9, 9, 8, 8, 25, 25] {
                let mut operand = match random.below(6) {
                    0 => vec![0; length],
                    1 => vec![0xff; length],
                    2 => [vec![0x80], vec![0; length - 1]].concat(),
                    3 => [vec![0x7f], vec![0xff; length - 1]].concat(),
                    _ => random.bytes(length),
                };
                if random.one_in(4) {
                    // A small number, or its complement.
                    let sign = if random.one_in(2) { 0 } else { 0xff };
                    operand[..length - 1].fill(sign);
                }
                body.extend(operand);
            }
            frames.push(request(&body));
        }
    }
    frames
}

/// For `stacks`, each operation on stacks of all sizes, with unions and
/// options.
pub(super) fn stacks() -> Vec<Vec<u8>> {
    let mut random = Random::new(0x57ac);
    let mut frames = Vec::new();
    for what in (0..=24).chain(30..=33) {
        for labels in 0..=5u8 {
            let index = labels % 4;
            let options = random.below(17);
            let bits = u16::try_from(options * 8).unwrap_or(0);
            let mut body = vec![what, index];
            body.extend(bits.to_be_bytes());
            body.push(0);
            // The first of the options says how it goes on.
            body.push(match labels {
                0 => 100,
                5 if random.one_in(2) => 5,
                _ => 0,
            });
            body.extend(random.bytes(options));
            body.push(0x99);
            for n in 1..=labels {
                let value = u8::try_from(random.below(4)).unwrap_or(0);
                body.extend([value, 2 * n + u8::from(n < labels)]);
            }
            for _ in 0..random.below(4) {
                if random.one_in(2) {
                    body.extend([1, 1]);
                } else {
                    body.extend([2, 1, 2, 3]);
                }
            }
            if random.one_in(2) {
                body.push(3);
                body.extend(random.bytes(15));
            }
            body.extend(b"a payload of some length");
            frames.push(request(&body));
        }
    }
    // One alone, of either size, and lengths that are refused.
    for (first, length, rest) in [
        (5, 0, [0x81, 0x80, 1, 1]),
        (5, 0, [0x81, 0x81, 2, 2]),
        (5, 8, [0x81, 0x80, 1, 1]),
        (101, 0, [1, 2, 3, 4]),
        (0, 7, [1, 2, 3, 4]),
        (0, 136, [1, 2, 3, 4]),
        (0, 65_528, [1, 2, 3, 4]),
    ] {
        let mut body = vec![22, 0];
        body.extend(u16::to_be_bytes(length));
        body.extend([0, first]);
        body.extend(rest);
        body.extend([0x80, 0x81, 0x82, 0x83].repeat(10));
        frames.push(request(&body));
    }
    frames
}

/// For `copies`, all combinations of copies.
pub(super) fn copies() -> Vec<Vec<u8>> {
    let mut random = Random::new(0xc0b1);
    (0..=255)
        .map(|what| {
            let session = [5, 6, 8, 9, 4, 7]
                .get(random.below(6))
                .copied()
                .unwrap_or(5);
            let group = u8::try_from(random.below(12)).unwrap_or(0);
            let port = u8::try_from(random.below(4)).unwrap_or(0);
            let mut body = vec![what, session, 0, group, port];
            body.extend(random.bytes(9));
            let payload = random.below(60);
            body.extend(random.bytes(payload));
            request(&body)
        })
        .collect()
}

/// For `keys`, values that are near to each other.
pub(super) fn keys() -> Vec<Vec<u8>> {
    let mut random = Random::new(0x4e75);
    (0..120)
        .map(|_| {
            // Most bytes are one of few, so that entries meet packets.
            let body: Vec<u8> = (0..22)
                .map(|_| match random.below(6) {
                    0 => 0x80,
                    1 => random.bytes(1).pop().unwrap_or(0),
                    n => u8::try_from(n - 2).unwrap_or(0),
                })
                .collect();
            request(&body)
        })
        .collect()
}
