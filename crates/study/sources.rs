//! A hash of source files, for the build scripts of crates whose results have keys.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// Bytes of the hash.
const BYTES: usize = 8;

/// Hashes all files below those of the directories that exist, and has the script run again
/// whenever one of them changes. Returns hexadecimal digits.
pub(crate) fn hash(directories: impl Iterator<Item = PathBuf>) -> io::Result<String> {
    let mut files = Vec::new();
    for directory in directories.filter(|directory| directory.is_dir()) {
        println!("cargo::rerun-if-changed={}", directory.display());
        collect(&directory, &mut files)?;
    }
    files.sort();
    let mut hasher = Sha256::new();
    for path in files {
        hasher.update(path.to_string_lossy().as_bytes());
        hasher.update(Sha256::digest(fs::read(&path)?));
    }
    Ok(hasher.finalize().iter().take(BYTES).map(|byte| format!("{byte:02x}")).collect())
}

/// Appends all files below a directory.
fn collect(directory: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        match path.is_dir() {
            true => collect(&path, files)?,
            false => files.push(path),
        }
    }
    Ok(())
}
