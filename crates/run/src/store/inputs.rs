//! The files that a command line names, and the detection of changes in them.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::key::{Invocation, fingerprint};

/// Characters that end a path within an argument such as `--from=FILE` or a shell script.
const SEPARATORS: &[u8] = b" \t\n=,:;|&<>()\"'`";

/// A file that a command line names, as it was before the program ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputFile {
    /// Its absolute path; an array of bytes in JSON where it is not UTF-8.
    #[serde(with = "crate::text::path")]
    pub path: PathBuf,
    /// Its size in bytes.
    pub size: i64,
    /// Its modification time, in nanoseconds since 1970.
    pub mtime_ns: i64,
}

impl InputFile {
    fn of(path: &Path) -> Option<Self> {
        let (size, mtime_ns) = path.is_file().then(|| fingerprint(path).ok()).flatten()?;
        Some(Self { path: path.to_owned(), size, mtime_ns })
    }

    /// Returns true if the file has another size or time now, or is gone.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        fingerprint(&self.path).ok() != Some((self.size, self.mtime_ns))
    }
}

/// The existing files that an invocation names: on its command line, in the script of `sh -c`, and
/// as its standard input.
#[must_use]
pub fn inputs(invocation: &Invocation) -> Vec<InputFile> {
    named_paths(invocation).iter().filter_map(|path| InputFile::of(path)).collect()
}

/// Keeps those of `inputs` that the program did not write to. `inside` maps a path to the name
/// under which it is reached as the program left it. A file that the program removed was an input.
#[must_use]
pub fn not_written(inputs: Vec<InputFile>, inside: impl Fn(&Path) -> PathBuf) -> Vec<InputFile> {
    let untouched = |input: &InputFile| {
        let real = fs::canonicalize(&input.path);
        let now = fingerprint(&inside(real.as_deref().unwrap_or(&input.path)));
        now.is_err() || now.ok() == Some((input.size, input.mtime_ns))
    };
    inputs.into_iter().filter(untouched).collect()
}

/// Every absolute path that an argument of the invocation may name, whether it exists or not.
pub(crate) fn named_paths(invocation: &Invocation) -> BTreeSet<PathBuf> {
    let mut paths: BTreeSet<PathBuf> = invocation.stdin.iter().cloned().collect();
    let directory = fs::canonicalize(&invocation.directory);
    let directory = directory.as_deref().unwrap_or(&invocation.directory);
    for argument in invocation.argv.iter().skip(1) {
        let bytes = argument.as_bytes();
        // `-oFILE`, beside the argument itself and its parts.
        let attached = (bytes.len() > 2 && bytes[0] == b'-').then(|| &bytes[2..]);
        let parts = bytes.split(|byte| SEPARATORS.contains(byte));
        for name in [bytes].into_iter().chain(attached).chain(parts) {
            if !name.is_empty() && !name.contains(&0) {
                let name = PathBuf::from(OsString::from_vec(name.to_vec()));
                paths.insert(directory.join(name));
            }
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    fn invocation(directory: &Path, arguments: &[&str]) -> Invocation {
        Invocation {
            program: "/bin/true".into(),
            argv: ["true"].iter().chain(arguments).map(Into::into).collect(),
            directory: directory.to_owned(),
            env: std::collections::BTreeMap::new(),
            stdin: None,
        }
    }

    fn names(directory: &Path, arguments: &[&str]) -> Vec<String> {
        let found = inputs(&invocation(directory, arguments));
        let name =
            |input: &InputFile| input.path.strip_prefix(directory).unwrap().display().to_string();
        found.iter().map(name).collect()
    }

    #[test]
    fn files_are_found_in_arguments_options_and_scripts() {
        let directory = tempfile::tempdir().unwrap();
        let path = &fs::canonicalize(directory.path()).unwrap();
        for name in ["a", "b", "with space"] {
            fs::write(path.join(name), "x").unwrap();
        }
        fs::create_dir(path.join("folder")).unwrap();
        assert_eq!(names(path, &["-9", "a", "absent", "folder"]), ["a"]);
        assert_eq!(names(path, &["--from=a", "-ob", "if=a"]), ["a", "b"]);
        assert_eq!(names(path, &["with space"]), ["with space"]);
        assert_eq!(names(path, &["-c", "sort <a >out; cat 'b'|wc"]), ["a", "b"]);
        let whole = path.join("b").display().to_string();
        assert_eq!(names(path, &[&whole]), ["b"]);
        let mut with_stdin = invocation(path, &[]);
        with_stdin.stdin = Some(path.join("a"));
        assert_eq!(inputs(&with_stdin).len(), 1);
    }

    #[test]
    fn a_file_changes_by_its_size_its_time_or_its_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        fs::write(&path, "one").unwrap();
        let before = InputFile::of(&path).unwrap();
        assert!(!before.has_changed());
        let then = fs::metadata(&path).unwrap().modified().unwrap();
        fs::write(&path, "longer").unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_modified(then).unwrap();
        assert!(before.has_changed(), "another size at the same time");
        fs::remove_file(&path).unwrap();
        assert!(before.has_changed());
    }

    #[test]
    fn what_the_program_wrote_is_no_input_and_what_it_removed_is() {
        let directory = tempfile::tempdir().unwrap();
        let (path, after) = (directory.path().join("before"), directory.path().join("after"));
        for place in [&path, &after] {
            fs::create_dir(place).unwrap();
        }
        for name in ["read", "written", "removed"] {
            fs::write(path.join(name), "x").unwrap();
        }
        let before = inputs(&invocation(&path, &["read", "written", "removed"]));
        let read = File::open(path.join("read")).unwrap().metadata().unwrap().modified().unwrap();
        fs::write(after.join("written"), "xyz").unwrap();
        fs::write(after.join("read"), "x").unwrap();
        File::options().write(true).open(after.join("read")).unwrap().set_modified(read).unwrap();
        let kept = not_written(before, |name| after.join(name.file_name().unwrap()));
        let kept: Vec<_> = kept.iter().map(|input| input.path.file_name()).collect();
        assert_eq!(kept, [Some("read".as_ref()), Some("removed".as_ref())]);
    }
}
