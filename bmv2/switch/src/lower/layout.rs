//! Where every field of a header lies in the image.

use std::collections::HashMap;

use serde_json::Value as Json;

use super::symbols::{MAX_WIDTH, invalid, limit, unsupported};
use crate::ir::{Field, FieldKind, Header, HeaderId, Varbit};
use crate::load::Document;
use crate::program::LoadError;

/// A header type of the document.
#[derive(Debug)]
pub(super) struct Type {
    id: u32,
    fields: Vec<TypeField>,
    max_length: u32,
}

impl Type {
    /// Whether its length varies.
    pub(super) fn has_varbit(&self) -> bool {
        self.fields.iter().any(|f| f.varbit)
    }

    /// Whether its fields, without the varbit, are whole bytes together.
    pub(super) fn is_whole_bytes(&self) -> bool {
        let bits: u32 = self.fields.iter().map(|f| f.width).sum();
        bits.is_multiple_of(8)
    }
}

/// A field of a header type; `width` in bits, 0 for a varbit.
#[derive(Debug)]
struct TypeField {
    name: String,
    width: u32,
    signed: bool,
    saturating: bool,
    varbit: bool,
}

/// The header types by name.
pub(super) fn header_types(doc: &Document) -> Result<HashMap<&str, Type>, LoadError> {
    let mut types = HashMap::new();
    for (id, t) in doc.header_types.iter().enumerate() {
        let place = format!("header type {:?}", t.name);
        if t.length_exp.is_some() {
            return unsupported(place, "a length expression in a header type (P4_14)");
        }
        let mut fields = Vec::with_capacity(t.fields.len());
        let mut fixed = 0u64;
        for f in &t.fields {
            let Some(name) = f.first().and_then(Json::as_str) else {
                return invalid(place, "a field without a name");
            };
            let varbit = f.get(1).and_then(Json::as_str) == Some("*");
            let width = f.get(1).and_then(Json::as_u64);
            let width = match width {
                _ if varbit => 0,
                Some(w) => w,
                None => return invalid(place, format!("field {name:?} has no width")),
            };
            limit(
                &place,
                format!("the width of field {name:?} in bits"),
                width,
                MAX_WIDTH,
            )?;
            fixed += width;
            fields.push(TypeField {
                name: name.to_owned(),
                width: u32::try_from(width).unwrap_or(0),
                signed: f.get(2).and_then(Json::as_bool).unwrap_or(false),
                saturating: f.get(3).and_then(Json::as_bool).unwrap_or(false),
                varbit,
            });
        }
        if fields.iter().filter(|f| f.varbit).count() > 1 {
            return unsupported(place, "a header with two varbit fields");
        }
        limit(&place, "its width in bits", fixed, 8 * MAX_WIDTH)?;
        let max_length = t.max_length.unwrap_or(0);
        limit(
            &place,
            "its max_length in bytes",
            u64::from(max_length),
            MAX_WIDTH,
        )?;
        // Types of one shape are compared by name in bmv2; so are they here.
        types.insert(
            t.name.as_str(),
            Type {
                id: u32::try_from(id).unwrap_or(u32::MAX),
                fields,
                max_length,
            },
        );
    }
    Ok(types)
}

/// Places a header's fields in the image from byte `at` on.
pub(super) fn lay_out(
    place: &str,
    h: &crate::load::Header,
    ty: &Type,
    id: HeaderId,
    at: usize,
    on_wire: bool,
) -> Result<Header, LoadError> {
    let offset = u32::try_from(at).unwrap_or(u32::MAX);
    let fixed_bits: u32 = ty.fields.iter().map(|f| f.width).sum();
    let varbit_bits = (8 * ty.max_length).saturating_sub(fixed_bits);
    let most = fixed_bits + if ty.has_varbit() { varbit_bits } else { 0 };
    if on_wire && !most.is_multiple_of(8) {
        return invalid(place, format!("its {most} bits are not whole bytes"));
    }
    let mut varbit = None;
    let mut fields = Vec::with_capacity(ty.fields.len() + 1);
    let mut names = Vec::with_capacity(ty.fields.len() + 1);
    let mut bit = offset * 8;
    for f in &ty.fields {
        let mut width = f.width;
        if f.varbit {
            // In the image it begins at a byte, and so does what is behind it.
            let before = bit - offset * 8;
            let at = before.div_ceil(8);
            varbit = Some(Varbit {
                before,
                at,
                max: varbit_bits,
                behind: at + varbit_bits.div_ceil(8),
                after: fixed_bits - before,
                max_header: ty.max_length,
            });
            bit = (offset + at) * 8;
            width = varbit_bits;
        } else if !on_wire {
            // Right-aligned in words of their own: one load, one shift.
            let words = f.width.div_ceil(64);
            bit = bit.div_ceil(64) * 64 + words * 64 - f.width;
        }
        fields.push(Field {
            header: id,
            kind: if f.varbit {
                FieldKind::Varbit
            } else {
                FieldKind::Plain
            },
            bit,
            width,
            signed: f.signed,
            saturating: f.saturating,
            word: !on_wire,
            part: false,
        });
        names.push(f.name.clone());
        bit += width;
        if f.varbit {
            bit = bit.next_multiple_of(8);
        }
    }
    let size = (bit - offset * 8).div_ceil(8);
    let size = if on_wire { size } else { size.div_ceil(8) * 8 };
    fields.push(Field {
        header: id,
        kind: FieldKind::Valid,
        bit: offset * 8,
        width: 1,
        signed: false,
        saturating: false,
        word: false,
        part: false,
    });
    names.push("$valid$".into());
    Ok(Header {
        name: h.name.clone(),
        type_id: ty.id,
        metadata: h.metadata,
        offset,
        size,
        fixed: fixed_bits / 8,
        varbit,
        fields,
        field_names: names,
        union: None,
    })
}
