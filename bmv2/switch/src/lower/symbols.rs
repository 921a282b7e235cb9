//! Names of the document, resolved: header instances, stacks, unions, arrays and
//! their fields.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

use num_bigint::{BigInt, Sign};
use serde_json::Value as Json;

use super::layout::{header_types, lay_out};
use crate::ir::bits::SLACK;
use crate::ir::{Field, Header, HeaderId, Stack, StackId, Union, UnionId, UnionStack};
use crate::load::Document;
use crate::program::LoadError;

/// Widest field that is accepted, in bits.
pub(super) const MAX_WIDTH: u64 = 1 << 14;
/// Largest image of all headers and metadata that is accepted, in bytes: every
/// copy of a packet has one, and a packet may have a thousand copies.
const MAX_IMAGE: usize = 1 << 18;
/// Metadata of which every field has words of its own: never on the wire.
const WORDS: [&str; 2] = ["scalars", "standard_metadata"];
/// Most header instances.
const MAX_HEADERS: usize = 1 << 14;

/// An inconsistency.
pub(crate) fn invalid<T>(
    place: impl Into<String>,
    what: impl Into<String>,
) -> Result<T, LoadError> {
    Err(LoadError::Invalid {
        place: place.into(),
        what: what.into(),
    })
}

/// Something this switch does not have.
pub(crate) fn unsupported<T>(
    place: impl Into<String>,
    what: impl Into<String>,
) -> Result<T, LoadError> {
    Err(LoadError::Unsupported {
        place: place.into(),
        what: what.into(),
    })
}

/// Refuses what is larger than a limit.
pub(crate) fn limit(
    place: impl Into<String>,
    what: impl Into<String>,
    value: u64,
    limit: u64,
) -> Result<(), LoadError> {
    if value <= limit {
        return Ok(());
    }
    Err(LoadError::Limit {
        place: place.into(),
        what: format!("{} ({value})", what.into()),
        limit,
    })
}

/// A hexadecimal string of the document as a number: `0x1f`, also `-0x1f`.
pub(crate) fn hex_number(place: &str, text: &str) -> Result<BigInt, LoadError> {
    let (negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let digits = rest.strip_prefix("0x").unwrap_or(rest);
    if digits.is_empty() || digits.len() as u64 > MAX_WIDTH {
        return invalid(place, format!("{text:?} is not a hexadecimal number"));
    }
    let Some(value) =
        BigInt::parse_bytes(digits.as_bytes(), 16).filter(|_| !digits.starts_with(['-', '+']))
    else {
        return invalid(place, format!("{text:?} is not a hexadecimal number"));
    };
    Ok(if negative { -value } else { value })
}

/// A hexadecimal string as the bytes that it spells, leading zeros included.
pub(crate) fn hex_bytes(place: &str, text: &str) -> Result<Vec<u8>, LoadError> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let padded = if digits.len() % 2 == 1 {
        format!("0{digits}")
    } else {
        digits.to_owned()
    };
    let bytes: Option<Vec<u8>> = padded
        .as_bytes()
        .chunks(2)
        .map(|pair| {
            let high = char::from(*pair.first()?).to_digit(16)?;
            let low = char::from(*pair.get(1)?).to_digit(16)?;
            u8::try_from(high * 16 + low).ok()
        })
        .collect();
    match bytes {
        Some(bytes) if !bytes.is_empty() => Ok(bytes),
        _ => invalid(place, format!("{text:?} is not a hexadecimal string")),
    }
}

/// A non-negative number as big-endian bytes of a given length.
pub(crate) fn number_bytes(value: &BigInt, len: usize) -> Option<Vec<u8>> {
    if value.sign() == Sign::Minus {
        return None;
    }
    let (_, digits) = value.to_bytes_be();
    let digits: &[u8] = if value.sign() == Sign::NoSign {
        &[]
    } else {
        &digits
    };
    let zeros = len.checked_sub(digits.len())?;
    let mut bytes = vec![0; zeros];
    bytes.extend_from_slice(digits);
    Some(bytes)
}

