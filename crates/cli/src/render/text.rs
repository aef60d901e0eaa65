//! Numbers and tables as people read them.

use std::fmt;

use comfy_table::{
    Cell, CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, TableStyle, Width,
};
use memweir_core::words::plural;
use ratatui::text::Span;

/// Seconds with the digits that matter: `4.200 ms`, `0.042 s`, `3.14 s`, `125 s`.
pub(crate) fn seconds(value: f64) -> String {
    if value >= 100.0 {
        format!("{value:.0} s")
    } else if value >= 1.0 {
        format!("{value:.2} s")
    } else if value >= 0.01 || value <= 0.0 {
        format!("{value:.3} s")
    } else {
        format!("{:.3} ms", value * 1e3)
    }
}

/// Nanoseconds in the unit in which they have one to four digits before the point, and `decimals`
/// behind it: `1300 ns`, `131 us`, `25 ms`.
pub(crate) fn time(nanos: f64, decimals: usize) -> String {
    const UNITS: [(f64, &str); 4] = [(1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")];
    let (unit, name) = UNITS.into_iter().find(|(unit, _)| nanos >= 10.0 * unit).unwrap_or(UNITS[3]);
    format!("{:.decimals$} {name}", nanos / unit)
}

/// A figure as `shown` writes it; a dash where nothing measured it.
pub(crate) fn known<T>(value: Option<T>, shown: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), shown)
}

/// An age in the largest unit that it fills once: `1 minute`, `3 days`.
pub(crate) fn age(seconds: f64) -> String {
    const UNITS: [(f64, &str); 4] =
        [(86_400.0, "day"), (3_600.0, "hour"), (60.0, "minute"), (1.0, "second")];
    let (unit, name) = UNITS.into_iter().find(|(unit, _)| seconds >= *unit).unwrap_or(UNITS[3]);
    let whole = (seconds / unit).floor();
    format!("{whole} {}", plural(whole as u64, name))
}

/// A rate in bytes per second with its customary prefix.
pub(crate) fn rate(bytes_per_second: f64) -> String {
    memweir_core::BytesPerSec(bytes_per_second).to_string()
}

/// A count with groups of three digits: `12,345,678`.
pub(crate) fn count(value: u64) -> String {
    indicatif::HumanCount(value).to_string()
}

/// A number of things, with `noun` in the plural unless there is one: `1 channel`, `2 channels`.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    format!("{} {}", count(number), plural(number, noun))
}

/// Returns the columns of the terminal that a text takes: letters of some scripts take two.
pub(crate) fn width_of(text: &str) -> usize {
    Span::raw(text).width()
}

/// A text in at most `room` columns, with a mark where it was cut.
pub(crate) fn shortened(text: &str, room: usize) -> String {
    if width_of(text) <= room {
        return text.to_owned();
    }
    let mut taken = 0;
    let fits = |letter: &char| {
        taken += width_of(letter.encode_utf8(&mut [0; 4]));
        taken < room
    };
    text.chars().take_while(fits).chain(['…']).collect()
}

/// A text in exactly `room` columns, cut or with spaces behind it.
pub(crate) fn padded(text: &str, room: usize) -> String {
    let shown = shortened(text, room);
    let gap = room.saturating_sub(width_of(&shown));
    shown + &" ".repeat(gap)
}

/// Names in `width` columns and their values, one a line.
pub(crate) fn properties<'a>(
    rows: impl IntoIterator<Item = (&'a str, String)>,
    width: usize,
) -> String {
    rows.into_iter().map(|(name, value)| format!("{name:<width$} {value}\n")).collect()
}

/// The heading of a confidence interval, as `95 % interval`, with as many decimals as `level` needs
/// up to three.
pub(crate) fn interval(level: f64) -> String {
    format!("{} % interval", (level * 1e5).round() / 1e3)
}

/// A percentage with one decimal.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// A table with a rule under its head, plain when piped. Its columns are added from left to right.
/// One that is wider than the terminal breaks names between words; numbers and words stay whole,
/// even if the table is too wide then.
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

