//! Blocking by freezing control groups: one leaf per job below one group that memweir owns.
//!
//! Both versions freeze whole subtrees, so one write to the parent stops all jobs. While the parent
//! is frozen, leaves are flipped without waking any job, and thawing the parent lets exactly the
//! selected jobs run: the *two-level switch*, which does not depend on jobs that are already
//! resumed leaving a CPU to the scheduler.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memweir_core::{JobId, Nanos};

use super::custody::Custody;
use super::processes::{self, Identity, Members};
use super::share::Share;
use super::{Blocker, Demand, Mechanism, SpawnTarget};
use crate::OsError;
use crate::cgroup::{self, Version, names};
use crate::files::Files;
use crate::guardian::{Guard, Message};

/// A blocker over either version of control groups.
pub(super) struct CgroupBlocker {
    files: Arc<dyn Files>,
    version: Version,
    parent: PathBuf,
    switch: Option<File>,
    leaves: BTreeMap<JobId, Leaf>,
    /// Retired leaves that are not empty yet. They run freely.
    left_behind: Vec<PathBuf>,
    /// Number of further leaves that may keep their switch open.
    spare_handles: usize,
    parent_frozen: bool,
    pub(super) custody: Custody,
    share: Share,
}

struct Leaf {
    path: PathBuf,
    /// Kept open: opening costs more than the write. Absent beyond the limit of open files.
    switch: Option<File>,
    frozen: bool,
    /// True if SIGKILL was sent under v1, where it takes effect only in thawed groups.
    dying: bool,
    /// First process of an adopted job that the kernel has not let into the group, or not all of
    /// it. The job runs freely; signals find it by its session.
    outside: Option<Identity>,
    /// Current change of its processes' nice values.
    raise: i32,
    /// Source of the CPU time under v1, which accounts none.
    members: Members,
}

impl CgroupBlocker {
    /// Creates the parent group `parent` after the guardian has been told of it.
    pub(super) fn new(
        files: Arc<dyn Files>,
        version: Version,
        parent: PathBuf,
        mut guard: Box<dyn Guard>,
        spare_handles: usize,
    ) -> Result<Self, OsError> {
        guard
            .watch(Message::Group(version, parent.clone()))
            .map_err(OsError::of("telling the guardian"))?;
        let made = files.create_dir(&parent);
        if let Err(source) = made {
            guard.goodbye();
            return Err(OsError::new(format!("making the group {}", parent.display()), source));
        }
        let mut blocker = Self {
            files,
            version,
            parent,
            switch: None,
            leaves: BTreeMap::new(),
            left_behind: Vec::new(),
            spare_handles,
            parent_frozen: false,
            custody: Custody::new(guard),
            share: Share::by_nice(),
        };
        let switch = blocker.parent.join(version.switch());
        let opened = blocker.files.open(&switch);
        let failed = |source| OsError::new(format!("opening {}", switch.display()), source);
        blocker.switch = Some(opened.map_err(failed)?);
        Ok(blocker)
    }

    /// Keeps the batch's share by the weight of the parent group, where the cpu controller allows
    /// it. `own` is memweir's own v2 group.
    pub(super) fn weigh_parent(&mut self, own: Option<&Path>) {
        let guard = &mut *self.custody.guard;
        self.share = Share::of_group(&*self.files, guard, &self.parent, own);
    }

    /// Changes the nice values of a leaf's processes, where they differ.
    fn raise(files: &dyn Files, share: &mut Share, leaf: &mut Leaf, raise: i32) {
        if leaf.raise != raise {
            let pids = cgroup::pids(files, &leaf.path).unwrap_or_default();
            if share.apply(&pids, raise) {
                leaf.raise = raise;
            }
        }
    }

    fn leaf(&mut self, job: JobId) -> Result<&mut Leaf, OsError> {
        self.leaves.get_mut(&job).ok_or_else(|| super::unknown(job))
    }

    fn set_parent(&mut self, freeze: Freeze) -> Result<(), OsError> {
        let path = self.parent.join(self.version.switch());
        let value = freeze.value(self.version);
        let written = match &self.switch {
            Some(handle) => self.files.write_open(handle, &path, value),
            None => self.files.write(&path, value),
        };
        written.map_err(|source| OsError::new(freeze.describe(&self.parent), source))?;
        self.parent_frozen = freeze == Freeze::On;
        Ok(())
    }