/// Everything that a name can mean.
#[derive(Debug, Default)]
pub(crate) struct Symbols {
    pub(crate) headers: Vec<Header>,
    pub(crate) header_by_name: HashMap<String, HeaderId>,
    header_by_id: HashMap<u32, HeaderId>,
    pub(crate) stacks: Vec<Stack>,
    stack_by_name: HashMap<String, StackId>,
    pub(crate) unions: Vec<Union>,
    union_by_name: HashMap<String, UnionId>,
    pub(crate) union_stacks: Vec<UnionStack>,
    union_stack_by_name: HashMap<String, StackId>,
    union_stack_members: HashMap<StackId, Vec<String>>,
    aliases: HashMap<String, (String, String)>,
    /// What has been looked up because the document names it: headers, and
    /// fields by their first bit.
    named: RefCell<HashSet<(HeaderId, Option<u32>)>>,
    pub(crate) image: usize,
    pub(crate) metadata: Vec<(u32, u32)>,
    pub(crate) counters: HashMap<String, u32>,
    pub(crate) meters: HashMap<String, u32>,
    pub(crate) registers: HashMap<String, (u32, u32)>,
    pub(crate) calcs: HashMap<String, u32>,
}

impl Symbols {
    /// Lays out the image.
    pub(crate) fn build(doc: &Document) -> Result<Self, LoadError> {
        let types = header_types(doc)?;
        let mut s = Self::default();
        limit(
            "headers",
            "their number",
            doc.headers.len() as u64,
            MAX_HEADERS as u64,
        )?;
        // A type that any packet header has keeps its wire layout everywhere,
        // so that header copies are byte copies. So does that of a header in
        // the program's metadata, which may be extracted and hashed.
        let wire: std::collections::HashSet<&str> = doc
            .headers
            .iter()
            .filter(|h| {
                let ty = types.get(h.header_type.as_str());
                !h.metadata
                    || !WORDS.contains(&h.name.as_str()) && ty.is_some_and(|t| t.is_whole_bytes())
                    || ty.is_some_and(|t| t.has_varbit())
            })
            .map(|h| h.header_type.as_str())
            .collect();
        let mut at = 0usize;
        // Metadata first: it is reset as one span.
        for metadata in [true, false] {
            for h in doc.headers.iter().filter(|h| h.metadata == metadata) {
                let place = format!("header {:?}", h.name);
                let Some(ty) = types.get(h.header_type.as_str()) else {
                    return invalid(place, format!("no header type {:?}", h.header_type));
                };
                let id = HeaderId::try_from(s.headers.len()).unwrap_or(HeaderId::MAX);
                let on_wire = wire.contains(h.header_type.as_str());
                let header = lay_out(&place, h, ty, id, at, on_wire)?;
                at += header.size as usize;
                limit(
                    &place,
                    "the size of all headers in bytes",
                    at as u64,
                    MAX_IMAGE as u64,
                )?;
                if metadata {
                    s.metadata.push((header.offset, header.size));
                }
                if s.header_by_name.insert(h.name.clone(), id).is_some() {
                    return invalid(place, "there are two of this name");
                }
                if s.header_by_id.insert(h.id, id).is_some() {
                    return invalid(place, format!("there are two with id {}", h.id));
                }
                s.headers.push(header);
            }
        }
        s.image = at + SLACK;
        s.add_stacks(doc)?;
        s.add_unions(doc)?;
        for alias in &doc.field_aliases {
            s.aliases.insert(alias.0.clone(), alias.1.clone());
        }
        Ok(s)
    }

    fn add_stacks(&mut self, doc: &Document) -> Result<(), LoadError> {
        for st in &doc.header_stacks {
            let place = format!("header stack {:?}", st.name);
            let headers = self.ids(&place, &st.header_ids)?;
            if headers.is_empty() {
                return invalid(place, "it has no element");
            }
            let first = headers
                .first()
                .and_then(|&h| self.headers.get(usize::from(h)));
            for &h in &headers {
                if self.headers.get(usize::from(h)).map(|h| h.type_id) != first.map(|f| f.type_id) {
                    return invalid(
                        place,
                        format!("not all elements are of type {:?}", st.header_type),
                    );
                }
            }
            let id = StackId::try_from(self.stacks.len()).unwrap_or(StackId::MAX);
            self.stacks.push(Stack { headers });
            self.stack_by_name.insert(st.name.clone(), id);
        }
        Ok(())
    }

