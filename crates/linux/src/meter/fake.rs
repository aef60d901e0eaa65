//! A meter with scripted counts and failures, for tests.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use memweir_core::{Counts, JobId, Nanos};

use super::{Capabilities, Meter, MeterError, MeterKind, Reading};
use crate::launch::Launch;

/// Behavior of a job's counter.
#[derive(Clone, Debug, PartialEq)]
pub enum Script {
    /// Counts these in each second of the job's CPU time.
    Rate(Counts),
    /// The n-th reading adds the n-th counts; readings after the last add nothing.
    Steps(Vec<Counts>),
}

/// Calls for a job that fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Attaching.
    Attach,
    /// The reading of this number, counted from zero, and no other.
    ReadOnce(usize),
    /// The reading of this number and all that follow.
    ReadsFrom(usize),
}

/// One call of a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeterCall {
    /// The command was changed before birth.
    Prepare(JobId),
    /// Counting started for this process.
    Attach(JobId, i32),
    /// The counts were read, or should have been.
    Read(JobId),
    /// Counting stopped.
    Detach(JobId),
}

/// The calls of a [`FakeMeter`], which a test keeps while a use case owns the meter.
#[derive(Clone, Debug, Default)]
pub struct CallLog(Arc<Mutex<Vec<MeterCall>>>);

impl CallLog {
    /// Returns every call so far.
    #[must_use]
    pub fn calls(&self) -> Vec<MeterCall> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the jobs that were attached and not detached.
    #[must_use]
    pub fn attached(&self) -> Vec<JobId> {
        let mut jobs = Vec::new();
        for call in self.calls() {
            match call {
                MeterCall::Attach(job, _) => jobs.push(job),
                MeterCall::Detach(job) => jobs.retain(|other| *other != job),
                MeterCall::Prepare(_) | MeterCall::Read(_) => {}
            }
        }
        jobs
    }

    fn push(&self, call: MeterCall) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(call);
    }
}

/// A meter for tests of use cases. Jobs without a script count nothing.
#[derive(Clone, Debug, Default)]
pub struct FakeMeter {
    scripts: BTreeMap<JobId, Script>,
    failures: Vec<(JobId, Failure)>,
    capabilities: Capabilities,
    notices: Vec<String>,
    attached: BTreeMap<JobId, Progress>,
    log: CallLog,
}

/// Progress in the script of an attached job.
#[derive(Clone, Debug, Default)]
struct Progress {
    reads: usize,
    counts: Counts,
}

impl FakeMeter {
    /// Makes a meter that counts instructions and writes and takes no samples.
    #[must_use]
    pub fn new() -> Self {
        let capabilities =
            Capabilities { instructions: true, writes: true, ..Capabilities::default() };
        Self { capabilities, ..Self::default() }
    }

    /// Sets the counts of `job`.
    #[must_use]
    pub fn script(mut self, job: JobId, script: Script) -> Self {
        self.scripts.insert(job, script);
        self
    }

    /// Makes a call for `job` fail.
    #[must_use]
    pub fn fail(mut self, job: JobId, failure: Failure) -> Self {
        self.failures.push((job, failure));
        self
    }

    /// Replaces the capabilities of the meter.
    #[must_use]
    pub fn capable_of(mut self, capabilities: Capabilities) -> Self {
        self.capabilities = capabilities;
        self
    }

    /// Adds a message for the user.
    #[must_use]
    pub fn notice(mut self, text: impl Into<String>) -> Self {
        self.notices.push(text.into());
        self
    }

    /// Returns the log of calls.
    #[must_use]
    pub fn log(&self) -> CallLog {
        self.log.clone()
    }

    fn fails(&self, job: JobId, hit: impl Fn(Failure) -> bool) -> Result<(), MeterError> {
        match self.failures.iter().any(|(of, failure)| *of == job && hit(*failure)) {
            false => Ok(()),
            true => Err(MeterError::Os {
                what: format!("counting job {job}"),
                source: io::Error::from_raw_os_error(libc::EIO),
            }),
        }
    }
}

impl Meter for FakeMeter {
    fn kind(&self) -> MeterKind {
        MeterKind::Perf
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities.clone()
    }

    fn prepare(&mut self, job: JobId, _: &mut Launch) -> Result<(), MeterError> {
        self.log.push(MeterCall::Prepare(job));
        Ok(())
    }

