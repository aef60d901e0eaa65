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

/// Prints `used_in` of a period, lines, a limit and a period of the command line.
const USED_IN: &str = r#"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
typedef uint32_t u32;
typedef uint64_t u64;
#define __always_inline inline
#include "periods.h"
static u64 number(const char *word) { return strtoull(word, NULL, 10); }
int main(int argc, char **argv)
{
	u64 used = number(argv[1]) << 32 | number(argv[2]);
	printf("%u", used_in(used, number(argv[3]), number(argv[4])));
	return argc != 5;
}
"#;

#[test]
fn a_budget_is_paid_off_however_long_the_machine_runs_or_the_job_rests() {
    let headers = Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf");
    let scratch = tempfile::tempdir().unwrap();
    let (source, program) = (scratch.path().join("used.c"), scratch.path().join("used"));
    std::fs::write(&source, USED_IN).unwrap();
    let mut compiler = Command::new("cc");
    let status = compiler.arg("-I").arg(headers).arg("-o").arg(&program).arg(&source).status();
    assert!(status.expect("cc is needed to build Rust programs too").success());
    let used_in = |start: u32, lines: u32, limit: u32, period: u32| -> u32 {
        let words = [start, lines, limit, period].map(|word| word.to_string());
        let told = Command::new(&program).args(words).output().unwrap();
        String::from_utf8(told.stdout).unwrap().parse().unwrap()
    };
    // In the same period, in that of a late clock, and in the second one after it.
    assert_eq!([7, 6].map(|period| used_in(7, 500, 100, period)), [500, 500]);
    assert_eq!(used_in(7, 500, 100, 9), 300);
    // Across the end of the numbers.
    assert_eq!(used_in(u32::MAX, 500, 100, 1), 300);
    assert_eq!(used_in(1, 500, 100, u32::MAX), 500);
    // After 30 days, in which a new account was written in period 0.
    assert_eq!(used_in(0, 500, 100, 30 * 24 * 3_600_000), 0);
    assert_eq!(used_in(7, 500, 100, 7 + (1 << 31)), 0);
}
