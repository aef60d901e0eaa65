//! Requests and their effects: the queue and its store behind one lock.
//!
//! The [`Service`] takes requests, changes the queue and wakes the loop that runs the jobs. It
//! knows neither sockets nor processes. Its parts are the rights of users (`service/access.rs`),
//! the queue with its copy on disk (`service/stored.rs`), the last quanta and the messages;
//! `service/submit.rs` makes jobs of submissions. `service/events.rs` takes what happens to jobs,
//! `service/upkeep.rs` removes old jobs and writes again what could not be written.

mod access;
mod activity;
mod events;
mod notices;
mod stored;
mod submit;
mod upkeep;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use memweir_core::{BytesPerSec, JobId};
use memweir_linux::peer::{Credentials, Peer, UserGroup, user_name};
use memweir_linux::waker::Waker;

use access::Access;
use activity::Activity;
pub(crate) use events::Begun;
use notices::Notices;
use stored::{StoredQueue, unheld};

use crate::attempt::Attempts;
use crate::profiles::Profiles;
use crate::protocol::{
    Drain, Ids, Initial, JobView, Listing, MAX_WAIT_MS, Refusal, RefusalKind, Reply, Request,
    Sources, Status, Submission, Text,
};
use crate::queue::{Capacity, Job, Moment, Queue, Retention, Source, State, WrongState};
use crate::store::{Store, StoreError};
use crate::uptime::{DAY_MS, Reading, Uptime};
use crate::view::Viewer;

/// The unchanging facts of a daemon, most of which its status shows.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// State directory.
    pub state: PathBuf,
    /// Policy that selects the jobs of each quantum.
    pub policy: String,
    /// Meter that counts their traffic, if there is one.
    pub meter: Option<String>,
    /// Mechanism that blocks them.
    pub mechanism: String,
    /// Ended jobs that are kept.
    pub retention: Retention,
    /// Highest bandwidth that the machine sustains, if it is calibrated.
    pub peak: Option<BytesPerSec>,
    /// Reason for which no job's bandwidth can be limited; absent where it can.
    pub no_limits: Option<String>,
    /// Group whose members command all jobs.
    pub operators: Option<UserGroup>,
    /// Most unfinished jobs of each user but root and the user of the daemon; any number if absent.
    pub user_jobs: Option<u32>,
}

/// The queue of one daemon.
#[derive(Debug)]
pub struct Service {
    stored: Mutex<StoredQueue>,
    /// The clock of ages.
    uptime: Uptime,
    /// Signaled when a job ends.
    ended: Condvar,
    /// Running jobs that have a core now. A lock of its own, since a switch must not wait for the
    /// disk.
    on_cores: Mutex<BTreeSet<JobId>>,
    notices: Notices,
    activity: Mutex<Activity>,
    attempts: Attempts,
    /// Knowledge of programs, if there is a store of it.
    profiles: Option<Profiles>,
    waker: Waker,
    access: Access,
    facts: Facts,
}

