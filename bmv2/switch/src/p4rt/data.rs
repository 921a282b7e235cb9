//! Values of registers and digests as `P4Data` (specification,
//! "Representation of Arbitrary P4 Types").

use p4runtime_proto::bytestring;
use p4runtime_proto::p4::config::v1::{
    P4BitstringLikeTypeSpec, P4DataTypeSpec, P4TypeInfo, p4_bitstring_like_type_spec as bitstring,
    p4_data_type_spec::TypeSpec, p4_new_type_spec::Representation,
    p4_new_type_translation::SdnType,
};
use p4runtime_proto::p4::v1::{P4Data, P4Header, P4StructLike, P4Varbit, p4_data::Data};

use super::fault::{Fault, Outcome};
use super::translation::Form;
use crate::{DigestValue, Value};

/// Deepest nesting and most values that are accepted from P4Info, whose types
/// may refer to each other in circles.
const MAX_DEPTH: u32 = 16;
const MAX_LEAVES: usize = 4096;

/// A value of the data plane.
#[derive(Debug, Clone, Copy)]
pub(super) struct Leaf<'v> {
    /// A big-endian number.
    bytes: &'v [u8],
    /// Its length, which tells something only of a varbit.
    bits: u32,
    /// Whether the header is valid that it is a field of.
    valid: bool,
}

impl Leaf<'_> {
    /// What stands in for a value that is missing.
    const ZERO: Self = Self {
        bytes: &[],
        bits: 0,
        valid: true,
    };
}

impl<'v> From<&'v DigestValue> for Leaf<'v> {
    fn from(value: &'v DigestValue) -> Self {
        Self {
            bytes: &value.number,
            bits: value.bits,
            valid: value.valid,
        }
    }
}

impl<'v> From<&'v Value> for Leaf<'v> {
    fn from(value: &'v Value) -> Self {
        Self {
            bytes: value,
            ..Self::ZERO
        }
    }
}

/// A type as far as the data plane can hold values of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DataType {
    Bits(u32),
    /// A number with the controller's width, which may not be that of the data
    /// plane.
    Translated(u32),
    /// A number that the controller has as a string.
    Text,
    Signed(u32),
    /// A number of as many bits as each value says.
    Varbit,
    Bool,
    SerializableEnum(u32),
    /// An enum without underlying type: the names of its values.
    Enum(Vec<String>),
    /// The program's errors.
    Error(Vec<String>),
    Struct(Vec<DataType>),
    Tuple(Vec<DataType>),
    Header(Vec<DataType>),
}

impl DataType {
    pub(super) fn new(
        spec: Option<&P4DataTypeSpec>,
        types: Option<&P4TypeInfo>,
    ) -> Result<Self, String> {
        let empty = P4TypeInfo::default();
        let mut reader = Reader {
            types: types.unwrap_or(&empty),
            leaves: 0,
        };
        reader.read(spec, 0)
    }

    /// How many values of the data plane make up one of this type.
    pub(super) fn leaves(&self) -> usize {
        match self {
            Self::Bits(_)
            | Self::Translated(_)
            | Self::Text
            | Self::Signed(_)
            | Self::Varbit
            | Self::Bool
            | Self::SerializableEnum(_)
            | Self::Enum(_)
            | Self::Error(_) => 1,
            Self::Struct(members) | Self::Tuple(members) | Self::Header(members) => {
                members.iter().map(Self::leaves).sum()
            }
        }
    }

    /// The width of each of them in bits; `None` if P4Info does not tell.
    pub(super) fn widths(&self) -> Vec<Option<u32>> {
        match self {
            Self::Bits(width) | Self::Signed(width) | Self::SerializableEnum(width) => {
                vec![Some(*width)]
            }
            Self::Translated(_) | Self::Text | Self::Varbit => vec![None],
            Self::Bool => vec![Some(1)],
            // The compiler numbers them with 32 bits.
            Self::Enum(_) | Self::Error(_) => vec![Some(32)],
            Self::Struct(members) | Self::Tuple(members) | Self::Header(members) => {
                members.iter().flat_map(Self::widths).collect()
            }
        }
    }

