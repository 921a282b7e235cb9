//! Actions: parameters packed into words, and their primitives.

use serde_json::Value as Json;

use super::expr::{Expr, Scope, word};
use super::symbols::{Symbols, invalid, limit, unsupported};
use super::typed::{Typed, not_zero};
use crate::ir::expr::{BinOp, Cond, FieldPlace, HeaderSel, Num, StackSel, Value};
use crate::ir::{Action, FieldKind, HashPrim, LogMessage, ParamPlace, Prim, RandomPrim, StackId};
use crate::load::{Operand, Primitive, RuntimeData};
use crate::program::LoadError;

/// Most primitives in one action.
const MAX_PRIMITIVES: u64 = 1 << 16;
/// Most parameters of one action.
const MAX_PARAMS: u64 = 1 << 12;

/// Packs parameters into 64-bit words: those of up to 64 bits share words, the
/// widest first; wider ones take whole words.
pub(crate) fn place_params(
    place: &str,
    params: &[RuntimeData],
) -> Result<(Vec<ParamPlace>, usize), LoadError> {
    limit(
        place,
        "the number of its parameters",
        params.len() as u64,
        MAX_PARAMS,
    )?;
    let mut places = vec![
        ParamPlace {
            word: 0,
            shift: 0,
            width: 0
        };
        params.len()
    ];
    let mut order: Vec<usize> = (0..params.len()).collect();
    order.sort_by_key(|&i| std::cmp::Reverse(params.get(i).map_or(0, |p| p.bitwidth)));
    let mut used: Vec<u32> = Vec::new();
    for i in order {
        let width = params.get(i).map_or(0, |p| p.bitwidth);
        if width == 0 || width > 1 << 14 {
            return invalid(place, format!("parameter {i} has {width} bits"));
        }
        let (word, shift) = if width > 64 {
            let first = used.len();
            used.extend(std::iter::repeat_n(64, width.div_ceil(64) as usize));
            (first, 0)
        } else if let Some(w) = used.iter().position(|&u| u + width <= 64) {
            let shift = used.get(w).copied().unwrap_or(0);
            if let Some(u) = used.get_mut(w) {
                *u += width;
            }
            (w, shift)
        } else {
            used.push(width);
            (used.len() - 1, 0)
        };
        if let Some(p) = places.get_mut(i) {
            *p = ParamPlace {
                word: u16::try_from(word).unwrap_or(u16::MAX),
                shift: u8::try_from(shift).unwrap_or(0),
                width,
            };
        }
    }
    limit(
        place,
        "the width of its parameters in words",
        used.len() as u64,
        4096,
    )?;
    Ok((places, used.len()))
}

/// Lowers actions; collects the texts of `log_msg` and `assert` on the way.
pub(crate) struct Actions<'a> {
    pub(crate) symbols: &'a Symbols,
    pub(crate) log: Vec<LogMessage>,
}

