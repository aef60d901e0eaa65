use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;

use proptest::prelude::*;

use super::*;

/// Files and links of a sysfs, each with its text. Nothing can be changed.
struct FakeSysfs(BTreeMap<PathBuf, String>);

impl FakeSysfs {
    fn new(files: &[(&str, &str)]) -> Self {
        let file = |(path, text): &(&str, &str)| (Path::new("/sys").join(path), (*text).to_owned());
        Self(files.iter().map(file).collect())
    }

    fn memories(&self) -> Memories {
        Memories::of(self, Path::new("/sys"))
    }
}

fn refused<T>() -> io::Result<T> {
    Err(io::ErrorKind::ReadOnlyFilesystem.into())
}

impl Files for FakeSysfs {
    fn read(&self, path: &Path) -> io::Result<String> {
        self.0.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        self.read(path).map(PathBuf::from)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let below = self.0.keys().filter_map(|file| file.strip_prefix(path).ok()?.iter().next());
        let names: BTreeSet<_> = below.map(|name| name.to_string_lossy().into_owned()).collect();
        if names.is_empty() {
            Err(io::ErrorKind::NotFound.into())
        } else {
            Ok(names.into_iter().collect())
        }
    }

    fn write(&self, _: &Path, _: &str) -> io::Result<()> {
        refused()
    }

    fn create_dir(&self, _: &Path) -> io::Result<()> {
        refused()
    }

    fn remove_dir(&self, _: &Path) -> io::Result<()> {
        refused()
    }

    fn writable(&self, _: &Path) -> io::Result<()> {
        refused()
    }
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
    (
        "bus/dax/devices/dax0.0",
        "../../../devices/platform/ACPI0017:00/root0/decoder0.0/region0/dax_region0/dax0.0",
    ),
    ("bus/dax/devices/dax0.0/size", "137438953472\n"),
    ("bus/dax/devices/dax0.0/target_node", "2\n"),
    ("bus/dax/devices/dax0.0/driver", "../../../../bus/dax/drivers/kmem"),
    (
        "bus/dax/devices/dax1.0",
        "../../../devices/LNXSYSTM:00/LNXSYBUS:00/ACPI0012:00/ndbus0/region1/dax1.0/dax1.0",
    ),
    ("bus/dax/devices/dax1.0/size", "1073741824\n"),
    ("bus/dax/devices/dax1.0/target_node", "-1\n"),
    ("bus/dax/devices/dax1.0/driver", "../../../../bus/dax/drivers/device_dax"),
    ("bus/cxl/devices/mem0/ram/size", "0x2000000000\n"),
    ("bus/cxl/devices/mem0/pmem/size", "0x0\n"),
    ("bus/cxl/devices/decoder0.0/size", "0x2000000000\n"),
];

#[test]
fn a_server_with_cxl_and_persistent_memory() {
    let memories = FakeSysfs::new(SERVER).memories();
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
    assert_eq!(FakeSysfs::new(&[]).memories(), Memories::default());
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
        let _ = FakeSysfs::new(&files).memories();
    }
}
