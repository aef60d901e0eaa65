//! Skipping: how a test says that this machine cannot run it. Also the raw [`rows`] of benchmarks,
//! links of another user, and signals that a test does not ignore.
//!
//! [`skip!`] prints `SKIPPED` with a reason and appends a line to the file that `MEMWEIR_SKIPS`
//! names. `make test` lists these lines at its end and compares them with `scripts/skips.allowed`
//! (`scripts/skips.sh`), so that a test that stops running is noticed.

#![deny(unsafe_code)]

pub mod rows;

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Environment variable that names the file of skips.
pub const SKIPS: &str = "MEMWEIR_SKIPS";

/// Kinds of reasons. A skip is allowed by its test and the kind of its reason; the words of the
/// reason may differ from machine to machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The test needs root, or a privilege that root lacks in a container.
    Privilege,
    /// A program is not installed or does not work.
    Program,
    /// The kernel lacks an interface, or forbids it.
    Kernel,
    /// The processor or its hypervisor offers no such counters or instructions.
    Processor,
    /// The test is about machines without something that this one has.
    Present,
    /// The event that the test watches for did not happen this time.
    Elusive,
    /// Other load keeps the machine from what the test measures.
    Busy,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Privilege => "privilege",
            Self::Program => "program",
            Self::Kernel => "kernel",
            Self::Processor => "processor",
            Self::Present => "present",
            Self::Elusive => "elusive",
            Self::Busy => "busy",
        })
    }
}

/// Returns the root of the workspace.
///
/// # Panics
/// If this crate lies elsewhere.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("a workspace").to_owned()
}

/// Lets this process, and those that it starts, end by SIGINT, SIGQUIT and SIGHUP: tests that run
/// in the background of a script, or under `nohup`, ignore some of them.
///
/// # Panics
/// If the kernel refuses.
#[expect(unsafe_code, reason = "a signal's action is a setting of the whole process")]
pub fn heed_signals() {
    for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGHUP] {
        // SAFETY: the default action is no handler, so no code of this process runs for it.
        let before = unsafe { libc::signal(signal, libc::SIG_DFL) };
        assert_ne!(before, libc::SIG_ERR, "{}", io::Error::last_os_error());
    }
}

/// Makes a link at `link` that leads to `to` and belongs to another user, which takes root.
///
/// # Panics
/// If the link cannot be made or given away.
pub fn foreign_link(to: &Path, link: &Path) {
    const NOBODY: u32 = 65534;
    std::os::unix::fs::symlink(to, link).expect("a link");
    std::os::unix::fs::lchown(link, Some(NOBODY), None).expect("root gives links away");
}

/// Skips the rest of the current test: `return skip!(Program, "{name} is not installed")`.
///
/// The first word is a variant of [`Reason`], the rest a format string with its arguments. The
/// value is `()`; returning is left to the caller.
#[macro_export]
macro_rules! skip {
    ($reason:ident, $($why:tt)+) => {
        $crate::record_skip($crate::Reason::$reason, &::std::format!($($why)+))
    };
}

/// Prints a skip and appends it to the file of skips; [`skip!`] calls it.
///
/// # Panics
/// If the file of skips cannot be written: the list at the end of `make test` would miss a line.
pub fn record_skip(reason: Reason, why: &str) {
    eprintln!("SKIPPED: {why}");
    let Some(file) = std::env::var_os(SKIPS) else { return };
    let line = line(&test_name(), reason, why);
    append(Path::new(&file), &line).unwrap_or_else(|error| panic!("{SKIPS}={file:?}: {error}"));
}

/// The test binary and, as libtest names its threads, the test: `batch::a_full_disk`.
fn test_name() -> String {
    let program = std::env::current_exe().unwrap_or_default();
    let stem = program.file_stem().unwrap_or_default().to_string_lossy();
    // Cargo puts a hash behind the name of the target.
    let target = stem.rsplit_once('-').map_or(&*stem, |(target, _)| target);
    let thread = std::thread::current();
    format!("{target}::{}", thread.name().unwrap_or("main"))
}

/// Fields apart by tabs; a reason of several lines becomes one.
fn line(test: &str, reason: Reason, why: &str) -> String {
    let why: Vec<&str> = why.split_whitespace().collect();
    format!("{test}\t{reason}\t{}\n", why.join(" "))
}

/// In one write, since several programs append at the same time.
fn append(file: &Path, line: &str) -> io::Result<()> {
    File::options().create(true).append(true).open(file)?.write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_test_reason_and_why() {
        assert_eq!(test_name(), "memweir_test_support::tests::a_line_names_test_reason_and_why");
        assert_eq!(line("a::b", Reason::Kernel, "no\n  such file"), "a::b\tkernel\tno such file\n");
    }

    #[test]
    fn lines_of_several_tests_are_kept() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("skips");
        append(&file, "one\n").unwrap();
        append(&file, "two\n").unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "one\ntwo\n");
    }
}
