//! Digests of every type, with the program `testdata/p4rt/digests.p4`.

use p4runtime_proto::entry;
use p4runtime_proto::p4::config::v1::p4_data_type_spec::TypeSpec;
use p4runtime_proto::p4::config::v1::{P4DataTypeSpec, P4Info, P4NamedType};
use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::p4_data::Data;
use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime_proto::p4::v1::stream_message_response::Update as Down;
use p4runtime_proto::p4info;
use tonic::Code;

use crate::support::*;

const JSON: &str = include_str!("../../testdata/p4rt/digests.json");
const P4INFO: &str = include_str!("../../testdata/p4rt/digests.p4info.txtpb");

fn program() -> P4Info {
    p4info::from_text(P4INFO).unwrap()
}

fn pushed(info: P4Info) -> p4::ForwardingPipelineConfig {
    p4::ForwardingPipelineConfig {
        p4info: Some(info),
        p4_device_config: JSON.into(),
        cookie: None,
    }
}

fn digest_id(name: &str) -> u32 {
    let info = program();
    let mut all = info.digests.iter().map(|d| d.preamble.as_ref().unwrap());
    all.find(|preamble| preamble.name == name).unwrap().id
}

fn on(name: &str) -> p4::Update {
    entry::insert(p4::DigestEntry {
        digest_id: digest_id(name),
        config: Some(p4::digest_entry::Config::default()),
    })
}

fn data(data: Data) -> p4::P4Data {
    p4::P4Data { data: Some(data) }
}

fn bits(value: u64) -> p4::P4Data {
    data(Data::Bitstring(p4runtime_proto::bytestring::encode(
        value.into(),
    )))
}

fn members(members: Vec<p4::P4Data>) -> p4::P4StructLike {
    p4::P4StructLike { members }
}

const DST: u64 = 0x0200_0000_0002;
const SRC: u64 = 0x0200_0000_0001;

fn packet(kind: u8) -> Vec<u8> {
    let mut packet = frame(DST, SRC);
    packet[12..14].copy_from_slice(&[0, kind]);
    packet
}

#[tokio::test(flavor = "multi_thread")]
async fn every_type_is_sent() {
    let bed = Bed::start().await;
    let mut c = bed.primary(1).await;
    let action = Action::VerifyAndCommit;
    c.set_pipeline(action, Some(pushed(program())))
        .await
        .unwrap();
    let names = [
        "everything_t",
        "twice_t",
        "digest_0",
        "digest_1",
        "digest_2",
    ];
    c.write(names.map(on).to_vec()).await.unwrap();

    let everything = data(Data::Struct(members(vec![
        bits(SRC),
        data(Data::Error("Unheard".into())),
        data(Data::Enum("Second".into())),
        data(Data::EnumValue(vec![200])),
        data(Data::Bool(true)),
        data(Data::Struct(members(vec![
            bits(9),
            data(Data::Bool(false)),
        ]))),
        data(Data::Tuple(members(vec![bits(5), data(Data::Bool(true))]))),
        bits(1),
        // `-7s3` is -3 of 7 bits, in the fewest bytes of two's complement (specification, 8.4).
        data(Data::Bitstring(vec![0xfd])),
        data(Data::Header(p4::P4Header {
            is_valid: true,
            bitstrings: vec![vec![2, 0, 0, 0, 0, 2], vec![2, 0, 0, 0, 0, 1], vec![1]],
        })),
        bits(1),
    ])));
    let one = |value| data(Data::Struct(members(vec![bits(value)])));
    let pair = |a, b| data(Data::Tuple(members(vec![bits(a), bits(b)])));
    for (kind, name, expected) in [
        (1, "everything_t", everything),
        (2, "twice_t", one(SRC)),
        (3, "twice_t", one(DST)),
        (4, "digest_0", pair(SRC, 4)),
        (5, "digest_1", pair(5, DST)),
        (6, "digest_2", pair(DST, 6)),
    ] {
        bed.send(1, &packet(kind));
        match c.next().await.unwrap() {
            Down::Digest(list) => {
                assert_eq!(list.digest_id, digest_id(name), "{kind}");
                assert_eq!(list.data, [expected], "{kind}");
            }
            other => panic!("not a digest: {other:?}"),
        }
    }
}