    fn attach(&mut self, job: JobId, pid: i32) -> Result<(), MeterError> {
        self.fails(job, |failure| failure == Failure::Attach)?;
        self.log.push(MeterCall::Attach(job, pid));
        self.attached.insert(job, Progress::default());
        Ok(())
    }

    fn read(&mut self, job: JobId, cpu_time: Nanos, _: Nanos) -> Result<Reading, MeterError> {
        self.log.push(MeterCall::Read(job));
        let progress = self
            .attached
            .get_mut(&job)
            .ok_or_else(|| MeterError::Unsupported(format!("job {job} is not attached")))?;
        let number = progress.reads;
        progress.reads += 1;
        match self.scripts.get(&job) {
            None => {}
            Some(Script::Rate(per_second)) => {
                progress.counts = per_second.scaled(cpu_time.as_secs_f64());
            }
            Some(Script::Steps(steps)) => {
                progress.counts += steps.get(number).copied().unwrap_or_default();
            }
        }
        let counts = progress.counts;
        self.fails(job, |failure| match failure {
            Failure::Attach => false,
            Failure::ReadOnce(at) => number == at,
            Failure::ReadsFrom(first) => number >= first,
        })?;
        Ok(Reading { counts, ..Reading::default() })
    }

    fn detach(&mut self, job: JobId) {
        self.log.push(MeterCall::Detach(job));
        self.attached.remove(&job);
    }

    fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }
}

#[cfg(test)]
mod tests {
    use memweir_core::Lines;

    use super::*;

    const JOB: JobId = JobId(1);

    fn counts(instructions: u64, reads: u64, writes: u64) -> Counts {
        Counts::new(instructions, Lines(reads), Lines(writes))
    }

    fn read(meter: &mut FakeMeter, cpu_ms: u64) -> Result<Counts, MeterError> {
        meter.read(JOB, Nanos::from_millis(cpu_ms), Nanos::ZERO).map(|reading| reading.counts)
    }

    #[test]
    fn a_rate_follows_the_cpu_time() {
        let mut meter = FakeMeter::new().script(JOB, Script::Rate(counts(1000, 100, 10)));
        meter.attach(JOB, 9).unwrap();
        assert_eq!(read(&mut meter, 500).unwrap(), counts(500, 50, 5));
        assert_eq!(read(&mut meter, 500).unwrap(), counts(500, 50, 5));
        assert_eq!(read(&mut meter, 2000).unwrap(), counts(2000, 200, 20));
    }

    #[test]
    fn steps_add_up_and_a_failed_reading_loses_nothing() {
        let steps = Script::Steps(vec![counts(0, 5, 0), counts(0, 7, 1)]);
        let mut meter = FakeMeter::new().script(JOB, steps).fail(JOB, Failure::ReadOnce(1));
        meter.attach(JOB, 9).unwrap();
        assert_eq!(read(&mut meter, 0).unwrap(), counts(0, 5, 0));
        assert!(read(&mut meter, 0).is_err());
        assert_eq!(read(&mut meter, 0).unwrap(), counts(0, 12, 1));
    }

    #[test]
    fn failures_come_when_told() {
        let mut meter = FakeMeter::new()
            .fail(JOB, Failure::ReadsFrom(1))
            .fail(JobId(2), Failure::Attach)
            .notice("hear");
        assert!(read(&mut meter, 0).is_err(), "not attached");
        meter.attach(JOB, 9).unwrap();
        assert!(meter.attach(JobId(2), 10).is_err());
        assert!(read(&mut meter, 0).is_ok());
        assert!(read(&mut meter, 0).is_err() && read(&mut meter, 0).is_err());
        assert_eq!(meter.take_notices(), ["hear"]);
        assert!(meter.take_notices().is_empty());
    }

    #[test]
    fn the_log_tells_who_is_still_attached() {
        let mut meter = FakeMeter::new();
        let log = meter.log();
        meter.attach(JOB, 9).unwrap();
        meter.attach(JobId(2), 10).unwrap();
        meter.detach(JOB);
        assert_eq!(log.attached(), [JobId(2)]);
        assert_eq!(log.calls()[0], MeterCall::Attach(JOB, 9));
        assert_eq!(log.calls().len(), 3);
    }
}
