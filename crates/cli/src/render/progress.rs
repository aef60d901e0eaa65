//! Output for people while a batch runs: one line at the foot of the terminal, and notes as they
//! arise. Without a terminal on standard error, nothing.

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::sync::mpsc::{self, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use memweir_linux::stderr;
use memweir_run::observer::{Event, Observer, Progress};

use super::text::{rate, seconds};

/// Shows a batch's progress on standard error and keeps the notes for the summary.
pub(crate) struct Screen {
    /// Absent without a terminal.
    painter: Option<Painter>,
    /// Name of the current run of a comparison; empty for a single one.
    run: String,
    /// Exit codes of failed jobs that were shown during a comparison.
    failures: BTreeSet<i32>,
    notes: Vec<String>,
    /// Number of the first notes that were shown.
    shown: usize,
}

/// A thread that draws: a terminal that takes no output (Ctrl-S) must not stop the quantum loop,
/// which blocks jobs meanwhile.
struct Painter {
    orders: SyncSender<Drawing>,
    thread: JoinHandle<()>,
}

/// Text for the terminal.
enum Drawing {
    /// In place of the line at its foot.
    Line(String),
    /// Above that line, to stay.
    Note(String),
}

impl Painter {
    /// Drawings that wait; further ones are not taken.
    const WAITING: usize = 64;

    fn start() -> Option<Self> {
        let (orders, waiting) = mpsc::sync_channel(Self::WAITING);
        let draw = move || {
            let bar = foot(true);
            for drawing in waiting {
                match drawing {
                    Drawing::Line(text) => {
                        bar.set_message(text);
                        bar.tick();
                    }
                    Drawing::Note(text) => bar.println(text),
                }
            }
            bar.finish_and_clear();
        };
        let thread = thread::Builder::new().name("progress".to_owned()).spawn(draw).ok()?;
        Some(Self { orders, thread })
    }

    /// Returns true if this will be drawn.
    fn draws(&self, drawing: Drawing) -> bool {
        self.orders.try_send(drawing).is_ok()
    }

    /// Draws what waits and takes the line off the terminal.
    fn finish(self) {
        drop(self.orders);
        let _ = self.thread.join();
    }
}

impl Screen {
    /// A line on standard error if that is a terminal.
    pub(crate) fn new() -> Self {
        let live = std::io::stderr().is_terminal();
        Self {
            painter: live.then(Painter::start).flatten(),
            run: String::new(),
            failures: BTreeSet::new(),
            notes: Vec::new(),
            shown: 0,
        }
    }

    /// Takes the line off the terminal and returns the notes that have not been shown yet.
    pub(crate) fn finish(mut self) -> Vec<String> {
        if let Some(painter) = self.painter {
            painter.finish();
        }
        self.notes.split_off(self.shown)
    }

    fn note(&mut self, note: String) {
        // A comparison gives the same notes for every run.
        if self.notes.contains(&note) {
            return;
        }
        let all_shown = self.shown == self.notes.len();
        if all_shown && self.draws(Drawing::Note(note.clone())) {
            self.shown += 1;
        }
        self.notes.push(note);
    }

    fn draws(&self, drawing: Drawing) -> bool {
        self.painter.as_ref().is_some_and(|painter| painter.draws(drawing))
    }

    /// Shows the first job of a comparison that ends with this code.
    fn first_failure(&mut self, name: &str, code: i32) {
        if self.painter.is_some() && self.failures.insert(code) {
            let more = "further jobs that do are counted at the end";
            self.draws(Drawing::Note(format!("job {name} ended with exit code {code}; {more}")));
        }
    }
}

impl Observer for Screen {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::RunStarted { variant, round, rounds } => {
                self.run = format!("round {} of {rounds}, {variant}: ", round + 1);
            }
            Event::MeterChosen { kind, reason } => self.note(format!("meter {kind}: {reason}")),
            Event::MechanismChosen { mechanism, reason } => {
                self.note(format!("mechanism {mechanism}: {reason}"));
            }
            Event::Notice(notice) => self.note(notice.to_owned()),
            Event::QuantumEnded(progress) if self.painter.is_some() => {
                // The time that is left is that of one run.
                let of_run = if self.run.is_empty() { "" } else { " of this run" };
                self.draws(Drawing::Line(format!("{}{}", self.run, line(progress, of_run))));
            }
            // The comparison's report sums up the failures; a person who watches sees the first at
            // once.
            Event::JobEnded { name, exit_code: Some(code), .. }
                if code != 0 && !self.run.is_empty() =>
            {
                self.first_failure(name, code);
            }
            Event::JobEnded { name, exit_code: Some(code), wall, .. } if code != 0 => {
                let wall = seconds(Duration::from(wall).as_secs_f64());
                self.note(format!("job {name} ended with exit code {code} after {wall}"));
            }
            _ => {}
        }
    }
}

