//! Headers, unions and fields that may be chosen at run time.

use super::{Cond, Num, View};
use crate::ir::{Field, HeaderId, StackId, UnionId};
use crate::switch::DropReason;

/// A header, fixed or chosen at run time.
#[derive(Debug, Clone)]
pub(crate) enum HeaderSel {
    Fixed(HeaderId),
    /// An element of a header stack.
    Element(StackId, Box<Num<u64>>),
    /// The element extracted last.
    Last(StackId),
    /// A member of a union.
    Member(Box<UnionSel>, u16),
    /// One of two.
    If(Box<(Cond, HeaderSel, HeaderSel)>),
}

impl HeaderSel {
    /// The header; an index beyond the stack is a fault of the program.
    pub(crate) fn resolve(&self, v: &View<'_>) -> Option<HeaderId> {
        match self {
            Self::Fixed(h) => Some(*h),
            Self::Element(stack, index) => {
                let found = usize::try_from(index.eval(v)).ok().and_then(|i| {
                    v.ir.stacks
                        .get(usize::from(*stack))
                        .and_then(|s| s.headers.get(i))
                        .copied()
                });
                if found.is_none() {
                    v.state.fault(DropReason::StackIndex);
                }
                found
            }
            Self::Last(stack) => {
                let found = (v.state.next_index(*stack) as usize)
                    .checked_sub(1)
                    .and_then(|i| {
                        v.ir.stacks
                            .get(usize::from(*stack))
                            .and_then(|s| s.headers.get(i))
                            .copied()
                    });
                if found.is_none() {
                    v.state.fault(DropReason::StackIndex);
                }
                found
            }
            Self::If(p) => {
                let chosen = if p.0.eval(v) { &p.1 } else { &p.2 };
                chosen.resolve(v)
            }
            Self::Member(union, member) => {
                let u = union.resolve(v)?;
                v.ir.unions
                    .get(usize::from(u))
                    .and_then(|u| u.headers.get(usize::from(*member)))
                    .copied()
            }
        }
    }
}

/// A union, fixed or chosen at run time.
#[derive(Debug, Clone)]
pub(crate) enum UnionSel {
    Fixed(UnionId),
    Element(StackId, Num<u64>),
    Last(StackId),
}

impl UnionSel {
    /// The union; an index beyond the stack is a fault of the program.
    pub(crate) fn resolve(&self, v: &View<'_>) -> Option<UnionId> {
        let (stack, index) = match self {
            Self::Fixed(u) => return Some(*u),
            Self::Element(stack, index) => (*stack, usize::try_from(index.eval(v)).ok()),
            Self::Last(stack) => (*stack, (v.state.next_index(*stack) as usize).checked_sub(1)),
        };
        let found = index.and_then(|i| {
            usize::from(stack)
                .checked_sub(v.ir.stacks.len())
                .and_then(|s| v.ir.union_stacks.get(s))
                .and_then(|s| s.unions.get(i))
                .copied()
        });
        if found.is_none() {
            v.state.fault(DropReason::StackIndex);
        }
        found
    }
}

/// A stack of headers or unions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StackSel(pub(crate) StackId);

/// A field that is written or read in the general way.
#[derive(Debug, Clone)]
pub(crate) enum FieldPlace {
    Fixed(Field),
    /// A field, by its position, of a header chosen at run time.
    Of(HeaderSel, u16),
}

impl FieldPlace {
    /// The field; `None` after a fault.
    pub(crate) fn resolve(&self, v: &View<'_>) -> Option<Field> {
        match self {
            Self::Fixed(f) => Some(*f),
            Self::Of(sel, field) => {
                let h = sel.resolve(v)?;
                v.ir.headers
                    .get(usize::from(h))
                    .and_then(|h| h.fields.get(usize::from(*field)))
                    .copied()
            }
        }
    }
}
