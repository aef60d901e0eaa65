//! Requirements of paging with direct read, found out by trying them: write protection by
//! userfaultfd, private mappings of a file or device, and searching the page table. Also the mount
//! options of a tmpfs, and the file of counters that the preload library adds to.
//!
//! The conclusions from the answers, and the paging itself, are not here.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use memmap2::MmapOptions;
use memweir_abi::kernel::PAGE_BYTES;
use memweir_abi::kernel::pagemap::{PAGEMAP_SCAN, Scan};
use memweir_abi::kernel::userfaultfd::{
    UFFD_API, UFFD_FEATURE_EVENT_FORK, UFFD_FEATURE_MINOR_SHMEM, UFFD_FEATURE_WP_HUGETLBFS_SHMEM,
    UFFD_FEATURE_WP_UNPOPULATED, UFFDIO_API, UFFDIO_REGISTER, UFFDIO_REGISTER_MODE_WP,
    UFFDIO_WRITEPROTECT, UFFDIO_WRITEPROTECT_MODE_WP,
};
use memweir_abi::preload::page::{PAGE_COUNTERS_BYTES, PageCounters, TmpfsOptions};
use memweir_core::Bytes;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::signal::Signal;

use crate::MissingFeature;
use crate::cgroup;
use crate::files::{Files, KernelFiles};
use crate::memories;
use crate::pidfd::PidFd;
use crate::softpmu::SharedFile;

/// Protection of pages of shared memory files and of pages that are not present, and reports of
/// forks.
const FEATURES: u64 = UFFD_FEATURE_EVENT_FORK
    | UFFD_FEATURE_MINOR_SHMEM
    | UFFD_FEATURE_WP_HUGETLBFS_SHMEM
    | UFFD_FEATURE_WP_UNPOPULATED;

/// The step of a trial that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A userfaultfd that sees faults inside system calls, too.
    Open,
    /// Its features: protecting pages of files and pages that are not present, and reporting forks.
    Features,
    /// A private mapping.
    Map,
    /// Registration of the mapping for writes, and its protection.
    Protect,
}

/// Why paging to something does not work.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Obstacle {
    /// The step that failed.
    pub step: Step,
    /// The kernel's error.
    pub error: io::Error,
}

impl Obstacle {
    /// Returns the feature that the machine lacks to page to `what`, with help.
    #[must_use]
    pub fn missing(&self, what: &str) -> MissingFeature {
        let error = &self.error;
        let denied = error.kind() == io::ErrorKind::PermissionDenied;
        match self.step {
            Step::Open | Step::Features if denied => MissingFeature::new(
                format!(
                    "userfaultfd that sees faults inside system calls, and forks, is for CAP_SYS_PTRACE \
                     only: {error}"
                ),
                "run as root, or give that capability (`sysctl vm.unprivileged_userfaultfd=1` gives only \
                 a part of it)",
            ),
            Step::Open => MissingFeature::new(
                format!("this kernel has no userfaultfd: {error}"),
                "a kernel with CONFIG_USERFAULTFD is needed",
            ),
            Step::Features => MissingFeature::new(
                "this kernel's userfaultfd does not protect shared memory, or pages that are not \
                 there, from writes",
                "Linux 6.4 or later is needed",
            ),
            Step::Map | Step::Protect => MissingFeature::new(
                format!("{what} cannot be protected from writes by userfaultfd: {error}"),
                "a kernel with CONFIG_PTE_MARKER_UFFD_WP is needed",
            ),
        }
    }
}

/// Checks that memory can be paged to shared memory that belongs to no file.
///
/// # Errors
/// The first step that failed.
pub fn try_memfd() -> Result<(), Obstacle> {
    let blocked = |error: io::Error| Obstacle { step: Step::Map, error };
    let memory = memfd_create("memweir-try", MFdFlags::MFD_CLOEXEC);
    let file = File::from(memory.map_err(|errno| blocked(errno.into()))?);
    file.set_len(PAGE_BYTES as u64).map_err(blocked)?;
    try_protection(&file)
}

