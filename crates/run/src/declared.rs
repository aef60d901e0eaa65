//! The `declared` meter: counts nothing, and follows the known profile of each job along the CPU
//! time that the job has used. `batch/known.rs` gathers the profiles.
//!
//! The position in a profile is the job's own CPU time, so the meter follows its phases whichever
//! other jobs ran, and stands still while the job is blocked. A job that contends for memory uses
//! more CPU time than it did alone; it may therefore run past the end of its profile. There the
//! meter keeps the rate of the profile's last quantum: a program that still runs still does what it
//! did last, and a forecast of zero would let the scheduler put every late job beside every other.

use std::collections::HashMap;

use memweir_core::profile::Profile;
use memweir_core::{Counts, JobId, Nanos};
use memweir_linux::meter::Capabilities;
use memweir_linux::{Meter, MeterError, MeterKind, Reading};

/// Declared behavior of one job.
#[derive(Clone, Debug, PartialEq)]
pub struct Declaration {
    /// Its behavior alone.
    pub profile: Profile,
    /// Cores that it occupies while it runs: the factor by which its CPU time passes faster than
    /// the clock.
    pub cores: u32,
    /// True if the profile tells the machine's media apart.
    pub by_medium: bool,
}

/// A meter that reads profiles instead of counters.
#[derive(Debug, Default)]
pub struct DeclaredMeter {
    declarations: HashMap<JobId, Declaration>,
}

impl DeclaredMeter {
    /// A meter for the declared jobs.
    #[must_use]
    pub fn new(declarations: HashMap<JobId, Declaration>) -> Self {
        Self { declarations }
    }

    fn declaration(&self, job: JobId) -> Result<&Declaration, MeterError> {
        self.declarations
            .get(&job)
            .ok_or_else(|| MeterError::other(format!("nothing is declared of job {job}")))
    }
}

impl Meter for DeclaredMeter {
    fn kind(&self) -> MeterKind {
        MeterKind::Declared
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            instructions: self.declarations.values().all(|d| d.profile.total().instructions > 0),
            writes: true,
            instruction_pointers: false,
            media: self.declarations.values().all(|d| d.by_medium),
            caveats: vec![
                "memory traffic is what was declared or profiled before, not counted in this run"
                    .to_owned(),
            ],
        }
    }

    fn attach(&mut self, job: JobId, _pid: i32) -> Result<(), MeterError> {
        self.declaration(job).map(drop)
    }

    fn read(&mut self, job: JobId, cpu_time: Nanos, quantum: Nanos) -> Result<Reading, MeterError> {
        let declaration = self.declaration(job)?;
        // CPU time that the job will use if it runs on all of its cores for the whole quantum.
        let ahead = Nanos(quantum.0 * u64::from(declaration.cores.max(1)));
        let along = Along { profile: &declaration.profile, tail: ahead };
        let next = along.between(cpu_time, cpu_time + ahead);
        Ok(Reading {
            counts: along.between(Nanos::ZERO, cpu_time),
            instruction_pointers: Vec::new(),
            forecast: Some(next.bandwidth(quantum)),
        })
    }

    fn detach(&mut self, _job: JobId) {}
}

/// A profile that goes on after its end at the mean rate of its last `tail`.
struct Along<'a> {
    profile: &'a Profile,
    tail: Nanos,
}