/// What waits for its acknowledgement is not sent again, but for a digest that
/// was off in between, be it for no time at all.
#[tokio::test(flavor = "multi_thread")]
async fn a_digest_that_was_off_begins_anew() {
    let bed = Bed::start().await;
    let mut c = bed.primary(1).await;
    let action = Action::VerifyAndCommit;
    c.set_pipeline(action, Some(pushed(program())))
        .await
        .unwrap();
    let digest = p4::DigestEntry {
        digest_id: digest_id("twice_t"),
        config: Some(p4::digest_entry::Config {
            max_timeout_ns: 0,
            max_list_size: 1,
            ack_timeout_ns: i64::MAX,
        }),
    };
    c.write(vec![entry::insert(digest)]).await.unwrap();
    for _ in 0..3 {
        // The second of these is the same, the third tells that nothing came
        // between.
        for kind in [2, 2, 3] {
            bed.send(1, &packet(kind));
        }
        for expected in [SRC, DST] {
            match c.next().await.unwrap() {
                Down::Digest(list) => {
                    let expected = data(Data::Struct(members(vec![bits(expected)])));
                    assert_eq!(list.data, [expected]);
                }
                other => panic!("not a digest: {other:?}"),
            }
        }
        let again = vec![entry::delete(digest), entry::insert(digest)];
        c.write(again).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_sent_can_only_not_be_switched_on() {
    let bed = Bed::start().await;
    let mut c = bed.primary(1).await;
    let mut info = program();
    let spec = |name: &str, kind: fn(P4NamedType) -> TypeSpec| P4DataTypeSpec {
        type_spec: Some(kind(P4NamedType { name: name.into() })),
    };
    for digest in &mut info.digests {
        let name = &digest.preamble.as_ref().unwrap().name;
        digest.type_spec = match name.as_str() {
            "everything_t" => Some(spec("union_t", TypeSpec::HeaderUnion)),
            // One value in the program, many here.
            "twice_t" => Some(spec("everything_t", TypeSpec::Struct)),
            _ => continue,
        };
    }
    let action = Action::VerifyAndCommit;
    c.set_pipeline(action, Some(pushed(info))).await.unwrap();
    for name in ["everything_t", "twice_t"] {
        assert_eq!(c.write_one(on(name)).await, Code::Unimplemented, "{name}");
    }
    assert_eq!(c.write_one(on("digest_0")).await, Code::Ok);
    bed.send(1, &packet(1));
    bed.send(1, &packet(4));
    match c.next().await.unwrap() {
        Down::Digest(list) => assert_eq!(list.digest_id, digest_id("digest_0")),
        other => panic!("not a digest: {other:?}"),
    }
}

/// A packet of one of the types with a trail of this length in bits.
fn trailed(kind: u8, length: u8, behind: &[u8]) -> Vec<u8> {
    let mut packet = packet(kind);
    packet.truncate(14);
    packet.push(length);
    packet.extend(behind);
    packet
}

fn varbit(bitwidth: i32, bitstring: &[u8]) -> p4::P4Data {
    data(Data::Varbit(p4::P4Varbit {
        bitstring: bitstring.to_vec(),
        bitwidth,
    }))
}

fn header(bitstrings: &[&[u8]]) -> p4::P4Data {
    data(Data::Header(p4::P4Header {
        is_valid: true,
        bitstrings: bitstrings.iter().map(|b| b.to_vec()).collect(),
    }))
}

/// A varbit is sent with its length, and not shortened; a header that is not
/// valid has no fields (specification, 8.4 and `p4data.proto`).
#[tokio::test(flavor = "multi_thread")]
async fn varbits_and_headers_as_they_are() {
    let bed = Bed::start().await;
    let mut c = bed.primary(1).await;
    let action = Action::VerifyAndCommit;
    c.set_pipeline(action, Some(pushed(program())))
        .await
        .unwrap();
    let names = ["varying_t", "with_header_t"];
    c.write(names.map(on).to_vec()).await.unwrap();

    let varying = |length, rest| data(Data::Struct(members(vec![bits(length), rest, bits(5)])));
    let within = |trail| data(Data::Struct(members(vec![trail, bits(77)])));
    let invalid = data(Data::Header(p4::P4Header::default()));
    for (packet, name, expected) in [
        // Leading zeros belong to it.
        (
            trailed(7, 24, &[0, 0, 9, 0xff]),
            "varying_t",
            varying(24, varbit(24, &[0, 0, 9])),
        ),
        // The same number, but shorter.
        (
            trailed(7, 8, &[9, 0xff]),
            "varying_t",
            varying(8, varbit(8, &[9])),
        ),
        (
            trailed(7, 0, &[0xff]),
            "varying_t",
            varying(0, varbit(0, &[])),
        ),
        (
            trailed(7, 40, &[1, 2, 3, 4, 5, 0xff]),
            "varying_t",
            varying(40, varbit(40, &[1, 2, 3, 4, 5])),
        ),
        (
            trailed(8, 8, &[0, 0xbb]),
            "with_header_t",
            within(header(&[&[8], &[0], &[0xbb]])),
        ),
        (self::packet(9), "with_header_t", within(invalid)),
    ] {
        bed.send(1, &packet);
        match c.next().await.unwrap() {
            Down::Digest(list) => {
                assert_eq!(list.digest_id, digest_id(name));
                assert_eq!(list.data, [expected]);
            }
            other => panic!("not a digest: {other:?}"),
        }
    }
}