/// Checks that the first page of `file` can be mapped privately and protected from writes, as the
/// eviction of a page needs it. Writes nothing.
///
/// # Errors
/// The first step that failed.
pub fn try_protection(file: &File) -> Result<(), Obstacle> {
    let watch = open_userfaultfd().map_err(|error| Obstacle { step: Step::Open, error })?;
    request(&watch, UFFDIO_API, &mut [UFFD_API, FEATURES, 0])
        .map_err(|error| Obstacle { step: Step::Features, error })?;
    // SAFETY: nobody accesses memory through the mapping, so the file may change as it likes.
    let mapping = unsafe { MmapOptions::new().len(PAGE_BYTES).no_reserve_swap().map_copy(file) }
        .map_err(|error| Obstacle { step: Step::Map, error })?;
    let (start, length) = (mapping.as_ptr() as u64, PAGE_BYTES as u64);
    request(&watch, UFFDIO_REGISTER, &mut [start, length, UFFDIO_REGISTER_MODE_WP, 0])
        .and_then(|()| {
            let mut protection = [start, length, UFFDIO_WRITEPROTECT_MODE_WP];
            request(&watch, UFFDIO_WRITEPROTECT, &mut protection)
        })
        .map_err(|error| Obstacle { step: Step::Protect, error })
}

/// Returns the shared memory in DRAM that a process maps, pages of the NVM's file among it; zero if
/// it has ended.
#[must_use]
pub fn shared_memory(process: u32) -> Bytes {
    let status = KernelFiles.read(Path::new(&format!("/proc/{process}/status")));
    status.ok().and_then(|text| memories::amount(&text, "RssShmem")).unwrap_or_default()
}

