//! Features of the kernel, privileges of this process, and installed tools.

use std::fs;
use std::io;
use std::path::Path;

use memweir_abi::preload::{Delivery, release_numbers};
use memweir_linux::Probe;
use memweir_linux::host::{CAP_SYS_NICE, effective_capabilities, kernel_release};
use memweir_linux::launch::resolve_program;
use memweir_linux::qemu::QemuPaths;

/// The release of the kernel whose `/proc` is below `root`.
pub(super) fn release(root: &Path) -> String {
    kernel_release(root).unwrap_or_else(|| "unknown".to_owned())
}

/// Probes the privileges of this process.
pub(super) fn privileges(root: &Path) -> [(&'static str, Probe); 3] {
    let status = fs::read_to_string(root.join("proc/self/status")).unwrap_or_default();
    let limits = fs::read_to_string(root.join("proc/self/limits")).unwrap_or_default();
    [
        ("root", superuser(&status)),
        ("real-time", real_time(&status, &limits)),
        ("open-files", open_files(&limits)),
    ]
}

fn superuser(status: &str) -> Probe {
    let uid = status
        .lines()
        .find_map(|line| line.strip_prefix("Uid:"))
        .and_then(|ids| ids.split_whitespace().nth(1));
    match uid {
        Some("0") => Probe::available("this is root"),
        Some(uid) => Probe::missing(format!("this is user {uid}")).help(
            "not needed where a cgroup is delegated (`systemd-run --user --scope -p Delegate=yes`) \
             and perf_event_paranoid is 2 or less",
        ),
        None => Probe::missing("/proc/self/status does not say"),
    }
}

fn real_time(status: &str, limits: &str) -> Probe {
    if effective_capabilities(status) & CAP_SYS_NICE != 0 {
        return Probe::available("CAP_SYS_NICE");
    }
    match soft_and_hard(limits, "Max realtime priority") {
        Some((priority, _)) if priority != "0" => {
            Probe::available(format!("real-time priorities up to {priority}"))
        }
        _ => Probe::missing("neither CAP_SYS_NICE nor a real-time priority limit above zero")
            .help("`LimitRTPRIO=1` in the unit, or `rtprio` in /etc/security/limits.conf"),
    }
}

fn open_files(limits: &str) -> Probe {
    const ENOUGH: u64 = 4096;
    let help = "raise the hard limit (`LimitNOFILE=`, /etc/security/limits.conf)";
    let hard = soft_and_hard(limits, "Max open files").map(|(_, hard)| (hard, hard.parse::<u64>()));
    match hard {
        Some(("unlimited", _)) => Probe::available("as many as wanted"),
        Some((_, Ok(number))) if number >= ENOUGH => Probe::available(format!("up to {number}")),
        Some((_, Ok(number))) => {
            Probe::missing(format!("{number} are too few for large batches")).help(help)
        }
        _ => Probe::missing("/proc/self/limits does not say"),
    }
}

/// Returns the two limits of this name.
fn soft_and_hard<'a>(limits: &'a str, name: &str) -> Option<(&'a str, &'a str)> {
    let rest = limits.lines().find_map(|line| line.strip_prefix(name))?;
    let mut words = rest.split_whitespace();
    Some((words.next()?, words.next()?))
}

