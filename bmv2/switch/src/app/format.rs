//! Tells the formats of entries files apart.

/// What a file of entries looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// Commands and STF lines.
    Lines,
    /// A `p4.v1.WriteRequest` in protobuf text format.
    WriteRequest,
    /// Something that holds no entries for the switch, in words.
    Other(&'static str),
}

/// What may be given, for messages.
pub(super) const UNDERSTOOD: &str = "Understood are commands of simple_switch_CLI (table_add …), \
    STF lines (add …) and a p4.v1.WriteRequest in protobuf text format (updates { … })";

/// Fields of a `p4.v1.WriteRequest`.
const WRITE_REQUEST: [&str; 6] = [
    "updates",
    "device_id",
    "role",
    "role_id",
    "election_id",
    "atomicity",
];

/// Fields of a `p4.config.v1.P4Info`.
const P4INFO: [&str; 14] = [
    "pkg_info",
    "tables",
    "actions",
    "action_profiles",
    "counters",
    "direct_counters",
    "meters",
    "direct_meters",
    "controller_packet_metadata",
    "value_sets",
    "registers",
    "digests",
    "externs",
    "type_info",
];

impl Format {
    /// By the first line that is no comment.
    pub(super) fn of(text: &str) -> Self {
        let mut lines = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        let Some(line) = lines.next() else {
            return Self::Lines;
        };
        if line.starts_with(['{', '[']) {
            return Self::Other(match text {
                _ if text.contains("\"table_entries\"") => {
                    "JSON for the P4Runtime controller of the P4 tutorials"
                }
                _ if text.contains("\"header_types\"") => "the JSON of a compiled program",
                _ => "JSON",
            });
        }
        let end = line.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let (word, rest) = line.split_at(end.unwrap_or(line.len()));
        // A line of the other formats goes on with a name.
        let next = rest.trim_start().chars().next();
        let next = next.or_else(|| lines.next().and_then(|line| line.chars().next()));
        if word.is_empty() || !matches!(next, Some('{' | ':' | '<' | '[')) {
            return match WRITE_REQUEST.contains(&line) {
                true => Self::WriteRequest,
                false => Self::Lines,
            };
        }
        if WRITE_REQUEST.contains(&word) {
            Self::WriteRequest
        } else if P4INFO.contains(&word) {
            Self::Other("P4Info, which is given with --p4info")
        } else {
            Self::Other("another message in protobuf text format")
        }
    }
}

/// The lines at which the updates of a WriteRequest in text format begin. Not
/// those of a list in brackets.
pub(super) fn update_lines(text: &str) -> Vec<usize> {
    let (mut lines, mut line, mut depth) = (Vec::new(), 1, 0_usize);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let len = match c {
            '#' => rest.find('\n').unwrap_or(rest.len()),
            '"' | '\'' => quoted(rest, c),
            c if name(c) => rest.find(|c| !name(c)).unwrap_or(rest.len()),
            c => c.len_utf8(),
        };
        let (piece, after) = rest.split_at(len);
        match piece {
            "{" | "<" | "[" => depth += 1,
            "}" | ">" | "]" => depth = depth.saturating_sub(1),
            "updates" if depth == 0 => lines.push(line),
            _ => line += piece.matches('\n').count(),
        }
        rest = after;
    }
    lines
}

/// Bytes of the string that begins here, quotation marks included.
fn quoted(text: &str, mark: char) -> usize {
    let mut escaped = true;
    for (at, c) in text.char_indices() {
        // The first mark, too, ends nothing.
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == mark => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_told_apart() {
        for text in [
            "# x\n\nupdates {\n",
            "device_id: 1",
            "updates\n{",
            "updates",
        ] {
            assert_eq!(Format::of(text), Format::WriteRequest, "{text}");
        }
        for text in [
            "add t k:1 a()",
            "table_add t a 1 =>",
            "# updates {\n",
            "",
            "wait\n",
            "no_packet\n",
            "frobnicate\nadd t k:1 a()",
        ] {
            assert_eq!(Format::of(text), Format::Lines, "{text}");
        }
        for (text, wanted) in [
            ("{\n \"a\": 1 }", "JSON"),
            (
                "{\n \"target\": \"bmv2\", \"table_entries\": [] }",
                "JSON for the P4Runtime controller of the P4 tutorials",
            ),
            ("{ \"header_types\": [] }", "the JSON of a compiled program"),
            (
                "# proto-file: p4info.proto\npkg_info {\n",
                "P4Info, which is given with --p4info",
            ),
            ("entities { }", "another message in protobuf text format"),
        ] {
            assert_eq!(Format::of(text), Format::Other(wanted), "{text}");
        }
    }

    #[test]
    fn updates_have_lines() {
        let text = "# updates {\n\
            updates {\n  entity { updates: \"}\\\"\" }\n}\n\
            device_id: 1 updates < type: INSERT > # {\n\
            \n\
            updates\n{ x: '}' }";
        assert_eq!(update_lines(text), [2, 5, 7]);
        assert_eq!(update_lines("updates: \"not closed"), [1]);
        assert_eq!(update_lines(""), [0; 0]);
    }
}
