//! Directories whose changes stay private to one process and its descendants.
//!
//! The process gets a mount namespace of its own, in which an overlay covers each directory. The
//! upper layer is a tmpfs: a container's root is an overlay, and the kernel accepts no overlay as
//! the upper layer of another. Everything vanishes with the last process of the namespace. Without
//! the right to mount, the process gets a user namespace as well.

use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::ptr;

use memweir_core::Bytes;
use nix::unistd::{AccessFlags, access};

use super::child::write_to;
use super::{Launch, launch};
use crate::blocker::SpawnTarget;
use crate::cgroup::unescape;

/// Descriptors of the covered directory and of the tmpfs while the child mounts the overlay.
const LOWER: RawFd = 5;
const UPPER: RawFd = 6;

/// Overlay options; the numbers are those of [`LOWER`] and [`UPPER`].
const LAYERS: &CStr = c"lowerdir=/proc/self/fd/5,upperdir=/proc/self/fd/6/upper,\
                        workdir=/proc/self/fd/6/work";

/// The same in a user namespace, which may not set `trusted.*` attributes.
const LAYERS_OF_USER: &CStr = c"lowerdir=/proc/self/fd/5,upperdir=/proc/self/fd/6/upper,\
                                workdir=/proc/self/fd/6/work,userxattr";

/// Permission to give the process a user namespace where it may not mount otherwise. From within
/// one it cannot open the descriptors of processes outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserNamespace {
    /// If nothing else works.
    Allowed,
    /// Never.
    Refused,
}

/// Directories whose changes a launched process keeps to itself.
#[derive(Clone, Debug)]
pub struct PrivateDirectories {
    layers: Vec<Layer>,
    user_namespace: UserNamespace,
    /// Options of each tmpfs.
    tmpfs: CString,
    /// Lines for `uid_map` and `gid_map` that keep the ids.
    ids: [String; 2],
}

/// Returns true if the path is a directory in which this process may make files.
#[must_use]
pub fn is_writable_directory(path: &Path) -> bool {
    path.is_dir() && access(path, AccessFlags::W_OK).is_ok()
}

/// One covered directory.
#[derive(Clone, Debug)]
struct Layer {
    directory: PathBuf,
    path: CString,
    mode: libc::mode_t,
    owner: (libc::uid_t, libc::gid_t),
    /// Mounts below the directory, as source and target of a bind mount.
    submounts: Vec<(CString, CString)>,
}

impl PrivateDirectories {
    /// Covers `directories`, absolute paths of which none contains another. Each holds at most
    /// `limit` of changes, in memory. File systems mounted below a directory stay shared.
    ///
    /// # Errors
    /// If a directory or the table of mounts cannot be read.
    pub fn new(
        directories: &[PathBuf],
        limit: Bytes,
        user_namespace: UserNamespace,
    ) -> io::Result<Self> {
        let mounts = fs::read("/proc/self/mountinfo")?;
        // SAFETY: both calls only return the ids of this process.
        let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
        Ok(Self {
            user_namespace,
            layers: directories
                .iter()
                .map(|directory| Layer::new(directory, &mounts))
                .collect::<io::Result<_>>()?,
            tmpfs: text(format!("size={},mode=0700", limit.0).as_bytes())?,
            ids: [format!("{user} {user} 1\n"), format!("{group} {group} 1\n")],
        })
    }

    /// Returns the covered directories.
    pub fn directories(&self) -> impl Iterator<Item = &Path> {
        self.layers.iter().map(|layer| layer.directory.as_path())
    }

    /// Tries whether the kernel grants this process such directories.
    ///
    /// # Errors
    /// The kernel's reason.
    pub fn probe(&self) -> io::Result<()> {
        let mut trial = Launch::silent("/bin/true".into(), vec!["true".into()])?;
        trial.private = Some(self.clone());
        // Dropping the newborn ends it before it executes anything.
        launch(&trial, &SpawnTarget::Session).map(drop).map_err(|error| error.source)
    }

