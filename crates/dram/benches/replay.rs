//! Speed of replay: thousand requests and million memory cycles per second of CPU time, including
//! the reading of the trace (2,000,000 requests in memweir's own format), best of three, and the
//! peak memory. The traces and modes are those in which other simulators were measured.
//!
//! `cargo bench -p memweir-dram --bench replay`

#[path = "../tests/common/mod.rs"]
mod common;

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::Path;

use common::{Kind, machine_h, trace};
use memweir_core::{Cycles, Direction, PhysAddr};
use memweir_dram::MemorySystem;
use memweir_dram::drive::{Mode, Offer, drive};
use memweir_dram::request::Source;
use memweir_test_support::rows::record;
use memweir_trace::{Access, Format, Header, ThreadId, Trace, Writer};

/// A row: a kind of trace, its number of requests, and the mode.
const ROWS: [(Kind, usize, Mode); 11] = [
    (Kind::StreamR, 2_000_000, Mode::Saturate),
    (Kind::StreamW, 2_000_000, Mode::Saturate),
    (Kind::BgR, 2_000_000, Mode::Saturate),
    (Kind::RandR, 2_000_000, Mode::Saturate),
    (Kind::RandW, 2_000_000, Mode::Saturate),
    (Kind::StreamR, 2_000_000, Mode::Parallel(16)),
    (Kind::StreamW, 2_000_000, Mode::Parallel(16)),
    (Kind::BgR, 2_000_000, Mode::Parallel(16)),
    (Kind::RandR, 2_000_000, Mode::Parallel(16)),
    (Kind::RandR, 200_000, Mode::Parallel(1)),
    (Kind::RandR, 200_000, Mode::Pace(200)),
];

fn write(kind: Kind, count: usize, path: &Path) {
    let out = BufWriter::new(File::create(path).expect("a file in the temporary directory"));
    let mut writer = Writer::start(out, Format::Memweir, &Header::default()).expect("writable");
    for word in trace(kind).take(count) {
        let direction = if word & 1 == 1 { Direction::Write } else { Direction::Read };
        let access = Access { address: word & !1, gap: 0, thread: ThreadId::default(), direction };
        writer.push(&access).expect("writable");
    }
    writer.finish().expect("writable").0.flush().expect("writable");
}

/// Returns the seconds of CPU time that this process has used.
fn cpu_seconds() -> f64 {
    let times = fs::read_to_string("/proc/self/schedstat").expect("Linux");
    let nanos: f64 = times.split(' ').next().and_then(|n| n.parse().ok()).expect("a number");
    nanos / 1e9
}

/// Returns the peak memory of this process in MiB.
fn peak_mebibytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux");
    line.trim().trim_end_matches("kB").trim().parse::<u64>().expect("a number") / 1024
}

/// Replays a trace; returns the cycles and the seconds that it took.
fn replay(path: &Path, mode: Mode) -> (f64, f64) {
    let begin = cpu_seconds();
    let mut trace = Trace::open(path, None).expect("just written");
    let mut memory = MemorySystem::new(&machine_h()).expect("possible");
    let next = || {
        trace.next_access().map(|access| {
            access.map(|access| Offer {
                address: PhysAddr(access.address),
                direction: access.direction,
                source: Source(0),
                due: Cycles::ZERO,
            })
        })
    };
    let driven = drive(&mut memory, mode, next, &mut ()).expect("just written").whole;
    (driven.cycles.as_f64(), cpu_seconds() - begin)
}

fn main() {
    // `cargo test --benches` needs a short run, not figures.
    let is_test = std::env::args().any(|argument| argument == "--test");
    let folder = tempfile::tempdir().expect("a temporary directory");
    println!("{:<10} {:<8} {:>10} {:>14}", "trace", "mode", "requests/s", "Mcycles/s");
    for (kind, count, mode) in ROWS {
        let count = if is_test { count / 100 } else { count };
        let path = folder.path().join(format!("{kind:?}"));
        write(kind, count, &path);
        let runs: Vec<_> = (0..3).map(|_| replay(&path, mode)).collect();
        let rates = runs.iter().map(|(_, seconds)| count as f64 / seconds);
        record(&format!("{kind:?}, {mode}"), "requests/s", rates);
        let (cycles, seconds) = runs.into_iter().min_by(|a, b| a.1.total_cmp(&b.1)).expect("three");
        let (thousands, speed) = (count as f64 / seconds / 1e3, cycles / seconds / 1e6);
        println!(
            "{:<10} {:<8} {thousands:>8.0} k {speed:>14.1}",
            format!("{kind:?}"),
            mode.to_string()
        );
    }
    record("peak memory", "MiB", [peak_mebibytes() as f64]);
    println!("peak memory: {} MiB", peak_mebibytes());
}
