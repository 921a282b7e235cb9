//! Which controller is in charge (specification, "Client Arbitration and
//! Controller Replication"). Pure state: streams come in as numbers, what is
//! to be told to whom goes out as a list.

use std::collections::BTreeMap;

use p4runtime_proto::google::rpc;
use p4runtime_proto::p4::v1::{MasterArbitrationUpdate, Role, Uint128};
use tonic::Code;

use super::Mode;
use super::fault::{Fault, Outcome};

/// A stream of a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct StreamId(pub(super) u64);

/// Longest name of a role in bytes, and most roles: what is kept of a role
/// outlives its controllers.
const MAX_ROLE_NAME: usize = 256;
const MAX_ROLES: usize = 256;

/// `None` is lower than every election id.
type ElectionId = Option<u128>;

/// A message for one stream.
pub(super) type Notice = (StreamId, MasterArbitrationUpdate);

#[derive(Debug, Default)]
struct RoleState {
    /// The highest id ever seen.
    highest: ElectionId,
    live: BTreeMap<StreamId, ElectionId>,
}

impl RoleState {
    /// The live controller with the highest id ever seen. In compatible mode:
    /// with the highest id among the living, as bmv2's server has it.
    fn primary(&self, mode: Mode) -> Option<StreamId> {
        let wanted = match mode {
            Mode::Strict => self.highest,
            Mode::Compat => self.live.values().copied().max().flatten(),
        }?;
        self.live
            .iter()
            .find(|(_, id)| **id == Some(wanted))
            .map(|(stream, _)| *stream)
    }
}

/// The state of arbitration for one device.
#[derive(Debug)]
pub(super) struct Arbitration {
    device: u64,
    mode: Mode,
    max_streams: usize,
    roles: BTreeMap<String, RoleState>,
    /// The role of each stream that has sent its first update.
    streams: BTreeMap<StreamId, String>,
}

pub(super) fn election_id(id: Option<&Uint128>) -> ElectionId {
    id.map(|id| u128::from(id.high) << 64 | u128::from(id.low))
}

fn to_message(id: u128) -> Uint128 {
    Uint128 {
        high: (id >> 64) as u64,
        low: id as u64,
    }
}

/// The name of a role; before version 1.4 roles had numbers.
pub(super) fn role_name(name: &str, id: u64) -> String {
    if name.is_empty() && id != 0 {
        format!("role {id}")
    } else {
        name.to_owned()
    }
}

impl Arbitration {
    pub(super) fn new(device: u64, mode: Mode, max_streams: usize) -> Self {
        Self {
            device,
            mode,
            max_streams,
            roles: BTreeMap::new(),
            streams: BTreeMap::new(),
        }
    }

    /// Handles an update from a stream. An error ends the stream.
    pub(super) fn update(
        &mut self,
        stream: StreamId,
        message: &MasterArbitrationUpdate,
    ) -> Outcome<Vec<Notice>> {
        let default = Role::default();
        let wanted = message.role.as_ref().unwrap_or(&default);
        let role = role_name(&wanted.name, wanted.id);
        let id = election_id(message.election_id.as_ref());
        let known = self.streams.get(&stream);
        if message.device_id != self.device {
            let text = format!(
                "this switch is device {}, not {}",
                self.device, message.device_id
            );
            return Err(match known {
                None => Fault::not_found(text),
                Some(_) => Fault::new(Code::FailedPrecondition, text),
            });
        }
        if known.is_some_and(|known| *known != role) {
            return Err(Fault::new(
                Code::FailedPrecondition,
                "the role of a stream cannot change: open another one",
            ));
        }
        if wanted.config.is_some() {
            return Err(Fault::invalid(
                "role.config: this switch knows no scheme for role configurations",
            ));
        }
        if role.len() > MAX_ROLE_NAME {
            return Err(Fault::invalid(format!(
                "role.name has {} bytes, the longest may have {MAX_ROLE_NAME}",
                role.len()
            )));
        }
        if self.roles.len() >= MAX_ROLES && !self.roles.contains_key(&role) {
            return Err(Fault::new(
                Code::ResourceExhausted,
                format!("there are {MAX_ROLES} roles already, the most that this switch knows"),
            ));
        }
        let taken = id.is_some()
            && self.roles.get(&role).is_some_and(|state| {
                let mut live = state.live.iter();
                live.any(|(other, taken)| *other != stream && *taken == id)
            });
        if taken {
            return Err(Fault::invalid(
                "the election id is used by another live controller",
            ));
        }
        if known.is_none() && self.streams.len() >= self.max_streams {
            return Err(Fault::new(
                Code::ResourceExhausted,
                format!(
                    "there are {} streams already, the most that this switch takes",
                    self.max_streams
                ),
            ));
        }

        let state = self.roles.entry(role.clone()).or_default();
        let before = state.primary(self.mode);
        state.live.insert(stream, id);
        state.highest = state.highest.max(id);
        let after = state.primary(self.mode);
        self.streams.insert(stream, role.clone());
        let everyone = before != after || after == Some(stream);
        Ok(self.notices(&role, after, (!everyone).then_some(stream)))
    }