    /// Moves the calling process into namespaces of its own and covers the directories. Returns -1
    /// with `errno` set on failure.
    ///
    /// # Safety
    /// For a child before exec whose descriptors from [`LOWER`] on are closed.
    pub(super) unsafe fn enter(&self) -> libc::c_int {
        // SAFETY: system calls alone, with pointers into `self` and static strings.
        unsafe {
            let mut options = LAYERS;
            if libc::unshare(libc::CLONE_NEWNS) == -1 {
                options = LAYERS_OF_USER;
                if self.user_namespace == UserNamespace::Refused
                    || libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS) == -1
                    || write_to(libc::AT_FDCWD, c"/proc/self/setgroups", b"deny") == -1
                    || write_to(libc::AT_FDCWD, c"/proc/self/uid_map", self.ids[0].as_bytes()) == -1
                    || write_to(libc::AT_FDCWD, c"/proc/self/gid_map", self.ids[1].as_bytes()) == -1
                {
                    return -1;
                }
            }
            // Mounts of the child must not spread to the other namespaces.
            let apart = libc::MS_REC | libc::MS_PRIVATE;
            if libc::mount(ptr::null(), c"/".as_ptr(), ptr::null(), apart, ptr::null()) == -1 {
                return -1;
            }
            for layer in &self.layers {
                if layer.cover(&self.tmpfs, options) == -1 {
                    return -1;
                }
            }
            0
        }
    }
}

impl Layer {
    fn new(directory: &Path, mounts: &[u8]) -> io::Result<Self> {
        let metadata = fs::metadata(directory)?;
        let submounts = submounts(mounts, directory).map(|below| {
            let source = Path::new("/proc/self/fd").join(LOWER.to_string()).join(&below);
            let target = directory.join(below);
            Ok((text(source.as_os_str().as_bytes())?, text(target.as_os_str().as_bytes())?))
        });
        Ok(Self {
            path: text(directory.as_os_str().as_bytes())?,
            mode: metadata.mode() & 0o7777,
            owner: (metadata.uid(), metadata.gid()),
            submounts: submounts.collect::<io::Result<_>>()?,
            directory: directory.to_owned(),
        })
    }

    /// Covers the directory. Returns -1 with `errno` set on failure.
    ///
    /// # Safety
    /// As [`PrivateDirectories::enter`], in a mount namespace of the process's own.
    unsafe fn cover(&self, tmpfs: &CStr, options: &CStr) -> libc::c_int {
        let path = self.path.as_ptr();
        // SAFETY: as in `enter`.
        unsafe {
            if open_at(path, LOWER) == -1
                || mount(c"tmpfs", path, libc::MS_NOSUID, tmpfs) == -1
                || open_at(path, UPPER) == -1
                || libc::mkdirat(UPPER, c"upper".as_ptr(), 0o700) == -1
                || libc::mkdirat(UPPER, c"work".as_ptr(), 0o700) == -1
            {
                return -1;
            }
            // The upper layer's owner and mode are those that the program sees. A user namespace
            // cannot give files away; the owner is this user there in all but odd cases.
            let (user, group) = self.owner;
            libc::fchownat(UPPER, c"upper".as_ptr(), user, group, 0);
            if libc::fchmodat(UPPER, c"upper".as_ptr(), self.mode, 0) == -1
                || mount(c"overlay", path, 0, options) == -1
            {
                return -1;
            }
            for (source, target) in &self.submounts {
                let bind = libc::MS_BIND | libc::MS_REC;
                let (source, target) = (source.as_ptr(), target.as_ptr());
                if libc::mount(source, target, ptr::null(), bind, ptr::null()) == -1 {
                    return -1;
                }
            }
            libc::close(LOWER);
            libc::close(UPPER);
            0
        }
    }
}

/// The private directories of a process, seen from outside. They stay readable through this when
/// the process has ended.
#[derive(Debug)]
pub struct PrivateView {
    layers: Vec<(PathBuf, File)>,
}

