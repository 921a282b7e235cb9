//! The direct forms of what a parser does most: operations on fields that 8
//! bytes of the image hold.

use crate::ir::bits::{Loc, mask64};
use crate::ir::code::{Byte, Span};
use crate::ir::expr::{Cond, Num};
use crate::ir::{FieldTest, Header, ParserOp, Prim, Select, SelectPart, SelectSource, WordCase};

/// The direct form of an operation that has one.
pub(super) fn operation(op: ParserOp, headers: &[Header]) -> ParserOp {
    let direct = match &op {
        ParserOp::Extract(h) => headers
            .get(usize::from(*h))
            .filter(|header| header.union.is_none() && header.varbit.is_none())
            .map(|header| ParserOp::ExtractFixed {
                header: *h,
                offset: header.offset,
                len: header.fixed,
            }),
        ParserOp::Verify(cond, Num::Const(error)) => {
            field_test(cond).map(|test| ParserOp::VerifyField {
                test,
                error: u32::try_from(*error).unwrap_or(u32::MAX),
            })
        }
        ParserOp::Primitive(prim) => primitive(prim),
        _ => None,
    };
    direct.unwrap_or(op)
}

/// The direct form of an assignment to a field that has its word to itself.
fn primitive(prim: &Prim) -> Option<ParserOp> {
    match prim {
        Prim::SetConst(to, value) if to.alone => Some(ParserOp::SetConst {
            byte: Byte::try_from(to.byte).ok()?,
            value: value & mask64(u32::from(to.width)),
        }),
        Prim::Copy64(to, from) if to.alone && from.width <= to.width => Some(ParserOp::SetField {
            byte: Byte::try_from(to.byte).ok()?,
            field: Span::new(*from)?,
        }),
        Prim::Set64(to, Num::FromBool(cond)) if to.alone => Some(ParserOp::SetTest {
            byte: Byte::try_from(to.byte).ok()?,
            test: field_test(cond)?,
        }),
        _ => None,
    }
}

/// A condition that asks about one field.
fn field_test(cond: &Cond) -> Option<FieldTest> {
    let test = |field: Loc, low, more, when| {
        Some(FieldTest {
            field: Span::new(field)?,
            low,
            more,
            when,
        })
    };
    match cond {
        Cond::FieldSet(field) => test(*field, 0, 0, false),
        Cond::FieldClear(field) => test(*field, 0, 0, true),
        Cond::FieldIs(field, value) => test(*field, *value, 0, true),
        Cond::FieldIsNot(field, value) => test(*field, *value, 0, false),
        Cond::Less64(pair) => match **pair {
            (Num::Field(field), Num::Const(value)) => test(field, 0, value.checked_sub(1)?, true),
            // Above a value is not from 0 to it.
            (Num::Const(value), Num::Field(field)) => test(field, 0, value, false),
            _ => None,
        },
        Cond::Not(cond) => field_test(cond).map(|test| FieldTest {
            when: !test.when,
            ..test
        }),
        _ => None,
    }
}

/// The direct form of a select whose key is fields within 8 bytes of the image.
pub(super) fn select(select: Select) -> Select {
    match select {
        Select::Word {
            key,
            cases,
            default,
        } => in_place(&key, &cases, default).unwrap_or(Select::Word {
            key,
            cases,
            default,
        }),
        other => other,
    }
}

/// Bits of the key and where they are in 8 bytes of the image.
struct Move {
    mask: u64,
    from: u8,
    to: u32,
}

impl Move {
    fn apply(&self, word: u64) -> u64 {
        ((word >> self.from) & self.mask) << self.to
    }
}

