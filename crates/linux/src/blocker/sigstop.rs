//! Blocking with SIGSTOP and SIGCONT, for machines where no group can be had.
//!
//! Its limits, none of which a frozen group has:
//! - the threads of a stopped process run on until each has noticed, for milliseconds;
//! - a parent that waits for a child with WUNTRACED, as shells do, sees the stop;
//! - a SIGCONT from elsewhere resumes a blocked job, and a job that the user stopped is resumed
//!   with the others;
//! - processes that leave the job's session *and* lose their parent between two walks through
//!   `/proc` are missed (see [`Members`]), and so is some of their CPU time.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use memweir_core::{JobId, Nanos};

use super::custody::Custody;
use super::processes::{self, Identity, Members, Stat};
use super::share::Share;
use super::{Blocker, Demand, Mechanism, SpawnTarget};
use crate::OsError;
use crate::cgroup;
use crate::files::{Files, KernelFiles};
use crate::guardian::{Guard, Message};

/// Greatest age of a walk that CPU times are read from: one walk serves all jobs of a quantum.
const FRESH: Duration = Duration::from_millis(10);
/// Walks through `/proc` in one stop or kill: each finds the processes forked during the one
/// before.
const MAX_WALKS: u32 = 16;

/// A blocker over signals.
pub(super) struct SigstopBlocker {
    jobs: BTreeMap<JobId, Job>,
    all_blocked: bool,
    last_walk: Option<(Instant, Arc<[Stat]>)>,
    custody: Custody,
    share: Share,
}

#[derive(Default)]
struct Job {
    /// The leader of its session, once born.
    leader: Option<Identity>,
    blocked: bool,
    members: Members,
    /// Current change of their nice values.
    raise: i32,
    /// Members outside of the session that the guardian knows of.
    strays: BTreeSet<Identity>,
}

impl Job {
    fn find(&self, all: &[Stat]) -> Vec<Stat> {
        let sessions = processes::sessions(all, &self.leader);
        processes::related(all, &sessions, &self.members.identities())
    }

    /// Takes a walk in and returns the members that have not ended.
    fn update(&mut self, all: &[Stat]) -> Vec<Stat> {
        let found = self.find(all);
        self.members.update(&found);
        found.into_iter().filter(|stat| !stat.is_over()).collect()
    }

    /// Returns the members of the last walk as they are now, without those that have ended.
    fn known(&self) -> impl Iterator<Item = Stat> {
        self.members
            .identities()
            .into_iter()
            // The pid may have been reused since; a signal must not go to the new process.
            .filter_map(|known| processes::stat(known.pid).ok().filter(|s| s.start == known.start))
            .filter(|stat| !stat.is_over())
    }

    /// Returns the members of `living` that the guardian must be told of; it finds the others by
    /// itself.
    fn new_strays(&mut self, living: &[Stat]) -> Vec<Identity> {
        let session = self.leader.map(|leader| leader.pid);
        let strays = living.iter().filter(|stat| Some(stat.session) != session);
        strays
            .map(|stat| Identity { pid: stat.pid, start: stat.start })
            .filter(|stray| self.strays.insert(*stray))
            .collect()
    }
}

/// Sends a signal to a process that was seen a moment ago.
fn send(stat: &Stat, signal: i32) -> Result<(), OsError> {
    cgroup::unless_gone(KernelFiles.signal(stat.pid, signal))
        .map_err(|source| OsError::new(format!("signalling process {}", stat.pid), source))
}

impl SigstopBlocker {
    pub(super) fn new(guard: Box<dyn Guard>) -> Self {
        Self {
            jobs: BTreeMap::new(),
            all_blocked: false,
            last_walk: None,
            custody: Custody::new(guard),
            share: Share::by_nice(),
        }
    }

    fn job(&mut self, job: JobId) -> Result<&mut Job, OsError> {
        self.jobs.get_mut(&job).ok_or_else(|| super::unknown(job))
    }

