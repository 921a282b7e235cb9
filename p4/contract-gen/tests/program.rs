//! Promises of the P4 sources that the compiler does not hold.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use p4_contract_gen::compile;
use p4_contract_gen::layout::Layout;

/// A port to another architecture replaces include/arch alone.
#[test]
fn only_the_shim_knows_the_architecture() {
    const NAMES: [&str; 14] = [
        "v1model",
        "V1Switch",
        "standard_metadata",
        "mark_to_drop",
        "verify_checksum",
        "update_checksum",
        "hash(",
        "HashAlgorithm",
        "counter<",
        "direct_counter",
        "CounterType",
        ".count(",
        "support_timeout",
        "meter<",
    ];
    let layout = Layout::of_this_tree();
    let mut seen_in_shim = 0;
    for name in layout.sources().unwrap() {
        let text = layout.read_text(&name).unwrap();
        for (number, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            // The names of the shim's own files.
            if code.starts_with("#include \"include/arch/") {
                continue;
            }
            let Some(found) = NAMES.iter().find(|name| code.contains(**name)) else {
                continue;
            };
            if name.starts_with("include/arch/") {
                seen_in_shim += 1;
            } else {
                panic!("{name}:{}: {found} belongs into include/arch", number + 1);
            }
        }
    }
    assert!(
        seen_in_shim > 10,
        "the names of the architecture are no longer the ones looked for"
    );
}

/// Sizes and widths live in constants.p4: no table has a size of its own.
#[test]
fn table_sizes_are_constants() {
    let layout = Layout::of_this_tree();
    let mut sizes = 0;
    for name in layout.sources().unwrap() {
        for line in layout.read_text(&name).unwrap().lines() {
            if let Some(size) = line.trim().strip_prefix("size = ") {
                assert!(size.starts_with("MAX_"), "{name}: {line}");
                sizes += 1;
            }
        }
    }
    assert_eq!(sizes, 16, "one size for each table");
}

#[test]
fn every_choice_of_flow_counters_compiles() {
    if compile::version().unwrap().is_none() {
        println!("SKIPPED: {} is not installed", compile::COMPILER);
        return;
    }
    for (choice, counters) in [("2", 2), ("1", 1), ("0", 0)] {
        let flags = [
            "--std",
            "p4-16",
            "--Werror",
            &format!("-DFLOW_COUNTERS={choice}"),
        ];
        let flags = flags.map(str::to_owned);
        let compiled = compile::compile(&Layout::of_this_tree(), &flags).unwrap();
        let found = compiled.p4info.matches("direct_counters {").count();
        assert_eq!(found, counters, "FLOW_COUNTERS={choice}");
    }
    let flags = ["--std", "p4-16", "-DFLOW_COUNTERS=3"].map(str::to_owned);
    let error = compile::compile(&Layout::of_this_tree(), &flags).unwrap_err();
    assert!(
        error.to_string().contains("FLOW_COUNTERS is 0, 1 or 2"),
        "{error}"
    );
}

#[test]
fn fewer_flows_can_be_asked_for() {
    if compile::version().unwrap().is_none() {
        println!("SKIPPED: {} is not installed", compile::COMPILER);
        return;
    }
    let flags = ["--std", "p4-16", "--Werror", "-DMAX_FLOWS=1000"].map(str::to_owned);
    let compiled = compile::compile(&Layout::of_this_tree(), &flags).unwrap();
    assert_eq!(compiled.p4info.matches("  size: 1000\n").count(), 2);
}
