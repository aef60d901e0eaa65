//! Probes of what `memweir page run` needs.

use std::io;

use memweir_core::Bytes;
use memweir_linux::Probe;
use memweir_linux::memories::{Memories, MemoryNode};
use memweir_linux::paging::Obstacle;

use super::media::{slower, to_system_ram, unused};

/// Probes whether pages can be protected and searched for, and where evicted ones could live.
/// `memory` is that of the whole machine: the sizes of nodes leave out what a balloon has given
/// back.
pub(super) fn paging(
    memories: &Memories,
    memory: Bytes,
    protection: Result<(), Obstacle>,
    scan: io::Result<()>,
) -> [(&'static str, Probe); 3] {
    let userfaultfd = match &protection {
        Ok(()) => Probe::available("pages can be protected from writes while they leave DRAM"),
        Err(obstacle) => {
            let missing = obstacle.missing("shared memory");
            Probe::missing(missing.reason).help(missing.help)
        }
    };
    let scan = match scan {
        Ok(()) => Probe::available("PAGEMAP_SCAN finds the pages that writes have brought back"),
        Err(error) => Probe::missing(format!("the page table cannot be searched: {error}"))
            .help("Linux 6.7 or later has PAGEMAP_SCAN"),
    };
    [("userfaultfd", userfaultfd), ("pagemap-scan", scan), ("places", places(memories, memory))]
}

/// Probes for memory that is slower than DRAM, as options of `page run`.
fn places(memories: &Memories, memory: Bytes) -> Probe {
    let place = |node: &MemoryNode| format!("`--nvm node:{}` with {}", node.number, node.size);
    let found: Vec<String> = slower(memories).map(place).collect();
    if !found.is_empty() {
        return Probe::available(found.join(", "));
    }
    let missing =
        Probe::missing(format!("all memory is DRAM ({memory}); a part of it can stand in"));
    match unused(memories).next() {
        Some(device) => missing.help(to_system_ram(device)),
        None => missing.help("`memweir page run --nvm memfd:SIZE`, with `--delay` a slower one"),
    }
}

#[cfg(test)]
mod tests {
    use memweir_linux::memories::{Backing, DaxDevice};
    use memweir_linux::paging::Step;

    use super::*;

    #[test]
    fn places_are_told_as_page_run_takes_them() {
        let node = |number, has_cpus| MemoryNode { number, size: Bytes(4 << 30), has_cpus };
        let mut memories = Memories { nodes: vec![node(0, true)], ..Memories::default() };
        let memory = Bytes(24 << 30);
        let plain = places(&memories, memory);
        assert!(plain.reason.contains("24 GiB"), "{}", plain.reason);
        assert!(!plain.available && plain.help.unwrap().contains("memfd:SIZE"));
        memories.dax.push(DaxDevice {
            name: "dax0.0".to_owned(),
            size: Bytes(4 << 30),
            backing: Backing::Cxl,
            node: Some(1),
            is_system_ram: false,
        });
        assert!(places(&memories, memory).help.unwrap().contains("--mode=system-ram dax0.0"));
        memories.nodes.push(node(1, false));
        assert_eq!(places(&memories, memory), Probe::available("`--nvm node:1` with 4 GiB"));
    }

    #[test]
    fn what_is_missing_says_what_would_help() {
        let denied = io::Error::from_raw_os_error(1);
        let obstacle = Obstacle { step: Step::Open, error: denied };
        let old = io::Error::from_raw_os_error(25);
        let probes = paging(&Memories::default(), Bytes::ZERO, Err(obstacle), Err(old));
        assert!(probes.iter().all(|(_, probe)| !probe.available && probe.help.is_some()));
        assert!(probes[0].1.reason.contains("CAP_SYS_PTRACE"));
        let probes = paging(&Memories::default(), Bytes::ZERO, Ok(()), Ok(()));
        assert!(probes[0].1.available && probes[1].1.available);
    }
}
