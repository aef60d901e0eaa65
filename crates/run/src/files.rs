//! Places of memweir's files, and writes that never show a reader half of one.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;
use memweir_core::input::InputError;
use memweir_linux::private;
use tempfile::NamedTempFile;

/// memweir's directory below the XDG data directory: `$XDG_DATA_HOME/memweir`, by default
/// `~/.local/share/memweir`. Fails where there is no home directory.
pub fn data_dir() -> io::Result<PathBuf> {
    etcetera::choose_base_strategy()
        .map(|strategy| strategy.data_dir().join("memweir"))
        .map_err(|error| io::Error::new(io::ErrorKind::NotFound, error))
}

/// Returns [`data_dir`], which need not exist.
///
/// # Errors
/// It belongs to another user, or a link of another user leads to it from the home directory: files
/// that memweir writes there could land anywhere.
pub fn own_data_dir() -> io::Result<PathBuf> {
    let directory = data_dir()?;
    let home = etcetera::home_dir().unwrap_or_default();
    refuse_foreign(&directory, &home)?;
    Ok(directory)
}

fn refuse_foreign(directory: &Path, home: &Path) -> io::Result<()> {
    // The user chose the home directory and, if it is elsewhere, that of the data.
    let below_home = |path: &Path| path.starts_with(home) && path != home;
    let named_by_memweir = |path: &&Path| *path == directory || below_home(path);
    directory.ancestors().take_while(named_by_memweir).try_for_each(|path| {
        private::no_foreign_link(path)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
    })?;
    private::no_foreign_directory(directory)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", directory.display())))
}

/// Returns the absolute path of a named pipe; `None` for any other file, and for a pipe without a
/// name, such as that behind `/dev/stdin`.
#[must_use]
pub fn fifo(path: &Path) -> Option<PathBuf> {
    let path = fs::canonicalize(path).ok()?;
    fs::metadata(&path).is_ok_and(|found| found.file_type().is_fifo()).then_some(path)
}

/// Reads a text file that the user names.
///
/// # Errors
/// If it cannot be read, or is not UTF-8; the error has the line.
pub fn text(path: &Path) -> Result<String, InputError> {
    text_of(path, fs::read(path))
}

/// Name of standard input in messages. A socket behind it cannot be opened by this name.
pub const STANDARD_INPUT: &str = "/dev/stdin";

/// Reads standard input to its end.
///
/// # Errors
/// As those of [`text`].
pub fn standard_input() -> Result<String, InputError> {
    let mut bytes = Vec::new();
    let read = io::stdin().read_to_end(&mut bytes).map(|_| bytes);
    text_of(Path::new(STANDARD_INPUT), read)
}

fn text_of(path: &Path, read: io::Result<Vec<u8>>) -> Result<String, InputError> {
    let bytes = read.map_err(|error| InputError::unreadable(path, &error))?;
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = valid.iter().filter(|byte| **byte == b'\n').count() + 1;
        InputError::new(path.display().to_string(), "is not UTF-8").line(line)
    })
}

/// Writes `contents` to `path` by a [`Replacement`], making the directory first.
pub fn write_atomically(path: &Path, contents: &[u8]) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let replacement = Replacement::of(path)?;
    replacement.file().write_all(contents)?;
    replacement.commit()
}

/// Checks that [`write_atomically`] can write to `path`, and leaves what is there as it is. The
/// directory is made if it is missing.
pub fn check_writable(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    Replacement::of(path).map(drop)
}

/// A file under another name that takes its own when it is complete. A reader sees the old file or
/// the new one, and a full disk leaves the old one. Dropped without [`commit`](Self::commit), the
/// new one vanishes. A symbolic link stays one. A device or pipe is written to in place.
#[derive(Debug)]
pub struct Replacement(Target);

#[derive(Debug)]
enum Target {
    /// Beside the file that it replaces.
    Temporary(NamedTempFile, PathBuf),
    InPlace(File),
}

impl Replacement {
    /// Begins the replacement of `path`.
    ///
    /// # Errors
    /// If no file can be made in its directory.
    pub fn of(path: &Path) -> io::Result<Self> {
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if fs::metadata(&path).is_ok_and(|there| !there.is_file() && !there.is_dir()) {
            let device = fs::OpenOptions::new().write(true).open(path)?;
            return Ok(Self(Target::InPlace(device)));
        }
        let directory = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        // Readable like any other file of the user, and not for them alone as temporary files are.
        let mode = fs::Permissions::from_mode(0o666);
        let file = tempfile::Builder::new().permissions(mode).tempfile_in(directory)?;
        Ok(Self(Target::Temporary(file, path)))
    }

