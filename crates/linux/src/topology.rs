//! Components of the machine: CPUs, caches, memory.
//!
//! The CPU's vendor and model, against which event files are matched, are read by
//! [`crate::meter::cpu`](crate::meter).

use std::fs;
use std::io;
use std::path::Path;

use memweir_core::Bytes;
use memweir_core::cache::{CacheGeometry, CacheHierarchy};

use crate::memories;
use crate::memory_limit::memory_limit;

/// Caches assumed where the machine does not report them: those of a common server core.
pub const TYPICAL_CACHES: CacheHierarchy = CacheHierarchy {
    l1d: CacheGeometry { size: Bytes(32 << 10), ways: 8, line: 64 },
    l2: CacheGeometry { size: Bytes(1 << 20), ways: 16, line: 64 },
    llc: CacheGeometry { size: Bytes(32 << 20), ways: 16, line: 64 },
};

/// The caches of this machine, as far as it reports them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caches {
    /// Their geometry.
    pub hierarchy: CacheHierarchy,
    /// Message for the user: the part that is not the machine's own.
    pub notice: Option<String>,
    /// Message for the user where the last level is that of a host with other virtual machines.
    pub shared: Option<String>,
}

/// Last level per CPU above which a virtual machine is taken to report that of its host. Few
/// processors have more than 32 MiB per core.
const LLC_PER_CPU: Bytes = Bytes(32 << 20);

/// Returns the CPUs that are online and allowed to this process, in ascending order.
///
/// # Errors
///
/// Refusals of `sched_getaffinity`.
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    // The kernel's mask holds online CPUs alone.
    let set = nix::sched::sched_getaffinity(nix::unistd::Pid::from_raw(0))?;
    Ok((0..nix::sched::CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false)).collect())
}

/// Returns the CPUs that are online, in ascending order.
///
/// # Errors
///
/// The kernel's list cannot be read.
pub(crate) fn online_cpus() -> io::Result<Vec<usize>> {
    let text = fs::read_to_string("/sys/devices/system/cpu/online")?;
    parse_cpu_list(&text)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "odd list of online CPUs"))
}

/// Returns the caches between memory and the first CPU that this process may use.
#[must_use]
pub fn caches() -> Caches {
    let cpu = allowed_cpus().ok().and_then(|cpus| cpus.first().copied()).unwrap_or(0);
    let mut caches = caches_of(Path::new("/sys/devices/system/cpu"), cpu);
    if is_virtual() {
        let cpus = online_cpus().map_or(1, |cpus| cpus.len());
        caches.shared = shared_with_others(caches.hierarchy.llc.size, cpus);
    }
    caches
}

/// Returns the notice about the last level of a virtual machine with `cpus` CPUs, if they are too
/// few for a processor with such a cache.
fn shared_with_others(llc: Bytes, cpus: usize) -> Option<String> {
    (llc.0 / cpus.max(1) as u64 > LLC_PER_CPU.0).then(|| {
        format!(
            "the last-level cache of {llc} seems to be that of the host, which other virtual \
             machines share; `--caches` names the part that programs get here"
        )
    })
}

/// Returns the memory that this process may use: that of the machine, or less where a control group
/// limits it.
///
/// # Errors
///
/// `/proc/meminfo` is unreadable or does not report it.
pub fn memory() -> io::Result<Bytes> {
    let total = meminfo("MemTotal")?;
    Ok(memory_limit().map_or(total, |limit| limit.min(total)))
}

/// Returns an amount of `/proc/meminfo`.
pub(crate) fn meminfo(key: &str) -> io::Result<Bytes> {
    let text = fs::read_to_string("/proc/meminfo")?;
    memories::amount(&text, key).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, format!("/proc/meminfo has no {key}"))
    })
}

/// Returns the CPU's name as its maker wrote it (`model name` of `/proc/cpuinfo`), where it has
/// one.
#[must_use]
pub fn cpu_name() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    value_of(&text, "model name").map(ToOwned::to_owned)
}

/// Returns true if the CPU reports a hypervisor below. Only x86 does; elsewhere this is false.
#[must_use]
pub fn is_virtual() -> bool {
    fs::read_to_string("/proc/cpuinfo").is_ok_and(|text| has_flag(&text, "hypervisor"))
}

