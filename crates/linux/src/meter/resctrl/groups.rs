//! The names of memweir's monitoring groups, and the removal of those of dead runs.

use std::fmt;
use std::io;
use std::path::Path;

use memweir_core::JobId;

use super::files::Files;

/// A run of memweir. A PID alone comes back; with its start time it is unique since boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pid: u32,
    /// Clock ticks since boot, field 22 of `/proc/PID/stat`.
    started: u64,
}

impl Owner {
    /// The process `pid`, if it lives.
    pub(super) fn of_process(files: &impl Files, proc: &Path, pid: u32) -> io::Result<Self> {
        let stat = files.read(&proc.join(pid.to_string()).join("stat"))?;
        let started = start_time(&stat)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "odd /proc/PID/stat"))?;
        Ok(Self { pid, started })
    }

    /// The name of the group of `job`.
    pub(super) fn group(self, job: JobId) -> String {
        format!("{self}-job{job}")
    }

    /// The run that a group belongs to, if the name is one of memweir's.
    fn of_group(name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix("memweir-")?.splitn(3, '-');
        let owner = Self { pid: parts.next()?.parse().ok()?, started: parts.next()?.parse().ok()? };
        let job: u32 = parts.next()?.strip_prefix("job")?.parse().ok()?;
        (owner.group(JobId(job)) == name).then_some(owner)
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "memweir-{}-{}", self.pid, self.started)
    }
}

/// Field 22 of `/proc/PID/stat`. The second field is a name in parentheses that may hold any
/// character, parentheses and spaces among them.
fn start_time(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(19)?.parse().ok()
}

/// Removes the groups of runs that live no more and returns their names. Groups that cannot be
/// removed stay, and groups of others are not touched.
pub(super) fn clean(files: &impl Files, proc: &Path, mon_groups: &Path) -> Vec<String> {
    let is_dead = |owner: &Owner| match Owner::of_process(files, proc, owner.pid) {
        Ok(alive) => alive != *owner,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    };
    files
        .list(mon_groups)
        .unwrap_or_default()
        .into_iter()
        .filter(|name| Owner::of_group(name).as_ref().is_some_and(is_dead))
        .filter(|name| files.remove_dir(&mon_groups.join(name)).is_ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::meter::resctrl::files::KernelFiles;

    #[test]
    fn names_read_back() {
        let owner = Owner { pid: 12, started: 3456 };
        assert_eq!(owner.group(JobId(7)), "memweir-12-3456-job7");
        assert_eq!(Owner::of_group("memweir-12-3456-job7"), Some(owner));
        for foreign in
            ["mine", "memweir-", "memweir-12-job7", "memweir-12-3456-job07", "memweir-12-3456-jobx"]
        {
            assert_eq!(Owner::of_group(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn start_time_survives_odd_names() {
        let stat = "41 (a) b (c)) S 1 41 41 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 998877 9 9";
        assert_eq!(start_time(stat), Some(998_877));
        assert_eq!(start_time("41 (a"), None);
        assert_eq!(start_time(") 1 2"), None);
    }

    #[test]
    fn this_process_is_alive() {
        let proc = Path::new("/proc");
        let me = Owner::of_process(&KernelFiles, proc, std::process::id()).unwrap();
        assert!(me.started > 0);
        assert_eq!(Owner::of_process(&KernelFiles, proc, std::process::id()).unwrap(), me);
        assert!(Owner::of_process(&KernelFiles, proc, u32::MAX).is_err());
    }

    proptest! {
        #[test]
        fn any_name_and_any_stat_are_read_or_refused(text in "(memweir-)?[-0-9jobx) ]{0,40}") {
            let _ = (Owner::of_group(&text), start_time(&text));
        }
    }
}
