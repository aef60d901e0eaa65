//! Limits that control groups set to the memory of this process.

use memweir_core::Bytes;

use crate::cgroup::{Hierarchy, HierarchyKind, locate};
use crate::files::{Files, KernelFiles};

/// The hierarchies that limit memory, and the file of a group with its limit.
const LIMITS: [(HierarchyKind, &str); 2] =
    [(HierarchyKind::Unified, "memory.max"), (HierarchyKind::Memory, "memory.limit_in_bytes")];

/// Returns the lowest limit of the groups around this process; `None` if none has a limit that can
/// be read.
pub(crate) fn memory_limit() -> Option<Bytes> {
    let limits = LIMITS.iter().filter_map(|(kind, file)| {
        let hierarchy = locate(*kind).ok().flatten()?;
        lowest(&KernelFiles, &hierarchy, file)
    });
    limits.min()
}

fn lowest(files: &dyn Files, hierarchy: &Hierarchy, file: &str) -> Option<Bytes> {
    // A group without a limit has `max` in v2.
    let limit = |text: String| text.trim().parse().ok().map(Bytes);
    let groups = hierarchy.candidates().into_iter();
    groups.filter_map(|group| limit(files.read(&group.join(file)).ok()?)).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::fake::FakeTree;

    #[test]
    fn the_lowest_limit_of_all_groups_around_this_process_counts() {
        let tree = FakeTree::new();
        tree.group("unit");
        let own = tree.group("unit/leaf");
        let hierarchy = Hierarchy { top: tree.root().to_owned(), own: Some(own) };
        let limit = || lowest(&tree, &hierarchy, "memory.max");
        assert_eq!(limit(), None);
        tree.file("unit/leaf/memory.max", "max\n");
        assert_eq!(limit(), None);
        tree.file("unit/memory.max", "104857600\n");
        assert_eq!(limit(), Some(Bytes(100 << 20)));
        tree.file("unit/leaf/memory.max", "209715200\n");
        assert_eq!(limit(), Some(Bytes(100 << 20)));
    }
}