    /// Whether all of them together can have this width in bits.
    pub(super) fn has_width(&self, width: u32) -> bool {
        let widths = self.widths();
        let sum: u64 = widths
            .iter()
            .map(|width| u64::from(width.unwrap_or(0)))
            .sum();
        if widths.contains(&None) {
            sum < u64::from(width)
        } else {
            sum == u64::from(width)
        }
    }

    /// The message for values of the data plane; they are taken from the front
    /// of `values`, missing ones are zero.
    pub(super) fn encode<'v>(&self, values: &mut impl Iterator<Item = Leaf<'v>>) -> P4Data {
        let mut next = || values.next().unwrap_or(Leaf::ZERO);
        let mut bytes = || next().bytes;
        let data = match self {
            Self::Bits(_) | Self::Translated(_) => Data::Bitstring(bytestring::canonical(bytes())),
            Self::Text => Data::Bitstring(Form::Text.encode(bytes())),
            Self::Signed(width) => Data::Bitstring(encode_signed(bytes(), *width)),
            Self::Varbit => {
                let Leaf { bytes, bits, .. } = next();
                Data::Varbit(P4Varbit {
                    bitstring: bytes.to_vec(),
                    bitwidth: i32::try_from(bits).unwrap_or(i32::MAX),
                })
            }
            Self::Bool => Data::Bool(bytes().iter().any(|b| *b != 0)),
            Self::SerializableEnum(_) => Data::EnumValue(bytestring::canonical(bytes())),
            Self::Enum(names) => Data::Enum(name_of(names, bytes())),
            Self::Error(names) => Data::Error(name_of(names, bytes())),
            Self::Struct(members) => Data::Struct(struct_like(members, values)),
            Self::Tuple(members) => Data::Tuple(struct_like(members, values)),
            Self::Header(members) => Data::Header(header(members, values)),
        };
        P4Data { data: Some(data) }
    }

    /// The value of the data plane for a message of a type with one leaf.
    pub(super) fn decode(&self, data: &P4Data) -> Outcome<Value> {
        let fixed = |bytes: &[u8], width| {
            bytestring::to_fixed(bytes, width)
                .map(Value::from_vec)
                .map_err(|error| Fault::value("data", &error))
        };
        match (self, &data.data) {
            (Self::Bits(width) | Self::Translated(width), Some(Data::Bitstring(bytes)))
            | (Self::SerializableEnum(width), Some(Data::EnumValue(bytes))) => fixed(bytes, *width),
            (Self::Text, Some(Data::Bitstring(bytes))) => {
                Form::Text.decode(|| "data".into(), bytes)
            }
            (Self::Signed(width), Some(Data::Bitstring(bytes))) => {
                let mut value = bytestring::to_fixed_signed(bytes, *width)
                    .map_err(|error| Fault::value("data", &error))?;
                clear_above(&mut value, *width);
                Ok(Value::from_vec(value))
            }
            (Self::Enum(names), Some(Data::Enum(name)))
            | (Self::Error(names), Some(Data::Error(name))) => number_of(names, name),
            (Self::Bool, Some(Data::Bool(value))) => Ok(Value::from_slice(&[u8::from(*value)])),
            (Self::Struct(members), Some(Data::Struct(given)))
            | (Self::Tuple(members), Some(Data::Tuple(given)))
                if members.len() == 1 && given.members.len() == 1 =>
            {
                members[0].decode(&given.members[0])
            }
            _ => Err(Fault::invalid(
                "data: not of the type that P4Info gives (type_spec)",
            )),
        }
    }
}

/// The name of a value; its number if it has none.
fn name_of(names: &[String], value: &[u8]) -> String {
    let number = value
        .iter()
        .fold(0usize, |n, byte| n.wrapping_shl(8) | usize::from(*byte));
    let name = names.get(number).cloned();
    name.unwrap_or_else(|| number.to_string())
}

