//! The share of CPU time that a batch as a whole has beside programs outside of it.
//!
//! The kernel divides CPU time by the weights of runnable tasks and groups. A batch of which most
//! jobs are blocked weighs less than one whose jobs all run, and loses CPU time to every other
//! program. So the batch gets the weight that it would have with no job blocked: by the weight of
//! its group where the cpu controller serves that group, else by the nice values of the jobs that
//! run.
//!
//! Neither is needed where the kernel weighs the batch's group against other groups: there its
//! share depends on the group alone.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use crate::cgroup;
use crate::files::Files;
use crate::guardian::{Guard, Message};
use crate::nice;

/// Cores that the jobs of a batch ask for, or would if none was blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Of all jobs that are not over.
    pub total: u32,
    /// Of those that run.
    pub running: u32,
}

impl Demand {
    /// Returns the change of nice values that makes the running jobs weigh as much as all of them:
    /// each step changes a task's weight by a factor of 1.25 (`sched_prio_to_weight` in the
    /// kernel).
    fn raise(self) -> i32 {
        const WEIGHT_PER_STEP: f64 = 1.25;
        if self.running == 0 || self.running >= self.total {
            return 0;
        }
        let factor = f64::from(self.total) / f64::from(self.running);
        -(factor.ln() / WEIGHT_PER_STEP.ln()).round() as i32
    }
}

/// The means by which the share is kept.
#[derive(Debug)]
enum Means {
    /// By `cpu.weight` of this group.
    Weight(PathBuf),
    /// By nice values.
    Nice,
    /// The kernel keeps it, or it cannot be kept.
    Nothing,
}

/// Keeps a batch's share.
#[derive(Debug)]
pub(super) struct Share {
    means: Means,
    /// The group below which the cpu controller was enabled for this batch.
    enabled: Option<PathBuf>,
    /// Nice value of jobs without a change.
    base: i32,
    /// The change of the nice values of jobs that run.
    raise: i32,
    /// Every change so far.
    raises: BTreeSet<i32>,
    demand: Option<Demand>,
    notice: Option<String>,
}

impl Share {
    /// Keeps the share by nice values.
    pub(super) fn by_nice() -> Self {
        Self {
            means: Means::Nice,
            enabled: None,
            base: nice::own(),
            raise: 0,
            raises: BTreeSet::from([0]),
            demand: None,
            notice: None,
        }
    }

    /// Chooses the means for the jobs below `group`, a v2 group. `own` is memweir's own group.
    pub(super) fn of_group(
        files: &dyn Files,
        guard: &mut dyn Guard,
        group: &Path,
        own: Option<&Path>,
    ) -> Self {
        let mut share = Self::by_nice();
        let Some(place) = group.parent() else { return share };
        let is_weighed = || files.read(&group.join("cpu.weight")).is_ok();
        if own != Some(place) {
            if is_weighed() {
                share.means = Means::Nothing;
            }
            return share;
        }
        if !is_weighed() && cgroup::may_enable_cpu(files, place) {
            let enabled = guard
                .watch(Message::CpuController(place.to_owned()))
                .and_then(|()| cgroup::enable_cpu(files, place));
            share.enabled = enabled.is_ok().then(|| place.to_owned());
        }
        if is_weighed() {
            share.means = Means::Weight(group.to_owned());
        }
        share
    }

    /// Sets how much of the batch runs from now on.
    pub(super) fn set(&mut self, files: &dyn Files, guard: &mut dyn Guard, demand: Demand) {
        if self.demand.replace(demand) == Some(demand) {
            return;
        }
        match &self.means {
            Means::Weight(group) => {
                let weighed = cgroup::weigh(files, group, demand.total);
                self.judge(cgroup::unless_gone(weighed));
            }
            Means::Nice => {
                let raise = demand.raise();
                let told = match self.raises.insert(raise) {
                    true => guard.watch(Message::Raise(raise)),
                    false => Ok(()),
                };
                // A change that the guardian could not undo must not be made.
                self.raise = if told.is_ok() { raise } else { 0 };
            }
            Means::Nothing => {}
        }
    }

    /// Returns the change of nice values that the processes of a running job need.
    pub(super) fn raise(&self) -> i32 {
        self.raise
    }

    /// Changes the nice values of processes. Returns false if that failed for some.
    pub(super) fn apply(&mut self, pids: &[i32], raise: i32) -> bool {
        let changed = nice::change(pids, self.base, &self.raises, raise);
        let all = changed.is_ok();
        self.judge(changed);
        all
    }

    /// Gives up keeping the share, with a notice, if the kernel does not allow it.
    fn judge(&mut self, result: io::Result<()>) {
        let Err(error) = result else { return };
        // The kernel limits how often a user changes the nice value of a session.
        if error.kind() == io::ErrorKind::WouldBlock {
            return;
        }
        (self.means, self.raise) = (Means::Nothing, 0);
        self.notice = Some(format!(
            "other programs take CPU time from the batch while jobs are blocked, because neither \
             a cgroup's weight nor nice values can be raised here: {error}"
        ));
    }

    pub(super) fn take_notice(&mut self) -> Option<String> {
        self.notice.take()
    }

