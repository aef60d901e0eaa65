//! Knowledge of programs: the profile store of `memweir run`, read when jobs are submitted, and
//! extended by the first runs of programs that it does not know.
//!
//! First runs are written by a `Keeper` in threads of its own: another writer of the store may hold
//! it for seconds, and the loop that runs the jobs must not wait for that.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use memweir_core::profile::Profile;
use memweir_core::{BytesPerSec, JobId, Media, Nanos};
use memweir_linux::MeterKind;
use memweir_policy::Observation;
use memweir_run::batch::{Knowledge, Known, invocation};
use memweir_run::jobs::{Batch, Command, Job};
use memweir_run::platform::Machine;
use memweir_run::profile::Observed;
use memweir_run::recording::Recording;
use memweir_run::store::{
    InputFile, InputState, ProgramKey, ProgramState, Provenance, Store, StoreError, inputs,
    not_written,
};
use serde::{Deserialize, Serialize};

use crate::protocol::Work;
use crate::queue::Source;
use crate::service::{Service, lock, thread};

/// The profile store as submissions see it.
#[derive(Debug)]
pub struct Profiles {
    /// Open stores that are not in use. No use waits for another one, whose look at the files of a
    /// job may take forever.
    idle: Mutex<Vec<Store>>,
    path: PathBuf,
}

/// Knowledge of a job before it runs.
#[derive(Debug, Default)]
pub(crate) struct Foreknowledge {
    /// Execution time alone.
    pub(crate) time: Option<Nanos>,
    /// Mean bandwidth alone.
    pub(crate) bandwidth: Option<BytesPerSec>,
    /// Source of both.
    pub(crate) source: Option<Source>,
    /// Key of the command in the store.
    pub(crate) program: Option<Arc<str>>,
}

impl Profiles {
    /// Opens the store at `path`, by default the one that `memweir run` uses.
    ///
    /// # Errors
    /// If the store cannot be used.
    pub fn open(path: Option<&Path>) -> Result<Self, StoreError> {
        let store = Store::open(path)?;
        let path = store.path().to_owned();
        Ok(Self { idle: Mutex::new(vec![store]), path })
    }

    /// The store's file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the store for one use.
    fn store(&self) -> Result<Store, StoreError> {
        let idle = lock(&self.idle).pop();
        idle.map_or_else(|| Store::open(Some(&self.path)), Ok)
    }

    /// Keeps a first run, and returns the key that it has in the store; `None` if the store knew
    /// the program.
    fn keep(&self, run: &FirstRun) -> Result<Option<String>, StoreError> {
        let store = self.store()?;
        let kept = keep(&store, run);
        lock(&self.idle).push(store);
        kept
    }

    /// Returns what is known of a job with these estimates of its submitter.
    pub(crate) fn look_up(
        &self,
        name: &str,
        work: &Work,
        cores: u32,
        time: Option<Nanos>,
        bandwidth: Option<BytesPerSec>,
    ) -> Foreknowledge {
        let job = Job {
            cores,
            expected_time: time,
            expected_reads: bandwidth,
            ..job(name.to_owned(), work)
        };
        let program = work.program.to_path();
        let key = ProgramKey::of(&invocation(&job, &program)).ok();
        let batch = Batch { jobs: vec![job] };
        let store = self.store().ok();
        let mut knowledge =
            Knowledge::gather(&batch, &[program], store.as_ref(), cores).unwrap_or_default();
        lock(&self.idle).extend(store);
        let known = knowledge.jobs.pop().unwrap_or_default();
        Foreknowledge {
            time: known.time.or(time),
            bandwidth: known.bandwidth.or(bandwidth),
            source: source(&known, time, bandwidth),
            program: key.map(|key| key.as_str().into()),
        }
    }
}

/// Returns the source of what is known of a job, beside the estimates of its submitter.
fn source(known: &Known, time: Option<Nanos>, bandwidth: Option<BytesPerSec>) -> Option<Source> {
    match (time, bandwidth) {
        (None, None) if known.source.is_none() => None,
        (None, None) if known.replaced => Some(Source::Replaced),
        (None, None) => Some(Source::Store),
        (Some(_), None) | (None, Some(_)) if known.source.is_some() => {
            Some(Source::SubmissionAndStore)
        }
        _ => Some(Source::Submission),
    }
}

/// Returns a submission's work as a job of a batch.
fn job(name: String, work: &Work) -> Job {
    let argv = work.argv.iter().map(OsString::from).collect();
    Job { directory: Some(work.directory.to_path()), ..Job::new(name, Command::Exec(argv)) }
}

/// The beginning of a first run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Begin {
    command: Vec<String>,
    /// With the program's file as it was then.
    key: ProgramKey,
    /// The files that it names, as they were then.
    inputs: Vec<InputFile>,
}