fn in_place(key: &[SelectPart], cases: &[WordCase], default: u32) -> Option<Select> {
    let fields: Vec<(&SelectPart, Span, u32)> = key
        .iter()
        .map(|part| match part.source {
            SelectSource::Field(loc) => Some((part, Span::new(loc)?, u32::from(loc.width))),
            _ => None,
        })
        .collect::<Option<_>>()?;
    let byte = fields.iter().map(|(_, span, _)| span.byte).min()?;
    let mut taken = 0;
    let mut moves = Vec::with_capacity(fields.len());
    for (part, span, width) in fields {
        let first = u32::from(span.byte - byte) * 8 + u32::from(span.up);
        let moved = Move {
            mask: mask64(width),
            from: part.shift,
            to: 64u32.checked_sub(first + width)?,
        };
        // A field that is twice in the key may be wanted to have two values.
        let place = moved.mask << moved.to;
        if taken & place != 0 {
            return None;
        }
        taken |= place;
        moves.push(moved);
    }
    let moved = |word: u64| moves.iter().map(|m| m.apply(word)).fold(0, |a, b| a | b);
    Some(Select::Image {
        byte,
        cases: cases
            .iter()
            .map(|case| WordCase {
                value: moved(case.value),
                mask: moved(case.mask),
                next: case.next,
            })
            .collect(),
        default,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field on the wire.
    fn loc(bit: u32, width: u32) -> Loc {
        Loc::new(bit, width).unwrap()
    }

    /// A field that has its word to itself.
    fn word(byte: u32, width: u32) -> Loc {
        Loc::in_word(byte * 8 + 64 - width, width, true).unwrap()
    }

    /// What a direct operation with a test answers, for a byte at offset 3.
    fn answers(op: &ParserOp) -> Vec<u8> {
        let (ParserOp::SetTest { test, .. } | ParserOp::VerifyField { test, .. }) = op else {
            panic!("{op:?}");
        };
        let of = |byte: u8| {
            let mut image = [0xff; 64];
            image[3] = byte;
            test.eval(&image)
        };
        (0..=255).filter(|b| of(*b)).collect()
    }

    #[test]
    fn conditions_on_one_field_are_tests() {
        let field = loc(24, 8);
        let less = |a, b| Cond::Less64(Box::new((a, b)));
        let (number, five) = (Num::Field(field), Num::Const(5));
        let all = |f: &dyn Fn(u8) -> bool| (0..=255).filter(|b| f(*b)).collect::<Vec<u8>>();
        for (cond, want) in [
            (Cond::FieldSet(field), all(&|b| b != 0)),
            (Cond::FieldClear(field), vec![0]),
            (Cond::FieldIs(field, 7), vec![7]),
            (Cond::FieldIsNot(field, 7), all(&|b| b != 7)),
            (less(number.clone(), five.clone()), vec![0, 1, 2, 3, 4]),
            (less(five, number), all(&|b| b > 5)),
            (
                Cond::Not(Box::new(Cond::FieldIs(field, 7))),
                all(&|b| b != 7),
            ),
        ] {
            let set = Prim::Set64(word(16, 1), Num::FromBool(Box::new(cond.clone())));
            let set = operation(ParserOp::Primitive(Box::new(set)), &[]);
            assert_eq!(answers(&set), want, "{cond:?}");
            let verify = operation(ParserOp::Verify(cond, Num::Const(9)), &[]);
            assert_eq!(answers(&verify), want, "{verify:?}");
            assert!(matches!(verify, ParserOp::VerifyField { error: 9, .. }));
        }
        let above_all = less(Num::Const(u64::MAX), Num::Field(field));
        let verify = operation(ParserOp::Verify(above_all, Num::Const(1)), &[]);
        assert!(answers(&verify).is_empty());
        let below_none = less(Num::Field(field), Num::Const(0));
        let verify = ParserOp::Verify(below_none, Num::Const(1));
        assert!(matches!(operation(verify, &[]), ParserOp::Verify(..)));
    }

    #[test]
    fn only_what_fits_a_word_is_put_there_directly() {
        let direct = |prim| operation(ParserOp::Primitive(Box::new(prim)), &[]);
        let constant = direct(Prim::SetConst(word(8, 4), 0x123));
        let ParserOp::SetConst { byte: 8, value } = constant else {
            panic!("{constant:?}");
        };
        assert_eq!(value, 3, "cut to 4 bits");
        let copy = direct(Prim::Copy64(word(8, 16), loc(4, 12)));
        let ParserOp::SetField { byte: 8, field } = copy else {
            panic!("{copy:?}");
        };
        assert_eq!(field.load(&[0xab, 0xcd, 0, 0, 0, 0, 0, 0]), 0xbcd);
        for other in [
            Prim::Copy64(word(8, 8), loc(0, 16)),
            Prim::Copy64(loc(64, 16), loc(0, 16)),
            Prim::SetConst(loc(64, 8), 1),
        ] {
            assert!(matches!(direct(other), ParserOp::Primitive(_)));
        }
    }

    /// A key of fields given as bit offset and width, packed from the left.
    fn key(fields: &[(u32, u32)]) -> Vec<SelectPart> {
        let mut left: u32 = fields.iter().map(|f| f.1).sum();
        fields
            .iter()
            .map(|&(bit, width)| {
                left -= width;
                SelectPart {
                    source: SelectSource::Field(loc(bit, width)),
                    word: 0,
                    shift: u8::try_from(left).unwrap(),
                }
            })
            .collect()
    }

    #[test]
    fn cases_look_for_fields_where_they_lie() {
        // Fragment offset, more fragments, protocol of an IPv4 header at byte 1.
        let fields = [(8 + 51, 13), (8 + 50, 1), (8 + 72, 8)];
        let case = |value, mask, next| WordCase { value, mask, next };
        let cases = vec![
            case(0x0006, 0x3f_ffff, 1),
            case(0x0100, 0x00_0100, 2),
            case(0x8200, 0x3f_fe00, 3),
        ];
        let lowered = select(Select::Word {
            key: key(&fields),
            cases,
            default: 4,
        });
        let Select::Image { byte, cases, .. } = lowered else {
            panic!("{lowered:?}");
        };
        assert_eq!(byte, 7);
        let next = |bytes: [u8; 4]| {
            let mut image = [0x5a; 16];
            image[7..11].copy_from_slice(&bytes);
            let word = crate::ir::bits::load_word(&image, byte.into());
            let found = cases.iter().find(|c| word & c.mask == c.value);
            found.map_or(4, |c| c.next)
        };
        // The other flags and the time to live don't matter.
        assert_eq!(next([0x00, 0x00, 0x40, 6]), 1);
        assert_eq!(next([0xc0, 0x00, 0x01, 6]), 1);
        assert_eq!(next([0x00, 0x00, 0x40, 17]), 4);
        assert_eq!(next([0x20, 0x00, 0x40, 6]), 2);
        assert_eq!(next([0x00, 0x41, 0x40, 6]), 3);
        assert_eq!(next([0x00, 0x01, 0x40, 6]), 4);
    }

    #[test]
    fn keys_that_no_word_holds_stay_as_they_are() {
        for fields in [&[(0, 8), (64, 8)][..], &[(0, 8), (4, 8)], &[(4, 64)]] {
            let word = Select::Word {
                key: key(fields),
                cases: vec![],
                default: 0,
            };
            assert!(matches!(select(word), Select::Word { .. }), "{fields:?}");
        }
        let just = Select::Word {
            key: key(&[(0, 8), (56, 8)]),
            cases: vec![],
            default: 0,
        };
        assert!(matches!(select(just), Select::Image { byte: 0, .. }));
    }
}
