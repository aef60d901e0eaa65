//! Accounts of one batch: the records of each job and each quantum, and the reports made from them.

use memweir_core::{BytesPerSec, Counts, JobId, Nanos};
use memweir_linux::Capabilities;
use memweir_policy::quantum_loop::Quantum;

use super::slots::Slots;
use crate::jobs::Batch;
use crate::observer::Progress;
use crate::report::{JobReport, Outcome};

/// Returns the bandwidth of all jobs of a quantum together; absent if nothing was counted for any
/// of them.
#[must_use]
pub fn bandwidth(quantum: &Quantum) -> Option<BytesPerSec> {
    let counted: Vec<Counts> = quantum.jobs.iter().filter_map(|job| job.counts).collect();
    if counted.is_empty() {
        return None;
    }
    let total = counted.into_iter().fold(Counts::default(), |sum, counts| sum + counts);
    Some(total.bandwidth(quantum.summary.elapsed))
}

/// Account of one job.
#[derive(Clone, Debug, Default)]
struct Account {
    /// Start of its program, until it is over.
    since: Option<Nanos>,
    was_started: bool,
    exit_code: Option<i32>,
    wall: Nanos,
    cpu_time: Nanos,
    running: Nanos,
    quanta: u64,
    counts: Counts,
    counting_failed: bool,
    peak: BytesPerSec,
    /// Time with cores of its own.
    with_cores: Nanos,
    /// The work of that time by the predicted speeds, in seconds alone.
    predicted_s: f64,
    expected: Option<Nanos>,
    cores: u32,
}

impl Account {
    /// Returns the time alone of a job that did all of its work.
    fn expected_s(&self) -> Option<f64> {
        self.expected.filter(|_| self.exit_code == Some(0)).map(Nanos::as_secs_f64)
    }

    /// Returns the mean speed at which it did `work_s` seconds of work with cores of its own.
    fn speed(&self, work_s: Option<f64>) -> Option<f64> {
        work_s
            .filter(|_| self.with_cores > Nanos::ZERO)
            .map(|work| work / self.with_cores.as_secs_f64())
    }
}

/// Accounts of one batch.
#[derive(Debug)]
pub(super) struct Ledger {
    cores: u32,
    quantum: Nanos,
    accounts: Vec<Account>,
    /// Bandwidth of each whole quantum.
    bandwidths: Vec<BytesPerSec>,
    quanta: u64,
    first_exec: Option<Nanos>,
    last_end: Nanos,
    last: Option<(Nanos, Option<BytesPerSec>)>,
}

impl Ledger {
    /// Opens the accounts of jobs of which at most the execution times are known.
    pub(super) fn new(
        batch: &Batch,
        expected: &[Option<Nanos>],
        cores: u32,
        quantum: Nanos,
    ) -> Self {
        let account = |(job, expected): (&crate::jobs::Job, &Option<Nanos>)| Account {
            expected: *expected,
            cores: job.cores,
            ..Account::default()
        };
        Self {
            cores,
            quantum,
            accounts: batch.jobs.iter().zip(expected).map(account).collect(),
            bandwidths: Vec::new(),
            quanta: 0,
            first_exec: None,
            last_end: Nanos::ZERO,
            last: None,
        }
    }

    /// Notes that the job's program has started.
    pub(super) fn started(&mut self, job: JobId, now: Nanos) {
        self.first_exec.get_or_insert(now);
        let account = &mut self.accounts[job.index()];
        account.since = Some(now);
        account.was_started = true;
    }

    /// Time since the first exec.
    pub(super) fn elapsed(&self, now: Nanos) -> Nanos {
        now.saturating_sub(self.first_exec.unwrap_or(now))
    }

    /// Notes that counting has failed for the job.
    pub(super) fn counting_failed(&mut self, job: JobId) {
        self.accounts[job.index()].counting_failed = true;
    }

    /// Adds counts that belong to no single quantum.
    pub(super) fn count(&mut self, job: JobId, counts: Counts) {
        self.accounts[job.index()].counts += counts;
    }

    /// Notes that the job is over, or was left running without an exit code; returns its wall time.
    pub(super) fn ended(&mut self, job: JobId, exit_code: Option<i32>, now: Nanos) -> Nanos {
        let account = &mut self.accounts[job.index()];
        if let Some(start) = account.since.take() {
            account.wall = now.saturating_sub(start);
            self.last_end = self.last_end.max(now);
        }
        account.exit_code = exit_code;
        account.wall
    }