pub(crate) fn has_flag(cpuinfo: &str, flag: &str) -> bool {
    value_of(cpuinfo, "flags").is_some_and(|flags| flags.split_whitespace().any(|f| f == flag))
}

/// Returns the value of the first line `key : value`.
pub(crate) fn value_of<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then_some(value.trim())
    })
}

/// One data or unified cache of a CPU.
#[derive(Clone, Debug)]
struct Level {
    level: u32,
    geometry: CacheGeometry,
}

fn caches_of(cpus: &Path, cpu: usize) -> Caches {
    let mut levels = read_levels(&cpus.join(format!("cpu{cpu}/cache")));
    levels.sort_by_key(|level| level.level);
    let typical = |notice: &str| Caches {
        hierarchy: TYPICAL_CACHES,
        notice: Some(notice.to_owned()),
        shared: None,
    };
    let (Some(first), Some(last)) = (levels.first(), levels.last()) else {
        return typical(
            "this machine does not tell its caches; a last-level cache of 32 MiB is assumed",
        );
    };
    if last.level < 2 || first.level != 1 {
        return typical(
            "this machine tells only some of its caches; a last-level cache of 32 MiB is assumed",
        );
    }
    let second = levels.iter().find(|level| level.level == 2 && level.level < last.level);
    let notice = second.is_none().then(|| {
        "this machine has two levels of cache; the second is taken as the shared one".to_owned()
    });
    let hierarchy = CacheHierarchy {
        l1d: first.geometry,
        // As large as the first level, a private second level changes nothing.
        l2: second.map_or(first.geometry, |level| level.geometry),
        llc: last.geometry,
    };
    Caches { hierarchy, notice, shared: None }
}

/// Returns the caches below `directory` that hold data and make sense.
fn read_levels(directory: &Path) -> Vec<Level> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| {
            let text = |name: &str| fs::read_to_string(entry.path().join(name)).ok();
            let kind = text("type")?;
            matches!(kind.trim(), "Data" | "Unified").then_some(())?;
            Some(Level {
                level: text("level")?.trim().parse().ok()?,
                geometry: parse_geometry(
                    &text("size")?,
                    &text("ways_of_associativity")?,
                    &text("coherency_line_size")?,
                )?,
            })
        })
        .collect()
}

/// Parses a geometry as sysfs writes it; `None` for values that no cache can have.
fn parse_geometry(size: &str, ways: &str, line: &str) -> Option<CacheGeometry> {
    let size = parse_size(size)?;
    let line: u32 = line.trim().parse().ok().filter(|line| (16..=1024).contains(line))?;
    if !line.is_power_of_two() || size.0 % u64::from(line) != 0 {
        return None;
    }
    let lines = size.0 / u64::from(line);
    let ways = match ways.trim().parse::<u32>().ok()? {
        // Fully associative.
        0 => u32::try_from(lines).ok()?,
        ways => ways,
    };
    let fits = ways > 0 && lines > 0 && lines % u64::from(ways) == 0;
    fits.then_some(CacheGeometry { size, ways, line })
}

/// Parses a size such as `48K`.
fn parse_size(text: &str) -> Option<Bytes> {
    let text = text.trim();
    let (digits, unit) = match text.char_indices().last()? {
        (at, 'K') => (&text[..at], 1u64 << 10),
        (at, 'M') => (&text[..at], 1 << 20),
        (at, 'G') => (&text[..at], 1 << 30),
        _ => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit).map(Bytes)
}

