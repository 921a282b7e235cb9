//! The command `differential`.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use softswitch_conformance::compiler::on_path;
use softswitch_conformance::differential::plan::Size;
use softswitch_conformance::differential::side::{Kind, Launch};
use softswitch_conformance::differential::{Pair, Report, cases, compare, missing};

/// What a call asks for.
pub(crate) struct Asked {
    pub(crate) p4c: Option<PathBuf>,
    pub(crate) only: String,
    pub(crate) seed: u64,
    pub(crate) strict: bool,
    pub(crate) all: bool,
    pub(crate) softswitch: Option<PathBuf>,
    pub(crate) json: PathBuf,
}

/// Our programs are asked much, each of p4c's many little.
const OURS: Size = Size {
    entries: 12,
    packets: 150,
    rounds: 3,
};
const OF_P4C: Size = Size {
    entries: 5,
    packets: 25,
    rounds: 1,
};

/// Compares and reports.
pub(crate) fn run(asked: &Asked) -> Result<()> {
    let bmv2 = on_path("simple_switch_grpc");
    if let Some(reason) = missing(bmv2.as_deref()) {
        println!("SKIPPED differential: {reason}");
        return Ok(());
    }
    let folder = asked.json.with_extension("logs");
    std::fs::create_dir_all(&folder).with_context(|| format!("can't make {}", folder.display()))?;
    let softswitch = match &asked.softswitch {
        Some(program) => program.clone(),
        None => std::env::current_exe()?.with_file_name("softswitch"),
    };
    if !softswitch.is_file() {
        bail!(
            "{} is not there: cargo build --release -p softswitch",
            softswitch.display()
        );
    }
    let pair = Pair {
        softswitch: Launch {
            kind: Kind::Softswitch,
            program: softswitch,
            arguments: if asked.strict {
                Vec::new()
            } else {
                vec!["--compat".into()]
            },
            log: folder.join("softswitch.log"),
        },
        bmv2: Launch {
            kind: Kind::Bmv2,
            program: bmv2.context("simple_switch_grpc is not on the PATH")?,
            arguments: Vec::new(),
            log: folder.join("bmv2.log"),
        },
        all: asked.all,
    };
    let mut all: Vec<(cases::Case, Size)> = Vec::new();
    for case in cases::ours()? {
        if case.name.contains(&asked.only) {
            all.push((case, OURS));
        }
    }
    if let Some(checkout) = &asked.p4c {
        println!("compiling the samples of p4c ...");
        let only = asked.only.trim_start_matches("p4c/");
        all.extend(
            cases::of_p4c(checkout, only)?
                .into_iter()
                .map(|case| (case, OF_P4C)),
        );
    }
    let mut report = Report::default();
    for (case, size) in &all {
        compare(&pair, case, asked.seed, *size, &mut report)?;
        if let Some(result) = report.programs.get(&case.name) {
            println!(
                "{}: {} steps, {} differences explained, {} not",
                case.name,
                result.steps,
                result.explained.values().sum::<usize>(),
                result.unexplained
            );
        }
    }
    crate::write_json(&asked.json, &report)?;
    tell(&report, asked)
}

fn tell(report: &Report, asked: &Asked) -> Result<()> {
    let mut table = crate::table([
        "program",
        "steps",
        "packets",
        "out",
        "explained differences",
        "unexplained",
    ]);
    let mut unexplained = 0;
    for (name, result) in &report.programs {
        let explained: Vec<String> = result
            .explained
            .iter()
            .map(|(id, count)| format!("{id} ({count})"))
            .collect();
        let rest = match &result.stopped {
            Some(reason) => format!("{}; {reason}", result.unexplained),
            None => result.unexplained.to_string(),
        };
        table.add_row([
            name.clone(),
            result.steps.to_string(),
            result.packets.to_string(),
            result.out.to_string(),
            explained.join(", "),
            rest,
        ]);
        unexplained += result.unexplained;
    }
    for difference in report
        .differences
        .iter()
        .filter(|d| d.explanation.is_none())
        .take(20)
    {
        println!(
            "DIFFERENT {} step {}: {}\n  softswitch: {}\n  bmv2:       {}",
            difference.program,
            difference.step,
            shortened(&difference.what),
            shortened(&serde_json::to_string(&difference.softswitch)?),
            shortened(&serde_json::to_string(&difference.bmv2)?),
        );
    }
    println!("{table}");
    println!(
        "explanations are in docs/softswitch-differences.md, all details in {}",
        asked.json.display()
    );
    if unexplained > 0 {
        bail!("{unexplained} differences are not explained");
    }
    Ok(())
}

fn shortened(text: &str) -> String {
    const LONGEST: usize = 900;
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{} ...", text.get(..at).unwrap_or(text)),
        None => text.to_owned(),
    }
}
