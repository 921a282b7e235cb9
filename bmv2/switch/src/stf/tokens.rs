//! Words, punctuation, matches and arguments of an STF line.

use super::matching::small;
use super::parse::{Call, Match, Number};

/// Words and punctuation of a line.
pub(super) struct Tokens {
    list: Vec<String>,
    at: usize,
}

impl Tokens {
    pub(super) fn new(text: &str) -> Result<Self, String> {
        let mut list = Vec::new();
        let mut rest = text.trim_start();
        while let Some(c) = rest.chars().next() {
            let len = if c == '"' {
                match rest.get(1..).and_then(|r| r.find('"')) {
                    Some(end) => end + 2,
                    None => return Err("a quotation mark is not closed".into()),
                }
            } else if rest.starts_with("&&&") {
                3
            } else if ["==", "!=", "<=", ">="].iter().any(|p| rest.starts_with(p)) {
                2
            } else if "():,/=<>".contains(c) {
                1
            } else {
                rest.find(|c: char| c.is_whitespace() || "():,/=<>&\"!".contains(c))
                    .unwrap_or(rest.len())
            };
            if len == 0 {
                return Err(format!("unexpected {c:?}"));
            }
            let (word, more) = rest.split_at(len);
            list.push(word.trim_matches('"').to_owned());
            rest = more.trim_start();
        }
        Ok(Self { list, at: 0 })
    }

    pub(super) fn peek(&self) -> Option<&str> {
        self.list.get(self.at).map(String::as_str)
    }

    pub(super) fn word(&mut self) -> Result<String, String> {
        let w = self.list.get(self.at).cloned();
        self.at += 1;
        w.ok_or_else(|| "the line ends too early".into())
    }

    pub(super) fn exactly(&mut self, text: &str) -> Result<(), String> {
        let w = self.word()?;
        if w == text {
            return Ok(());
        }
        Err(format!("expected {text:?}, found {w:?}"))
    }

    pub(super) fn end(&self) -> Result<(), String> {
        match self.peek() {
            None => Ok(()),
            Some(w) => Err(format!("unexpected {w:?} at the end")),
        }
    }

    /// A name; dots and indices are part of it. `a$0` means `a[0]`.
    pub(super) fn name(&mut self) -> Result<String, String> {
        self.word()
    }

    pub(super) fn number(&mut self) -> Result<Number, String> {
        self.word().map(Number)
    }

    pub(super) fn matching(&mut self) -> Result<Match, String> {
        let n = self.number()?;
        Ok(match self.peek() {
            Some("/") => {
                self.word()?;
                Match::Prefix(n, small(&self.word()?)?)
            }
            Some("&&&") => {
                self.word()?;
                Match::Masked(n, self.number()?)
            }
            _ => Match::Number(n),
        })
    }

    pub(super) fn call(&mut self) -> Result<Call, String> {
        let action = self.name()?;
        let args = self.args()?;
        Ok(Call { action, args })
    }

    pub(super) fn args(&mut self) -> Result<Vec<(String, Number)>, String> {
        self.exactly("(")?;
        let mut args = Vec::new();
        if self.peek() == Some(")") {
            self.word()?;
            return Ok(args);
        }
        loop {
            let name = self.word()?;
            self.exactly(":")?;
            args.push((name, self.number()?));
            match self.word()?.as_str() {
                "," => {}
                ")" => return Ok(args),
                other => return Err(format!("expected a comma or ), found {other:?}")),
            }
        }
    }
}
