//! The STF language, and bmv2's shell commands: one command a line.

/// A statement and its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Statement {
    pub(crate) line: usize,
    pub(crate) command: Command,
}

/// A number as written: digits with a base, `*` standing for "any digit".
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Number(pub(crate) String);

/// A match of one key field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Match {
    /// A number, perhaps with `*`.
    Number(Number),
    /// A number and a prefix length.
    Prefix(Number, u32),
    /// A number and a mask.
    Masked(Number, Number),
}

/// An action with its named arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) action: String,
    pub(crate) args: Vec<(String, Number)>,
}

/// What a counter is compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Command {
    Add {
        table: String,
        priority: Option<i32>,
        matches: Vec<(String, Match)>,
        call: Call,
        /// Name of the entry, for `check_counter`.
        label: Option<String>,
    },
    RemoveAll,
    SetDefault {
        table: String,
        call: Call,
    },
    Packet {
        port: u16,
        bytes: Vec<u8>,
    },
    /// Nibbles to compare, `None` for any; `exact` is a `$` at the end.
    Expect {
        port: u16,
        nibbles: Option<Vec<Option<u8>>>,
        exact: bool,
    },
    NoPacket,
    Wait,
    CheckCounter {
        counter: String,
        target: String,
        bytes: bool,
        check: Option<(Comparison, u64)>,
    },
    /// A command of bmv2's own shell.
    Direct(String, Vec<String>),
}

/// Commands that are passed on as words.
const DIRECT: [&str; 25] = [
    "act_prof_add_member_to_group",
    "act_prof_create_group",
    "act_prof_create_member",
    "counter_read",
    "counter_write",
    "mc_mgrp_create",
    "mc_node_associate",
    "mc_node_create",
    "mc_node_update",
    "meter_array_set_rates",
    "meter_get_rates",
    "meter_set_rates",
    "mirroring_add",
    "mirroring_add_mc",
    "mirroring_delete",
    "mirroring_get",
    "register_read",
    "register_reset",
    "register_write",
    "table_add",
    "table_indirect_add",
    "table_indirect_add_with_group",
    "table_indirect_set_default",
    "table_indirect_set_default_with_group",
    "table_set_default",
];

/// Reads a whole test.
pub(crate) fn parse(text: &str) -> Result<Vec<Statement>, (usize, String)> {
    let mut out = Vec::new();
    for (i, raw) in text.lines().enumerate() {
        let line = i + 1;
        let body = raw.split('#').next().unwrap_or("").trim();
        if body.is_empty() {
            continue;
        }
        let command = statement(body).map_err(|e| (line, e))?;
        out.push(Statement { line, command });
    }
    Ok(out)
}

fn statement(body: &str) -> Result<Command, String> {
    let (word, rest) = match body.split_once(char::is_whitespace) {
        Some((w, r)) => (w, r.trim()),
        None => (body, ""),
    };
    let word = word.to_ascii_lowercase();
    match word.as_str() {
        "packet" => packet(rest),
        "expect" => expect(rest),
        "no_packet" => Ok(Command::NoPacket),
        "wait" => Ok(Command::Wait),
        "add" => add(rest),
        "setdefault" => {
            let mut t = Tokens::new(rest)?;
            let table = t.name()?;
            let call = t.call()?;
            t.end()?;
            Ok(Command::SetDefault { table, call })
        }
        "remove" if rest.eq_ignore_ascii_case("all") => Ok(Command::RemoveAll),
        "check_counter" => check_counter(rest),
        w if DIRECT.contains(&w) => {
            let words = rest.split_whitespace().map(str::to_owned).collect();
            Ok(Command::Direct(word, words))
        }
        other => Err(format!("unknown command {other:?}")),
    }
}

fn packet(rest: &str) -> Result<Command, String> {
    let (port, data) = port_and_data(rest)?;
    let digits: Option<Vec<u8>> = data
        .chars()
        .map(|c| c.to_digit(16).and_then(|d| u8::try_from(d).ok()))
        .collect();
    let Some(digits) = digits.filter(|d| d.len() % 2 == 0) else {
        return Err("packet data must be whole bytes in hexadecimal".into());
    };
    let bytes = digits
        .chunks(2)
        .map(|p| (p.first().copied().unwrap_or(0) << 4) | p.get(1).copied().unwrap_or(0))
        .collect();
    Ok(Command::Packet { port, bytes })
}

fn expect(rest: &str) -> Result<Command, String> {
    let (port, data) = port_and_data(rest)?;
    if data.is_empty() {
        return Ok(Command::Expect {
            port,
            nibbles: None,
            exact: false,
        });
    }
    let (data, exact) = match data.strip_suffix('$') {
        Some(d) => (d.to_owned(), true),
        None => (data, false),
    };
    let nibbles: Option<Vec<Option<u8>>> = data
        .chars()
        .map(|c| match c {
            '*' => Some(None),
            c => c.to_digit(16).and_then(|d| u8::try_from(d).ok()).map(Some),
        })
        .collect();
    match nibbles {
        Some(n) => Ok(Command::Expect {
            port,
            nibbles: Some(n),
            exact,
        }),
        None => Err("expected data must be hexadecimal or *".into()),
    }
}

fn port_and_data(rest: &str) -> Result<(u16, String), String> {
    let mut words = rest.split_whitespace();
    let port = words.next().unwrap_or("");
    match port.parse() {
        Ok(port) => Ok((port, words.collect())),
        Err(_) => Err(format!("{port:?} is not a port")),
    }
}

