//! Meters of arrays and of tables, with the program `testdata/externs.p4`.

use softswitch::{ColourCounts, MeterConfig, MeterTarget, TableError, TableOp, Timestamp};

use crate::build::{Out, call, entry, exact, run, table};
use crate::commands::{ask, switch};

#[test]
fn meters_colour_packets() {
    let s = switch();
    let mut w = s.worker();
    let mut colour = |op, arg, us| match run(&mut w, 3, &ask(op, arg, 9), us).as_slice() {
        [Out::Sent(1, p)] => u16::from_be_bytes([p[2], p[3]]),
        other => panic!("{other:?}"),
    };
    assert_eq!(colour(9, 1, 0), 0, "an unconfigured meter is green");
    let program = s.program().unwrap();
    let meter = program.meter_by_name("In.limits").unwrap();
    let config = MeterConfig {
        cir: 1_000,
        cburst: 1,
        pir: 1_000,
        pburst: 2,
        eburst: None,
    };
    let target = MeterTarget::Indexed {
        meter,
        index: Some(1),
    };
    let op = TableOp::ConfigureMeter {
        target: target.clone(),
        config: Some(config),
    };
    assert_eq!(s.apply(Timestamp::default(), &[op]), [Ok(())]);
    assert_eq!(s.read_meter(&target), Ok(vec![Some(config)]));
    assert_eq!(
        [colour(9, 1, 0), colour(9, 1, 0), colour(9, 1, 0)],
        [0, 1, 2]
    );
    assert_eq!(colour(9, 0, 0), 0, "another cell is not affected");
    assert_eq!(
        colour(9, 1, 1_000),
        0,
        "after a millisecond there is a token"
    );

    // A direct meter in bytes: a packet has 14.
    let id = table(&program, "metered");
    let e = entry(vec![exact(4)], 0, call(&program, id, "colour_it", &[]));
    let key = e.key.clone();
    let config = MeterConfig {
        cir: 1,
        cburst: 14,
        pir: 1,
        pburst: 28,
        eburst: None,
    };
    let ops = [
        TableOp::Insert {
            table: id,
            entry: e,
        },
        TableOp::ConfigureMeter {
            target: MeterTarget::Direct {
                table: id,
                key: key.clone(),
            },
            config: Some(config),
        },
    ];
    assert_eq!(s.apply(Timestamp::default(), &ops), [Ok(()), Ok(())]);
    assert_eq!(
        [
            colour(19, 4, 2_000),
            colour(19, 4, 2_000),
            colour(19, 4, 2_000)
        ],
        [0, 1, 2]
    );
    assert_eq!(
        s.get_entry(id, &key, Timestamp::default()).unwrap().meter,
        Some(config)
    );
    let bad = MeterConfig {
        cir: 2,
        ..MeterConfig::default()
    };
    let op = TableOp::ConfigureMeter {
        target,
        config: Some(bad),
    };
    assert!(matches!(
        s.apply(Timestamp::default(), &[op])[0],
        Err(TableError::Invalid { .. })
    ));
}

/// The field that gets a direct meter's colour may be wider than any word.
#[test]
fn a_colour_fills_a_wide_field() {
    let s = switch();
    let mut w = s.worker();
    let mut colour = |arg| match run(&mut w, 3, &ask(21, arg, 9), 0).as_slice() {
        [Out::Sent(1, p)] => u16::from_be_bytes([p[2], p[3]]),
        other => panic!("{other:?}"),
    };
    let program = s.program().unwrap();
    let id = table(&program, "metered_widely");
    let e = entry(vec![exact(4)], 0, call(&program, id, "colour_widely", &[]));
    let config = MeterConfig {
        cir: 0,
        cburst: 1,
        pir: 0,
        pburst: 2,
        eburst: None,
    };
    let meter = |target| TableOp::ConfigureMeter {
        target,
        config: Some(config),
    };
    let key = e.key.clone();
    let insert = TableOp::Insert {
        table: id,
        entry: e,
    };
    assert_eq!(colour(4), 0xbad, "a miss leaves it as it is");
    assert_eq!(s.apply(Timestamp::default(), &[insert]), [Ok(())]);
    assert_eq!(colour(4), 0, "without rates all is green");
    let ops = [
        meter(MeterTarget::Direct { table: id, key }),
        meter(MeterTarget::Default { table: id }),
    ];
    assert_eq!(s.apply(Timestamp::default(), &ops), [Ok(()), Ok(())]);
    for arg in [4, 5] {
        assert_eq!([colour(arg), colour(arg), colour(arg)], [0, 1, 2], "{arg}");
    }
}

/// A table's direct meter colours misses too once its default entry has rates;
/// before, the colour stays what it was, as in bmv2.
#[test]
fn a_default_entry_colours_packets_that_miss() {
    let s = switch();
    let mut w = s.worker();
    let mut colour = |us| match run(&mut w, 3, &ask(19, 7, 9), us).as_slice() {
        [Out::Sent(1, p)] => u16::from_be_bytes([p[2], p[3]]),
        other => panic!("{other:?}"),
    };
    let program = s.program().unwrap();
    let id = table(&program, "metered");
    let target = MeterTarget::Default { table: id };
    let none = s.default_entry(id).unwrap();
    assert!(none.is_initial && none.meter.is_none());
    assert_eq!(none.colours, Some(ColourCounts::default()));
    assert_eq!(colour(0), 0);
    assert_eq!(s.read_colours(&target), Ok(vec![ColourCounts::default()]));
    // A packet has 14 bytes.
    let config = MeterConfig {
        cir: 0,
        cburst: 14,
        pir: 0,
        pburst: 28,
        eburst: None,
    };
    let op = TableOp::ConfigureMeter {
        target: target.clone(),
        config: Some(config),
    };
    assert_eq!(s.apply(Timestamp::default(), &[op]), [Ok(())]);
    assert_eq!([colour(1), colour(2), colour(3)], [0, 1, 2]);
    assert_eq!(s.default_entry(id).unwrap().meter, Some(config));
    // An entry has a meter of its own.
    let e = entry(vec![exact(7)], 0, call(&program, id, "colour_it", &[]));
    let op = TableOp::Insert {
        table: id,
        entry: e,
    };
    assert_eq!(s.apply(Timestamp::default(), &[op]), [Ok(())]);
    assert_eq!(colour(4), 0);
}
