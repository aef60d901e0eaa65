//! Paging by a kernel that reads swapped pages in place (`kernel/direct-read-swap`): a program in a
//! control group with little memory, and the kernel's counts for it. Nothing is preloaded.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::thread::available_parallelism;

use memweir_abi::preload::page::DirectRead;
use memweir_core::input::Refusal;
use memweir_core::{Bytes, PAGE};
use memweir_linux::MissingFeature;
use memweir_linux::memory_group::MemoryGroup;
use memweir_linux::preload::NotStarted;
use memweir_linux::swap::{SwapArea, SwapReads};
use serde::Serialize;

use crate::live::SMALLEST_DRAM;

/// A request for paging by the kernel.
#[derive(Clone, Debug)]
pub struct KernelRequest {
    /// Memory that the program and all that it starts may have together, files included.
    pub dram: Bytes,
    /// The device or file with a swap area to use for the run; the areas in use if absent.
    pub device: Option<PathBuf>,
    /// Effect of a read of a swapped page.
    pub direct_read: DirectRead,
}

/// A program's group and swap area. Keep it until the program has ended.
pub struct KernelPaged {
    // Dropped in this order: the area is released when nothing of the group is in it.
    group: MemoryGroup,
    _area: Option<SwapArea>,
}

/// The kernel's counts for a group. `None` for those that this kernel does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KernelCounts {
    /// Pages written to swap.
    pub evictions: Option<u64>,
    /// Pages mapped in place.
    pub direct_reads: Option<u64>,
    /// Pages copied back to DRAM: written after they were read in place, or straight away.
    pub copies_in: Option<u64>,
    /// Pages read in place that were not copied by a write.
    pub copies_avoided: Option<u64>,
    /// Peak memory, files included.
    pub dram_peak_bytes: Option<Bytes>,
    /// Peak use of swap.
    pub nvm_peak_bytes: Option<Bytes>,
    /// Processes that the kernel ended because there was no room left.
    pub oom_kills: Option<u64>,
}

impl KernelPaged {
    /// Makes the group with its limit, and begins to use the swap area.
    ///
    /// # Errors
    /// Refuses limits that no program can keep, and kernels and devices that cannot do it.
    pub fn prepare(request: &KernelRequest) -> Result<Self, NotStarted> {
        if request.dram < SMALLEST_DRAM {
            let help = format!("`--dram {}M` is the least", SMALLEST_DRAM.0 >> 20);
            return Err(Refusal::new(format!("no program runs in {}", request.dram), help).into());
        }
        let vmstat = std::fs::read_to_string("/proc/vmstat").unwrap_or_default();
        let counted = vmstat.lines().any(|line| line.starts_with("swpin_direct "));
        if request.direct_read == DirectRead::InPlace && !counted {
            return Err(MissingFeature::new(
                "this kernel copies every page that it brings back from swap",
                "build one with the patches in kernel/direct-read-swap, or leave --kernel out",
            )
            .into());
        }
        let reads = match request.direct_read {
            DirectRead::InPlace => SwapReads::InPlace,
            DirectRead::Copy => SwapReads::Copied,
        };
        let area =
            request.device.as_deref().map(|path| SwapArea::begin(path, reads)).transpose()?;
        let group = MemoryGroup::create("page")?;
        let processors = available_parallelism().map_or(1, usize::from) as u64;
        for (file, limit) in limits(request.dram, processors) {
            group.set(file, &limit.0.to_string()).map_err(|error| {
                MissingFeature::new(
                    format!("{file}: {error}"),
                    "run as root, or in a delegated group",
                )
            })?;
        }
        Ok(Self { group, _area: area })
    }

