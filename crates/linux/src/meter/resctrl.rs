//! Memory Bandwidth Monitoring per job, through the resctrl file system.
//!
//! Each job gets a monitoring group (one RMID of the hardware) before its exec; its children
//! inherit it. The kernel counts the bytes between each L3 domain and memory, **reads and writes
//! together**: they are reported as reads, with no writes, and [`Capabilities::writes`] is false.
//! Nothing is mounted or reconfigured here; in particular AMD's event configuration (BMEC), which
//! is one setting for the whole machine, stays as it is.

mod control;
mod files;
mod groups;
mod probe;
#[cfg(test)]
mod tests;
mod value;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use memweir_core::{Bytes, Counts, JobId, LINE_BYTES, Lines, Nanos};

use self::groups::ProcFiles;
use self::probe::{MbmEvent, Offer, find_offer};
use self::value::{Continuity, MbmValue, Tally};
use super::{Capabilities, Meter, MeterError, MeterKind, Reading};
use crate::owner::Owner;
use crate::probe::Probe;

pub use self::control::ResctrlGroupMeter;
pub use self::files::{Files, KernelFiles};
pub use self::probe::probe_resctrl;

/// Counts the memory traffic of jobs by monitoring groups.
#[derive(Debug)]
pub struct ResctrlMeter<F: Files = KernelFiles> {
    files: F,
    offer: Offer,
    owner: Owner,
    jobs: BTreeMap<JobId, Group>,
    notices: Vec<String>,
    /// Messages given already: the same gap in 500 jobs is reported once.
    told: Vec<&'static str>,
}

/// The monitoring group of a job.
#[derive(Debug)]
struct Group {
    directory: PathBuf,
    domains: Vec<Domain>,
}

/// A job's counter in one L3 domain.
#[derive(Debug)]
struct Domain {
    file: PathBuf,
    tally: Tally,
}

impl ResctrlMeter {
    /// Uses the mounted resctrl, after removing the groups of runs that are dead. The error has the
    /// reason and the remedy.
    pub fn open() -> Result<Self, Probe> {
        Self::open_with(KernelFiles, Path::new("/proc"), std::process::id() as i32)
    }
}

impl<F: Files> ResctrlMeter<F> {
    /// Describes the counter and its place, as one sentence for people.
    #[must_use]
    pub fn describe(&self) -> String {
        self.offer.describe()
    }

    /// Does the work of [`ResctrlMeter::open`] on other files, for the process `pid` of `proc`.
    fn open_with(files: F, proc: &Path, pid: i32) -> Result<Self, Probe> {
        let offer = find_offer(&files, proc)?;
        let owner = Owner::of_process(&ProcFiles { files: &files, root: proc }, pid)
            .map_err(|error| Probe::missing(format!("reading /proc: {error}")))?;
        let removed = groups::clean(&files, proc, &offer.mon_groups);
        let notices = match removed.len() {
            0 => Vec::new(),
            count => vec![format!("removed {count} monitoring groups of runs that are dead")],
        };
        Ok(Self { files, offer, owner, jobs: BTreeMap::new(), notices, told: Vec::new() })
    }

    fn make_group(&self, job: JobId) -> Result<PathBuf, MeterError> {
        let directory = self.offer.mon_groups.join(groups::name(self.owner, job));
        match self.files.create_dir(&directory) {
            Ok(()) => Ok(directory),
            Err(error) if error.raw_os_error() == Some(libc::ENOSPC) => {
                let rmids = self.offer.rmids.map_or(String::new(), |n| format!(" (there are {n})"));
                Err(MeterError::Unsupported(format!(
                    "job {job} cannot be monitored: all monitoring IDs of the CPU are in \
                     use{rmids}; remove groups that nobody needs from {}, or run fewer jobs at \
                     once",
                    self.offer.mon_groups.display()
                )))
            }
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                Err(MeterError::Unsupported(format!(
                    "job {job} cannot be monitored: the CPU's free monitoring IDs wait until the \
                     cache has forgotten their last users; try again in a minute"
                )))
            }
            Err(source) => {
                Err(MeterError::Os { what: format!("creating {}", directory.display()), source })
            }
        }
    }

    /// Returns the counters of a group, one for each L3 domain of the machine.
    fn domains(&self, directory: &Path) -> io::Result<Vec<Domain>> {
        let data = directory.join("mon_data");
        let mut domains = Vec::new();
        for name in self.files.list(&data)?.iter().filter(|name| name.starts_with("mon_L3_")) {
            let file = data.join(name).join(self.offer.event().name());
            let tally = Tally::starting_at(MbmValue::parse(&self.files.read(&file)?));
            domains.push(Domain { file, tally });
        }
        if domains.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "no mon_L3_* domain"));
        }
        Ok(domains)
    }

    fn enter(&self, directory: &Path, pid: i32) -> io::Result<Vec<Domain>> {
        // The counters are read first, so that their start value includes nothing of the job.
        let domains = self.domains(directory)?;
        self.files.write(&directory.join("tasks"), &pid.to_string())?;
        Ok(domains)
    }
}

