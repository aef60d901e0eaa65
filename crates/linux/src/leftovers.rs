//! Cleaning up after a memweir that died together with its guardian.
//!
//! Groups carry their owner in their names, so a later start finds those of dead memweirs, thaws
//! them and removes the empty ones. Jobs that SIGSTOP blocked leave no such trace: the kernel
//! resumes their first processes (`PR_SET_PDEATHSIG`), their guardian resumes the others.

use std::path::{Path, PathBuf};

use crate::blocker::processes;
use crate::cgroup::{self, HierarchyKind, Version, locate, names};
use crate::files::{Files, KernelFiles};
use crate::owner::{Owner, OwnerState, Proc};

/// Most processes of a group to name.
const NAMED: usize = 5;

/// Returns every group that a memweir has made, dead or alive, wherever in the hierarchies it lies.
#[must_use]
pub fn groups() -> Vec<PathBuf> {
    tops().flat_map(|(_, top)| cgroup::owned_groups(&KernelFiles, &top)).map(|g| g.0).collect()
}

/// Returns the tops of the hierarchies in which memweir makes groups.
fn tops() -> impl Iterator<Item = (Version, PathBuf)> {
    // Where nothing is mounted, nothing was left.
    HierarchyKind::ALL
        .into_iter()
        .filter_map(|kind| Some((kind.version(), locate(kind).ok().flatten()?.top)))
}

/// Thaws every group whose owner is dead and removes it if it is empty. Returns one sentence per
/// group that was found, for the user.
#[must_use]
pub fn clean() -> Vec<String> {
    tops().flat_map(|(version, top)| clean_below(&KernelFiles, version, &top)).collect()
}

fn clean_below(files: &dyn Files, version: Version, top: &Path) -> Vec<String> {
    let dead = |(_, owner): &(PathBuf, Owner)| owner.state(Proc::kernel()) == OwnerState::Dead;
    let (homes, groups): (Vec<_>, Vec<_>) = cgroup::owned_groups(files, top)
        .into_iter()
        .filter(dead)
        .partition(|(group, _)| names::is_home(group));
    for (home, _) in homes {
        // A guardian that still cares for jobs stays in its own.
        let _ = files.remove_dir(&home);
    }
    groups
        .into_iter()
        .map(|(group, owner)| {
            let shown = group.display();
            let whose = format!("a memweir that died (process {})", owner.pid);
            if let Err(error) = cgroup::thaw_owned(files, version, &group) {
                return format!("{shown} of {whose} cannot be thawed: {error}");
            }
            match cgroup::remove_tree(files, &group) {
                Ok(()) => format!("removed {shown}, left behind by {whose}"),
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                    format!("{shown} of {whose} is thawed; {}", still_running(files, &group))
                }
                Err(error) => format!("{shown} of {whose} cannot be removed: {error}"),
            }
        })
        .collect()
}

/// Names the processes that run in a group, for messages.
fn still_running(files: &dyn Files, group: &Path) -> String {
    let pids = cgroup::pids(files, group).unwrap_or_default();
    let mut names: Vec<String> = pids
        .iter()
        .take(NAMED)
        .map(|pid| match processes::name(*pid) {
            Ok(name) => format!("{name} ({pid})"),
            Err(_) => pid.to_string(),
        })
        .collect();
    if pids.len() > NAMED {
        names.push(format!("{} more", pids.len() - NAMED));
    }
    format!("still running in it: {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::names;
    use crate::files::fake::FakeTree;
    use crate::owner::Owner;

    /// The name of a group of a memweir with this process's pid and another start time.
    fn dead_group(batch: &str) -> String {
        let name = names::new_group(&Owner::current().unwrap(), batch);
        let mut fields: Vec<&str> = name.split('-').collect();
        fields[2] = "1";
        fields.join("-")
    }

    #[test]
    fn groups_of_the_dead_are_thawed_and_removed_and_others_left_alone() {
        for version in [Version::V2, Version::V1] {
            let tree = FakeTree::new();
            let dead = dead_group("x");
            tree.group("user.slice");
            // Wherever another memweir had its own group.
            let parent = tree.group(&format!("user.slice/{dead}"));
            let leaf = tree.group(&format!("user.slice/{dead}/job-0"));
            let home = tree.group(&format!("user.slice/{dead}.guardian"));
            tree.fail("remove_dir", &format!("{dead}.guardian"), libc::EBUSY, 1);
            let alive = tree.group(&names::new_group(&Owner::current().unwrap(), "x"));
            let foreign = tree.group("user.slice/foreign");
            for group in [&parent, &leaf, &alive, &foreign] {
                tree.write(&group.join(version.switch()), version.frozen()).unwrap();
            }
            tree.populate(&leaf, &[std::process::id() as i32]);
            tree.forget_writes();

            let told = clean_below(&tree, version, tree.root());
            assert_eq!(told.len(), 1, "{told:?}");
            assert!(
                told[0].contains("still running in it:") && told[0].contains(&dead),
                "{told:?}"
            );
            assert_eq!(tree.writes_of(version.thawed()).len(), 2);
            assert!(home.exists(), "its guardian lives");

            tree.populate(&leaf, &[]);
            let told = clean_below(&tree, version, tree.root());
            assert!(told[0].starts_with("removed "), "{told:?}");
            assert!(!parent.exists() && !home.exists());
            assert!(clean_below(&tree, version, tree.root()).is_empty());
            assert!(alive.exists() && foreign.exists());
        }
    }

    #[test]
    fn what_cannot_be_thawed_is_said() {
        let tree = FakeTree::new();
        let parent = tree.group(&dead_group("x"));
        tree.write(&parent.join("cgroup.freeze"), "1").unwrap();
        tree.fail("open", "cgroup.freeze", libc::EACCES, 1);
        let told = clean_below(&tree, Version::V2, tree.root());
        assert!(told[0].contains("cannot be thawed"), "{told:?}");
        assert!(parent.exists());
    }
}