impl PrivateView {
    /// Opens the private directories of the process `pid`, which was launched with them.
    ///
    /// # Errors
    /// If the process is gone or this one may not look into it.
    pub fn open(pid: i32, private: &PrivateDirectories) -> io::Result<Self> {
        let open = |directory: &Path| {
            let below = directory.strip_prefix("/").unwrap_or(directory);
            let inside = Path::new("/proc").join(pid.to_string()).join("root").join(below);
            let file = File::options()
                .read(true)
                .custom_flags(libc::O_PATH | libc::O_DIRECTORY)
                .open(inside)?;
            Ok((directory.to_owned(), file))
        };
        Ok(Self { layers: private.directories().map(open).collect::<io::Result<_>>()? })
    }

    /// Returns the name under which this process reaches `path` as the program sees it; `None` if
    /// `path` lies in no private directory.
    #[must_use]
    pub fn inside(&self, path: &Path) -> Option<PathBuf> {
        self.layers.iter().find_map(|(directory, file)| {
            let below = path.strip_prefix(directory).ok()?;
            Some(Path::new("/proc/self/fd").join(file.as_raw_fd().to_string()).join(below))
        })
    }

    /// Returns the memory that the changes take.
    #[must_use]
    pub fn used(&self) -> Bytes {
        let used = |(_, file): &(PathBuf, File)| {
            let room = nix::sys::statvfs::fstatvfs(file).ok()?;
            Some((room.blocks() - room.blocks_free()) * room.fragment_size())
        };
        // Each directory has a tmpfs of its own.
        Bytes(self.layers.iter().filter_map(used).sum())
    }

    /// Returns true if one of the directories has less than one page of room left.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.layers.iter().any(|(_, file)| {
            nix::sys::statvfs::fstatvfs(file).is_ok_and(|room| room.blocks_free() == 0)
        })
    }
}

/// Returns the paths of the mounts below `directory`, relative to it, outermost first and without
/// those that lie in another.
fn submounts(mountinfo: &[u8], directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let point = |line: &[u8]| line.split(|byte| *byte == b' ').nth(4).map(unescape);
    let mut below: Vec<PathBuf> = mountinfo
        .split(|byte| *byte == b'\n')
        .filter_map(point)
        .filter(|mount| mount != directory)
        .filter_map(|mount| Some(mount.strip_prefix(directory).ok()?.to_owned()))
        .collect();
    below.sort();
    below.dedup_by(|inner, outer| inner.starts_with(outer));
    below.into_iter()
}

fn text(bytes: &[u8]) -> io::Result<CString> {
    CString::new(bytes).map_err(io::Error::other)
}

/// Mounts a file system of the type `kind` on `path`.
///
/// # Safety
/// For a child before exec; `path` ends with a NUL byte.
unsafe fn mount(
    kind: &CStr,
    path: *const libc::c_char,
    flags: libc::c_ulong,
    options: &CStr,
) -> libc::c_int {
    // SAFETY: every pointer is to a string that ends with a NUL byte.
    unsafe { libc::mount(kind.as_ptr(), path, kind.as_ptr(), flags, options.as_ptr().cast()) }
}

/// Opens the directory `path` as the descriptor `number`.
///
/// # Safety
/// As [`mount`]; the descriptors from `number` on are free.
unsafe fn open_at(path: *const libc::c_char, number: RawFd) -> libc::c_int {
    let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
    // SAFETY: `path` ends with a NUL byte.
    let opened = unsafe { libc::open(path, flags) };
    // SAFETY: the descriptors are this child's own.
    if opened == -1 { -1 } else { unsafe { libc::dup2(opened, number) } }
}

#[cfg(test)]
mod tests {
    use super::super::{Ending, Exit};
    use super::*;

    const ROOM: Bytes = Bytes(1 << 20);

    /// Runs a shell script in `directory`, which is private to it; none where the kernel refuses.
    fn run(script: &str, directory: &Path) -> Option<(Exit, PrivateView)> {
        let private =
            PrivateDirectories::new(&[directory.to_owned()], ROOM, UserNamespace::Allowed).unwrap();
        if let Err(error) = private.probe() {
            memweir_test_support::skip!(Privilege, "no private directories here: {error}");
            return None;
        }
        let argv = ["sh", "-c", script].map(Into::into).to_vec();
        let mut shell = Launch::silent("/bin/sh".into(), argv).unwrap();
        shell.directory = Some(directory.to_owned());
        shell.private = Some(private.clone());
        let newborn = launch(&shell, &SpawnTarget::Session).unwrap();
        let view = PrivateView::open(newborn.pid(), &private).unwrap();
        Some((newborn.exec().unwrap().wait().unwrap(), view))
    }

