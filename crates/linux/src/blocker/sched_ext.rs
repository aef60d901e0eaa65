//! Blocking by a BPF scheduler: the runnable tasks of blocked jobs wait in its queues.
//!
//! Nothing is frozen and no process is signalled; a blocked job that sleeps in a system call goes
//! on sleeping, and waits when it wakes up. The jobs' groups are those of the freezer's blocker,
//! which also counts their time and ends them, and blocks them once the kernel has ended the
//! scheduler.
//!
//! The kernel ends a scheduler one of whose runnable tasks has waited for
//! [`WATCHDOG`](memweir_scx::WATCHDOG). So a job that was blocked for [`LONG_WAIT`] is released into
//! the freezer: its tasks run as far as that, and then they are no longer runnable.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use memweir_core::{JobId, Nanos};
use memweir_scx::{Scheduler, Slot};

use super::cgroup::CgroupBlocker;
use super::{BlockError, Blocker, Demand, Mechanism, SpawnTarget};
use crate::cgroup::Files;
use crate::scheduling_class::{enter, enter_all};

/// Longest time that a job is held before it is frozen. It is checked once in a quantum, of 10 s at
/// most, and what is left of the watchdog's 30 s is for tasks that wait for a CPU on their way.
pub(super) const LONG_WAIT: Duration = Duration::from_secs(10);

/// A blocker over a BPF scheduler.
pub(super) struct SchedExtBlocker {
    /// Absent once the kernel has ended it. Dropped first: then every job runs.
    scheduler: Option<Box<dyn Scheduler>>,
    groups: CgroupBlocker,
    files: Arc<dyn Files>,
    jobs: BTreeMap<JobId, Job>,
    /// Retired jobs that left processes behind. They run freely.
    left_behind: Vec<(PathBuf, Place)>,
    all_blocked: bool,
    long_wait: Duration,
    /// Gives a thread to the scheduler's class.
    enter: fn(i32) -> io::Result<()>,
    notices: Vec<String>,
}

/// A job's place in the scheduler.
#[derive(Clone, Copy)]
struct Place {
    slot: Slot,
    /// Id of its group.
    group: u64,
}

struct Job {
    place: Place,
    state: State,
    /// True if SIGKILL was sent, which takes effect when a task runs.
    dying: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    /// Its runnable tasks wait since then.
    Held(Instant),
    /// It was held for long, and is in the freezer or on its way.
    Frozen,
}

impl SchedExtBlocker {
    /// Takes over the groups of `groups`, whose files are `files`, and a loaded scheduler.
    pub(super) fn new(
        scheduler: Box<dyn Scheduler>,
        groups: CgroupBlocker,
        files: Arc<dyn Files>,
        long_wait: Duration,
    ) -> Self {
        Self {
            scheduler: Some(scheduler),
            groups,
            files,
            jobs: BTreeMap::new(),
            left_behind: Vec::new(),
            all_blocked: false,
            long_wait,
            enter,
            notices: Vec::new(),
        }
    }

    /// Returns the scheduler, unless the kernel has ended it.
    fn scheduler(&mut self) -> Option<&mut Box<dyn Scheduler>> {
        if let Some(ended) = self.scheduler.as_ref().and_then(|scheduler| scheduler.ended()) {
            self.scheduler = None;
            self.notices.push(format!(
                "the kernel ended the BPF scheduler ({ended}); jobs are blocked by the freezer \
                 from here on"
            ));
        }
        self.scheduler.as_mut()
    }

    /// Hands the jobs' states to the scheduler.
    fn select(&mut self) -> Result<(), BlockError> {
        self.sweep();
        let all_blocked = self.all_blocked;
        let runs = |job: &&Job| {
            job.dying || job.state == State::Frozen || (job.state == State::Running && !all_blocked)
        };
        let jobs = self.jobs.values().filter(runs).map(|job| job.place.slot);
        let slots: Vec<Slot> =
            jobs.chain(self.left_behind.iter().map(|(_, place)| place.slot)).collect();
        match &mut self.scheduler {
            Some(scheduler) => scheduler
                .select(&slots)
                .map_err(|source| BlockError::new("selecting jobs in the scheduler", source)),
            None => Ok(()),
        }
    }

    /// Freezes jobs that are held for long, and thaws those that may run again.
    fn follow_the_freezer(&mut self) -> Result<(), BlockError> {
        let mut result = Ok(());
        for (id, job) in &mut self.jobs {
            let long = matches!(job.state, State::Held(since) if since.elapsed() >= self.long_wait);
            if long && !job.dying {
                match self.groups.freeze_job(*id) {
                    Ok(true) => job.state = State::Frozen,
                    Ok(false) => {}
                    Err(error) => result = result.and(Err(error)),
                }
            }
        }
        result
    }

