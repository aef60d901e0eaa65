//! `memweir watch`: the memory traffic and CPU time of what others run.

mod args;
mod record;
mod screen;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use memweir_core::Nanos;
use memweir_linux::meter::Reason;
use memweir_run::table::Table;
use memweir_watch::{MeterFailure, Metrics, Row, Watch};

pub(crate) use args::Args;

use crate::failure::{Failure, Outcome};
use crate::output::Reader;
use crate::shared::rows::end;
use crate::shared::subjects;
use crate::{export, interrupt, output};
use screen::Screen;

/// Longest sleep before a signal is noticed.
const ATTENTION: Duration = Duration::from_millis(50);

/// Watches until the time is up, a signal comes, or the reader of standard output is gone.
pub(crate) fn execute(args: &Args) -> Result<Outcome, Failure> {
    let stop = interrupt::catch()?;
    let mut screen = Screen::new(args.top);
    let (watch, meter) = subjects::open(&args.subjects)?;
    screen.note(&meter);
    let metrics = metrics(&watch);
    let export = args.export.start(&metrics)?;
    let record = match args.record.as_deref().map(record::begin).transpose() {
        Ok(record) => record,
        Err(failure) => {
            export.withdraw();
            return Err(failure);
        }
    };
    let mut sinks = Sinks { screen, record, metrics, told: BTreeSet::new() };
    let ended = rounds(args, watch, stop, &mut sinks);
    let recorded = sinks.record.map_or(Ok(()), |table| end(table, Ok(())));
    output::both(output::each([recorded, export.finish()]), ended)
}

/// The places that rows go to.
struct Sinks {
    screen: Screen,
    record: Option<Table>,
    metrics: Metrics,
    /// Kinds of failures of which the user was told.
    told: BTreeSet<Reason>,
}

impl Sinks {
    /// Takes the rows of a tick at `now`.
    fn take(&mut self, watch: &mut Watch, rows: Vec<Row>, now: Nanos) -> Result<Reader, Failure> {
        let failures = watch.take_failures();
        self.metrics.watched(&rows, &failures, now);
        for MeterFailure { jobid, error, .. } in failures {
            if self.told.insert(error.reason) {
                self.screen.note(&format!("{jobid}: {error} (further failures are only counted)"));
            }
        }
        watch.take_notices().iter().for_each(|notice| self.screen.note(notice));
        let unix_s = unix_seconds();
        if let Some(mut table) = self.record.take() {
            match record::append(&mut table, unix_s, &rows) {
                Ok(()) => self.record = Some(table),
                lost => end(table, lost)?,
            }
        }
        self.screen.show(unix_s, rows, watch.subjects())
    }
}

/// Begins the metrics of a watch with what is known before its first row.
fn metrics(watch: &Watch) -> Metrics {
    let metrics = Metrics::default();
    if let Some(meter) = watch.meter() {
        metrics.set_meter(meter);
    }
    if let Some(peak) = export::calibrated_peak() {
        metrics.set_peak(peak);
    }
    metrics
}

/// Ticks once per interval.
fn rounds(
    args: &Args,
    mut watch: Watch,
    stop: &AtomicBool,
    sinks: &mut Sinks,
) -> Result<Outcome, Failure> {
    let start = Instant::now();
    let limit = args.time.map(Duration::from);
    let mut next = Duration::ZERO;
    loop {
        let now = start.elapsed();
        let rows = watch.tick(Nanos::from(now)).map_err(|error| {
            Failure::Machine(format!("the cgroup tree cannot be read: {error}"))
        })?;
        if sinks.take(&mut watch, rows, Nanos::from(now))? == Reader::Gone {
            return Ok(Outcome::Success);
        }
        if limit.is_some_and(|limit| now >= limit) {
            return Ok(Outcome::Success);
        }
        next = following(next + Duration::from(args.interval), start.elapsed(), limit);
        if !sleep_until(start, next, stop) {
            // A watch without a limit has no other end.
            return Ok(if limit.is_some() { Outcome::Interrupted } else { Outcome::Success });
        }
    }
}

/// Returns the time of the next tick: `planned`, or now if that has passed, or the end.
fn following(planned: Duration, now: Duration, limit: Option<Duration>) -> Duration {
    let next = planned.max(now);
    limit.map_or(next, |limit| next.min(limit.max(now)))
}

/// Sleeps; false if a signal came.
fn sleep_until(start: Instant, until: Duration, stop: &AtomicBool) -> bool {
    loop {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        match until.checked_sub(start.elapsed()) {
            None | Some(Duration::ZERO) => return true,
            Some(rest) => std::thread::sleep(rest.min(ATTENTION)),
        }
    }
}

fn unix_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_tick_does_not_bring_a_burst_of_them() {
        let ms = Duration::from_millis;
        assert_eq!(following(ms(200), ms(110), None), ms(200));
        assert_eq!(following(ms(200), ms(950), None), ms(950));
        assert_eq!(following(ms(200), ms(110), Some(ms(150))), ms(150));
        assert_eq!(following(ms(200), ms(160), Some(ms(150))), ms(160));
    }
}
