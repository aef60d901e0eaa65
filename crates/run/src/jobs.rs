//! The jobs of a batch, as data. Reading them from a file or from arguments lives in the
//! submodules; starting them lives in [`crate::batch`].

mod arguments;
mod file;

pub use arguments::SEPARATOR;
pub use file::JobsFile;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use memweir_core::address_map::ColorSet;
use memweir_core::input::InputError;
use memweir_core::placement::PlacementSpec;
use memweir_core::{BytesPerSec, Nanos, Priority};

/// The jobs that are submitted together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// The jobs, in the order in which they were given; the place is their
    /// [`JobId`](memweir_core::JobId).
    pub jobs: Vec<Job>,
}

/// Command of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// A program and its arguments; the program comes first.
    Exec(Vec<OsString>),
    /// A line for `sh -c`.
    Shell(OsString),
}

/// One job.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Name, unique in the batch; also the name of its log files.
    pub name: String,
    /// Its command.
    pub command: Command,
    /// Working directory; that of memweir if absent.
    pub directory: Option<PathBuf>,
    /// Environment variables set for it on top of memweir's own.
    pub env: BTreeMap<OsString, OsString>,
    /// File for its standard input; `/dev/null` if absent.
    pub stdin: Option<PathBuf>,
    /// Cores that it occupies while it runs: one, or its number of busy threads.
    pub cores: u32,
    /// Execution time alone, `T_j` of iabw section 3.3.
    pub expected_time: Option<Nanos>,
    /// Mean rate of memory reads when it runs alone.
    pub expected_reads: Option<BytesPerSec>,
    /// Mean rate of memory writes when it runs alone.
    pub expected_writes: Option<BytesPerSec>,
    /// A recording of `memweir profile` to follow instead of the profile store's.
    pub profile: Option<PathBuf>,
    /// Placement of its pages; that of the batch if absent.
    pub placement: Option<PlacementSpec>,
    /// Page colors that its memory is to have; all if absent.
    pub colors: Option<ColorSet>,
    /// Bandwidth that it may draw in each millisecond; unlimited if absent.
    pub bandwidth_limit: Option<BytesPerSec>,
    /// Number of banks beyond which it is no faster, for the planning of colors.
    pub demanded_banks: Option<u32>,
    /// Priority, for policies with an objective.
    pub priority: Priority,
    /// CPUs that [`Pinning::ByHand`](crate::options::Pinning::ByHand) binds it to; all if empty.
    pub cpus: Vec<usize>,
    /// Places in the jobs file of values that the machine or the batch's options may show to be
    /// wrong.
    pub origin: Origin,
}

/// Places of a job's values in a jobs file, by key; none for a job from elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin(BTreeMap<&'static str, InputError>);

impl Command {
    /// The arguments as they are executed, the program first.
    #[must_use]
    pub fn argv(&self) -> Vec<OsString> {
        match self {
            Self::Exec(argv) => argv.clone(),
            Self::Shell(line) => vec!["/bin/sh".into(), "-c".into(), line.clone()],
        }
    }
}

impl Job {
    /// Creates a job on one core of which only the command is known.
    #[must_use]
    pub fn new(name: impl Into<String>, command: Command) -> Self {
        Self {
            name: name.into(),
            command,
            directory: None,
            env: BTreeMap::new(),
            stdin: None,
            cores: 1,
            expected_time: None,
            expected_reads: None,
            expected_writes: None,
            profile: None,
            placement: None,
            colors: None,
            bandwidth_limit: None,
            demanded_banks: None,
            priority: Priority::default(),
            cpus: Vec::new(),
            origin: Origin::default(),
        }
    }

    /// Creates a refusal of the job's value of `key`, with its place in the jobs file.
    #[must_use]
    pub fn refuse(&self, key: &str, reason: impl Into<String>) -> InputError {
        let reason = reason.into();
        match self.origin.0.get(key) {
            Some(place) => InputError { reason, ..place.clone() },
            None => InputError::new(&self.name, reason).key(key),
        }
    }

    /// Mean bandwidth alone, `B_j` of iabw eq. (8), where the jobs file gives one.
    #[must_use]
    pub fn expected_bandwidth(&self) -> Option<BytesPerSec> {
        match (self.expected_reads, self.expected_writes) {
            (None, None) => None,
            (reads, writes) => Some(reads.unwrap_or_default() + writes.unwrap_or_default()),
        }
    }

    /// Returns true if the jobs file itself gives the job's time and traffic; a recording that it
    /// names takes precedence.
    #[must_use]
    pub fn declares_traffic(&self) -> bool {
        self.profile.is_none()
            && self.expected_time.is_some()
            && self.expected_bandwidth().is_some()
    }
}

#[cfg(test)]
mod tests;