/// Columns of the terminal around the text of a column of a table.
const GAP: usize = 3;

impl Column {
    /// Returns its width if nothing in it is wrapped.
    fn width(&self) -> usize {
        let texts = self.cells.iter().chain([&self.head]);
        texts.map(|text| width_of(text)).max().unwrap_or(0) + GAP
    }

    /// Returns its width if all that may be wrapped is: the head, and names.
    fn least_width(&self) -> usize {
        let word = |text: &String| text.split(' ').map(width_of).max().unwrap_or(0);
        let cell = |text: &String| match self.alignment {
            CellAlignment::Right => width_of(text),
            _ => word(text),
        };
        self.cells.iter().map(cell).max().unwrap_or(0).max(word(&self.head)) + GAP
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

    /// Adds a column for each key of a sweep; `at` returns the keys and values of a row.
    pub(crate) fn swept(
        self,
        keys: &[(String, String)],
        at: impl Fn(&T) -> &[(String, String)],
    ) -> Self {
        keys.iter()
            .enumerate()
            .fold(self, |table, (place, (key, _))| table.right(key, |row| at(row)[place].1.clone()))
    }

    fn column<D: ToString>(
        mut self,
        head: String,
        alignment: CellAlignment,
        cell: impl Fn(&T) -> D,
    ) -> Self {
        // Names of others, such as of control groups, may have any character.
        let shown = |row: &T| cell(row).to_string().replace(char::is_control, " ");
        let cells = self.rows.iter().map(shown).collect();
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

    /// Returns the widths of the columns in a table that fits into `room` if words allow it: the
    /// widest columns give way.
    fn widths(&self, room: usize) -> Vec<usize> {
        let mut widths: Vec<usize> = self.columns.iter().map(Column::width).collect();
        let least: Vec<usize> = self.columns.iter().map(Column::least_width).collect();
        // No gap follows the last column.
        while widths.iter().sum::<usize>() > room + 1 {
            let wide = (0..widths.len()).filter(|index| widths[*index] > least[*index]);
            let Some(widest) = wide.max_by_key(|index| widths[*index]) else { break };
            widths[widest] -= 1;
        }
        widths
    }

    /// Removes expendable columns until the others fit into `room`.
    pub(crate) fn within(mut self, room: Option<usize>) -> Self {
        let columns = &mut self.columns;
        // No gap follows the last column.
        while room.is_some_and(|room| columns.iter().map(Column::width).sum::<usize>() > room + 1) {
            let next = (0..columns.len()).max_by_key(|index| columns[*index].expendable);
            match next.filter(|index| columns[*index].expendable > 0) {
                Some(index) => drop(columns.remove(index)),
                None => break,
            }
        }
        self
    }

    /// Returns the table in `room` columns, as far as its words allow.
    fn drawn(&self, room: Option<usize>) -> String {
        let cell = |column: &Column, text: &String| Cell::new(text).set_alignment(column.alignment);
        let rule = LineStyle::none().fill('─').junction('─');
        let mut drawn = comfy_table::Table::new();
        drawn
            .load_style(TableStyle::new().header_separator(rule))
            .set_content_arrangement(ContentArrangement::Disabled)
            .set_header(self.columns.iter().map(|column| cell(column, &column.head)));
        for row in 0..self.rows.len() {
            drawn.add_row(self.columns.iter().map(|column| cell(column, &column.cells[row])));
        }
        let widths = room.map_or_else(Vec::new, |room| self.widths(room));
        for (index, (column, width)) in self.columns.iter().zip(widths).enumerate() {
            // Of the gap, one is the border, which a constraint does not include.
            if let (true, Some(drawn)) = (width < column.width(), drawn.column_mut(index)) {
                let width = Width::Fixed(u16::try_from(width - 1).unwrap_or(u16::MAX));
                drawn.set_constraint(ColumnConstraint::Absolute(width));
            }
        }
        drawn.trim_fmt()
    }
}

impl<T> fmt::Display for Table<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.drawn(terminal_width()))
    }
}