impl Service {
    /// Takes over the queue that a store keeps. `owner` is the user of the daemon.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub fn open(
        store: Store,
        capacity: Capacity,
        owner: u32,
        waker: Waker,
        facts: Facts,
    ) -> Result<Self, StoreError> {
        let kept = store.load()?;
        let latest = kept.jobs.iter().filter_map(|job| Some(job.ended?.uptime_ms)).max();
        let uptime = Uptime::after(&kept.uptime, latest.unwrap_or_default());
        let mut queue = Queue::new(capacity);
        queue.set_draining(kept.draining);
        kept.jobs.into_iter().for_each(|job| queue.insert(unheld(job)));
        Ok(Self {
            stored: Mutex::new(StoredQueue::new(queue, store)),
            uptime: uptime.map_err(StoreError::Clock)?,
            ended: Condvar::new(),
            on_cores: Mutex::default(),
            notices: Notices::default(),
            activity: Mutex::default(),
            attempts: Attempts::new(&facts.state),
            profiles: None,
            waker,
            access: Access { owner, operators: facts.operators.clone() },
            facts,
        })
    }

    /// Lets submissions take what a profile store knows.
    #[must_use]
    pub fn with_profiles(self, profiles: Option<Profiles>) -> Self {
        Self { profiles, ..self }
    }

    /// Returns the profile store, if there is one.
    pub(crate) fn profiles(&self) -> Option<&Profiles> {
        self.profiles.as_ref()
    }

    /// Carries out a request of a peer.
    pub fn handle(&self, peer: &Peer, request: Request) -> Reply {
        let done = match request {
            Request::Submit(submission) => self.submit(peer.credentials, *submission),
            Request::Queue { which } => self.show(|queue| Ok(listed(queue, which))),
            Request::Jobs { ids } => self.show(|queue| find(queue, &ids)),
            Request::Wait { ids, timeout_ms } => {
                self.wait(&ids, timeout_ms);
                self.show(|queue| find(queue, &ids))
            }
            Request::Hold { ids } => {
                let name = user_name(peer.credentials.user);
                self.change(peer, &ids, |job| job.held(&name))
            }
            Request::Release { ids } => self.change(peer, &ids, Job::released),
            Request::Cancel { ids } => self.change(peer, &ids, |job| job.canceled(self.now())),
            Request::Requeue { ids } => self.change(peer, &ids, Job::requeued),
            Request::Drain { drain } => self.drain(peer, drain),
            Request::Status {} => Ok(Reply::Status(Box::new(self.status()))),
            Request::Activity { from } => Ok(Reply::Activity(lock(&self.activity).ask(from))),
        };
        done.unwrap_or_else(Reply::Refused)
    }

    /// Returns the reason for which no job's bandwidth can be limited, if there is one.
    pub(crate) fn no_limits(&self) -> Option<&str> {
        self.facts.no_limits.as_deref()
    }

    /// Returns the reading of the clock of ages.
    pub(crate) fn uptime(&self) -> Reading {
        self.uptime.read()
    }

    fn now(&self) -> Moment {
        Moment { wall_ms: wall_ms(), uptime_ms: self.uptime().total_ms }
    }

    /// Returns true if a peer may use this daemon at all. A daemon that is not root's can run jobs
    /// as its own user alone.
    #[must_use]
    pub fn admits(&self, peer: Credentials) -> bool {
        self.access.admits(peer)
    }

    /// Returns true for root and the user of the daemon.
    pub(crate) fn is_master(&self, peer: Credentials) -> bool {
        self.access.is_master(peer)
    }

    /// Adds the jobs of a submission.
    fn submit(&self, peer: Credentials, submission: Submission) -> Result<Reply, Refusal> {
        let cores = self.lock().queue().capacity().cores;
        submit::check(&self.access, peer, &submission, cores)?;
        submit::check_limit(&submission, self.no_limits())?;
        // Without the lock, which the jobs need: a look at files or at users may take long.
        let known = submit::known(self.profiles.as_ref(), &submission);
        let holder = (submission.initial == Initial::Held).then(|| user_name(peer.user));
        let mut stored = self.lock();
        let after = find(stored.queue(), &submission.after)?;
        submit::check_waits(&submission, after.len())?;
        let after = after.iter().map(|job| job.id).collect();
        self.check_number(stored.queue(), peer, submit::number(submission.array))?;
        let first = stored.queue().next_id();
        let jobs = submit::jobs(peer, &submission, first, after, known, holder)?;
        let (first, last) = (jobs[0].id, jobs[jobs.len() - 1].id);
        stored.add(jobs, peer.group, &submission.work).map_err(unwritten)?;
        self.changed(stored);
        Ok(Reply::Submitted { first, last })
    }

    /// Shows the jobs that `choose` returns.
    fn show(
        &self,
        choose: impl FnOnce(&Queue) -> Result<Vec<&Job>, Refusal>,
    ) -> Result<Reply, Refusal> {
        let on_cores = lock(&self.on_cores).clone();
        let stored = self.lock();
        let viewer = Viewer::new(stored.queue(), &self.attempts, on_cores);
        let jobs = choose(stored.queue())?.into_iter().map(|job| (job.user, viewer.view(job)));
        let jobs: Vec<(u32, JobView)> = jobs.collect();
        drop(stored);
        Ok(Reply::Jobs(named(jobs)))
    }

    /// Waits until all of the jobs have ended, one is unknown, or the time is over.
    pub(crate) fn wait(&self, ids: &Ids, timeout_ms: u64) {
        let deadline = Instant::now() + Duration::from_millis(timeout_ms.min(MAX_WAIT_MS));
        let mut stored = self.lock();
        // A change of any job wakes this, and a look at all jobs each time would keep the queue
        // from others.
        while let Some(last) = last_unfinished(stored.queue(), ids) {
            while stored.queue().get(last).is_some_and(|job| job.end().is_none()) {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return;
                }
                let waited = self.ended.wait_timeout(stored, left);
                stored = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }

    /// Changes jobs of the peer: all or none.
    fn change(
        &self,
        peer: &Peer,
        ids: &Ids,
        change: impl Fn(&Job) -> Result<Job, WrongState>,
    ) -> Result<Reply, Refusal> {
        let mut stored = self.lock();
        let jobs = find(stored.queue(), ids)?;
        let is_foreign = |job: &&&Job| job.user != peer.credentials.user;
        let foreign = jobs.iter().find(is_foreign).map(|job| (job.id, job.user));
        if let Some((id, user)) = foreign.filter(|_| !self.access.is_operator(peer)) {
            drop(stored);
            let owner = user_name(user);
            let may = self.access.named_operators(&[&owner]);
            let message = format!("job {id} belongs to {owner}: only {may} may change it");
            return Err(Refusal::new(RefusalKind::NotYours, message));
        }
        let changed: Result<Vec<Job>, WrongState> = jobs.iter().map(|job| change(job)).collect();
        let changed =
            changed.map_err(|error| Refusal::new(RefusalKind::WrongState, error.to_string()))?;
        let is_again = |(old, new): &(&&Job, &Job)| {
            let is_own = old.user == peer.credentials.user;
            is_own && old.end().is_some() && new.end().is_none()
        };
        let again = jobs.iter().zip(&changed).filter(is_again).count() as u32;
        self.check_number(stored.queue(), peer.credentials, again)?;
        stored.apply(changed).map_err(unwritten)?;
        self.changed(stored);
        Ok(Reply::Done {})
    }

    /// Refuses so many `more` unfinished jobs of a peer who would have too many then.
    fn check_number(&self, queue: &Queue, peer: Credentials, more: u32) -> Result<(), Refusal> {
        match self.facts.user_jobs {
            Some(most) if more > 0 && !self.is_master(peer) => {
                submit::check_number(queue.unfinished(peer.user), more, most)
            }
            _ => Ok(()),
        }
    }

    fn drain(&self, peer: &Peer, drain: Drain) -> Result<Reply, Refusal> {
        if !self.access.is_operator(peer) {
            let message = format!("only {} may drain this queue", self.access.named_operators(&[]));
            return Err(Refusal::new(RefusalKind::NotYours, message));
        }
        let draining = drain == Drain::Begin;
        let mut stored = self.lock();
        stored.set_draining(draining).map_err(unwritten)?;
        self.changed(stored);
        Ok(Reply::Done {})
    }

    fn status(&self) -> Status {
        let notices = self.notices.list();
        let stored = self.lock();
        let count =
            |is: fn(State) -> bool| stored.queue().jobs().filter(|job| is(job.state)).count();
        let Capacity { cores, admit } = stored.queue().capacity();
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            state: Text::from(&self.facts.state),
            policy: self.facts.policy.clone(),
            meter: self.facts.meter.clone(),
            mechanism: self.facts.mechanism.clone(),
            cores,
            admit,
            busy: stored.queue().busy(),
            draining: stored.queue().is_draining(),
            pending: stored.queue().pending(),
            running: count(|state| matches!(state, State::Starting | State::Running)),
            ended: count(|state| matches!(state, State::Ended(_))),
            notices,
            peak: self.facts.peak.map(|peak| peak.0),
            keep_jobs: self.facts.retention.jobs,
            keep_days: self.facts.retention.age_ms / DAY_MS,
            profiles: self.profiles.as_ref().map(|profiles| Text::from(profiles.path())),
            expected: sources(stored.queue()),
            operators: self.access.operators.as_ref().map(|group| group.name.clone()),
        }
    }

    /// Ends a change: whoever waits for one looks again.
    fn changed(&self, stored: MutexGuard<'_, StoredQueue>) {
        drop(stored);
        self.ended.notify_all();
        self.waker.wake();
    }

    fn lock(&self) -> MutexGuard<'_, StoredQueue> {
        lock(&self.stored)
    }
}