    /// Returns the group in which the program must be started.
    #[must_use]
    pub fn group(&self) -> &MemoryGroup {
        &self.group
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn counts(&self) -> KernelCounts {
        let counters = |file: &str| self.group.counters(file).unwrap_or_default();
        counts(&counters("memory.stat"), &counters("memory.events"), |file| {
            self.group.read(file).ok()?.trim().parse().ok().map(Bytes)
        })
    }
}

/// Returns the limits at which the kernel begins to make room and lets the program wait for it
/// (`memory.high`), and at which it ends a process (`memory.max`): a twentieth below and above the
/// budget at most, but at least as much as one processor charges to a group ahead of need.
///
/// With `memory.max` alone Linux 6.12 ends programs of a few MiB that swap a lot, when all of their
/// pages are active and none of them has been scanned.
fn limits(dram: Bytes, processors: u64) -> [(&'static str, Bytes); 2] {
    /// Memory that a processor charges at a time: 64 pages.
    const AHEAD: u64 = 64 * PAGE.0;
    let ahead = (processors * AHEAD).min(dram.0 / 20).max(AHEAD);
    [("memory.high", Bytes(dram.0 - ahead)), ("memory.max", Bytes(dram.0 + ahead))]
}

/// Counters by the kernel's names.
type Counters = BTreeMap<String, u64>;

/// Collects the counts of a group: from `memory.stat`, `memory.events`, and the files with one
/// number.
fn counts(
    stat: &Counters,
    events: &Counters,
    bytes: impl Fn(&str) -> Option<Bytes>,
) -> KernelCounts {
    let number = |counters: &Counters, name: &str| counters.get(name).copied();
    let (reads, copied) = (number(stat, "swpin_direct"), number(stat, "swpin_direct_copy"));
    KernelCounts {
        evictions: number(stat, "pswpout"),
        direct_reads: reads,
        copies_in: number(stat, "pswpin").map(|straight| straight + copied.unwrap_or(0)),
        // After a fork one page in place may be copied more than once.
        copies_avoided: reads.map(|reads| reads.saturating_sub(copied.unwrap_or(0))),
        dram_peak_bytes: bytes("memory.peak"),
        nvm_peak_bytes: bytes("memory.swap.peak"),
        oom_kills: number(events, "oom_kill"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_have_the_names_of_page_run() {
        let counters = |pairs: &[(&str, u64)]| -> Counters {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
        };
        let swapped = [("pswpin", 30), ("pswpout", 200)];
        let direct = [("anon", 1), ("swpin_direct", 100), ("swpin_direct_copy", 40)];
        let stat = counters(&[swapped.as_slice(), &direct].concat());
        let counted =
            counts(&stat, &counters(&[("low", 0), ("oom", 2), ("oom_kill", 1)]), |file| {
                (file == "memory.peak").then_some(Bytes(4096))
            });
        let expected = KernelCounts {
            evictions: Some(200),
            direct_reads: Some(100),
            copies_in: Some(70),
            copies_avoided: Some(60),
            dram_peak_bytes: Some(Bytes(4096)),
            nvm_peak_bytes: None,
            oom_kills: Some(1),
        };
        assert_eq!(counted, expected);
        assert_eq!(counts(&counters(&[]), &counters(&[]), |_| None), KernelCounts::default());
    }

    #[test]
    fn limits_lie_around_the_budget() {
        let around = |dram: u64, processors: u64| {
            let [(_, high), (_, max)] = limits(Bytes(dram), processors);
            assert_eq!(dram - high.0, max.0 - dram);
            max.0 - dram
        };
        assert_eq!(around(64 << 20, 2), 512 << 10);
        assert_eq!(around(80 << 20, 64), 4 << 20);
        assert_eq!(around(1 << 20, 2), 256 << 10);
    }

    #[test]
    fn requests_that_cannot_be_met_are_refused() {
        let request = |dram, direct_read| KernelRequest { dram, device: None, direct_read };
        let refused = KernelPaged::prepare(&request(Bytes(1000), DirectRead::Copy)).err().unwrap();
        assert!(refused.to_string().contains("no program runs in"), "{refused}");
        let vmstat = std::fs::read_to_string("/proc/vmstat").unwrap();
        if !vmstat.contains("swpin_direct") {
            let missing =
                KernelPaged::prepare(&request(Bytes(64 << 20), DirectRead::InPlace)).err();
            assert!(missing.unwrap().to_string().contains("kernel/direct-read-swap"));
        }
    }
}
