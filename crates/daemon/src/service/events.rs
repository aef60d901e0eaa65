//! Events of jobs, as the loop that runs them reports them.
//!
//! A start is in the store before the job's supervisor exists. An end that cannot be written stays
//! in the supervisor's exit file, from which the next daemon reads it.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;

use memweir_core::JobId;
use memweir_core::profile::Profile;
use memweir_linux::peer::Credentials;
use memweir_run::batch::Alone;

use super::stored::Holder;
use super::{Service, lock, wall_ms};
use crate::attempt::Attempt;
use crate::protocol::{QuantumView, Work};
use crate::queue::{End, Job, State};

/// Jobs that one transaction changes without a request: others wait for the lock meanwhile.
pub(super) const MOST_AT_ONCE: usize = 500;

/// A start that is in the store.
#[derive(Debug)]
pub(crate) struct Begun {
    /// The job.
    pub(crate) job: Job,
    /// Its command and surroundings.
    pub(crate) work: Work,
    /// The user that it runs as.
    pub(crate) user: Credentials,
    /// Files of this start.
    pub(crate) attempt: Attempt,
}

impl Service {
    /// Admits as many pending jobs as there is room for.
    pub(crate) fn admit(&self) -> Vec<Job> {
        self.lock().admit()
    }

    /// Returns true for a job that was admitted and has not ended.
    pub(crate) fn is_admitted(&self, id: JobId) -> bool {
        self.lock().queue().is_admitted(id)
    }

    /// Returns a job.
    pub(crate) fn job(&self, id: JobId) -> Option<Job> {
        self.lock().queue().get(id).cloned()
    }

    /// Returns the name of a job; nothing where there is none.
    pub(crate) fn name_of(&self, id: JobId) -> String {
        self.lock().queue().get(id).map(|job| job.name.clone()).unwrap_or_default()
    }

    /// Returns the number of jobs that have not started.
    pub(crate) fn pending(&self) -> usize {
        self.lock().queue().pending()
    }

    /// Returns the jobs that an earlier daemon was about to start or left running.
    pub(crate) fn started(&self) -> Vec<Job> {
        let is_started = |job: &&Job| matches!(job.state, State::Starting | State::Running);
        self.lock().queue().jobs().filter(is_started).cloned().collect()
    }

    /// Returns true for a job that a client has canceled.
    pub(crate) fn is_canceled(&self, id: JobId) -> bool {
        self.lock().queue().get(id).is_some_and(|job| job.canceled)
    }

    /// Returns true if jobs run as other users than the daemon's.
    pub(crate) fn changes_user(&self) -> bool {
        self.access.changes_user()
    }

    /// Opens the log files of a job, empty.
    pub(crate) fn open_logs(&self, id: JobId, user: Credentials) -> io::Result<(File, File)> {
        self.attempts.open_logs(id, user)
    }

    /// Returns the files of the job's current attempt.
    pub(crate) fn attempt(&self, job: &Job) -> Attempt {
        self.attempts.of(job.id, job.attempt)
    }

    /// Notes that a job is about to start; `None` if it does not.
    pub(crate) fn begin(&self, id: JobId) -> Option<Begun> {
        let begun = self.lock().begin(id, wall_ms())?;
        match begun {
            Ok((job, work, user)) => {
                let attempt = self.attempt(&job);
                Some(Begun { job, work, user, attempt })
            }
            Err(error) => {
                self.notice(format!("job {id} does not start: {error}"));
                None
            }
        }
    }

    /// Notes that a job's supervisor runs.
    pub(crate) fn runs(&self, id: JobId) {
        self.set(id, Job::running);
        self.lock().has_room();
    }

    /// Holds a job that could not be started, for the time being. Its supervisor is gone.
    pub(crate) fn hold_unstarted(&self, id: JobId) {
        self.never_began(id);
        self.lock().hold(id, Holder::Machine);
        if let Some(job) = self.job(id) {
            self.attempt(&job).remove();
        }
    }

    /// Notes that the last start of a job never began, so that it is pending again, or over if a
    /// client has canceled it. The files of the attempt stay: its supervisor may still come, and
    /// must find the claim.
    pub(crate) fn never_began(&self, id: JobId) {
        self.set(id, |job| match job.canceled {
            true => job.ended(End::Canceled(None), self.now()),
            false => job.pending(),
        });
    }

    /// Notes the end of a job, and removes the files of its attempt once the end is on disk.
    pub(crate) fn over(&self, id: JobId, end: End) {
        let attempt = self.job(id).map(|job| self.attempt(&job));
        if self.set(id, |job| job.ended(end, self.now()))
            && let Some(attempt) = attempt
        {
            attempt.remove();
        }
    }

    /// Lets the jobs of the same command that have not ended, and of which nothing is known, have
    /// what its first run has shown, as this job.
    pub(crate) fn learned(&self, program: &str, first_run: JobId, profile: &Profile) {
        let learns = |job: &&Job| {
            let learns = !matches!(job.state, State::Ended(_)) && job.id != first_run;
            learns && job.is_unknown() && job.program.as_deref() == Some(program)
        };
        let ids: Vec<JobId> = self.lock().queue().jobs().filter(learns).map(|job| job.id).collect();
        for some in ids.chunks(MOST_AT_ONCE) {
            let mut stored = self.lock();
            let jobs = some.iter().filter_map(|id| stored.queue().get(*id)).filter(learns);
            let learned = jobs.map(|job| job.learned(Alone::of(profile, job.cores), first_run));
            let learned = learned.collect();
            if let Err(error) = stored.apply(learned) {
                drop(stored);
                self.notice(format!("the first run, as job {first_run}, helps no other: {error}"));
                return;
            }
        }
    }

    /// Changes a job. A change that cannot be written holds in memory alone, and returns false.
    fn set(&self, id: JobId, change: impl Fn(&Job) -> Job) -> bool {
        let mut stored = self.lock();
        let Some(written) = stored.set(id, change) else { return false };
        self.changed(stored);
        match written {
            Ok(()) => true,
            Err(error) => {
                self.notice(format!("the state of job {id} is not on disk: {error}"));
                false
            }
        }
    }

    /// Sets the running jobs that have a core now; the others are blocked.
    pub(crate) fn set_on_cores(&self, jobs: impl Iterator<Item = JobId>) {
        let jobs: BTreeSet<JobId> = jobs.collect();
        *lock(&self.on_cores) = jobs;
    }

    /// Keeps a message for people; equal ones only once.
    pub(crate) fn notice(&self, text: impl Into<String>) {
        self.notices.add(text.into());
    }

    /// Returns true if quanta are of interest.
    pub(crate) fn is_watched(&self) -> bool {
        lock(&self.activity).is_watched()
    }

    /// Keeps a quantum.
    pub(crate) fn quantum_ended(&self, quantum: QuantumView) {
        lock(&self.activity).keep(quantum);
    }
}
