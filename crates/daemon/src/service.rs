//! Requests and their effects: the queue and its store behind one lock.
//!
//! The [`Service`] decides who may do what, writes each change to the store, applies it to the
//! queue and wakes the loop that runs the jobs. It knows neither sockets nor processes.
//! `service/submit.rs` checks submissions, `service/events.rs` takes what happens to jobs,
//! `service/upkeep.rs` removes old jobs and writes again what could not be written.

mod activity;
mod events;
mod submit;
mod upkeep;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use memweir_core::{BytesPerSec, JobId};
use memweir_linux::peer::{Credentials, Peer, UserGroup, user_name};
use memweir_linux::waker::Waker;

use activity::Activity;
pub(crate) use events::Begun;
use upkeep::Unwritten;

use crate::attempt::Attempts;
use crate::profiles::Profiles;
use crate::protocol::{
    Drain, Ids, Listing, MAX_WAIT_MS, Refusal, RefusalKind, Reply, Request, Sources, Status, Text,
};
use crate::queue::{Capacity, Job, Moment, Queue, Retention, Source, State, WrongState};
use crate::store::{Store, StoreError};
use crate::uptime::{DAY_MS, Reading, Uptime};
use crate::view::Viewer;

/// Messages for people that a status shows.
const MAX_NOTICES: usize = 20;

/// The unchanging facts of a daemon that its status shows.
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
}

/// The queue of one daemon.
#[derive(Debug)]
pub struct Service {
    inner: Mutex<Inner>,
    /// The clock of ages.
    uptime: Uptime,
    /// Signaled when a job ends.
    ended: Condvar,
    /// Running jobs that have a core now. A lock of its own, since a switch must not wait for the
    /// disk.
    on_cores: Mutex<BTreeSet<JobId>>,
    notices: Mutex<Vec<String>>,
    activity: Mutex<Activity>,
    attempts: Attempts,
    /// Knowledge of programs, if there is a store of it.
    profiles: Option<Profiles>,
    waker: Waker,
    owner: u32,
    /// Users who command all jobs, beside root and the owner.
    operators: Option<UserGroup>,
    facts: Facts,
}

