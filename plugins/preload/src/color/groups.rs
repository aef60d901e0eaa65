//! The control groups that limit the process's memory. A search for pages must leave room in them;
//! otherwise the kernel would kill the program because of the pages that the search holds.
//!
//! The program's thread finds them once, with libc; the helper reads their files later, without it.

use std::ffi::CStr;
use std::fs;
use std::path::{Path, PathBuf};

use crate::memory;
use crate::uffd::PAGE;

/// Longest path in bytes. Groups with longer ones are not watched.
const PATH: usize = 320;
/// Groups that are watched: the process's own, and those above it.
const LEVELS: usize = 4;
/// No limit: cgroup v1 writes a number near the largest.
const NO_LIMIT: u64 = 1 << 60;

/// Path of a file, terminated by a zero byte; empty if there is none.
type File = [u8; PATH];

/// Names that a version of control groups gives its files, and its statistics of reclaimable
/// memory.
struct Names {
    limit: &'static str,
    usage: &'static str,
    reclaimable: [&'static [u8]; 2],
}

const V1: Names = Names {
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    reclaimable: [b"total_inactive_file ", b"total_active_file "],
};

const V2: Names = Names {
    limit: "memory.max",
    usage: "memory.current",
    reclaimable: [b"inactive_file ", b"active_file "],
};

/// The files of a group.
#[derive(Clone, Copy)]
struct Group {
    limit: File,
    usage: File,
    stat: File,
    reclaimable: [&'static [u8]; 2],
}

/// The groups with a limit.
#[derive(Clone, Copy)]
pub(crate) struct Groups([Option<Group>; LEVELS]);

impl Groups {
    /// Returns the groups of this process.
    pub(crate) fn of_process() -> Self {
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let mut found = [None; LEVELS];
        let limited = directories(&groups, &mounts).into_iter().filter_map(|(path, names)| {
            let limit = file(&path, names.limit)?;
            number(&limit).filter(|limit| *limit < NO_LIMIT)?;
            Some(Group {
                limit,
                usage: file(&path, names.usage)?,
                stat: file(&path, "memory.stat")?,
                reclaimable: names.reclaimable,
            })
        });
        found.iter_mut().zip(limited).for_each(|(place, group)| *place = Some(group));
        Self(found)
    }

    /// Returns the pages that are available to the machine and to the groups.
    pub(crate) fn available_pages(&self) -> usize {
        memory::available().min(self.headroom()) as usize / PAGE
    }

    /// Returns the bytes that may still be used; `u64::MAX` if no group has a limit.
    fn headroom(&self) -> u64 {
        self.0.iter().flatten().map(Group::headroom).min().unwrap_or(u64::MAX)
    }
}

impl Group {
    fn headroom(&self) -> u64 {
        let (Some(limit), Some(usage)) = (number(&self.limit), number(&self.usage)) else {
            return u64::MAX;
        };
        let mut buffer = [0; 8192];
        let stat = path(&self.stat).map_or(&[][..], |path| memory::read(path, &mut buffer));
        let files: u64 = self.reclaimable.iter().map(|key| memory::field(stat, key)).sum();
        (limit + files).saturating_sub(usage)
    }
}

/// Returns the directories of the groups that count memory, from the process's own upwards.
fn directories(groups: &str, mounts: &str) -> Vec<(PathBuf, &'static Names)> {
    let mut found = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (fields.next(), fields.next()) else { continue };
        let names = match controllers {
            "" => &V2,
            v1 if v1.split(',').any(|name| name == "memory") => &V1,
            _ => continue,
        };
        for (root, mount) in mounts.lines().filter_map(|line| mounted(line, names)) {
            let Ok(below) = Path::new(group).strip_prefix(root) else { continue };
            let below = mount.join(below);
            let levels = below.ancestors().take_while(|level| level.starts_with(mount));
            found.extend(levels.map(|level| (level.to_owned(), names)));
            break;
        }
    }
    found
}

/// Returns the root and the mount point of a hierarchy that counts memory, from a line of
/// `mountinfo`.
fn mounted<'a>(line: &'a str, names: &Names) -> Option<(&'a Path, &'a Path)> {
    let (mount, kind) = line.split_once(" - ")?;
    let mut fields = mount.split(' ').skip(3);
    let places = (Path::new(fields.next()?), Path::new(fields.next()?));
    let mut kind = kind.split(' ');
    let wanted = match kind.next()? {
        "cgroup2" => names.limit == V2.limit,
        "cgroup" => {
            names.limit == V1.limit && kind.nth(1)?.split(',').any(|option| option == "memory")
        }
        _ => false,
    };
    wanted.then_some(places)
}

fn file(directory: &Path, name: &str) -> Option<File> {
    let path = directory.join(name);
    let bytes = path.to_str()?.as_bytes();
    let mut file = [0; PATH];
    file[..PATH - 1].get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(file)
}

fn path(file: &File) -> Option<&CStr> {
    CStr::from_bytes_until_nul(file).ok()
}

/// Returns the number at the start of the file; `None` for `max`, or if it cannot be read.
fn number(file: &File) -> Option<u64> {
    let mut buffer = [0; 32];
    let text = memory::read(path(file)?, &mut buffer);
    text.first()?.is_ascii_digit().then(|| memory::number(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "25 20 0:23 / /sys/fs/cgroup ro - tmpfs tmpfs ro\n\
        30 25 0:26 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
        31 25 0:27 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n\
        32 25 0:28 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n";

    fn paths(groups: &str, mounts: &str) -> Vec<String> {
        let found = directories(groups, mounts).into_iter();
        found.map(|(path, names)| path.join(names.limit).display().to_string()).collect()
    }

    #[test]
    fn finds_the_groups_that_count_memory() {
        let groups = "4:memory:/a/b\n3:cpu,cpuacct:/x\n0::/\n";
        assert_eq!(
            paths(groups, MOUNTS),
            [
                "/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/a/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes",
                "/sys/fs/cgroup/unified/memory.max",
            ]
        );
        // A container sees the hierarchy from its own group on.
        let mounts = "31 25 0:27 /pod /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        assert_eq!(
            paths("0::/pod/app\n", mounts),
            ["/sys/fs/cgroup/app/memory.max", "/sys/fs/cgroup/memory.max"]
        );
        assert_eq!(paths("0::/other\n", mounts), Vec::<String>::new());
        assert_eq!(paths("nonsense\n::\n", "- cgroup2\n - \n"), Vec::<String>::new());
    }

    #[test]
    fn room_is_what_the_limit_leaves_and_files_can_give_back() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path();
        fs::write(folder.join(V2.limit), "1000\n").unwrap();
        fs::write(folder.join(V2.usage), "900\n").unwrap();
        fs::write(folder.join("memory.stat"), "anon 5\ninactive_file 30\nactive_file 40\n")
            .unwrap();
        let group = Group {
            limit: file(folder, V2.limit).unwrap(),
            usage: file(folder, V2.usage).unwrap(),
            stat: file(folder, "memory.stat").unwrap(),
            reclaimable: V2.reclaimable,
        };
        assert_eq!(Groups([Some(group), None, None, None]).headroom(), 170);
        fs::write(folder.join(V2.limit), "max\n").unwrap();
        assert_eq!(group.headroom(), u64::MAX);
        assert_eq!(Groups([None; LEVELS]).headroom(), u64::MAX);
        assert!(file(Path::new(&"x".repeat(PATH)), "y").is_none());
    }
}
