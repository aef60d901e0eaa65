//! Showing a watch: a table that redraws itself on a terminal, JSON lines elsewhere.

use std::collections::VecDeque;
use std::io::{self, IsTerminal};

use memweir_linux::tell;
use memweir_watch::Row;
use serde::Serialize;
use terminal_size::terminal_size;

use crate::failure::Failure;
use crate::output::{self, Reader};
use crate::render::watch::{HEAD_LINES, table};
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
        if self.notes.iter().any(|note| note == text) {
            return;
        }
        if !self.is_terminal {
            tell!("{text}");
        }
        self.notes.push_back(text.to_owned());
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
        let notes: Vec<&str> = self.notes.iter().map(String::as_str).collect();
        let (width, height) = terminal_size()
            .map_or((80, 24), |(width, height)| (usize::from(width.0), usize::from(height.0)));
        let lines_of = |note: &&str| note.chars().count() / width.max(1) + 1;
        let around = HEAD_LINES + notes.iter().map(lines_of).sum::<usize>() + 2;
        let room = height.saturating_sub(around).max(1);
        let shown = &rows[..rows.len().min(room)];
        format!("{REDRAW}{}\n{}\n", table(shown, subjects), notes.join("\n"))
    }
}

fn lines(unix_s: f64, rows: &[Row]) -> Result<String, serde_json::Error> {
    let mut text = String::new();
    for row in rows {
        text.push_str(&serde_json::to_string(&Line { unix_s, row })?);
        text.push('\n');
    }
    Ok(text)
}
