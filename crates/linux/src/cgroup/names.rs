//! The names of memweir's groups: their owner, a serial number, the batch.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use memweir_core::JobId;

use crate::owner::Owner;

/// Longest part of a group's name that comes from the batch's name.
const MAX_BATCH_NAME: usize = 64;

/// Returns a name for a new group of `owner`'s, different from all that this process has given
/// before.
pub(crate) fn new_group(owner: &Owner, batch: &str) -> String {
    static SERIAL: AtomicU32 = AtomicU32::new(0);
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    let batch: String = batch
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "_.".contains(c) { c } else { '_' })
        .take(MAX_BATCH_NAME)
        .collect();
    format!("{owner}-{serial}-{batch}")
}

/// Ends the name of a guardian's group, which begins with that of the jobs' group.
const HOME: &str = ".guardian";

/// Returns the group of the guardian of the jobs in `group`, in `directory`.
pub(crate) fn home(directory: &Path, group: &str) -> PathBuf {
    directory.join(format!("{group}{HOME}"))
}

/// Returns true if a group that memweir has made is a guardian's.
pub(crate) fn is_home(group: &Path) -> bool {
    group.to_string_lossy().ends_with(HOME)
}

/// Begins the name of a job's leaf.
const LEAF: &str = "job-";

/// Returns the name of a job's leaf in the group of its owner.
pub(crate) fn leaf(job: JobId) -> String {
    format!("{LEAF}{job}")
}

/// Returns true for the leaf of a job that a memweir has started.
pub(crate) fn is_leaf(group: &Path) -> bool {
    let is_named = group.file_name().and_then(|name| name.to_str()?.strip_prefix(LEAF)).is_some();
    is_named && group.parent().and_then(owner_of_group).is_some()
}

/// Returns the owner that a group's name contains; `None` for groups that memweir has not made.
pub(crate) fn owner_of(name: &str) -> Option<Owner> {
    let (owner, rest) = Owner::of_name(name)?;
    let (serial, _batch) = rest.split_once('-')?;
    serial.parse::<u32>().ok().map(|_| owner)
}

/// Returns the owner of the group in this directory.
pub(crate) fn owner_of_group(group: &Path) -> Option<Owner> {
    group.file_name()?.to_str().and_then(owner_of)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_tell_the_batch_and_differ() {
        let owner = Owner::current().unwrap();
        let name = new_group(&owner, "my batch/1");
        assert!(name.ends_with("-my_batch_1"), "{name}");
        assert_ne!(new_group(&owner, "x"), new_group(&owner, "x"));
    }

    #[test]
    fn a_guardians_group_has_the_owner_of_the_jobs() {
        let owner = Owner::current().unwrap();
        let name = new_group(&owner, "x");
        let home = home(Path::new("/top"), &name);
        assert!(is_home(&home) && !is_home(Path::new(&name)));
        assert_eq!(owner_of_group(&home), Some(owner));
    }

    #[test]
    fn a_leaf_lies_in_the_group_of_a_memweir() {
        let owner = Owner::current().unwrap();
        let group = Path::new("/top").join(new_group(&owner, "x"));
        assert!(is_leaf(&group.join(leaf(JobId(7)))));
        assert!(!is_leaf(&group) && !is_leaf(&group.join("other")));
        assert!(!is_leaf(Path::new("/top/job-7")));
    }

    #[test]
    fn the_groups_of_others_are_not_ours() {
        for name in ["", "memweir-1-2-3", "memweir-1-2-3-4", "memweir-1-2-3-job4", "user.slice"] {
            assert_eq!(owner_of(name), None, "{name}");
        }
        assert!(owner_of("memweir-1-2-3-4-").is_some());
    }

    proptest! {
        #[test]
        fn every_name_is_read_back_and_is_one_path_component(batch: String) {
            let owner = Owner::current().unwrap();
            let name = new_group(&owner, &batch);
            prop_assert!(!name.contains('/') && name.len() < 255);
            prop_assert_eq!(owner_of(&name), Some(owner));
        }
    }
}
