//! Constants and enums, read from the P4 sources.
//!
//! No P4 front end: only the two forms that constants.p4 and types.p4 promise
//! to keep to, `const bit<W> NAME = VALUE;` on one line and
//! `enum bit<8> NAME { MEMBER = VALUE, … }` with a member a line. A comment
//! right above becomes the documentation. For the same reason
//! [`typed_values`] looks for the parameters of actions and the fields of
//! controller headers: P4Info tells their width, but not that they are of an
//! enum.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};

/// A `const` declaration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Constant {
    /// As in P4.
    pub name: String,
    /// In bits.
    pub width: u32,
    /// Its value.
    pub value: u64,
    /// The digits as written, so that a hexadecimal stays one.
    pub literal: String,
    /// The comment above it, a line an element.
    pub doc: Vec<String>,
}

/// A serialisable `enum` declaration of eight bits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enumeration {
    /// As in P4.
    pub name: String,
    /// The comment above it.
    pub doc: Vec<String>,
    /// In the order of declaration.
    pub members: Vec<Member>,
}

/// A member of an enum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// As in P4.
    pub name: String,
    /// Its value.
    pub value: u8,
    /// The comment above it.
    pub doc: Vec<String>,
}

/// The comment lines met since the last line that was none.
#[derive(Default)]
struct Comment(Vec<String>);

impl Comment {
    /// Takes the line if it is a comment.
    fn absorbs(&mut self, line: &str) -> bool {
        let Some(text) = line.strip_prefix("//") else {
            return false;
        };
        // A "// ---- Title" line heads a section and documents nothing.
        if text.starts_with(" ----") {
            self.0.clear();
        } else {
            self.0.push(text.trim().to_owned());
        }
        true
    }

    fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.0)
    }
}

/// All constants of a source file.
///
/// # Errors
/// When a declaration is not of the promised form.
pub fn constants(text: &str) -> Result<Vec<Constant>> {
    let mut found = Vec::new();
    let mut comment = Comment::default();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if comment.absorbs(line) {
            continue;
        }
        let doc = comment.take();
        if line.starts_with("const ") {
            let constant = constant(line, doc).with_context(|| {
                format!(
                    "line {}: not `const bit<W> NAME = VALUE;`: {line}",
                    number + 1
                )
            })?;
            found.push(constant);
        }
    }
    Ok(found)
}

fn constant(line: &str, doc: Vec<String>) -> Result<Constant> {
    let rest = line.strip_prefix("const bit<").context("no bit<> type")?;
    let (width, rest) = rest.split_once('>').context("no end of the type")?;
    let (name, rest) = rest.split_once('=').context("no value")?;
    let literal = rest.strip_suffix(';').context("no semicolon")?.trim();
    Ok(Constant {
        name: name.trim().to_owned(),
        width: width.parse().context("the width is no number")?,
        value: integer(literal)?,
        literal: literal.to_owned(),
        doc,
    })
}

/// All enums of a source file.
///
/// # Errors
/// When a declaration is not of the promised form.
pub fn enumerations(text: &str) -> Result<Vec<Enumeration>> {
    let mut found: Vec<Enumeration> = Vec::new();
    let mut comment = Comment::default();
    let mut inside = false;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if comment.absorbs(line) {
            continue;
        }
        let doc = comment.take();
        if let Some(rest) = line.strip_prefix("enum ") {
            let name = rest
                .strip_prefix("bit<8> ")
                .and_then(|rest| rest.strip_suffix('{'))
                .with_context(|| format!("line {}: not `enum bit<8> NAME {{`", number + 1))?;
            inside = true;
            found.push(Enumeration {
                name: name.trim().to_owned(),
                doc,
                members: Vec::new(),
            });
        } else if line == "}" {
            inside = false;
        } else if inside && let Some(current) = found.last_mut() {
            let (name, value) = line
                .trim_end_matches(',')
                .split_once('=')
                .with_context(|| format!("line {}: not `MEMBER = VALUE`", number + 1))?;
            let value = integer(value.trim())?;
            current.members.push(Member {
                name: name.trim().to_owned(),
                value: u8::try_from(value).with_context(|| {
                    format!("line {}: {value} needs more than 8 bits", number + 1)
                })?,
                doc,
            });
        }
    }
    Ok(found)
}