    /// Forgets a stream that has ended.
    pub(super) fn disconnect(&mut self, stream: StreamId) -> Vec<Notice> {
        let Some(role) = self.streams.remove(&stream) else {
            return Vec::new();
        };
        let Some(state) = self.roles.get_mut(&role) else {
            return Vec::new();
        };
        let was_primary = state.primary(self.mode) == Some(stream);
        state.live.remove(&stream);
        let primary = state.primary(self.mode);
        if was_primary {
            self.notices(&role, primary, None)
        } else {
            Vec::new()
        }
    }

    /// The notices to one stream of a role or to all, the primary last, so
    /// that it begins only after the others have stopped.
    fn notices(
        &self,
        role: &str,
        primary: Option<StreamId>,
        only: Option<StreamId>,
    ) -> Vec<Notice> {
        let Some(state) = self.roles.get(role) else {
            return Vec::new();
        };
        let highest = match self.mode {
            Mode::Strict => state.highest,
            Mode::Compat => state.live.values().copied().max().flatten(),
        };
        let mut streams: Vec<_> = state
            .live
            .keys()
            .copied()
            .filter(|stream| only.is_none_or(|only| only == *stream))
            .collect();
        streams.sort_by_key(|stream| Some(*stream) == primary);
        streams
            .into_iter()
            .map(|stream| {
                let (code, message) = match primary {
                    Some(primary) if primary == stream => (Code::Ok, "you are primary"),
                    Some(_) => (Code::AlreadyExists, "another controller is primary"),
                    None => (Code::NotFound, "there is no primary"),
                };
                let update = MasterArbitrationUpdate {
                    device_id: self.device,
                    role: (!role.is_empty()).then(|| Role {
                        name: role.to_owned(),
                        ..Role::default()
                    }),
                    election_id: highest.map(to_message),
                    status: Some(rpc::Status {
                        code: code as i32,
                        message: message.into(),
                        details: Vec::new(),
                    }),
                };
                (stream, update)
            })
            .collect()
    }

    /// Checks that the sender of a Write or SetForwardingPipelineConfig is the
    /// primary of its role.
    pub(super) fn authorize(&self, role: &str, id: ElectionId) -> Outcome<()> {
        if self.mode == Mode::Compat && self.streams.is_empty() && id.is_none() {
            return Ok(());
        }
        let state = match self.roles.get(role) {
            Some(state) => state,
            None if role.is_empty() => {
                return Err(Fault::denied("no controller has become primary yet"));
            }
            None => return Err(Fault::not_found(format!("there is no role {role:?}"))),
        };
        let Some(primary) = state.primary(self.mode) else {
            return Err(Fault::denied("there is no primary"));
        };
        if id.is_some() && state.live.get(&primary) == Some(&id) {
            Ok(())
        } else {
            Err(Fault::denied("the election id is not the primary's"))
        }
    }

    /// Whether the stream belongs to the primary of its role.
    pub(super) fn is_primary(&self, stream: StreamId) -> bool {
        self.streams
            .get(&stream)
            .and_then(|role| self.roles.get(role))
            .is_some_and(|state| state.primary(self.mode) == Some(stream))
    }

