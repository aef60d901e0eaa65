//! Detection of Memory Bandwidth Monitoring on this machine.

use std::io;
use std::path::{Path, PathBuf};

use crate::cgroup::unescape;
use crate::files::{Files, KernelFiles};
use crate::meter::cgroup::Scope;
use crate::probe::Probe;

/// The usual mount point of resctrl.
const USUAL_MOUNT: &str = "/sys/fs/resctrl";

/// Returns the name of the counter of this memory's traffic, which is that of its file.
pub(super) fn counter_of(scope: Scope) -> &'static str {
    match scope {
        Scope::Total => "mbm_total_bytes",
        Scope::Local => "mbm_local_bytes",
    }
}

/// The mounted file system, as far as a meter needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Offer {
    /// Directory in which monitoring groups are made: that of the control group that this process
    /// belongs to, for tasks cannot be monitored from another one.
    pub(super) mon_groups: PathBuf,
    /// The counters of the CPU, the widest first; at least one.
    pub(super) scopes: Vec<Scope>,
    /// Number of groups that the hardware can tell apart, if known.
    pub(super) rmids: Option<u32>,
}

impl Offer {
    /// Returns the counter with the most traffic.
    pub(super) fn scope(&self) -> Scope {
        self.scopes.first().copied().unwrap_or(Scope::Total)
    }

    /// Describes the counter and its place, as one sentence for people.
    pub(super) fn describe(&self) -> String {
        let rmids = self.rmids.map_or("an unknown number of".to_owned(), |n| n.to_string());
        format!(
            "{} per job under {}, for up to {rmids} groups; reads and writes together",
            counter_of(self.scope()),
            self.mon_groups.display(),
        )
    }
}

/// Reports whether memory bandwidth can be monitored per job through resctrl here.
#[must_use]
pub fn probe_resctrl() -> Probe {
    match find_offer(&KernelFiles, Path::new("/proc")) {
        Ok(offer) => Probe::available(offer.describe()),
        Err(probe) => probe,
    }
}

/// Finds the mounted file system and its counter, or the reason why it monitors nothing.
pub(super) fn find_offer(files: &dyn Files, proc: &Path) -> Result<Offer, Probe> {
    let mountinfo = files.read(&proc.join("self/mountinfo")).unwrap_or_default();
    let Some(mount) = mount_point(&mountinfo) else { return Err(not_mounted(files, proc)) };
    let monitoring = mount.join("info/L3_MON");
    let features = files.read(&monitoring.join("mon_features")).unwrap_or_default();
    let has = |scope: &Scope| features.lines().any(|line| line.trim() == counter_of(*scope));
    let scopes: Vec<_> = [Scope::Total, Scope::Local].into_iter().filter(has).collect();
    if scopes.is_empty() {
        let offered = features.split_whitespace().collect::<Vec<_>>().join(", ");
        let offered = if offered.is_empty() { "nothing".to_owned() } else { offered };
        return Err(Probe::missing(format!(
            "resctrl is mounted, but this CPU does not monitor memory bandwidth (it monitors: \
             {offered})"
        )));
    }
    let own_group = files.read(&proc.join("self/cpu_resctrl_groups")).unwrap_or_default();
    let mon_groups = mount.join(control_group(&own_group)).join("mon_groups");
    files.writable(&mon_groups).map_err(|error| not_writable(&mon_groups, &error))?;
    let rmids = files.read(&monitoring.join("num_rmids")).ok();
    let rmids = rmids.and_then(|text| text.trim().parse().ok());
    Ok(Offer { mon_groups, scopes, rmids })
}

fn not_writable(mon_groups: &Path, error: &io::Error) -> Probe {
    Probe::missing(format!("no monitoring group can be made in {}: {error}", mon_groups.display()))
        .help("run as root, outside of containers that mount /sys read-only")
}

/// Returns the reason why there is no mount: the CPU, the kernel, or just a missing mount command.
fn not_mounted(files: &dyn Files, proc: &Path) -> Probe {
    let cpuinfo = files.read(&proc.join("cpuinfo")).unwrap_or_default();
    let filesystems = files.read(&proc.join("filesystems")).unwrap_or_default();
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    let has_flag = |name| flags.split_whitespace().any(|flag| flag == name);
    let monitors = has_flag("cqm_mbm_total") || has_flag("cqm_mbm_local");
    let registered =
        filesystems.lines().any(|line| line.split_whitespace().next_back() == Some("resctrl"));
    if registered && (monitors || flags.is_empty()) {
        return Probe::missing("resctrl is not mounted")
            .help(format!("mount -t resctrl resctrl {USUAL_MOUNT}"));
    }
    if monitors {
        return Probe::missing("the CPU monitors memory bandwidth, but this kernel has no resctrl")
            .help("a kernel with CONFIG_X86_CPU_RESCTRL and no `rdt=!mbmtotal` at boot");
    }
    let missing = "cqm_mbm_total is not among its flags";
    if has_flag("hypervisor") {
        Probe::missing(format!(
            "this virtual machine is offered no Memory Bandwidth Monitoring ({missing})"
        ))
        .help("run on the host, or on a metal instance")
    } else {
        Probe::missing(format!("this CPU has no Memory Bandwidth Monitoring ({missing})"))
    }
}

/// Returns the mount point of resctrl in the text of `/proc/self/mountinfo`.
fn mount_point(mountinfo: &str) -> Option<PathBuf> {
    mountinfo.lines().find_map(|line| {
        let (mount, source) = line.split_once(" - ")?;
        let is_resctrl = source.split(' ').next() == Some("resctrl");
        let point = mount.split(' ').nth(4)?;
        is_resctrl.then(|| unescape(point.as_bytes()))
    })
}

/// Returns the control group in the text of `/proc/PID/cpu_resctrl_groups` (`res:/NAME`), relative
/// to the mount point. Kernels without that file have most processes in the default group, the
/// root.
fn control_group(text: &str) -> &str {
    let group = text.lines().find_map(|line| line.strip_prefix("res:"));
    group.unwrap_or_default().trim().trim_start_matches('/')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn finds_the_mount_point() {
        let mountinfo = "24 30 0:22 / /sys rw,nosuid shared:7 - sysfs sysfs rw\n\
            95 24 0:41 / /mnt/with\\040space rw,relatime shared:9 master:2 - resctrl resctrl rw\n";
        assert_eq!(mount_point(mountinfo), Some("/mnt/with space".into()));
        assert_eq!(mount_point("95 24 0:41 / /resctrl rw - tmpfs resctrl rw\n"), None);
    }

    #[test]
    fn finds_the_control_group() {
        assert_eq!(control_group("res:/\nmon:\n"), "");
        assert_eq!(control_group("res:/gold\nmon:mon_groups/x/\n"), "gold");
        assert_eq!(control_group(""), "");
    }

    #[test]
    fn the_probe_of_this_machine_gives_a_reason() {
        let probe = probe_resctrl();
        assert!(probe.reason.len() > 10, "{probe:?}");
        eprintln!("resctrl here: {probe:?}");
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "[-/a-z0-9 \\\\\n:]{0,80}") {
            let _ = (mount_point(&text), control_group(&text));
        }
    }
}
