//! Blocking by a BPF scheduler: the runnable tasks of blocked jobs wait in its queues.
//!
//! Nothing is frozen and no process is signalled; a blocked job that sleeps in a system call goes
//! on sleeping, and waits when it wakes up. The jobs' groups are those of the freezer's blocker,
//! which also counts their time and ends them, and blocks them once the kernel has ended the
//! scheduler.
//!
//! The kernel ends a scheduler one of whose runnable tasks has waited for [`WATCHDOG`]. So a job
//! that was blocked for [`LONG_WAIT`] is released into the freezer: its tasks run as far as that,
//! and then they are no longer runnable. Without a guardian, which would thaw it if memweir died,
//! it runs for a quantum instead.
//!
//! The scheduler also keeps the [`BandwidthLimits`] of the jobs, until the kernel ends it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use memweir_core::{BytesPerSec, JobId, Nanos};
use memweir_scx::{Scheduler, Slot, Usage, WATCHDOG};

use super::cgroup::{CgroupBlocker, Freeze};
use super::limits::{BandwidthLimits, Budget, LimitFailure, LimitUse};
use super::{Blocker, Demand, Mechanism, SpawnTarget};
use crate::OsError;
use crate::files::Files;
use crate::scheduling_class::{enter, enter_all};

/// Longest time that a job is held before it is frozen, or runs for a quantum: 10 s. It is checked
/// once in a quantum, which takes another third of the watchdog's time at most, and the last third
/// is for tasks that wait for a CPU on their way.
pub(super) const LONG_WAIT: Duration = Duration::from_secs(WATCHDOG.as_secs() / 3);

