use std::fs;

use proptest::prelude::*;

use super::*;
use crate::files::fake::FakeTree;

/// Returns the memories of a machine whose sysfs has these files and links.
fn memories(files: &[(&str, &str)], links: &[(&str, &str)]) -> Memories {
    let tree = FakeTree::with_template([]);
    for (link, target) in links {
        tree.link(link, target);
        let directory = tree.root().join(link).parent().unwrap().join(target);
        fs::create_dir_all(directory).unwrap();
    }
    for (file, text) in files {
        tree.file(file, text);
    }
    Memories::of(&tree, tree.root())
}

const GIB: u64 = 1 << 30;

/// A server with CXL memory as node 2, persistent memory that is no node, and an empty node for
/// hot-plugged memory.
const SERVER: &[(&str, &str)] = &[
    ("devices/system/node/has_cpu", "0-1\n"),
    ("devices/system/node/node0/cpulist", "0-31\n"),
    ("devices/system/node/node0/meminfo", "Node 0 MemTotal:  67108864 kB\nNode 0 MemFree: 1 kB\n"),
    ("devices/system/node/node2/cpulist", "\n"),
    ("devices/system/node/node2/meminfo", "Node 2 MemTotal:  134217728 kB\n"),
    ("devices/system/node/node10/cpulist", "\n"),
    ("devices/system/node/node10/meminfo", "Node 10 MemTotal:  0 kB\n"),
    ("bus/dax/devices/dax0.0/size", "137438953472\n"),
    ("bus/dax/devices/dax0.0/target_node", "2\n"),
    ("bus/dax/devices/dax1.0/size", "1073741824\n"),
    ("bus/dax/devices/dax1.0/target_node", "-1\n"),
    ("bus/cxl/devices/mem0/ram/size", "0x2000000000\n"),
    ("bus/cxl/devices/mem0/pmem/size", "0x0\n"),
    ("bus/cxl/devices/decoder0.0/size", "0x2000000000\n"),
];

const LINKS: &[(&str, &str)] = &[
    (
        "bus/dax/devices/dax0.0",
        "../../../devices/platform/ACPI0017:00/root0/decoder0.0/region0/dax_region0/dax0.0",
    ),
    ("bus/dax/devices/dax0.0/driver", "../../../../bus/dax/drivers/kmem"),
    (
        "bus/dax/devices/dax1.0",
        "../../../devices/LNXSYSTM:00/LNXSYBUS:00/ACPI0012:00/ndbus0/region1/dax1.0/dax1.0",
    ),
    ("bus/dax/devices/dax1.0/driver", "../../../../bus/dax/drivers/device_dax"),
];

#[test]
fn a_server_with_cxl_and_persistent_memory() {
    let memories = memories(SERVER, LINKS);
    let node = |number, gib, has_cpus| MemoryNode { number, size: Bytes(gib * GIB), has_cpus };
    assert_eq!(memories.nodes, [node(0, 64, true), node(2, 128, false)]);
    let dax = |name: &str, gib, backing, node, is_system_ram| DaxDevice {
        name: name.to_owned(),
        size: Bytes(gib * GIB),
        backing,
        node,
        is_system_ram,
    };
    assert_eq!(
        memories.dax,
        [
            dax("dax0.0", 128, Backing::Cxl, Some(2), true),
            dax("dax1.0", 1, Backing::Persistent, None, false),
        ]
    );
    let expander = CxlMemory { name: "mem0".to_owned(), size: Bytes(128 * GIB) };
    assert_eq!(memories.cxl, [expander]);
    assert_eq!((memories.backing(2), memories.backing(0)), (Some(Backing::Cxl), None));
}

#[test]
fn a_kernel_without_numa_tells_nothing() {
    assert_eq!(memories(&[], &[]), Memories::default());
}

#[test]
fn an_amount_is_that_of_its_own_line() {
    let text = "MemTotal:  2048 kB\nMemFree: 1 kB\n";
    assert_eq!(amount(text, "MemTotal"), Some(Bytes(2 << 20)));
    assert_eq!(amount(text, "MemAvailable"), None);
    let status = "RssFile:\t    1656 kB\nRssShmem:\t    2048 kB\nNew:\tx kB\n";
    assert_eq!(amount(status, "RssShmem"), Some(Bytes(2 << 20)));
    assert_eq!(amount(status, "New"), None);
}

#[test]
fn this_machine_has_a_node_with_cpus_if_any() {
    let nodes = Memories::here().nodes;
    assert!(nodes.is_empty() || nodes.iter().any(|node| node.has_cpus), "{nodes:?}");
}

proptest! {
    #[test]
    fn whatever_the_files_say_nothing_panics(texts in prop::collection::vec(".{0,40}", SERVER.len())) {
        let files: Vec<_> =
            SERVER.iter().zip(&texts).map(|((path, _), text)| (*path, text.as_str())).collect();
        let _ = memories(&files, LINKS);
    }
}