    /// Freezes or thaws every leaf whose state differs from the one that `frozen` asks for. Goes
    /// through all of them even if some fail.
    fn set_leaves(&mut self, frozen: impl Fn(JobId) -> bool) -> Result<(), OsError> {
        let mut result = Ok(());
        for (job, leaf) in &mut self.leaves {
            let want = frozen(*job) && !leaf.dying && leaf.outside.is_none();
            if want != leaf.frozen {
                let freeze = if want { Freeze::On } else { Freeze::Off };
                result = result.and(leaf.set(&*self.files, self.version, freeze));
            }
        }
        result
    }

    /// Returns the group of a job.
    pub(super) fn group(&self, job: JobId) -> Result<&Path, OsError> {
        self.leaves.get(&job).map(|leaf| &*leaf.path).ok_or_else(|| super::unknown(job))
    }

    /// Freezes one job, beside the jobs that [`run_only`](Blocker::run_only) blocks, or thaws one
    /// that was frozen so. The guardian of a frozen job must live, to thaw it.
    pub(super) fn set_job(&mut self, job: JobId, freeze: Freeze) -> Result<(), OsError> {
        let (files, version) = (Arc::clone(&self.files), self.version);
        self.leaf(job)?.set(&*files, version, freeze)
    }

    /// Removes retired leaves that are empty by now.
    fn sweep(&mut self) {
        let files = &*self.files;
        self.left_behind.retain(|group| cgroup::remove_tree(files, group).is_err());
    }
}

/// Returns the processes of the session that `leader` began, and their descendants.
fn session(leader: &Identity) -> std::io::Result<Vec<i32>> {
    let all = processes::all()?;
    let related = processes::related(&all, &processes::sessions(&all, [leader]), &BTreeSet::new());
    Ok(related.iter().map(|stat| stat.pid).collect())
}

/// The state that a group's switch asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Freeze {
    On,
    Off,
}

impl Freeze {
    fn value(self, version: Version) -> &'static str {
        match self {
            Self::On => version.frozen(),
            Self::Off => version.thawed(),
        }
    }

    fn describe(self, group: &Path) -> String {
        let verb = if self == Self::On { "freezing" } else { "thawing" };
        format!("{verb} {}", group.display())
    }
}

impl Leaf {
    fn set(&mut self, files: &dyn Files, version: Version, freeze: Freeze) -> Result<(), OsError> {
        let path = self.path.join(version.switch());
        let value = freeze.value(version);
        let written = match &self.switch {
            Some(handle) => files.write_open(handle, &path, value),
            None => files.write(&path, value),
        };
        // A leaf that another program removed holds no process.
        cgroup::unless_gone(written)
            .map_err(|source| OsError::new(freeze.describe(&self.path), source))?;
        self.frozen = freeze == Freeze::On;
        Ok(())
    }
}

impl Blocker for CgroupBlocker {
    fn mechanism(&self) -> Mechanism {
        match self.version {
            Version::V2 => Mechanism::CgroupV2,
            Version::V1 => Mechanism::CgroupV1,
        }
    }

    fn prepare(&mut self, job: JobId) -> Result<SpawnTarget, OsError> {
        if self.parent_frozen {
            return Err(super::birth_while_blocked(job));
        }
        let path = self.parent.join(names::leaf(job));
        let failed = |source| OsError::new(format!("making the group {}", path.display()), source);
        self.files.create_dir(&path).map_err(failed)?;
        let target = match self.version {
            Version::V2 => self.files.open_dir(&path).map(SpawnTarget::CgroupV2),
            Version::V1 => Ok(SpawnTarget::CgroupV1(path.clone())),
        };
        let target = target.map_err(|source| {
            let _ = self.files.remove_dir(&path);
            failed(source)
        })?;
        // Without a handle the switch is opened at each use.
        let switch = (self.spare_handles > 0)
            .then(|| self.files.open(&path.join(self.version.switch())).ok())
            .flatten();
        self.spare_handles -= usize::from(switch.is_some());
        let members = Members::default();
        let (frozen, dying, outside) = (false, false, None);
        let leaf = Leaf { path, switch, frozen, dying, outside, raise: 0, members };
        self.leaves.insert(job, leaf);
        Ok(target)
    }

