//! Entities as text, compared but for what is known to differ.

use super::CONSTANT;

/// An entity without ranges from 0 to the greatest number of some bits that are
/// not whole bytes.
pub(super) fn without_full(entity: &str) -> String {
    let mut kept = String::with_capacity(entity.len());
    let mut rest = entity;
    const FIELD: &str = "FieldMatch { field_id: ";
    while let Some(at) = rest.find(FIELD) {
        let (before, field) = rest.split_at(at);
        kept.push_str(before);
        let end = field.get(1..).and_then(|f| f.find(FIELD)).map(|n| n + 1);
        let end = end
            .or_else(|| field.find("], action"))
            .unwrap_or(field.len());
        let (this, after) = field.split_at(end);
        let high = this
            .split_once("Range(Range { low: [0], high: [")
            .and_then(|(_, high)| high.split_once(']'))
            .map(|(high, _)| high);
        let full = high.is_some_and(|bytes| {
            let mut bytes = bytes.split(", ");
            let first = bytes.next().and_then(|b| b.parse::<u8>().ok());
            first.is_some_and(|b| b < 0xff && (b & (b + 1)) == 0) && bytes.all(|b| b == "255")
        });
        if !full {
            kept.push_str(this);
        } else if !this.ends_with(", ") && kept.ends_with(", ") {
            kept.truncate(kept.len() - 2);
        }
        rest = after;
    }
    kept.push_str(rest);
    kept
}

/// Whether all of some entities, in canonical order, are among others.
pub(super) fn is_part(some: &[String], all: &[String]) -> bool {
    let mut rest = all.iter();
    some.iter().all(|e| rest.any(|other| other == e))
}

/// Those of some texts, in canonical order, that are not among others; each of
/// the others takes one away.
pub(super) fn without<'t>(some: &'t [String], others: &[String]) -> Vec<&'t String> {
    let mut others = others.to_vec();
    let mut rest = Vec::new();
    for text in some {
        match others.iter().position(|other| other == text) {
            Some(at) => {
                others.swap_remove(at);
            }
            None => rest.push(text),
        }
    }
    rest
}

/// Whether two groups are the same, but for members without a watched port of
/// their own, which in the second have that of another.
pub(super) fn watch_is_repeated(ours: &str, theirs: &str) -> bool {
    const WATCH: &str = "watch_kind: ";
    let parts = |entity: &str| -> Vec<(String, String)> {
        let mut rest = entity.split(WATCH);
        let mut parts = vec![(rest.next().unwrap_or("").to_owned(), String::new())];
        for part in rest {
            let (watch, after) = part.split_once(" }").unwrap_or((part, ""));
            parts.push((after.to_owned(), watch.to_owned()));
        }
        parts
    };
    let (ours, theirs) = (parts(ours), parts(theirs));
    ours.len() == theirs.len()
        && ours.iter().zip(&theirs).all(|((a, own), (b, watch))| {
            a == b
                && (own == watch
                    || theirs.iter().all(|(_, w)| w.is_empty() || w == watch)
                        && ours.iter().any(|(_, w)| w == watch))
        })
}

/// An entry without its priority, the value of its prefixes and the mark of
/// constant ones.
pub(super) fn without_numbers(entity: &str) -> String {
    let mut text = entity.replace(CONSTANT, "is_const: false");
    for (before, after) in [("priority: ", ","), ("Lpm { value: ", ", prefix_len")] {
        let mut rest = text.as_str();
        let mut cut = String::new();
        while let Some((left, right)) = rest.split_once(before) {
            cut.push_str(left);
            cut.push_str(before);
            rest = right.find(after).map_or(right, |end| &right[end..]);
        }
        cut.push_str(rest);
        text = cut;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_ranges_of_odd_fields_are_left_out() {
        let field = |id: u32, high: &str| {
            format!(
                "FieldMatch {{ field_id: {id}, field_match_type: Some(Range(Range {{ low: [0], \
                 high: [{high}] }})) }}"
            )
        };
        let entry = |fields: &[String]| format!("match: [{}], action: x", fields.join(", "));
        let (a, b, odd) = (field(1, "3, 4"), field(3, "255"), field(2, "1, 255"));
        let bare = entry(&[a.clone(), b.clone()]);
        for place in 0..3 {
            let mut fields = vec![a.clone(), b.clone()];
            fields.insert(place, odd.clone());
            assert_eq!(without_full(&entry(&fields)), bare, "{place}");
        }
        assert_eq!(without_full(&entry(&[odd])), entry(&[]));
        assert_eq!(without_full(&bare), bare);
    }

    #[test]
    fn one_watched_port_is_repeated() {
        let group = |watches: &[&str]| {
            let members = watches.iter().map(|w| format!("M {{ watch_kind: {w} }}"));
            format!("G {{ {} }}", members.collect::<Vec<_>>().join(", "))
        };
        let repeated = |a: &[&str], b: &[&str]| watch_is_repeated(&group(a), &group(b));
        assert!(repeated(&["None", "W([2])"], &["W([2])", "W([2])"]));
        assert!(repeated(&["W([2])", "None"], &["None", "None"]));
        assert!(!repeated(&["None", "W([2])"], &["W([3])", "W([3])"]));
        assert!(!repeated(&["W([1])", "W([2])"], &["W([2])", "W([1])"]));
        assert!(!repeated(&["W([1])"], &["W([1])", "W([1])"]));
    }
}
