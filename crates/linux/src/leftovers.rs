//! Cleaning up after a memweir that died together with its guardian.
//!
//! Groups carry their owner in their names, so a later start finds those of the dead, thaws them
//! and removes what is empty. Jobs that SIGSTOP blocked leave no such trace: their first processes
//! are resumed by the kernel (`PR_SET_PDEATHSIG`), their guardian resumes the others.

use std::path::{Path, PathBuf};

use crate::blocker::processes;
use crate::cgroup::{self, Files, KernelFiles, Version, locate};
use crate::owner::{KernelProc, OwnerState};

/// Most processes of a group to name.
const NAMED: usize = 5;

/// Every group that a memweir has made, whether that lives or not, in the places where this one
/// would make its own.
#[must_use]
pub fn groups() -> Vec<PathBuf> {
    places()
        .flat_map(|(_, place)| cgroup::owned_groups(&KernelFiles, &place))
        .map(|g| g.0)
        .collect()
}

/// The groups below which memweir makes its own.
fn places() -> impl Iterator<Item = (Version, PathBuf)> {
    // Where nothing is mounted, nothing was left.
    let located = |version| locate(version).ok().flatten().map(|found| (version, found));
    [Version::V2, Version::V1].into_iter().filter_map(located).flat_map(|(version, hierarchy)| {
        hierarchy.candidates().into_iter().map(move |place| (version, place))
    })
}

/// Thaws every group whose owner is dead and removes it if it is empty. Returns one sentence per
/// group that was found, for the user.
#[must_use]
pub fn clean() -> Vec<String> {
    places().flat_map(|(version, place)| clean_below(&KernelFiles, version, &place)).collect()
}

fn clean_below(files: &dyn Files, version: Version, place: &Path) -> Vec<String> {
    cgroup::owned_groups(files, place)
        .into_iter()
        .filter(|(_, owner)| owner.state(&KernelProc) == OwnerState::Dead)
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

/// What runs in a group, for people.
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
    use crate::cgroup::testing::FakeTree;
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
            let (parent, leaf) = (tree.group(&dead), tree.group(&format!("{dead}/job-0")));
            let alive = tree.group(&names::new_group(&Owner::current().unwrap(), "x"));
            let foreign = tree.group("user.slice");
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

            tree.populate(&leaf, &[]);
            let told = clean_below(&tree, version, tree.root());
            assert!(told[0].starts_with("removed "), "{told:?}");
            assert!(!parent.exists());
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
