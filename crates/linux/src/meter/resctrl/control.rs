//! Monitoring groups for control groups that others made.
//!
//! The kernel monitors threads, and new threads inherit the monitoring group of their parent. A
//! process that enters a control group from elsewhere does not, so each reading moves the threads
//! that came since the last one. Monitoring groups are few, so at most a given number is taken, and
//! each is removed when its control group ends.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memweir_core::{Bytes, JobId};

use super::caveats;
use super::groups::{Counter, MonitoringGroup, Resctrl};
use super::probe::counter_of;
use crate::OsError;
use crate::cgroup::{Version, threads, unless_gone};
use crate::files::{Files, KernelFiles};
use crate::meter::cgroup::{DomainBytes, GroupId, GroupMeter, GroupReading, not_attached};
use crate::meter::{Capabilities, MeterError, MeterKind, Reason};
use crate::probe::Probe;

/// Most monitoring groups to take where the CPU does not tell how many it has.
const UNKNOWN_RMIDS: usize = 16;

/// Counts the memory traffic of control groups by monitoring groups.
#[derive(Debug)]
pub struct ResctrlGroupMeter {
    resctrl: Resctrl,
    most: usize,
    groups: BTreeMap<GroupId, FollowedGroup>,
    /// Number of the next monitoring group.
    next: u32,
    notices: Vec<String>,
}

/// A control group and its monitoring group.
#[derive(Debug)]
struct FollowedGroup {
    monitoring: MonitoringGroup,
    control_group: PathBuf,
    /// Threads that were moved at the last reading.
    threads: BTreeSet<i32>,
}

impl ResctrlGroupMeter {
    /// Uses the mounted resctrl, after removing the groups of runs that are dead. Takes at most
    /// `most` monitoring groups at once, or half of what the CPU has.
    ///
    /// # Errors
    /// The reason why nothing is monitored, and help.
    pub fn open(most: Option<usize>) -> Result<Self, Probe> {
        let pid = std::process::id() as i32;
        Self::open_with(Arc::new(KernelFiles), Path::new("/proc"), pid, most)
    }

    /// Does the work of [`open`](ResctrlGroupMeter::open) on other files, for the process `pid` of
    /// `proc`.
    pub(super) fn open_with(
        files: Arc<dyn Files>,
        proc: &Path,
        pid: i32,
        most: Option<usize>,
    ) -> Result<Self, Probe> {
        let resctrl = Resctrl::open(files, proc, pid)?;
        let half = resctrl.offer.rmids.map_or(UNKNOWN_RMIDS, |rmids| rmids as usize / 2);
        let most = most.unwrap_or(half);
        Ok(Self { resctrl, most, groups: BTreeMap::new(), next: 0, notices: Vec::new() })
    }

    /// Describes the counters and their place, as one sentence for people.
    #[must_use]
    pub fn describe(&self) -> String {
        format!("{}; at most {} are taken", self.resctrl.offer.describe(), self.most)
    }

    /// Starts monitoring the control group at `directory` by a monitoring group.
    fn follow(&self, directory: &Path, monitoring: &Path) -> io::Result<FollowedGroup> {
        let monitoring = self.resctrl.start(monitoring, &self.resctrl.offer.scopes)?;
        let (control_group, threads) = (directory.to_owned(), BTreeSet::new());
        let mut followed = FollowedGroup { monitoring, control_group, threads };
        followed.update(&*self.resctrl.files)?;
        Ok(followed)
    }
}

impl FollowedGroup {
    /// Moves the threads that came to the control group since the last call. Threads that end
    /// meanwhile are passed over.
    fn update(&mut self, files: &dyn Files) -> io::Result<()> {
        let now: BTreeSet<i32> =
            threads(files, Version::V2, &self.control_group)?.into_iter().collect();
        for thread in now.difference(&self.threads) {
            unless_gone(self.monitoring.enter(files, *thread))?;
        }
        self.threads = now;
        Ok(())
    }
}

impl GroupMeter for ResctrlGroupMeter {
    fn kind(&self) -> MeterKind {
        MeterKind::Resctrl
    }

    fn capabilities(&self) -> Capabilities {
        let caveats = caveats(self.resctrl.offer.scope());
        Capabilities { caveats, ..Capabilities::default() }
    }

    fn attach(&mut self, group: GroupId, directory: &Path) -> Result<(), MeterError> {
        if self.groups.len() >= self.most {
            let text = format!("all {} monitoring groups are taken", self.most);
            return Err(MeterError { reason: Reason::Limit, text });
        }
        let own = self.resctrl.create(JobId(self.next))?;
        self.next = self.next.wrapping_add(1);
        match self.follow(directory, &own) {
            Ok(followed) => {
                self.groups.insert(group, followed);
                Ok(())
            }
            Err(error) => {
                self.notices.extend(self.resctrl.remove(&own));
                Err(OsError::new(format!("monitoring {}", directory.display()), error).into())
            }
        }
    }

    fn read(&mut self, group: GroupId) -> Result<GroupReading, MeterError> {
        let followed = self.groups.get_mut(&group).ok_or_else(|| not_attached(group))?;
        let told = self.resctrl.update(&mut followed.monitoring)?;
        let what = format!("reading {}", followed.monitoring.directory.display());
        followed.update(&*self.resctrl.files).map_err(OsError::of(what))?;
        let monitoring = &followed.monitoring;
        let scope = self.resctrl.offer.scope();
        let notice = |text: &str| format!("a counter of {} {text}", counter_of(scope));
        self.notices.extend(told.into_iter().map(notice));
        let domain = |counter: &Counter| DomainBytes {
            domain: counter.domain,
            scope: counter.scope,
            bytes: Bytes(counter.tally.total()),
        };
        Ok(GroupReading {
            counts: monitoring.counts(scope),
            domains: monitoring.counters.iter().map(domain).collect(),
        })
    }

    fn detach(&mut self, group: GroupId) {
        if let Some(followed) = self.groups.remove(&group) {
            self.notices.extend(self.resctrl.remove(&followed.monitoring.directory));
        }
    }

    fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }
}

impl Drop for ResctrlGroupMeter {
    fn drop(&mut self) {
        for followed in self.groups.values() {
            let _ = self.resctrl.remove(&followed.monitoring.directory);
        }
    }
}
