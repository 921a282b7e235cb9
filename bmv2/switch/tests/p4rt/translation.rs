//! Values of translated types, with the program `testdata/p4rt/translated.p4`.

use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::stream_message_request::Update as Up;
use p4runtime_proto::p4::v1::stream_message_response::Update as Down;
use p4runtime_proto::{entry, p4info};
use tonic::Code;

use crate::support::*;

const JSON: &str = include_str!("../../testdata/p4rt/translated.json");
const P4INFO: &str = include_str!("../../testdata/p4rt/translated.p4info.txtpb");

/// An entry with one exact field and an action with at most one parameter.
fn table_entry(table: &str, key: &[u8], action: &str, param: Option<&[u8]>) -> p4::TableEntry {
    let info = p4info::from_text(P4INFO).unwrap();
    let mut tables = info.tables.iter().map(|t| t.preamble.as_ref().unwrap());
    let mut actions = info.actions.iter().map(|a| a.preamble.as_ref().unwrap());
    p4::TableEntry {
        table_id: tables.find(|t| t.alias == table).unwrap().id,
        r#match: vec![p4::FieldMatch {
            field_id: 1,
            field_match_type: Some(p4::field_match::FieldMatchType::Exact(
                p4::field_match::Exact { value: key.into() },
            )),
        }],
        action: Some(p4::TableAction {
            r#type: Some(p4::table_action::Type::Action(p4::Action {
                action_id: actions.find(|a| a.alias == action).unwrap().id,
                params: param
                    .map(|value| p4::action::Param {
                        param_id: 1,
                        value: value.into(),
                    })
                    .into_iter()
                    .collect(),
            })),
        }),
        ..Default::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_and_strings_of_the_controller_reach_the_data_plane() {
    let bed = Bed::start().await;
    let mut c = bed.primary(1).await;
    c.push_program(JSON, P4INFO).await.unwrap();

    let entries = [
        table_entry("names", &[1], "rename", Some(b"777")),
        table_entry("names", &[2], "rename", Some(b"0")),
        table_entry("ways", b"777", "send", Some(&[3])),
        table_entry("ways", b"0", "punt", None),
    ];
    for entry in &entries {
        assert_eq!(c.write_one(entry::insert(entry.clone())).await, Code::Ok);
        assert_eq!(c.read_entries(entry.clone()).await, [entry.clone()]);
    }
    let packet = frame(7, 1);
    bed.send(1, &packet);
    assert_eq!(bed.receive(3).await, Some(packet.clone()));

    // 1024 does not fit 10 bits, 512 not the port's 9; the rest is no number.
    for (key, code) in [
        (b"1024".as_slice(), Code::OutOfRange),
        (b"eth0", Code::InvalidArgument),
        (b"0777", Code::InvalidArgument),
        (b"", Code::InvalidArgument),
    ] {
        let bad = table_entry("ways", key, "punt", None);
        assert_eq!(c.write_one(entry::insert(bad)).await, code, "{key:?}");
    }
    let wide = table_entry("ways", b"5", "send", Some(&[2, 0]));
    assert_eq!(c.write_one(entry::insert(wide)).await, Code::OutOfRange);

    // The port has 32 bits for the controller and 9 in the header.
    bed.send(2, &packet);
    let metadata = |values: [u8; 2]| -> Vec<p4::PacketMetadata> {
        (1..)
            .zip(values)
            .map(|(metadata_id, value)| p4::PacketMetadata {
                metadata_id,
                value: vec![value],
            })
            .collect()
    };
    match c.next().await.unwrap() {
        Down::Packet(received) => {
            assert_eq!(received.payload, packet);
            assert_eq!(received.metadata, metadata([2, 5]));
        }
        other => panic!("not a packet: {other:?}"),
    }
    c.send(Up::Packet(p4::PacketOut {
        payload: packet.clone(),
        metadata: metadata([3, 0]),
    }))
    .await;
    assert_eq!(bed.receive(3).await, Some(packet));
}