    fn spawned(&mut self, job: JobId, _pid: i32) -> Result<(), OsError> {
        let leaf = self.leaves.get_mut(&job).ok_or_else(|| super::unknown(job))?;
        let raise = self.share.raise();
        Self::raise(&*self.files, &mut self.share, leaf, raise);
        Ok(())
    }

    fn adopt(&mut self, job: JobId, pid: i32) -> Result<(), OsError> {
        let failed = |source| OsError::new(format!("adopting job {job}"), source);
        let from = cgroup::group_of(self.version, pid).map_err(failed)?;
        let leader = Identity { pid, start: processes::start_time(pid).map_err(failed)? };
        self.prepare(job)?;
        let to = &self.leaf(job)?.path.clone();
        let moved = match from.filter(|from| names::is_leaf(from)) {
            Some(from) => cgroup::move_all(&*self.files, &from, to),
            // A memweir that blocked by signals left it in a group of others.
            None => session(&leader).and_then(|pids| cgroup::move_pids(&*self.files, &pids, to)),
        };
        if let Err(error) = moved {
            self.leaf(job)?.outside = Some(leader);
            return Err(failed(error));
        }
        self.spawned(job, pid)
    }

    fn block_all(&mut self) -> Result<(), OsError> {
        if self.custody.holds() { self.set_parent(Freeze::On) } else { self.run_all() }
    }

    fn run_only(&mut self, jobs: &[JobId]) -> Result<(), OsError> {
        if !self.custody.holds() {
            return self.run_all();
        }
        let chosen: BTreeSet<JobId> = jobs.iter().copied().collect();
        let frozen = |job| !chosen.contains(&job);
        let differs = self.leaves.iter().any(|(job, leaf)| frozen(*job) != leaf.frozen);
        if differs && !self.parent_frozen {
            self.set_parent(Freeze::On)?;
        }
        let flipped = self.set_leaves(frozen);
        // While they are frozen, so that they fork no process with the old values.
        let raise = self.share.raise();
        for (_, leaf) in self.leaves.iter_mut().filter(|(job, _)| chosen.contains(job)) {
            Self::raise(&*self.files, &mut self.share, leaf, raise);
        }
        // Whatever happened to a leaf, the others must not stay blocked with the parent.
        if self.parent_frozen { flipped.and(self.set_parent(Freeze::Off)) } else { flipped }
    }

    fn run_all(&mut self) -> Result<(), OsError> {
        let flipped = self.set_leaves(|_| false);
        for leaf in self.leaves.values_mut() {
            Self::raise(&*self.files, &mut self.share, leaf, 0);
        }
        if self.parent_frozen { flipped.and(self.set_parent(Freeze::Off)) } else { flipped }
    }

    fn set_demand(&mut self, demand: Demand) {
        self.share.set(&*self.files, &mut *self.custody.guard, demand);
    }

    fn cpu_time(&mut self, job: JobId) -> Result<Nanos, OsError> {
        let (files, version) = (Arc::clone(&self.files), self.version);
        let leaf = self.leaf(job)?;
        let failed = |source| OsError::new(format!("reading the CPU time of job {job}"), source);
        match version {
            Version::V2 => cgroup::cpu_time(&*files, &leaf.path).map_err(failed),
            Version::V1 => {
                let pids = cgroup::pids(&*files, &leaf.path).map_err(failed)?;
                let found: Vec<_> =
                    pids.into_iter().filter_map(|pid| processes::stat(pid).ok()).collect();
                leaf.members.update(&found);
                Ok(leaf.members.cpu_time())
            }
        }
    }

    fn threads(&mut self, job: JobId) -> Vec<i32> {
        let Some(leaf) = self.leaves.get(&job) else { return Vec::new() };
        cgroup::threads(&*self.files, self.version, &leaf.path).unwrap_or_default()
    }

    fn populated(&mut self, job: JobId) -> Result<bool, OsError> {
        let (files, version) = (Arc::clone(&self.files), self.version);
        cgroup::populated(&*files, version, &self.leaf(job)?.path)
            .map_err(|source| OsError::new(format!("looking for processes of job {job}"), source))
    }