    #[test]
    fn changes_stay_with_the_process_and_its_children() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        fs::write(path.join("kept"), "old").unwrap();
        fs::write(path.join("gone"), "old").unwrap();
        let script = format!(
            "(echo new > made); test -s made && echo longer > {}/kept && rm gone && mkdir d && mv kept d",
            path.display()
        );
        let Some((exit, view)) = run(&script, path) else { return };
        assert_eq!(exit.ending, Ending::Code(0));
        assert_eq!(fs::read_dir(path).unwrap().count(), 2);
        assert_eq!(fs::read_to_string(path.join("kept")).unwrap(), "old");
        // The view outlives the process and still shows its changes.
        let seen = |name: &str| fs::read_to_string(view.inside(&path.join(name)).unwrap());
        assert_eq!(seen("made").unwrap(), "new\n");
        assert_eq!(seen("d/kept").unwrap(), "longer\n");
        assert!(seen("gone").is_err());
        assert_eq!(view.inside(Path::new("/etc/passwd")), None);
    }

    #[test]
    fn the_room_for_changes_ends() {
        let directory = tempfile::tempdir().unwrap();
        let fill = "head -c 8192 /dev/zero > small; head -c 2097152 /dev/zero > large";
        let Some((exit, view)) = run(fill, directory.path()) else { return };
        assert_eq!((exit.ending, view.is_full()), (Ending::Code(1), true));
        assert_eq!(view.used(), Bytes(1 << 20));
        let Some((_, view)) = run("echo x > small", directory.path()) else { return };
        assert!(!view.is_full());
        assert!(view.used() < Bytes(1 << 16), "{}", view.used());
    }

    #[test]
    fn the_directory_keeps_its_mode() {
        let directory = tempfile::tempdir().unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o1750);
        fs::set_permissions(directory.path(), mode).unwrap();
        let script = "test $(stat -c %a .) = 1750";
        let Some((exit, _)) = run(script, directory.path()) else { return };
        assert_eq!(exit.ending, Ending::Code(0));
    }

    #[test]
    fn mounts_below_are_found_without_their_own() {
        let mountinfo = b"21 1 8:1 / / rw - ext4 /dev/sda rw\n\
                          22 21 0:5 / /data rw - ext4 /dev/sdb rw\n\
                          23 22 0:6 / /data/with\\040space rw - tmpfs t rw\n\
                          24 23 0:7 / /data/with\\040space/inner rw - tmpfs t rw\n\
                          25 21 0:8 / /database rw - tmpfs t rw\n";
        let below =
            |directory: &str| submounts(mountinfo, Path::new(directory)).collect::<Vec<_>>();
        assert_eq!(below("/data"), [Path::new("with space")]);
        assert_eq!(below("/data/with space"), [Path::new("inner")]);
        assert_eq!(below("/"), [Path::new("data"), Path::new("database")]);
    }

    #[test]
    fn a_file_system_mounted_below_stays_visible_and_shared() {
        let directory = tempfile::tempdir().unwrap();
        let below = directory.path().join("below");
        fs::create_dir(&below).unwrap();
        let mounted = nix::mount::mount(
            Some("tmpfs"),
            &below,
            Some("tmpfs"),
            nix::mount::MsFlags::empty(),
            None::<&str>,
        );
        if let Err(error) = mounted {
            return memweir_test_support::skip!(
                Privilege,
                "a file system cannot be mounted here: {error}"
            );
        }
        let ended = run("echo shared > below/made; echo private > made", directory.path());
        let shared = fs::read_to_string(below.join("made"));
        nix::mount::umount2(&below, nix::mount::MntFlags::MNT_DETACH).unwrap();
        let Some((exit, _)) = ended else { return };
        assert_eq!((exit.ending, shared.unwrap().as_str()), (Ending::Code(0), "shared\n"));
        assert!(!directory.path().join("made").exists());
    }
}
