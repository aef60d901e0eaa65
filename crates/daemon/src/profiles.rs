//! Knowledge of programs: the profile store of `memweir run`, read when jobs are submitted, and
//! extended by the first runs of programs that it does not know.
//!
//! First runs are written by a `Keeper` in a thread of its own: another writer of the store may
//! hold it for seconds, and the loop that runs the jobs must not wait for that.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

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
    InputFile, InputState, Invocation, ProgramKey, ProgramState, Provenance, Store, StoreError,
    inputs, not_written,
};

use crate::protocol::Work;
use crate::queue::Source;
use crate::service::{Service, lock};

/// The profile store as submissions see it.
#[derive(Debug)]
pub struct Profiles {
    store: Mutex<Store>,
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
        Ok(Self { store: Mutex::new(store), path })
    }

    /// The store's file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
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
        let store = lock(&self.store);
        let mut knowledge =
            Knowledge::gather(&batch, &[program], Some(&store), cores).unwrap_or_default();
        drop(store);
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
#[derive(Clone, Debug)]
struct Begin {
    invocation: Invocation,
    /// With the program's file as it was then.
    key: ProgramKey,
    /// The files that it names, as they were then.
    inputs: Vec<InputFile>,
}

impl Begin {
    /// Notes the files of a job that is about to start.
    ///
    /// # Errors
    /// If the program or the working directory is not there.
    fn of(name: &str, work: &Work) -> io::Result<Self> {
        let invocation = invocation(&job(name.to_owned(), work), &work.program.to_path());
        let (key, inputs) = (ProgramKey::of(&invocation)?, inputs(&invocation));
        Ok(Self { invocation, key, inputs })
    }
}

/// A first run that is being watched.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// Its files at its start; absent before that, and if it cannot start.
    begin: Option<Begin>,
    readings: Observed,
    /// Time for which it had cores, up to the last reading.
    ran: Nanos,
    /// Time since which it has cores, if it has not been read since.
    resumed: Option<Nanos>,
}

impl Watch {
    /// Notes the files of the job, which is about to start.
    pub(crate) fn begin(&mut self, name: &str, work: &Work) {
        self.begin = Begin::of(name, work).ok();
    }

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

    /// Returns the run of a job that has ended; `None` if nothing was counted.
    pub(crate) fn first_run(self, job: JobId, meter: MeterKind) -> Option<FirstRun> {
        let profile = self.readings.profile(self.ran)?;
        Some(FirstRun { job, begin: self.begin?, profile, meter })
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

/// The thread that writes first runs. It writes those that it has when it is dropped.
#[derive(Debug)]
pub(crate) struct Keeper {
    runs: Option<Sender<FirstRun>>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Starts the thread for the store at `path`.
    ///
    /// # Errors
    /// If the store cannot be opened, or no thread can be started.
    pub(crate) fn start(path: &Path, service: Arc<Service>) -> Result<Self, StoreError> {
        let store = Store::open(Some(path))?;
        let (runs, incoming) = channel::<FirstRun>();
        let builder = std::thread::Builder::new().name("profiles".to_owned());
        let keep = move || {
            for run in incoming {
                let job = run.job;
                match keep(&store, &run) {
                    Ok(Some(key)) => service.learned(&key, job, &run.profile),
                    Ok(None) => {}
                    Err(reason) => service.notice(format!("job {job} is not profiled: {reason}")),
                }
            }
        };
        let started = builder.spawn(keep);
        let thread = started.map_err(|source| StoreError::Io { path: path.to_owned(), source })?;
        Ok(Self { runs: Some(runs), thread: Some(thread) })
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
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Keeps a run, and returns the key that it has in the store; `None` if the store knew the program:
/// another run of it was first.
fn keep(store: &Store, run: &FirstRun) -> Result<Option<String>, StoreError> {
    let Begin { invocation, key, inputs } = &run.begin;
    // An unreadable entry is replaced.
    if let Ok(Some(stored)) = store.get(key)
        && stored.program == ProgramState::Unchanged
        && !matches!(stored.inputs, InputState::Changed(_))
    {
        return Ok(None);
    }
    let command = invocation.argv.iter().map(|word| word.to_string_lossy().into_owned());
    let recording = Recording {
        command: command.collect(),
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
