//! Numbers and tables as people read them.

use comfy_table::{Cell, CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};

/// Seconds with the digits that matter: `0.004 s`, `3.14 s`, `125 s`.
pub(crate) fn seconds(value: f64) -> String {
    if value >= 100.0 {
        format!("{value:.0} s")
    } else if value >= 1.0 {
        format!("{value:.2} s")
    } else {
        format!("{value:.3} s")
    }
}

/// A figure as `shown` writes it; a dash where nothing measured it.
pub(crate) fn known(value: Option<f64>, shown: impl Fn(f64) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), shown)
}

/// An age in the largest unit that it fills once: `1 minute`, `3 days`.
pub(crate) fn age(seconds: f64) -> String {
    const UNITS: [(f64, &str); 4] =
        [(86_400.0, "day"), (3_600.0, "hour"), (60.0, "minute"), (1.0, "second")];
    let (unit, name) = UNITS.into_iter().find(|(unit, _)| seconds >= *unit).unwrap_or(UNITS[3]);
    let whole = (seconds / unit).floor();
    format!("{whole} {name}{}", if whole == 1.0 { "" } else { "s" })
}

/// A rate in bytes per second with its customary prefix.
pub(crate) fn rate(bytes_per_second: f64) -> String {
    memweir_core::BytesPerSec(bytes_per_second).to_string()
}

/// A count with groups of three digits: `12,345,678`.
pub(crate) fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A number of things, with `noun` in the plural unless there is one: `1 channel`, `2 channels`.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    let plural = match number {
        1 => "",
        _ if noun.ends_with('s') => "es",
        _ => "s",
    };
    format!("{} {noun}{plural}", count(number))
}

/// At most `room` characters of a text, with a mark where it was cut.
pub(crate) fn shortened(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    text.chars().take(room.saturating_sub(1)).chain(['…']).collect()
}

/// A percentage with one decimal.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Alignment of a column's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    /// Names.
    Left,
    /// Numbers.
    Right,
}

/// Columns of the terminal that standard output is, if it is one.
pub(crate) fn terminal_width() -> Option<usize> {
    Table::new().width().map(usize::from)
}

/// Width of a table with these columns and rows if nothing in it is wrapped.
pub(crate) fn natural_width(heads: &[&str], rows: &[Vec<String>]) -> usize {
    let width = |text: &str| text.chars().count();
    heads
        .iter()
        .enumerate()
        .map(|(column, head)| {
            let cells = rows.iter().map(|row| width(&row[column]));
            cells.fold(width(head), usize::max) + COLUMN_GAP
        })
        .sum()
}

/// Spaces around the text of a column.
const COLUMN_GAP: usize = 3;

/// A table with a rule under its head, as wide as the terminal allows, plain when piped.
pub(crate) fn table(columns: &[(&str, Align)], rows: Vec<Vec<String>>) -> String {
    let alignment = |align: Align| match align {
        Align::Left => CellAlignment::Left,
        Align::Right => CellAlignment::Right,
    };
    let mut table = Table::new();
    let rule = LineStyle::none().fill('─').junction('─');
    table
        .load_style(TableStyle::new().header_separator(rule))
        .set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(
        columns.iter().map(|(name, align)| Cell::new(name).set_alignment(alignment(*align))),
    );
    for row in rows {
        table.add_row(
            row.into_iter()
                .zip(columns)
                .map(|(text, (_, align))| Cell::new(text).set_alignment(alignment(*align))),
        );
    }
    table.trim_fmt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_matter() {
        assert_eq!(seconds(0.0042), "0.004 s");
        assert_eq!(seconds(15.678), "15.68 s");
        assert_eq!(seconds(125.4), "125 s");
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(12_345_678), "12,345,678");
        assert_eq!(shortened("abcdef", 4), "abc…");
        assert_eq!(shortened("abcd", 4), "abcd");
        assert_eq!(percent(0.0345), "3.5 %");
    }

    #[test]
    fn a_table_is_as_wide_as_it_says() {
        let columns = [("job", Align::Left), ("quanta", Align::Right)];
        let rows = vec![vec!["a".into(), "7".into()], vec!["bbbb".into(), "12345678".into()]];
        let natural = natural_width(&columns.map(|(head, _)| head), &rows);
        let longest = table(&columns, rows).lines().map(|line| line.chars().count()).max();
        assert!(longest.is_some_and(|longest| longest <= natural), "{longest:?} {natural}");
    }

    #[test]
    fn a_table_aligns_names_left_and_numbers_right() {
        let text = table(
            &[("job", Align::Left), ("quanta", Align::Right)],
            vec![vec!["a".into(), "7".into()], vec!["bb".into(), "123".into()]],
        );
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        assert_eq!(
            lines,
            vec![" job   quanta", "──────────────", " a          7", " bb       123"]
        );
    }
}