/// Creates a bar or line on standard error, if that is a terminal, for work of this length.
pub(crate) fn bar(length: Option<u64>, template: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr());
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// A line at the foot of the terminal, or nothing.
fn foot(live: bool) -> ProgressBar {
    match live {
        true => bar(None, "{spinner} {wide_msg}"),
        false => ProgressBar::hidden(),
    }
}

/// Status of a program that runs in the foreground, in one line.
pub(crate) struct Line {
    bar: ProgressBar,
}

impl Line {
    /// A line on standard error, if that is a terminal and the line was requested.
    pub(crate) fn new(wanted: bool) -> Self {
        Self { bar: foot(wanted && std::io::stderr().is_terminal()) }
    }

    /// Replaces the line.
    pub(crate) fn say(&self, text: &str) {
        self.bar.set_message(text.to_owned());
        self.bar.tick();
    }

    /// Prints a note that stays, with or without a line.
    pub(crate) fn note(&self, text: &str) {
        self.bar.suspend(|| stderr::print(format_args!("{text}\n")));
    }

    /// Takes the line off the terminal.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Jobs done, the system's bandwidth now, and the time that is left, `of_run` behind it.
fn line(progress: &Progress, of_run: &str) -> String {
    let mut line = format!(
        "{} of {} jobs done, {}",
        progress.jobs_done,
        progress.jobs,
        seconds(progress.elapsed.as_secs_f64())
    );
    if let Some(bandwidth) = progress.bandwidth {
        line += &format!(", {} now", rate(bandwidth.0));
    }
    if let Some(remaining) = progress.remaining {
        line += &format!(", about {:.0} s left{of_run}", remaining.as_secs_f64());
    }
    line
}

/// Counts pieces of work on standard error if that is a terminal, with the time that is left.
pub(crate) struct Counter {
    bar: ProgressBar,
}

impl Counter {
    /// A counter of `all` pieces, which are called `what`.
    pub(crate) fn new(what: &'static str, all: u64) -> Self {
        let bar = bar(Some(all), "{wide_bar} {percent:>3} %  {pos} of {len} {msg}, {eta} left");
        bar.set_message(what);
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar }
    }

    /// One more piece is done.
    pub(crate) fn one_more(&self) {
        self.bar.inc(1);
    }

    /// Takes the line off the terminal.
    pub(crate) fn finish(self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memweir_core::{BytesPerSec, Nanos};
    use memweir_linux::MeterKind;

    #[test]
    fn the_line_says_jobs_bandwidth_and_time_left() {
        let mut progress = Progress {
            quantum: 7,
            elapsed: Nanos::from_millis(700),
            bandwidth: Some(BytesPerSec(12.3e9)),
            jobs_done: 3,
            jobs: 8,
            remaining: Some(Nanos::from_millis(12_400)),
        };
        assert_eq!(
            line(&progress, ""),
            "3 of 8 jobs done, 0.700 s, 12.3 GB/s now, about 12 s left"
        );
        assert!(line(&progress, " of this run").ends_with("about 12 s left of this run"));
        progress.bandwidth = None;
        progress.remaining = None;
        assert_eq!(line(&progress, ""), "3 of 8 jobs done, 0.700 s");
    }

    #[test]
    fn a_failed_job_is_told_of_a_single_run_and_summed_up_of_a_comparison() {
        let failed = Event::JobEnded {
            job: memweir_core::JobId(0),
            name: "bt",
            exit_code: Some(26),
            wall: Nanos::MILLI,
        };
        let notes = |events: &[Event<'_>]| {
            let mut screen = Screen::new();
            screen.painter = None;
            events.iter().for_each(|event| screen.event(*event));
            screen.finish().len()
        };
        assert_eq!(notes(&[failed]), 1);
        let start = Event::RunStarted { variant: "os", round: 0, rounds: 2 };
        assert_eq!(notes(&[start, failed, start, failed]), 0);
    }

    #[test]
    fn what_was_told_twice_is_kept_once() {
        let mut screen = Screen::new();
        screen.painter = None;
        for _ in 0..2 {
            screen.event(Event::MeterChosen { kind: MeterKind::Declared, reason: "no PMU" });
        }
        assert_eq!(screen.finish(), ["meter declared: no PMU"]);
    }
}
