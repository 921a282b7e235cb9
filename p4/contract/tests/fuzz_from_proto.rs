//! Whatever a switch sends, reading it neither panics nor yields an entry that
//! would be written differently.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use p4_contract::tables::{self, AnyEntry};
use p4_contract::{P4INFO_TEXT, PacketIn, PacketOut};
use p4runtime_proto::p4::v1::field_match::{Exact, FieldMatchType, Lpm, Range};
use p4runtime_proto::p4::v1::{
    Action, FieldMatch, PacketMetadata, TableAction, TableEntry, action, table_action,
};

/// Takes numbers from the fuzzer's bytes; zeros when they are used up.
struct Source<'a>(&'a [u8]);

impl Source<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    fn value(&mut self) -> Vec<u8> {
        // Mostly short, so that most of them fit.
        let len = [1, 1, 1, 2, 2, 4, 7, 0][usize::from(self.byte() % 8)];
        (0..len).map(|_| self.byte()).collect()
    }
}

/// Ids of actions, so that some entries have one that their table knows.
fn action_ids() -> Vec<u32> {
    let numbers = P4INFO_TEXT
        .lines()
        .filter_map(|line| line.trim().strip_prefix("id: "));
    let ids = numbers.filter_map(|text| text.parse::<u32>().ok());
    ids.filter(|id| id >> 24 == 1).collect()
}

fn entry(source: &mut Source<'_>, actions: &[u32]) -> TableEntry {
    let table = usize::from(source.byte()) % (tables::ALL.len() + 1);
    let table_id = tables::ALL.get(table).map_or(1, |table| table.id);
    let mut r#match = Vec::new();
    for field_id in 1..=4 - u32::from(source.byte()) / 64 {
        let value = source.value();
        let kind = match source.byte() {
            0..192 => FieldMatchType::Exact(Exact { value }),
            192..224 => FieldMatchType::Lpm(Lpm {
                value,
                prefix_len: i32::from(source.byte()) - 16,
            }),
            _ => FieldMatchType::Range(Range {
                low: value,
                high: source.value(),
            }),
        };
        r#match.push(FieldMatch {
            field_id,
            field_match_type: Some(kind),
        });
    }
    let action_id = actions[usize::from(source.byte()) % actions.len()];
    let params = (1..=5 - u32::from(source.byte()) / 64)
        .map(|param_id| action::Param {
            param_id,
            value: source.value(),
        })
        .collect();
    let action = Action { action_id, params };
    TableEntry {
        table_id,
        r#match,
        action: Some(TableAction {
            r#type: Some(table_action::Type::Action(action)),
        }),
        priority: i32::from(source.byte()),
        ..TableEntry::default()
    }
}

#[test]
fn any_message_is_read_or_refused() {
    let actions = action_ids();
    assert!(actions.len() > 16);
    let mut read = 0u32;
    bolero::check!()
        .with_iterations(20_000)
        .for_each(|bytes: &[u8]| {
            let mut source = Source(bytes);
            let message = entry(&mut source, &actions);
            if let Ok(entry) = AnyEntry::from_proto(&message) {
                read += 1;
                assert_eq!(
                    AnyEntry::from_proto(&entry.to_proto()),
                    Ok(entry),
                    "{message:?}"
                );
            }
            let metadata: Vec<PacketMetadata> = (1..=u32::from(source.byte() % 3))
                .map(|metadata_id| PacketMetadata {
                    metadata_id,
                    value: source.value(),
                })
                .collect();
            if let Ok(header) = PacketIn::from_metadata(&metadata) {
                assert_eq!(PacketIn::from_metadata(&header.to_metadata()), Ok(header));
            }
            if let Ok(header) = PacketOut::from_metadata(&metadata) {
                assert_eq!(PacketOut::from_metadata(&header.to_metadata()), Ok(header));
            }
        });
    assert!(
        read > 100,
        "only {read} entries were read: the fuzzer no longer makes any"
    );
}