/// The number of a name, or the number itself if it is one.
fn number_of(names: &[String], name: &str) -> Outcome<Value> {
    let number = match names.iter().position(|known| known == name) {
        Some(position) => u32::try_from(position).ok(),
        None => name.parse().ok(),
    };
    let number = number.ok_or_else(|| Fault::invalid(format!("data: there is no {name:?}")))?;
    Ok(Value::from_slice(&number.to_be_bytes()))
}

/// A header; one that is not valid has no fields.
fn header<'v>(members: &[DataType], values: &mut impl Iterator<Item = Leaf<'v>>) -> P4Header {
    let fields: Vec<Leaf<'v>> = values.take(members.len()).collect();
    if !fields.iter().all(|field| field.valid) {
        return P4Header::default();
    }
    let mut fields = fields.into_iter();
    let bitstring = |member: &DataType| match member.encode(&mut fields).data {
        Some(Data::Bitstring(bytes) | Data::EnumValue(bytes)) => bytes,
        Some(Data::Varbit(varbit)) => varbit.bitstring,
        _ => vec![0],
    };
    P4Header {
        is_valid: true,
        bitstrings: members.iter().map(bitstring).collect(),
    }
}

fn struct_like<'v>(
    members: &[DataType],
    values: &mut impl Iterator<Item = Leaf<'v>>,
) -> P4StructLike {
    let mut list = Vec::with_capacity(members.len());
    for member in members {
        // Through a trait object: the type of the iterator must not grow with
        // each level.
        let mut values: &mut dyn Iterator<Item = Leaf<'v>> = values;
        list.push(member.encode(&mut values));
    }
    P4StructLike { members: list }
}

/// The data plane keeps the low `width` bits; the message repeats the sign.
fn encode_signed(bytes: &[u8], width: u32) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let used = width % 8;
    if used != 0
        && let Some(first) = bytes.first_mut()
        && *first & (1 << (used - 1)) != 0
    {
        *first |= 0xffu8 << used;
    }
    bytestring::canonical_signed(&bytes)
}

fn clear_above(bytes: &mut [u8], width: u32) {
    let used = width % 8;
    if used != 0
        && let Some(first) = bytes.first_mut()
    {
        *first &= (1 << used) - 1;
    }
}

struct Reader<'t> {
    types: &'t P4TypeInfo,
    leaves: usize,
}