    fn signal(&mut self, job: JobId, signal: i32) -> Result<(), OsError> {
        let (files, version) = (Arc::clone(&self.files), self.version);
        let leaf = self.leaf(job)?;
        let sent = if signal == libc::SIGKILL {
            cgroup::kill_all(&*files, version, &leaf.path)
        } else {
            cgroup::signal_all(&*files, &leaf.path, signal)
        };
        let outside = leaf.outside.map_or(Ok(Vec::new()), |leader| session(&leader));
        let sent = sent.and(outside).and_then(|pids| cgroup::signal_pids(&*files, &pids, signal));
        sent.map_err(|source| OsError::new(format!("signalling job {job}"), source))?;
        if version == Version::V1 && signal == libc::SIGKILL {
            leaf.dying = true;
            if leaf.frozen {
                leaf.set(&*files, version, Freeze::Off)?;
            }
        }
        Ok(())
    }

    fn retire(&mut self, job: JobId) -> Result<(), OsError> {
        self.sweep();
        let files = Arc::clone(&self.files);
        let mut leaf = self.leaves.remove(&job).ok_or_else(|| super::unknown(job))?;
        self.spare_handles += usize::from(leaf.switch.is_some());
        let what = format!("removing {}", leaf.path.display());
        let Err(source) = cgroup::remove_tree_patiently(&*files, &leaf.path) else {
            return Ok(());
        };
        let thawed = leaf.set(&*files, self.version, Freeze::Off);
        self.left_behind.push(leaf.path);
        thawed.and(Err(OsError::new(what, source)))
    }

    fn notices(&mut self) -> Vec<String> {
        self.custody.notices.extend(self.share.take_notice());
        std::mem::take(&mut self.custody.notices)
    }
}

