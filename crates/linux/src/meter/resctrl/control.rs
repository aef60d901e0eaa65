//! Monitoring groups for control groups that others made.
//!
//! The kernel monitors threads, and new threads inherit the monitoring group of their parent. A
//! process that enters a control group from elsewhere does not, so each reading moves the threads
//! that came since the last one. Monitoring groups are few, so at most a given number is taken, and
//! each is removed when its control group ends.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use memweir_core::{Bytes, Counts, JobId, LINE_BYTES, Lines};

use super::files::{Files, KernelFiles};
use super::groups::{self, ProcFiles};
use super::probe::{MbmEvent, Offer, find_offer};
use super::value::{Continuity, MbmValue, Tally};
use super::{caveats, remove_group};
use crate::cgroup::is_gone;
use crate::cgroup_tree::threads;
use crate::meter::cgroup::{
    DomainBytes, GroupId, GroupMeter, GroupMeterError, GroupReading, Reason, Scope,
};
use crate::meter::{Capabilities, MeterKind};
use crate::owner::Owner;
use crate::probe::Probe;

/// Most monitoring groups to take where the CPU does not tell how many it has.
const UNKNOWN_RMIDS: usize = 16;

/// Counts the memory traffic of control groups by monitoring groups.
pub struct ResctrlGroupMeter<F: Files = KernelFiles> {
    files: F,
    offer: Offer,
    owner: Owner,
    most: usize,
    groups: BTreeMap<GroupId, MonitoringGroup>,
    /// Number of the next monitoring group.
    next: u32,
    notices: Vec<String>,
    /// Messages given already: the same gap in 500 groups is reported once.
    told: BTreeSet<&'static str>,
}

/// The monitoring group of one control group.
struct MonitoringGroup {
    directory: PathBuf,
    control_group: PathBuf,
    counters: Vec<DomainCounter>,
    /// Threads that were moved at the last reading.
    threads: BTreeSet<i32>,
}

/// One counter of one L3 domain.
struct DomainCounter {
    domain: u32,
    event: MbmEvent,
    file: PathBuf,
    tally: Tally,
}

impl ResctrlGroupMeter {
    /// Uses the mounted resctrl, after removing the groups of runs that are dead. Takes at most
    /// `most` monitoring groups at once, or half of what the CPU has.
    ///
    /// # Errors
    /// The reason why nothing is monitored, and the remedy.
    pub fn open(most: Option<usize>) -> Result<Self, Probe> {
        Self::open_with(KernelFiles, Path::new("/proc"), std::process::id() as i32, most)
    }
}

impl<F: Files> ResctrlGroupMeter<F> {
    /// Does the work of [`open`](ResctrlGroupMeter::open) on other files, for the process `pid` of
    /// `proc`.
    pub(super) fn open_with(
        files: F,
        proc: &Path,
        pid: i32,
        most: Option<usize>,
    ) -> Result<Self, Probe> {
        let offer = find_offer(&files, proc)?;
        let owner = Owner::of_process(&ProcFiles { files: &files, root: proc }, pid)
            .map_err(|error| Probe::missing(format!("reading /proc: {error}")))?;
        groups::clean(&files, proc, &offer.mon_groups);
        let half = offer.rmids.map_or(UNKNOWN_RMIDS, |rmids| rmids as usize / 2);
        Ok(Self {
            files,
            offer,
            owner,
            most: most.unwrap_or(half),
            groups: BTreeMap::new(),
            next: 0,
            notices: Vec::new(),
            told: BTreeSet::new(),
        })
    }

    /// Describes the counters and their place, as one sentence for people.
    #[must_use]
    pub fn describe(&self) -> String {
        format!("{}; at most {} are taken", self.offer.describe(), self.most)
    }

    /// Makes the counters of a new monitoring group, which start now.
    fn counters(&self, directory: &Path) -> io::Result<Vec<DomainCounter>> {
        let data = directory.join("mon_data");
        let mut counters = Vec::new();
        for name in self.files.list(&data)? {
            let Some(domain) = name.strip_prefix("mon_L3_").and_then(|n| n.parse().ok()) else {
                continue;
            };
            for event in &self.offer.events {
                let file = data.join(&name).join(event.name());
                let tally = Tally::starting_at(MbmValue::parse(&self.files.read(&file)?));
                counters.push(DomainCounter { domain, event: *event, file, tally });
            }
        }
        match counters.is_empty() {
            true => Err(io::Error::new(io::ErrorKind::NotFound, "no mon_L3_* domain")),
            false => Ok(counters),
        }
    }

