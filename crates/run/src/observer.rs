//! Events of a running batch for an observer. Rendering lives in the command.

use memweir_core::{BytesPerSec, JobId, Nanos};
use memweir_linux::meter::Reason;
use memweir_linux::{Mechanism, MeterKind};
use memweir_policy::Bus;

use crate::timeline::Row;

/// Progress of the batch at the end of a quantum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Number of the quantum that ended, from zero.
    pub quantum: u64,
    /// Time since the first exec.
    pub elapsed: Nanos,
    /// Bandwidth of all jobs together in this quantum; absent where no meter counts.
    pub bandwidth: Option<BytesPerSec>,
    /// Jobs that are over.
    pub jobs_done: usize,
    /// Jobs of the batch.
    pub jobs: usize,
    /// Estimated time until the last job ends, where enough is known to estimate it.
    pub remaining: Option<Nanos>,
}

/// Event of a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event<'a> {
    /// One of several runs of a comparison starts.
    RunStarted {
        /// The variant, as it is named on the command line.
        variant: &'a str,
        /// Number of the round, from zero.
        round: u32,
        /// Number of rounds.
        rounds: u32,
    },
    /// The meter was chosen.
    MeterChosen {
        /// The meter.
        kind: MeterKind,
        /// Reason for the choice, as one sentence.
        reason: &'a str,
    },
    /// The blocking mechanism was chosen.
    MechanismChosen {
        /// The mechanism.
        mechanism: Mechanism,
        /// Reason for the choice, as one sentence.
        reason: &'a str,
    },
    /// A batch begins on a memory bus of which this is known.
    BusKnown(Bus),
    /// The meter could not take a job, or could no longer read it.
    MeterFailed {
        /// The meter.
        kind: MeterKind,
        /// Kind of the failure.
        reason: Reason,
    },
    /// Number of the jobs of a queue that have not started.
    Queued(usize),
    /// Notice for the user; the batch goes on.
    Notice(&'a str),
    /// The job's program was started.
    JobStarted {
        /// The job.
        job: JobId,
        /// Its name.
        name: &'a str,
    },
    /// The jobs were switched between two quanta.
    Switched {
        /// Time from blocking the jobs of one quantum to the resumption of those of the next.
        took: Nanos,
    },
    /// A quantum ended.
    QuantumEnded(&'a Progress),
    /// Rows of the quantum that ended, one for each job; only for observers that [want
    /// rows](Observer::wants_rows).
    QuantumRecorded(&'a [Row]),
    /// The job is over.
    JobEnded {
        /// The job.
        job: JobId,
        /// Its name.
        name: &'a str,
        /// Exit code; 128 + signal if a signal ended it; absent if it was left running, or waits
        /// again because the machine had no room for it.
        exit_code: Option<i32>,
        /// From its exec to its end.
        wall: Nanos,
    },
}

/// Watches a batch. Called from the scheduling loop, so it must return quickly.
pub trait Observer {
    /// Handles an event.
    fn event(&mut self, event: Event<'_>);

    /// Returns true if [`Event::QuantumRecorded`] is wanted. Asked each quantum; rows cost time to
    /// make.
    fn wants_rows(&self) -> bool {
        false
    }
}

/// Observer that ignores every event.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {
    fn event(&mut self, _event: Event<'_>) {}
}