    /// The file to write to.
    #[must_use]
    pub fn file(&self) -> &File {
        match &self.0 {
            Target::Temporary(file, _) => file.as_file(),
            Target::InPlace(device) => device,
        }
    }

    /// Returns the name that the file has until it is complete; `None` for a device or pipe.
    #[must_use]
    pub fn temporary(&self) -> Option<&Path> {
        match &self.0 {
            Target::Temporary(file, _) => Some(file.path()),
            Target::InPlace(_) => None,
        }
    }

    /// Gives the complete file its name.
    ///
    /// # Errors
    /// If it cannot be renamed.
    pub fn commit(self) -> io::Result<()> {
        match self.0 {
            Target::Temporary(file, path) => {
                file.persist(path).map(|_| ()).map_err(|error| error.error)
            }
            Target::InPlace(_) => Ok(()),
        }
    }
}

/// Removes a file of results that was started and holds none; leaves devices and pipes alone.
pub(crate) fn remove_unfinished(path: &Path) {
    if path.is_file() {
        let _ = fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_not_utf_8_is_refused_with_the_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("list");
        fs::write(&path, b"true\nsort \xff\n").unwrap();
        let refused = text(&path).unwrap_err().to_string();
        assert!(refused.ends_with("list:2: is not UTF-8"), "{refused}");
        assert!(text(&dir.path().join("absent")).unwrap_err().reason.contains("cannot be read"));
    }

    #[test]
    fn replaces_a_file_and_leaves_nothing_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/er/platform.toml");
        write_atomically(&path, b"one").unwrap();
        write_atomically(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_link_stays_a_link_and_a_device_a_device() {
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("file"), dir.path().join("link"));
        fs::write(&path, b"old").unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        write_atomically(&link, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        let full = write_atomically(Path::new("/dev/full"), b"x").unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
        write_atomically(Path::new("/dev/null"), b"x").unwrap();
    }

    #[test]
    fn a_data_directory_of_another_user_is_refused() {
        if !nix::unistd::geteuid().is_root() {
            return memweir_test_support::skip!(Privilege, "files of another user need root");
        }
        let home = tempfile::tempdir().unwrap();
        let share = home.path().join(".local/share");
        let (data, elsewhere) = (share.join("memweir"), home.path().join("elsewhere"));
        let refusal = |directory: &Path| {
            refuse_foreign(directory, home.path()).expect_err("refused").to_string()
        };
        let foreign_link = |path: &Path| memweir_test_support::foreign_link(&elsewhere, path);
        fs::create_dir_all(elsewhere.join("memweir")).unwrap();
        fs::create_dir(home.path().join(".local")).unwrap();
        refuse_foreign(&data, home.path()).unwrap();
        foreign_link(&share);
        assert!(
            refusal(&data).contains(".local/share: it is a symbolic link"),
            "{}",
            refusal(&data)
        );
        fs::remove_file(&share).unwrap();
        fs::create_dir(&share).unwrap();
        foreign_link(&data);
        assert!(refusal(&data).contains("memweir: it is a symbolic link"), "{}", refusal(&data));
        fs::remove_file(&data).unwrap();
        fs::create_dir(&data).unwrap();
        refuse_foreign(&data, home.path()).unwrap();
        std::os::unix::fs::chown(&data, Some(65534), None).unwrap();
        assert!(refusal(&data).contains("belongs to user 65534"));
        // Parents of a directory outside the home are the user's choice; the directory is not.
        let link = home.path().join("link");
        foreign_link(&link);
        refuse_foreign(&link.join("memweir"), Path::new("/nonexistent")).unwrap();
        assert!(refuse_foreign(&link, Path::new("/nonexistent")).is_err());
    }

    #[test]
    fn a_check_leaves_files_as_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/results.json");
        check_writable(&path).unwrap();
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 0);
        write_atomically(&path, b"kept").unwrap();
        check_writable(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"kept");
        assert!(check_writable(path.parent().unwrap()).is_err());
        assert!(check_writable(&path.join("below-a-file")).is_err());
    }

    #[test]
    fn a_failed_write_keeps_what_was_there() {
        let dir = tempfile::tempdir().unwrap();
        let blocked = dir.path().join("file");
        fs::write(&blocked, b"a file, not a directory").unwrap();
        assert!(write_atomically(&blocked.join("platform.toml"), b"x").is_err());
        assert_eq!(fs::read(&blocked).unwrap(), b"a file, not a directory");
    }
}