    /// All primaries, one for each role that has one.
    pub(super) fn primaries(&self) -> Vec<StreamId> {
        self.roles
            .values()
            .filter_map(|state| state.primary(self.mode))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: StreamId = StreamId(1);
    const B: StreamId = StreamId(2);
    const C: StreamId = StreamId(3);

    fn message(id: Option<u64>) -> MasterArbitrationUpdate {
        MasterArbitrationUpdate {
            device_id: 7,
            role: None,
            election_id: id.map(|low| Uint128 { high: 0, low }),
            status: None,
        }
    }

    fn with_role(id: u64, role: &str) -> MasterArbitrationUpdate {
        MasterArbitrationUpdate {
            role: Some(Role {
                name: role.into(),
                ..Role::default()
            }),
            ..message(Some(id))
        }
    }

    fn codes(notices: &[Notice]) -> Vec<(StreamId, i32, Option<u64>)> {
        notices
            .iter()
            .map(|(stream, update)| {
                (
                    *stream,
                    update.status.as_ref().unwrap().code,
                    update.election_id.as_ref().map(|id| id.low),
                )
            })
            .collect()
    }

    const OK: i32 = 0;
    const NOT_FOUND: i32 = 5;
    const ALREADY_EXISTS: i32 = 6;

    fn strict() -> Arbitration {
        Arbitration::new(7, Mode::Strict, 16)
    }

    #[test]
    fn highest_id_ever_seen_is_primary() {
        let mut a = strict();
        let n = a.update(A, &message(Some(10))).unwrap();
        assert_eq!(codes(&n), [(A, OK, Some(10))]);
        let n = a.update(B, &message(Some(5))).unwrap();
        assert_eq!(codes(&n), [(B, ALREADY_EXISTS, Some(10))]);
        // The new primary is told last.
        let n = a.update(B, &message(Some(11))).unwrap();
        assert_eq!(
            codes(&n),
            [(A, ALREADY_EXISTS, Some(11)), (B, OK, Some(11))]
        );
        assert!(a.is_primary(B) && !a.is_primary(A));
        // It leaves: nobody is primary, not even the next highest.
        let n = a.disconnect(B);
        assert_eq!(codes(&n), [(A, NOT_FOUND, Some(11))]);
        assert_eq!(
            a.authorize("", Some(10)).unwrap_err().code,
            Code::PermissionDenied
        );
        // The same id again is primary again.
        let n = a.update(C, &message(Some(11))).unwrap();
        assert_eq!(
            codes(&n),
            [(A, ALREADY_EXISTS, Some(11)), (C, OK, Some(11))]
        );
        assert_eq!(a.authorize("", Some(11)), Ok(()));
    }

    #[test]
    fn a_primary_may_step_down() {
        let mut a = strict();
        a.update(A, &message(Some(10))).unwrap();
        a.update(B, &message(Some(5))).unwrap();
        let n = a.update(A, &message(Some(3))).unwrap();
        assert_eq!(
            codes(&n),
            [(A, NOT_FOUND, Some(10)), (B, NOT_FOUND, Some(10))]
        );
        assert!(a.primaries().is_empty());
    }

    #[test]
    fn an_unset_id_is_never_primary_and_zero_may_be() {
        let mut a = strict();
        let n = a.update(A, &message(None)).unwrap();
        assert_eq!(codes(&n), [(A, NOT_FOUND, None)]);
        assert!(a.authorize("", None).is_err());
        let n = a.update(B, &message(Some(0))).unwrap();
        assert_eq!(codes(&n), [(A, ALREADY_EXISTS, Some(0)), (B, OK, Some(0))]);
        assert_eq!(a.authorize("", Some(0)), Ok(()));
        assert!(a.authorize("", None).is_err());
    }

    #[test]
    fn refuses_what_the_specification_refuses() {
        let mut a = strict();
        let code = |r: Outcome<Vec<Notice>>| r.unwrap_err().code;
        let other = MasterArbitrationUpdate {
            device_id: 8,
            ..message(Some(1))
        };
        assert_eq!(code(a.update(A, &other)), Code::NotFound);
        a.update(A, &message(Some(1))).unwrap();
        assert_eq!(code(a.update(A, &other)), Code::FailedPrecondition);
        assert_eq!(
            code(a.update(A, &with_role(1, "x"))),
            Code::FailedPrecondition
        );
        assert_eq!(code(a.update(B, &message(Some(1)))), Code::InvalidArgument);
        // Two backups without an id do not collide.
        a.update(B, &message(None)).unwrap();
        a.update(C, &message(None)).unwrap();
        let mut full = Arbitration::new(7, Mode::Strict, 1);
        full.update(A, &message(Some(1))).unwrap();
        assert_eq!(
            code(full.update(B, &message(Some(2)))),
            Code::ResourceExhausted
        );
        assert!(full.is_primary(A));
    }

    #[test]
    fn roles_have_primaries_of_their_own() {
        let mut a = strict();
        a.update(A, &message(Some(10))).unwrap();
        let n = a.update(B, &with_role(10, "learner")).unwrap();
        assert_eq!(codes(&n), [(B, OK, Some(10))]);
        assert_eq!(n[0].1.role.as_ref().unwrap().name, "learner");
        assert_eq!(a.authorize("learner", Some(10)), Ok(()));
        assert_eq!(
            a.authorize("nobody", Some(10)).unwrap_err().code,
            Code::NotFound
        );
        assert_eq!(a.primaries(), [A, B]);
    }

    #[test]
    fn roles_are_bounded() {
        let mut a = strict();
        let long = "r".repeat(257);
        assert_eq!(
            a.update(A, &with_role(1, &long)).unwrap_err().code,
            Code::InvalidArgument
        );
        for number in 0..256 {
            a.update(A, &with_role(1, &format!("{number}"))).unwrap();
            a.disconnect(A);
        }
        assert_eq!(
            a.update(A, &with_role(1, "another")).unwrap_err().code,
            Code::ResourceExhausted
        );
        a.update(A, &with_role(1, "7")).unwrap();
    }

    #[test]
    fn compatible_mode_promotes_the_next() {
        let mut a = Arbitration::new(7, Mode::Compat, 16);
        assert_eq!(a.authorize("", None), Ok(()));
        a.update(A, &message(Some(10))).unwrap();
        assert!(a.authorize("", None).is_err());
        a.update(B, &message(Some(5))).unwrap();
        let n = a.disconnect(A);
        assert_eq!(codes(&n), [(B, OK, Some(5))]);
        assert_eq!(a.authorize("", Some(5)), Ok(()));
    }
}
