//! The file operations that control groups need, and nothing more.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Access to a tree of control groups.
pub(crate) trait Files: Send + Sync {
    /// Makes a group.
    fn create(&self, group: &Path) -> io::Result<()>;
    /// Removes a group that has neither processes nor groups below it.
    fn remove(&self, group: &Path) -> io::Result<()>;
    /// Returns the groups directly below a group.
    fn children(&self, group: &Path) -> io::Result<Vec<PathBuf>>;
    /// Reads a file whole.
    fn read(&self, file: &Path) -> io::Result<String>;
    /// Writes a value.
    fn write(&self, file: &Path, value: &str) -> io::Result<()>;
    /// Opens a file for writing to it over and over.
    fn open(&self, file: &Path) -> io::Result<File>;
    /// Writes a value to `handle`, which [`Files::open`] gave for `file`.
    fn write_open(&self, handle: &File, file: &Path, value: &str) -> io::Result<()>;
    /// Opens a group in which a process will be spawned.
    fn target(&self, group: &Path) -> io::Result<OwnedFd>;
    /// Sends a signal to a process.
    fn signal(&self, pid: i32, signal: i32) -> io::Result<()>;
}

/// The kernel's tree.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KernelFiles;

impl Files for KernelFiles {
    fn create(&self, group: &Path) -> io::Result<()> {
        fs::create_dir(group)
    }

    fn remove(&self, group: &Path) -> io::Result<()> {
        fs::remove_dir(group)
    }

    fn children(&self, group: &Path) -> io::Result<Vec<PathBuf>> {
        let mut children = Vec::new();
        for entry in fs::read_dir(group)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                children.push(entry.path());
            }
        }
        children.sort();
        Ok(children)
    }

    fn read(&self, file: &Path) -> io::Result<String> {
        fs::read_to_string(file)
    }

    fn write(&self, file: &Path, value: &str) -> io::Result<()> {
        self.write_open(&self.open(file)?, file, value)
    }

    fn open(&self, file: &Path) -> io::Result<File> {
        // Without O_CREAT, unlike fs::write: a name that the kernel does not know must fail.
        OpenOptions::new().write(true).open(file)
    }

    fn write_open(&self, handle: &File, _file: &Path, value: &str) -> io::Result<()> {
        handle.write_all_at(value.as_bytes(), 0)
    }

    fn target(&self, group: &Path) -> io::Result<OwnedFd> {
        Ok(File::open(group)?.into())
    }

    fn signal(&self, pid: i32, signal: i32) -> io::Result<()> {
        // SAFETY: kill() touches no memory.
        match unsafe { libc::kill(pid, signal) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}
