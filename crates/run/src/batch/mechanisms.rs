//! The mechanisms that a batch or a queue runs its jobs by, and the steps that both take with them:
//! blocking and resuming, creating a job's process, and reading what the job did.

use memweir_core::{Counts, JobId, Nanos};
use memweir_linux::blocker::Demand;
use memweir_linux::spread::spread;
use memweir_linux::world::World;
use memweir_linux::{Blocker, Launch, Meter, MeterError, MeterKind, OsError, Reading};
use memweir_policy::{Decision, Observation, Running};

/// Mechanisms of this machine, or of another one.
///
/// They are dropped in this order, so that signals reach the caller only once no job is blocked.
pub struct Mechanisms {
    /// Blocks jobs.
    pub blocker: Box<dyn Blocker>,
    /// Counts their traffic; absent if the policy can do without.
    pub meter: Option<Box<dyn Meter>>,
    /// Time, processes and signals.
    pub world: Box<dyn World>,
    /// Name of the blocking mechanism in reports.
    pub mechanism: String,
    /// Notices for the user about the above.
    pub notices: Vec<String>,
    blocking: Blocking,
    /// Jobs that were selected, and have not been [spread](Self::spread) since.
    woken: Vec<JobId>,
}

/// State of the blocking mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blocking {
    Works,
    /// It has failed, and all jobs run: the operating system schedules from then on.
    Failed,
    /// It has failed, and so has the last attempt to let all jobs run.
    Stuck,
}

/// Totals of a job at its last reading.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// True while its meter works.
    pub metered: bool,
    /// CPU time.
    pub cpu_time: Nanos,
    /// CPU time of its first process, once that has ended, and of the children that it waited for.
    pub ended_after: Option<Nanos>,
    /// Counts of its meter.
    pub counts: Counts,
    /// True if the next counts, which the meter derives from CPU time, contain those of an earlier
    /// span.
    pub owes_counts: bool,
    /// Counts of more than one span, which no observation has.
    pub unobserved: Counts,
}

impl Mechanisms {
    /// Takes the mechanisms of a batch or queue that has not begun. `mechanism` is the name of the
    /// blocking one in reports.
    #[must_use]
    pub fn new(
        blocker: Box<dyn Blocker>,
        meter: Option<Box<dyn Meter>>,
        world: Box<dyn World>,
        mechanism: String,
        notices: Vec<String>,
    ) -> Self {
        let (blocking, woken) = (Blocking::Works, Vec::new());
        Self { blocker, meter, world, mechanism, notices, blocking, woken }
    }

    /// Returns false once blocking has failed, so that the operating system schedules.
    #[must_use]
    pub fn can_block(&self) -> bool {
        self.blocking == Blocking::Works
    }

    /// Blocks every job. If that fails, every job runs and none is blocked from then on; returns
    /// the notices for the user about that.
    pub fn block(&mut self) -> Vec<String> {
        let blocked = self.blocker.block_all();
        self.checked(blocked)
    }

    /// Lets those jobs run that a decision selects, of those whose processes exist: `started`.
    /// `demand` is that of all jobs and of the selected ones. A failure is that of
    /// [`block`](Self::block); jobs that stayed blocked by it are resumed with the next decision.
    pub fn resume(
        &mut self,
        decision: &Decision,
        started: &[JobId],
        demand: Demand,
    ) -> Vec<String> {
        self.blocker.set_demand(demand);
        match self.blocking {
            Blocking::Works if decision.running != Running::Everything => {}
            Blocking::Works | Blocking::Failed => return Vec::new(),
            Blocking::Stuck => {
                let notice = self.run_all().map(|()| "all jobs run again".to_owned());
                return notice.into_iter().collect();
            }
        }
        self.woken.clone_from(&decision.chosen);
        let resumed = self.blocker.run_only(started);
        self.checked(resumed)
    }

    /// Blocks every job while this process is stopped, and lets these run once it is continued,
    /// which ran before. Returns the notices for the user about what failed.
    pub fn suspend(&mut self, running: &[JobId]) -> Vec<String> {
        if !self.can_block() {
            self.world.suspend();
            return vec!["jobs that cannot be blocked ran on while memweir was stopped".to_owned()];
        }
        let blocked = self.blocker.block_for_long();
        let mut notices = self.checked(blocked);
        self.world.suspend();
        if self.can_block() {
            let resumed = self.blocker.run_only(running);
            notices.extend(self.checked(resumed));
        }
        notices
    }

