//! The compiled program that is part of the source is what `bpf/build.sh` makes of it.

use std::path::Path;
use std::process::{Command, Stdio};

/// Version of the compiler that has made the committed program.
const CLANG: &str = "19.1.7";

fn version_of(program: &str) -> Option<String> {
    let told = Command::new(program).arg("--version").stderr(Stdio::null()).output().ok()?;
    Some(String::from_utf8_lossy(&told.stdout).into_owned())
}

#[test]
fn the_committed_program_is_built_from_the_source() {
    let has_clang = version_of("clang-19").is_some_and(|version| version.contains(CLANG));
    if !has_clang || version_of("/usr/sbin/bpftool").is_none() {
        return memweir_test_support::skip!(Program, "clang-19 of {CLANG} or bpftool is missing");
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf");
    let scratch = tempfile::tempdir().unwrap();
    let built = scratch.path().join("memweir.bpf.o");
    let status = Command::new(source.join("build.sh")).arg(&built).status().unwrap();
    assert!(status.success());
    let same =
        std::fs::read(&built).unwrap() == std::fs::read(source.join("memweir.bpf.o")).unwrap();
    assert!(
        same,
        "run crates/scx/bpf/build.sh crates/scx/bpf/memweir.bpf.o, and commit the program"
    );
}
