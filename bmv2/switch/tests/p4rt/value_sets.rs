//! Value sets, with the program `testdata/p4rt/value_sets.p4`.

use p4runtime_proto::entry;
use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::entity::Entity;
use p4runtime_proto::p4::v1::field_match::{self, FieldMatchType};
use p4runtime_proto::p4info;
use tonic::Code;

use crate::support::*;

const JSON: &str = include_str!("../../testdata/p4rt/value_sets.json");
const P4INFO: &str = include_str!("../../testdata/p4rt/value_sets.p4info.txtpb");

/// Ports that say which set a packet's fields were in.
const MIXED: u16 = 1;
const WIDE: u16 = 2;
const BEHIND: u16 = 3;

fn set_id(name: &str) -> u32 {
    let info: P4Info = p4info::from_text(P4INFO).unwrap();
    let mut all = info.value_sets.iter().map(|s| s.preamble.as_ref().unwrap());
    let found = all.find(|preamble| preamble.name.ends_with(name));
    found.unwrap().id
}

fn set(name: &str, members: Vec<Vec<p4::FieldMatch>>) -> p4::ValueSetEntry {
    p4::ValueSetEntry {
        value_set_id: set_id(name),
        members: members
            .into_iter()
            .map(|r#match| p4::ValueSetMember { r#match })
            .collect(),
    }
}

fn field(field_id: u32, kind: FieldMatchType) -> p4::FieldMatch {
    p4::FieldMatch {
        field_id,
        field_match_type: Some(kind),
    }
}

fn exact(id: u32, value: &[u8]) -> p4::FieldMatch {
    let value = value.to_vec();
    field(id, FieldMatchType::Exact(field_match::Exact { value }))
}

fn ternary(id: u32, value: &[u8], mask: &[u8]) -> p4::FieldMatch {
    let (value, mask) = (value.to_vec(), mask.to_vec());
    let ternary = field_match::Ternary { value, mask };
    field(id, FieldMatchType::Ternary(ternary))
}

fn lpm(id: u32, value: &[u8], prefix_len: i32) -> p4::FieldMatch {
    let value = value.to_vec();
    let lpm = field_match::Lpm { value, prefix_len };
    field(id, FieldMatchType::Lpm(lpm))
}

fn range(id: u32, low: &[u8], high: &[u8]) -> p4::FieldMatch {
    let (low, high) = (low.to_vec(), high.to_vec());
    field(id, FieldMatchType::Range(field_match::Range { low, high }))
}

fn optional(id: u32, value: &[u8]) -> p4::FieldMatch {
    let value = value.to_vec();
    let optional = field_match::Optional { value };
    field(id, FieldMatchType::Optional(optional))
}

/// The fields of a packet.
#[derive(Debug, Clone, Copy)]
struct Fields {
    exact: u16,
    ternary: u16,
    filler: u16,
    lpm: u32,
    range: u16,
    optional: u8,
    /// The upper 8 and the lower 64 bits.
    wide: (u8, u64),
    behind: u8,
}

const PLAIN: Fields = Fields {
    exact: 0x22f3,
    ternary: 0xab1,
    filler: 5,
    lpm: 0x0a01_0203,
    range: 1000,
    optional: 7,
    wide: (0x80, 9),
    behind: 0xee,
};

impl Fields {
    fn packet(self) -> Vec<u8> {
        let mut packet = self.exact.to_be_bytes().to_vec();
        packet.extend((self.ternary << 4 | self.filler).to_be_bytes());
        packet.extend(self.lpm.to_be_bytes());
        packet.extend(self.range.to_be_bytes());
        packet.extend([self.optional, self.wide.0]);
        packet.extend(self.wide.1.to_be_bytes());
        packet.extend([0x11, self.behind, 0x77]);
        packet
    }
}

/// Whether a packet leaves by this port; one that is in no set is followed by
/// one that is.
async fn is_in(bed: &Bed, port: u16, fields: Fields) -> bool {
    bed.send(1, &fields.packet());
    let other = Fields {
        behind: 0x42,
        wide: (0, 0),
        exact: 0,
        ..PLAIN
    };
    bed.send(1, &other.packet());
    assert_eq!(bed.receive(BEHIND).await, Some(other.packet()));
    let got = bed.ports[usize::from(port) - 1].try_receive();
    assert!(got.is_none() || got == Some(fields.packet()));
    got.is_some()
}

async fn ready(bed: &Bed) -> Controller {
    let mut c = bed.primary(1).await;
    c.push_program(JSON, P4INFO).await.unwrap();
    let known = set("behind", vec![vec![exact(1, &[0x42])]]);
    assert_eq!(c.write_one(entry::modify(known)).await, Code::Ok);
    c
}

#[tokio::test(flavor = "multi_thread")]
async fn a_packet_is_in_a_set_if_all_fields_of_a_member_match() {
    let bed = Bed::start().await;
    let mut c = ready(&bed).await;
    assert!(!is_in(&bed, MIXED, PLAIN).await, "the set is empty");
    let member = vec![
        exact(1, &[0x22, 0xf3]),
        ternary(2, &[0x0a, 0x01], &[0x0f, 0x0f]),
        lpm(3, &[0x0a, 0x01, 0, 0], 16),
        range(4, &[0x03, 0xe7], &[0x03, 0xe9]),
        optional(5, &[7]),
    ];
    let written = set("mixed", vec![member]);
    assert_eq!(c.write_one(entry::modify(written)).await, Code::Ok);
    for (fields, expected) in [
        (PLAIN, true),
        (
            Fields {
                exact: 0x22f2,
                ..PLAIN
            },
            false,
        ),
        (
            Fields {
                ternary: 0xaf1,
                ..PLAIN
            },
            true,
        ),
        (
            Fields {
                ternary: 0xab0,
                ..PLAIN
            },
            false,
        ),
        (
            Fields {
                ternary: 0x2b1,
                ..PLAIN
            },
            false,
        ),
        (Fields { filler: 6, ..PLAIN }, true),
        (
            Fields {
                lpm: 0x0a01_ffff,
                ..PLAIN
            },
            true,
        ),
        (
            Fields {
                lpm: 0x0a00_0203,
                ..PLAIN
            },
            false,
        ),
        (
            Fields {
                range: 999,
                ..PLAIN
            },
            true,
        ),
        (
            Fields {
                range: 1001,
                ..PLAIN
            },
            true,
        ),
        (
            Fields {
                range: 998,
                ..PLAIN
            },
            false,
        ),
        (
            Fields {
                range: 1002,
                ..PLAIN
            },
            false,
        ),
        (
            Fields {
                optional: 8,
                ..PLAIN
            },
            false,
        ),
    ] {
        assert_eq!(is_in(&bed, MIXED, fields).await, expected, "{fields:?}");
    }
    // Of several members one must match as a whole. What is left out matches
    // anything.
    let members = vec![
        vec![exact(1, &[0x22, 0xf3]), optional(5, &[1])],
        vec![exact(1, &[5]), range(4, &[0], &[1, 0])],
        vec![exact(1, &[6])],
    ];
    let written = set("mixed", members);
    assert_eq!(c.write_one(entry::modify(written)).await, Code::Ok);
    for (exact, range, optional, expected) in [
        (0x22f3, 0xffff, 1, true),
        (0x22f3, 0, 7, false),
        (5, 0x100, 7, true),
        (5, 0x101, 1, false),
        (6, 0xffff, 0xff, true),
        (7, 0, 1, false),
    ] {
        let fields = Fields {
            exact,
            range,
            optional,
            ..PLAIN
        };
        assert_eq!(is_in(&bed, MIXED, fields).await, expected, "{fields:?}");
    }
    let empty = set("mixed", Vec::new());
    assert_eq!(c.write_one(entry::modify(empty)).await, Code::Ok);
    assert!(!is_in(&bed, MIXED, Fields { exact: 6, ..PLAIN }).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_range_may_be_wider_than_a_word() {
    let bed = Bed::start().await;
    let mut c = ready(&bed).await;
    let low = [0x01, 0, 0, 0, 0, 0, 0, 0, 5];
    let high = [0x03, 0, 0, 0, 0, 0, 0, 0, 2];
    let written = set("wide", vec![vec![range(1, &low, &high), exact(2, &[5])]]);
    assert_eq!(c.write_one(entry::modify(written)).await, Code::Ok);
    for (wide, filler, expected) in [
        ((1, 5), 5, true),
        ((1, 4), 5, false),
        ((2, 0), 5, true),
        ((2, u64::MAX), 5, true),
        ((3, 2), 5, true),
        ((3, 3), 5, false),
        ((0, u64::MAX), 5, false),
        ((2, 0), 4, false),
    ] {
        let fields = Fields {
            wide,
            filler,
            ..PLAIN
        };
        assert_eq!(is_in(&bed, WIDE, fields).await, expected, "{fields:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn members_are_checked_as_entries_are() {
    let bed = Bed::start().await;
    let mut c = ready(&bed).await;
    let one = |fields: Vec<p4::FieldMatch>| set("mixed", vec![fields]);
    let key = || exact(1, &[1]);
    for (written, code) in [
        // Not without the exact field, and no field twice or of another kind.
        (one(vec![optional(5, &[1])]), Code::InvalidArgument),
        (one(vec![key(), key()]), Code::InvalidArgument),
        (one(vec![key(), exact(9, &[1])]), Code::InvalidArgument),
        (one(vec![key(), exact(2, &[1])]), Code::InvalidArgument),
        // What matches anything is left out.
        (
            one(vec![key(), ternary(2, &[0], &[0])]),
            Code::InvalidArgument,
        ),
        (one(vec![key(), lpm(3, &[0], 0)]), Code::InvalidArgument),
        (
            one(vec![key(), range(4, &[0], &[0xff, 0xff])]),
            Code::InvalidArgument,
        ),
        // Bits that are not compared are 0, and no range is empty.
        (
            one(vec![key(), ternary(2, &[3], &[2])]),
            Code::InvalidArgument,
        ),
        (
            one(vec![key(), lpm(3, &[0x0a, 1, 0, 0], 8)]),
            Code::InvalidArgument,
        ),
        (
            one(vec![key(), lpm(3, &[0x0a, 0, 0, 0], 33)]),
            Code::InvalidArgument,
        ),
        (
            one(vec![key(), range(4, &[2], &[1])]),
            Code::InvalidArgument,
        ),
        // Values fit their fields.
        (one(vec![exact(1, &[1, 0, 0])]), Code::OutOfRange),
        (
            one(vec![key(), ternary(2, &[0x10, 0], &[0x10, 0])]),
            Code::OutOfRange,
        ),
        (one(vec![exact(1, &[])]), Code::OutOfRange),
        // The same member, however it is written.
        (
            set("mixed", vec![vec![key()], vec![exact(1, &[0, 1])]]),
            Code::AlreadyExists,
        ),
        (
            set("mixed", (0..5).map(|n| vec![exact(1, &[n])]).collect()),
            Code::ResourceExhausted,
        ),
    ] {
        assert_eq!(
            c.write_one(entry::modify(written.clone())).await,
            code,
            "{written:?}"
        );
    }
    let good = one(vec![key()]);
    assert_eq!(
        c.write_one(entry::insert(good.clone())).await,
        Code::InvalidArgument
    );
    assert_eq!(
        c.write_one(entry::delete(good)).await,
        Code::InvalidArgument
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn sets_are_read_in_the_canonical_form() {
    let bed = Bed::start().await;
    let mut c = ready(&bed).await;
    let long = set(
        "mixed",
        vec![vec![
            optional(5, &[0, 0, 7]),
            exact(1, &[0, 1]),
            range(4, &[0, 2], &[0, 0, 3]),
        ]],
    );
    let short = set(
        "mixed",
        vec![vec![
            exact(1, &[1]),
            range(4, &[2], &[3]),
            optional(5, &[7]),
        ]],
    );
    c.write(vec![entry::modify(long)]).await.unwrap();
    let query = |id| p4::ValueSetEntry {
        value_set_id: id,
        members: Vec::new(),
    };
    let read = c.read(query(set_id("mixed"))).await.unwrap();
    assert_eq!(read, [Entity::ValueSetEntry(short.clone())]);
    let all = c.read(query(0)).await.unwrap();
    assert_eq!(all.len(), 3);
    assert!(all.contains(&Entity::ValueSetEntry(short)));
    assert!(all.contains(&Entity::ValueSetEntry(query(set_id("wide")))));
}
