//! Files that no other user can put in memweir's way: a private run-time directory, and an opener
//! that neither follows links, nor waits for the other end of a FIFO, nor reads without a bound.
//!
//! Files that the user names on the command line are opened as every program opens them. These
//! functions are for names that memweir chooses itself: without them, any user who knows the name
//! could put a FIFO, a symbolic link or a forged file there before memweir (as root) comes.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use memweir_core::Bytes;

/// The run-time directory of root.
const OF_ROOT: &str = "/run/memweir";

/// Bits of a mode that let other users in.
const OTHERS: u32 = 0o077;

/// The directory of files that live as long as a process: state that memweirs of one user share.
///
/// It is `/run/memweir` for root and `$XDG_RUNTIME_DIR/memweir` for other users, or
/// `/tmp/memweir-UID` where that variable is not set. Its mode is 0700.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeDirectory(PathBuf);

impl RuntimeDirectory {
    /// Makes the directory if it is missing.
    ///
    /// # Errors
    /// The directory cannot be made, is a symbolic link, belongs to another user, or lets other
    /// users in.
    pub fn open() -> io::Result<Self> {
        let path = place(user(), std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from));
        Self::at(&path)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
    }

    /// Opens the run-time directory at `path`, under the conditions of [`open`](Self::open).
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn at(path: &Path) -> io::Result<Self> {
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let found = fs::symlink_metadata(path)?;
        if !found.is_dir() {
            return Err(refused("it is not a directory"));
        }
        owned(&found, &[user()])?;
        if found.mode() & OTHERS != 0 {
            let closed = format!("`chmod 700 {}` closes it", path.display());
            return Err(refused(&format!("it lets other users in; {closed}")));
        }
        Ok(Self(path.to_owned()))
    }

    /// Returns its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }
}

/// Returns the run-time directory of a user.
fn place(user: u32, runtime: Option<PathBuf>) -> PathBuf {
    match runtime.filter(|path| path.is_absolute()) {
        _ if user == 0 => PathBuf::from(OF_ROOT),
        Some(runtime) => runtime.join("memweir"),
        None => PathBuf::from(format!("/tmp/memweir-{user}")),
    }
}

/// Opens a file of this user for reading.
///
/// # Errors
/// The file is a symbolic link, is not a regular file, or belongs to another user.
pub fn open(path: &Path) -> io::Result<File> {
    let file = without_trust(OpenOptions::new().read(true), path)?;
    owned(&regular(&file)?, &[user()])?;
    Ok(file)
}

/// Reads a whole file of this user.
///
/// # Errors
/// As [`open`], and a file of more than `limit` bytes.
pub fn read(path: &Path, limit: Bytes) -> io::Result<Vec<u8>> {
    let too_large = || refused(&format!("it is larger than {limit}"));
    let file = open(path)?;
    if file.metadata()?.len() > limit.0 {
        return Err(too_large());
    }
    let mut content = Vec::new();
    // The file may grow while it is read.
    file.take(limit.0 + 1).read_to_end(&mut content)?;
    if content.len() as u64 > limit.0 { Err(too_large()) } else { Ok(content) }
}

/// Opens an empty file for appending, in a directory that may be somebody else's; empties a file
/// that is there. The file may belong to this user or to the owner of the directory, who can
/// replace it in any case.
///
/// # Errors
/// If the path is a symbolic link, is not a regular file, has a second name, or belongs to a third
/// user. It is left as it is then.
pub fn create(path: &Path) -> io::Result<File> {
    let file = without_trust(OpenOptions::new().append(true).create(true), path)?;
    let found = regular(&file)?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = fs::metadata(directory.unwrap_or(Path::new(".")))?;
    owned(&found, &[user(), directory.uid()])?;
    if found.nlink() > 1 {
        return Err(refused("it has a second name (a hard link)"));
    }
    file.set_len(0)?;
    Ok(file)
}

/// Opens a directory, and makes it if it is missing. A symbolic link at the end of `path` is
/// followed if this user made it. What is checked is what is opened, whatever another user puts
/// there meanwhile.
///
/// # Errors
/// The directory cannot be made, or a link of another user is there.
pub fn directory(path: &Path) -> io::Result<File> {
    // A slash at the end would follow the link.
    let path = path.components().as_path();
    match fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let opened =
        |flags| OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | flags).open(path);
    opened(libc::O_DIRECTORY).or_else(|error| {
        let link = opened(libc::O_PATH)?;
        let found = link.metadata()?;
        if !found.is_symlink() {
            return Err(error);
        }
        owned(&found, &[user()])?;
        let target = nix::fcntl::readlinkat(&link, "")?;
        let beside = path.parent().unwrap_or(Path::new(""));
        OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY).open(beside.join(target))
    })
}

/// Returns a path to `directory` that leads there whatever is renamed, for as long as it is open in
/// this process.
#[must_use]
pub fn lasting_path(directory: &File) -> PathBuf {
    format!("/proc/self/fd/{}", directory.as_raw_fd()).into()
}

/// Refuses a symbolic link that another user made. A path without one, or with nothing at its end,
/// is accepted.
///
/// # Errors
/// The path is such a link.
pub fn no_foreign_link(path: &Path) -> io::Result<()> {
    // A slash at the end would follow the link.
    match fs::symlink_metadata(path.components().as_path()) {
        Ok(found) if found.is_symlink() => owned(&found, &[user()]),
        _ => Ok(()),
    }
}

/// Refuses a directory of another user. A path with nothing at its end is accepted.
///
/// # Errors
/// The directory belongs to another user.
pub fn no_foreign_directory(path: &Path) -> io::Result<()> {
    fs::metadata(path).map_or(Ok(()), |found| owned(&found, &[user()]))
}

/// Opens without following a link at the end of `path`, and without waiting for a FIFO's other end.
fn without_trust(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY);
    options.open(path).map_err(|error| match error.raw_os_error() {
        Some(libc::ELOOP) => refused("it is a symbolic link"),
        Some(libc::ENXIO) => refused("it is not a regular file"),
        _ => error,
    })
}

fn regular(file: &File) -> io::Result<Metadata> {
    let found = file.metadata()?;
    if found.is_file() { Ok(found) } else { Err(refused("it is not a regular file")) }
}

fn owned(found: &Metadata, owners: &[u32]) -> io::Result<()> {
    if owners.contains(&found.uid()) {
        return Ok(());
    }
    let what = if found.is_symlink() { "it is a symbolic link that" } else { "it" };
    let (owner, this) = (found.uid(), user());
    Err(refused(&format!("{what} belongs to user {owner}, and memweir runs as user {this}")))
}

fn refused(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, reason)
}

/// Returns the effective user of this process.
fn user() -> u32 {
    nix::unistd::geteuid().as_raw()
}

#[cfg(test)]
mod tests;