fn open_userfaultfd() -> io::Result<OwnedFd> {
    let flags = libc::O_CLOEXEC | libc::O_NONBLOCK;
    // SAFETY: makes a descriptor; touches no memory.
    let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Calls `ioctl`, whose request encodes the size of `argument`.
fn request<T>(fd: &impl AsRawFd, request: u64, argument: &mut T) -> io::Result<()> {
    // SAFETY: the kernel uses no more of the argument than the size that the request encodes.
    let done = unsafe {
        libc::ioctl(fd.as_raw_fd(), request as libc::Ioctl, std::ptr::from_mut(argument))
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Checks that the page table can be searched (`PAGEMAP_SCAN`, Linux 6.7).
///
/// # Errors
/// The kernel's error.
pub fn try_pagemap_scan() -> io::Result<()> {
    let pagemap = File::open("/proc/self/pagemap")?;
    request(&pagemap, PAGEMAP_SCAN, &mut Scan::default())
}

/// Returns true if the file is mapped without the page cache (fsdax).
///
/// # Errors
/// If the kernel reports nothing about the file.
pub fn is_dax(file: &File) -> io::Result<bool> {
    // SAFETY: a structure of numbers, for which zeros are values.
    let mut found: libc::statx = unsafe { std::mem::zeroed() };
    let (fd, flags) = (file.as_raw_fd(), libc::AT_EMPTY_PATH);
    // SAFETY: the name is a string that ends in zero, and `found` has room for what is written.
    let done = unsafe { libc::statx(fd, c"".as_ptr(), flags, libc::STATX_BASIC_STATS, &mut found) };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(found.stx_attributes & libc::STATX_ATTR_DAX as u64 != 0)
}

/// Returns the bytes that may still be written to the file system of `file`.
///
/// # Errors
/// If the kernel does not report it.
pub fn room(file: &File) -> io::Result<Bytes> {
    let found = nix::sys::statvfs::fstatvfs(file)?;
    Ok(Bytes(found.blocks_available().saturating_mul(found.fragment_size())))
}

/// Returns the mount options of the tmpfs that holds `file`; `None` if it is in another file
/// system.
///
/// # Errors
/// If the kernel does not report them.
pub fn tmpfs_options(file: &File) -> io::Result<Option<TmpfsOptions>> {
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd()))?;
    let mount = info.lines().find_map(|line| line.strip_prefix("mnt_id:")).unwrap_or_default();
    let mounts = std::fs::read("/proc/self/mountinfo")?;
    Ok(options_of(&String::from_utf8_lossy(&mounts), mount.trim()))
}

/// Returns the options of the mount with this id, if it is a tmpfs, from proc_pid_mountinfo(5).
fn options_of(mounts: &str, id: &str) -> Option<TmpfsOptions> {
    let line = mounts.lines().find(|line| line.split(' ').next() == Some(id))?;
    let mut fields = line.split_once(" - ")?.1.split(' ');
    let options = fields.next().filter(|system| *system == "tmpfs").and(fields.nth(1))?;
    // A list of nodes has commas too, before digits.
    let mut starts: Vec<usize> = options.match_indices(',').map(|(at, _)| at + 1).collect();
    starts.retain(|at| !options[*at..].starts_with(|first: char| first.is_ascii_digit()));
    let value = |key: &str| {
        let begins = |at: &usize| options[*at..].strip_prefix(key)?.strip_prefix('=').map(|_| *at);
        let start = starts.iter().find_map(begins)?;
        let end = starts.iter().find(|at| **at > start).map_or(options.len(), |at| at - 1);
        Some(options[start + key.len() + 1..end].to_owned())
    };
    Some(TmpfsOptions {
        huge: value("huge").unwrap_or_default(),
        policy: value("mpol").unwrap_or_default(),
    })
}

/// The counters of a paged program, in memory that vanishes with this process and the program's.
/// Programs that start after this process has ended do not find it, and are not paged.
#[derive(Debug)]
pub struct CountersFile(SharedFile);

impl CountersFile {
    /// Makes a file of counters, all zero.
    ///
    /// # Errors
    /// If there is no memory for it.
    pub fn new() -> io::Result<Self> {
        SharedFile::new("memweir-page", PAGE_COUNTERS_BYTES).map(Self)
    }

    /// Returns the path at which the library opens it.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.0.path()
    }

    /// Returns the counts so far.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read(&self) -> io::Result<PageCounters> {
        Ok(PageCounters::of(&self.0.content()?))
    }

    /// Ends a process by SIGKILL if it counts in this file. Another process, which may have the id
    /// of one that has ended, is left alone.
    ///
    /// # Errors
    /// If the kernel refuses it; a process that is gone is no error.
    pub fn end(&self, pid: u32) -> io::Result<()> {
        let pid = pid as i32;
        let Some(process) = PidFd::open(pid)? else { return Ok(()) };
        // The descriptor holds the process id, so this answer stays true.
        match cgroup::unless_gone(self.0.is_mapped_by(pid))? {
            true => process.send(Signal::SIGKILL),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use memweir_abi::preload::page::PageCounter;

    use super::*;

    #[test]
    fn a_private_mapping_of_shared_memory_can_be_protected() {
        match try_memfd() {
            Err(Obstacle { step: Step::Open, error }) => {
                memweir_test_support::skip!(Privilege, "userfaultfd: {error}")
            }
            tried => tried.expect("Linux 6.4 or later"),
        }
    }

    #[test]
    fn a_process_that_is_gone_maps_no_shared_memory() {
        assert_eq!(shared_memory(0), Bytes(0));
    }

    #[test]
    fn what_cannot_be_mapped_says_so() {
        // A character device whose driver maps nothing.
        let device = File::open("/dev/null").unwrap();
        match try_protection(&device) {
            Err(Obstacle { step: Step::Open, error }) => {
                memweir_test_support::skip!(Privilege, "userfaultfd: {error}")
            }
            tried => assert_eq!(tried.unwrap_err().step, Step::Map),
        }
    }

    #[test]
    fn counters_are_found_by_their_path() {
        use std::os::unix::fs::FileExt;
        let counters = CountersFile::new().unwrap();
        let library = File::options().write(true).open(counters.path()).unwrap();
        // The third counter.
        library.write_all_at(&7u64.to_le_bytes(), 16).unwrap();
        assert_eq!(counters.read().unwrap().get(PageCounter::Evictions), 7);
    }

    #[test]
    fn a_tmpfs_is_known_by_its_mount_options() {
        let mounts = "22 1 8:1 / / rw - ext4 /dev/sda rw\n\
            31 22 0:27 / /dev/shm rw,nosuid shared:7 - tmpfs tmpfs rw,inode64\n\
            32 22 0:28 / /mnt rw - tmpfs none rw,size=64k,huge=within_size,mpol=bind:0,2-3,noswap\n";
        let of = |huge: &str, policy: &str| {
            Some(TmpfsOptions { huge: huge.to_owned(), policy: policy.to_owned() })
        };
        assert_eq!(options_of(mounts, "31"), of("", ""));
        assert_eq!(options_of(mounts, "32"), of("within_size", "bind:0,2-3"));
        assert_eq!([options_of(mounts, "22"), options_of(mounts, "3")], [None, None]);
        assert_eq!(options_of("31 nonsense\n", "31"), None);
    }

    #[test]
    fn a_file_system_tells_its_room() {
        let file = tempfile::tempfile().unwrap();
        assert!(room(&file).unwrap().0 > 0);
        assert!(!is_dax(&file).unwrap());
    }
}
