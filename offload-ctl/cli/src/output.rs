//! Tables for people.

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use offload_api::v1;

/// A table with a header; columns named in `right` hold numbers.
pub(crate) fn table(header: &[&str], right: &[usize]) -> Table {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(header.iter().map(Cell::new));
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if right.contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Prints without spaces at the ends of lines.
pub(crate) fn print(table: &Table) {
    for line in table.to_string().lines() {
        println!("{}", line.trim_end());
    }
}

/// Writes a value as indented JSON.
pub(crate) fn print_json(value: &serde_json::Value) {
    println!("{value:#}");
}

/// 1234567 as 1,234,567.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Bytes with a binary unit.
pub(crate) fn bytes(number: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut unit = 0;
    let mut tenths = number.saturating_mul(10);
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    if unit == 0 {
        format!("{number} B")
    } else {
        format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
    }
}

/// Packets of totals that may be unknown.
pub(crate) fn packets(totals: Option<&v1::Totals>) -> String {
    totals.map_or_else(|| "?".to_owned(), |totals| thousands(totals.packets))
}

/// Totals as JSON.
pub(crate) fn json_totals(totals: Option<&v1::Totals>) -> serde_json::Value {
    match totals {
        None => serde_json::Value::Null,
        Some(totals) => serde_json::json!({"packets": totals.packets, "bytes": totals.bytes}),
    }
}

/// An API address as text.
pub(crate) fn address(address: u32) -> String {
    std::net::Ipv4Addr::from(address).to_string()
}

/// A protocol number as text.
pub(crate) fn protocol(number: u32) -> String {
    match number {
        6 => "tcp".to_owned(),
        17 => "udp".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_easy_to_read() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(999), "999");
        assert_eq!(thousands(1000), "1,000");
        assert_eq!(thousands(1_234_567), "1,234,567");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1024), "1.0 KiB");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(1 << 30), "1.0 GiB");
        assert_eq!(bytes(u64::MAX).split(' ').nth(1), Some("TiB"));
    }
}
