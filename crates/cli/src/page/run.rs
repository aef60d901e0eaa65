//! `memweir page run`: a program with less DRAM than it wants.

mod args;
mod figure;
mod kernel;
mod show;

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use memweir_abi::preload::page::WhenFull;
use memweir_energy::Estimate;
use memweir_linux::foreground::Foreground;
use memweir_linux::preload::{NotStarted, check_inherited_files, check_program};
use memweir_linux::{stderr, tell};
use memweir_page::live::{self, Here, Look, Paged, Report, Timeline};

pub(crate) use args::Args;

use crate::failure::{self, Failure};
use crate::render::progress::Line;
use crate::{foreground, output};

/// Interval of checks for a process that must be ended: memory fills at gigabytes per second.
const WATCHFUL: Duration = Duration::from_millis(10);

/// Longest interval between two searches for programs that cannot be paged.
const OUTSIDE: Duration = Duration::from_millis(100);

/// Runs the program.
pub(crate) fn execute(args: &Args) -> Result<failure::Outcome, Failure> {
    output::writable(args.json.as_deref())?;
    let Some(nvm) = &args.nvm else { return kernel::execute(args) };
    let media = args.media()?;
    let timeline = args.timeline()?;
    check_program(&args.command[0]).map_err(NotStarted::Request)?;
    check_inherited_files().map_err(NotStarted::Request)?;
    let mut paged = Paged::prepare(&args.request(nvm), &Here)?;
    let timeline = match timeline {
        Some((path, format)) => {
            Some(Timeline::create(path, format).map_err(|error| Failure::write(path, error))?)
        }
        None => None,
    };
    let mut watcher = Watcher::new(args, timeline);
    let environment = paged.environment().to_vec();
    let program = Foreground { command: &args.command, environment: &environment, group: None };
    let status = program.run(watcher.interval, || {
        watcher.tick(&mut paged);
    });
    let last = paged.last_look().map_err(unread);
    if let Ok(last) = &last {
        watcher.row(last);
    }
    watcher.line.finish();
    let (status, last) = (status?, last?);
    let outcome = live::Outcome { exit_code: status.code(), signal: status.signal() };
    let (command, (name, reading)) = (foreground::words(&args.command), args.reading);
    let report = Report::new(command, nvm.to_string(), outcome, &paged, &last, |paging| {
        Estimate::new(paging, &media.dram, &media.nvm, (name, &reading))
    });
    tell(args, &report, status);
    let json = args.json.as_ref().map_or(Ok(()), |path| output::json(path, &report));
    output::both(json, watcher.finish(args, &report))?;
    Ok(foreground::outcome(status))
}

/// Observes the program while it runs.
struct Watcher {
    interval: Duration,
    every: Duration,
    timeline: Option<Timeline>,
    written: Option<Instant>,
    /// The first failure to read the counters, at which a row is missing.
    unread: Option<io::Error>,
    /// The failure that ended the timeline.
    unwritten: Option<io::Error>,
    line: Line,
}

/// The failure of memweir to read its own counters.
fn unread(error: io::Error) -> Failure {
    Failure::Fault(format!("its own counters: {error}"))
}

impl Watcher {
    fn new(args: &Args, timeline: Option<Timeline>) -> Self {
        let every = args.every.into();
        let interval = match args.when_full() {
            WhenFull::Stop => OUTSIDE.min(every),
            WhenFull::EndLargest => WATCHFUL.min(every),
        };
        let line = Line::new(args.shows_progress());
        let (written, unread, unwritten) = (None, None, None);
        Self { interval, every, timeline, written, unread, unwritten, line }
    }

    fn tick(&mut self, paged: &mut Paged) {
        let look = match paged.look() {
            Ok(look) => look,
            Err(error) => {
                self.unread.get_or_insert(error);
                return;
            }
        };
        if let Some(ended) = look.ended {
            self.line.note(&show::ended(&ended));
        }
        if self.written.is_none_or(|written| written.elapsed() >= self.every) {
            self.row(&look);
            self.line.say(&show::line(&look.row));
        }
    }

    /// Keeps a row; a timeline that cannot be written does not stop the program.
    fn row(&mut self, look: &Look) {
        self.written = Some(Instant::now());
        if let Some(Err(error)) = self.timeline.as_mut().map(|timeline| timeline.append(look.row)) {
            let kept = self.timeline.take().map(Timeline::abandon).unwrap_or_default();
            self.unwritten = Some(io::Error::new(error.kind(), format!("{error}{kept}")));
        }
    }

    fn finish(self, args: &Args, report: &Report) -> Result<(), Failure> {
        let Some(path) = &args.timeline else { return Ok(()) };
        let complete = self.unread.map_or(Ok(()), |error| Err(unread(error)));
        let written = match (self.unwritten, self.timeline) {
            (Some(error), _) => Err(Failure::write(path, error)),
            (None, None) => Ok(()),
            (None, Some(timeline)) => timeline.finish(|rows| {
                output::figure(path, &figure::timeline(rows, report, args.every.as_secs_f64()))
            }),
        };
        output::both(complete, written)
    }
}

/// Reports the results, beside the program's own output.
fn tell(args: &Args, report: &Report, status: ExitStatus) {
    for warning in show::warnings(report) {
        tell!("{warning}");
    }
    if !output::is_stdout(args.json.as_deref()) {
        stderr::print(show::table(report));
        if args.times {
            stderr::print(show::times(report));
        }
        if args.shows_energy() {
            stderr::print(show::energy(report));
        }
    }
    foreground::tell(&args.command, status);
}