impl Reader<'_> {
    fn read(&mut self, spec: Option<&P4DataTypeSpec>, depth: u32) -> Result<DataType, String> {
        if depth > MAX_DEPTH {
            return Err(format!("its type is nested deeper than {MAX_DEPTH}"));
        }
        let spec = spec
            .and_then(|s| s.type_spec.as_ref())
            .ok_or("its type_spec is missing")?;
        match spec {
            TypeSpec::Bitstring(spec) => self.bitstring(spec),
            TypeSpec::Bool(_) => {
                self.leaf()?;
                Ok(DataType::Bool)
            }
            TypeSpec::Tuple(spec) => {
                let members = spec.members.iter();
                let members = members.map(|m| self.read(Some(m), depth + 1));
                Ok(DataType::Tuple(members.collect::<Result<_, _>>()?))
            }
            TypeSpec::Struct(named) => {
                let found = self.types.structs.get(&named.name);
                let found = found.ok_or_else(|| no_type(&named.name))?;
                let members = found.members.iter();
                let members = members.map(|m| self.read(m.type_spec.as_ref(), depth + 1));
                Ok(DataType::Struct(members.collect::<Result<_, _>>()?))
            }
            TypeSpec::Header(named) => {
                let found = self.types.headers.get(&named.name);
                let found = found.ok_or_else(|| no_type(&named.name))?;
                let mut members = Vec::new();
                for member in &found.members {
                    let spec = member.type_spec.as_ref();
                    members.push(self.bitstring(spec.ok_or("its type_spec is missing")?)?);
                }
                Ok(DataType::Header(members))
            }
            TypeSpec::SerializableEnum(named) => {
                self.leaf()?;
                let found = self.types.serializable_enums.get(&named.name);
                let found = found.ok_or_else(|| no_type(&named.name))?;
                let width = found.underlying_type.as_ref().map_or(0, |t| t.bitwidth);
                Ok(DataType::SerializableEnum(width_of(width)?))
            }
            TypeSpec::NewType(named) => {
                let found = self.types.new_types.get(&named.name);
                let found = found.ok_or_else(|| no_type(&named.name))?;
                match &found.representation {
                    Some(Representation::OriginalType(spec)) => self.read(Some(spec), depth + 1),
                    Some(Representation::TranslatedType(translation)) => {
                        self.leaf()?;
                        match translation.sdn_type {
                            Some(SdnType::SdnBitwidth(width)) => {
                                Ok(DataType::Translated(width_of(width)?))
                            }
                            Some(SdnType::SdnString(_)) => Ok(DataType::Text),
                            None => Err(format!("type {} has no representation", named.name)),
                        }
                    }
                    None => Err(format!("type {} has no representation", named.name)),
                }
            }
            TypeSpec::Enum(named) => {
                self.leaf()?;
                let found = self.types.enums.get(&named.name);
                let found = found.ok_or_else(|| no_type(&named.name))?;
                let names = found.members.iter().map(|member| member.name.clone());
                Ok(DataType::Enum(names.collect()))
            }
            TypeSpec::Error(_) => {
                self.leaf()?;
                let found = self.types.error.as_ref();
                Ok(DataType::Error(
                    found.map_or_else(Vec::new, |e| e.members.clone()),
                ))
            }
            TypeSpec::HeaderUnion(_) | TypeSpec::HeaderStack(_) | TypeSpec::HeaderUnionStack(_) => {
                Err("values of its type are not supported".into())
            }
        }
    }

    fn bitstring(&mut self, spec: &P4BitstringLikeTypeSpec) -> Result<DataType, String> {
        self.leaf()?;
        match &spec.type_spec {
            Some(bitstring::TypeSpec::Bit(bit)) => Ok(DataType::Bits(width_of(bit.bitwidth)?)),
            Some(bitstring::TypeSpec::Int(int)) => Ok(DataType::Signed(width_of(int.bitwidth)?)),
            Some(bitstring::TypeSpec::Varbit(_)) => Ok(DataType::Varbit),
            None => Err("its type_spec is missing".into()),
        }
    }

    fn leaf(&mut self) -> Result<(), String> {
        self.leaves += 1;
        if self.leaves > MAX_LEAVES {
            return Err(format!("its type has more than {MAX_LEAVES} values"));
        }
        Ok(())
    }
}

fn no_type(name: &str) -> String {
    format!("P4Info has no type {name}")
}

