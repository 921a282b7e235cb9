//! What is kept as controllers wrote it, with every number in the fewest bytes:
//! the specification has a server answer with those, whatever it was sent
//! ("Bytestrings", "Read-Write Symmetry").

use p4runtime_proto::bytestring;
use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::action_profile_action::WatchKind as ActionWatch;
use p4runtime_proto::p4::v1::action_profile_group::member::WatchKind as MemberWatch;
use p4runtime_proto::p4::v1::replica::PortKind;

use super::binding::TableBinding;
use super::translation::Form;

/// The members' watched ports.
pub(super) fn group(group: &mut p4::ActionProfileGroup) {
    for member in &mut group.members {
        if let Some(MemberWatch::WatchPort(port)) = &mut member.watch_kind {
            shorten(port);
        }
    }
}

/// The watched ports and the actions' arguments.
pub(super) fn action_set(table: &TableBinding, set: &mut p4::ActionProfileActionSet) {
    for action in &mut set.action_profile_actions {
        if let Some(ActionWatch::WatchPort(port)) = &mut action.watch_kind {
            shorten(port);
        }
        if let Some(action) = &mut action.action {
            arguments(table, action);
        }
    }
}

fn arguments(table: &TableBinding, action: &mut p4::Action) {
    let Ok(bound) = table.action(action.action_id) else {
        return;
    };
    for given in &mut action.params {
        let param = bound.params.iter().find(|param| param.id == given.param_id);
        // Strings are taken in their one form only.
        if param.is_some_and(|param| param.form == Form::Number) {
            shorten(&mut given.value);
        }
    }
}

/// The ports of replicas and of their backups.
pub(super) fn replicas(replicas: &mut [p4::Replica]) {
    for replica in replicas {
        if let Some(PortKind::Port(port)) = &mut replica.port_kind {
            shorten(port);
        }
        for backup in &mut replica.backup_replicas {
            shorten(&mut backup.port);
        }
    }
}

/// An empty string is no number: it says that there is none.
fn shorten(number: &mut Vec<u8>) {
    if !number.is_empty() {
        *number = bytestring::canonical(number);
    }
}