    /// Sets which jobs run, without telling the scheduler.
    fn choose(&mut self, is_chosen: impl Fn(JobId) -> bool) -> Result<(), BlockError> {
        let mut result = Ok(());
        let now = Instant::now();
        for (id, job) in &mut self.jobs {
            job.state = match (is_chosen(*id), job.state) {
                (true, State::Frozen) => {
                    result = result.and(self.groups.thaw_job(*id));
                    State::Running
                }
                (true, _) => State::Running,
                (false, State::Running) => State::Held(now),
                (false, state) => state,
            };
        }
        result
    }

    /// Gives a job that has a group its place in the scheduler.
    fn admit(&mut self, job: JobId) -> Result<(), BlockError> {
        let failed = |source| BlockError::new(format!("admitting job {job}"), source);
        let group = std::fs::metadata(self.groups.group(job)?).map_err(failed)?.ino();
        let Some(scheduler) = self.scheduler() else { return Ok(()) };
        let slot = scheduler.admit(group).map_err(failed)?;
        let place = Place { slot, group };
        self.jobs.insert(job, Job { place, state: State::Running, dying: false });
        self.select()
    }

    fn enter_all(&self, group: &Path) -> io::Result<()> {
        enter_all(&*self.files, group, self.enter)
    }

    /// Dismisses retired jobs whose groups are gone by now.
    fn sweep(&mut self) {
        let Some(scheduler) = &mut self.scheduler else { return };
        self.left_behind.retain(|(path, place)| {
            path.exists() || scheduler.dismiss(place.group, place.slot).is_err()
        });
    }
}

impl Blocker for SchedExtBlocker {
    fn mechanism(&self) -> Mechanism {
        Mechanism::SchedExt
    }

    fn prepare(&mut self, job: JobId) -> Result<SpawnTarget, BlockError> {
        if self.all_blocked {
            return Err(BlockError::birth_while_blocked(job));
        }
        let target = self.groups.prepare(job)?;
        if let Err(error) = self.admit(job) {
            // The group is empty; one that cannot be removed is removed with the parent.
            let _ = self.groups.retire(job);
            return Err(error);
        }
        Ok(target)
    }

    fn spawned(&mut self, job: JobId, pid: i32) -> Result<(), BlockError> {
        self.groups.group(job)?;
        let source = (self.enter)(pid);
        source.map_err(|source| BlockError::new(format!("giving job {job} to the class"), source))
    }

    fn adopt(&mut self, job: JobId, pid: i32) -> Result<(), BlockError> {
        self.groups.adopt(job, pid)?;
        self.admit(job)?;
        let group = self.groups.group(job)?.to_owned();
        let entered = self.enter_all(&group);
        entered.map_err(|source| BlockError::new(format!("giving job {job} to the class"), source))
    }

    fn block_all(&mut self) -> Result<(), BlockError> {
        self.all_blocked = true;
        if self.scheduler().is_none() {
            return self.groups.block_all();
        }
        self.select()
    }

    fn run_only(&mut self, jobs: &[JobId]) -> Result<(), BlockError> {
        self.all_blocked = false;
        if self.scheduler().is_none() {
            return self.groups.run_only(jobs);
        }
        let chosen: BTreeSet<JobId> = jobs.iter().copied().collect();
        let thawed = self.choose(|job| chosen.contains(&job));
        let frozen = self.follow_the_freezer();
        thawed.and(frozen).and(self.select())
    }

    fn run_all(&mut self) -> Result<(), BlockError> {
        self.all_blocked = false;
        if self.scheduler().is_none() {
            return self.groups.run_all();
        }
        let thawed = self.choose(|_| true);
        thawed.and(self.select())
    }

    /// Does nothing: tasks of this class run when no ordinary task wants the CPU, at any weight.
    fn set_demand(&mut self, _demand: Demand) {}

    fn cpu_time(&mut self, job: JobId) -> Result<Nanos, BlockError> {
        self.groups.cpu_time(job)
    }

    fn populated(&mut self, job: JobId) -> Result<bool, BlockError> {
        self.groups.populated(job)
    }

    fn signal(&mut self, job: JobId, signal: i32) -> Result<(), BlockError> {
        self.groups.signal(job, signal)?;
        match self.jobs.get_mut(&job) {
            Some(found) if signal == libc::SIGKILL && !found.dying => {
                found.dying = true;
                self.select()
            }
            _ => Ok(()),
        }
    }

    fn retire(&mut self, job: JobId) -> Result<(), BlockError> {
        let path = self.groups.group(job)?.to_owned();
        let retired = self.groups.retire(job);
        let Some(Job { place, .. }) = self.jobs.remove(&job) else { return retired };
        // A group that is gone is dismissed at once.
        self.left_behind.push((path, place));
        let selected = self.select();
        retired.and(selected)
    }

    fn notices(&mut self) -> Vec<String> {
        self.notices.extend(self.groups.notices());
        std::mem::take(&mut self.notices)
    }
}

impl Drop for SchedExtBlocker {
    /// Lets every job run, also those in the freezer.
    fn drop(&mut self) {
        self.scheduler = None;
        let _ = self.groups.run_all();
    }
}