    /// Adds a quantum that is over.
    pub(super) fn quantum_ended(&mut self, quantum: &Quantum) {
        for entry in &quantum.jobs {
            let account = &mut self.accounts[entry.job.index()];
            account.cpu_time += entry.cpu_time;
            account.running += entry.running;
            account.quanta += u64::from(entry.chosen);
            if let Some(speed) = entry.speed {
                account.with_cores += entry.running;
                account.predicted_s += entry.running.as_secs_f64() * speed;
            }
            if let Some(counts) = entry.counts {
                account.counts += counts;
                account.peak = account.peak.max(counts.bandwidth(entry.running));
            }
        }
        self.quanta += 1;
        let (bandwidth, elapsed) = (bandwidth(quantum), quantum.summary.elapsed);
        // The batch's last quantum is cut short; a bandwidth over next to no time says nothing.
        if elapsed.0 >= self.quantum.0 / 2 || self.bandwidths.is_empty() {
            self.bandwidths.extend(bandwidth);
        }
        self.last = Some((self.elapsed(quantum.start) + elapsed, bandwidth));
    }

    /// Returns the progress of the batch, whose jobs are in these stages.
    pub(super) fn progress(&self, slots: &Slots) -> Progress {
        let (mut over, mut rest) = (Vec::new(), Vec::new());
        for (job, account) in (0..).map(JobId).zip(&self.accounts) {
            if slots.is_over(job) { over.push(account) } else { rest.push(account) }
        }
        let (elapsed, bandwidth) = self.last.unwrap_or_default();
        Progress {
            quantum: self.quanta.saturating_sub(1),
            elapsed,
            bandwidth,
            jobs_done: over.len(),
            jobs: self.accounts.len(),
            remaining: self.remaining(&over, &rest),
        }
    }

    /// Time that the rest will take if every core stays busy until the last job runs alone. A job
    /// without an expected time is taken to use as much CPU time as those that are over did on
    /// average. Where it has used that already, the time is unknown.
    fn remaining(&self, over: &[&Account], rest: &[&Account]) -> Option<Nanos> {
        let typical = (!over.is_empty())
            .then(|| over.iter().map(|a| a.cpu_time.0).sum::<u64>() / over.len() as u64);
        let (mut work, mut longest) = (0u128, 0u64);
        for account in rest {
            let cores = u64::from(account.cores.max(1));
            let left = match account.expected {
                Some(time) => time.0.saturating_mul(cores).saturating_sub(account.cpu_time.0),
                None => typical?.checked_sub(account.cpu_time.0).filter(|left| *left > 0)?,
            };
            work += u128::from(left);
            longest = longest.max(left / cores);
        }
        let shared = u64::try_from(work / u128::from(self.cores.max(1))).unwrap_or(u64::MAX);
        Some(Nanos(longest.max(shared)))
    }

    /// Bandwidths of the whole quanta so far.
    pub(super) fn bandwidths(&self) -> &[BytesPerSec] {
        &self.bandwidths
    }

    /// Number of quanta so far.
    pub(super) fn quanta(&self) -> u64 {
        self.quanta
    }

    /// From the first exec to the end of the last job, or, for a batch that was ended at `now`,
    /// until then.
    pub(super) fn turnaround(&self, outcome: Outcome, now: Nanos) -> Nanos {
        self.elapsed(match outcome {
            Outcome::Finished => self.last_end,
            Outcome::Interrupted | Outcome::FailedFast | Outcome::PolicyFailed => now,
        })
    }

    /// Everything that was counted for a job.
    pub(super) fn counts(&self, job: JobId) -> Counts {
        self.accounts[job.index()].counts
    }

    /// The report of one job.
    pub(super) fn job_report(&self, job: JobId, sees: Option<&Capabilities>) -> JobReport {
        let account = &self.accounts[job.index()];
        let counted = sees.filter(|_| !account.counting_failed);
        JobReport {
            exit_code: account.exit_code,
            // A program that cannot be executed has the code of a shell.
            never_started: !account.was_started && account.exit_code.is_none(),
            wall_s: account.wall.as_secs_f64(),
            running_s: account.cpu_time.as_secs_f64(),
            quanta: account.quanta,
            instructions: counted
                .filter(|sees| sees.instructions)
                .map(|_| account.counts.instructions),
            memory_reads: counted.map(|_| account.counts.reads.0),
            memory_writes: counted.filter(|sees| sees.writes).map(|_| account.counts.writes.0),
            bandwidth_mean: counted.map(|_| account.counts.bandwidth(account.running).0),
            bandwidth_peak: counted.map(|_| account.peak.0),
            predicted_speed: counted
                .and(account.speed(Some(account.predicted_s)))
                .map(|speed| speed.min(1.0)),
            measured_speed: account.speed(account.expected_s()),
            ..JobReport::default()
        }
    }
}

#[cfg(test)]
mod tests;