    /// Disables the controller again, after the batch's group is gone.
    pub(super) fn close(&mut self, files: &dyn Files) {
        if let Some(place) = self.enabled.take() {
            cgroup::disable_cpu(files, &place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::names;
    use crate::files::fake::FakeTree;
    use crate::guardian::testing::FakeGuard;
    use crate::owner::Owner;

    /// A batch's group below `place`, with the cpu controller as a kernel shows it there.
    fn group(tree: &FakeTree, place: &Path, has_weight: bool) -> PathBuf {
        let group = place.join(names::new_group(&Owner::current().unwrap(), "x"));
        tree.create_dir(&group).unwrap();
        std::fs::write(place.join("cgroup.controllers"), "cpu memory\n").unwrap();
        std::fs::write(place.join("cgroup.subtree_control"), "").unwrap();
        if has_weight {
            std::fs::write(group.join("cpu.weight"), "100\n").unwrap();
        }
        group
    }

    #[test]
    fn running_jobs_are_raised_by_the_weight_of_the_blocked() {
        // 1.25^6 = 3.8, 1.25^3 = 1.95, 1.25^19 = 69.4.
        let cases = [((8, 2), -6), ((2, 1), -3), ((70, 1), -19), ((4, 4), 0), ((4, 0), 0)];
        for ((total, running), raise) in cases {
            assert_eq!(Demand { total, running }.raise(), raise, "{running} of {total}");
        }
    }

    #[test]
    fn a_weighed_group_gets_the_weight_of_all_its_jobs() {
        let tree = FakeTree::new();
        let (place, mut guard) = (tree.group("own"), FakeGuard::default());
        let group = group(&tree, &place, true);
        let mut share = Share::of_group(&tree, &mut guard, &group, Some(&place));
        for (total, weight) in [(8, "800"), (1, "100"), (400, "10000"), (0, "100")] {
            share.set(&tree, &mut guard, Demand { total, running: 1 });
            assert_eq!(tree.read(&group.join("cpu.weight")).unwrap().trim(), weight);
            assert_eq!(share.raise(), 0);
        }
        share.close(&tree);
        assert!(tree.writes_of("-cpu").is_empty(), "it was enabled before");
        assert!(guard.told().is_empty());
    }

    #[test]
    fn the_controller_is_enabled_where_that_concerns_no_other_group_and_put_back() {
        let tree = FakeTree::new();
        let (place, mut guard) = (tree.group("own"), FakeGuard::default());
        let group = group(&tree, &place, false);
        // The fake's files do not appear by themselves.
        let mut share = Share::of_group(&tree, &mut guard, &group, Some(&place));
        assert_eq!(guard.told(), [Message::CpuController(place.clone())]);
        assert_eq!(tree.writes_of("+cpu"), ["own/cgroup.subtree_control"]);
        tree.remove_dir(&group).unwrap();
        share.close(&tree);
        assert_eq!(tree.writes_of("-cpu"), ["own/cgroup.subtree_control"]);
    }

    #[test]
    fn nice_values_serve_where_other_groups_lie_or_the_kernel_refuses() {
        let tree = FakeTree::new();
        let (place, mut guard) = (tree.group("own"), FakeGuard::default());
        let group = group(&tree, &place, false);
        let other = tree.group("own/other");
        let mut share = Share::of_group(&tree, &mut guard, &group, Some(&place));
        assert!(tree.writes_of("+cpu").is_empty());
        share.set(&tree, &mut guard, Demand { total: 8, running: 2 });
        share.set(&tree, &mut guard, Demand { total: 8, running: 2 });
        assert_eq!((share.raise(), guard.told()), (-6, vec![Message::Raise(-6)]));

        tree.remove_dir(&other).unwrap();
        tree.fail("write", "own/cgroup.subtree_control", libc::EBUSY, 1);
        let mut share = Share::of_group(&tree, &mut guard, &group, Some(&place));
        share.set(&tree, &mut guard, Demand { total: 2, running: 1 });
        assert_eq!(share.raise(), -3);
    }

    #[test]
    fn a_group_beside_others_keeps_its_weight() {
        let tree = FakeTree::new();
        let (place, mut guard) = (tree.group("slice"), FakeGuard::default());
        let group = group(&tree, &place, true);
        let mut share = Share::of_group(&tree, &mut guard, &group, Some(&place.join("own")));
        share.set(&tree, &mut guard, Demand { total: 8, running: 2 });
        assert_eq!(share.raise(), 0);
        assert!(tree.writes().is_empty());
    }

    #[test]
    fn a_share_that_cannot_be_kept_gives_one_notice() {
        let tree = FakeTree::new();
        let (place, mut guard) = (tree.group("own"), FakeGuard::default());
        let group = group(&tree, &place, true);
        let mut share = Share::of_group(&tree, &mut guard, &group, Some(&place));
        tree.fail("write", "cpu.weight", libc::EACCES, 1);
        for told in [true, false] {
            share.set(&tree, &mut guard, Demand { total: 8, running: 2 });
            assert_eq!(share.take_notice().is_some(), told);
        }
    }
}
