//! Starting jobs under their supervisors.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::io;
use std::path::PathBuf;

use memweir_core::JobId;
use memweir_linux::Launch;
use memweir_policy::quantum_loop::Start;
use memweir_run::batch::MeterLoss;
use memweir_run::observer::Event;

use super::QueueBackend;
use super::end::Stage;
use crate::attempt::{Attempt, Order};
use crate::profiles::Begin;
use crate::queue::End;
use crate::service::Begun;
use crate::shim;

/// Exit code of a job whose supervisor could not be started, as of a program that cannot be
/// executed.
const NOT_STARTED: i32 = 126;

/// Failure to make the files of an attempt.
#[derive(Debug, thiserror::Error)]
#[error("the files of its start cannot be made: {0}")]
struct NoFiles(#[from] io::Error);

/// Returns true if files could not be made because the disk is full.
fn is_full(error: &(dyn Error + 'static)) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    let kind = error.downcast_ref::<NoFiles>().map(|NoFiles(error)| error.kind());
    matches!(kind, Some(StorageFull | QuotaExceeded))
}

impl QueueBackend<'_> {
    /// Starts jobs: creates all supervisors first and runs them then.
    pub(super) fn start(&mut self, jobs: &[JobId]) -> Vec<(JobId, Start)> {
        let (mut born, mut starts) = (Vec::new(), Vec::new());
        for job in jobs {
            match self.begin(*job) {
                Some(attempt) => born.push((*job, attempt)),
                None => starts.push((*job, Start::Failed)),
            }
        }
        for (job, attempt) in born {
            let start = match self.mechanisms.world.exec(job) {
                Ok(()) => self.started(job),
                Err(error) => self.failed(job, Some(&attempt), &error),
            };
            starts.push((job, start));
        }
        starts
    }

    /// Creates the supervisor of a job. `None` if it does not start.
    fn begin(&mut self, job: JobId) -> Option<Attempt> {
        let Some(begun) = self.service.begin(job) else {
            // A client has held or canceled it in this very moment, or its start is not on disk.
            self.slots.remove(&job);
            return None;
        };
        let attempt = begun.attempt.clone();
        match self.spawn(&begun) {
            Ok(None) => {}
            Ok(Some(loss)) => {
                self.service.notice(format!("job {job} is not metered: {}", loss.text));
                self.meter_failed(&loss);
                if let Some(slot) = self.slots.get_mut(&job) {
                    slot.totals.metered = false;
                }
            }
            Err(error) if is_full(&*error) => {
                // Only files were made before.
                attempt.remove();
                self.slots.remove(&job);
                self.service.hold_for_room(job);
                self.service.notice(format!("job {job} does not start: {error}"));
                return None;
            }
            Err(error) => {
                self.failed(job, Some(&attempt), &*error);
                return None;
            }
        }
        Some(attempt)
    }

    fn spawn(&mut self, begun: &Begun) -> Result<Option<MeterLoss>, Box<dyn Error>> {
        let id = begun.job.id;
        let (stdout, stderr) = self.files(begun)?;
        let first_run = self.slots.get_mut(&id).and_then(|slot| slot.first_run.as_mut());
        if let Some(first_run) = first_run {
            first_run.begin = Some(Begin::of(&begun.job.name, &begun.work));
        }
        let base = begun.attempt.base().as_os_str().to_owned();
        let mut launch = Launch {
            // This very program, even if its file has been replaced since.
            program: PathBuf::from("/proc/self/exe"),
            argv: vec!["memweir".into(), shim::ARGUMENT.into(), base],
            // The supervisor of a job of root's daemon must not obey variables of another user.
            env: BTreeMap::new(),
            directory: Some("/".into()),
            stdin: File::open("/dev/null")?,
            stdout,
            stderr,
            cpus: Vec::new(),
            private: None,
        };
        self.mechanisms.spawn(id, &mut launch)
    }

    /// Makes the files of an attempt, and returns those for the job's output.
    fn files(&self, begun: &Begun) -> Result<(File, File), NoFiles> {
        let logs = self.service.open_logs(begun.job.id, begun.user)?;
        begun.attempt.order(&self.order(begun))?;
        Ok(logs)
    }

    /// Returns the order of an attempt: the job's work, with the variables that tell it its place.
    fn order(&self, begun: &Begun) -> Order {
        let mut work = begun.work.clone();
        let mut set = |name: &str, value: String| {
            work.environment.push((name.into(), value.as_str().into()));
        };
        set("MEMWEIR_JOB_ID", begun.job.id.to_string());
        if let Some(array) = begun.job.array {
            set("MEMWEIR_ARRAY_ID", array.array.to_string());
            set("MEMWEIR_ARRAY_INDEX", array.index.to_string());
        }
        Order { work, user: self.service.changes_user().then_some(begun.user) }
    }

    fn started(&mut self, job: JobId) -> Start {
        let now = self.mechanisms.world.now();
        if let Some(slot) = self.slots.get_mut(&job) {
            slot.stage = Stage::Started;
            slot.started = Some(now);
        }
        self.service.runs(job);
        let name = self.service.name_of(job);
        self.observer.event(Event::JobStarted { job, name: &name });
        Start::At(now)
    }

    /// Ends a job whose supervisor could not be started.
    fn failed(&mut self, job: JobId, attempt: Option<&Attempt>, error: &dyn Error) -> Start {
        self.service.notice(format!("job {job} could not be started: {error}"));
        self.mechanisms.world.forget(job);
        if let Some(meter) = &mut self.mechanisms.meter {
            meter.detach(job);
        }
        let _ = self.mechanisms.blocker.retire(job);
        self.slots.remove(&job);
        if let Some(attempt) = attempt {
            attempt.remove();
        }
        self.service.over(job, End::Exited(NOT_STARTED));
        Start::Failed
    }
}
