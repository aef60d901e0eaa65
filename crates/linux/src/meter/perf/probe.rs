//! Probing `perf_event_open`: the reason why it works here or not, and help.

use std::fmt;

use memweir_core::Media;

use super::events::{Encoding, EventFile};
use super::{PerfMeter, PerfOpenError, SampleIps, counters};
use crate::OsError;
use crate::host::{CAP_PERFMON, CAP_SYS_ADMIN, has_capability};
use crate::meter::cpu::CpuModel;
use crate::probe::Probe;
use crate::topology;

/// The capabilities that lift `perf_event_paranoid`: one of them is enough.
const LIFTING: u64 = CAP_PERFMON | CAP_SYS_ADMIN;

/// Reports whether hardware events can be counted per job here, and with which events.
#[must_use]
pub fn probe_perf() -> Probe {
    match PerfMeter::open(None, &Media::dram_only(), SampleIps::No) {
        Ok(meter) => Probe::available(meter.describe()),
        Err(PerfOpenError::Unavailable(probe)) => probe,
        Err(PerfOpenError::Input(error)) => Probe::missing(error.to_string()),
    }
}

/// Privileges of this process for perf events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Privileges {
    paranoid: Option<i32>,
    uid: u32,
    capable: bool,
}

impl Privileges {
    /// Reads those of the calling process.
    pub(super) fn of_this_process() -> Self {
        let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid")
            .ok()
            .and_then(|text| text.trim().parse().ok());
        let uid = nix::unistd::geteuid().as_raw();
        Self { paranoid, uid, capable: has_capability(LIFTING) }
    }
}

impl fmt::Display for Privileges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.paranoid {
            Some(level) => write!(f, "perf_event_paranoid is {level}")?,
            None => write!(f, "perf_event_paranoid cannot be read")?,
        }
        let holds = if self.capable { "with" } else { "without" };
        write!(f, " and this is user {} {holds} CAP_PERFMON", self.uid)
    }
}

/// Returns the answer where no event file has the CPU.
pub(super) fn no_entry(cpu: &CpuModel, files: &[EventFile], privileges: &Privileges) -> Probe {
    // Without a PMU, events for this model would not help: give the deeper reason.
    if let Err(error) = counters::try_encoding(Encoding::Instructions) {
        return refused(&OsError::new("instructions", error), privileges);
    }
    let names: Vec<_> = files.iter().map(|file| file.name.as_str()).collect();
    Probe::missing(format!("no memory events are known for this CPU ({cpu})")).help(format!(
        "describe its events in an event file (examples: {}) and name that file",
        names.join(", ")
    ))
}

/// Returns the answer where the kernel refused an event.
pub(super) fn refused(OsError { what, source }: &OsError, privileges: &Privileges) -> Probe {
    match source.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP) => no_pmu(what),
        Some(libc::EACCES | libc::EPERM) if privileges.capable => Probe::missing(format!(
            "perf_event_open is refused although {privileges}: a seccomp filter, as containers \
             have, or a security module forbids it"
        ))
        .help("allow perf_event_open in the container's seccomp profile"),
        Some(libc::EACCES | libc::EPERM) => Probe::missing(format!("{privileges}")).help(
            "sysctl kernel.perf_event_paranoid=2 (1 or less counts the kernel's accesses too), \
             or run as root",
        ),
        Some(libc::ENOSYS) => Probe::missing("this kernel has no perf events")
            .help("a kernel with CONFIG_PERF_EVENTS"),
        Some(libc::EMFILE) => {
            Probe::missing("the limit of open files is reached").help("raise it with `ulimit -n`")
        }
        _ => Probe::missing(format!("the kernel refuses event {what}: {source}")),
    }
}

/// Returns the answer where the kernel refused an event for a control group.
pub(super) fn refused_for_groups(error: &OsError, privileges: &Privileges) -> Probe {
    let OsError { what, source } = error;
    match source.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) if !privileges.capable => {
            Probe::missing(format!("counting control groups needs CAP_PERFMON, and {privileges}"))
                .help("sysctl kernel.perf_event_paranoid=0, or run as root")
        }
        Some(libc::EBADF | libc::EINVAL) => {
            Probe::missing(format!("the kernel refuses event {what} for control groups: {source}"))
                .help("a kernel with CONFIG_CGROUP_PERF, and no cgroup v1 hierarchy of perf_event")
        }
        _ => refused(error, privileges),
    }
}

fn no_pmu(event: &str) -> Probe {
    if topology::is_virtual() {
        Probe::missing("this virtual machine has no PMU").help(
            "give the guest a virtual PMU (libvirt: <pmu state='on'/> with host-passthrough; \
             clouds: a metal or dedicated-host instance)",
        )
    } else {
        Probe::missing(format!("the kernel offers no hardware event {event} on this machine"))
            .help("check the firmware's settings and `dmesg | grep -i pmu`")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nobody() -> Privileges {
        Privileges { paranoid: Some(3), uid: 1000, capable: false }
    }

    #[test]
    fn refusals_say_who_we_are_and_what_helps() {
        let error = |code| OsError::new("E", std::io::Error::from_raw_os_error(code));
        let refuse = |code, who: &Privileges| refused(&error(code), who);
        let probe = refuse(libc::EACCES, &nobody());
        let expected = "perf_event_paranoid is 3 and this is user 1000 without CAP_PERFMON";
        assert_eq!(probe.reason, expected);
        assert!(probe.help.unwrap().contains("perf_event_paranoid=2"));
        let capable = Privileges { capable: true, uid: 0, ..nobody() };
        assert!(refuse(libc::EPERM, &capable).reason.contains("seccomp"));
        assert!(refuse(libc::EINVAL, &nobody()).reason.contains("event E"));
        for code in [libc::ENOENT, libc::ENOSYS, libc::EMFILE] {
            let probe = refuse(code, &nobody());
            assert!(!probe.available && probe.help.is_some(), "{probe:?}");
        }
    }

    #[test]
    fn an_unknown_cpu_is_named_unless_there_is_no_pmu_at_all() {
        let cpu = CpuModel { vendor: "Nobody".into(), family: 1, model: 2, stepping: 3 };
        let probe = no_entry(&cpu, &EventFile::shipped().unwrap(), &nobody());
        assert!(!probe.available);
        match counters::try_encoding(Encoding::Instructions) {
            Ok(()) => assert!(probe.reason.contains("Nobody family 0x1"), "{probe:?}"),
            Err(_) => assert!(!probe.reason.contains("Nobody"), "{probe:?}"),
        }
    }

    #[test]
    fn the_probe_of_this_machine_gives_a_reason() {
        let probe = probe_perf();
        assert!(!probe.reason.is_empty());
        assert!(probe.available || probe.reason.len() > 10, "{probe:?}");
        eprintln!("perf here: {probe:?}");
    }
}
