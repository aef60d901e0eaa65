//! Mount points of the hierarchies, and the place of this process in them.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use super::Version;

/// The hierarchies that memweir uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HierarchyKind {
    /// The unified one of v2.
    Unified,
    /// The one of v1 that has the freezer.
    Freezer,
    /// The one of v1 in which systemd keeps its units where the unified one is not mounted.
    Systemd,
    /// The one of v1 that limits memory.
    Memory,
}

impl HierarchyKind {
    /// Every kind in which memweir makes groups.
    pub(crate) const ALL: [Self; 3] = [Self::Unified, Self::Freezer, Self::Systemd];

    /// Returns the interface of its groups.
    pub(crate) fn version(self) -> Version {
        match self {
            Self::Unified => Version::V2,
            Self::Freezer | Self::Systemd | Self::Memory => Version::V1,
        }
    }

    /// Returns its entry among the controllers in /proc/self/cgroup and in a mount's options.
    fn controller(self) -> Option<&'static [u8]> {
        match self {
            Self::Unified => None,
            Self::Freezer => Some(b"freezer"),
            Self::Systemd => Some(b"name=systemd"),
            Self::Memory => Some(b"memory"),
        }
    }
}

impl From<Version> for HierarchyKind {
    /// Returns the hierarchy in which this version freezes.
    fn from(version: Version) -> Self {
        match version {
            Version::V2 => Self::Unified,
            Version::V1 => Self::Freezer,
        }
    }
}

/// A hierarchy as this process sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hierarchy {
    /// Where its top is mounted.
    pub(crate) top: PathBuf,
    /// The directory of our own group; absent if it lies outside of what is mounted.
    pub(crate) own: Option<PathBuf>,
}

impl Hierarchy {
    /// Returns the groups below which memweir may place its own, best first: our own group, whose
    /// limits then hold for jobs and whose kill ends them, then those above it, nearest first.
    pub(crate) fn candidates(&self) -> Vec<PathBuf> {
        let nearest = self.own.as_ref().unwrap_or(&self.top);
        let up_to_top = nearest.ancestors().take_while(|path| path.starts_with(&self.top));
        up_to_top.map(Path::to_owned).collect()
    }
}

/// Finds a hierarchy; `None` if it is not mounted.
pub(crate) fn locate(kind: HierarchyKind) -> io::Result<Option<Hierarchy>> {
    let mounts = fs::read("/proc/self/mountinfo")?;
    let groups = fs::read("/proc/self/cgroup")?;
    Ok(parse(kind, &mounts, &groups))
}

/// Returns the group of a process in the hierarchy in which this version freezes; `None` if it lies
/// outside of what is mounted.
pub(crate) fn group_of(version: Version, pid: i32) -> io::Result<Option<PathBuf>> {
    let mounts = fs::read("/proc/self/mountinfo")?;
    let groups = fs::read(format!("/proc/{pid}/cgroup"))?;
    Ok(parse(version.into(), &mounts, &groups).and_then(|found| found.own))
}

/// Reads proc_pid_mountinfo(5) and the lines `id:controllers:path` of cgroups(7).
fn parse(kind: HierarchyKind, mounts: &[u8], groups: &[u8]) -> Option<Hierarchy> {
    let lists = |names: &[u8], wanted: &[u8]| names.split(|b| *b == b',').any(|n| n == wanted);
    let ours = lines(groups).find_map(|line| {
        let mut fields = line.splitn(3, |b| *b == b':');
        let (id, controllers) = (fields.next()?, fields.next()?);
        let is_ours = match kind.controller() {
            None => id == b"0" && controllers.is_empty(),
            Some(controller) => lists(controllers, controller),
        };
        is_ours.then(|| fields.next().map(path))?
    });
    let mounted = lines(mounts).filter_map(|line| {
        let fields: Vec<&[u8]> = line.split(|b| *b == b' ').collect();
        let dash = fields.iter().position(|field| *field == b"-")?;
        let (root, point) = (fields[..dash].get(3)?, fields[..dash].get(4)?);
        let (system, options) = (fields.get(dash + 1)?, fields.get(dash + 3)?);
        let is_ours = match kind.controller() {
            None => *system == b"cgroup2",
            Some(controller) => *system == b"cgroup" && lists(options, controller),
        };
        let are_paths = root.starts_with(b"/") && point.starts_with(b"/");
        (is_ours && are_paths).then(|| (unescape(root), unescape(point)))
    });
    // A container may mount several parts of one hierarchy: take the one that we are in.
    let hierarchies: Vec<Hierarchy> =
        mounted
            .map(|(root, top)| {
                let below = ours.as_deref().and_then(|ours| ours.strip_prefix(&root).ok());
                // Joining an empty path would add a slash.
                let own = below.map(|below| {
                    if below.as_os_str().is_empty() { top.clone() } else { top.join(below) }
                });
                Hierarchy { top, own }
            })
            .collect();
    let inside = hierarchies.iter().find(|hierarchy| hierarchy.own.is_some());
    inside.or(hierarchies.first()).cloned()
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|b| *b == b'\n').filter(|line| !line.is_empty())
}

