//! Memory Bandwidth Monitoring per job, through the resctrl file system.
//!
//! Each job gets a monitoring group (one RMID of the hardware) before its exec; its children
//! inherit it. The kernel counts the bytes between each L3 domain and memory, **reads and writes
//! together**: they are reported as reads, with no writes, and [`Capabilities::writes`] is false.
//! Nothing is mounted or reconfigured here; in particular AMD's event configuration (BMEC), which
//! is one setting for the whole machine, stays as it is.

mod control;
mod groups;
mod probe;
#[cfg(test)]
mod tests;
mod value;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memweir_core::{JobId, Nanos};

use self::groups::{MonitoringGroup, Resctrl};
use self::probe::counter_of;
use super::cgroup::Scope;
use super::{Capabilities, Meter, MeterError, MeterKind, Reading, Reason};
use crate::OsError;
use crate::files::{Files, KernelFiles};
use crate::probe::Probe;

pub use self::control::ResctrlGroupMeter;
pub use self::probe::probe_resctrl;

/// Counts the memory traffic of jobs by monitoring groups.
#[derive(Debug)]
pub struct ResctrlMeter {
    resctrl: Resctrl,
    jobs: BTreeMap<JobId, MonitoringGroup>,
    notices: Vec<String>,
}

impl ResctrlMeter {
    /// Uses the mounted resctrl, after removing the groups of runs that are dead. The error has the
    /// reason and help.
    pub fn open() -> Result<Self, Probe> {
        Self::open_with(Arc::new(KernelFiles), Path::new("/proc"), std::process::id() as i32)
    }

    /// Describes the counter and its place, as one sentence for people.
    #[must_use]
    pub fn describe(&self) -> String {
        self.resctrl.offer.describe()
    }

    /// Does the work of [`ResctrlMeter::open`] on other files, for the process `pid` of `proc`.
    fn open_with(files: Arc<dyn Files>, proc: &Path, pid: i32) -> Result<Self, Probe> {
        let resctrl = Resctrl::open(files, proc, pid)?;
        let notices = match resctrl.removed {
            0 => Vec::new(),
            count => vec![format!("removed {count} monitoring groups of runs that are dead")],
        };
        Ok(Self { resctrl, jobs: BTreeMap::new(), notices })
    }

    fn make_group(&self, job: JobId) -> Result<PathBuf, MeterError> {
        let offer = &self.resctrl.offer;
        self.resctrl.create(job).map_err(|error| {
            let text = match error.source.raw_os_error() {
                Some(libc::ENOSPC) => {
                    let rmids = offer.rmids.map_or(String::new(), |n| format!(" (there are {n})"));
                    format!(
                        "job {job} cannot be monitored: all monitoring IDs of the CPU are in \
                         use{rmids}; remove groups that nobody needs from {}, or run fewer jobs at \
                         once",
                        offer.mon_groups.display()
                    )
                }
                Some(libc::EBUSY) => format!(
                    "job {job} cannot be monitored: the CPU's free monitoring IDs wait until the \
                     cache has forgotten their last users; try again in a minute"
                ),
                _ => error.to_string(),
            };
            MeterError { reason: Reason::of(&error.source), text }
        })
    }
}

/// Returns the caveats about the counts of this scope.
fn caveats(scope: Scope) -> Vec<String> {
    let mut caveats = vec![
        "Reads and writes are counted together and reported as reads.".to_owned(),
        "Instructions are not counted.".to_owned(),
    ];
    if scope == Scope::Local {
        caveats.push(
            "This CPU counts traffic with the memory of the own socket alone; accesses to other \
             sockets are missing."
                .to_owned(),
        );
    }
    caveats
}

impl Meter for ResctrlMeter {
    fn kind(&self) -> MeterKind {
        MeterKind::Resctrl
    }

    fn capabilities(&self) -> Capabilities {
        let caveats = caveats(self.resctrl.offer.scope());
        Capabilities { caveats, ..Capabilities::default() }
    }

    fn attach(&mut self, job: JobId, pid: i32) -> Result<(), MeterError> {
        let directory = self.make_group(job)?;
        // The counters are read first, so that their start value includes nothing of the job.
        let started = self.resctrl.start(&directory, &[self.resctrl.offer.scope()]);
        let entered =
            started.and_then(|group| group.enter(&*self.resctrl.files, pid).map(|()| group));
        match entered {
            Ok(group) => {
                self.jobs.insert(job, group);
                Ok(())
            }
            Err(source) => {
                let what = format!("monitoring job {job} in {}", directory.display());
                self.notices.extend(self.resctrl.remove(&directory));
                Err(OsError::new(what, source).into())
            }
        }
    }

    fn read(&mut self, job: JobId, _: Nanos, _: Nanos) -> Result<Reading, MeterError> {
        let group = self
            .jobs
            .get_mut(&job)
            .ok_or_else(|| MeterError::other(format!("job {job} is not being monitored")))?;
        let told = self.resctrl.update(group)?;
        let scope = self.resctrl.offer.scope();
        let notice = |text: &str| format!("job {job}: {} {text}", counter_of(scope));
        self.notices.extend(told.into_iter().map(notice));
        Ok(Reading { counts: group.counts(scope), ..Reading::default() })
    }

    fn detach(&mut self, job: JobId) {
        if let Some(group) = self.jobs.remove(&job) {
            self.notices.extend(self.resctrl.remove(&group.directory));
        }
    }

    fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }
}

impl Drop for ResctrlMeter {
    fn drop(&mut self) {
        for group in self.jobs.values() {
            let _ = self.resctrl.remove(&group.directory);
        }
    }
}
