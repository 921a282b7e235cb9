//! The switch between the hosts.

use std::sync::Arc;
use std::time::Duration;

use softswitch::ports::{Clock, DataPlane, DataPlaneConfig, PortSpec};
use softswitch::{
    ActionCall, EntryAction, EntryKey, FieldMatch, Program, Switch, SwitchConfig, TableEntry,
    TableOp, Value,
};

use crate::HOSTS;
use crate::namespaces::{Namespaces, within};

const JSON: &str = include_str!("../../testdata/p4rt/p4rt.json");

/// A switch that runs the test program.
pub(crate) fn loaded() -> Arc<Switch> {
    let switch = Switch::new(SwitchConfig {
        cpu_port: Some(510),
        ..SwitchConfig::default()
    });
    switch.install(Program::load(JSON.as_bytes()).unwrap());
    switch
}

/// What is sent to an address leaves by a port.
pub(crate) fn forward(mac: [u8; 6], port: u16, switch: &Switch) {
    let program = switch.program().unwrap();
    let table = program.table_by_name("MyIngress.l2").unwrap();
    let action = program.tables()[table.index()]
        .action_by_name("MyIngress.counted_forward")
        .unwrap();
    let entry = TableEntry {
        key: EntryKey {
            fields: vec![FieldMatch::Exact(Value::from_slice(&mac))],
            priority: 0,
        },
        action: EntryAction::Call(ActionCall {
            action,
            params: vec![Value::from_slice(&port.to_be_bytes())],
        }),
        idle_timeout_ns: 0,
        cookie: 0,
        metadata: Vec::new(),
    };
    let result = switch.apply(Clock::start().now(), &[TableOp::Insert { table, entry }]);
    assert_eq!(result, [Ok(())]);
}

/// Two ports in the switch's namespace, and a host behind each.
pub(crate) fn start(
    namespaces: &Namespaces,
    switch: &Arc<Switch>,
    specs: [PortSpec; 2],
    config: DataPlaneConfig,
) -> Result<DataPlane, String> {
    for host in HOSTS {
        forward([2, 0, 0, 0, 0, host as u8], host, switch);
    }
    let switch = Arc::clone(switch);
    within(namespaces.switch(), move || {
        DataPlane::start(&switch, Clock::start(), specs.into(), config, None)
            .map_err(|error| error.to_string())
    })
}

/// As by default, but for the number of workers.
pub(crate) fn with_workers(workers: usize) -> DataPlaneConfig {
    DataPlaneConfig {
        workers,
        ..DataPlaneConfig::default()
    }
}

/// The whole process uses next to no processor time while nothing arrives.
pub(crate) fn idle_costs_nothing(workers: usize) {
    // proc(5): utime and stime, fields 14 and 15, in ticks of 10 ms; field 2
    // ends with the last parenthesis.
    let used = || {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
        let rest = stat.rsplit_once(')').unwrap().1;
        let fields: Vec<_> = rest.split_whitespace().collect();
        let ticks = |i: usize| fields[i].parse::<u64>().unwrap();
        ticks(11) + ticks(12)
    };
    std::thread::sleep(Duration::from_millis(100));
    let before = used();
    std::thread::sleep(Duration::from_secs(1));
    let ticks = used() - before;
    assert!(ticks <= 3, "{workers} workers: {ticks} ticks in a second");
}
