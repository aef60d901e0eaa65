//! The memories of this machine, as sysfs reports them: NUMA nodes, memory that is a device (DAX),
//! and CXL memory.
//!
//! Their suitability is not judged here, and nothing is measured: few machines report their speed
//! in sysfs.

use std::path::{Path, PathBuf};

use memweir_core::Bytes;

use crate::files::{Files, KernelFiles};
use crate::topology::{self, parse_cpu_list};

/// A NUMA node with memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryNode {
    /// Its number.
    pub number: usize,
    /// Its capacity.
    pub size: Bytes,
    /// True if CPUs belong to it. A node without CPUs has another kind of memory, slower as a rule.
    pub has_cpus: bool,
}

/// The kind of memory behind a device that the firmware or a driver offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// A CXL region.
    Cxl,
    /// Persistent memory (NVDIMM).
    Persistent,
    /// Memory that the firmware has set aside for a purpose, such as HBM.
    SetAside,
    /// Sysfs does not say.
    Unknown,
}

/// Memory that programs map, or that a driver adds to the system's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaxDevice {
    /// Its name in the kernel: `dax0.0`.
    pub name: String,
    /// Its capacity.
    pub size: Bytes,
    /// The memory behind it.
    pub backing: Backing,
    /// The NUMA node that it is, or would be once it is system memory.
    pub node: Option<usize>,
    /// True if it is system memory.
    pub is_system_ram: bool,
}

/// A CXL memory expander.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CxlMemory {
    /// Its name in the kernel: `mem0`.
    pub name: String,
    /// Volatile and persistent capacity together.
    pub size: Bytes,
}

/// The memories of a machine, in the order of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memories {
    /// Nodes with memory; empty where the kernel knows no NUMA.
    pub nodes: Vec<MemoryNode>,
    /// DAX devices.
    pub dax: Vec<DaxDevice>,
    /// CXL expanders, whether anything has been made of their memory or not.
    pub cxl: Vec<CxlMemory>,
}

impl Memories {
    /// Returns the memories of this machine, without those that sysfs does not report.
    #[must_use]
    pub fn here() -> Self {
        Self::of(&KernelFiles, Path::new("/sys"))
    }

    /// Returns the memories of the machine whose sysfs is at `sys`.
    pub(crate) fn of(files: &dyn Files, sys: &Path) -> Self {
        let sysfs = Sysfs { files, sys };
        Self {
            nodes: sysfs.each("devices/system/node", "node", Sysfs::node),
            dax: sysfs.each("bus/dax/devices", "dax", Sysfs::dax),
            cxl: sysfs.each("bus/cxl/devices", "mem", Sysfs::cxl),
        }
    }

    /// Returns the memory behind a node, if a device was made system memory there.
    #[must_use]
    pub fn backing(&self, node: usize) -> Option<Backing> {
        let is_it = |dax: &&DaxDevice| dax.is_system_ram && dax.node == Some(node);
        self.dax.iter().find(is_it).map(|dax| dax.backing)
    }
}

struct Sysfs<'a> {
    files: &'a dyn Files,
    sys: &'a Path,
}

impl Sysfs<'_> {
    /// Reads the entries of a directory that are named `prefix` and a number, in the order of the
    /// numbers.
    fn each<T>(
        &self,
        directory: &str,
        prefix: &str,
        read: impl Fn(&Self, &Path, &str) -> Option<T>,
    ) -> Vec<T> {
        let directory = self.sys.join(directory);
        let numbered = |path: PathBuf| -> Option<(Vec<u32>, PathBuf)> {
            let numbers = path.file_name()?.to_str()?.strip_prefix(prefix)?.split('.');
            Some((numbers.map(str::parse).collect::<Result<_, _>>().ok()?, path))
        };
        let children = self.files.children(&directory).unwrap_or_default();
        let mut children: Vec<_> = children.into_iter().filter_map(numbered).collect();
        children.sort();
        let read = |path: &Path| read(self, path, path.file_name()?.to_str()?);
        children.iter().filter_map(|(_, path)| read(path)).collect()
    }

    fn text(&self, path: &Path, name: &str) -> Option<String> {
        self.files.read(&path.join(name)).ok()
    }

    fn number<T: std::str::FromStr>(&self, path: &Path, name: &str) -> Option<T> {
        self.text(path, name)?.trim().parse().ok()
    }

    /// Reads a node with memory; nodes for hot-plugged memory have none yet.
    fn node(&self, path: &Path, name: &str) -> Option<MemoryNode> {
        let size = amount(&self.text(path, "meminfo")?, "MemTotal").filter(|size| size.0 > 0)?;
        let cpus = parse_cpu_list(&self.text(path, "cpulist")?)?;
        let number = name.strip_prefix("node")?.parse().ok()?;
        Some(MemoryNode { number, size, has_cpus: !cpus.is_empty() })
    }

    fn dax(&self, path: &Path, name: &str) -> Option<DaxDevice> {
        let link = |path: &Path| {
            let link = self.files.read_link(path).ok();
            link.map(|link| link.to_string_lossy().into_owned()).unwrap_or_default()
        };
        // The device's place in the tree shows the memory behind it.
        let place = link(path);
        let hangs = |below: &str| place.split('/').any(|part| part.starts_with(below));
        let backing = match () {
            () if hangs("decoder") => Backing::Cxl,
            () if hangs("ndbus") => Backing::Persistent,
            () if hangs("hmem") => Backing::SetAside,
            () => Backing::Unknown,
        };
        Some(DaxDevice {
            name: name.to_owned(),
            size: Bytes(self.number(path, "size")?),
            backing,
            // -1 is none.
            node: self.number(path, "target_node"),
            is_system_ram: link(&path.join("driver")).ends_with("/kmem"),
        })
    }

    fn cxl(&self, path: &Path, name: &str) -> Option<CxlMemory> {
        let size = |part: &str| {
            let text = self.text(path, part)?;
            u64::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok()
        };
        let (volatile, persistent) = (size("ram/size"), size("pmem/size"));
        let size = volatile.unwrap_or(0).checked_add(persistent.unwrap_or(0))?;
        Some(CxlMemory { name: name.to_owned(), size: Bytes(size) })
    }
}

/// Returns the free memory of a node of this machine.
#[must_use]
pub fn free_on(node: usize) -> Option<Bytes> {
    let meminfo = format!("/sys/devices/system/node/node{node}/meminfo");
    amount(&std::fs::read_to_string(meminfo).ok()?, "MemFree")
}

/// Returns the memory of this machine that programs could get now.
#[must_use]
pub fn available() -> Option<Bytes> {
    topology::meminfo("MemAvailable").ok()
}

/// Parses lines such as `Node 1 MemTotal:  24684100 kB` and `MemAvailable:   24145208 kB`, of
/// meminfo and of proc_pid_status(5).
pub(crate) fn amount(meminfo: &str, what: &str) -> Option<Bytes> {
    let kib = meminfo.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.split(' ').next_back() == Some(what)).then(|| value.trim().strip_suffix("kB"))?
    })?;
    kib.trim().parse::<u64>().ok()?.checked_mul(1024).map(Bytes)
}

#[cfg(test)]
mod tests;
