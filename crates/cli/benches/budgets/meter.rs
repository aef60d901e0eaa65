//! Slowdown of programs under the software meter against their native runs, in CPU time.

use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::{MEMWEIR, cpu_of, usual};

/// The first argument with which this program is the pointer chase that it measures.
pub(crate) const CHASE: &str = "chase";

/// The first argument with which this program is the streaming reader that it measures.
pub(crate) const STREAM: &str = "stream";

/// The caches of the model, so that the programs miss in them equally often on every machine:
/// some hypervisors report a last level of 480 MiB, in which the streaming reader never misses.
const CACHES: &str = "\
    l1d = { size = 32768, ways = 8, line = 64 }
    l2 = { size = 1048576, ways = 16, line = 64 }
    llc = { size = 33554432, ways = 16, line = 64 }
";

/// Name of the file with these.
const CACHES_FILE: &str = "caches.toml";

/// Rounds of each pair; the median is reported.
const ROUNDS: usize = 5;

pub(crate) fn measure(place: &Path) {
    std::fs::write(place.join(CACHES_FILE), CACHES).expect("a file");
    for (name, content) in [("text", text()), ("numbers", numbers())] {
        std::fs::write(place.join(name), content).expect("a file");
        slowdown(&format!("gzip of {name}"), place, &["gzip", "-6", "-c", name]);
    }
    let this = std::env::current_exe().expect("a path");
    let this = this.to_str().expect("a path in UTF-8");
    slowdown("pointer chase", place, &[this, CHASE]);
    slowdown("streaming reader", place, &[this, STREAM]);
    for (name, command) in
        [("gzip of text", &["gzip", "-6", "-c", "text"][..]), ("streaming reader", &[this, STREAM])]
    {
        for sample in ["all", "10%"] {
            let what = format!("profile, {sample}, {name}");
            usual(&what, "x", ROUNDS, || profiled(place, sample, command) / native(place, command));
        }
    }
}

/// CPU time of a whole profile, the native run and memweir's own included.
fn profiled(place: &Path, sample: &str, command: &[&str]) -> f64 {
    let mut memweir = Command::new(MEMWEIR);
    memweir.args(["profile", "--meter", "software", "--caches", CACHES_FILE, "--no-store"]);
    memweir.args(["--sample", sample, "--"]);
    cpu_of(place, memweir.args(command))
}

/// Pseudo-random numbers, from the upper half of a linear congruential generator (Knuth's MMIX).
fn chances() -> impl Iterator<Item = u64> {
    std::iter::successors(Some(1_u64), |state| {
        Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407))
    })
    .map(|state| state >> 33)
}

/// Twenty megabytes of words, the rank of a word deciding how often it occurs, as in a language.
pub(crate) fn text() -> String {
    const WORDS: f64 = 6000.0;
    let mut chances = chances();
    let mut next = || chances.next().unwrap_or_default();
    let mut word = || -> String {
        (0..2 + next() % 8)
            .map(|_| b"etaoinshrdlucmfwypvb"[(next() % 20) as usize] as char)
            .collect()
    };
    let vocabulary: Vec<String> = (0..WORDS as usize).map(|_| word()).collect();
    let mut text = String::new();
    for number in 0..3_000_000 {
        // Zipf's law: the logarithm of the rank is spread evenly.
        let rank = WORDS.powf(next() as f64 / (1_u64 << 31) as f64) - 1.0;
        text += &vocabulary[rank as usize];
        text.push(if number % 12 == 11 { '\n' } else { ' ' });
    }
    text
}

/// Thirteen megabytes of hexadecimal numbers: many short matches, which take the longest to find.
fn numbers() -> String {
    let mut text = String::new();
    for number in 0..1_500_000_u32 {
        write!(text, "{:x} ", number.wrapping_mul(0x9E37_79B9)).expect("a string has room");
    }
    text
}

/// A walk through 64 MiB in random order: every step waits for memory.
pub(crate) fn chase() {
    let mut next: Vec<u32> = (0..1 << 24).collect();
    // Sattolo's shuffle makes one cycle of all.
    for (last, chance) in (1..next.len()).rev().zip(chances()) {
        next.swap(last, chance as usize % last);
    }
    let place = (0..20_000_000).fold(0, |place, _| next[place as usize]);
    println!("{place}");
}

/// Ten sums of 256 MiB, by AVX2 loads where the processor has them.
pub(crate) fn stream() {
    let numbers: Vec<u64> = (0..256 << 17).collect();
    let sum = (0..10).map(|_| sum_of(std::hint::black_box(&numbers))).fold(0, u64::wrapping_add);
    println!("{sum}");
}

fn sum_of(numbers: &[u64]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { sum_by_avx2(numbers) };
    }
    numbers.iter().copied().fold(0, u64::wrapping_add)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn sum_by_avx2(numbers: &[u64]) -> u64 {
    numbers.iter().copied().fold(0, u64::wrapping_add)
}

/// Measures the CPU time of a program under the software meter over its native one.
fn slowdown(program: &str, place: &Path, command: &[&str]) {
    usual(&format!("software meter, {program}"), "x", ROUNDS, || {
        metered(place, command) / native(place, command)
    });
}

fn native(place: &Path, command: &[&str]) -> f64 {
    cpu_of(place, Command::new(command[0]).args(&command[1..]))
}

fn metered(place: &Path, command: &[&str]) -> f64 {
    let output = Command::new(MEMWEIR)
        .args(["run", "--policy", "os", "--meter", "software", "--caches", CACHES_FILE])
        .args(["--json", "-", "--"])
        .args(command)
        .current_dir(place)
        .env("XDG_DATA_HOME", place)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .expect("memweir runs");
    assert!(output.status.success(), "{}", output.status);
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    report["jobs"][0]["running_s"].as_f64().expect("a time")
}