/// Probes the kernel features that memweir uses, and those that explain its figures.
pub(super) fn kernel_features(root: &Path) -> [(&'static str, Probe); 7] {
    let version = release_numbers(&release(root));
    let since = |needed: (u32, u32), what: &str| {
        if version >= Some(needed) {
            Probe::available(format!("{what} is in Linux since {}.{}", needed.0, needed.1))
        } else {
            Probe::missing(format!("{what} needs Linux {}.{}", needed.0, needed.1))
        }
    };
    [
        ("clone-into-cgroup", since((5, 7), "being born in a cgroup")),
        ("cgroup-kill", since((5, 14), "killing a cgroup at once")),
        ("huge-pages", huge_pages(root)),
        ("pressure", pressure(root)),
        ("direct-read-swap", direct_read_swap(root)),
        ("bank-color", bank_color(root)),
        ("page-delivery", page_delivery(&release(root))),
    ]
}

/// Detects the patches of `kernel/bank-color` by the file that takes their map.
fn bank_color(root: &Path) -> Probe {
    match fs::read_to_string(root.join("sys/kernel/mm/page_color/map")) {
        Ok(map) if map.trim().is_empty() => {
            Probe::available("control groups can have page colors once a map is loaded")
        }
        Ok(_) => Probe::available("control groups can have page colors; a map is loaded"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Probe::missing(
            "this kernel does not color pages; `memweir color run` does it from outside",
        )
        .help("build one with the patches in kernel/bank-color"),
        Err(error) => {
            Probe::missing(format!("the kernel's page colors: {error}")).help("run as root")
        }
    }
}

/// Probes the way in which `memweir color run` would deliver pages of chosen colors to a program.
fn page_delivery(release: &str) -> Probe {
    let since = |way: Delivery| {
        let (major, minor) = way.since();
        format!("Linux {major}.{minor}")
    };
    match Delivery::best_on(release) {
        Some(Delivery::Move) => {
            Probe::available("`memweir color run` moves pages to programs (UFFDIO_MOVE)")
        }
        Some(Delivery::Recycle) => Probe::available(format!(
            "`memweir color run` recycles page frames, which misses a few; pages can be moved since {}",
            since(Delivery::Move)
        )),
        None => Probe::missing("pages of chosen colors cannot be given to programs")
            .help(format!("{} or later can recycle their frames", since(Delivery::Recycle))),
    }
}

fn huge_pages(root: &Path) -> Probe {
    let path = "sys/kernel/mm/transparent_hugepage/enabled";
    let text = fs::read_to_string(root.join(path)).unwrap_or_default();
    if text.contains("[always]") || text.contains("[madvise]") {
        return Probe::available(
            "hogs get huge pages, so that address translation does not limit them",
        );
    }
    Probe::missing("no transparent huge pages: hogs may reach less than the peak bandwidth")
        .help(format!("`echo madvise > /{path}`"))
}

fn pressure(root: &Path) -> Probe {
    if root.join("proc/pressure/cpu").exists() {
        return Probe::available("the kernel tells how long tasks waited for a CPU");
    }
    Probe::missing("no pressure stall information").help("boot with `psi=1`")
}

/// Detects the patches of `kernel/direct-read-swap` by their counters.
fn direct_read_swap(root: &Path) -> Probe {
    let vmstat = fs::read_to_string(root.join("proc/vmstat")).unwrap_or_default();
    match vmstat.lines().find_map(|line| line.strip_prefix("swpin_direct ")) {
        Some(pages) => {
            let pages = pages.trim();
            Probe::available(format!("swap devices can be read in place; {pages} pages were"))
        }
        None => Probe::missing("this kernel copies every page that it brings back from swap")
            .help("build one with the patches in kernel/direct-read-swap"),
    }
}

/// Programs that memweir starts.
pub(super) fn tools(qemu: &QemuPaths) -> [(&'static str, Probe); 1] {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let name = "qemu-x86_64".as_ref();
    let emulator = qemu.emulator.as_deref().map_or(name, Path::as_os_str);
    let probe = match resolve_program(emulator, &path) {
        Ok(found) => Probe::available(found.display().to_string()),
        Err(error) => Probe::missing(error.to_string())
            .help("install QEMU's user mode (Debian: apt install qemu-user)"),
    };
    [("qemu-x86_64", probe)]
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: &str = "Limit                     Soft Limit           Hard Limit           Units
Max open files            1024                 1048576              files
Max realtime priority     0                    0
";

    fn file(root: &Path, path: &str, text: &str) {
        fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
        fs::write(root.join(path), text).unwrap();
    }

    fn available(probes: &[(&str, Probe)]) -> Vec<bool> {
        probes.iter().map(|(_, probe)| probe.available).collect()
    }

    #[test]
    fn root_with_every_capability_may_do_everything() {
        let dir = tempfile::tempdir().unwrap();
        let status = "Name:\tx\nUid:\t1000\t0\t0\t0\nCapEff:\t000001ffffffffff\n";
        file(dir.path(), "proc/self/status", status);
        file(dir.path(), "proc/self/limits", LIMITS);
        assert_eq!(available(&privileges(dir.path())), [true, true, true]);
    }

    #[test]
    fn a_user_without_privileges_learns_what_would_help() {
        let dir = tempfile::tempdir().unwrap();
        file(dir.path(), "proc/self/status", "Uid:\t7\t7\t7\t7\nCapEff:\t0000000000000000\n");
        file(dir.path(), "proc/self/limits", &LIMITS.replace("1048576", "2048   "));
        let probes = privileges(dir.path());
        assert_eq!(available(&probes), [false, false, false]);
        assert!(probes.iter().all(|(_, probe)| probe.help.is_some()));
        assert!(probes[0].1.reason.contains("user 7"));
        // A limit of its own gives real-time priority too.
        let limits = LIMITS.replace("Max realtime priority     0", "Max realtime priority     5");
        assert!(real_time("", &limits).available);
    }

    #[test]
    fn features_follow_the_release() {
        let dir = tempfile::tempdir().unwrap();
        file(dir.path(), "proc/sys/kernel/osrelease", "5.10.0-8-amd64\n");
        file(dir.path(), "sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
        file(dir.path(), "proc/vmstat", "pswpin 3\nswpin_direct_copy 5\n");
        assert_eq!(
            available(&kernel_features(dir.path())),
            [true, false, true, false, false, false, false]
        );
        assert_eq!(release(dir.path()), "5.10.0-8-amd64");
        let nothing = Path::new("/nonexistent");
        assert_eq!(available(&kernel_features(nothing)), [false; 7]);
        assert_eq!(available(&privileges(nothing)), [false; 3]);
    }

    #[test]
    fn the_release_tells_how_pages_are_delivered() {
        let old = page_delivery("5.15.0");
        assert!(!old.available && old.help.unwrap().contains("Linux 6.1"));
        let recycling = page_delivery("6.1.0-56-amd64");
        assert!(recycling.available && recycling.reason.contains("since Linux 6.8"));
        assert!(page_delivery("6.12.0").reason.contains("UFFDIO_MOVE"));
    }

    #[test]
    fn a_kernel_with_direct_read_shows_by_its_counters() {
        let dir = tempfile::tempdir().unwrap();
        file(dir.path(), "proc/vmstat", "swpin_zero 1\nswpin_direct 42\nswpin_direct_copy 5\n");
        let probe = direct_read_swap(dir.path());
        assert!(probe.available && probe.reason.contains("42 pages"), "{}", probe.reason);
    }

    #[test]
    fn a_kernel_with_page_colors_shows_by_its_map() {
        let dir = tempfile::tempdir().unwrap();
        assert!(bank_color(dir.path()).help.unwrap().contains("kernel/bank-color"));
        file(dir.path(), "sys/kernel/mm/page_color/map", "");
        assert!(bank_color(dir.path()).reason.contains("once a map is loaded"));
        file(dir.path(), "sys/kernel/mm/page_color/map", "offset 0x0\nbank 0x2000\n");
        assert!(bank_color(dir.path()).reason.ends_with("a map is loaded"));
    }

    #[test]
    fn a_missing_tool_says_how_to_get_it() {
        let absent = QemuPaths { emulator: Some("/nonexistent/qemu".into()), plugin: None };
        let [(_, probe)] = tools(&absent);
        assert!(!probe.available && probe.help.unwrap().contains("apt install"));
    }
}
