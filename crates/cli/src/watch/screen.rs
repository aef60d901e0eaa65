//! Showing a watch: a table that redraws itself on a terminal, JSON lines elsewhere.

use std::collections::VecDeque;
use std::io::{self, IsTerminal};

use memweir_linux::tell;
use memweir_watch::Row;
use serde::Serialize;
use terminal_size::terminal_size;

use crate::failure::Failure;
use crate::output::{self, Reader};
use crate::render::text::width_of;
use crate::render::watch::table;
use crate::shared::subjects::busiest_first;

/// Moves the cursor to the first line and clears what follows.
const REDRAW: &str = "\x1b[H\x1b[J";

/// Notes below the table.
const MOST_NOTES: usize = 4;

/// Standard output of a watch.
pub(super) struct Screen {
    is_terminal: bool,
    top: Option<usize>,
    notes: VecDeque<String>,
}

/// A line of JSON.
#[derive(Serialize)]
struct Line<'a> {
    /// End of the interval, in seconds since 1970 (UTC).
    unix_s: f64,
    #[serde(flatten)]
    row: &'a Row,
}

impl Screen {
    /// Shows at most `top` rows, or all.
    pub(super) fn new(top: Option<u32>) -> Self {
        let is_terminal = io::stdout().is_terminal();
        Self { is_terminal, top: top.map(|top| top as usize), notes: VecDeque::new() }
    }

    /// Shows a note, once.
    pub(super) fn note(&mut self, text: &str) {
        // The name of a control group may have any character.
        let text = text.replace(char::is_control, " ");
        if self.notes.contains(&text) {
            return;
        }
        if !self.is_terminal {
            tell!("{text}");
        }
        self.notes.push_back(text);
        if self.notes.len() > MOST_NOTES {
            self.notes.pop_front();
        }
    }

    /// Shows the rows of an interval. `subjects` are watched now.
    pub(super) fn show(
        &self,
        unix_s: f64,
        mut rows: Vec<Row>,
        subjects: usize,
    ) -> Result<Reader, Failure> {
        busiest_first(&mut rows);
        rows.truncate(self.top.unwrap_or(usize::MAX));
        let text = match self.is_terminal {
            true => self.drawn(&rows, subjects),
            false => lines(unix_s, &rows).map_err(|error| Failure::stdout(error.into()))?,
        };
        output::show(&text)
    }

    /// Draws as many rows as the terminal has room for: one that scrolls cannot be redrawn.
    fn drawn(&self, rows: &[Row], subjects: usize) -> String {
        let size = terminal_size()
            .map_or((80, 24), |(width, height)| (usize::from(width.0), usize::from(height.0)));
        format!("{REDRAW}{}", self.drawn_in(size, rows, subjects))
    }

    /// Draws in a terminal of this width and height, of which the last line is the cursor's. At
    /// least half of the others are for the table.
    fn drawn_in(&self, (width, height): (usize, usize), rows: &[Row], subjects: usize) -> String {
        let lines = height.saturating_sub(1);
        let notes: String = self.notes.iter().map(|note| format!("\n{note}")).collect();
        let notes_lines: usize = notes.lines().map(|line| lines_of(line, width)).sum();
        let room = lines.saturating_sub(notes_lines).max(lines / 2);
        let table = table(&rows[..rows.len().min(room)], subjects, width);
        let shown = beginning(&table, width, room);
        beginning(&format!("{shown}{notes}"), width, lines)
    }
}

/// Returns the lines of a terminal of this width that a line of text takes.
fn lines_of(line: &str, width: usize) -> usize {
    width_of(line).div_ceil(width.max(1)).max(1)
}

/// Returns the first lines of a text, as many as `room` lines of a terminal of this width hold.
fn beginning(text: &str, width: usize, room: usize) -> String {
    let mut taken = 0;
    let fits = |line: &&str| {
        taken += lines_of(line, width);
        taken <= room
    };
    text.lines().take_while(fits).map(|line| format!("{line}\n")).collect()
}

fn lines(unix_s: f64, rows: &[Row]) -> Result<String, serde_json::Error> {
    let mut text = String::new();
    for row in rows {
        text.push_str(&serde_json::to_string(&Line { unix_s, row })?);
        text.push('\n');
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use memweir_watch::{Kind, State};

    use super::*;

    fn row(number: usize) -> Row {
        let name = format!("a-unit-with-a-name-that-is-long-{number}.service");
        Row {
            t_s: 1.0,
            span_s: 1.0,
            jobid: format!("/{name}"),
            name,
            kind: Kind::Unit,
            state: State::Running,
            cpu_s: Some(1.0),
            read_bytes: Some(1_000_000_000),
            write_bytes: Some(1_000_000_000),
            bandwidth: Some(2e9),
            ..Row::default()
        }
    }

    #[test]
    fn a_terminal_of_any_size_does_not_scroll() {
        let notes = ["a note", "another one that is longer than narrow terminals are wide"];
        let notes = notes.map(str::to_owned).into();
        let screen = Screen { is_terminal: true, top: None, notes };
        let rows: Vec<Row> = (0..40).map(row).collect();
        for size in [(80, 24), (50, 15), (100, 50), (20, 6), (1, 1), (0, 0)] {
            let text = screen.drawn_in(size, &rows, rows.len());
            let lines: usize = text.lines().map(|line| lines_of(line, size.0)).sum();
            assert!(lines < size.1.max(1), "{size:?}: {text}");
        }
        let text = screen.drawn_in((80, 24), &rows, rows.len());
        let narrow = screen.drawn_in((40, 15), &rows, rows.len());
        assert!(narrow.contains("a-unit-with"), "{narrow}");
        for part in ["40 subjects", "memory traffic", "long-0.ser", "long-15.ser", "a note"] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
    }
}
