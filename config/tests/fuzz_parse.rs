//! No text makes the readers of configuration panic.

use sluice_config::{Gateway, OffloadCtl, Slowpath};

#[test]
fn any_text_is_read_or_refused() {
    bolero::check!()
        .with_iterations(2_000)
        .for_each(|bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes);
            let _ = Gateway::parse(&text);
            let _ = OffloadCtl::parse(&text);
            let _ = Slowpath::parse(&text);
        });
}

/// Random bytes seldom get past the TOML parser: damage a good file instead.
#[test]
fn a_damaged_sample_is_read_or_refused() {
    let sample = include_str!("../samples/gateway.toml");
    bolero::check!()
        .with_iterations(2_000)
        .with_type::<(u16, u8, u16)>()
        .for_each(|&(at, byte, cut)| {
            let mut bytes = sample.as_bytes().to_vec();
            let at = usize::from(at) % bytes.len();
            bytes[at] = byte;
            if cut % 4 == 0 {
                bytes.truncate(usize::from(cut) % sample.len());
            }
            let _ = Gateway::parse(&String::from_utf8_lossy(&bytes));
        });
}