impl Actions<'_> {
    /// One action of the document.
    pub(crate) fn action(&mut self, a: &crate::load::Action) -> Result<Action, LoadError> {
        let place = format!("action {:?} (id {})", a.name, a.id);
        let (params, words) = place_params(&place, &a.runtime_data)?;
        let body = self.body(&place, &params, &a.primitives)?;
        Ok(Action {
            params,
            words,
            body,
        })
    }

    /// A list of primitives.
    pub(crate) fn body(
        &mut self,
        place: &str,
        params: &[ParamPlace],
        primitives: &[Primitive],
    ) -> Result<Vec<Prim>, LoadError> {
        limit(
            place,
            "the number of its primitives",
            primitives.len() as u64,
            MAX_PRIMITIVES,
        )?;
        primitives
            .iter()
            .enumerate()
            .map(|(i, p)| {
                let mut at = format!("{place} primitive {i} ({})", p.op);
                if let Some(s) = p.source_info.as_ref().filter(|s| s.line > 0) {
                    at.push_str(&format!(" at {} line {}", s.filename, s.line));
                }
                self.primitive(&at, params, p, primitives.len())
            })
            .collect()
    }

    /// One primitive; `count` is the number of primitives that a jump may
    /// reach.
    pub(crate) fn primitive(
        &mut self,
        place: &str,
        params: &[ParamPlace],
        p: &Primitive,
        count: usize,
    ) -> Result<Prim, LoadError> {
        let symbols = self.symbols;
        let scope = Scope {
            symbols,
            params,
            place,
        };
        let args = Args {
            scope: &scope,
            list: &p.parameters,
        };
        Ok(match p.op.as_str() {
            "assign" | "modify_field" => {
                args.exactly(2)?;
                assign(&args)?
            }
            "assign_VL" => {
                args.exactly(2)?;
                Prim::AssignVar(args.varbit(0)?, args.varbit(1)?)
            }
            "assign_header" | "copy_header" => {
                args.exactly(2)?;
                let (to, from) = (args.header(0)?, args.header(1)?);
                let type_of = |h: u16| symbols.headers.get(usize::from(h)).map(|h| h.type_id);
                if type_of(to.1) != type_of(from.1) {
                    return invalid(place, "the two headers are of different types");
                }
                Prim::AssignHeader(Box::new((to.0, from.0)))
            }
            "assign_header_stack" => {
                args.exactly(2)?;
                let (to, from) = (args.stack(0)?, args.stack(1)?);
                let depth =
                    |s: StackId| symbols.stacks.get(usize::from(s)).map(|s| s.headers.len());
                if depth(to) != depth(from) {
                    return invalid(place, "the two stacks differ in size");
                }
                Prim::AssignStack(to, from)
            }
            "assign_union" => {
                args.exactly(2)?;
                match (args.any(0)?, args.any(1)?) {
                    (Expr::Union(a, _), Expr::Union(b, _)) => Prim::AssignUnion(Box::new((a, b))),
                    _ => return invalid(place, "it needs two header unions"),
                }
            }
            "assign_union_stack" => {
                args.exactly(2)?;
                match (args.any(0)?, args.any(1)?) {
                    (Expr::UnionStack(a), Expr::UnionStack(b)) => Prim::AssignUnionStack(a, b),
                    _ => return invalid(place, "it needs two header union stacks"),
                }
            }
            "add_header" | "add_header_fast" => {
                args.exactly(1)?;
                Prim::AddHeader(args.header(0)?.0)
            }
            "remove_header" => {
                args.exactly(1)?;
                Prim::RemoveHeader(args.header(0)?.0)
            }
            "push" | "pop" => {
                args.exactly(2)?;
                let stack = match args.any(0)? {
                    Expr::Stack(s) | Expr::UnionStack(s) => StackSel(s),
                    _ => return invalid(place, "it needs a header stack"),
                };
                let by = args.constant(1)?;
                if p.op == "push" {
                    Prim::Push(stack, by)
                } else {
                    Prim::Pop(stack, by)
                }
            }
            "_jump" => {
                args.exactly(1)?;
                Prim::Jump(jump_target(place, args.constant(0)?, count)?)
            }
            "_jump_if_zero" => {
                args.exactly(2)?;
                let target = jump_target(place, args.constant(1)?, count)?;
                Prim::JumpIfFalse(args.cond(0)?, target)
            }
            "add_to_field" | "subtract_from_field" => {
                args.exactly(2)?;
                let op = if p.op == "add_to_field" {
                    BinOp::Add
                } else {
                    BinOp::Sub
                };
                set(
                    args.place(0)?,
                    &Typed::binary(op, args.num(0)?, args.num(1)?),
                )
            }
            "add" | "subtract" | "bit_and" | "bit_or" | "bit_xor" | "shift_left"
            | "shift_right" => {
                args.exactly(3)?;
                let op = match p.op.as_str() {
                    "add" => BinOp::Add,
                    "subtract" => BinOp::Sub,
                    "bit_and" => BinOp::And,
                    "bit_or" => BinOp::Or,
                    "bit_xor" => BinOp::Xor,
                    "shift_left" => BinOp::Shl,
                    _ => BinOp::Shr,
                };
                set(
                    args.place(0)?,
                    &Typed::binary(op, args.num(1)?, args.num(2)?),
                )
            }
            "mark_to_drop" | "drop" => drop_prim(&args)?,
            "exit" => Prim::Exit,
            "no_op" => Prim::Nothing,
            "count" => {
                args.exactly(2)?;
                Prim::Count(
                    args.array(0, "counter_array", &symbols.counters)?,
                    args.word(1)?,
                )
            }
            "execute_meter" => {
                args.exactly(3)?;
                let meter = args.array(0, "meter_array", &symbols.meters)?;
                Prim::Meter(meter, Box::new((args.word(1)?, args.place(2)?)))
            }
            "register_read" => {
                args.exactly(3)?;
                let register = args.register(1)?;
                Prim::RegisterRead(register, Box::new((args.place(0)?, args.word(2)?)))
            }
            "register_write" => {
                args.exactly(3)?;
                let value = args.num(2)?.value();
                Prim::RegisterWrite(args.register(0)?, Box::new((args.word(1)?, value)))
            }
            "modify_field_with_hash_based_offset" => {
                args.exactly(4)?;
                Prim::Hash(Box::new(HashPrim {
                    dst: args.place(0)?,
                    // bmv2 reads base and size as 64-bit numbers.
                    base: args.num(1)?.num(),
                    calc: args.array(2, "calculation", &symbols.calcs)?,
                    max: args.num(3)?.num(),
                }))
            }
            "modify_field_rng_uniform" => {
                args.exactly(3)?;
                Prim::Random(Box::new(RandomPrim {
                    dst: args.place(0)?,
                    low: args.num(1)?.num(),
                    high: args.num(2)?.num(),
                }))
            }
            "clone_ingress_pkt_to_egress" | "clone_egress_pkt_to_egress" => {
                args.exactly(2)?;
                Prim::Clone(Box::new((args.word(0)?, args.word(1)?)))
            }
            "resubmit" => {
                args.exactly(1)?;
                Prim::Resubmit(args.word(0)?)
            }
            "recirculate" => {
                args.exactly(1)?;
                Prim::Recirculate(args.word(0)?)
            }
            "truncate" => {
                args.exactly(1)?;
                Prim::Truncate(args.word(0)?)
            }
            "generate_digest" => {
                args.exactly(2)?;
                Prim::Digest(args.word(1)?)
            }
            "log_msg" => {
                args.exactly(2)?;
                self.log_message(&args)?
            }
            "assert" | "assume" => {
                args.exactly(1)?;
                let text = match &p.source_info {
                    Some(s) => format!("{} failed: {} (line {})", p.op, s.source_fragment, s.line),
                    None => format!("{} failed", p.op),
                };
                let cond = args.cond(0)?;
                Prim::Assert(cond, self.add_log(text, Vec::new()))
            }
            other => return unsupported(place, format!("the primitive {other:?}")),
        })
    }

    fn log_message(&mut self, args: &Args<'_, '_>) -> Result<Prim, LoadError> {
        let place = args.scope.place;
        let format = match args.list.first() {
            Some(o) if o.kind == "string" => o.value.as_str().unwrap_or("").to_owned(),
            _ => return invalid(place, "its first parameter must be a string"),
        };
        let vector: Vec<Operand> = match args.list.get(1) {
            // p4c writes an empty vector as an object.
            Some(o) if o.kind == "parameters_vector" && o.value.is_object() => Vec::new(),
            Some(o) if o.kind == "parameters_vector" => {
                match serde_json::from_value(o.value.clone()) {
                    Ok(v) => v,
                    Err(e) => return invalid(place, format!("its values: {e}")),
                }
            }
            _ => return invalid(place, "its second parameter must be a vector"),
        };
        let mut values = Vec::with_capacity(vector.len());
        for o in &vector {
            values.push(match args.scope.operand(&o.kind, &o.value)? {
                Expr::Num(t) => t.value(),
                Expr::Bool(c) => Typed::from_bool(c).value(),
                _ => return invalid(place, "only numbers can be logged"),
            });
        }
        Ok(Prim::Log(self.add_log(format, values)))
    }

    fn add_log(&mut self, format: String, args: Vec<Value>) -> u32 {
        self.log.push(LogMessage { format, args });
        u32::try_from(self.log.len() - 1).unwrap_or(u32::MAX)
    }
}