fn path(bytes: &[u8]) -> PathBuf {
    OsString::from_vec(bytes.to_vec()).into()
}

/// Returns a path of mountinfo without its octal escapes (space, tab, newline, backslash).
pub(crate) fn unescape(field: &[u8]) -> PathBuf {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, tail)) = rest.split_first() {
        if let [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..] = rest {
            out.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
            rest = after;
        } else {
            out.push(first);
            rest = tail;
        }
    }
    OsString::from_vec(out).into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::HierarchyKind::{Freezer, Systemd, Unified};
    use super::*;

    const HYBRID: &[u8] = b"31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
        37 31 0:34 / /sys/fs/cgroup/freezer rw,relatime shared:9 - cgroup cgroup rw,freezer\n\
        41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

    #[test]
    fn finds_both_versions_of_a_hybrid_layout() {
        let groups = b"6:freezer:/batch\n4:memory:/x\n0::/user.slice/a.scope\n";
        let v2 = parse(Unified, HYBRID, groups).unwrap();
        assert_eq!(v2.top, Path::new("/sys/fs/cgroup/unified"));
        assert_eq!(
            v2.candidates(),
            [
                "/sys/fs/cgroup/unified/user.slice/a.scope",
                "/sys/fs/cgroup/unified/user.slice",
                "/sys/fs/cgroup/unified"
            ]
            .map(PathBuf::from)
        );
        let v1 = parse(Freezer, HYBRID, groups).unwrap();
        assert_eq!(v1.own.as_deref(), Some(Path::new("/sys/fs/cgroup/freezer/batch")));
        assert_eq!(parse(Systemd, HYBRID, groups), None);
    }

    #[test]
    fn finds_the_units_of_systemd_without_a_unified_hierarchy() {
        let mounts = b"1 0 0:1 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n";
        let found = parse(Systemd, mounts, b"1:name=systemd:/system.slice/a.service\n").unwrap();
        let own = "/sys/fs/cgroup/systemd/system.slice/a.service";
        assert_eq!(found.own.as_deref(), Some(Path::new(own)));
    }

    #[test]
    fn at_the_top_there_is_one_candidate() {
        let v2 = parse(Unified, HYBRID, b"0::/\n").unwrap();
        assert_eq!(v2.candidates(), [PathBuf::from("/sys/fs/cgroup/unified")]);
    }

    #[test]
    fn a_container_sees_its_part_at_the_mount_point() {
        let mounts = b"1 0 0:1 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
        let inside = parse(Unified, mounts, b"0::/docker/abc/job\n").unwrap();
        assert_eq!(inside.own.as_deref(), Some(Path::new("/sys/fs/cgroup/job")));
        let outside = parse(Unified, mounts, b"0::/docker/other\n").unwrap();
        assert_eq!(outside.own, None);
        assert_eq!(outside.candidates().len(), 1);
    }

    #[test]
    fn says_when_nothing_is_mounted() {
        assert_eq!(parse(Unified, b"", b"0::/\n"), None);
        assert_eq!(parse(Freezer, b"1 0 0:1 / /c rw - cgroup cgroup rw,cpu\n", b""), None);
    }

    #[test]
    fn escaped_mount_points_are_read() {
        let mounts = b"1 0 0:1 / /my\\040groups\\134 rw - cgroup2 none rw\n";
        let found = parse(Unified, mounts, b"").unwrap();
        assert_eq!(found.top, Path::new("/my groups\\"));
    }

    #[test]
    fn a_line_without_paths_is_no_mount() {
        let found = parse(HierarchyKind::Unified, b"    - cgroup2  \n", b"0::/\n");
        assert_eq!(found, None);
    }

    proptest! {
        #[test]
        fn never_panics(mounts: Vec<u8>, groups: Vec<u8>) {
            for kind in HierarchyKind::ALL {
                let _ = parse(kind, &mounts, &groups);
            }
        }

        #[test]
        fn never_panics_on_what_looks_right(
            mounts in "([0-9/a \\\\-]{0,30} - cgroup2? [a-z/]{0,9} [a-z,]{0,9}\n){0,4}",
            groups in "([0-9]{0,2}:[a-z,]{0,9}:[/a-z.]{0,12}\n){0,4}",
        ) {
            for kind in HierarchyKind::ALL {
                if let Some(found) = parse(kind, mounts.as_bytes(), groups.as_bytes()) {
                    prop_assert!(found.candidates().ends_with(&[found.top]));
                }
            }
        }
    }
}