impl Drop for CgroupBlocker {
    /// Lets every job run. Groups that still hold processes stay in the guardian's care.
    fn drop(&mut self) {
        let thawed = self.run_all();
        let removed = cgroup::remove_tree_patiently(&*self.files, &self.parent);
        if thawed.is_ok() && removed.is_ok() {
            self.share.close(&*self.files);
            self.custody.guard.goodbye();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::fake::FakeTree;
    use crate::guardian::testing::FakeGuard;

    fn blocker(tree: &FakeTree, version: Version, handles: usize) -> (CgroupBlocker, FakeGuard) {
        let guard = FakeGuard::default();
        let parent = tree.root().join("p");
        let files = Arc::new(tree.clone());
        let boxed = Box::new(guard.clone());
        (CgroupBlocker::new(files, version, parent, boxed, handles).unwrap(), guard)
    }

    fn jobs(blocker: &mut CgroupBlocker, count: u32) -> Vec<JobId> {
        let jobs: Vec<JobId> = (0..count).map(JobId).collect();
        for job in &jobs {
            blocker.prepare(*job).unwrap();
            blocker.spawned(*job, 1).unwrap();
        }
        jobs
    }

    fn writes(tree: &FakeTree) -> Vec<(String, String)> {
        let writes = tree.writes();
        tree.forget_writes();
        writes
    }

    fn write(path: &str, value: &str) -> (String, String) {
        (path.to_owned(), value.to_owned())
    }

    #[test]
    fn the_two_level_switch_writes_what_differs_between_two_writes_to_the_parent() {
        // With handles and without.
        for handles in [0, 100] {
            let tree = FakeTree::new();
            let (mut blocker, _) = blocker(&tree, Version::V2, handles);
            let jobs = jobs(&mut blocker, 4);
            blocker.block_all().unwrap();
            assert_eq!(writes(&tree), [write("p/cgroup.freeze", "1")]);
            blocker.run_only(&[jobs[1], jobs[2]]).unwrap();
            assert_eq!(
                writes(&tree),
                [
                    write("p/job-0/cgroup.freeze", "1"),
                    write("p/job-3/cgroup.freeze", "1"),
                    write("p/cgroup.freeze", "0"),
                ]
            );
            blocker.block_all().unwrap();
            blocker.run_only(&[jobs[2], jobs[3]]).unwrap();
            assert_eq!(
                writes(&tree),
                [
                    write("p/cgroup.freeze", "1"),
                    write("p/job-1/cgroup.freeze", "1"),
                    write("p/job-3/cgroup.freeze", "0"),
                    write("p/cgroup.freeze", "0"),
                ]
            );
            // Without block_all the switch blocks by itself, unless there is nothing to do.
            blocker.run_only(&[jobs[2], jobs[3]]).unwrap();
            assert_eq!(writes(&tree), []);
            blocker.run_only(&[jobs[2]]).unwrap();
            assert_eq!(writes(&tree)[0], write("p/cgroup.freeze", "1"));
            blocker.run_all().unwrap();
            for leaf in 0..4 {
                assert_eq!(tree.value(&format!("p/job-{leaf}/cgroup.freeze")), "0");
            }
        }
    }

    #[test]
    fn a_leaf_that_fails_keeps_nobody_else_blocked() {
        let tree = FakeTree::new();
        let (mut blocker, _) = blocker(&tree, Version::V2, 100);
        let jobs = jobs(&mut blocker, 3);
        blocker.block_all().unwrap();
        tree.fail("write", "job-1/cgroup.freeze", libc::ENOSPC, 1);
        let error = blocker.run_only(&[jobs[0]]).unwrap_err();
        assert!(error.what.contains("job-1"), "{error}");
        assert_eq!(tree.value("p/cgroup.freeze"), "0");
        assert_eq!(tree.value("p/job-2/cgroup.freeze"), "1");
        // The next switch tries the failed leaf again.
        blocker.run_only(&[jobs[0]]).unwrap();
        assert_eq!(tree.value("p/job-1/cgroup.freeze"), "1");
        // A leaf that is gone is no failure.
        tree.fail("write", "job-2/cgroup.freeze", libc::ENODEV, 1);
        blocker.run_all().unwrap();
    }

    #[test]
    fn births_are_refused_while_blocked_and_undone_when_they_fail() {
        let tree = FakeTree::new();
        let (mut blocker, _) = blocker(&tree, Version::V2, 100);
        tree.fail("create_dir", "job-0", libc::ENOSPC, 1);
        assert_eq!(
            blocker.prepare(JobId(0)).unwrap_err().source.raw_os_error(),
            Some(libc::ENOSPC)
        );
        tree.fail("open_dir", "job-0", libc::EACCES, 1);
        assert!(blocker.prepare(JobId(0)).is_err());
        assert!(!tree.root().join("p/job-0").exists());
        // A switch that cannot be kept open, as when files run out, is opened when needed.
        tree.fail("open", "job-0/cgroup.freeze", libc::EMFILE, 1);
        blocker.prepare(JobId(0)).unwrap();
        blocker.run_only(&[]).unwrap();
        assert_eq!(tree.value("p/job-0/cgroup.freeze"), "1");
        blocker.block_all().unwrap();
        let error = blocker.prepare(JobId(1)).unwrap_err();
        assert_eq!(error.source.raw_os_error(), Some(libc::EBUSY));
        assert!(blocker.prepare(JobId(0)).is_err());
        assert!(blocker.cpu_time(JobId(9)).is_err());
    }

    #[test]
    fn an_adopted_job_that_stays_outside_is_not_blocked_and_gets_signals() {
        let tree = FakeTree::new();
        let (mut blocker, _) = blocker(&tree, Version::V2, 100);
        // It has begun a session when it says so.
        let mut command = std::process::Command::new("setsid");
        command.args(["sh", "-c", "echo; read end"]);
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut process = command.spawn().unwrap();
        std::io::Read::read(process.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        let pid = process.id().cast_signed();
        tree.fail("write", "job-0/cgroup.procs", libc::EACCES, 1);
        let error = blocker.adopt(JobId(0), pid).unwrap_err();
        assert_eq!(error.source.raw_os_error(), Some(libc::EACCES));
        blocker.run_only(&[]).unwrap();
        assert_eq!(tree.value("p/job-0/cgroup.freeze"), "0");
        blocker.signal(JobId(0), libc::SIGTERM).unwrap();
        blocker.signal(JobId(0), libc::SIGKILL).unwrap();
        assert_eq!(tree.signals(), [(pid, libc::SIGTERM), (pid, libc::SIGKILL)]);
        drop(process.stdin.take());
        process.wait().unwrap();
        blocker.signal(JobId(0), libc::SIGKILL).unwrap();
        assert_eq!(tree.signals().len(), 2);
    }

    #[test]
    fn the_guardian_knows_the_group_before_it_exists() {
        let tree = FakeTree::new();
        let guard = FakeGuard::default();
        let parent = tree.root().join("p");
        tree.fail("create_dir", "p", libc::EACCES, 1);
        let files = Arc::new(tree.clone());
        let failed =
            CgroupBlocker::new(files, Version::V2, parent.clone(), Box::new(guard.clone()), 1);
        assert_eq!(failed.err().unwrap().source.raw_os_error(), Some(libc::EACCES));
        let log = guard.log();
        assert_eq!(log.told, [Message::Group(Version::V2, parent)]);
        assert_eq!(log.goodbyes, 1);
    }

    #[test]
    fn without_a_guardian_nothing_is_blocked() {
        let tree = FakeTree::new();
        let (mut blocker, guard) = blocker(&tree, Version::V2, 100);
        let jobs = jobs(&mut blocker, 2);
        guard.log().notice = Some("another one".into());
        blocker.block_all().unwrap();
        assert_eq!(blocker.notices(), ["another one"]);
        blocker.run_only(&jobs[..1]).unwrap();
        guard.log().lost = true;
        blocker.block_all().unwrap();
        blocker.run_only(&jobs[..1]).unwrap();
        assert_eq!(tree.value("p/cgroup.freeze"), "0");
        assert_eq!(tree.value("p/job-1/cgroup.freeze"), "0");
        let notices = blocker.notices();
        assert!(notices.len() == 1 && notices[0].contains("no memory"), "{notices:?}");
    }

    #[test]
    fn an_orderly_end_says_goodbye_and_one_with_processes_left_does_not() {
        for left in [false, true] {
            let tree = FakeTree::new();
            let (mut blocker, guard) = blocker(&tree, Version::V2, 100);
            let jobs = jobs(&mut blocker, 2);
            let leaf = tree.root().join("p/job-0");
            tree.populate(&leaf, if left { &[5] } else { &[] });
            blocker.run_only(&jobs[1..]).unwrap();
            drop(blocker);
            assert_eq!(tree.root().join("p").exists(), left);
            assert_eq!(guard.log().goodbyes, usize::from(!left));
            if left {
                assert_eq!(tree.value("p/job-0/cgroup.freeze"), "0");
            }
        }
    }

    #[test]
    fn a_job_whose_last_process_is_leaving_the_cpu_has_none() {
        let tree = FakeTree::new();
        let (mut blocker, _) = blocker(&tree, Version::V2, 100);
        let jobs = jobs(&mut blocker, 1);
        tree.file("p/job-0/cgroup.events", "populated 1\nfrozen 0\n");
        assert!(!blocker.populated(jobs[0]).unwrap());
        tree.populate(&tree.root().join("p/job-0"), &[5]);
        assert!(blocker.populated(jobs[0]).unwrap());
    }

    #[test]
    fn what_a_retired_job_left_behind_runs_and_is_removed_later() {
        let tree = FakeTree::new();
        let (mut blocker, _) = blocker(&tree, Version::V2, 100);
        let jobs = jobs(&mut blocker, 2);
        let leaf = tree.root().join("p/job-0");
        tree.populate(&leaf, &[5]);
        assert!(blocker.populated(jobs[0]).unwrap());
        blocker.run_only(&jobs[1..]).unwrap();
        let error = blocker.retire(jobs[0]).unwrap_err();
        assert_eq!(error.source.raw_os_error(), Some(libc::EBUSY));
        assert_eq!(tree.value("p/job-0/cgroup.freeze"), "0");
        assert!(blocker.retire(jobs[0]).is_err(), "it is not a job any more");
        tree.populate(&leaf, &[]);
        blocker.retire(jobs[1]).unwrap();
        assert!(!leaf.exists());
    }

    #[test]
    fn a_frozen_v1_job_is_thawed_to_die_and_stays_thawed() {
        let tree = FakeTree::new();
        let (mut blocker, _) = blocker(&tree, Version::V1, 100);
        let jobs = jobs(&mut blocker, 2);
        tree.populate(&tree.root().join("p/job-0"), &[5]);
        blocker.block_all().unwrap();
        assert_eq!(tree.value("p/freezer.state"), "FROZEN");
        blocker.run_only(&jobs[1..]).unwrap();
        assert_eq!(tree.value("p/job-0/freezer.state"), "FROZEN");
        assert!(blocker.populated(jobs[0]).unwrap());
        blocker.signal(jobs[0], libc::SIGTERM).unwrap();
        assert_eq!(tree.value("p/job-0/freezer.state"), "FROZEN");
        blocker.signal(jobs[0], libc::SIGKILL).unwrap();
        assert_eq!(tree.signals(), [(5, libc::SIGTERM), (5, libc::SIGKILL)]);
        blocker.run_only(&jobs[1..]).unwrap();
        assert_eq!(tree.value("p/job-0/freezer.state"), "THAWED");
    }
}
