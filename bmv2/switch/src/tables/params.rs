//! Action parameters between bytes and words.

use smallvec::SmallVec;

use super::key::{self, bytes_to_limbs, check_width, limbs_to_bytes};
use crate::control::{ActionCall, TableError, Value};
use crate::ir::{Ir, ParamPlace};
use crate::program::{ActionId, Program};

/// The words of an action's parameters.
pub(crate) fn pack_params(
    place: &str,
    program: &Program,
    call: &ActionCall,
) -> Result<SmallVec<[u64; 4]>, TableError> {
    let (Some(info), Some(action)) = (
        program.actions.get(call.action.index()),
        program.ir.actions.get(call.action.index()),
    ) else {
        return Err(TableError::NoSuchObject {
            what: "action",
            id: call.action.0,
        });
    };
    if call.params.len() != info.params.len() {
        return Err(TableError::Invalid {
            place: place.to_owned(),
            what: format!(
                "action {} takes {} parameters, not {}",
                info.name,
                info.params.len(),
                call.params.len()
            ),
        });
    }
    let mut words = SmallVec::from_elem(0, action.words);
    for ((p, v), i) in action.params.iter().zip(&call.params).zip(&info.params) {
        if v.len() * 8 > p.width as usize {
            check_width(
                &format!("{place}, action {}", info.name),
                &i.name,
                p.width,
                v,
            )?;
        }
        put_param(&mut words, *p, v);
    }
    Ok(words)
}

fn put_param(words: &mut [u64], p: ParamPlace, value: &[u8]) {
    let at = usize::from(p.word);
    if p.width <= 64 {
        if let Some(w) = words.get_mut(at) {
            *w |= key::chunk(value, 0, 64) << p.shift;
        }
        return;
    }
    let limbs = bytes_to_limbs(value, p.width.div_ceil(64) as usize);
    for (i, limb) in limbs.iter().enumerate() {
        if let Some(w) = words.get_mut(at + i) {
            *w = *limb;
        }
    }
}

/// A call with its parameters as bytes.
pub(crate) fn unpack_call(ir: &Ir, action: ActionId, words: &[u64]) -> ActionCall {
    let places = ir
        .actions
        .get(action.index())
        .map_or(&[][..], |a| a.params.as_slice());
    let params = places
        .iter()
        .map(|p| {
            let word = |i: usize| words.get(usize::from(p.word) + i).copied().unwrap_or(0);
            if p.width <= 64 {
                return key::bytes_of(
                    (word(0) >> p.shift) & crate::ir::bits::mask64(p.width),
                    p.width,
                );
            }
            let limbs: SmallVec<[u64; 4]> = (0..p.width.div_ceil(64) as usize).map(word).collect();
            limbs_to_bytes(&limbs, p.width)
        })
        .collect::<Vec<Value>>();
    ActionCall { action, params }
}
