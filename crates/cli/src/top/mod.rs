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
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

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
        if keys(&event::read()?).any(|key| top.key(key) == Flow::Quit) {
            return Ok(Flow::Quit);
        }
    }
    Ok(Flow::GoOn)
}

/// Returns the keys of an event of the terminal. Escape and a key behind it that are read together
/// look like Alt and that key.
fn keys(event: &Event) -> impl Iterator<Item = Key> {
    let pressed = match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => Some(key),
        _ => None,
    };
    let has_escape = |key: &&KeyEvent| {
        key.modifiers.contains(KeyModifiers::ALT)
            && !matches!(key.code, KeyCode::Up | KeyCode::Down)
    };
    let escape = pressed.filter(has_escape).map(|_| Key::Escape);
    escape.into_iter().chain(pressed.and_then(key))
}

/// Returns the key of an event; `None` for one that means nothing here.
fn key(event: &KeyEvent) -> Option<Key> {
    Some(match event.code {
        KeyCode::Char('c') if event.modifiers.contains(KeyModifiers::CONTROL) => Key::Interrupt,
        KeyCode::Char(letter) => Key::Letter(letter),
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_is_a_key_though_another_one_comes_right_behind_it() {
        let of =
            |code, modifiers| keys(&Event::Key(KeyEvent::new(code, modifiers))).collect::<Vec<_>>();
        let (none, alt) = (KeyModifiers::NONE, KeyModifiers::ALT);
        assert_eq!(of(KeyCode::Char('q'), alt), [Key::Escape, Key::Letter('q')]);
        assert_eq!(of(KeyCode::Enter, alt), [Key::Escape, Key::Enter]);
        assert_eq!(of(KeyCode::Up, alt), [Key::Up], "its sequence names Alt");
        assert_eq!(of(KeyCode::Char('q'), none), [Key::Letter('q')]);
        assert_eq!(of(KeyCode::Char('c'), KeyModifiers::CONTROL), [Key::Interrupt]);
        assert_eq!(of(KeyCode::Home, none), []);
    }
}