fn jump_target(place: &str, target: u32, count: usize) -> Result<u32, LoadError> {
    if target as usize > count {
        return invalid(
            place,
            format!("it jumps to {target}, beyond the {count} primitives"),
        );
    }
    Ok(target)
}

/// The parameters of a primitive.
struct Args<'a, 's> {
    scope: &'a Scope<'s>,
    list: &'a [Operand],
}

impl Args<'_, '_> {
    fn exactly(&self, n: usize) -> Result<(), LoadError> {
        if self.list.len() == n {
            return Ok(());
        }
        invalid(
            self.scope.place,
            format!("it takes {n} parameters, not {}", self.list.len()),
        )
    }

    fn get(&self, i: usize) -> Result<&Operand, LoadError> {
        match self.list.get(i) {
            Some(o) => Ok(o),
            None => invalid(self.scope.place, format!("parameter {i} is missing")),
        }
    }

    fn any(&self, i: usize) -> Result<Expr, LoadError> {
        let o = self.get(i)?;
        self.scope.operand(&o.kind, &o.value)
    }

    fn num(&self, i: usize) -> Result<Typed, LoadError> {
        match self.any(i)? {
            Expr::Num(t) => Ok(t),
            Expr::Bool(c) => Ok(Typed::from_bool(c)),
            _ => invalid(self.scope.place, format!("parameter {i} must be a number")),
        }
    }