/// Time between two looks at the counters of limits. Each interrupts the CPUs for a moment.
const COUNTER_CHECK: Duration = Duration::from_secs(1);

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
    /// Absent if no job can have one.
    limits: Option<BandwidthLimits>,
    /// Usage of jobs that have left the scheduler.
    past_usage: BTreeMap<JobId, Usage>,
    limit_failures: Vec<LimitFailure>,
    /// Time of the last look at the counters, and the hot-plugs until then.
    counters_checked: (Instant, u64),
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
    /// Takes over the groups of `groups`, whose files are `files`, and a scheduler, which has been
    /// loaded for these limits.
    pub(super) fn new(
        scheduler: Box<dyn Scheduler>,
        groups: CgroupBlocker,
        files: Arc<dyn Files>,
        long_wait: Duration,
        limits: Option<BandwidthLimits>,
    ) -> Self {
        let counters_checked = (Instant::now(), scheduler.hotplugs());
        Self {
            scheduler: Some(scheduler),
            groups,
            files,
            jobs: BTreeMap::new(),
            left_behind: Vec::new(),
            all_blocked: false,
            long_wait,
            enter,
            limits,
            past_usage: BTreeMap::new(),
            limit_failures: Vec::new(),
            counters_checked,
            notices: Vec::new(),
        }
    }

    /// Returns the scheduler, unless the kernel has ended it.
    fn scheduler(&mut self) -> Option<&mut Box<dyn Scheduler>> {
        if let Some(ended) = self.scheduler.as_ref().and_then(|scheduler| scheduler.ended()) {
            let jobs: Vec<JobId> = self.jobs.keys().copied().collect();
            jobs.into_iter().for_each(|job| self.keep_usage(job));
            self.scheduler = None;
            let then = match self.groups.custody.is_lost() {
                true => "no job is blocked from here on, since there is no guardian",
                false => "jobs are blocked by the freezer from here on",
            };
            let limits = match self.jobs.keys().any(|job| self.has_limit(*job)) {
                true => ", and no bandwidth is limited",
                false => "",
            };
            self.notices
                .push(format!("the kernel ended the BPF scheduler ({ended}); {then}{limits}"));
        }
        self.scheduler.as_mut()
    }

    /// Hands the jobs' states to the scheduler.
    fn select(&mut self) -> Result<(), OsError> {
        self.sweep();
        let all_blocked = self.all_blocked;
        let runs = |job: &&Job| {
            job.dying || job.state == State::Frozen || (job.state == State::Running && !all_blocked)
        };
        let jobs = self.jobs.values().filter(runs).map(|job| job.place.slot);
        let slots: Vec<Slot> =
            jobs.chain(self.left_behind.iter().map(|(_, place)| place.slot)).collect();
        match &mut self.scheduler {
            Some(scheduler) => {
                scheduler.select(&slots).map_err(OsError::of("selecting jobs in the scheduler"))
            }
            None => Ok(()),
        }
    }

    /// Thaws all jobs if there is no guardian any more: nobody would thaw them if memweir died.
    fn follow_the_guardian(&mut self) -> Result<(), OsError> {
        let Some(error) = self.groups.custody.take_loss() else { return Ok(()) };
        self.notices.push(format!(
            "the guardian process is gone and no other can be started ({error}); jobs that are \
             held for {} s run for a quantum from here on, and do not go to the freezer, where \
             they would stay if memweir died",
            self.long_wait.as_secs()
        ));
        let mut result = Ok(());
        for (id, job) in &mut self.jobs {
            if job.state == State::Frozen {
                match self.groups.set_job(*id, Freeze::Off) {
                    Ok(()) => job.state = State::Held(Instant::now()),
                    Err(error) => result = result.and(Err(error)),
                }
            }
        }
        result
    }

    /// Freezes jobs that are held for so long, or lets them run for a quantum without a guardian.
    fn relieve_the_held(&mut self, long_wait: Duration) -> Result<(), OsError> {
        let is_guarded = !self.groups.custody.is_lost();
        let mut result = Ok(());
        for (id, job) in &mut self.jobs {
            let long = matches!(job.state, State::Held(since) if since.elapsed() >= long_wait);
            if !long || job.dying {
                continue;
            }
            let relieved = match is_guarded {
                true => self.groups.set_job(*id, Freeze::On).map(|()| State::Frozen),
                false => Ok(State::Running),
            };
            match relieved {
                Ok(state) => job.state = state,
                Err(error) => result = result.and(Err(error)),
            }
        }
        result
    }

    /// Sets which jobs run, without telling the scheduler.
    fn choose(&mut self, is_chosen: impl Fn(JobId) -> bool) -> Result<(), OsError> {
        let mut result = Ok(());
        let now = Instant::now();
        for (id, job) in &mut self.jobs {
            job.state = match (is_chosen(*id), job.state) {
                (true, State::Frozen) => match self.groups.set_job(*id, Freeze::Off) {
                    Ok(()) => State::Running,
                    // The next decision tries again.
                    Err(error) => {
                        result = result.and(Err(error));
                        State::Frozen
                    }
                },
                (true, _) => State::Running,
                (false, State::Running) => State::Held(now),
                (false, state) => state,
            };
        }
        result
    }

    /// Gives a job that has a group its place in the scheduler.
    fn admit(&mut self, job: JobId) -> Result<(), OsError> {
        let failed = |source| OsError::new(format!("admitting job {job}"), source);
        let path = self.groups.group(job)?.to_owned();
        let group = std::fs::metadata(&path).map_err(failed)?.ino();
        if self.scheduler().is_none() {
            return Ok(());
        }
        let budget = self.limits.as_mut().map_or(Ok(None), |limits| limits.budget(job, &path));
        let budget = budget.map_err(failed)?;
        let Some(scheduler) = &mut self.scheduler else { return Ok(()) };
        let slot = scheduler.admit(group).map_err(failed)?;
        let limited = budget
            .map_or(Ok(()), |Budget { lines, counters }| scheduler.limit(slot, lines, counters));
        if let Err(error) = limited {
            let _ = scheduler.dismiss(group, slot);
            return Err(failed(error));
        }
        let place = Place { slot, group };
        self.jobs.insert(job, Job { place, state: State::Running, dying: false });
        self.select()
    }

    fn has_limit(&self, job: JobId) -> bool {
        self.limits.as_ref().is_some_and(|limits| limits.has(job))
    }

    /// Notes what a job with a limit has used, before its slot is another's.
    fn keep_usage(&mut self, job: JobId) {
        if !self.has_limit(job) {
            return;
        }
        self.check_counters_of(job);
        let (Some(scheduler), Some(found)) = (&self.scheduler, self.jobs.get(&job)) else { return };
        self.past_usage.insert(job, scheduler.usage(found.place.slot));
    }

    /// Looks at the counters of all limits, if it is time to, and opens them anew where CPUs have
    /// come or gone.
    fn check_counters(&mut self) {
        let (checked, hotplugs) = self.counters_checked;
        let Some(scheduler) = &self.scheduler else { return };
        if self.limits.is_none() || checked.elapsed() < COUNTER_CHECK {
            return;
        }
        let now = scheduler.hotplugs();
        self.counters_checked = (Instant::now(), now);
        let jobs: Vec<JobId> =
            self.jobs.keys().copied().filter(|job| self.has_limit(*job)).collect();
        for job in jobs {
            self.check_counters_of(job);
            if now != hotplugs
                && let Err(error) = self.reopen_counters(job)
            {
                self.limit_failures.push(LimitFailure::of_hotplug(job, &error));
            }
        }
    }

    fn check_counters_of(&mut self, job: JobId) {
        let (Some(scheduler), Some(limits)) = (&self.scheduler, &mut self.limits) else { return };
        let Some(found) = self.jobs.get(&job) else { return };
        self.limit_failures.extend(limits.check(job, &scheduler.events(found.place.slot)));
    }

    fn reopen_counters(&mut self, job: JobId) -> io::Result<()> {
        let path = self.groups.group(job).map_err(io::Error::other)?.to_owned();
        let (Some(scheduler), Some(limits)) = (&mut self.scheduler, &mut self.limits) else {
            return Ok(());
        };
        let Some(found) = self.jobs.get(&job) else { return Ok(()) };
        // First, since there may be no counters for both.
        scheduler.limit(found.place.slot, 0, Vec::new())?;
        let Some(Budget { lines, counters }) = limits.budget(job, &path)? else { return Ok(()) };
        scheduler.limit(found.place.slot, lines, counters)
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

    fn prepare(&mut self, job: JobId) -> Result<SpawnTarget, OsError> {
        if self.all_blocked {
            return Err(super::birth_while_blocked(job));
        }
        let target = self.groups.prepare(job)?;
        if let Err(error) = self.admit(job) {
            // The group is empty; one that cannot be removed is removed with the parent.
            let _ = self.groups.retire(job);
            return Err(error);
        }
        Ok(target)
    }

    fn spawned(&mut self, job: JobId, pid: i32) -> Result<(), OsError> {
        self.groups.group(job)?;
        let source = (self.enter)(pid);
        source.map_err(|source| OsError::new(format!("giving job {job} to the class"), source))
    }

    fn adopt(&mut self, job: JobId, pid: i32) -> Result<(), OsError> {
        self.groups.adopt(job, pid)?;
        self.admit(job)?;
        let group = self.groups.group(job)?.to_owned();
        let entered = self.enter_all(&group);
        entered.map_err(|source| OsError::new(format!("giving job {job} to the class"), source))
    }

    fn block_all(&mut self) -> Result<(), OsError> {
        self.all_blocked = true;
        if self.scheduler().is_none() {
            return self.groups.block_all();
        }
        let thawed = self.follow_the_guardian();
        thawed.and(self.select())
    }

    /// Freezes them: nobody could do that before the kernel ends a scheduler that holds tasks.
    fn block_for_long(&mut self) -> Result<(), OsError> {
        self.all_blocked = true;
        if self.scheduler().is_none() {
            return self.groups.block_all();
        }
        let thawed = self.follow_the_guardian().and(self.choose(|_| false));
        let relieved = self.relieve_the_held(Duration::ZERO);
        thawed.and(relieved).and(self.select())
    }

    fn run_only(&mut self, jobs: &[JobId]) -> Result<(), OsError> {
        self.all_blocked = false;
        if self.scheduler().is_none() {
            return self.groups.run_only(jobs);
        }
        let chosen: BTreeSet<JobId> = jobs.iter().copied().collect();
        let thawed = self.follow_the_guardian().and(self.choose(|job| chosen.contains(&job)));
        let relieved = self.relieve_the_held(self.long_wait);
        thawed.and(relieved).and(self.select())
    }

    fn run_all(&mut self) -> Result<(), OsError> {
        self.all_blocked = false;
        if self.scheduler().is_none() {
            return self.groups.run_all();
        }
        let thawed = self.choose(|_| true);
        thawed.and(self.select())
    }

    /// Does nothing: tasks of this class run when no ordinary task wants the CPU, at any weight.
    fn set_demand(&mut self, _demand: Demand) {}

    fn cpu_time(&mut self, job: JobId) -> Result<Nanos, OsError> {
        self.groups.cpu_time(job)
    }

    fn populated(&mut self, job: JobId) -> Result<bool, OsError> {
        self.groups.populated(job)
    }

    fn signal(&mut self, job: JobId, signal: i32) -> Result<(), OsError> {
        self.groups.signal(job, signal)?;
        match self.jobs.get_mut(&job) {
            Some(found) if signal == libc::SIGKILL && !found.dying => {
                found.dying = true;
                self.select()
            }
            _ => Ok(()),
        }
    }

    fn retire(&mut self, job: JobId) -> Result<(), OsError> {
        let path = self.groups.group(job)?.to_owned();
        let retired = self.groups.retire(job);
        self.keep_usage(job);
        let Some(Job { place, .. }) = self.jobs.remove(&job) else { return retired };
        // A group that is gone is dismissed at once.
        self.left_behind.push((path, place));
        let selected = self.select();
        retired.and(selected)
    }

    fn limit(&mut self, job: JobId, rate: BytesPerSec) -> Result<(), OsError> {
        let Some(limits) = &mut self.limits else {
            let source = io::Error::other("the scheduler was loaded without limits");
            return Err(OsError::new(format!("limiting job {job}"), source));
        };
        limits.insert(job, rate);
        Ok(())
    }

    fn take_limit_use(&mut self, job: JobId) -> Option<LimitUse> {
        self.keep_usage(job);
        let usage = self.past_usage.remove(&job).unwrap_or_default();
        self.limits.as_mut()?.remove(job, usage)
    }

    fn limit_failures(&mut self) -> Vec<LimitFailure> {
        self.check_counters();
        std::mem::take(&mut self.limit_failures)
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

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::{AsFd, BorrowedFd};
    use std::sync::Mutex;

    use memweir_scx::{Counter, Ended};

    use super::*;
    use crate::cgroup::{Version, names};
    use crate::files::fake::FakeTree;
    use crate::guardian::testing::FakeGuard;

    /// A scheduler that notes what it is told. Clones share it.
    #[derive(Clone, Default)]
    struct FakeScheduler(Arc<Mutex<Told>>, Option<Arc<File>>);

    #[derive(Default)]
    struct Told {
        admitted: BTreeMap<u64, Slot>,
        selections: Vec<Vec<u16>>,
        ended: Option<Ended>,
        is_full: bool,
        /// Lines of each limit, and the number of its counters.
        limits: Vec<(u32, usize)>,
        hotplugs: u64,
    }

    impl FakeScheduler {
        fn selected(&self) -> Vec<u16> {
            self.0.lock().unwrap().selections.last().cloned().unwrap_or_default()
        }

        fn admitted(&self) -> usize {
            self.0.lock().unwrap().admitted.len()
        }
    }

    impl Scheduler for FakeScheduler {
        fn admit(&mut self, group: u64) -> io::Result<Slot> {
            let mut told = self.0.lock().unwrap();
            if told.is_full {
                return Err(io::Error::other("no room"));
            }
            let free = (0..).filter_map(Slot::new);
            let slot = { free }.find(|slot| !told.admitted.values().any(|s| s == slot)).unwrap();
            told.admitted.insert(group, slot);
            Ok(slot)
        }

        fn dismiss(&mut self, group: u64, slot: Slot) -> io::Result<()> {
            assert_eq!(self.0.lock().unwrap().admitted.remove(&group), Some(slot));
            Ok(())
        }

        fn select(&mut self, slots: &[Slot]) -> io::Result<()> {
            let slots = slots.iter().map(|slot| slot.number()).collect();
            self.0.lock().unwrap().selections.push(slots);
            Ok(())
        }

        fn limit(&mut self, _: Slot, lines: u32, counters: Vec<Counter>) -> io::Result<()> {
            self.0.lock().unwrap().limits.push((lines, counters.len()));
            Ok(())
        }

        fn usage(&self, _: Slot) -> Usage {
            Usage::default()
        }

        fn events(&self, _: Slot) -> Vec<BorrowedFd<'_>> {
            self.1.iter().map(|event| event.as_fd()).collect()
        }

        fn hotplugs(&self) -> u64 {
            self.0.lock().unwrap().hotplugs
        }

        fn ended(&self) -> Option<Ended> {
            self.0.lock().unwrap().ended.clone()
        }
    }

    const FOR_EVER: Duration = Duration::from_secs(1000);

    fn blocker(tree: &FakeTree, long_wait: Duration) -> (SchedExtBlocker, FakeScheduler) {
        guarded_by(&FakeGuard::default(), tree, long_wait)
    }

    fn guarded_by(
        guard: &FakeGuard,
        tree: &FakeTree,
        long_wait: Duration,
    ) -> (SchedExtBlocker, FakeScheduler) {
        let scheduler = FakeScheduler::default();
        let files: Arc<dyn Files> = Arc::new(tree.clone());
        let guard = Box::new(guard.clone());
        let parent = tree.root().join("p");
        let groups = CgroupBlocker::new(Arc::clone(&files), Version::V2, parent, guard, 8).unwrap();
        let boxed = Box::new(scheduler.clone());
        let mut blocker = SchedExtBlocker::new(boxed, groups, files, long_wait, None);
        blocker.enter = |_| Ok(());
        (blocker, scheduler)
    }

    fn jobs(blocker: &mut SchedExtBlocker, count: u32) -> Vec<JobId> {
        let jobs: Vec<JobId> = (0..count).map(JobId).collect();
        for job in &jobs {
            blocker.prepare(*job).unwrap();
            blocker.spawned(*job, 1).unwrap();
        }
        jobs
    }

    #[test]
    fn a_decision_is_one_selection_and_freezes_nothing() {
        let tree = FakeTree::new();
        let (mut blocker, scheduler) = blocker(&tree, FOR_EVER);
        let jobs = jobs(&mut blocker, 4);
        assert_eq!(scheduler.selected(), [0, 1, 2, 3], "a new job runs");
        tree.forget_writes();
        for (chosen, slots) in [(&jobs[1..3], &[1, 2][..]), (&jobs[3..], &[3]), (&[], &[])] {
            blocker.block_all().unwrap();
            assert!(scheduler.selected().is_empty());
            assert!(blocker.prepare(JobId(9)).is_err(), "no process could set itself up");
            blocker.run_only(chosen).unwrap();
            assert_eq!(scheduler.selected(), slots);
        }
        blocker.run_all().unwrap();
        assert_eq!(scheduler.selected(), [0, 1, 2, 3]);
        assert!(tree.writes().is_empty());
    }

    #[test]
    fn a_job_that_is_held_for_long_goes_to_the_freezer_until_it_is_chosen() {
        let tree = FakeTree::new();
        let (mut blocker, scheduler) = blocker(&tree, Duration::ZERO);
        let jobs = jobs(&mut blocker, 2);
        tree.forget_writes();
        blocker.block_all().unwrap();
        blocker.run_only(&jobs[..1]).unwrap();
        // Its tasks must run to get into the freezer.
        assert_eq!(tree.writes_of("1").len(), 1);
        assert_eq!(scheduler.selected(), [0, 1]);
        blocker.block_all().unwrap();
        assert_eq!(scheduler.selected(), [1], "its tasks may still be on their way");
        tree.forget_writes();
        blocker.run_only(&jobs[1..]).unwrap();
        assert_eq!((tree.writes_of("0").len(), tree.writes_of("1").len()), (1, 1));
        drop(blocker);
        assert_eq!(tree.writes_of("0").len(), 2, "no job stays in the freezer");
    }

    #[test]
    fn a_job_that_cannot_be_thawed_is_thawed_by_the_next_decision() {
        let tree = FakeTree::new();
        let (mut blocker, _) = blocker(&tree, Duration::ZERO);
        let jobs = jobs(&mut blocker, 2);
        blocker.run_only(&jobs[..1]).unwrap();
        let switch = format!("{}/cgroup.freeze", names::leaf(jobs[1]));
        assert_eq!(tree.value(&format!("p/{switch}")), "1");
        tree.fail("write", &switch, libc::ENOMEM, 1);
        assert!(blocker.run_all().is_err());
        blocker.run_all().unwrap();
        assert_eq!(tree.value(&format!("p/{switch}")), "0");
    }

    #[test]
    fn jobs_that_are_blocked_for_long_go_to_the_freezer_at_once() {
        let tree = FakeTree::new();
        let (mut blocker, scheduler) = blocker(&tree, FOR_EVER);
        let jobs = jobs(&mut blocker, 2);
        let switches = jobs.iter().map(|job| format!("p/{}/cgroup.freeze", names::leaf(*job)));
        let switches: Vec<String> = switches.collect();
        let frozen = || switches.iter().map(|switch| tree.value(switch)).collect::<Vec<_>>();
        blocker.run_only(&jobs[..1]).unwrap();
        blocker.block_for_long().unwrap();
        assert_eq!(frozen(), ["1", "1"]);
        assert_eq!(scheduler.selected(), [0, 1], "their tasks must run to get there");
        blocker.run_only(&jobs[..1]).unwrap();
        assert_eq!(frozen(), ["0", "1"]);
    }

    #[test]
    fn without_a_guardian_jobs_leave_the_freezer_and_run_now_and_then_instead() {
        let tree = FakeTree::new();
        let guard = FakeGuard::default();
        let (mut blocker, scheduler) = guarded_by(&guard, &tree, Duration::ZERO);
        let jobs = jobs(&mut blocker, 2);
        blocker.block_all().unwrap();
        blocker.run_only(&jobs[..1]).unwrap();
        let switch = format!("p/{}/cgroup.freeze", names::leaf(jobs[1]));
        assert_eq!(tree.value(&switch), "1");
        guard.log().lost = true;
        blocker.block_all().unwrap();
        assert_eq!(tree.value(&switch), "0");
        assert!(scheduler.selected().is_empty(), "the scheduler holds it");
        let notices = blocker.notices();
        assert!(notices.len() == 1 && notices[0].contains("no memory"), "{notices:?}");
        tree.forget_writes();
        for _ in 0..2 {
            blocker.run_only(&jobs[..1]).unwrap();
            assert_eq!(scheduler.selected(), [0, 1], "it has waited for long");
            blocker.block_all().unwrap();
            assert!(scheduler.selected().is_empty());
        }
        assert!(tree.writes_of("1").is_empty());
        assert!(blocker.notices().is_empty());
        scheduler.0.lock().unwrap().ended =
            Some(Ended { reason: "runnable task stall".into(), message: String::new() });
        blocker.block_all().unwrap();
        let notices = blocker.notices();
        assert!(notices[0].contains("no job is blocked from here on"), "{notices:?}");
    }

    #[test]
    fn a_killed_job_runs_to_its_end_also_when_all_are_blocked() {
        let tree = FakeTree::new();
        let (mut blocker, scheduler) = blocker(&tree, FOR_EVER);
        let jobs = jobs(&mut blocker, 2);
        blocker.block_all().unwrap();
        blocker.signal(jobs[0], libc::SIGTERM).unwrap();
        assert!(scheduler.selected().is_empty());
        blocker.signal(jobs[1], libc::SIGKILL).unwrap();
        assert_eq!(scheduler.selected(), [1]);
        blocker.run_only(&jobs[..1]).unwrap();
        assert_eq!(scheduler.selected(), [0, 1]);
    }

    #[test]
    fn a_slot_is_given_back_when_the_group_is_gone() {
        let tree = FakeTree::new();
        let (mut blocker, scheduler) = blocker(&tree, FOR_EVER);
        let jobs = jobs(&mut blocker, 3);
        blocker.retire(jobs[0]).unwrap();
        assert_eq!((scheduler.admitted(), scheduler.selected()), (2, vec![1, 2]));
        tree.fail("remove_dir", &names::leaf(jobs[1]), libc::EBUSY, 100);
        blocker.retire(jobs[1]).unwrap_err();
        blocker.block_all().unwrap();
        assert_eq!(scheduler.selected(), [1], "what a job left behind runs freely");
    }

    #[test]
    fn an_ended_scheduler_is_told_and_the_freezer_goes_on() {
        let tree = FakeTree::new();
        let (mut blocker, scheduler) = blocker(&tree, FOR_EVER);
        let jobs = jobs(&mut blocker, 2);
        let reason = Ended { reason: "runnable task stall".into(), message: "sh[7]".into() };
        scheduler.0.lock().unwrap().ended = Some(reason);
        tree.forget_writes();
        blocker.block_all().unwrap();
        blocker.run_only(&jobs[..1]).unwrap();
        assert_eq!((tree.writes_of("1").len(), tree.writes_of("0").len()), (2, 1));
        let notices = blocker.notices();
        assert!(notices[0].contains("(runnable task stall: sh[7])"), "{notices:?}");
        assert!(blocker.notices().is_empty());
        blocker.prepare(JobId(5)).unwrap();
        blocker.retire(JobId(5)).unwrap();
    }

    #[test]
    fn a_job_without_a_slot_is_refused_and_leaves_no_group() {
        let tree = FakeTree::new();
        let (mut blocker, scheduler) = blocker(&tree, FOR_EVER);
        scheduler.0.lock().unwrap().is_full = true;
        let error = blocker.prepare(JobId(0)).unwrap_err();
        assert!(error.to_string().contains("no room"), "{error}");
        assert!(tree.root().join("p").read_dir().unwrap().all(|e| e.unwrap().path().is_file()));
    }

    /// One counter, on CPU 2.
    fn one_counter(_: &Path, lines: u32) -> Result<Vec<(usize, Counter)>, OsError> {
        let event = File::open("/dev/null").unwrap().into();
        Ok(vec![(2, Counter { event, lines })])
    }

    /// A blocker of which job 0 has a limit of 1000 lines in a millisecond.
    fn limited(tree: &FakeTree) -> (SchedExtBlocker, FakeScheduler) {
        let (mut blocker, mut scheduler) = blocker(tree, FOR_EVER);
        // A read returns no bytes, as that of an event in the error state.
        scheduler.1 = Some(Arc::new(File::open("/dev/null").unwrap()));
        blocker.limits = Some(BandwidthLimits::of(Box::new(one_counter)));
        blocker.scheduler = Some(Box::new(scheduler.clone()));
        blocker.limit(JobId(0), BytesPerSec(64e6)).unwrap();
        jobs(&mut blocker, 2);
        (blocker, scheduler)
    }

    fn later(blocker: &mut SchedExtBlocker) -> Vec<LimitFailure> {
        blocker.counters_checked.0 -= COUNTER_CHECK;
        blocker.limit_failures()
    }

    #[test]
    fn a_limit_without_a_counter_is_told_once_and_reported() {
        let tree = FakeTree::new();
        let (mut blocker, scheduler) = limited(&tree);
        assert_eq!(scheduler.0.lock().unwrap().limits, [(1000, 1)]);
        assert!(blocker.limit_failures().is_empty(), "it is not time yet");
        let failures = later(&mut blocker);
        assert_eq!(failures.iter().map(|failure| failure.job).collect::<Vec<_>>(), [JobId(0)]);
        assert!(later(&mut blocker).is_empty());
        blocker.retire(JobId(0)).unwrap();
        assert_eq!(blocker.take_limit_use(JobId(0)).unwrap().uncounted_cpus, [2]);
        assert!(blocker.take_limit_use(JobId(0)).is_none() && blocker.past_usage.is_empty());
        assert!(blocker.take_limit_use(JobId(1)).is_none());
    }

    #[test]
    fn a_job_that_ends_at_once_has_its_counters_looked_at() {
        let tree = FakeTree::new();
        let (mut blocker, _) = limited(&tree);
        blocker.retire(JobId(0)).unwrap();
        assert_eq!(blocker.limit_failures().len(), 1);
    }

    #[test]
    fn counters_are_opened_anew_when_a_cpu_comes() {
        let tree = FakeTree::new();
        let (mut blocker, scheduler) = limited(&tree);
        later(&mut blocker);
        assert_eq!(scheduler.0.lock().unwrap().limits.len(), 1);
        scheduler.0.lock().unwrap().hotplugs += 1;
        later(&mut blocker);
        later(&mut blocker);
        assert_eq!(scheduler.0.lock().unwrap().limits, [(1000, 1), (0, 0), (1000, 1)]);
    }

    #[test]
    fn all_threads_of_an_adopted_group_enter_the_class() {
        let tree = FakeTree::new();
        let group = tree.group("g");
        std::fs::write(group.join("cgroup.threads"), "11\n12\n").unwrap();
        let below = tree.group("g/below");
        std::fs::write(below.join("cgroup.threads"), "13\n").unwrap();
        let entered = Mutex::new(Vec::new());
        enter_all(&tree, &group, |tid| {
            entered.lock().unwrap().push(tid);
            Ok(())
        })
        .unwrap();
        assert_eq!(entered.into_inner().unwrap(), [11, 12, 13]);
    }
}