impl Begin {
    /// Looks at the files of a job that is about to start, which may take as long as the slowest
    /// file server.
    ///
    /// # Errors
    /// If the program or the working directory is not there.
    pub(crate) fn of(work: &Work) -> io::Result<Self> {
        let invocation = invocation(&job("job".to_owned(), work), &work.program.to_path());
        let command = invocation.argv.iter().map(|word| word.to_string_lossy().into_owned());
        let (key, inputs) = (ProgramKey::of(&invocation)?, inputs(&invocation));
        Ok(Self { command: command.collect(), key, inputs })
    }
}

/// A first run that is being watched.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    readings: Observed,
    /// Time for which it had cores, up to the last reading.
    ran: Nanos,
    /// Time since which it has cores, if it has not been read since.
    resumed: Option<Nanos>,
}

impl Watch {
    /// Notes that the job has cores from now on.
    pub(crate) fn resume(&mut self, now: Nanos) {
        self.resumed.get_or_insert(now);
    }

    /// Adds a reading; the job is blocked until it is resumed.
    pub(crate) fn read(&mut self, observation: &Observation, now: Nanos) {
        self.readings.add(observation);
        if let Some(resumed) = self.resumed.take() {
            self.ran += now.saturating_sub(resumed);
        }
    }

    /// Returns the run of a job that began so and has ended; `None` if nothing was counted.
    pub(crate) fn first_run(self, job: JobId, begin: Begin, meter: MeterKind) -> Option<FirstRun> {
        let profile = self.readings.profile(self.ran)?;
        Some(FirstRun { job, begin, profile, meter })
    }
}

/// A first run that ended well.
#[derive(Debug)]
pub(crate) struct FirstRun {
    pub(crate) job: JobId,
    begin: Begin,
    pub(crate) profile: Profile,
    pub(crate) meter: MeterKind,
}

/// Longest time for which the next first run waits for one that is being written, and for which the
/// end of a daemon waits for all: longer than a writer of the store waits for another. A file
/// server that does not answer may hold up any look at their files.
const KEEP_TIMEOUT: Duration = Duration::from_secs(15);

/// The writer of first runs, one after the other. It writes those that it has when it is dropped.
pub(crate) struct Keeper {
    runs: Option<Sender<FirstRun>>,
    /// Disconnected when all runs have been written or given up; nothing is sent.
    ended: Receiver<()>,
}

impl Keeper {
    /// Starts a writer for the profile store of a service.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(crate) fn start(service: Arc<Service>) -> io::Result<Self> {
        Self::with(KEEP_TIMEOUT, move |run| {
            let Some(profiles) = service.profiles() else { return };
            let job = run.job;
            match profiles.keep(run) {
                Ok(Some(key)) => service.learned(&key, job, &run.profile),
                Ok(None) => {}
                Err(reason) => service.notice(format!("job {job} is not profiled: {reason}")),
            }
        })
    }

    fn with(
        timeout: Duration,
        keep: impl Fn(&FirstRun) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let (runs, incoming) = channel::<FirstRun>();
        let (end, ended) = channel();
        let keep = Arc::new(keep);
        thread("profiles", move || {
            let _end: Sender<()> = end;
            for run in incoming {
                let (done, kept) = channel::<()>();
                let keep = Arc::clone(&keep);
                // A run for which there is no thread is lost: the next of its program is the first.
                let _ = thread("profile", move || {
                    keep(&run);
                    drop(done);
                });
                let _ = kept.recv_timeout(timeout);
            }
        })?;
        Ok(Self { runs: Some(runs), ended })
    }

    /// Keeps a first run.
    pub(crate) fn keep(&self, run: FirstRun) {
        if let Some(runs) = &self.runs {
            // The thread ends with this handle alone.
            let _ = runs.send(run);
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.runs = None;
        let _ = self.ended.recv_timeout(KEEP_TIMEOUT);
    }
}

/// Keeps a run, and returns the key that it has in the store; `None` if the store knew the program:
/// another run of it was first.
fn keep(store: &Store, run: &FirstRun) -> Result<Option<String>, StoreError> {
    let Begin { command, key, inputs } = &run.begin;
    // An unreadable entry is replaced.
    if let Ok(Some(stored)) = store.get(key)
        && stored.program == ProgramState::Unchanged
        && !matches!(stored.inputs, InputState::Changed(_))
    {
        return Ok(None);
    }
    let recording = Recording {
        command: command.clone(),
        meter: run.meter.name().to_owned(),
        machine: Machine::here().name(),
        date: Timestamp::now(),
        media: Media::dram_only(),
        profile: run.profile.clone(),
    };
    let inputs = not_written(inputs.clone(), Path::to_path_buf);
    store.put(key, &recording, &Provenance { exit_code: 0, inputs })?;
    Ok(Some(key.as_str().to_owned()))
}

#[cfg(test)]
mod tests;
