//! The hash of code and data that the keys of figures contain.

#[path = "../sources.rs"]
mod sources;

use std::fs;
use std::path::{Path, PathBuf};

fn hash(directories: &[&Path]) -> String {
    sources::hash(directories.iter().map(|path| path.to_path_buf())).expect("readable files")
}

/// Copies a directory, and returns its files.
fn copy(from: &Path, to: &Path) -> Vec<PathBuf> {
    fs::create_dir_all(to).expect("a directory");
    let mut files = Vec::new();
    for entry in fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        match entry.path().is_dir() {
            true => files.extend(copy(&entry.path(), &target)),
            false => {
                fs::write(&target, fs::read(entry.path()).expect("a file")).expect("space");
                files.push(target);
            }
        }
    }
    files
}

#[test]
fn the_hash_is_that_of_the_code_and_the_experiments() {
    assert_eq!(memweir_reproduce::FIGURES, hash(&[Path::new("src"), Path::new("experiments")]));
}

/// The first digit of each file is replaced by another one.
#[test]
fn any_changed_figure_of_the_experiments_changes_the_hash() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("changed-experiments");
    let _ = fs::remove_dir_all(&directory);
    let files = copy(Path::new("experiments"), &directory);
    let before = hash(&[&directory]);
    let mut changed = 0;
    for file in files {
        let content = fs::read(&file).expect("a copy");
        let Some(digit) = content.iter().position(u8::is_ascii_digit) else { continue };
        let mut other = content.clone();
        other[digit] = if other[digit] == b'7' { b'8' } else { b'7' };
        fs::write(&file, other).expect("space");
        assert_ne!(hash(&[&directory]), before, "{}", file.display());
        fs::write(&file, content).expect("space");
        changed += 1;
    }
    assert!(changed > 30, "{changed} files");
    assert_eq!(hash(&[&directory]), before);
    fs::remove_dir_all(&directory).expect("our own");
}