/// Columns of the terminal that standard output is, if it is one and knows them: a terminal that
/// does not has 0.
pub(crate) fn terminal_width() -> Option<usize> {
    comfy_table::Table::new().width().map(usize::from).filter(|width| *width > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_matter() {
        assert_eq!([0.0042, 0.042, 0.0].map(seconds), ["4.200 ms", "0.042 s", "0.000 s"]);
        assert_eq!(seconds(15.678), "15.68 s");
        assert_eq!(seconds(125.4), "125 s");
        assert_eq!(
            [9999.0, 131_072.0, 25e6].map(|nanos| time(nanos, 0)),
            ["9999 ns", "131 us", "25 ms"]
        );
        assert_eq!(
            [32.487, 25e3, 2.5e10].map(|nanos| time(nanos, 1)),
            ["32.5 ns", "25.0 us", "25.0 s"]
        );
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(12_345_678), "12,345,678");
        assert_eq!(shortened("abcdef", 4), "abc…");
        assert_eq!(shortened("abcd", 4), "abcd");
        assert_eq!(percent(0.0345), "3.5 %");
    }

    #[test]
    fn a_narrow_table_breaks_between_words_alone() {
        let rows = [("18f883605e", "sort --parallel 2 a", "18.3 GB/s"), ("1", "cat", "1 MB/s")];
        let table = Table::of(rows)
            .left("key", |row| row.0)
            .left("command line", |row| row.1)
            .right("mean bandwidth", |row| row.2);
        let lines = |room| -> Vec<String> {
            table.drawn(room).lines().map(|line| line.trim_end().to_owned()).collect()
        };
        let whole = [
            " key          command line          mean bandwidth",
            "───────────────────────────────────────────────────",
            " 18f883605e   sort --parallel 2 a        18.3 GB/s",
            " 1            cat                           1 MB/s",
        ];
        assert_eq!(lines(None), whole);
        assert_eq!(lines(Some(51)), whole);
        let least = [
            " key          command           mean",
            "              line         bandwidth",
            "─────────────────────────────────────",
            " 18f883605e   sort         18.3 GB/s",
            "              --parallel",
            "              2 a",
            " 1            cat             1 MB/s",
        ];
        assert_eq!(lines(Some(37)), least);
        assert_eq!(lines(Some(1)), least);
    }

    #[test]
    fn a_cell_controls_no_terminal() {
        let table = Table::of(["a\x1b[31m\nb"]).left("name", |row| *row);
        assert_eq!(table.drawn(None).lines().last().map(str::trim), Some("a [31m b"));
    }

    #[test]
    fn a_column_that_just_fits_stays() {
        // 3 and 6 letters with a gap of 3 behind the first, and a space before each row.
        let of = |room| {
            let table = Table::of([("abc", 7)]).left("job", |row| row.0);
            let table = table.right("quanta", |row| row.1).expendable(1);
            table.within(Some(room)).columns.len()
        };
        assert_eq!([of(14), of(13)], [2, 1]);
    }

    #[test]
    fn letters_of_two_columns_are_counted_so() {
        assert_eq!(width_of("日本語"), 6);
        assert_eq!(shortened("日本語", 6), "日本語");
        assert_eq!(shortened("日本語", 5), "日本…");
        assert_eq!(shortened("日本語", 4), "日…");
        assert_eq!(padded("日本語", 4), "日… ");
        let table = Table::of(["日本語 日本語"]).left("job", |row| *row).right("quanta", |_| 12);
        let text = table.drawn(Some(18));
        assert!(text.lines().all(|line| width_of(line) <= 18), "{text}");
        assert_eq!(text.matches("日本語").count(), 2, "{text}");
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

    #[test]
    fn an_interval_has_the_level_that_was_asked_for() {
        assert_eq!(interval(0.95), "95 % interval");
        assert_eq!(interval(0.999), "99.9 % interval");
    }
}