#[derive(Debug)]
struct Inner {
    queue: Queue,
    store: Store,
    unwritten: Unwritten,
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
        for job in kept.jobs {
            queue.insert(job);
        }
        Ok(Self {
            inner: Mutex::new(Inner { queue, store, unwritten: Unwritten::default() }),
            uptime: uptime.map_err(StoreError::Clock)?,
            ended: Condvar::new(),
            on_cores: Mutex::default(),
            notices: Mutex::default(),
            activity: Mutex::default(),
            attempts: Attempts::new(&facts.state),
            profiles: None,
            waker,
            owner,
            operators: None,
            facts,
        })
    }

    /// Lets the members of a group command all jobs.
    #[must_use]
    pub fn with_operators(self, operators: Option<UserGroup>) -> Self {
        Self { operators, ..self }
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
        let user = peer.credentials.user;
        let done = match request {
            Request::Submit(submission) => self.submit(peer.credentials, *submission),
            Request::Queue { which } => Ok(self.list(which)),
            Request::Jobs { ids } => self.jobs(&ids),
            Request::Wait { ids, timeout_ms } => self.wait(&ids, timeout_ms),
            Request::Hold { ids } => self.change(peer, &ids, |job| job.held(&user_name(user))),
            Request::Release { ids } => self.change(peer, &ids, Job::released),
            Request::Cancel { ids } => self.change(peer, &ids, |job| job.canceled(self.now())),
            Request::Requeue { ids } => self.change(peer, &ids, Job::requeued),
            Request::Drain { drain } => self.drain(peer, drain),
            Request::Status {} => Ok(Reply::Status(Box::new(self.status()))),
            Request::Activity { from } => Ok(self.activity(from)),
        };
        done.unwrap_or_else(Reply::Refused)
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
        self.owner == 0 || peer.is_root() || peer.user == self.owner
    }

    /// Returns true for root and the user of the daemon.
    fn is_master(&self, peer: Credentials) -> bool {
        peer.is_root() || peer.user == self.owner
    }

    /// Returns true for those who may command all jobs.
    fn is_operator(&self, peer: &Peer) -> bool {
        let is_member = |group: &UserGroup| peer.is_in(group.id);
        self.is_master(peer.credentials) || self.operators.as_ref().is_some_and(is_member)
    }

    /// Names those who may command all jobs, behind others.
    fn named_operators(&self, others: &[&str]) -> String {
        let owner = (self.owner != 0).then(|| user_name(self.owner));
        let mut names: Vec<String> = others.iter().map(|name| (*name).to_owned()).collect();
        let masters = ["root".to_owned()].into_iter().chain(owner);
        names.extend(masters.filter(|name| !others.contains(&name.as_str())));
        let group = self.operators.as_ref();
        names.extend(group.map(|group| format!("members of the group {}", group.name)));
        match names.split_last() {
            Some((last, [])) => last.clone(),
            Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
            None => String::new(),
        }
    }

    fn list(&self, which: Listing) -> Reply {
        let on_cores = lock(&self.on_cores).clone();
        let inner = self.lock();
        let mut viewer = Viewer::new(&inner.queue, &self.attempts, on_cores);
        let jobs = inner.queue.jobs();
        let listed = jobs.filter(|job| which == Listing::All || job.end().is_none());
        Reply::Jobs(listed.map(|job| viewer.view(job)).collect())
    }

    fn jobs(&self, ids: &Ids) -> Result<Reply, Refusal> {
        let on_cores = lock(&self.on_cores).clone();
        let inner = self.lock();
        let mut viewer = Viewer::new(&inner.queue, &self.attempts, on_cores);
        let jobs = find(&inner.queue, ids)?;
        Ok(Reply::Jobs(jobs.into_iter().map(|job| viewer.view(job)).collect()))
    }

    /// Returns the jobs when all have ended, or the time is over.
    fn wait(&self, ids: &Ids, timeout_ms: u64) -> Result<Reply, Refusal> {
        let deadline = Instant::now() + Duration::from_millis(timeout_ms.min(MAX_WAIT_MS));
        let mut inner = self.lock();
        loop {
            let over = find(&inner.queue, ids)?.iter().all(|job| job.end().is_some());
            let left = deadline.saturating_duration_since(Instant::now());
            if over || left.is_zero() {
                drop(inner);
                return self.jobs(ids);
            }
            let waited = self.ended.wait_timeout(inner, left);
            inner = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Changes jobs of the peer: all or none.
    fn change(
        &self,
        peer: &Peer,
        ids: &Ids,
        change: impl Fn(&Job) -> Result<Job, WrongState>,
    ) -> Result<Reply, Refusal> {
        let mut inner = self.lock();
        let jobs = find(&inner.queue, ids)?;
        for job in &jobs {
            if job.user != peer.credentials.user && !self.is_operator(peer) {
                let owner = user_name(job.user);
                let may = self.named_operators(&[&owner]);
                let message =
                    format!("job {} belongs to {owner}: only {may} may change it", job.id);
                return Err(Refusal::new(RefusalKind::NotYours, message));
            }
        }
        let changed: Result<Vec<Job>, WrongState> = jobs.into_iter().map(change).collect();
        let changed =
            changed.map_err(|error| Refusal::new(RefusalKind::WrongState, error.to_string()))?;
        inner.apply(changed).map_err(unwritten)?;
        self.changed(inner);
        Ok(Reply::Done {})
    }

    fn drain(&self, peer: &Peer, drain: Drain) -> Result<Reply, Refusal> {
        if !self.is_operator(peer) {
            let message = format!("only {} may drain this queue", self.named_operators(&[]));
            return Err(Refusal::new(RefusalKind::NotYours, message));
        }
        let draining = drain == Drain::Begin;
        let mut inner = self.lock();
        inner.store.set_draining(draining).map_err(unwritten)?;
        inner.queue.set_draining(draining);
        self.changed(inner);
        Ok(Reply::Done {})
    }

    fn status(&self) -> Status {
        let notices = lock(&self.notices).clone();
        let inner = self.lock();
        let count = |is: fn(State) -> bool| inner.queue.jobs().filter(|job| is(job.state)).count();
        let Capacity { cores, admit } = inner.queue.capacity();
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            state: Text::from(&self.facts.state),
            policy: self.facts.policy.clone(),
            meter: self.facts.meter.clone(),
            mechanism: self.facts.mechanism.clone(),
            cores,
            admit,
            busy: inner.queue.busy(),
            draining: inner.queue.is_draining(),
            pending: inner.queue.pending(),
            running: count(|state| matches!(state, State::Starting | State::Running)),
            ended: count(|state| matches!(state, State::Ended(_))),
            notices,
            peak: self.facts.peak.map(|peak| peak.0),
            keep_jobs: self.facts.retention.jobs,
            keep_days: self.facts.retention.age_ms / DAY_MS,
            profiles: self.profiles.as_ref().map(|profiles| Text::from(profiles.path())),
            expected: sources(&inner.queue),
            operators: self.operators.as_ref().map(|group| group.name.clone()),
        }
    }

    /// Ends a change: whoever waits for one looks again.
    fn changed(&self, inner: MutexGuard<'_, Inner>) {
        drop(inner);
        self.ended.notify_all();
        self.waker.wake();
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }
}

impl Inner {
    /// Writes changed jobs to the store and then to the queue.
    fn apply(&mut self, changed: Vec<Job>) -> Result<(), StoreError> {
        self.store.update(&changed)?;
        changed.into_iter().for_each(|job| self.queue.insert(job));
        Ok(())
    }
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

/// Returns the jobs of some ranges.
fn find<'a>(queue: &'a Queue, ids: &Ids) -> Result<Vec<&'a Job>, Refusal> {
    let mut found = Vec::new();
    for (first, last) in ids {
        // A range that reaches beyond the jobs that exist must not be walked to its end.
        let end = last.0.min(queue.next_id().0);
        for id in (first.0..=end).map(JobId) {
            found.push(queue.get(id).ok_or_else(|| no_such_job(id))?);
        }
        if first > last || end < last.0 {
            return Err(no_such_job(*first.max(last)));
        }
    }
    Ok(found)
}

fn no_such_job(id: JobId) -> Refusal {
    let message = format!(
        "there is no job {id}; `memweir queue --all` lists the jobs, from which those that ended \
         long ago are removed"
    );
    Refusal::new(RefusalKind::NoSuchJob, message)
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

#[cfg(test)]
mod tests;
