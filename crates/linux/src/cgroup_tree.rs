//! The tree of control groups (cgroup v2) as systemd, container engines and Slurm make it: its
//! groups and their CPU time. Everything here reads; nothing is changed.
//!
//! ```
//! use memweir_linux::cgroup_tree::{CgroupTree, GroupState};
//!
//! if let Ok(tree) = CgroupTree::open() {
//!     for group in tree.groups().unwrap() {
//!         let _: Option<GroupState> = tree.state(&group).ok();
//!     }
//! }
//! ```

use std::fs;
use std::io;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};

use memweir_core::Nanos;

use crate::cgroup::{HierarchyKind, locate, value_of};
use crate::probe::Probe;

pub use crate::cgroup::parse_ids;

/// The mounted cgroup v2 tree, or a directory that looks like one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupTree {
    top: PathBuf,
}

/// A control group at one moment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group {
    /// Path below the top of the tree, without a slash in front.
    pub path: PathBuf,
    /// Inode of its directory. A group that is removed and made again has another one.
    pub id: u64,
}

/// State of a control group and of all groups below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupState {
    /// CPU time of all processes that were ever in it.
    pub cpu_time: Nanos,
    /// True if any process lives in it.
    pub populated: bool,
    /// True if all of its processes are frozen.
    pub frozen: bool,
}

impl GroupState {
    /// Parses the texts of `cpu.stat` and `cgroup.events`; `None` without a CPU time. A kernel
    /// without a line in `cgroup.events` lacks the feature.
    #[must_use]
    pub fn parse(cpu_stat: &str, events: &str) -> Option<Self> {
        let micros = value_of(cpu_stat, "usage_usec")?;
        Some(Self {
            cpu_time: Nanos(micros.saturating_mul(1000)),
            populated: value_of(events, "populated") == Some(1),
            frozen: value_of(events, "frozen") == Some(1),
        })
    }
}

impl CgroupTree {
    /// Finds the mounted tree.
    ///
    /// # Errors
    /// The reason why there is none, and help.
    pub fn open() -> Result<Self, Probe> {
        match locate(HierarchyKind::Unified) {
            Ok(Some(hierarchy)) => Ok(Self { top: hierarchy.top }),
            Ok(None) => Err(Probe::missing("no cgroup v2 tree is mounted")
                .help("boot with systemd.unified_cgroup_hierarchy=1, or mount cgroup2")),
            Err(error) => Err(Probe::missing(format!("cannot read /proc/self/mountinfo: {error}"))),
        }
    }

    /// Reads another directory tree as one of control groups, for tests.
    #[must_use]
    pub fn at(top: &Path) -> Self {
        Self { top: top.to_owned() }
    }

    /// Returns the directory at which the tree is mounted.
    #[must_use]
    pub fn top(&self) -> &Path {
        &self.top
    }

    /// Returns the directory of a group.
    #[must_use]
    pub fn directory(&self, group: &Group) -> PathBuf {
        self.top.join(&group.path)
    }

    /// Returns every group below the top, in the order of their paths. Groups that vanish meanwhile
    /// or that this process may not read are left out.
    ///
    /// # Errors
    /// The top cannot be read.
    pub fn groups(&self) -> io::Result<Vec<Group>> {
        let mut groups = children(&self.top, Path::new(""))?;
        let mut next = 0;
        while let Some(group) = groups.get(next) {
            let below = children(&self.directory(group), &group.path).unwrap_or_default();
            groups.extend(below);
            next += 1;
        }
        groups.sort();
        Ok(groups)
    }

    /// Reads the state of a group.
    ///
    /// # Errors
    /// The group is gone, or a file of it cannot be read.
    pub fn state(&self, group: &Group) -> io::Result<GroupState> {
        let directory = self.directory(group);
        let stat = fs::read_to_string(directory.join("cpu.stat"))?;
        let events = fs::read_to_string(directory.join("cgroup.events"))?;
        GroupState::parse(&stat, &events).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, "cpu.stat has no line `usage_usec`")
        })
    }
}

/// Returns the groups directly below the directory of the group at `path`.
fn children(directory: &Path, path: &Path) -> io::Result<Vec<Group>> {
    let mut groups = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            groups.push(Group { path: path.join(entry.file_name()), id: entry.ino() });
        }
    }
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Makes a group with these contents of `cpu.stat` and `cgroup.events`.
    fn group(top: &Path, path: &str, cpu_stat: &str, events: &str) {
        let directory = top.join(path);
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("cpu.stat"), cpu_stat).unwrap();
        fs::write(directory.join("cgroup.events"), events).unwrap();
    }

    #[test]
    fn groups_are_found_at_every_depth_with_their_state() {
        let top = tempfile::tempdir().unwrap();
        group(top.path(), "a", "usage_usec 1500\nuser_usec 9\n", "populated 1\nfrozen 0\n");
        group(top.path(), "a/b/c", "usage_usec 7\n", "populated 1\nfrozen 1\n");
        let tree = CgroupTree::at(top.path());
        let groups = tree.groups().unwrap();
        let paths: Vec<&str> = groups.iter().filter_map(|group| group.path.to_str()).collect();
        assert_eq!(paths, ["a", "a/b", "a/b/c"]);
        let state = tree.state(&groups[0]).unwrap();
        let expected = GroupState { cpu_time: Nanos(1_500_000), populated: true, frozen: false };
        assert_eq!(state, expected);
        assert!(tree.state(&groups[2]).unwrap().frozen);
        assert!(tree.state(&groups[1]).is_err(), "no files");
    }

    #[test]
    fn a_group_that_is_made_again_is_another_one() {
        let top = tempfile::tempdir().unwrap();
        group(top.path(), "a", "", "");
        let tree = CgroupTree::at(top.path());
        let before = tree.groups().unwrap();
        // The file system may reuse the inode of a directory that is gone.
        fs::rename(top.path().join("a"), top.path().join("b")).unwrap();
        group(top.path(), "a", "", "");
        let after = tree.groups().unwrap();
        assert_eq!(after[0].path, before[0].path);
        assert_ne!(after[0].id, before[0].id);
        assert_eq!(after[1].id, before[0].id);
    }

    #[test]
    fn the_tree_of_this_machine_is_read() {
        let tree = match CgroupTree::open() {
            Ok(tree) => tree,
            Err(probe) => return memweir_test_support::skip!(Kernel, "{}", probe.reason),
        };
        for group in tree.groups().unwrap() {
            // Groups of other tests may vanish meanwhile.
            let _ = tree.state(&group);
        }
    }

    proptest! {
        #[test]
        fn any_text_is_parsed(stat in "(usage_usec [0-9]{0,25}\n|\\PC{0,9}\n)*", events in "\\PC*") {
            let _ = GroupState::parse(&stat, &events);
            prop_assert!(parse_ids(&events).all(|id| id > 0));
        }
    }
}
