//! Numbers and tables as people read them.

use std::fmt;

use comfy_table::{Cell, CellAlignment, ContentArrangement, LineStyle, TableStyle};

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

/// A table with a rule under its head, as wide as the terminal allows, plain when piped. Its
/// columns are added from left to right.
pub(crate) struct Table<T> {
    rows: Vec<T>,
    columns: Vec<Column>,
}

struct Column {
    head: String,
    alignment: CellAlignment,
    cells: Vec<String>,
    /// Order of removal from a table that is too wide: the highest first, those of 0 never.
    expendable: u8,
}

impl Column {
    /// Returns its width if nothing in it is wrapped.
    fn width(&self) -> usize {
        const GAP: usize = 3;
        let width = |text: &String| text.chars().count();
        self.cells.iter().chain([&self.head]).map(width).max().unwrap_or(0) + GAP
    }
}

impl<T> Table<T> {
    /// A table of these rows, without columns.
    pub(crate) fn of(rows: impl IntoIterator<Item = T>) -> Self {
        Self { rows: rows.into_iter().collect(), columns: Vec::new() }
    }

    /// Adds a column of names.
    pub(crate) fn left<D: ToString>(self, head: impl Into<String>, cell: impl Fn(&T) -> D) -> Self {
        self.column(head.into(), CellAlignment::Left, cell)
    }

    /// Adds a column of numbers.
    pub(crate) fn right<D: ToString>(
        self,
        head: impl Into<String>,
        cell: impl Fn(&T) -> D,
    ) -> Self {
        self.column(head.into(), CellAlignment::Right, cell)
    }

    fn column<D: ToString>(
        mut self,
        head: String,
        alignment: CellAlignment,
        cell: impl Fn(&T) -> D,
    ) -> Self {
        let cells = self.rows.iter().map(|row| cell(row).to_string()).collect();
        self.columns.push(Column { head, alignment, cells, expendable: 0 });
        self
    }

    /// Lets a table that is too wide do without the last column. Those of a higher `order` go
    /// first.
    pub(crate) fn expendable(mut self, order: u8) -> Self {
        if let Some(last) = self.columns.last_mut() {
            last.expendable = order;
        }
        self
    }

    /// Removes expendable columns until the others fit into `room`.
    pub(crate) fn within(mut self, room: Option<usize>) -> Self {
        let columns = &mut self.columns;
        while room.is_some_and(|room| columns.iter().map(Column::width).sum::<usize>() > room) {
            let next = (0..columns.len()).max_by_key(|index| columns[*index].expendable);
            match next.filter(|index| columns[*index].expendable > 0) {
                Some(index) => drop(columns.remove(index)),
                None => break,
            }
        }
        self
    }
}

impl<T> fmt::Display for Table<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cell = |column: &Column, text: &String| Cell::new(text).set_alignment(column.alignment);
        let rule = LineStyle::none().fill('─').junction('─');
        let mut drawn = comfy_table::Table::new();
        drawn
            .load_style(TableStyle::new().header_separator(rule))
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_header(self.columns.iter().map(|column| cell(column, &column.head)));
        for row in 0..self.rows.len() {
            drawn.add_row(self.columns.iter().map(|column| cell(column, &column.cells[row])));
        }
        f.write_str(&drawn.trim_fmt())
    }
}

/// Columns of the terminal that standard output is, if it is one.
pub(crate) fn terminal_width() -> Option<usize> {
    comfy_table::Table::new().width().map(usize::from)
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
        let table = Table::of([("a", 7), ("bbbb", 12_345_678)])
            .left("job", |row| row.0)
            .right("quanta", |row| row.1);
        let natural = table.columns.iter().map(Column::width).sum();
        let longest = table.to_string().lines().map(|line| line.chars().count()).max();
        assert!(longest.is_some_and(|longest| longest <= natural), "{longest:?} {natural}");
    }

    #[test]
    fn a_table_aligns_names_left_and_numbers_right() {
        let rows = [("a", 7), ("bb", 123)];
        let table = Table::of(rows).left("job", |row| row.0).right("quanta", |row| row.1);
        let text = table.to_string();
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        assert_eq!(
            lines,
            vec![" job   quanta", "──────────────", " a          7", " bb       123"]
        );
    }
}
