//! `cargo xtask bench`: measurements, apart from the tests.

use crate::{packages, step};

const BENCHES: &[&str] = &["engine", "floor", "switch"];

/// Runs the named benchmarks, or all of them. What stands behind a `--` is for
/// the benchmark, of which there is one then.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let (arguments, parts) = match arguments.iter().position(|a| a == "--") {
        Some(at) => (&arguments[..at], &arguments[at..]),
        None => (arguments, &[][..]),
    };
    if let Some(unknown) = arguments.iter().find(|a| !BENCHES.contains(&a.as_str())) {
        return Err(format!(
            "there is no benchmark \"{unknown}\"; there are {}",
            BENCHES.join(", ")
        ));
    }
    if !parts.is_empty() && arguments.len() != 1 {
        return Err("what stands behind -- is for one benchmark: name it before".into());
    }
    packages::install(packages::BENCH)?;
    std::fs::create_dir_all(step::target_dir().join("bench"))
        .map_err(|error| format!("can't make target/bench: {error}"))?;
    for bench in BENCHES {
        if arguments.is_empty() || arguments.iter().any(|a| a == bench) {
            one(bench, parts)?;
        }
    }
    println!(
        "\nThe results are in {}",
        step::target_dir().join("bench").display()
    );
    Ok(())
}

fn one(bench: &str, parts: &[String]) -> Result<(), String> {
    let mut command = step::cargo();
    match bench {
        "engine" => command.args(["bench", "--package", "session-engine"]),
        "floor" => command.args(["bench", "--package", "slowpath", "--bench", "floor"]),
        _ => command.args(["bench", "--package", "hw-tests", "--bench", "switch"]),
    };
    step::run(&format!("bench {bench}"), command.args(parts))
}
