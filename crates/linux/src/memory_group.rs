//! A control group of memweir's own for the memory of one program and its descendants. Callers know
//! its settings and the meaning of its counters; blocking is [`crate::blocker`]'s.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use crate::MissingFeature;
use crate::cgroup::{self, HierarchyKind, locate, names};
use crate::files::{Files, KernelFiles};
use crate::leftovers;
use crate::owner::Owner;

/// The group. Removed when it is dropped, if no process is left in it; otherwise the next memweir
/// that starts removes it.
pub struct MemoryGroup {
    files: Arc<dyn Files>,
    path: PathBuf,
}

impl MemoryGroup {
    /// Makes a group with the memory controller, after removing those that dead memweirs have left
    /// behind. `name` is for people who list groups.
    ///
    /// # Errors
    /// If there is no unified hierarchy, or no place in it where a group may be made.
    pub fn create(name: &str) -> Result<Self, MissingFeature> {
        let hierarchy = locate(HierarchyKind::Unified).ok().flatten().ok_or_else(|| {
            MissingFeature::new(
                "no unified hierarchy of control groups is mounted",
                "mount cgroup2",
            )
        })?;
        // `memweir run`, which is about groups, reports those that could not be removed.
        let _ = leftovers::clean();
        Self::create_below(Arc::new(KernelFiles), &hierarchy.candidates(), name)
    }

    fn create_below(
        files: Arc<dyn Files>,
        places: &[PathBuf],
        name: &str,
    ) -> Result<Self, MissingFeature> {
        let help = "run as root, or in a group that is delegated to you with its memory controller";
        let missing = |error: io::Error| {
            MissingFeature::new(
                format!("no control group for its memory can be made: {error}"),
                help,
            )
        };
        let owner = Owner::current().map_err(missing)?;
        let mut failure = io::Error::from_raw_os_error(libc::ENOENT);
        for place in places {
            match Self::create_in(&*files, place, &names::new_group(&owner, name)) {
                Ok(path) => return Ok(Self { files, path }),
                Err(error) => failure = error,
            }
        }
        Err(missing(failure))
    }

    fn create_in(files: &dyn Files, place: &Path, name: &str) -> io::Result<PathBuf> {
        let enabled = place.join("cgroup.subtree_control");
        if !files.read(&enabled)?.split_whitespace().any(|controller| controller == "memory") {
            files.write(&enabled, "+memory")?;
        }
        let path = place.join(name);
        files.create_dir(&path)?;
        Ok(path)
    }

    /// Writes a setting: `memory.max`, or another file of the group.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn set(&self, file: &str, value: &str) -> io::Result<()> {
        self.files.write(&self.path.join(file), value)
    }

    /// Reads a file of the group.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn read(&self, file: &str) -> io::Result<String> {
        self.files.read(&self.path.join(file))
    }

    /// Reads the counters of `memory.stat` or another flat keyed file, by the kernel's names.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn counters(&self, file: &str) -> io::Result<BTreeMap<String, u64>> {
        let text = self.read(file)?;
        Ok(cgroup::flat_keyed(&text).map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// Makes the process that `command` starts, and so all its descendants, a member from its
    /// birth.
    ///
    /// # Errors
    /// If members cannot be added to the group.
    pub fn spawn(&self, command: &mut Command) -> io::Result<()> {
        let members = OpenOptions::new().write(true).open(self.path.join("cgroup.procs"))?;
        let enter = move || Ok(nix::unistd::write(&members, b"0").map(drop)?);
        // SAFETY: between fork and exec it does one system call, and allocates nothing.
        unsafe { command.pre_exec(enter) };
        Ok(())
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        let _ = cgroup::remove_tree_patiently(&*self.files, &self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::fake::FakeTree;

    fn place(tree: &FakeTree, name: &str, enabled: &str) -> PathBuf {
        let place = tree.group(name);
        std::fs::write(place.join("cgroup.subtree_control"), enabled).unwrap();
        place
    }

    #[test]
    fn groups_are_made_where_that_is_allowed() {
        let tree = FakeTree::new();
        let places = [place(&tree, "top", "cpu\n"), place(&tree, "own", "cpu memory\n")];
        tree.fail("open", "top/cgroup.subtree_control", libc::EACCES, 1);
        let group = MemoryGroup::create_below(Arc::new(tree.clone()), &places, "job").unwrap();
        assert!(group.path.starts_with(&places[1]) && group.path.exists());
        assert!(tree.writes().is_empty(), "the controller was on already");
        let path = group.path.clone();
        drop(group);
        assert!(!path.exists());

        let group = MemoryGroup::create_below(Arc::new(tree.clone()), &places, "job").unwrap();
        assert!(group.path.starts_with(&places[0]));
        assert_eq!(tree.writes_of("+memory"), ["top/cgroup.subtree_control"]);
    }

    #[test]
    fn without_a_place_the_last_reason_is_told() {
        let tree = FakeTree::new();
        let places = [place(&tree, "top", "memory\n")];
        tree.fail("create_dir", "", libc::EROFS, usize::MAX);
        let missing = MemoryGroup::create_below(Arc::new(tree), &places, "job").err().unwrap();
        assert!(missing.reason.contains("Read-only file system"), "{missing}");
        assert!(missing.help.contains("root"), "{missing}");
    }

    #[test]
    fn counters_and_members_are_those_of_the_files() {
        let tree = FakeTree::new();
        let places = [place(&tree, "top", "memory\n")];
        let group = MemoryGroup::create_below(Arc::new(tree.clone()), &places, "job").unwrap();
        std::fs::write(group.path.join("memory.stat"), "anon 4096\ncolor_alloc 7\nodd\n").unwrap();
        let counters = group.counters("memory.stat").unwrap();
        assert_eq!((counters["anon"], counters["color_alloc"], counters.len()), (4096, 7, 2));
        group.set("cgroup.freeze", "1").unwrap();
        assert_eq!(group.read("cgroup.freeze").unwrap().trim(), "1");

        let mut command = Command::new("true");
        group.spawn(&mut command).unwrap();
        assert!(command.status().unwrap().success());
        // An ordinary file keeps the text that was written to it.
        assert_eq!(group.read("cgroup.procs").unwrap(), "0");
        std::fs::write(group.path.join("cgroup.procs"), "").unwrap();
    }
}