    /// Stops every member of the jobs that `choose` selects: first the known ones, which needs no
    /// walk, then those that walks find, until a walk finds no new one.
    fn stop(&mut self, choose: impl Fn(JobId) -> bool) -> Result<(), OsError> {
        let mut result = Ok(());
        let mut sent = BTreeSet::new();
        for (_, job) in self.jobs.iter_mut().filter(|(id, _)| choose(**id)) {
            job.blocked = true;
            for stat in job.known().filter(|stat| !stat.is_stopped()) {
                sent.insert(stat.pid);
                result = result.and(send(&stat, libc::SIGSTOP));
            }
        }
        for _ in 0..MAX_WALKS {
            let all = self.walk()?;
            let mut found_new = false;
            for (_, job) in self.jobs.iter_mut().filter(|(id, _)| choose(**id)) {
                let living = job.update(&all);
                for stray in job.new_strays(&living) {
                    if let Err(error) = self.custody.guard.watch(Message::Stray(stray)) {
                        self.custody.lose(&error);
                        return self.run_all();
                    }
                }
                for stat in living.iter().filter(|stat| !stat.is_stopped()) {
                    if sent.insert(stat.pid) {
                        found_new = true;
                        result = result.and(send(stat, libc::SIGSTOP));
                    }
                }
            }
            if !found_new {
                break;
            }
        }
        result
    }

    /// Changes the nice values of the jobs that `choose` selects, where they differ.
    fn raise_jobs(&mut self, choose: impl Fn(JobId) -> bool, raise: i32) {
        let differ = |(id, job): &(&JobId, &mut Job)| choose(**id) && job.raise != raise;
        for (_, job) in self.jobs.iter_mut().filter(differ) {
            let pids: Vec<i32> = job.known().map(|stat| stat.pid).collect();
            if self.share.apply(&pids, raise) {
                job.raise = raise;
            }
        }
    }

    fn walk(&mut self) -> Result<Arc<[Stat]>, OsError> {
        let all: Arc<[Stat]> = processes::all().map_err(OsError::of("reading /proc"))?.into();
        // Every walk is kept, so that no job is updated with one older than its last.
        self.last_walk = Some((Instant::now(), Arc::clone(&all)));
        Ok(all)
    }

    /// Returns a walk that is recent enough for accounting.
    fn recent_walk(&mut self) -> Result<Arc<[Stat]>, OsError> {
        match &self.last_walk {
            Some((at, all)) if at.elapsed() <= FRESH => Ok(Arc::clone(all)),
            _ => self.walk(),
        }
    }

    /// Resumes every member of the jobs that `choose` selects. The last walk of the stop knows
    /// them: stopped processes fork no children.
    fn resume(&mut self, choose: impl Fn(JobId) -> bool) -> Result<(), OsError> {
        let mut resumed = Vec::new();
        for (_, job) in self.jobs.iter_mut().filter(|(id, job)| job.blocked && choose(**id)) {
            job.blocked = false;
            // Also those not seen stopped: their stop may still be pending.
            resumed.extend(job.known());
        }
        // All at once: a process that already runs competes with the rest of this.
        let mut result = Ok(());
        for stat in resumed {
            result = result.and(send(&stat, libc::SIGCONT));
        }
        result
    }
}

impl Blocker for SigstopBlocker {
    fn mechanism(&self) -> Mechanism {
        Mechanism::Sigstop
    }

    fn prepare(&mut self, job: JobId) -> Result<SpawnTarget, OsError> {
        if self.all_blocked {
            return Err(super::birth_while_blocked(job));
        }
        if self.jobs.contains_key(&job) {
            let source = io::Error::from_raw_os_error(libc::EEXIST);
            return Err(OsError::new(format!("preparing job {job} twice"), source));
        }
        self.jobs.insert(job, Job::default());
        Ok(SpawnTarget::Session)
    }

    fn spawned(&mut self, job: JobId, pid: i32) -> Result<(), OsError> {
        let start = processes::start_time(pid)
            .map_err(|source| OsError::new(format!("finding job {job}"), source))?;
        let leader = Identity { pid, start };
        self.job(job)?;
        let told = self.custody.guard.watch(Message::Session(leader));
        told.map_err(OsError::of("telling the guardian"))?;
        let raise = self.share.raise();
        let raised = raise == 0 || self.share.apply(&[pid], raise);
        let job = self.job(job)?;
        (job.leader, job.raise) = (Some(leader), if raised { raise } else { 0 });
        Ok(())
    }