fn width_of(bits: i32) -> Result<u32, String> {
    u32::try_from(bits)
        .ok()
        .filter(|width| (1..=65_536).contains(width))
        .ok_or_else(|| format!("its type has a width of {bits} bits"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use p4runtime_proto::p4::config::v1::{
        P4BitTypeSpec, P4IntTypeSpec, P4NamedType, P4StructTypeSpec, p4_struct_type_spec::Member,
    };

    fn bit(bitwidth: i32) -> P4DataTypeSpec {
        let type_spec = Some(bitstring::TypeSpec::Bit(P4BitTypeSpec { bitwidth }));
        P4DataTypeSpec {
            type_spec: Some(TypeSpec::Bitstring(P4BitstringLikeTypeSpec {
                type_spec,
                ..Default::default()
            })),
        }
    }

    fn structure(name: &str) -> P4DataTypeSpec {
        P4DataTypeSpec {
            type_spec: Some(TypeSpec::Struct(P4NamedType { name: name.into() })),
        }
    }

    fn types(name: &str, members: Vec<P4DataTypeSpec>) -> P4TypeInfo {
        let members = members
            .into_iter()
            .map(|type_spec| Member {
                name: "m".into(),
                type_spec: Some(type_spec),
            })
            .collect();
        let mut types = P4TypeInfo::default();
        let spec = P4StructTypeSpec {
            members,
            ..Default::default()
        };
        types.structs.insert(name.into(), spec);
        types
    }

    #[test]
    fn struct_takes_its_values_in_order() {
        let types = types("s", vec![bit(48), bit(9)]);
        let data = DataType::new(Some(&structure("s")), Some(&types)).unwrap();
        assert_eq!(data.widths(), [Some(48), Some(9)]);
        assert!(data.has_width(57) && !data.has_width(56));
        let values = [
            Value::from_slice(&[0, 0, 0, 0, 1, 2]),
            Value::from_slice(&[0, 3]),
        ];
        let Some(Data::Struct(encoded)) = data.encode(&mut values.iter().map(Leaf::from)).data
        else {
            panic!("not a struct");
        };
        let strings: Vec<_> = encoded.members.into_iter().map(|m| m.data).collect();
        assert_eq!(
            strings,
            [
                Some(Data::Bitstring(vec![1, 2])),
                Some(Data::Bitstring(vec![3]))
            ]
        );
    }

    #[test]
    fn signed_values_are_sign_extended() {
        let spec = P4DataTypeSpec {
            type_spec: Some(TypeSpec::Bitstring(P4BitstringLikeTypeSpec {
                type_spec: Some(bitstring::TypeSpec::Int(P4IntTypeSpec { bitwidth: 12 })),
                ..Default::default()
            })),
        };
        let data = DataType::new(Some(&spec), None).unwrap();
        // -739, the specification's example: 0xd1d in 12 bits.
        let value = Value::from_slice(&[0x0d, 0x1d]);
        let encoded = data.encode(&mut std::iter::once(Leaf::from(&value)));
        assert_eq!(encoded.data, Some(Data::Bitstring(vec![0xfd, 0x1d])));
        assert_eq!(data.decode(&encoded).unwrap(), value);
    }

    #[test]
    fn enum_values_go_by_name() {
        let names = vec!["IPv4".to_owned(), "Other".to_owned()];
        let encode = |value: &[u8]| {
            let value = Value::from_slice(value);
            DataType::Enum(names.clone())
                .encode(&mut std::iter::once(Leaf::from(&value)))
                .data
        };
        assert_eq!(encode(&[0, 0, 0, 1]), Some(Data::Enum("Other".into())));
        assert_eq!(encode(&[0, 0, 0, 7]), Some(Data::Enum("7".into())));
        let decode = |name: &str| {
            let data = Some(Data::Enum(name.into()));
            let value = DataType::Enum(names.clone()).decode(&P4Data { data });
            value
                .map(|value| value.to_vec())
                .map_err(|fault| fault.code)
        };
        assert_eq!(decode("Other"), Ok(vec![0, 0, 0, 1]));
        assert_eq!(decode("7"), Ok(vec![0, 0, 0, 7]));
        assert_eq!(decode("Nothing"), Err(tonic::Code::InvalidArgument));
    }

    #[test]
    fn circles_end() {
        let types = types("s", vec![structure("s"), structure("s")]);
        assert!(DataType::new(Some(&structure("s")), Some(&types)).is_err());
        assert!(DataType::new(Some(&structure("t")), Some(&types)).is_err());
        assert!(DataType::new(None, None).is_err());
    }

    #[test]
    fn wrong_types_are_refused() {
        let data = DataType::new(Some(&bit(8)), None).unwrap();
        let wrong = P4Data {
            data: Some(Data::Bool(true)),
        };
        assert!(data.decode(&wrong).is_err());
        assert!(data.decode(&P4Data { data: None }).is_err());
        let wide = P4Data {
            data: Some(Data::Bitstring(vec![1, 0])),
        };
        assert_eq!(
            data.decode(&wide).unwrap_err().code,
            tonic::Code::OutOfRange
        );
    }
}
