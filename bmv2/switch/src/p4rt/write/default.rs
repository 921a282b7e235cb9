//! Updates of default entries (specification, "Default Entry").

use std::sync::Arc;

use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::update::Type as UpdateType;

use super::{Batch, resources};
use crate::p4rt::binding::TableBinding;
use crate::p4rt::entry::{self, ActionUse};
use crate::p4rt::fault::{Fault, Outcome};
use crate::p4rt::target::Marks;
use crate::{CounterValue, EntryAction, TableOp};

impl Batch<'_> {
    pub(super) fn default_entry(
        &mut self,
        table: &TableBinding,
        kind: UpdateType,
        entry: p4::TableEntry,
    ) -> Outcome<()> {
        let invalid = |what: &str| Err(Fault::invalid(format!("table {}: {what}", table.name)));
        if kind != UpdateType::Modify {
            return invalid("the default entry can only be modified");
        }
        entry::check_default(table, &entry)?;
        if entry.idle_timeout_ns != 0 {
            return invalid("the default entry has no idle timeout");
        }
        self.flush();
        let op = match entry.action.as_ref().and_then(|a| a.r#type.as_ref()) {
            None => TableOp::ResetDefault { table: table.core },
            Some(p4::table_action::Type::Action(action)) => TableOp::SetDefault {
                table: table.core,
                action: EntryAction::Call(entry::decode_action(table, action, ActionUse::Default)?),
            },
            Some(p4::table_action::Type::ActionProfileMemberId(id)) => TableOp::SetDefault {
                table: table.core,
                action: EntryAction::Member(*id),
            },
            Some(p4::table_action::Type::ActionProfileGroupId(id)) => TableOp::SetDefault {
                table: table.core,
                action: EntryAction::Group(*id),
            },
            Some(p4::table_action::Type::ActionProfileActionSet(_)) => {
                return invalid("the default entry cannot have an action set");
            }
        };
        if table.const_default {
            return Err(Fault::denied(format!(
                "table {}: its default entry is constant",
                table.name
            )));
        }
        let resets = matches!(op, TableOp::ResetDefault { .. });
        self.push(op);
        if resets {
            self.reset_direct(table);
        }
        self.write_direct(table, None, &entry)?;
        self.flush_current()?;
        let marks = Arc::make_mut(&mut self.target.default_marks);
        if resets {
            marks.remove(&table.id);
        } else {
            let written = Marks {
                cookie: entry.controller_metadata,
                metadata: entry.metadata,
            };
            marks.insert(table.id, written);
        }
        Ok(())
    }

    /// Makes the direct resources of the default entry what they are at first
    /// (specification, "Default Entry"). The meter's rates go anyway.
    fn reset_direct(&mut self, table: &TableBinding) {
        if table.counter.is_some() {
            self.push(TableOp::WriteCounter {
                target: resources::counter_of(table, None),
                value: CounterValue::default(),
            });
        }
        if table.meter.is_some() {
            let target = resources::meter_of(table, None);
            self.push(TableOp::ClearColours { target });
        }
    }
}