/// The P4 type of each parameter of an action and each field of a controller
/// header, by the name of the action or header and its own.
pub fn typed_values(text: &str) -> BTreeMap<(String, String), String> {
    let mut found = BTreeMap::new();
    let code: String = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .flat_map(|line| [line, "\n"])
        .collect();
    let mut add = |owner: &str, declarations: &str, separator: char| {
        for declaration in declarations.split(separator) {
            if let [.., ty, name] = declaration.split_whitespace().collect::<Vec<_>>()[..] {
                found.insert((owner.to_owned(), name.to_owned()), ty.to_owned());
            }
        }
    };
    for block in code.split("action ").skip(1) {
        if let Some((name, rest)) = block.split_once('(')
            && let Some((params, _)) = rest.split_once(')')
        {
            add(name.trim(), params, ',');
        }
    }
    for block in code.split("@controller_header(\"").skip(1) {
        if let Some((name, rest)) = block.split_once('"')
            && let Some((_, rest)) = rest.split_once('{')
            && let Some((fields, _)) = rest.split_once('}')
        {
            add(name, fields, ';');
        }
    }
    found
}

fn integer(literal: &str) -> Result<u64> {
    let parsed = match literal.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => literal.parse(),
    };
    match parsed {
        Ok(value) => Ok(value),
        Err(_) => bail!("{literal} is no number"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_constants_with_their_comments() {
        let text = "// ---- Ports\n// A port.\n// Two lines.\nconst bit<9> CPU_PORT = 510;\n\n\
                    #define X 1\nconst bit<16> BASE = 0xC000;\n";
        let found = constants(text).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].name, "CPU_PORT");
        assert_eq!((found[0].width, found[0].value), (9, 510));
        assert_eq!(found[0].doc, ["A port.", "Two lines."]);
        assert_eq!(
            (found[1].value, found[1].literal.as_str()),
            (0xC000, "0xC000")
        );
        assert!(found[1].doc.is_empty());
    }

    #[test]
    fn refuses_constants_of_another_form() {
        for line in [
            "const int N = 1;",
            "const bit<8> N = 1",
            "const bit<8> N = M;",
        ] {
            let error = constants(line).unwrap_err();
            assert!(error.to_string().contains("line 1"), "{error}");
        }
    }

    #[test]
    fn reads_enums_with_their_comments() {
        let text =
            "// Why.\nenum bit<8> Reason {\n    // Nothing.\n    NONE = 0,\n    ARP = 7\n}\n";
        let found = enumerations(text).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].name, "Reason");
        assert_eq!(found[0].doc, ["Why."]);
        assert_eq!(found[0].members[0].doc, ["Nothing."]);
        assert_eq!(
            (found[0].members[1].name.as_str(), found[0].members[1].value),
            ("ARP", 7)
        );
        assert!(enumerations("enum Reason {\n}\n").is_err());
        assert!(enumerations("enum bit<8> R {\n A = 256\n}\n").is_err());
    }

    #[test]
    fn finds_the_types_of_parameters_and_header_fields() {
        let text = "@controller_header(\"packet_in\")\nheader p_t {\n    bit<16> port;\n    // Why.\n\
                    Reason reason;\n}\n    action set(Role role, // who\n        mac_t mac) { x = y; }\n\
                    action none() { }\n";
        let found = typed_values(text);
        let of = |owner: &str, name: &str| {
            found
                .get(&(owner.to_owned(), name.to_owned()))
                .map(String::as_str)
        };
        assert_eq!(of("packet_in", "port"), Some("bit<16>"));
        assert_eq!(of("packet_in", "reason"), Some("Reason"));
        assert_eq!(of("set", "role"), Some("Role"));
        assert_eq!(of("set", "mac"), Some("mac_t"));
        assert_eq!(found.len(), 4);
    }
}
