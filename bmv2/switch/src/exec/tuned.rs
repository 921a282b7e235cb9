//! Pipelines with the instructions that most x86-64 processors have, but not all.
//!
//! To load a field is to load a word, swap its bytes and shift twice. MOVBE
//! loads and swaps in one; BMI2 shifts by any register and leaves the flags
//! alone. The loop over operations gets 7 % shorter.

#![allow(
    unsafe_code,
    reason = "calling a function that needs instructions the compiler can't take for granted"
)]

use super::{Env, State, pipeline};
use crate::ir::code::{Code, Pc};
use crate::program::Program;
use crate::trace::Tracer;

/// Runs a pipeline from `start`. Traces run it as any processor would: that both
/// ways lead to the same packets is tested with them.
pub(crate) fn run<T: Tracer>(
    env: &Env<'_>,
    program: &Program,
    code: &Code,
    start: Pc,
    st: &mut State,
    packet: &[u8],
    tr: &mut T,
) {
    #[cfg(target_arch = "x86_64")]
    if !T::ON && is_x86_feature_detected!("bmi2") && is_x86_feature_detected!("movbe") {
        // SAFETY: the processor has the instructions.
        return unsafe { run_with_bmi2(env, program, code, start, st, packet, tr) };
    }
    pipeline::run(env, program, code, start, st, packet, tr);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "bmi2,movbe")]
fn run_with_bmi2<T: Tracer>(
    env: &Env<'_>,
    program: &Program,
    code: &Code,
    start: Pc,
    st: &mut State,
    packet: &[u8],
    tr: &mut T,
) {
    pipeline::run(env, program, code, start, st, packet, tr);
}