    fn word(&self, i: usize) -> Result<Num<u64>, LoadError> {
        Ok(word(&self.num(i)?))
    }

    fn cond(&self, i: usize) -> Result<Cond, LoadError> {
        match self.any(i)? {
            Expr::Num(t) => Ok(not_zero(&t)),
            Expr::Bool(c) => Ok(c),
            _ => invalid(
                self.scope.place,
                format!("parameter {i} must be a truth value"),
            ),
        }
    }

    fn constant(&self, i: usize) -> Result<u32, LoadError> {
        match self.num(i)?.as_const().map(u32::try_from) {
            Some(Ok(n)) => Ok(n),
            _ => invalid(
                self.scope.place,
                format!("parameter {i} must be a small constant"),
            ),
        }
    }

    fn header(&self, i: usize) -> Result<(HeaderSel, u16), LoadError> {
        match self.any(i)? {
            Expr::Header(sel, like) => Ok((sel, like)),
            _ => invalid(self.scope.place, format!("parameter {i} must be a header")),
        }
    }

    fn stack(&self, i: usize) -> Result<StackId, LoadError> {
        match self.any(i)? {
            Expr::Stack(s) => Ok(s),
            _ => invalid(
                self.scope.place,
                format!("parameter {i} must be a header stack"),
            ),
        }
    }

    fn varbit(&self, i: usize) -> Result<u16, LoadError> {
        let o = self.get(i)?;
        let symbols = self.scope.symbols;
        if o.kind == "field" {
            let f = symbols.field_pair(self.scope.place, &o.value)?;
            if f.kind == FieldKind::Varbit {
                return Ok(f.header);
            }
        } else if o.kind == "header"
            && let Some(h) = symbols.metadata_varbit(o.value.as_str().unwrap_or(""))
        {
            return Ok(h);
        }
        invalid(
            self.scope.place,
            format!("parameter {i} must be a varbit field"),
        )
    }

    fn array(
        &self,
        i: usize,
        kind: &str,
        names: &std::collections::HashMap<String, u32>,
    ) -> Result<u32, LoadError> {
        let o = self.get(i)?;
        if o.kind != kind {
            return invalid(self.scope.place, format!("parameter {i} must be a {kind}"));
        }
        match o.value.as_str().and_then(|n| names.get(n)) {
            Some(&id) => Ok(id),
            None => invalid(self.scope.place, format!("there is no {kind} {}", o.value)),
        }
    }

