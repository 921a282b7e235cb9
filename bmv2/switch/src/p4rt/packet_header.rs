//! The headers that carry metadata of packets from and to the controller
//! (specification, "Packet I/O").

use p4runtime_proto::bytestring;
use p4runtime_proto::p4::config::v1::{ControllerPacketMetadata, P4TypeInfo};
use p4runtime_proto::p4::v1::PacketMetadata;

use super::Mode;
use super::fault::{Fault, Outcome};
use super::translation::Form;

/// Longest header accepted from P4Info, in bits.
const MAX_BITS: u32 = 1 << 14;

/// The layout of `packet_in` or `packet_out`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PacketHeader {
    name: String,
    fields: Vec<HeaderField>,
    bits: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct HeaderField {
    id: u32,
    name: String,
    width: u32,
    /// Bits in front of it.
    offset: u32,
    form: Form,
}

impl PacketHeader {
    /// The layout that P4Info describes. `widths` are the program's, if they are
    /// known.
    pub(super) fn new(
        name: &str,
        info: &ControllerPacketMetadata,
        widths: Option<&[u32]>,
        types: Option<&P4TypeInfo>,
    ) -> Result<Self, String> {
        let mut fields = Vec::with_capacity(info.metadata.len());
        let mut offset = 0u32;
        for (position, field) in info.metadata.iter().enumerate() {
            let width = widths
                .and_then(|widths| widths.get(position).copied())
                .or_else(|| u32::try_from(field.bitwidth).ok())
                .filter(|width| (1..=MAX_BITS).contains(width))
                .ok_or_else(|| {
                    format!(
                        "field {} has a width of {} bits",
                        field.name, field.bitwidth
                    )
                })?;
            if fields.iter().any(|f: &HeaderField| f.id == field.id) {
                return Err(format!("two fields have the id {}", field.id));
            }
            fields.push(HeaderField {
                id: field.id,
                name: field.name.clone(),
                width,
                offset,
                form: Form::of(field.type_name.as_ref(), types),
            });
            offset += width;
            if offset > MAX_BITS {
                return Err(format!("it is longer than {MAX_BITS} bits"));
            }
        }
        Ok(Self {
            name: name.to_owned(),
            fields,
            bits: offset,
        })
    }

    /// Length on the wire in bytes.
    pub(super) fn len(&self) -> usize {
        self.bits.div_ceil(8) as usize
    }

    /// The header in front of the payload. In compatible mode a field that is
    /// not given is 0, and of one that is given twice the last counts.
    pub(super) fn build(
        &self,
        mode: Mode,
        metadata: &[PacketMetadata],
        payload: &[u8],
    ) -> Outcome<Vec<u8>> {
        let mut packet = vec![0; self.len()];
        for field in &self.fields {
            let mut given = metadata.iter().filter(|m| m.metadata_id == field.id);
            let value = match (mode, given.next(), given.next_back()) {
                (_, Some(only), None) => only,
                (Mode::Compat, None, _) => continue,
                (Mode::Compat, Some(_), Some(last)) => last,
                (Mode::Strict, ..) => {
                    return Err(Fault::invalid(format!(
                        "{}: metadata {} (id {}) must be given exactly once",
                        self.name, field.name, field.id
                    )));
                }
            };
            let place = || format!("{}: metadata {}", self.name, field.name);
            let value = field.form.decode(place, &value.value)?;
            let bytes = bytestring::to_fixed(&value, field.width)
                .map_err(|error| Fault::value(place(), &error))?;
            write_bits(&mut packet, field.offset, field.width, &bytes);
        }
        if let Some(extra) = metadata
            .iter()
            .find(|m| self.fields.iter().all(|f| f.id != m.metadata_id))
        {
            return Err(Fault::invalid(format!(
                "{}: there is no metadata with id {}",
                self.name, extra.metadata_id
            )));
        }
        packet.extend_from_slice(payload);
        Ok(packet)
    }

    /// Takes the header off a packet; `None` if the packet is too short.
    pub(super) fn split<'p>(&self, packet: &'p [u8]) -> Option<(Vec<PacketMetadata>, &'p [u8])> {
        let (header, payload) = packet.split_at_checked(self.len())?;
        let metadata = self
            .fields
            .iter()
            .map(|field| PacketMetadata {
                metadata_id: field.id,
                value: field
                    .form
                    .encode(&read_bits(header, field.offset, field.width)),
            })
            .collect();
        Some((metadata, payload))
    }
}

