//! The STF language, and bmv2's shell commands: one command a line.

use super::matching::{port, small};
use super::shell;
use super::tokens::Tokens;

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

/// Which of a counter's values is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cell {
    /// That of the entry with this label.
    Label(String),
    /// That with this index; of a direct counter, of the entry with this handle.
    Index(u32),
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
        cell: Cell,
        bytes: bool,
        check: Option<(Comparison, u64)>,
    },
    /// A command of bmv2's own shell.
    Direct(String, Vec<String>),
}

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
        "remove" => Err(format!(
            "{rest:?} cannot be removed alone: STF has only \"remove all\", which takes out \
             every entry that the lines before have added"
        )),
        "check_counter" => check_counter(rest),
        other => {
            let usage = shell::usage(other).ok_or_else(|| format!("unknown command {other:?}"))?;
            let words: Vec<_> = rest.split_whitespace().map(str::to_owned).collect();
            usage.check(words.len())?;
            Ok(Command::Direct(word, words))
        }
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
    let first = words.next().ok_or("the port is missing")?;
    // Data begins with digits too; so a port is decimal.
    if !first.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!(
            "{first:?} is not a port, which is a decimal number"
        ));
    }
    Ok((port(first)?, words.collect()))
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
                Some(label(&t.word()?))
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

/// A label's name, with or without the `$` that refers to it.
fn label(text: &str) -> String {
    text.strip_prefix('$').unwrap_or(text).to_owned()
}

fn check_counter(rest: &str) -> Result<Command, String> {
    let mut t = Tokens::new(rest)?;
    let counter = t.name()?;
    t.exactly("(")?;
    let cell = t.word()?;
    let cell = if cell.starts_with(|c: char| c.is_ascii_digit()) {
        Cell::Index(small(&cell)?)
    } else {
        Cell::Label(label(&cell))
    };
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
        check = Some((comparison, small(&t.word()?)?));
    }
    t.end()?;
    Ok(Command::CheckCounter {
        counter,
        cell,
        bytes,
        check,
    })
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
        assert_eq!(
            got[5].command,
            Command::CheckCounter {
                counter: "c".into(),
                cell: Cell::Label("E".into()),
                bytes: false,
                check: Some((Comparison::Eq, 2)),
            }
        );
        assert_eq!(parse("packet 1 0").unwrap_err().0, 1);
        assert_eq!(
            parse("\n\nfoo").unwrap_err(),
            (3, "unknown command \"foo\"".into())
        );
    }
    #[test]
    fn a_label_is_referred_to_with_or_without_a_dollar_sign() {
        for (text, wanted) in [
            ("check_counter c($E)", Cell::Label("E".into())),
            ("check_counter c(E)", Cell::Label("E".into())),
            ("check_counter c(7)", Cell::Index(7)),
            ("check_counter c(0x10)", Cell::Index(16)),
            ("check_counter c(0b101)", Cell::Index(5)),
        ] {
            let got = parse(text).unwrap().remove(0).command;
            assert!(
                matches!(&got, Command::CheckCounter { cell, .. } if *cell == wanted),
                "{got:?}"
            );
        }
    }

    #[test]
    fn numbers_have_any_base() {
        for (text, wanted) in [("17", 17), ("0x11", 17), ("0X11", 17), ("0b10001", 17)] {
            let got = parse(&format!("check_counter c(1) bytes >= {text}")).unwrap();
            assert!(
                matches!(
                    got[0].command,
                    Command::CheckCounter {
                        check: Some((Comparison::Ge, n)),
                        ..
                    } if n == wanted
                ),
                "{got:?}"
            );
            let got = parse(&format!("add t k:0x0a/{text} a()")).unwrap();
            let Command::Add { matches, .. } = &got[0].command else {
                panic!("{got:?}");
            };
            let value = Number("0x0a".into());
            assert_eq!(matches[0].1, Match::Prefix(value, 17));
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, wanted) in [
            ("packet 512 00", "\"512\" is not a port: ports are 0 to 511"),
            (
                "expect 70000",
                "\"70000\" is not a port: ports are 0 to 511",
            ),
            (
                "packet 0x1 00",
                "\"0x1\" is not a port, which is a decimal number",
            ),
            ("expect", "the port is missing"),
            (
                "remove tex",
                "\"tex\" cannot be removed alone: STF has only \"remove all\", which takes out \
                 every entry that the lines before have added",
            ),
            ("mc_node_associate 1", "write mc_node_associate GROUP NODE"),
            ("register_reset r 1", "write register_reset REGISTER"),
        ] {
            assert_eq!(parse(text).unwrap_err(), (1, wanted.to_owned()), "{text}");
        }
    }
}