/// Parses a list such as `0-3,8,10-11`. `None` for nonsense and for CPUs beyond the kernel's limit.
pub(crate) fn parse_cpu_list(text: &str) -> Option<Vec<usize>> {
    /// `CONFIG_NR_CPUS` is at most this.
    const MAX_CPUS: usize = 8192;
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last >= MAX_CPUS {
            return None;
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A sysfs tree with these caches of CPU 0: level, type, size, ways.
    fn sysfs(caches: &[(&str, &str, &str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (index, (level, kind, size, ways)) in caches.iter().enumerate() {
            let directory = root.path().join(format!("cpu0/cache/index{index}"));
            fs::create_dir_all(&directory).unwrap();
            for (name, value) in [
                ("level", *level),
                ("type", *kind),
                ("size", *size),
                ("ways_of_associativity", *ways),
                ("coherency_line_size", "64"),
            ] {
                fs::write(directory.join(name), format!("{value}\n")).unwrap();
            }
        }
        root
    }

    fn geometry(size: u64, ways: u32) -> CacheGeometry {
        CacheGeometry { size: Bytes(size), ways, line: 64 }
    }

    #[test]
    fn three_levels_are_found_in_any_order() {
        let root = sysfs(&[
            ("1", "Data", "48K", "12"),
            ("1", "Instruction", "32K", "8"),
            ("3", "Unified", "32768K", "16"),
            ("2", "Unified", "1M", "16"),
        ]);
        let caches = caches_of(root.path(), 0);
        assert_eq!(caches.hierarchy.l1d, geometry(48 << 10, 12));
        assert_eq!(caches.hierarchy.l2, geometry(1 << 20, 16));
        assert_eq!(caches.hierarchy.llc, geometry(32 << 20, 16));
        assert_eq!(caches.notice, None);
    }

    #[test]
    fn the_second_level_is_the_last_where_there_is_no_third() {
        let root = sysfs(&[("1", "Data", "32K", "0"), ("2", "Unified", "512K", "16")]);
        let caches = caches_of(root.path(), 0);
        // Fully associative: as many ways as lines.
        assert_eq!(caches.hierarchy.l1d, geometry(32 << 10, 512));
        assert_eq!(caches.hierarchy.llc, geometry(512 << 10, 16));
        assert!(caches.notice.unwrap().contains("two levels"));
    }

    #[test]
    fn silence_and_nonsense_are_replaced_and_told() {
        for caches in [
            vec![],
            vec![("1", "Data", "48K", "12")],
            vec![("1", "Data", "48K", "12"), ("3", "Unified", "1000K", "7")],
            vec![("3", "Unified", "32M", "16")],
        ] {
            let found = caches_of(sysfs(&caches).path(), 0);
            assert_eq!(found.hierarchy, TYPICAL_CACHES, "{caches:?}");
            assert!(found.notice.unwrap().contains("32 MiB is assumed"));
        }
    }

    #[test]
    fn a_last_level_that_is_too_large_for_the_cpus_is_that_of_the_host() {
        let notice = |mib: u64, cpus| shared_with_others(Bytes(mib << 20), cpus);
        assert!(notice(480, 2).unwrap().contains("480 MiB"));
        assert!(notice(65, 2).is_some() && notice(65, 0).is_some());
        assert_eq!([notice(64, 2), notice(32, 1), notice(480, 128)], [None, None, None]);
    }

    #[test]
    fn reads_this_machine() {
        let cpus = allowed_cpus().unwrap();
        assert!(!cpus.is_empty() && cpus.is_sorted());
        assert!(memory().unwrap() > Bytes(16 << 20));
        let hierarchy = caches().hierarchy;
        assert!(hierarchy.l1d.sets() > 0 && hierarchy.llc.size > hierarchy.l1d.size);
    }

    #[test]
    fn flags_are_whole_words() {
        let text = "processor\t: 0\nflags\t\t: fpu hypervisor_x sse\n";
        assert!(!has_flag(text, "hypervisor"));
        assert!(has_flag(text, "sse"));
    }

    proptest! {
        #[test]
        fn parsers_never_panic(text: String, other: String, third: String) {
            let _ = (parse_size(&text), parse_cpu_list(&text));
            let _ = (has_flag(&text, &other), parse_geometry(&text, &other, &third));
        }

        #[test]
        fn what_is_taken_for_a_cache_has_whole_sets(
            size in "[0-9]{1,20}[KMGx]?", ways in "[0-9]{1,10}", line in "[0-9]{1,5}",
        ) {
            if let Some(cache) = parse_geometry(&size, &ways, &line) {
                prop_assert!(cache.sets() > 0);
                let bytes = cache.sets() * u64::from(cache.ways) * u64::from(cache.line);
                prop_assert_eq!(bytes, cache.size.0);
            }
        }

        #[test]
        fn lists_are_read_back(cpus in proptest::collection::btree_set(0..8192usize, 0..40)) {
            let text = cpus.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
            prop_assert_eq!(parse_cpu_list(&text), Some(cpus.into_iter().collect()));
        }

        #[test]
        fn lists_never_panic(text in "[0-9,-]{0,30}") {
            if let Some(cpus) = parse_cpu_list(&text) {
                prop_assert!(cpus.is_sorted() && cpus.len() <= 8192);
            }
        }
    }
}
