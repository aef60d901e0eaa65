//! memweir's monitoring groups: their names, their counters, and the removal of those of dead runs.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memweir_core::{Counts, JobId, LINE_BYTES, Lines};

use super::probe::{Offer, counter_of, find_offer};
use super::value::{Continuity, MbmValue, Tally};
use crate::OsError;
use crate::files::Files;
use crate::meter::cgroup::Scope;
use crate::owner::{Owner, OwnerState, Proc};
use crate::probe::Probe;

/// The mounted resctrl, and the process that makes monitoring groups there.
#[derive(Debug)]
pub(super) struct Resctrl {
    pub(super) files: Arc<dyn Files>,
    pub(super) offer: Offer,
    owner: Owner,
    /// Number of removed groups of dead runs.
    pub(super) removed: usize,
    /// Messages given already: the same gap in 500 groups is reported once.
    told: BTreeSet<&'static str>,
}

/// A monitoring group, and its counters in each L3 domain.
#[derive(Debug)]
pub(super) struct MonitoringGroup {
    pub(super) directory: PathBuf,
    pub(super) counters: Vec<Counter>,
}

/// One counter of one L3 domain.
#[derive(Debug)]
pub(super) struct Counter {
    pub(super) domain: u32,
    pub(super) scope: Scope,
    file: PathBuf,
    pub(super) tally: Tally,
}

impl Resctrl {
    /// Finds the mounted resctrl for the process `pid` of `proc`, and removes the groups of runs
    /// that are dead. The error has the reason and help.
    pub(super) fn open(files: Arc<dyn Files>, proc: &Path, pid: i32) -> Result<Self, Probe> {
        let offer = find_offer(&*files, proc)?;
        let proc = Proc { files: &*files, root: proc };
        let owner = Owner::of_process(proc, pid)
            .map_err(|error| Probe::missing(format!("reading /proc: {error}")))?;
        let removed = clean(proc, &offer.mon_groups);
        Ok(Self { files, offer, owner, removed, told: BTreeSet::new() })
    }

    /// Makes an empty group, and returns its directory.
    pub(super) fn create(&self, job: JobId) -> Result<PathBuf, OsError> {
        let directory = self.offer.mon_groups.join(name(self.owner, job));
        let made = self.files.create_dir(&directory);
        made.map_err(OsError::of(format!("creating {}", directory.display())))?;
        Ok(directory)
    }

    /// Starts counting in a new group.
    pub(super) fn start(&self, directory: &Path, scopes: &[Scope]) -> io::Result<MonitoringGroup> {
        let mut counters = Vec::new();
        for data in self.files.children(&directory.join("mon_data"))? {
            let name = data.file_name().and_then(|name| name.to_str());
            let domain = name.and_then(|name| name.strip_prefix("mon_L3_")?.parse().ok());
            let Some(domain) = domain else { continue };
            for scope in scopes {
                let file = data.join(counter_of(*scope));
                let tally = Tally::starting_at(MbmValue::parse(&self.files.read(&file)?));
                counters.push(Counter { domain, scope: *scope, file, tally });
            }
        }
        if counters.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "no mon_L3_* domain"));
        }
        Ok(MonitoringGroup { directory: directory.to_owned(), counters })
    }

    /// Reads every counter of a group; returns the messages that are new to the user.
    pub(super) fn update(
        &mut self,
        group: &mut MonitoringGroup,
    ) -> Result<Vec<&'static str>, OsError> {
        let failed =
            |source| OsError::new(format!("reading {}", group.directory.display()), source);
        let mut told = Vec::new();
        for counter in &mut group.counters {
            let value = MbmValue::parse(&self.files.read(&counter.file).map_err(failed)?);
            told.extend(value.gap());
            if counter.tally.update(value) == Continuity::WasReset {
                told.push("was reset, perhaps by another program; some traffic is missing");
            }
        }
        told.retain(|text| self.told.insert(text));
        Ok(told)
    }

    /// Removes a group; returns a message if it stays. The next start removes it then.
    pub(super) fn remove(&self, directory: &Path) -> Option<String> {
        let error = self.files.remove_dir(directory).err()?;
        Some(format!("{} stays behind: {error}", directory.display()))
    }
}

impl MonitoringGroup {
    /// Moves a thread to the group.
    pub(super) fn enter(&self, files: &dyn Files, thread: i32) -> io::Result<()> {
        files.write(&self.directory.join("tasks"), &thread.to_string())
    }

    /// Returns the counts of this scope in all domains so far, reads and writes together as reads.
    pub(super) fn counts(&self, scope: Scope) -> Counts {
        let counted = self.counters.iter().filter(|counter| counter.scope == scope);
        let bytes = counted.fold(0u64, |sum, counter| sum.saturating_add(counter.tally.total()));
        Counts::new(0, Lines(bytes / LINE_BYTES), Lines::ZERO)
    }
}

/// Returns the name of the group of `job`.
fn name(owner: Owner, job: JobId) -> String {
    format!("{owner}-job{job}")
}

/// Returns the run that a group belongs to, if the name is one of memweir's.
fn owner_of(group: &str) -> Option<Owner> {
    let (owner, job) = Owner::of_name(group)?;
    let job: u32 = job.strip_prefix("job")?.parse().ok()?;
    (name(owner, JobId(job)) == group).then_some(owner)
}

/// Removes the groups of dead runs and returns their number. Groups that cannot be removed stay.
/// Groups of others are not touched, nor those of runs in another pid namespace, whose state cannot
/// be known here.
fn clean(proc: Proc<'_>, mon_groups: &Path) -> usize {
    let is_dead = |group: &&PathBuf| {
        let owner = group.file_name().and_then(|name| owner_of(name.to_str()?));
        owner.is_some_and(|owner| owner.state(proc) == OwnerState::Dead)
    };
    let groups = proc.files.children(mon_groups).unwrap_or_default();
    groups.iter().filter(is_dead).filter(|group| proc.files.remove_dir(group).is_ok()).count()
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
