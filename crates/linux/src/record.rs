//! Recording a program's memory behavior along its own execution with the software PMU.
//!
//! A recording is a sequence of [`Chunk`]s in virtual time: the behavior of each slice of about the
//! same number of instructions. It knows nothing of native time; callers that lay it on the clock
//! scale [`Chunk::cycles`].

mod course;

use std::time::{Duration, Instant};

pub use memweir_abi::softpmu::Sampling;
use memweir_abi::softpmu::{LineBatch, Unfinished};
use memweir_core::cache::CacheHierarchy;
use memweir_core::{Counts, Nanos};

use crate::OsError;
use crate::blocker::SpawnTarget;
use crate::launch::{Exit, Launch, LaunchError, Process, Signals, Waited, launch as start};
pub use crate::qemu::QemuError;
use crate::qemu::{Qemu, QemuPaths};
use crate::softpmu::{CountingPlan, JobCounters, LastLevel};
use course::Course;

/// Source of the memory counts of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Every access went through the cache model.
    Simulated,
    /// Instructions were counted; the memory counts are those of the simulated chunks whose
    /// instruction pointers are nearest.
    Extrapolated,
}

/// One slice of the execution.
#[derive(Clone, Debug, PartialEq)]
pub struct Chunk {
    /// Its counts.
    pub counts: Counts,
    /// Its length in cycles, by estimated costs of instructions and misses. Only the ratios
    /// between chunks matter.
    pub cycles: f64,
    /// Instructions per code region in units of 1,024 (iabw section 4.2).
    pub instruction_pointers: Vec<u32>,
    /// Source of the memory counts.
    pub origin: Origin,
}

/// A recorded program.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The chunks of all processes of the command, in the order in which they ended. Threads of a
    /// process fill its chunks together. Processes at work at the same time alternate, so that
    /// the row is as long as the CPU time of all, not as the wall-clock time.
    pub chunks: Vec<Chunk>,
    /// The end of the command.
    pub status: Exit,
    /// Share of the instructions that went through the cache model and were counted, 0 to 1.
    pub sampled_share: f64,
    /// Uncertainty of the extrapolated traffic. `None` without sampling, or if there are fewer than
    /// two bursts beside the start of the program.
    pub sampling_error: Option<SamplingError>,
    /// The caches that were simulated.
    pub caches: CacheHierarchy,
    /// Number of processes and programs that were not counted.
    pub uncounted: u64,
    /// Messages for the user, such as programs that ran outside the emulator.
    pub notices: Vec<String>,
}

/// Half the width of the 95 % confidence interval of a sampled recording's traffic. Lines that a
/// skipped stretch would have brought into the caches are missed once more in a burst; this bias is
/// not part of the interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SamplingError {
    /// In lines, read and written.
    pub lines: f64,
    /// As a share of the traffic.
    pub share: f64,
}

/// Progress of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordProgress {
    /// Instructions so far.
    pub instructions: u64,
    /// Chunks so far.
    pub chunks: usize,
}

/// Why a command could not be recorded.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The emulator, the plugin or the program is not usable.
    #[error(transparent)]
    Qemu(#[from] QemuError),
    /// An option is out of its range.
    #[error("{0}")]
    Option(String),
    /// The program could not be started.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// A signal asked for the end; the program was killed.
    #[error("ended by {0}")]
    Interrupted(&'static str),
    /// The operating system refused.
    #[error(transparent)]
    Os(#[from] OsError),
}

/// The fewest instructions per chunk: below, the cost of handling chunks would be noticeable.
pub const MIN_CHUNK: u64 = 10_000;

/// Interval at which chunks are collected. The ring between holds thousands.
const POLL: Nanos = Nanos::from_millis(5);

/// Interval at which progress is reported.
const PROGRESS: Duration = Duration::from_millis(100);

/// Receiver of every line that is read from or written to memory. The program waits where it is
/// slower. Nothing is left out but accesses that a killed thread has not handed over yet, and those
/// of processes that outlive the command's first one.
pub type Sink<'a> = &'a mut dyn FnMut(&LineBatch);

/// Runs a command in the emulator, found by `paths`, to its end and records its memory behavior.
/// Processes that outlive the command's first one are recorded up to its end. A signal kills the
/// command.
///
/// # Errors
/// The plan needs chunks of [`MIN_CHUNK`] or more. Sampling does not go together with a sink.
pub fn record(
    mut launch: Launch,
    plan: &CountingPlan,
    paths: &QemuPaths,
    signals: &Signals,
    progress: &mut dyn FnMut(RecordProgress),
    mut sink: Option<Sink<'_>>,
) -> Result<Recording, RecordError> {
    if sink.is_some() && plan.sampling != Sampling::All {
        return Err(RecordError::Option(
            "addresses are recorded of a program that is simulated as a whole".to_owned(),
        ));
    }
    plan.caches.validate().map_err(|e| RecordError::Option(e.to_string()))?;
    let chunk = plan.chunk_instructions.unwrap_or(0);
    if chunk < MIN_CHUNK {
        return Err(RecordError::Option(format!(
            "{chunk} instructions per chunk; at least {MIN_CHUNK} are needed"
        )));
    }
    let qemu = Qemu::find(paths)?;
    let counters = JobCounters::new(plan).map_err(OsError::of("cannot make the counters"))?;
    if sink.is_some() {
        counters.record_accesses();
    }
    let last_level = LastLevel::new(&plan.caches.llc)
        .map_err(OsError::of("cannot make the last-level cache"))?;
    qemu.emulate(&mut launch, &counters.path(), &last_level.path(), None)?;
    let mut process = start(&launch, &SpawnTarget::Session)?.exec()?;
    let mut course = Course::new(plan.sampling);
    let status = follow(&mut process, signals, &counters, &mut course, progress, &mut sink)?;
    Ok(course.finish(status, plan.caches, &counters))
}

fn follow(
    process: &mut Process,
    signals: &Signals,
    counters: &JobCounters,
    course: &mut Course,
    progress: &mut dyn FnMut(RecordProgress),
    sink: &mut Option<Sink<'_>>,
) -> Result<Exit, RecordError> {
    let mut told = Instant::now();
    loop {
        let waited = signals.wait(process, POLL);
        let status = match waited.map_err(OsError::of("cannot wait for the program"))? {
            Waited::Runs => None,
            Waited::Ended(exit) => Some(exit),
            Waited::Killed(signal) => return Err(RecordError::Interrupted(signal.as_str())),
        };
        let unfinished = if status.is_some() { Unfinished::Skip } else { Unfinished::Wait };
        while let Some(chunk) = counters.take_chunk(unfinished) {
            course.push(chunk);
        }
        if let Some(sink) = sink {
            if status.is_some() {
                counters.end_accesses();
            }
            while let Some(batch) = counters.take_accesses(unfinished) {
                sink(&batch);
            }
        }
        if told.elapsed() >= PROGRESS || status.is_some() {
            told = Instant::now();
            let instructions = counters.totals().instructions();
            progress(RecordProgress { instructions, chunks: course.len() });
        }
        if let Some(status) = status {
            return Ok(status);
        }
    }
}