/// Returns the caveats about the counts of `event`.
fn caveats(event: MbmEvent) -> Vec<String> {
    let mut caveats = vec![
        "Reads and writes are counted together and reported as reads.".to_owned(),
        "Instructions are not counted.".to_owned(),
    ];
    if event == MbmEvent::Local {
        caveats.push(
            "This CPU counts traffic with the memory of the own socket alone; accesses to other \
             sockets are missing."
                .to_owned(),
        );
    }
    caveats
}

/// Removes a monitoring group; returns a message if it stays.
fn remove_group(files: &impl Files, directory: &Path) -> Option<String> {
    let error = files.remove_dir(directory).err()?;
    Some(format!("{} stays behind: {error}", directory.display()))
}

/// Reads every domain of a group; returns the sum of bytes and the messages for the user.
fn read_domains(
    files: &impl Files,
    domains: &mut [Domain],
) -> io::Result<(Bytes, Vec<&'static str>)> {
    let mut told = Vec::new();
    let mut bytes = 0u64;
    for domain in domains {
        let value = MbmValue::parse(&files.read(&domain.file)?);
        told.extend(value.gap());
        if domain.tally.update(value) == Continuity::WasReset {
            told.push("was reset, perhaps by another program; some traffic is missing");
        }
        bytes = bytes.saturating_add(domain.tally.total());
    }
    Ok((Bytes(bytes), told))
}

impl<F: Files> Meter for ResctrlMeter<F> {
    fn kind(&self) -> MeterKind {
        MeterKind::Resctrl
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { caveats: caveats(self.offer.event()), ..Capabilities::default() }
    }

    fn attach(&mut self, job: JobId, pid: i32) -> Result<(), MeterError> {
        let directory = self.make_group(job)?;
        match self.enter(&directory, pid) {
            Ok(domains) => {
                self.jobs.insert(job, Group { directory, domains });
                Ok(())
            }
            Err(source) => {
                let what = format!("monitoring job {job} in {}", directory.display());
                self.remove(&directory);
                Err(MeterError::Os { what, source })
            }
        }
    }

    fn read(&mut self, job: JobId, _: Nanos, _: Nanos) -> Result<Reading, MeterError> {
        let group = self
            .jobs
            .get_mut(&job)
            .ok_or_else(|| MeterError::Unsupported(format!("job {job} is not being monitored")))?;
        let (bytes, told) = read_domains(&self.files, &mut group.domains).map_err(|source| {
            MeterError::Os { what: format!("reading {}", group.directory.display()), source }
        })?;
        for text in told {
            if !self.told.contains(&text) {
                self.notices.push(format!("job {job}: {} {text}", self.offer.event().name()));
                self.told.push(text);
            }
        }
        let reads = Lines(bytes.0 / LINE_BYTES);
        let counts = Counts::new(0, reads, Lines::ZERO);
        Ok(Reading { counts, ..Reading::default() })
    }

    fn detach(&mut self, job: JobId) {
        if let Some(group) = self.jobs.remove(&job) {
            self.remove(&group.directory);
        }
    }

    fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }
}

impl<F: Files> ResctrlMeter<F> {
    /// Removes a group. A group that cannot be removed now is removed at the next start.
    fn remove(&mut self, directory: &Path) {
        self.notices.extend(remove_group(&self.files, directory));
    }
}

impl<F: Files> Drop for ResctrlMeter<F> {
    fn drop(&mut self) {
        for group in self.jobs.values() {
            let _ = self.files.remove_dir(&group.directory);
        }
    }
}