    fn adopt(&mut self, job: JobId, pid: i32) -> Result<(), OsError> {
        self.prepare(job)?;
        self.spawned(job, pid)
    }

    fn block_all(&mut self) -> Result<(), OsError> {
        if !self.custody.holds() {
            return self.run_all();
        }
        self.all_blocked = true;
        self.stop(|_| true)
    }

    fn run_only(&mut self, jobs: &[JobId]) -> Result<(), OsError> {
        if !self.custody.holds() {
            return self.run_all();
        }
        let chosen: BTreeSet<JobId> = jobs.iter().copied().collect();
        let running: BTreeSet<JobId> =
            self.jobs.iter().filter(|(_, job)| !job.blocked).map(|(id, _)| *id).collect();
        let to_stop = |job| running.contains(&job) && !chosen.contains(&job);
        let stopped =
            if running.iter().any(|job| to_stop(*job)) { self.stop(to_stop) } else { Ok(()) };
        self.all_blocked = false;
        self.raise_jobs(|job| chosen.contains(&job), self.share.raise());
        let resumed = self.resume(|job| chosen.contains(&job));
        stopped.and(resumed)
    }

    fn run_all(&mut self) -> Result<(), OsError> {
        self.all_blocked = false;
        self.raise_jobs(|_| true, 0);
        self.resume(|_| true)
    }

    fn set_demand(&mut self, demand: Demand) {
        self.share.set(&KernelFiles, &mut *self.custody.guard, demand);
    }

    /// Sums the clocks of the job's processes and the times of children that they waited for; the
    /// latter have the kernel's resolution of 10 ms.
    fn cpu_time(&mut self, job: JobId) -> Result<Nanos, OsError> {
        // A blocked job's time is that of the walk which stopped it.
        if !self.job(job)?.blocked {
            let all = self.recent_walk()?;
            self.job(job)?.update(&all);
        }
        Ok(self.job(job)?.members.cpu_time())
    }

    /// Returns the threads of the processes that the last walk has found.
    fn threads(&mut self, job: JobId) -> Vec<i32> {
        let Some(job) = self.jobs.get(&job) else { return Vec::new() };
        let threads = |process: Stat| processes::threads(process.pid).unwrap_or_default();
        job.known().flat_map(threads).collect()
    }

    fn populated(&mut self, job: JobId) -> Result<bool, OsError> {
        let all = self.walk()?;
        Ok(!self.job(job)?.update(&all).is_empty())
    }

    fn signal(&mut self, job: JobId, signal: i32) -> Result<(), OsError> {
        let walks = if signal == libc::SIGKILL { MAX_WALKS } else { 1 };
        let mut result = Ok(());
        let mut sent = BTreeSet::new();
        for _ in 0..walks {
            let all = self.walk()?;
            let mut living = self.job(job)?.update(&all);
            living.retain(|stat| sent.insert(stat.pid));
            if living.is_empty() {
                break;
            }
            for stat in living {
                result = result.and(send(&stat, signal));
            }
        }
        result
    }

    fn retire(&mut self, job: JobId) -> Result<(), OsError> {
        let left = self.populated(job)?;
        if left {
            self.resume(|id| id == job)?;
        }
        self.jobs.remove(&job);
        if left {
            let source = io::Error::from_raw_os_error(libc::EBUSY);
            return Err(OsError::new(format!("job {job} left processes behind"), source));
        }
        Ok(())
    }

    fn notices(&mut self) -> Vec<String> {
        self.custody.notices.extend(self.share.take_notice());
        std::mem::take(&mut self.custody.notices)
    }
}

impl Drop for SigstopBlocker {
    fn drop(&mut self) {
        if self.run_all().is_ok() {
            self.custody.guard.goodbye();
        }
    }
}
