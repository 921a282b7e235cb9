//! Both directions of a session as the switch holds them.

use std::net::Ipv4Addr;

use offload_api::v1;

use crate::entry::{Entry, FwdKey, Key, RevKey, Value};

/// Least local port; lower ones are never handed out.
const LOCAL_PORT_MIN: u16 = 1024;

/// A direction of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dir {
    /// From the client.
    Fwd,
    /// From the server.
    Rev,
}

impl Dir {
    /// Both.
    pub const BOTH: [Dir; 2] = [Dir::Fwd, Dir::Rev];
}

/// Both directions of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pair {
    /// Key of the clients' direction; `vip_id` and client are shared by both.
    pub fwd: FwdKey,
    /// Key of the servers' direction; local address and port are shared.
    pub rev: RevKey,
    /// The server.
    pub server_id: u16,
    /// Idle timeout of both entries, ms.
    pub idle_timeout_ms: u32,
}

impl Pair {
    /// Reads what an LD sent.
    ///
    /// # Errors
    /// A sentence that names the field.
    pub fn from_api(flow: &v1::FlowPair) -> Result<Self, String> {
        let narrow = |name: &str, value: u32| {
            u16::try_from(value)
                .ok()
                .filter(|&value| value != 0)
                .ok_or_else(|| format!("{name} is {value}; it must be 1 to 65535"))
        };
        let protocol = match flow.protocol {
            6 => 6,
            17 => 17,
            other => return Err(format!("protocol is {other}; it must be 6 or 17")),
        };
        let local_port = narrow("local_port", flow.local_port)?;
        if local_port < LOCAL_PORT_MIN {
            return Err(format!(
                "local_port is {local_port}; it must be at least {LOCAL_PORT_MIN}"
            ));
        }
        if flow.idle_timeout_ms == 0 {
            return Err("idle_timeout_ms is 0; every flow entry needs one".to_owned());
        }
        Ok(Self {
            fwd: FwdKey {
                vip_id: narrow("vip_id", flow.vip_id)?,
                vip_port: narrow("vip_port", flow.vip_port)?,
                client_addr: Ipv4Addr::from(flow.client_addr),
                client_port: narrow("client_port", flow.client_port)?,
            },
            rev: RevKey {
                local_id: narrow("local_id", flow.local_id)?,
                local_port,
                protocol,
            },
            server_id: narrow("server_id", flow.server_id)?,
            idle_timeout_ms: flow.idle_timeout_ms,
        })
    }

    /// As the API has it.
    pub fn to_api(self, session_id: u64, generation: u32) -> v1::FlowPair {
        v1::FlowPair {
            session_id,
            vip_id: self.fwd.vip_id.into(),
            vip_port: self.fwd.vip_port.into(),
            protocol: self.rev.protocol.into(),
            client_addr: self.fwd.client_addr.into(),
            client_port: self.fwd.client_port.into(),
            server_id: self.server_id.into(),
            local_id: self.rev.local_id.into(),
            local_port: self.rev.local_port.into(),
            idle_timeout_ms: self.idle_timeout_ms,
            generation,
        }
    }

    /// The key of one direction.
    pub fn key(&self, dir: Dir) -> Key {
        match dir {
            Dir::Fwd => Key::FlowFwd(self.fwd),
            Dir::Rev => Key::FlowRev(self.rev),
        }
    }

    /// The entry of one direction.
    pub fn entry(&self, dir: Dir) -> Entry {
        let value = match dir {
            Dir::Fwd => Value::Fwd {
                server_id: self.server_id,
                local_id: self.rev.local_id,
                local_port: self.rev.local_port,
            },
            Dir::Rev => Value::Rev {
                client_addr: self.fwd.client_addr,
                client_port: self.fwd.client_port,
                vip_id: self.fwd.vip_id,
                vip_port: self.fwd.vip_port,
                server_id: self.server_id,
            },
        };
        Entry {
            key: self.key(dir),
            value,
            idle_timeout_ms: self.idle_timeout_ms,
        }
    }

    /// The pair that two entries make; `None` if they are of two sessions.
    pub fn from_entries(fwd: &Entry, rev: &Entry) -> Option<Self> {
        let (Key::FlowFwd(fwd_key), Key::FlowRev(rev_key)) = (fwd.key, rev.key) else {
            return None;
        };
        let Value::Fwd { server_id, .. } = fwd.value else {
            return None;
        };
        let pair = Self {
            fwd: fwd_key,
            rev: rev_key,
            server_id,
            idle_timeout_ms: fwd.idle_timeout_ms,
        };
        (pair.entry(Dir::Fwd).value == fwd.value && pair.entry(Dir::Rev).value == rev.value)
            .then_some(pair)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn api() -> v1::FlowPair {
        v1::FlowPair {
            session_id: 9,
            vip_id: 1,
            vip_port: 80,
            protocol: 6,
            client_addr: 0x0a01_0002,
            client_port: 40_000,
            server_id: 3,
            local_id: 4,
            local_port: 2048,
            idle_timeout_ms: 900_000,
            generation: 5,
        }
    }

    #[test]
    fn goes_through_the_switch_s_entries_and_back() {
        let pair = Pair::from_api(&api()).unwrap();
        let (fwd, rev) = (pair.entry(Dir::Fwd), pair.entry(Dir::Rev));
        assert_eq!(
            fwd.value,
            Value::Fwd {
                server_id: 3,
                local_id: 4,
                local_port: 2048
            }
        );
        assert_eq!(Pair::from_entries(&fwd, &rev), Some(pair));
        assert_eq!(pair.to_api(9, 5), api());
    }

    #[test]
    fn entries_of_two_sessions_are_no_pair() {
        let one = Pair::from_api(&api()).unwrap();
        let other = Pair::from_api(&v1::FlowPair {
            client_port: 40_001,
            ..api()
        })
        .unwrap();
        assert_eq!(
            Pair::from_entries(&one.entry(Dir::Fwd), &other.entry(Dir::Rev)),
            None
        );
    }

    #[test]
    fn names_the_field_that_is_wrong() {
        type Spoil = fn(&mut v1::FlowPair);
        let cases: [(&str, Spoil); 6] = [
            ("vip_id", |f| f.vip_id = 0),
            ("server_id", |f| f.server_id = 65_536),
            ("client_port", |f| f.client_port = 0),
            ("protocol", |f| f.protocol = 1),
            ("local_port", |f| f.local_port = 1023),
            ("idle_timeout_ms", |f| f.idle_timeout_ms = 0),
        ];
        for (field, spoil) in cases {
            let mut flow = api();
            spoil(&mut flow);
            let error = Pair::from_api(&flow).unwrap_err();
            assert!(error.starts_with(field), "{error}");
        }
    }
}
