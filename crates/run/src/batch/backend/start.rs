//! Starting jobs. A job that cannot be started is over at once; the batch goes on.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;

use memweir_core::JobId;
use memweir_linux::Launch;
use memweir_linux::launch::LaunchError;
use memweir_policy::quantum_loop::Start;

use super::{ProcessBackend, Stage};
use crate::logs::JobLogs;
use crate::observer::Event;

/// Exit codes that shells give to a program that is not there or cannot be executed.
const NOT_FOUND: i32 = 127;
const NOT_EXECUTABLE: i32 = 126;

/// Reason for which a job was not started, and the exit code that stands for it.
struct Failure {
    reason: String,
    exit_code: i32,
}

impl Failure {
    fn new(error: &dyn std::fmt::Display) -> Self {
        Self { reason: error.to_string(), exit_code: NOT_EXECUTABLE }
    }

    fn of_exec(error: LaunchError) -> Self {
        let mut failure = Self::new(&error);
        if error.source.kind() == io::ErrorKind::NotFound {
            failure.exit_code = NOT_FOUND;
        }
        if let Some(help) = error.help {
            failure.reason = format!("{} ({help})", failure.reason);
        }
        failure
    }
}

impl ProcessBackend<'_> {
    /// Starts jobs: creates all their processes first and runs them then, so that the first ones do
    /// not compete with the setup of the others.
    pub(super) fn start(&mut self, jobs: &[JobId]) -> Vec<(JobId, Start)> {
        let (mut born, mut starts) = (Vec::new(), Vec::new());
        for job in jobs {
            match self.spawn(*job) {
                Ok(()) => born.push(*job),
                Err(failure) => starts.push((*job, self.never_started(*job, &failure))),
            }
        }
        for job in born {
            let start = match self.mechanisms.world.exec(job) {
                Ok(()) => self.started(job),
                Err(error) => self.never_started(job, &Failure::of_exec(error)),
            };
            starts.push((job, start));
        }
        starts
    }

    /// Creates the job's process, metered and waiting before exec.
    fn spawn(&mut self, job: JobId) -> Result<(), Failure> {
        let (mut launch, trouble) = self.command(job).map_err(|error| Failure::new(&error))?;
        if let Some(error) = trouble {
            self.notice(format!("the output of {} is not kept: {error}", self.job(job).name));
        }
        let spawned = self.mechanisms.spawn(job, &mut launch);
        if let Some(loss) = spawned.map_err(|error| Failure::new(&error))? {
            self.lose_meter(job, &loss);
        }
        Ok(())
    }

    /// Returns the command of a job, and the error if its log files could not be opened.
    fn command(&self, id: JobId) -> io::Result<(Launch, Option<io::Error>)> {
        let job = self.job(id);
        let stdin = match &job.stdin {
            Some(path) => File::open(path).map_err(|error| {
                io::Error::new(error.kind(), format!("{}: {error}", path.display()))
            })?,
            None => File::open("/dev/null")?,
        };
        let (logs, trouble) = match self.outputs.logs.open(&job.name) {
            Ok(logs) => (logs, None),
            Err(error) => (JobLogs::discard()?, Some(error)),
        };
        let mut env: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
        env.extend(job.env.clone());
        let launch = Launch {
            program: self.plan.programs[id.index()].clone(),
            argv: job.command.argv(),
            env,
            directory: job.directory.clone(),
            stdin,
            stdout: logs.stdout,
            stderr: logs.stderr,
            cpus: match self.bound.get(&id) {
                Some(cpu) => vec![*cpu],
                None => self.plan.cpus_of(job),
            },
            private: None,
        };
        Ok((launch, trouble))
    }

    fn started(&mut self, job: JobId) -> Start {
        let now = self.mechanisms.world.now();
        self.slots[job.index()].stage = Stage::Started;
        self.ledger.started(job, now);
        self.observer.event(Event::JobStarted { job, name: &self.job(job).name });
        Start::At(now)
    }

    /// Records a job that could not be started as over.
    fn never_started(&mut self, job: JobId, failure: &Failure) -> Start {
        let name = &self.job(job).name;
        self.notice(format!("{name} could not be started: {}", failure.reason));
        self.mechanisms.world.forget(job);
        self.over(job, failure.exit_code);
        Start::Failed
    }
}
