//! The names of memweir's monitoring groups, and the removal of those of dead runs.

use std::io;
use std::path::{Path, PathBuf};

use memweir_core::JobId;

use super::files::Files;
use crate::owner::{Owner, OwnerState, Proc};

/// A proc file system at `root`, read through the same files as resctrl.
pub(super) struct ProcFiles<'a, F> {
    pub(super) files: &'a F,
    pub(super) root: &'a Path,
}

impl<F: Files> Proc for ProcFiles<'_, F> {
    fn read(&self, path: &Path) -> io::Result<String> {
        self.files.read(&self.root.join(path))
    }

    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        self.files.read_link(&self.root.join(path))
    }
}

/// Returns the name of the group of `job`.
pub(super) fn name(owner: Owner, job: JobId) -> String {
    format!("{owner}-job{job}")
}

/// Returns the run that a group belongs to, if the name is one of memweir's.
fn owner_of(group: &str) -> Option<Owner> {
    let (owner, job) = Owner::of_name(group)?;
    let job: u32 = job.strip_prefix("job")?.parse().ok()?;
    (name(owner, JobId(job)) == group).then_some(owner)
}

/// Removes the groups of dead runs and returns their names. Groups that cannot be removed stay.
/// Groups of others are not touched, nor those of runs in another pid namespace, whose state cannot
/// be known here.
pub(super) fn clean(files: &impl Files, proc: &Path, mon_groups: &Path) -> Vec<String> {
    let processes = ProcFiles { files, root: proc };
    let is_dead = |owner: Owner| owner.state(&processes) == OwnerState::Dead;
    files
        .list(mon_groups)
        .unwrap_or_default()
        .into_iter()
        .filter(|name| owner_of(name).is_some_and(is_dead))
        .filter(|name| files.remove_dir(&mon_groups.join(name)).is_ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_read_back() {
        let owner = Owner::current().unwrap();
        assert_eq!(owner_of(&name(owner, JobId(7))), Some(owner));
        for foreign in [
            "mine",
            "memweir-12-3456-job7",
            "memweir-12-3456-9-job07",
            "memweir-12-3456-9-jobx",
            "memweir-12-3456-9-1-batch",
        ] {
            assert_eq!(owner_of(foreign), None, "{foreign}");
        }
    }

    proptest! {
        #[test]
        fn any_name_is_read_or_refused(text in "(memweir-)?[-0-9jobx) ]{0,40}") {
            let _ = owner_of(&text);
        }
    }
}
