//! Media that the machine has beside DRAM, and their use for `hmmsched`.

use memweir_core::Bytes;
use memweir_linux::Probe;
use memweir_linux::memories::{Backing, DaxDevice, Memories, MemoryNode};

/// Probes NUMA nodes without CPUs, DAX devices, CXL expanders, and a second medium for `hmmsched`.
pub(super) fn media(memories: &Memories) -> [(&'static str, Probe); 4] {
    [
        ("cpuless-nodes", nodes(memories)),
        ("dax", dax(memories)),
        ("cxl", cxl(memories)),
        ("second-medium", second_medium(memories)),
    ]
}

/// Returns the nodes without CPUs, whose memory is slower than that of the others.
pub(super) fn slower(memories: &Memories) -> impl Iterator<Item = &MemoryNode> {
    memories.nodes.iter().filter(|node| !node.has_cpus)
}

/// Returns the devices that are not memory of the system.
pub(super) fn unused(memories: &Memories) -> impl Iterator<Item = &DaxDevice> {
    memories.dax.iter().filter(|device| !device.is_system_ram)
}

fn nodes(memories: &Memories) -> Probe {
    let node = |node: &MemoryNode| {
        let backing = memories.backing(node.number).and_then(name);
        let of = backing.map_or(String::new(), |name| format!(" of {name}"));
        format!("node {} with {}{of}", node.number, node.size)
    };
    let found: Vec<String> = slower(memories).map(node).collect();
    match (found.is_empty(), memories.nodes.len()) {
        (false, _) => Probe::available(found.join(", ")),
        (true, 0) => Probe::missing("the kernel tells no NUMA nodes"),
        (true, 1) => Probe::missing("all memory is on one NUMA node, with the CPUs"),
        (true, nodes) => Probe::missing(format!("all {nodes} NUMA nodes with memory have CPUs")),
    }
}

fn dax(memories: &Memories) -> Probe {
    let device = |device: &DaxDevice| {
        let of = name(device.backing).map_or(String::new(), |name| format!(" of {name}"));
        let used = match (device.is_system_ram, device.node) {
            (true, Some(node)) => format!("memory of node {node}"),
            (true, None) => "memory of the system".to_owned(),
            (false, _) => "not memory of the system".to_owned(),
        };
        format!("{} with {}{of}, {used}", device.name, device.size)
    };
    let found: Vec<String> = memories.dax.iter().map(device).collect();
    if found.is_empty() {
        return Probe::missing("no memory is offered as a device");
    }
    let probe = Probe::available(found.join("; "));
    match unused(memories).next() {
        Some(device) => probe.help(to_system_ram(device)),
        None => probe,
    }
}

fn cxl(memories: &Memories) -> Probe {
    if memories.cxl.is_empty() {
        return Probe::missing("no CXL memory expander is known to the kernel");
    }
    let size: Bytes = memories.cxl.iter().map(|expander| expander.size).sum();
    let names: Vec<&str> = memories.cxl.iter().map(|expander| expander.name.as_str()).collect();
    Probe::available(format!("{} with {size}", names.join(", ")))
}

/// Probes for a second medium that `hmmsched` can use.
fn second_medium(memories: &Memories) -> Probe {
    const PRETEND: &str =
        "to try it, `--meter software` with `--media` and `--placement` pretends a second medium";
    let numbers: Vec<String> = slower(memories).map(|node| node.number.to_string()).collect();
    if !numbers.is_empty() {
        let (nodes, are) = if numbers.len() == 1 { ("node", "is") } else { ("nodes", "are") };
        return Probe::available(format!(
            "{nodes} {} {are} a second medium: `hmmsched` can schedule by it, told with `--media`, \
             where the meter tells media apart",
            numbers.join(" and ")
        ));
    }
    match unused(memories).next() {
        Some(device) => Probe::missing(format!(
            "{} would be a second medium, but no program gets pages from it: `hmmsched` sees DRAM \
             alone",
            device.name
        ))
        .help(to_system_ram(device)),
        None => Probe::missing(
            "DRAM is the only medium: `hmmsched` has nothing to tell apart, and schedules by the \
             effective bandwidth of DRAM",
        )
        .help(PRETEND),
    }
}

/// Tells how a device becomes memory of the system.
pub(super) fn to_system_ram(device: &DaxDevice) -> String {
    format!(
        "`daxctl reconfigure-device --mode=system-ram {}` makes it a NUMA node; whatever is stored \
         there is lost",
        device.name
    )
}

fn name(backing: Backing) -> Option<&'static str> {
    match backing {
        Backing::Cxl => Some("CXL memory"),
        Backing::Persistent => Some("persistent memory"),
        Backing::SetAside => Some("memory that the firmware has set aside"),
        Backing::Unknown => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(number: usize, has_cpus: bool) -> MemoryNode {
        MemoryNode { number, size: Bytes(64 << 30), has_cpus }
    }

    fn device(is_system_ram: bool) -> DaxDevice {
        DaxDevice {
            name: "dax0.0".to_owned(),
            size: Bytes(64 << 30),
            backing: Backing::Cxl,
            node: Some(2),
            is_system_ram,
        }
    }

    /// The probes of a machine, in their order.
    fn probes(memories: &Memories) -> [Probe; 4] {
        media(memories).map(|(_, probe)| probe)
    }

    #[test]
    fn dram_alone_is_no_choice() {
        let memories =
            Memories { nodes: vec![node(0, true), node(1, true)], ..Memories::default() };
        let probes = probes(&memories);
        assert!(probes.iter().all(|probe| !probe.available), "{probes:?}");
        assert_eq!(probes[0].reason, "all 2 NUMA nodes with memory have CPUs");
        assert!(probes[3].reason.starts_with("DRAM is the only medium"));
        assert!(probes[3].help.as_ref().is_some_and(|help| help.contains("--placement")));
    }

    #[test]
    fn cxl_memory_as_a_node_is_a_second_medium() {
        let nodes = vec![node(0, true), node(2, false)];
        let memories = Memories { nodes, dax: vec![device(true)], ..Memories::default() };
        let [nodes, dax, _, second] = probes(&memories);
        assert_eq!(nodes, Probe::available("node 2 with 64 GiB of CXL memory"));
        assert_eq!(dax.reason, "dax0.0 with 64 GiB of CXL memory, memory of node 2");
        assert_eq!(dax.help, None);
        assert!(second.available && second.reason.starts_with("node 2 is a second medium"));
    }

    #[test]
    fn a_device_that_nobody_uses_could_be_one() {
        let memories = Memories {
            nodes: vec![node(0, true)],
            dax: vec![device(false)],
            ..Memories::default()
        };
        let [_, dax, _, second] = probes(&memories);
        assert!(dax.available && !second.available);
        assert!(second.reason.starts_with("dax0.0 would be a second medium"));
        assert!(second.help.is_some_and(|help| help.contains("--mode=system-ram dax0.0")));
    }
}
