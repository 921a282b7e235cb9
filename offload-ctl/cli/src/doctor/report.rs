//! Findings, and how they are told.

use std::process::ExitCode;

use serde_json::json;

use crate::output::print_json;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    /// As it should be.
    Ok,
    /// Nobody's fault, good to know.
    Note,
    /// It will not work.
    Problem,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    /// How bad.
    pub(super) level: Level,
    /// What was looked at.
    pub(super) what: String,
    /// What was found.
    pub(super) found: String,
    /// What to do, for problems.
    pub(super) way_out: String,
}

/// All findings, in the order in which they were made.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) findings: Vec<Finding>,
}

impl Report {
    pub(super) fn ok(&mut self, what: impl Into<String>, found: impl Into<String>) {
        self.add(Level::Ok, what, found, "");
    }

    pub(super) fn note(&mut self, what: impl Into<String>, found: impl Into<String>) {
        self.add(Level::Note, what, found, "");
    }

    pub(super) fn problem(
        &mut self,
        what: impl Into<String>,
        found: impl Into<String>,
        way_out: impl Into<String>,
    ) {
        self.add(Level::Problem, what, found, way_out);
    }

    fn add(
        &mut self,
        level: Level,
        what: impl Into<String>,
        found: impl Into<String>,
        way_out: impl Into<String>,
    ) {
        self.findings.push(Finding {
            level,
            what: what.into(),
            found: found.into(),
            way_out: way_out.into(),
        });
    }

    fn problems(&self) -> usize {
        self.findings
            .iter()
            .filter(|finding| finding.level == Level::Problem)
            .count()
    }

    /// Prints the findings; the exit code tells whether there are problems.
    pub(super) fn finish(&self, json: bool) -> ExitCode {
        let problems = self.problems();
        if json {
            let findings: Vec<_> = self
                .findings
                .iter()
                .map(|finding| {
                    let level = match finding.level {
                        Level::Ok => "ok",
                        Level::Note => "note",
                        Level::Problem => "problem",
                    };
                    json!({
                        "level": level,
                        "what": finding.what,
                        "found": finding.found,
                        "way_out": finding.way_out,
                    })
                })
                .collect();
            print_json(&json!({"problems": problems, "findings": findings}));
        } else {
            for finding in &self.findings {
                let mark = match finding.level {
                    Level::Ok => "ok     ",
                    Level::Note => "note   ",
                    Level::Problem => "PROBLEM",
                };
                println!("{mark} {}: {}", finding.what, finding.found);
                if !finding.way_out.is_empty() {
                    println!("        -> {}", finding.way_out);
                }
            }
            match problems {
                0 => println!("doctor: nothing found that would keep Sluice from working"),
                1 => println!("doctor: 1 problem"),
                many => println!("doctor: {many} problems"),
            }
        }
        if problems == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(1)
        }
    }
}