fn add(rest: &str) -> Result<Command, String> {
    let mut t = Tokens::new(rest)?;
    let table = t.name()?;
    let priority = match t.peek() {
        Some(w) if w.bytes().all(|b| b.is_ascii_digit()) => {
            Some(t.word()?.parse().map_err(|_| "a priority out of range")?)
        }
        _ => None,
    };
    let mut matches = Vec::new();
    // A name followed by a colon is a match, by a parenthesis the action.
    loop {
        let name = t.name()?;
        if t.peek() == Some("(") {
            let args = t.args()?;
            let label = if t.peek() == Some("=") {
                t.word()?;
                Some(t.word()?)
            } else {
                None
            };
            t.end()?;
            return Ok(Command::Add {
                table,
                priority,
                matches,
                call: Call { action: name, args },
                label,
            });
        }
        t.exactly(":")?;
        matches.push((name, t.matching()?));
    }
}

fn check_counter(rest: &str) -> Result<Command, String> {
    let mut t = Tokens::new(rest)?;
    let counter = t.name()?;
    t.exactly("(")?;
    let target = t.word()?;
    t.exactly(")")?;
    let mut bytes = false;
    let mut check = None;
    if let Some(kind) = t.peek() {
        bytes = match kind.to_ascii_lowercase().as_str() {
            "bytes" => true,
            "packets" => false,
            other => return Err(format!("{other:?} is neither bytes nor packets")),
        };
        t.word()?;
        let comparison = match t.word()?.as_str() {
            "==" => Comparison::Eq,
            "!=" => Comparison::Ne,
            "<" => Comparison::Lt,
            "<=" => Comparison::Le,
            ">" => Comparison::Gt,
            ">=" => Comparison::Ge,
            other => return Err(format!("{other:?} is not a comparison")),
        };
        let n = t.word()?;
        check = Some((
            comparison,
            n.parse().map_err(|_| format!("{n:?} is not a number"))?,
        ));
    }
    t.end()?;
    Ok(Command::CheckCounter {
        counter,
        target,
        bytes,
        check,
    })
}

/// Words and punctuation of a line.
struct Tokens {
    list: Vec<String>,
    at: usize,
}

impl Tokens {
    fn new(text: &str) -> Result<Self, String> {
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

    fn peek(&self) -> Option<&str> {
        self.list.get(self.at).map(String::as_str)
    }

    fn word(&mut self) -> Result<String, String> {
        let w = self.list.get(self.at).cloned();
        self.at += 1;
        w.ok_or_else(|| "the line ends too early".into())
    }

    fn exactly(&mut self, text: &str) -> Result<(), String> {
        let w = self.word()?;
        if w == text {
            return Ok(());
        }
        Err(format!("expected {text:?}, found {w:?}"))
    }

    fn end(&self) -> Result<(), String> {
        match self.peek() {
            None => Ok(()),
            Some(w) => Err(format!("unexpected {w:?} at the end")),
        }
    }

    /// A name; dots and indices are part of it. `a$0` means `a[0]`.
    fn name(&mut self) -> Result<String, String> {
        self.word()
    }

    fn number(&mut self) -> Result<Number, String> {
        self.word().map(Number)
    }

    fn matching(&mut self) -> Result<Match, String> {
        let n = self.number()?;
        Ok(match self.peek() {
            Some("/") => {
                self.word()?;
                let len = self.word()?;
                Match::Prefix(n, len.parse().map_err(|_| format!("{len:?} is no length"))?)
            }
            Some("&&&") => {
                self.word()?;
                Match::Masked(n, self.number()?)
            }
            _ => Match::Number(n),
        })
    }

    fn call(&mut self) -> Result<Call, String> {
        let action = self.name()?;
        let args = self.args()?;
        Ok(Call { action, args })
    }

    fn args(&mut self) -> Result<Vec<(String, Number)>, String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_read() {
        let text = "# a comment\n\
            ADD t 10 h.f:0x*1 h.valid:1 c.act(a:2, b:0b1) = E # tail\n\
            packet 3 00 0a FF\n\
            expect 4 0*ff $\n\
            expect 5\n\
            mc_node_create 7 1 2\n\
            check_counter c(E) packets == 2\n";
        let got = parse(text).unwrap();
        assert_eq!(
            got.iter().map(|s| s.line).collect::<Vec<_>>(),
            [2, 3, 4, 5, 6, 7]
        );
        let n = |s: &str| Number(s.into());
        assert_eq!(
            got[0].command,
            Command::Add {
                table: "t".into(),
                priority: Some(10),
                matches: vec![
                    ("h.f".into(), Match::Number(n("0x*1"))),
                    ("h.valid".into(), Match::Number(n("1"))),
                ],
                call: Call {
                    action: "c.act".into(),
                    args: vec![("a".into(), n("2")), ("b".into(), n("0b1"))],
                },
                label: Some("E".into()),
            }
        );
        assert_eq!(
            got[1].command,
            Command::Packet {
                port: 3,
                bytes: vec![0, 10, 255]
            }
        );
        assert_eq!(
            got[2].command,
            Command::Expect {
                port: 4,
                nibbles: Some(vec![Some(0), None, Some(15), Some(15)]),
                exact: true,
            }
        );
        assert_eq!(parse("packet 1 0").unwrap_err().0, 1);
        assert_eq!(
            parse("\n\nfoo").unwrap_err(),
            (3, "unknown command \"foo\"".into())
        );
    }
}
