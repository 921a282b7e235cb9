//! What a digest message takes from a packet.

use smallvec::SmallVec;

use super::State;
use crate::control::Value;
use crate::ir::bits::copy_bits;
use crate::ir::{Field, FieldKind, Ir};
use crate::switch::DigestValue;

/// A field as the value of a digest message.
pub(crate) fn learn(ir: &Ir, st: &State, f: Field) -> DigestValue {
    let valid = st.is_valid(f.header);
    let (number, bits) = match f.kind {
        FieldKind::Plain => {
            let mut number: Value = SmallVec::from_elem(0, f.width.div_ceil(8) as usize);
            let (bit, width) = (f.bit as usize, f.width as usize);
            let padding = number.len() * 8 - width;
            copy_bits(&mut number, padding, &st.image, bit, width);
            (number, f.width)
        }
        FieldKind::Varbit => {
            let number = st.varbit_number(ir, f.header);
            (SmallVec::from_slice(&number), st.varbit_len(f.header))
        }
        FieldKind::Valid => (SmallVec::from_slice(&[u8::from(valid)]), 1),
    };
    DigestValue {
        number,
        bits,
        valid: valid || f.kind == FieldKind::Valid,
    }
}