/// Writes the low `width` bits of a big-endian number.
fn write_bits(to: &mut [u8], offset: u32, width: u32, value: &[u8]) {
    let skipped = value.len() * 8 - width as usize;
    for bit in 0..width as usize {
        if get_bit(value, skipped + bit) {
            let at = offset as usize + bit;
            to[at / 8] |= 0x80 >> (at % 8);
        }
    }
}

/// Reads `width` bits as a big-endian number.
fn read_bits(from: &[u8], offset: u32, width: u32) -> Vec<u8> {
    let mut value = vec![0; bytestring::byte_width(width)];
    let skipped = value.len() * 8 - width as usize;
    for bit in 0..width as usize {
        if get_bit(from, offset as usize + bit) {
            let at = skipped + bit;
            value[at / 8] |= 0x80 >> (at % 8);
        }
    }
    value
}

fn get_bit(bytes: &[u8], at: usize) -> bool {
    bytes[at / 8] & (0x80 >> (at % 8)) != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use p4runtime_proto::p4::config::v1::controller_packet_metadata::Metadata;
    use tonic::Code;

    fn header(fields: &[(u32, i32)]) -> PacketHeader {
        let info = ControllerPacketMetadata {
            preamble: None,
            metadata: fields
                .iter()
                .map(|&(id, bitwidth)| Metadata {
                    id,
                    name: format!("m{id}"),
                    bitwidth,
                    ..Metadata::default()
                })
                .collect(),
        };
        PacketHeader::new("packet_in", &info, None, None).unwrap()
    }

    fn metadata(values: &[(u32, &[u8])]) -> Vec<PacketMetadata> {
        values
            .iter()
            .map(|&(metadata_id, value)| PacketMetadata {
                metadata_id,
                value: value.to_vec(),
            })
            .collect()
    }

    /// The specification's example: a 9-bit port and a flag, padded here to
    /// two bytes.
    #[test]
    fn bits_are_packed_in_order() {
        let header = header(&[(1, 9), (2, 1), (3, 6)]);
        let values = metadata(&[(1, &[0x01, 0x05]), (2, &[1]), (3, &[0])]);
        let packet = header.build(Mode::Strict, &values, &[0xaa, 0xbb]).unwrap();
        // 1_0000_0101 1 000000
        assert_eq!(packet, [0b1000_0010, 0b1100_0000, 0xaa, 0xbb]);
        let (back, payload) = header.split(&packet).unwrap();
        assert_eq!(back, values);
        assert_eq!(payload, [0xaa, 0xbb]);
    }

    #[test]
    fn metadata_must_be_complete_known_and_in_range() {
        let header = header(&[(1, 9)]);
        let build = |mode, values: Vec<PacketMetadata>| {
            let built = header.build(mode, &values, &[]);
            built.map_err(|fault| fault.code)
        };
        let code = |values: &[(u32, &[u8])]| build(Mode::Strict, metadata(values)).unwrap_err();
        assert_eq!(code(&[]), Code::InvalidArgument);
        assert_eq!(code(&[(1, &[1]), (1, &[1])]), Code::InvalidArgument);
        assert_eq!(code(&[(1, &[1]), (7, &[1])]), Code::InvalidArgument);
        assert_eq!(code(&[(1, &[2, 0])]), Code::OutOfRange);
        assert_eq!(code(&[(1, &[])]), Code::OutOfRange);
        // bmv2 1.15.5 is content with less and with more, but not with others.
        let compat = |values: &[(u32, &[u8])]| build(Mode::Compat, metadata(values));
        assert_eq!(compat(&[]), Ok(vec![0, 0]));
        // 5 in the upper nine of sixteen bits.
        assert_eq!(
            compat(&[(1, &[7]), (1, &[6]), (1, &[5])]),
            Ok(vec![2, 0x80])
        );
        assert_eq!(compat(&[(1, &[1]), (7, &[1])]), Err(Code::InvalidArgument));
        assert_eq!(compat(&[(1, &[2, 0])]), Err(Code::OutOfRange));
    }

    #[test]
    fn a_short_packet_has_no_header() {
        assert!(header(&[(1, 16)]).split(&[1]).is_none());
        assert!(header(&[(1, 16)]).split(&[1, 2]).is_some());
    }

    #[test]
    fn refuses_absurd_layouts() {
        let info = |bitwidth| ControllerPacketMetadata {
            preamble: None,
            metadata: vec![Metadata {
                id: 1,
                bitwidth,
                ..Metadata::default()
            }],
        };
        for bitwidth in [0, -1, i32::MAX] {
            assert!(PacketHeader::new("packet_in", &info(bitwidth), None, None).is_err());
        }
    }
}
