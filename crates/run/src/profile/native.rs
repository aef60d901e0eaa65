//! The native run of a profiled program: its time, and, with a native meter, its counts in each
//! tick.

use std::time::Instant;

use memweir_core::{Bytes, Counts, JobId, Nanos};
use memweir_linux::blocker::SpawnTarget;
use memweir_linux::launch::{Exit, Launch, PrivateView, Signals, Waited, launch};
use memweir_linux::{Meter, MeterError, OsError};

use super::timing::Slice;
use super::types::{ProfileError, ProfileProgress};

/// Interval of ticks without a meter, and shortest interval between reports of progress.
const IDLE_TICK: Nanos = Nanos::from_millis(100);

/// The one program that is profiled, as meters name it.
const JOB: JobId = JobId(0);

/// Result of the native run.
#[derive(Clone, Debug)]
pub(super) struct NativeRun {
    pub(super) exit: Exit,
    pub(super) wall: Nanos,
    /// One slice per tick of the meter; empty without a meter.
    pub(super) slices: Vec<Slice>,
    /// Notices for the user.
    pub(super) notices: Vec<String>,
    /// The most memory that its private directories took, as far as that was seen.
    pub(super) written: Bytes,
    /// True if these ran full.
    pub(super) full: bool,
    /// True if the meter failed on the way, so that a part of the run is not counted.
    pub(super) cut_short: bool,
}

/// Runs the program to its end; a signal ends it and the profile. Returns its private directories,
/// too, as it left them.
pub(super) fn run(
    mut command: Launch,
    meter: Option<&mut dyn Meter>,
    interval: Nanos,
    signals: &Signals,
    progress: &mut dyn FnMut(ProfileProgress),
) -> Result<(NativeRun, Option<PrivateView>), ProfileError> {
    let mut ticker = Ticker::new(meter, interval);
    ticker.prepare(&mut command)?;
    let newborn = launch(&command, &SpawnTarget::Session)?;
    ticker.attach(newborn.pid())?;
    let view = command.private.as_ref().map(|private| PrivateView::open(newborn.pid(), private));
    let looking = "looking into the private directories";
    let view = view.transpose().map_err(OsError::of(looking))?;
    let (mut full, mut written) = (false, Bytes(0));
    let (start, suspended) = (Instant::now(), signals.suspended());
    // The program makes no progress while Ctrl-Z stops it.
    let elapsed = || Nanos::from(start.elapsed()) - (signals.suspended() - suspended);
    let mut process = newborn.exec()?;
    let exit = loop {
        let wait = ticker.until_next(elapsed());
        let waited = signals.wait(&mut process, wait);
        let exit = match waited.map_err(OsError::of("waiting for the program"))? {
            Waited::Runs => None,
            Waited::Ended(exit) => Some(exit),
            Waited::Killed(signal) => return Err(ProfileError::Interrupted(signal.as_str())),
        };
        let now = elapsed();
        if ticker.tick(now, exit.is_some()) {
            if let Some(view) = &view {
                full |= view.is_full();
                written = written.max(view.used());
            }
            progress(ProfileProgress::Native { elapsed: now });
        }
        if let Some(exit) = exit {
            break exit;
        }
    };
    let (wall, cut_short) = (elapsed(), ticker.failure.is_some());
    let (slices, notices) = ticker.finish();
    Ok((NativeRun { exit, wall, slices, notices, written, full, cut_short }, view))
}

/// Reads a meter once per interval.
struct Ticker<'a> {
    meter: Option<&'a mut dyn Meter>,
    interval: Nanos,
    last: Nanos,
    counts: Counts,
    slices: Vec<Slice>,
    told: Nanos,
    failure: Option<String>,
}

impl<'a> Ticker<'a> {
    fn new(meter: Option<&'a mut dyn Meter>, interval: Nanos) -> Self {
        Self {
            meter,
            interval,
            last: Nanos::ZERO,
            counts: Counts::default(),
            slices: Vec::new(),
            told: Nanos::ZERO,
            failure: None,
        }
    }

    fn prepare(&mut self, command: &mut Launch) -> Result<(), MeterError> {
        self.meter.as_mut().map_or(Ok(()), |meter| meter.prepare(JOB, command))
    }

    fn attach(&mut self, pid: i32) -> Result<(), MeterError> {
        self.meter.as_mut().map_or(Ok(()), |meter| meter.attach(JOB, pid))
    }

    fn until_next(&self, now: Nanos) -> Nanos {
        let interval = if self.meter.is_some() { self.interval } else { IDLE_TICK };
        (self.last + interval).saturating_sub(now)
    }

    /// Reads the meter if it is time to, and returns true if progress is to be reported.
    fn tick(&mut self, now: Nanos, ended: bool) -> bool {
        if self.until_next(now) > Nanos::ZERO && !ended {
            return false;
        }
        let span = now.saturating_sub(self.last);
        self.last = now;
        self.read(now, span);
        let tell = ended || now.saturating_sub(self.told) >= IDLE_TICK;
        if tell {
            self.told = now;
        }
        tell
    }

    fn read(&mut self, now: Nanos, span: Nanos) {
        let Some(meter) = self.meter.as_mut() else { return };
        if self.failure.is_some() {
            return;
        }
        match meter.read(JOB, now, self.interval) {
            Ok(reading) => {
                let counts = reading.counts.since(&self.counts);
                self.counts = reading.counts;
                // A program that did nothing was asleep: the tick took none of its CPU time.
                let active = counts != Counts::default();
                self.slices.push(Slice {
                    counts,
                    weight: if active { span.as_f64() } else { 0.0 },
                    instruction_pointers: reading.instruction_pointers,
                });
            }
            Err(error) => self.failure = Some(error.to_string()),
        }
    }

    fn finish(self) -> (Vec<Slice>, Vec<String>) {
        let mut notices = Vec::new();
        if let Some(meter) = self.meter {
            notices.extend(meter.capabilities().caveats);
            notices.extend(meter.take_notices());
            meter.detach(JOB);
        }
        if let Some(failure) = self.failure {
            notices
                .push(format!("the meter failed, and what came after is not counted: {failure}"));
        }
        (self.slices, notices)
    }
}

#[cfg(test)]
mod tests;
