//! The few file operations that resctrl needs, so that tests can make each of them fail.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

/// File operations on pseudo file systems.
pub trait Files: Send {
    /// Returns the whole text of a file.
    fn read(&self, path: &Path) -> io::Result<String>;
    /// Returns the target of a symbolic link.
    fn read_link(&self, path: &Path) -> io::Result<PathBuf>;
    /// Writes `text` into a file that exists, in one call.
    fn write(&self, path: &Path, text: &str) -> io::Result<()>;
    /// Returns the names of the entries of a directory, sorted.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;
    /// Makes a directory (on resctrl: a group).
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    /// Removes a directory (on resctrl: a group with all the files that the kernel put there).
    fn remove_dir(&self, path: &Path) -> io::Result<()>;
    /// Fails where this process may not create entries in a directory.
    fn writable(&self, path: &Path) -> io::Result<()>;
}

/// The operations of the kernel's file systems.
#[derive(Clone, Copy, Debug, Default)]
pub struct KernelFiles;

impl Files for KernelFiles {
    fn read(&self, path: &Path) -> io::Result<String> {
        // In /proc, names of processes need not be UTF-8.
        Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned())
    }

    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        fs::read_link(path)
    }

    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let name = |entry: io::Result<fs::DirEntry>| {
            entry.map(|entry| entry.file_name().to_string_lossy().into_owned())
        };
        let mut names = fs::read_dir(path)?.map(name).collect::<io::Result<Vec<_>>>()?;
        names.sort();
        Ok(names)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn writable(&self, path: &Path) -> io::Result<()> {
        Ok(access(path, AccessFlags::W_OK | AccessFlags::X_OK)?)
    }
}