    /// Gives jobs that woke up on one processor processors of their own, as far as there are any.
    /// Takes a moment, so it is for the time in which the jobs run and nothing else is to be done.
    pub fn spread(&mut self) {
        let woken = std::mem::take(&mut self.woken);
        let threads: Vec<i32> = woken.iter().flat_map(|job| self.blocker.threads(*job)).collect();
        spread(&threads);
    }

    /// Gives up blocking if it has failed; returns the notices for the user about that.
    fn checked(&mut self, result: Result<(), OsError>) -> Vec<String> {
        result.map_or_else(|error| self.give_up_blocking(&error), |()| Vec::new())
    }

    /// A job that cannot be blocked must not stay blocked either.
    fn give_up_blocking(&mut self, error: &OsError) -> Vec<String> {
        self.woken.clear();
        let mut notices = vec![format!(
            "jobs can no longer be blocked ({error}); the operating system schedules from here on"
        )];
        if let Err(error) = self.run_all() {
            notices.push(format!("some jobs stay blocked until they can be resumed: {error}"));
        }
        notices
    }

    /// Lets all jobs run, after blocking has failed.
    fn run_all(&mut self) -> Result<(), OsError> {
        let result = self.blocker.run_all();
        self.blocking = if result.is_ok() { Blocking::Failed } else { Blocking::Stuck };
        result
    }

    /// Creates a job's process, metered and waiting before exec. Returns the meter's error if it
    /// cannot count the job.
    ///
    /// # Errors
    /// The first mechanism that refuses the job.
    pub fn spawn(
        &mut self,
        job: JobId,
        launch: &mut Launch,
    ) -> Result<Option<MeterError>, Box<dyn std::error::Error>> {
        let target = self.blocker.prepare(job)?;
        if let Some(meter) = &mut self.meter {
            meter.prepare(job, launch)?;
        }
        let pid = self.world.spawn(job, launch, &target)?;
        self.blocker.spawned(job, pid)?;
        Ok(self.meter.as_mut().and_then(|meter| meter.attach(job, pid).err()))
    }

    /// Reads what a job did since its `totals` were read, for quanta of this length. Its CPU time
    /// is part of the next reading if it cannot be read now. Counts that a meter derives from it
    /// are then no rate of that reading's span, and go to the totals alone. A job whose meter fails
    /// has no counts from then on; returns the error.
    pub fn read(
        &mut self,
        job: JobId,
        totals: &mut Totals,
        quantum: Nanos,
    ) -> (Observation, Option<MeterError>) {
        let before = totals.clone();
        // The accounts of a job that has just ended may be gone, and without a group they are
        // those of its living processes.
        let known = self.blocker.cpu_time(job).ok().max(before.ended_after);
        totals.cpu_time = known.map_or(before.cpu_time, |time| time.max(before.cpu_time));
        let (reading, error) = match known {
            None if self.counts_by_cpu_time() => (None, None),
            _ => self.read_meter(job, totals, quantum),
        };
        totals.owes_counts = known.is_none() && self.counts_by_cpu_time();
        let mut counts = reading.as_ref().map(|reading| reading.counts.since(&before.counts));
        let reading = reading.unwrap_or_default();
        if counts.is_some() {
            totals.counts = reading.counts;
        }
        if before.owes_counts {
            totals.unobserved += counts.take().unwrap_or_default();
        }
        let observation = Observation {
            job,
            cpu_time: known.map(|_| totals.cpu_time - before.cpu_time),
            counts,
            instruction_pointers: reading.instruction_pointers,
            forecast: reading.forecast,
        };
        (observation, error)
    }

    /// Returns true if the meter counts nothing itself, but derives all counts from CPU time.
    fn counts_by_cpu_time(&self) -> bool {
        self.meter.as_ref().is_some_and(|meter| meter.kind() == MeterKind::Declared)
    }

    fn read_meter(
        &mut self,
        job: JobId,
        totals: &mut Totals,
        quantum: Nanos,
    ) -> (Option<Reading>, Option<MeterError>) {
        let Some(meter) = self.meter.as_mut().filter(|_| totals.metered) else {
            return (None, None);
        };
        match meter.read(job, totals.cpu_time, quantum) {
            Ok(reading) => (Some(reading), None),
            Err(error) => {
                totals.metered = false;
                (None, Some(error))
            }
        }
    }
}