impl Along<'_> {
    fn between(&self, from: Nanos, to: Nanos) -> Counts {
        let end = self.profile.cpu_time;
        let within = self.profile.between(from.min(end), to.min(end));
        let beyond = to.max(end) - from.max(end);
        if beyond == Nanos::ZERO {
            return within;
        }
        let tail = self.tail.min(end);
        let last = self.profile.between(end - tail, end);
        within + last.scaled(beyond.as_f64() / tail.as_f64().max(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memweir_core::{BytesPerSec, Lines};
    use proptest::prelude::*;

    const QUANTUM: Nanos = Nanos(100);

    fn reads(reads: u64) -> Counts {
        Counts::new(reads * 2, Lines(reads), Lines(0))
    }

    /// 100 ns with 10 reads, 100 ns with 30, 100 ns with 5.
    fn phases() -> Profile {
        Profile {
            interval: Nanos(100),
            intervals: vec![reads(10), reads(30), reads(5)],
            cpu_time: Nanos(300),
            wall_time: Nanos(300),
        }
    }

    fn meter(cores: u32) -> DeclaredMeter {
        let declaration = Declaration { profile: phases(), cores, by_medium: false };
        DeclaredMeter::new(HashMap::from([(JobId(0), declaration)]))
    }

    fn forecast(meter: &mut DeclaredMeter, cpu_time: u64) -> BytesPerSec {
        let reading = meter.read(JobId(0), Nanos(cpu_time), QUANTUM).expect("declared");
        reading.forecast.expect("declared meters look ahead")
    }

    #[test]
    fn a_forecast_follows_the_phases() {
        let mut meter = meter(1);
        assert_eq!(forecast(&mut meter, 0), Lines(10).over(QUANTUM));
        assert_eq!(forecast(&mut meter, 50), Lines(20).over(QUANTUM));
        assert_eq!(forecast(&mut meter, 100), Lines(30).over(QUANTUM));
        let reading = meter.read(JobId(0), Nanos(200), QUANTUM).expect("declared");
        assert_eq!(reading.counts, reads(40));
    }

    #[test]
    fn a_job_on_two_cores_goes_through_its_profile_twice_as_fast() {
        assert_eq!(forecast(&mut meter(2), 0), Lines(40).over(QUANTUM));
    }

    #[test]
    fn past_its_end_a_job_keeps_the_rate_of_its_last_quantum() {
        let mut meter = meter(1);
        assert_eq!(forecast(&mut meter, 300), Lines(5).over(QUANTUM));
        assert_eq!(forecast(&mut meter, 9_000), Lines(5).over(QUANTUM));
        let reading = meter.read(JobId(0), Nanos(500), QUANTUM).expect("declared");
        assert_eq!(reading.counts.reads, Lines(45 + 10));
    }

    #[test]
    fn traffic_goes_to_the_media_that_are_declared() {
        let pram = memweir_core::MediumId::new(1).expect("a number");
        let mut profile = phases();
        for counts in &mut profile.intervals {
            *counts = memweir_core::placement::divide(counts, &[0.4, 0.6, 0.0, 0.0]);
        }
        let declaration = Declaration { profile, cores: 1, by_medium: true };
        let mut meter = DeclaredMeter::new(HashMap::from([(JobId(0), declaration)]));
        assert!(meter.capabilities().media);
        let counts = meter.read(JobId(0), Nanos(200), QUANTUM).expect("declared").counts;
        assert_eq!((counts.reads, counts.traffic(pram).reads), (Lines(40), Lines(24)));
    }

    #[test]
    fn an_undeclared_job_is_refused() {
        assert!(meter(1).attach(JobId(1), 77).is_err());
        assert!(meter(1).read(JobId(1), Nanos(0), QUANTUM).is_err());
        assert!(meter(1).attach(JobId(0), 77).is_ok());
    }

    proptest! {
        /// However the reads divide the time, no traffic is lost, made up or counted backwards.
        #[test]
        fn counts_never_run_backwards(
            intervals in prop::collection::vec(0u64..1_000, 1..20),
            mut times in prop::collection::vec(0u64..5_000, 1..20),
            short in 0u64..100,
        ) {
            let cpu_time = Nanos(intervals.len() as u64 * 100 - short.min(99));
            let profile = Profile {
                interval: Nanos(100),
                intervals: intervals.iter().map(|r| reads(*r)).collect(),
                cpu_time,
                wall_time: cpu_time,
            };
            let total = profile.total();
            let declaration = Declaration { profile, cores: 1, by_medium: false };
            let mut meter = DeclaredMeter::new(HashMap::from([(JobId(0), declaration)]));
            times.sort_unstable();
            let mut last = Counts::default();
            for time in times {
                let counts = meter.read(JobId(0), Nanos(time), QUANTUM).expect("declared").counts;
                prop_assert!(counts.reads >= last.reads);
                last = counts;
            }
            let at_end = meter.read(JobId(0), cpu_time, QUANTUM).expect("declared").counts;
            prop_assert_eq!(at_end, total);
        }
    }
}
