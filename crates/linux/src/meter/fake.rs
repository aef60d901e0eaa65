//! A meter with scripted counts and failures, for tests.

use std::io;

use memweir_core::{Counts, JobId, Nanos};

use super::{Capabilities, Meter, MeterError, MeterKind, Reading};
use crate::OsError;

/// Calls that fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Attaching.
    Attach,
    /// The reading of this number, counted from zero, and all that follow.
    ReadsFrom(usize),
}

/// A meter for tests of use cases, of one job at a time.
#[derive(Clone, Debug)]
pub struct FakeMeter {
    steps: Vec<Counts>,
    failure: Option<Failure>,
    capabilities: Capabilities,
    is_attached: bool,
    reads: usize,
    counts: Counts,
}

impl FakeMeter {
    /// Makes a meter whose n-th reading adds the n-th of these counts; readings after the last add
    /// nothing. It counts instructions and writes and takes no samples.
    #[must_use]
    pub fn new(steps: Vec<Counts>) -> Self {
        let capabilities =
            Capabilities { instructions: true, writes: true, ..Capabilities::default() };
        let counts = Counts::default();
        Self { steps, failure: None, capabilities, is_attached: false, reads: 0, counts }
    }

    /// Makes these calls fail.
    #[must_use]
    pub fn failing(self, failure: Failure) -> Self {
        Self { failure: Some(failure), ..self }
    }

    /// Replaces the capabilities of the meter.
    #[must_use]
    pub fn capable_of(self, capabilities: Capabilities) -> Self {
        Self { capabilities, ..self }
    }

    /// Returns true if it was attached and not detached.
    #[must_use]
    pub fn is_attached(&self) -> bool {
        self.is_attached
    }
}

fn failed(job: JobId) -> MeterError {
    let source = io::Error::from_raw_os_error(libc::EIO);
    OsError::new(format!("counting job {job}"), source).into()
}

impl Meter for FakeMeter {
    fn kind(&self) -> MeterKind {
        MeterKind::Perf
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities.clone()
    }

    fn attach(&mut self, job: JobId, _: i32) -> Result<(), MeterError> {
        if self.failure == Some(Failure::Attach) {
            return Err(failed(job));
        }
        self.is_attached = true;
        Ok(())
    }

    fn read(&mut self, job: JobId, _: Nanos, _: Nanos) -> Result<Reading, MeterError> {
        if !self.is_attached {
            return Err(MeterError::other(format!("job {job} is not attached")));
        }
        let number = self.reads;
        self.reads += 1;
        if matches!(self.failure, Some(Failure::ReadsFrom(first)) if number >= first) {
            return Err(failed(job));
        }
        self.counts += self.steps.get(number).copied().unwrap_or_default();
        Ok(Reading { counts: self.counts, ..Reading::default() })
    }

    fn detach(&mut self, _: JobId) {
        self.is_attached = false;
    }
}

#[cfg(test)]
mod tests {
    use memweir_core::Lines;

    use super::*;

    const JOB: JobId = JobId(1);

    fn reads(meter: &mut FakeMeter) -> Option<Lines> {
        meter.read(JOB, Nanos::ZERO, Nanos::ZERO).ok().map(|reading| reading.counts.reads)
    }

    #[test]
    fn steps_add_up_until_a_reading_is_to_fail() {
        let steps = [5, 7].map(|lines| Counts::new(0, Lines(lines), Lines(0)));
        let mut meter = FakeMeter::new(steps.to_vec()).failing(Failure::ReadsFrom(3));
        assert_eq!(reads(&mut meter), None, "it is not attached");
        meter.attach(JOB, 9).unwrap();
        let seen: Vec<_> = (0..5).map(|_| reads(&mut meter)).collect();
        assert_eq!(seen, [Some(Lines(5)), Some(Lines(12)), Some(Lines(12)), None, None]);
        meter.detach(JOB);
        assert!(!meter.is_attached());
        assert!(meter.failing(Failure::Attach).attach(JOB, 9).is_err());
    }
}
