//! Starting jobs. A job that cannot be started is over at once; the batch goes on.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::PathBuf;

use memweir_core::JobId;
use memweir_linux::Launch;

use super::{Engine, Stage};
use crate::jobs::Job;
use crate::logs::{JobLogs, Logs};
use crate::observer::Event;

/// Exit codes that shells give to a program that is not there or cannot be executed.
const NOT_FOUND: i32 = 127;
const NOT_EXECUTABLE: i32 = 126;

/// Turns jobs into commands that are ready to be started.
#[derive(Debug)]
pub(in crate::batch) struct Starter {
    /// Path of each job's program.
    pub(in crate::batch) programs: Vec<PathBuf>,
    /// CPUs of each job, all if empty.
    pub(in crate::batch) cpus: Vec<Vec<usize>>,
    /// CPUs that jobs are bound to, one for each job.
    pub(in crate::batch) bound: HashMap<JobId, usize>,
    pub(in crate::batch) logs: Logs,
}

/// Reason for which a job was not started, and the exit code that stands for it.
struct Failure {
    reason: String,
    exit_code: i32,
}

impl Failure {
    fn new(error: &dyn std::fmt::Display) -> Self {
        Self { reason: error.to_string(), exit_code: NOT_EXECUTABLE }
    }
}

impl Starter {
    /// Makes the job start on this CPU.
    pub(super) fn bind(&mut self, job: JobId, cpu: usize) {
        self.bound.insert(job, cpu);
    }

    /// Returns the command of a job, and the error if its log files could not be opened.
    fn command(&self, id: JobId, job: &Job) -> io::Result<(Launch, Option<io::Error>)> {
        let stdin = match &job.stdin {
            Some(path) => File::open(path).map_err(|error| {
                io::Error::new(error.kind(), format!("{}: {error}", path.display()))
            })?,
            None => File::open("/dev/null")?,
        };
        let (logs, trouble) = match self.logs.open(&job.name) {
            Ok(logs) => (logs, None),
            Err(error) => (JobLogs::discard()?, Some(error)),
        };
        let mut env: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
        env.extend(job.env.clone());
        let launch = Launch {
            program: self.programs[id.index()].clone(),
            argv: job.command.argv(),
            env,
            directory: job.directory.clone(),
            stdin,
            stdout: logs.stdout,
            stderr: logs.stderr,
            cpus: match self.bound.get(&id) {
                Some(cpu) => vec![*cpu],
                None => self.cpus[id.index()].clone(),
            },
            private: None,
        };
        Ok((launch, trouble))
    }
}

impl Engine<'_> {
    /// Starts jobs: creates all their processes first and runs them then, so that the first ones do
    /// not compete with the setup of the others.
    pub(super) fn start(&mut self, jobs: &[JobId]) {
        let mut born = Vec::new();
        for job in jobs {
            match self.spawn(*job) {
                Ok(()) => born.push(*job),
                Err(failure) => self.never_started(*job, &failure),
            }
        }
        for job in born {
            match self.parts.world.exec(job) {
                Ok(()) => self.started(job),
                Err(error) => {
                    let mut failure = Failure::new(&error);
                    if error.source.kind() == io::ErrorKind::NotFound {
                        failure.exit_code = NOT_FOUND;
                    }
                    if let Some(help) = error.help {
                        failure.reason = format!("{} ({help})", failure.reason);
                    }
                    self.never_started(job, &failure);
                }
            }
        }
    }

    /// Creates the job's process, metered and waiting before exec.
    fn spawn(&mut self, job: JobId) -> Result<(), Failure> {
        let spec = &self.parts.batch.jobs[job.index()];
        let (mut launch, trouble) =
            self.parts.starter.command(job, spec).map_err(|error| Failure::new(&error))?;
        if let Some(error) = trouble {
            self.notice(format!("the output of {} is not kept: {error}", spec.name));
        }
        let target = self.parts.blocker.prepare(job).map_err(|error| Failure::new(&error))?;
        if let Some(meter) = &mut self.parts.meter {
            meter.prepare(job, &mut launch).map_err(|error| Failure::new(&error))?;
        }
        let pid =
            self.parts.world.spawn(job, &launch, &target).map_err(|error| Failure::new(&error))?;
        self.parts.blocker.spawned(job, pid).map_err(|error| Failure::new(&error))?;
        let attached = self.parts.meter.as_mut().map(|meter| meter.attach(job, pid));
        if let Some(Err(error)) = attached {
            self.lose_meter(job, &error.to_string());
        }
        Ok(())
    }

    fn started(&mut self, job: JobId) {
        let now = self.parts.world.now();
        let slot = &mut self.slots[job.index()];
        slot.stage = Stage::Started;
        slot.resumed = Some(now);
        self.parts.ledger.started(job, now);
        let name = &self.parts.batch.jobs[job.index()].name;
        self.parts.observer.event(Event::JobStarted { job, name });
    }

    /// Records a job that could not be started as over.
    fn never_started(&mut self, job: JobId, failure: &Failure) {
        let name = &self.parts.batch.jobs[job.index()].name;
        let text = format!("{name} could not be started: {}", failure.reason);
        self.notice(text);
        self.parts.world.forget(job);
        self.over(job, failure.exit_code);
    }
}
