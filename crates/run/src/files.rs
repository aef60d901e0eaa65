//! Where memweir keeps its files, and how it writes them so that no reader sees half of one.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;

/// memweir's directory below the XDG data directory: `$XDG_DATA_HOME/memweir`, by default
/// `~/.local/share/memweir`. Fails where there is no home directory.
pub fn data_dir() -> io::Result<PathBuf> {
    etcetera::choose_base_strategy()
        .map(|strategy| strategy.data_dir().join("memweir"))
        .map_err(|error| io::Error::new(io::ErrorKind::NotFound, error))
}

/// Writes `contents` to `path` through a temporary file and a rename, making the directory first.
/// A reader sees the old file or the new one, and a full disk leaves the old one.
pub fn write_atomically(path: &Path, contents: &[u8]) -> io::Result<()> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    fs::create_dir_all(directory)?;
    // Readable as any other file of the user, and not for them alone as temporary files are.
    let mode = fs::Permissions::from_mode(0o666);
    let mut file = tempfile::Builder::new().permissions(mode).tempfile_in(directory)?;
    file.write_all(contents)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_failed_write_keeps_what_was_there() {
        let dir = tempfile::tempdir().unwrap();
        let blocked = dir.path().join("file");
        fs::write(&blocked, b"a file, not a directory").unwrap();
        assert!(write_atomically(&blocked.join("platform.toml"), b"x").is_err());
        assert_eq!(fs::read(&blocked).unwrap(), b"a file, not a directory");
    }
}
