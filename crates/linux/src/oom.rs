//! Processes that the kernel killed for want of memory, as the kernel counts them.

use std::path::{Path, PathBuf};

use crate::cgroup::{Hierarchy, HierarchyKind, locate, value_of};
use crate::files::{Files, KernelFiles};

/// A look-out for such kills among the processes around this one: those of its control group under
/// the memory controller of v2, or else those of the machine.
#[derive(Clone, Debug)]
pub struct OomWatch {
    counter: PathBuf,
    /// Kills before; absent where the kernel does not count them.
    before: Option<u64>,
}

impl OomWatch {
    /// Begins to look.
    #[must_use]
    pub fn start() -> Self {
        let counter = nearest(&KernelFiles, locate(HierarchyKind::Unified).ok().flatten());
        Self { before: count(&KernelFiles, &counter), counter }
    }

    /// Returns true if the kernel has killed a process since.
    #[must_use]
    pub fn has_seen_any(&self) -> bool {
        let now = count(&KernelFiles, &self.counter);
        now.zip(self.before).is_some_and(|(now, before)| now > before)
    }
}

/// Returns the file of the nearest counter.
fn nearest(files: &dyn Files, hierarchy: Option<Hierarchy>) -> PathBuf {
    // Groups that the controller is not enabled for have no such file, nor has the topmost.
    let groups = hierarchy.map(|hierarchy| hierarchy.candidates()).unwrap_or_default();
    let mut counters = groups.into_iter().map(|group| group.join("memory.events"));
    let found = counters.find(|counter| count(files, counter).is_some());
    found.unwrap_or_else(|| "/proc/vmstat".into())
}

fn count(files: &dyn Files, counter: &Path) -> Option<u64> {
    value_of(&files.read(counter).ok()?, "oom_kill")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::fake::FakeTree;

    #[test]
    fn the_nearest_group_with_the_controller_counts() {
        let tree = FakeTree::new();
        tree.group("unit");
        let own = tree.group("unit/leaf");
        let hierarchy = Hierarchy { top: tree.root().to_owned(), own: Some(own) };
        let counter = || nearest(&tree, Some(hierarchy.clone()));
        assert_eq!(counter(), Path::new("/proc/vmstat"));
        tree.file("unit/memory.events", "low 0\nmax 3\noom 2\noom_kill 1\noom_group_kill 0\n");
        assert_eq!(counter(), tree.root().join("unit/memory.events"));
        assert_eq!(count(&tree, &counter()), Some(1));
    }

    #[test]
    fn only_a_higher_count_is_a_kill() {
        let tree = FakeTree::new();
        tree.file("events", "oom_kill 5\n");
        let seen = |before| OomWatch { counter: tree.root().join("events"), before }.has_seen_any();
        assert!(seen(Some(4)));
        assert!(!seen(Some(5)) && !seen(None));
        let gone = OomWatch { counter: tree.root().join("absent"), before: Some(0) };
        assert!(!gone.has_seen_any());
        assert!(OomWatch::start().before.is_some(), "this kernel counts");
    }
}