    fn register(&self, i: usize) -> Result<u32, LoadError> {
        let o = self.get(i)?;
        let found = (o.kind == "register_array")
            .then(|| o.value.as_str())
            .flatten()
            .and_then(|n| self.scope.symbols.registers.get(n));
        match found {
            Some(&(id, _)) => Ok(id),
            None => invalid(
                self.scope.place,
                format!("there is no register {}", o.value),
            ),
        }
    }

    /// Something that can be written to.
    fn place(&self, i: usize) -> Result<FieldPlace, LoadError> {
        let o = self.get(i)?;
        match place_of(self.scope, &o.kind, &o.value)? {
            Some(FieldPlace::Fixed(f)) if f.kind != FieldKind::Plain => invalid(
                self.scope.place,
                format!("parameter {i} cannot be assigned to"),
            ),
            Some(p) => Ok(p),
            None => invalid(self.scope.place, format!("parameter {i} must be a field")),
        }
    }
}

/// The field that an operand names, if it names one.
fn place_of(scope: &Scope<'_>, kind: &str, value: &Json) -> Result<Option<FieldPlace>, LoadError> {
    Ok(match scope.operand(kind, value)? {
        Expr::Num(t) => match t.node {
            super::typed::Node::Field(f) => Some(FieldPlace::Fixed(f)),
            super::typed::Node::Dynamic(p) => Some(p),
            _ => None,
        },
        _ => None,
    })
}

/// `mark_to_drop`; without a parameter, of standard metadata itself.
fn drop_prim(args: &Args<'_, '_>) -> Result<Prim, LoadError> {
    let (symbols, place) = (args.scope.symbols, args.scope.place);
    let header = if args.list.is_empty() {
        symbols.header_of_fields(place, "standard_metadata")?
    } else {
        args.exactly(1)?;
        let o = args.get(0)?;
        match (o.kind.as_str(), o.value.as_str()) {
            ("header", Some(name)) => symbols.header_of_fields(place, name)?,
            _ => match args.header(0)? {
                (HeaderSel::Fixed(h), _) => h,
                _ => return unsupported(place, "a metadata header chosen at run time"),
            },
        }
    };
    let loc = |name: &str| {
        symbols
            .field_of(place, header, name)
            .ok()
            .and_then(crate::ir::Field::loc)
    };
    match loc("egress_spec") {
        Some(egress_spec) => Ok(Prim::Drop(egress_spec, loc("mcast_grp"))),
        None => invalid(place, "the header has no field egress_spec"),
    }
}

/// `assign`, in the form that its operands allow.
fn assign(args: &Args<'_, '_>) -> Result<Prim, LoadError> {
    let target = args.get(0)?;
    if target.kind == "register" {
        let parts = target.value.as_array().filter(|a| a.len() == 2);
        let found = parts.and_then(|a| {
            let id = args.scope.symbols.registers.get(a.first()?.as_str()?)?;
            Some((id.0, a.get(1)?))
        });
        let Some((register, index)) = found else {
            return invalid(args.scope.place, "there is no such register");
        };
        let index = word(&args.scope.num(index)?);
        let value = args.num(1)?.value();
        return Ok(Prim::SetRegister(register, Box::new((index, value))));
    }
    let place = args.place(0)?;
    let source = args.num(1)?;
    Ok(set(place, &source))
}

/// A field becomes a value.
pub(crate) fn set(place: FieldPlace, source: &Typed) -> Prim {
    if let FieldPlace::Fixed(f) = &place
        && !f.saturating
        && let Some(loc) = f.loc()
    {
        if !loc.is_word() {
            return Prim::Set128(loc, Box::new(source.num()));
        }
        return match source.num::<u64>() {
            Num::Const(c) => Prim::SetConst(loc, c),
            Num::Field(from) => Prim::Copy64(loc, from),
            n => Prim::Set64(loc, n),
        };
    }
    Prim::SetAny(Box::new((place, source.value())))
}
