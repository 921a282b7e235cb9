//! What is wrong with a configuration: the place, the fault, the way out.

use std::fmt;

/// One thing that is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where: `vip[0] "web".address`, or `line 12, column 3` for a text that
    /// could not be parsed.
    pub place: String,
    /// What is wrong there.
    pub what: String,
    /// What to do about it.
    pub way_out: String,
}

impl Problem {
    /// A problem at `place`.
    pub fn new(
        place: impl Into<String>,
        what: impl Into<String>,
        way_out: impl Into<String>,
    ) -> Self {
        Self {
            place: place.into(),
            what: what.into(),
            way_out: way_out.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.place, self.what, self.way_out)
    }
}

/// A configuration that was refused, with everything that is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Invalid {
    /// At least one problem, in the order of the file.
    pub problems: Vec<Problem>,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

/// Parses TOML; a fault becomes one problem that names line and column.
pub(crate) fn parse<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, Invalid> {
    toml::from_str(text).map_err(|error| {
        let place = match error.span() {
            Some(span) => {
                let before = text.get(..span.start).unwrap_or(text);
                let line = before.matches('\n').count() + 1;
                let column = before.chars().rev().take_while(|&c| c != '\n').count() + 1;
                format!("line {line}, column {column}")
            }
            None => "the file".to_owned(),
        };
        let what = error.message().trim().replace('\n', ", ");
        let way_out = if what.starts_with("unknown field") {
            "remove the field or correct its name"
        } else if what.starts_with("missing field") {
            "add the field"
        } else {
            "correct the value; config/samples/ has working examples"
        };
        Invalid {
            problems: vec![Problem::new(place, what, way_out)],
        }
    })
}
