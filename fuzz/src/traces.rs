//! Traces of accesses and of commands.

use std::io::Cursor;
use std::sync::{Arc, LazyLock};

use memweir_bank::cached_trace::CachedTrace;
use memweir_bank::instructions::{InstructionStream, InstructionTrace};
use memweir_bank::misses::{MissStream, MissTrace};
use memweir_bank::stream::Stream;
use memweir_core::cache::{CacheGeometry, CacheHierarchy};
use memweir_core::names::Named;
use memweir_core::{Bytes, Cycles};
use memweir_dram::check::{Checker, text as command_text};
use memweir_dram::config::MemoryConfig;
use memweir_dram::spec::MemorySpec;
use memweir_swap::trace::PageTrace;
use memweir_trace::{Format, Trace, is_compressed};

use crate::Seeds::{Files, Made, Texts};
use crate::{Target, made, text};

macro_rules! formats {
    ($($target:ident $name:literal $format:ident;)*) => {$(
        pub(crate) static $target: Target = Target::new(
            concat!("trace-", $name),
            |data| drained(data, Some(Format::$format)),
            &[Made(|| made::trace(Format::$format))],
        );
    )*};
}

formats! {
    MEMWEIR "memweir" Memweir;
    BINARY "bin" Binary;
    RAMULATOR2 "ramulator2" Ramulator2;
    RAMULATOR1 "ramulator1" Ramulator1;
    DRAMSIM3 "dramsim3" Dramsim3;
    SIMPLE_O3 "simple-o3" SimpleO3;
    CHAMPSIM "champsim" ChampSim;
}

pub(crate) static LACKEY: Target = Target::new(
    "trace-lackey",
    |data| drained(data, Some(Format::Lackey)),
    &[Files("crates/trace/tests/data/lackey.txt")],
);

pub(crate) static DRMEMTRACE: Target = Target::new(
    "trace-drmemtrace",
    |data| drained(data, Some(Format::Drmemtrace)),
    &[Texts(&["Output format:\n<--record#-> <--instr#->: <---tid---> <record details>\n\
     1 0: 7 <marker: version 6>\n2 1: 7 ifetch 4 byte(s) @ 0x401000 48 8b\n\
     3: T7 <marker: version 4>\n4: T7 ifetch 2 byte(s) @ 0x40 f3 a4\n\
     3 1: W0.T7 read 8 byte(s) @ 0x7fdf64e2adc8 by PC 0x401000\n\
     4 2: T8 write 16 byte(s) @ 0x601038 by PC 0x401000\nView tool results:\n"])],
);

/// Loads and stores behind caches.
pub(crate) static CACHED: Target = Target::new(
    "trace-cached",
    cached,
    &[Files("crates/trace/tests/data/lackey.txt*"), Made(|| made::trace(Format::Memweir))],
);

fn cached(data: &[u8]) {
    let Some(trace) = opened(data, None) else { return };
    let cache = |kib: u64| CacheGeometry::new(Bytes(kib << 10), 4);
    let caches = CacheHierarchy { l1d: cache(1), l2: cache(2), llc: cache(4) };
    let mut behind = CachedTrace::new(trace, Some(caches));
    while let Ok(Some(_)) = behind.next_access() {}
}

/// The format that the content suggests.
pub(crate) static RECOGNIZED: Target = Target::new(
    "trace-recognized",
    |data| drained(data, None),
    &[
        Made(|| {
            let formats = Format::ALL.iter().filter(|format| format.is_writable());
            formats.flat_map(|format| made::trace(*format)).collect()
        }),
        Files("crates/trace/tests/data/lackey.txt*"),
    ],
);

fn opened(data: &[u8], format: Option<Format>) -> Option<Trace> {
    Trace::read("fuzz", Box::new(Cursor::new(data.to_vec())), format).ok()
}

/// Leaves compressed traces to [`RECOGNIZED`]: a target for one format would spend its time in
/// decoders, which take milliseconds for an input.
fn drained(data: &[u8], format: Option<Format>) {
    if format.is_some() && is_compressed(data) {
        return;
    }
    let Some(mut trace) = opened(data, format) else { return };
    let mut accesses = 0u64;
    while let Ok(Some(_)) = trace.next_access() {
        accesses += 1;
    }
    let _ = (trace.refuse("beyond the memory"), trace.truncation(), trace.progress());
    // A compressed block may hold more accesses than bytes; never more than its format allows.
    assert!(accesses <= 1 << 24, "{accesses} accesses in {} bytes", data.len());
}

/// Misses of a recording as a program of the bank-level simulator.
pub(crate) static MISSES: Target = Target::new(
    "misses",
    misses,
    &[Made(|| made::trace(Format::Memweir)), Made(|| made::trace(Format::SimpleO3))],
);

fn misses(data: &[u8]) {
    let Some(trace) = opened(data, None) else { return };
    if let Ok(misses) = MissTrace::of(trace, 1_000_000) {
        let mut stream = MissStream::new(Arc::new(misses), 1);
        for _ in 0..1000 {
            stream.next();
        }
    }
}

/// Page references of a recording.
pub(crate) static PAGES: Target = Target::new(
    "pages",
    pages,
    &[Made(|| made::trace(Format::Memweir)), Made(|| made::trace(Format::SimpleO3))],
);

fn pages(data: &[u8]) {
    let Some(mut trace) = opened(data, None) else { return };
    if let Ok(pages) = PageTrace::read(&mut trace, 100) {
        let _ = pages.sums();
        let _ = pages.write("fuzz", Vec::new(), 100);
    }
}

pub(crate) static INSTRUCTIONS: Target =
    Target::new("instructions", instructions, &[Texts(&["# core 0\n10 0x1000 4096\n\n3 64\n"])]);

fn instructions(data: &[u8]) {
    text(data, |text| {
        if let Ok(trace) = InstructionTrace::parse("fuzz", text) {
            let accesses = 4 * trace.loads();
            let mut stream = InstructionStream::new(Arc::new(trace));
            for _ in 0..accesses {
                stream.next();
            }
        }
    });
}

/// Commands, checked against the rules of DDR4.
pub(crate) static COMMANDS: Target = Target::new(
    "commands",
    commands,
    &[Texts(&[
        "# cycle command channel rank group bank row column\n12 activate 0 0 1 2 4711 0\n29 read 0 0 1 2 4711 17\n\
     60 precharge 0 0 1 2 0 0\n9000 refresh 0 0 0 0 0 0\n",
    ])],
);

/// Its text is read once, not for each input.
static DDR4: LazyLock<MemoryConfig> =
    LazyLock::new(|| MemoryConfig::new(MemorySpec::shipped("ddr4-2400").expect("it is shipped")));

fn commands(data: &[u8]) {
    let mut checker = Checker::new(&DDR4).expect("a standard with rules");
    let mut last = 0;
    for command in command_text::Reader::new("fuzz", data) {
        let Ok(command) = command else { break };
        last = last.max(command.at.0);
        checker.check(&command);
    }
    checker.finish(Cycles(last));
}