    fn add_unions(&mut self, doc: &Document) -> Result<(), LoadError> {
        let types: HashMap<&str, &[(String, String)]> = doc
            .header_union_types
            .iter()
            .map(|t| (t.name.as_str(), t.headers.as_slice()))
            .collect();
        let mut by_id = HashMap::new();
        for u in &doc.header_unions {
            let place = format!("header union {:?}", u.name);
            let Some(ty) = types.get(u.union_type.as_str()) else {
                return invalid(place, format!("no union type {:?}", u.union_type));
            };
            let headers = self.ids(&place, &u.header_ids)?;
            if headers.len() != ty.len() {
                return invalid(place, "it has another number of members than its type");
            }
            let id = UnionId::try_from(self.unions.len()).unwrap_or(UnionId::MAX);
            for &h in &headers {
                if let Some(h) = self.headers.get_mut(usize::from(h)) {
                    h.union = Some(id);
                }
            }
            self.unions.push(Union { headers });
            self.union_by_name.insert(u.name.clone(), id);
            by_id.insert(u.id, id);
        }
        for us in &doc.header_union_stacks {
            let place = format!("header union stack {:?}", us.name);
            let unions: Option<Vec<UnionId>> = us
                .header_union_ids
                .iter()
                .map(|id| by_id.get(id).copied())
                .collect();
            let Some(unions) = unions.filter(|u| !u.is_empty()) else {
                return invalid(place, "it names a union that does not exist, or none");
            };
            let Some(ty) = types.get(us.union_type.as_str()) else {
                return invalid(place, format!("no union type {:?}", us.union_type));
            };
            let id = StackId::try_from(self.stacks.len() + self.union_stacks.len())
                .unwrap_or(StackId::MAX);
            self.union_stacks.push(UnionStack { unions });
            self.union_stack_by_name.insert(us.name.clone(), id);
            self.union_stack_members
                .insert(id, ty.iter().map(|(name, _)| name.clone()).collect());
        }
        Ok(())
    }

    fn ids(&self, place: &str, ids: &[u32]) -> Result<Vec<HeaderId>, LoadError> {
        ids.iter()
            .map(|id| match self.header_by_id.get(id) {
                Some(&h) => Ok(h),
                None => invalid(place, format!("no header has id {id}")),
            })
            .collect()
    }

    /// A header by name.
    pub(crate) fn header(&self, place: &str, name: &str) -> Result<HeaderId, LoadError> {
        let h = self.header_of_fields(place, name)?;
        self.named.borrow_mut().insert((h, None));
        Ok(h)
    }

    /// A header by name, for some of its fields only.
    pub(crate) fn header_of_fields(&self, place: &str, name: &str) -> Result<HeaderId, LoadError> {
        match self.header_by_name.get(name) {
            Some(&h) => Ok(h),
            None => invalid(place, format!("there is no header {name:?}")),
        }
    }

    /// Whether what has been lowered so far names a field, or its header as a
    /// whole: if nothing does, nothing can tell what it holds.
    pub(crate) fn is_named(&self, f: Field) -> bool {
        let named = self.named.borrow();
        named.contains(&(f.header, None)) || named.contains(&(f.header, Some(f.bit)))
    }

    /// A varbit in the program's metadata. p4c makes a header of it, which it
    /// declares as `name` and refers to as `userMetadata.name`.
    pub(crate) fn metadata_varbit(&self, name: &str) -> Option<HeaderId> {
        let last = name.rsplit('.').next().unwrap_or(name);
        let by_name = &self.header_by_name;
        let &h = by_name.get(name).or_else(|| by_name.get(last))?;
        let header = self.headers.get(usize::from(h))?;
        (header.varbit.is_some() && header.metadata).then_some(h)
    }

    /// A header stack by name.
    pub(crate) fn stack(&self, place: &str, name: &str) -> Result<StackId, LoadError> {
        match self.stack_by_name.get(name) {
            Some(&s) => Ok(s),
            None => invalid(place, format!("there is no header stack {name:?}")),
        }
    }

    /// A union by name.
    pub(crate) fn union(&self, place: &str, name: &str) -> Result<UnionId, LoadError> {
        match self.union_by_name.get(name) {
            Some(&u) => Ok(u),
            None => invalid(place, format!("there is no header union {name:?}")),
        }
    }