/// Returns jobs with the names of their users. The user database, which may be on another machine
/// and take long, is read once for each; not to be called with the lock of the queue.
fn named(jobs: Vec<(u32, JobView)>) -> Vec<JobView> {
    let mut names: BTreeMap<u32, String> = BTreeMap::new();
    let name = |(user, job): (u32, JobView)| {
        let user = names.entry(user).or_insert_with(|| user_name(user)).clone();
        JobView { user, ..job }
    };
    jobs.into_iter().map(name).collect()
}

/// Counts the unfinished jobs by the source of what is expected of them.
fn sources(queue: &Queue) -> Sources {
    let mut sources = Sources::default();
    for job in queue.jobs().filter(|job| job.end().is_none()) {
        let count = match job.expected_from {
            Some(Source::Submission | Source::SubmissionAndStore) => &mut sources.submission,
            Some(Source::Store | Source::Replaced) => &mut sources.store,
            Some(Source::Job(_)) => &mut sources.job,
            None => &mut sources.unknown,
        };
        *count += 1;
    }
    sources
}

fn listed(queue: &Queue, which: Listing) -> Vec<&Job> {
    queue.jobs().filter(|job| which == Listing::All || job.end().is_none()).collect()
}

/// Returns the jobs of some ranges.
fn find<'a>(queue: &'a Queue, ids: &Ids) -> Result<Vec<&'a Job>, Refusal> {
    let mut found = Vec::new();
    for (first, last) in ids {
        // A range that reaches beyond the jobs that exist must not be walked to its end.
        let end = last.0.min(queue.next_id().0);
        for id in (first.0..=end).map(JobId) {
            let job = queue.get(id).ok_or_else(|| no_such_job(id))?;
            // A request must not keep the queue for longer than naming every job once takes.
            if found.len() == queue.jobs().len() {
                return Err(named_twice(id));
            }
            found.push(job);
        }
        if first > last || end < last.0 {
            return Err(no_such_job(*first.max(last)));
        }
    }
    Ok(found)
}

/// Returns the job of some ranges that has not ended and is likely to end last; `None` if all have
/// ended, or one is unknown.
fn last_unfinished(queue: &Queue, ids: &Ids) -> Option<JobId> {
    find(queue, ids).ok()?.into_iter().rfind(|job| job.end().is_none()).map(|job| job.id)
}

fn no_such_job(id: JobId) -> Refusal {
    let message = format!(
        "there is no job {id}; `memweir queue --all` lists the jobs, from which those that ended \
         long ago are removed"
    );
    Refusal::new(RefusalKind::NoSuchJob, message)
}

fn named_twice(id: JobId) -> Refusal {
    let message =
        format!("a request can name each job once: up to job {id} it names more than there are");
    Refusal::new(RefusalKind::Value, message)
}

fn unwritten(error: StoreError) -> Refusal {
    Refusal::new(RefusalKind::Storage, format!("nothing was changed: {error}"))
}

/// Returns the time in milliseconds since 1970, for display alone.
pub(crate) fn wall_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Locks a mutex. A thread that panicked has left whole values behind: each is replaced at once.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a detached thread.
///
/// # Errors
/// If no thread can be started.
pub(crate) fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
}

#[cfg(test)]
pub(crate) mod tests;
