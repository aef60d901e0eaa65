//! Operations on the kernel's pseudo file systems (control groups, resctrl, proc, sysfs), and the
//! signals to processes that they list.
//!
//! Everything goes through [`Files`], so that tests run on a tree of ordinary files and can make
//! each operation fail.

#[cfg(test)]
pub(crate) mod fake;

use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

/// Access to pseudo file systems.
pub(crate) trait Files: Debug + Send + Sync {
    /// Makes a directory: in control groups and resctrl, a group.
    fn create_dir(&self, directory: &Path) -> io::Result<()>;
    /// Removes a directory with the files that the kernel put there. A control group must have
    /// neither processes nor groups below it.
    fn remove_dir(&self, directory: &Path) -> io::Result<()>;
    /// Returns the directories and links directly below a directory, sorted.
    fn children(&self, directory: &Path) -> io::Result<Vec<PathBuf>>;
    /// Opens a directory, for a process to be spawned in the group that it is.
    fn open_dir(&self, directory: &Path) -> io::Result<OwnedFd>;
    /// Fails where this process may not create entries in a directory.
    fn writable(&self, directory: &Path) -> io::Result<()>;
    /// Reads a file whole.
    fn read(&self, file: &Path) -> io::Result<String>;
    /// Returns the target of a symbolic link.
    fn read_link(&self, link: &Path) -> io::Result<PathBuf>;
    /// Writes a value to a file that exists, in one call.
    fn write(&self, file: &Path, value: &str) -> io::Result<()> {
        self.write_open(&self.open(file)?, file, value)
    }
    /// Opens a file for writing to it over and over.
    fn open(&self, file: &Path) -> io::Result<File>;
    /// Writes a value to `handle`, which [`Files::open`] gave for `file`.
    fn write_open(&self, handle: &File, file: &Path, value: &str) -> io::Result<()>;
    /// Sends a signal to a process.
    fn signal(&self, pid: i32, signal: i32) -> io::Result<()>;
}

/// The kernel's file systems.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KernelFiles;

impl Files for KernelFiles {
    fn create_dir(&self, directory: &Path) -> io::Result<()> {
        fs::create_dir(directory)
    }

    fn remove_dir(&self, directory: &Path) -> io::Result<()> {
        fs::remove_dir(directory)
    }

    fn children(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        let mut children = Vec::new();
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            if !entry.file_type()?.is_file() {
                children.push(entry.path());
            }
        }
        children.sort();
        Ok(children)
    }

    fn open_dir(&self, directory: &Path) -> io::Result<OwnedFd> {
        Ok(File::open(directory)?.into())
    }

    fn writable(&self, directory: &Path) -> io::Result<()> {
        Ok(access(directory, AccessFlags::W_OK | AccessFlags::X_OK)?)
    }

    fn read(&self, file: &Path) -> io::Result<String> {
        // In /proc, names of processes need not be UTF-8.
        Ok(String::from_utf8_lossy(&fs::read(file)?).into_owned())
    }

    fn read_link(&self, link: &Path) -> io::Result<PathBuf> {
        fs::read_link(link)
    }

    fn open(&self, file: &Path) -> io::Result<File> {
        // Without O_CREAT, unlike fs::write: a name that the kernel does not know must fail.
        OpenOptions::new().write(true).open(file)
    }

    fn write_open(&self, handle: &File, _file: &Path, value: &str) -> io::Result<()> {
        handle.write_all_at(value.as_bytes(), 0)
    }

    fn signal(&self, pid: i32, signal: i32) -> io::Result<()> {
        // SAFETY: kill() touches no memory.
        match unsafe { libc::kill(pid, signal) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}