    fn remove(&mut self, directory: &Path) {
        self.notices.extend(remove_group(&self.files, directory));
    }
}

impl MonitoringGroup {
    /// Moves the threads that came to the control group since the last call. Threads that end
    /// meanwhile are passed over.
    fn follow(&mut self, files: &impl Files) -> io::Result<()> {
        let now: BTreeSet<i32> = threads(&self.control_group)?.into_iter().collect();
        let tasks = self.directory.join("tasks");
        for thread in now.difference(&self.threads) {
            match files.write(&tasks, &thread.to_string()) {
                Err(error) if !is_gone(&error) => return Err(error),
                _ => {}
            }
        }
        self.threads = now;
        Ok(())
    }

    /// Reads every counter and returns the messages for users.
    fn update(&mut self, files: &impl Files) -> io::Result<Vec<&'static str>> {
        let mut told = Vec::new();
        for counter in &mut self.counters {
            let value = MbmValue::parse(&files.read(&counter.file)?);
            told.extend(value.gap());
            if counter.tally.update(value) == Continuity::WasReset {
                told.push("was reset, perhaps by another program; some traffic is missing");
            }
        }
        Ok(told)
    }

    /// Returns the bytes so far. The lines are those of `event` over all domains.
    fn reading(&self, event: MbmEvent) -> GroupReading {
        let domain = |counter: &DomainCounter| DomainBytes {
            domain: counter.domain,
            scope: counter.event.scope(),
            bytes: Bytes(counter.tally.total()),
        };
        let counted = self.counters.iter().filter(|counter| counter.event == event);
        let bytes = counted.fold(0u64, |sum, counter| sum.saturating_add(counter.tally.total()));
        GroupReading {
            counts: Counts::new(0, Lines(bytes / LINE_BYTES), Lines::ZERO),
            domains: self.counters.iter().map(domain).collect(),
        }
    }
}

impl MbmEvent {
    fn scope(self) -> Scope {
        match self {
            Self::Total => Scope::Total,
            Self::Local => Scope::Local,
        }
    }
}

impl<F: Files> GroupMeter for ResctrlGroupMeter<F> {
    fn kind(&self) -> MeterKind {
        MeterKind::Resctrl
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { caveats: caveats(self.offer.event()), ..Capabilities::default() }
    }

    fn attach(&mut self, group: GroupId, directory: &Path) -> Result<(), GroupMeterError> {
        if self.groups.len() >= self.most {
            let text = format!("all {} monitoring groups are taken", self.most);
            return Err(GroupMeterError { reason: Reason::Limit, text });
        }
        let own = self.offer.mon_groups.join(groups::name(self.owner, JobId(self.next)));
        self.files
            .create_dir(&own)
            .map_err(|error| GroupMeterError::os(&format!("creating {}", own.display()), &error))?;
        self.next = self.next.wrapping_add(1);
        let begun = self.counters(&own).and_then(|counters| {
            let (control_group, threads) = (directory.to_owned(), BTreeSet::new());
            let mut begun =
                MonitoringGroup { directory: own.clone(), control_group, counters, threads };
            begun.follow(&self.files).map(|()| begun)
        });
        match begun {
            Ok(begun) => {
                self.groups.insert(group, begun);
                Ok(())
            }
            Err(error) => {
                self.remove(&own);
                Err(GroupMeterError::os(&format!("monitoring {}", directory.display()), &error))
            }
        }
    }

    fn read(&mut self, group: GroupId) -> Result<GroupReading, GroupMeterError> {
        let monitored =
            self.groups.get_mut(&group).ok_or_else(|| GroupMeterError::not_attached(group))?;
        let updated = monitored.update(&self.files);
        let told = updated.and_then(|told| monitored.follow(&self.files).map(|()| told));
        let told = told.map_err(|error| {
            GroupMeterError::os(&format!("reading {}", monitored.directory.display()), &error)
        })?;
        for text in told {
            if self.told.insert(text) {
                self.notices.push(format!("a counter of {} {text}", self.offer.event().name()));
            }
        }
        Ok(monitored.reading(self.offer.event()))
    }

    fn detach(&mut self, group: GroupId) {
        if let Some(monitored) = self.groups.remove(&group) {
            self.remove(&monitored.directory);
        }
    }

    fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }
}

impl<F: Files> Drop for ResctrlGroupMeter<F> {
    fn drop(&mut self) {
        for group in self.groups.values() {
            let _ = self.files.remove_dir(&group.directory);
        }
    }
}
