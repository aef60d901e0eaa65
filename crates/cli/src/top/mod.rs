//! `memweir top`: the memory bus and the jobs on it, live or played back, in the terminal.
//!
//! A [`Source`] yields [`Frame`]s: the daemon, a watch, or a recording. `state.rs` keeps what is
//! shown and obeys keys, `view.rs` draws it; neither knows the terminal or a source.

mod frame;
mod playback;
mod queue;
mod state;
mod view;
mod watched;

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use memweir_core::Nanos;
use memweir_core::input::InputError;
use memweir_linux::terminal::{Input, wait_for_input};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};

use crate::failure::{Failure, Outcome};
use crate::interrupt;
use crate::shared::connection::Connection;
use crate::shared::subjects::{SubjectArgs, interval};
use frame::{Opened, Source};
use state::{Flow, Key, Top};

/// Longest time before a signal is noticed.
const ATTENTION: Duration = Duration::from_millis(50);

/// Options of `memweir top`.
#[derive(Debug, clap::Args)]
#[command(mut_group("SubjectArgs", |subjects| subjects.conflicts_with_all(["file", "socket"])))]
pub(crate) struct Args {
    /// Play back a record of decisions (`run --record`) or a timeline (`run --timeline`, .csv or
    /// .parquet), instead of watching the daemon
    #[arg(value_name = "FILE", conflicts_with_all = ["watch", "socket"])]
    file: Option<PathBuf>,
    /// Show a batch in progress: read on in FILE, the CSV that `run --timeline FILE` writes
    #[arg(long, requires = "file", conflicts_with_all = ["watch", "socket"])]
    follow: bool,
    /// Watch control groups, as `memweir watch` does, instead of the daemon
    #[arg(long, conflicts_with = "socket")]
    watch: bool,
    /// Time between two looks at what runs
    #[arg(long, value_name = "TIME", value_parser = interval, default_value = "500ms")]
    interval: Nanos,
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    subjects: SubjectArgs,
}

/// Shows the source until the user quits.
pub(crate) fn execute(args: &Args) -> Result<Outcome, Failure> {
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        let refusal = InputError::new("top", "standard input and output are no terminal");
        let help = "`memweir queue`, `watch` and `replay` print to files and pipes";
        return Err(refusal.help(help).into());
    }
    let Opened { title, peak, mut source } = open(args)?;
    let stop = interrupt::catch()?;
    let mut top = Top::new(title, peak);
    // A panic restores the terminal, too.
    let mut terminal = ratatui::init();
    let shown = show(&mut terminal, source.as_mut(), &mut top, stop);
    ratatui::restore();
    shown.map(|()| Outcome::Success)
}

fn open(args: &Args) -> Result<Opened, Failure> {
    match &args.file {
        Some(path) if args.follow => playback::follow(path, args.interval),
        Some(path) => playback::open(path),
        None if args.watch || args.subjects.is_given() => {
            watched::open(&args.subjects, args.interval)
        }
        None => queue::open(&args.connection, args.interval),
    }
}

/// Draws and obeys keys until the user quits or a signal comes.
fn show(
    terminal: &mut DefaultTerminal,
    source: &mut dyn Source,
    top: &mut Top,
    stop: &AtomicBool,
) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::Machine(format!("the terminal: {error}"));
    let mut due = Instant::now();
    loop {
        if top.takes_frames() && Instant::now() >= due {
            match source.next()? {
                Some(frames) => frames.into_iter().for_each(|frame| top.push(frame)),
                None => top.end(),
            }
            due = Instant::now() + source.interval().div_f64(top.rate());
        }
        terminal.draw(|frame| view::draw(frame, top)).map_err(failed)?;
        let wait = match top.takes_frames() {
            true => due.saturating_duration_since(Instant::now()).min(ATTENTION),
            false => ATTENTION,
        };
        if stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        // The library's own wait does not return once the terminal is closed.
        if wait_for_input(wait).map_err(failed)? == Input::Gone {
            return Ok(());
        }
        let rate = top.rate();
        if obey(top).map_err(failed)? == Flow::Quit {
            return Ok(());
        }
        if top.rate() != rate {
            due = due.min(Instant::now() + source.interval().div_f64(top.rate()));
        }
    }
}

/// Obeys the keys that were pressed.
fn obey(top: &mut Top) -> io::Result<Flow> {
    while event::poll(Duration::ZERO)? {
        if let Some(key) = key(&event::read()?)
            && top.key(key) == Flow::Quit
        {
            return Ok(Flow::Quit);
        }
    }
    Ok(Flow::GoOn)
}

/// Returns the key of an event of the terminal.
fn key(event: &Event) -> Option<Key> {
    let Event::Key(key) = event else { return None };
    if key.kind == KeyEventKind::Release {
        return None;
    }
    Some(match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Key::Interrupt,
        KeyCode::Char(letter) => Key::Letter(letter),
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        _ => return None,
    })
}