    /// A union stack by name.
    pub(crate) fn union_stack(&self, place: &str, name: &str) -> Result<StackId, LoadError> {
        match self.union_stack_by_name.get(name) {
            Some(&s) => Ok(s),
            None => invalid(place, format!("there is no header union stack {name:?}")),
        }
    }

    /// The position of a member within the unions of a union stack.
    pub(crate) fn union_stack_member(
        &self,
        place: &str,
        stack: StackId,
        name: &str,
    ) -> Result<u16, LoadError> {
        let found = self
            .union_stack_members
            .get(&stack)
            .and_then(|m| m.iter().position(|n| n == name))
            .and_then(|i| u16::try_from(i).ok());
        match found {
            Some(i) => Ok(i),
            None => invalid(place, format!("its unions have no member {name:?}")),
        }
    }

    /// A field by the names of its header and itself.
    pub(crate) fn field(&self, place: &str, header: &str, field: &str) -> Result<Field, LoadError> {
        let (h, name) = match self.aliases.get(&format!("{header}.{field}")) {
            Some((h, f)) if !self.header_by_name.contains_key(header) => (h.as_str(), f.as_str()),
            _ => (header, field),
        };
        let f = self.field_of(place, self.header_of_fields(place, h)?, name)?;
        self.named.borrow_mut().insert((f.header, Some(f.bit)));
        Ok(f)
    }

    /// A field of a known header by name.
    pub(crate) fn field_of(
        &self,
        place: &str,
        header: HeaderId,
        field: &str,
    ) -> Result<Field, LoadError> {
        let found = self.headers.get(usize::from(header)).and_then(|h| {
            let i = h.field_names.iter().position(|n| n == field)?;
            h.fields.get(i).copied()
        });
        match found {
            Some(f) => Ok(f),
            None => {
                let name = self
                    .headers
                    .get(usize::from(header))
                    .map_or("", |h| h.name.as_str());
                invalid(place, format!("header {name:?} has no field {field:?}"))
            }
        }
    }

    /// A field given as `["header", "field"]`.
    pub(crate) fn field_pair(&self, place: &str, value: &Json) -> Result<Field, LoadError> {
        let (header, field) = pair(place, value)?;
        self.field(place, header, field)
    }

    /// The position and description of a field of a stack's elements.
    pub(crate) fn stack_field(
        &self,
        place: &str,
        stack: StackId,
        field: &str,
    ) -> Result<(u16, Field), LoadError> {
        let element = self
            .stacks
            .get(usize::from(stack))
            .and_then(|s| s.headers.first())
            .copied();
        match element {
            Some(h) => self.field_index(place, h, field),
            None => invalid(place, "the stack is empty"),
        }
    }

    /// The position and description of a field of a header.
    pub(crate) fn field_index(
        &self,
        place: &str,
        header: HeaderId,
        field: &str,
    ) -> Result<(u16, Field), LoadError> {
        let f = self.field_of(place, header, field)?;
        let i = self
            .headers
            .get(usize::from(header))
            .and_then(|h| h.field_names.iter().position(|n| n == field))
            .and_then(|i| u16::try_from(i).ok())
            .unwrap_or(0);
        Ok((i, f))
    }

    /// The header that member `member` of a union stack's first union is.
    pub(crate) fn union_stack_header(
        &self,
        place: &str,
        stack: StackId,
        member: u16,
    ) -> Result<HeaderId, LoadError> {
        let header = usize::from(stack)
            .checked_sub(self.stacks.len())
            .and_then(|s| self.union_stacks.get(s))
            .and_then(|s| s.unions.first())
            .and_then(|&u| self.unions.get(usize::from(u)))
            .and_then(|u| u.headers.get(usize::from(member)))
            .copied();
        match header {
            Some(h) => Ok(h),
            None => invalid(place, format!("its unions have no member {member}")),
        }
    }
}

/// Two strings in an array.
pub(crate) fn pair<'a>(place: &str, value: &'a Json) -> Result<(&'a str, &'a str), LoadError> {
    let strings = value
        .as_array()
        .filter(|a| a.len() == 2)
        .and_then(|a| Some((a.first()?.as_str()?, a.get(1)?.as_str()?)));
    match strings {
        Some(p) => Ok(p),
        None => invalid(place, "expected an array of two names"),
    }
}
