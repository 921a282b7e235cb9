//! The program `testdata/externs.p4`: a packet's first byte is a command.

use std::sync::Arc;

use softswitch::{Program, Replica, Switch, SwitchConfig};

pub(crate) const CPU: u16 = 510;

pub(crate) fn switch() -> Arc<Switch> {
    let json = include_bytes!("../../testdata/externs.json");
    let s = Switch::new(SwitchConfig {
        cpu_port: Some(CPU),
        max_passes: 50,
        ..SwitchConfig::default()
    });
    s.install(Program::load(json).unwrap());
    s
}

/// The command header, as it arrives and as egress fills it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Cmd {
    pub(crate) op: u8,
    pub(crate) arg: u8,
    pub(crate) value: u16,
    pub(crate) instance: u8,
    pub(crate) rid: u8,
    pub(crate) kept: u8,
    pub(crate) lost: u8,
    pub(crate) port: u16,
    pub(crate) length: u16,
}

impl Cmd {
    pub(crate) fn bytes(self) -> Vec<u8> {
        let mut b = vec![self.op, self.arg];
        b.extend_from_slice(&self.value.to_be_bytes());
        b.extend_from_slice(&[self.instance, self.rid, self.kept, self.lost]);
        b.extend_from_slice(&self.port.to_be_bytes());
        b.extend_from_slice(&self.length.to_be_bytes());
        b
    }

    /// With two bytes of payload.
    pub(crate) fn packet(self) -> Vec<u8> {
        let mut b = self.bytes();
        b.extend_from_slice(&[0xca, 0xfe]);
        b
    }
}

pub(crate) fn ask(op: u8, arg: u8, value: u16) -> Vec<u8> {
    Cmd {
        op,
        arg,
        value,
        ..Cmd::default()
    }
    .packet()
}

/// What egress makes of it on its normal way from port 3.
pub(crate) fn answer(op: u8, arg: u8, value: u16) -> Cmd {
    Cmd {
        op,
        arg,
        value,
        kept: 0x5a,
        lost: 0xa5,
        port: 3,
        length: 14,
        ..Cmd::default()
    }
}

pub(crate) fn r(instance: u16, port: u16) -> Replica {
    Replica { instance, port }
}
