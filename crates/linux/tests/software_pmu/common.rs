//! Commands, compiled programs and recordings for the tests of the software PMU.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::Command;

use memweir_core::Bytes;
use memweir_core::cache::{CacheGeometry, CacheHierarchy};
use memweir_linux::Launch;
use memweir_linux::launch::Signals;
use memweir_linux::qemu::{Qemu, QemuPaths};
use memweir_linux::record::{self, RecordError, Recording};
use memweir_linux::softpmu::CountingPlan;

/// 32 KiB, 256 KiB and 2 MiB.
pub(crate) fn caches() -> CacheHierarchy {
    CacheHierarchy {
        l1d: CacheGeometry::new(Bytes(32 << 10), 8),
        l2: CacheGeometry::new(Bytes(256 << 10), 8),
        llc: CacheGeometry::new(Bytes(2 << 20), 16),
    }
}

/// Everything in local DRAM, everything simulated, a million instructions per chunk.
pub(crate) fn plan() -> CountingPlan {
    CountingPlan { chunk_instructions: Some(1_000_000), ..CountingPlan::new(caches()) }
}

/// Records a command whose progress nobody watches.
pub(crate) fn record(launch: Launch, plan: &CountingPlan) -> Result<Recording, RecordError> {
    let (paths, signals) = (QemuPaths::default(), Signals::caught().unwrap());
    record::record(launch, plan, &paths, &signals, &mut |_| (), None)
}

/// Returns true, and says so, if the emulator is missing.
pub(crate) fn emulator_is_missing() -> bool {
    match Qemu::find(&QemuPaths::default()) {
        Ok(_) => false,
        Err(error) => {
            memweir_test_support::skip!(Program, "{error}");
            true
        }
    }
}

/// A command with its output in a file that can be read later.
pub(crate) struct Job {
    pub(crate) launch: Launch,
    stdout: File,
    stderr: File,
}

impl Job {
    pub(crate) fn new(program: impl AsRef<Path>, arguments: &[&str]) -> Self {
        let program = program.as_ref();
        let (stdout, stderr) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        let mut argv = vec![program.file_name().unwrap().to_owned()];
        argv.extend(arguments.iter().map(Into::into));
        let launch = Launch {
            env: std::env::vars_os().filter(|(name, _)| name == "PATH").collect(),
            stdout: stdout.try_clone().unwrap(),
            stderr: stderr.try_clone().unwrap(),
            ..Launch::silent(program.to_owned(), argv).unwrap()
        };
        Self { launch, stdout, stderr }
    }

    pub(crate) fn shell(script: &str) -> Self {
        Self::new("/bin/sh", &["-c", script])
    }

    pub(crate) fn record(self, plan: &CountingPlan) -> Done {
        let recording = record(self.launch, plan).unwrap();
        Done { recording, stdout: text(self.stdout), stderr: text(self.stderr) }
    }

    /// The launch, and the file that its output goes to.
    pub(crate) fn into_parts(self) -> (Launch, File) {
        (self.launch, self.stdout)
    }

    pub(crate) fn run(self) -> Done {
        self.record(&plan())
    }
}

pub(crate) struct Done {
    pub(crate) recording: Recording,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Done {
    pub(crate) fn instructions(&self) -> u64 {
        self.recording.chunks.iter().map(|chunk| chunk.counts.instructions).sum()
    }

    pub(crate) fn reads(&self) -> u64 {
        self.recording.chunks.iter().map(|chunk| chunk.counts.reads.0).sum()
    }

    pub(crate) fn writes(&self) -> u64 {
        self.recording.chunks.iter().map(|chunk| chunk.counts.writes.0).sum()
    }

    pub(crate) fn succeeded(&self) {
        assert!(self.recording.status.success(), "{:?}: {}", self.recording.status, self.stderr);
    }
}

pub(crate) fn text(mut file: File) -> String {
    let mut text = String::new();
    file.rewind().unwrap();
    file.read_to_string(&mut text).unwrap();
    text
}

/// A C program, compiled for the duration of a test.
pub(crate) struct Compiled {
    _directory: tempfile::TempDir,
    pub(crate) path: PathBuf,
}

/// Compiles C, without optimization unless `flags` say so, so that loops stay as written. `None`,
/// with a message, where there is no emulator to run it.
pub(crate) fn compile(source: &str, flags: &[&str]) -> Option<Compiled> {
    if emulator_is_missing() {
        return None;
    }
    let directory = tempfile::tempdir().unwrap();
    let (source_path, path) = (directory.path().join("p.c"), directory.path().join("program"));
    std::fs::write(&source_path, source).unwrap();
    let status = Command::new("cc")
        .args(["-O1", "-o"])
        .arg(&path)
        .arg(&source_path)
        .args(flags)
        .status()
        .expect("cc is needed to build Rust programs too");
    assert!(status.success());
    Some(Compiled { _directory: directory, path })
}

/// Reads (or writes) one word of every line of `argv[1]` MiB, `argv[2]` times.
pub(crate) const STREAM: &str = r"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
int main(int argc, char **argv) {
    size_t size = atol(argv[1]) << 20;
    long times = atol(argv[2]);
    volatile long *a = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    long sum = 0;
    int store = argc > 3;
    for (long t = 0; t < times; t++)
        for (size_t i = 0; i < size / 8; i += 8)
            if (store) a[i] = t; else sum += a[i];
    return sum != 0;
}
";
