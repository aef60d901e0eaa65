//! Real programs under the real emulator with the real plugin.

mod addresses;
mod common;
mod meter;
mod placed;
mod processes;
mod sampled;
mod turns;

use common::*;
use memweir_linux::record::{Origin, RecordError};
use memweir_linux::softpmu::CountingPlan;

/// Most lines that start-up, the loader and the stack move: 1 MiB.
const START_UP: u64 = 16_384;

#[test]
fn a_stream_reads_every_line_every_time() {
    let Some(stream) = compile(STREAM, &[]) else { return };
    let done = Job::new(&stream.path, &["16", "4"]).run();
    done.succeeded();
    let lines = 4 * (16 << 20) / 64;
    assert!((lines..lines + START_UP).contains(&done.reads()), "{}", done.reads());
    assert!(done.writes() < START_UP, "{}", done.writes());
    // Five instructions or so per line, all in the loop, which is one region of the executable.
    assert!(done.instructions() > 4 * lines);
}

#[test]
fn an_array_that_fits_is_read_once() {
    let Some(stream) = compile(STREAM, &[]) else { return };
    let done = Job::new(&stream.path, &["1", "50"]).run();
    done.succeeded();
    assert!((16_384..16_384 + START_UP).contains(&done.reads()), "{}", done.reads());
}

#[test]
fn a_write_stream_of_a_static_program_writes_back_what_it_reads() {
    let Some(stream) = compile(STREAM, &["-static"]) else { return };
    let done = Job::new(&stream.path, &["16", "4", "w"]).run();
    done.succeeded();
    let lines = 4 * (16 << 20) / 64;
    // Lines that the caches hold at the end have not been written back: 2 MiB and 256 KiB.
    let cached = (2304 << 10) / 64;
    assert!((lines..lines + START_UP).contains(&done.reads()), "{}", done.reads());
    assert!((lines - cached - 64..lines + START_UP).contains(&done.writes()), "{}", done.writes());
}

#[test]
fn chunks_are_about_as_long_as_asked_and_cost_more_where_memory_is_read() {
    // 8 MiB are streamed, then a loop stays in a register.
    let source = r"
#include <stdlib.h>
int main(void) {
    long n = 1 << 20, sum = 0;
    volatile long *a = malloc(n * 8);
    for (long t = 0; t < 20; t++) for (long i = 0; i < n; i += 8) sum += a[i];
    for (volatile long i = 0; i < 3000000; i++) ;
    return sum != 0;
}
";
    let Some(program) = compile(source, &[]) else { return };
    let done = Job::new(&program.path, &[]).run();
    done.succeeded();
    let chunks = &done.recording.chunks;
    assert!(chunks.iter().all(|chunk| chunk.origin == Origin::Simulated));
    assert_eq!(done.recording.sampled_share, 1.0);
    let first = &chunks[1];
    let last = chunks.iter().rev().find(|c| c.counts.instructions > 1_000_000).unwrap();
    assert!((1_000_000..1_200_000).contains(&first.counts.instructions), "{first:?}");
    let per_instruction =
        |c: &memweir_linux::record::Chunk| c.cycles / c.counts.instructions as f64;
    assert!(per_instruction(first) > 5.0 * per_instruction(last), "{first:?} {last:?}");
    // Misses that wait to be counted when a chunk ends belong to the next one.
    assert!(last.counts.reads.0 < 200, "{last:?}");
    let sampled: u64 = first.instruction_pointers.iter().map(|n| u64::from(*n)).sum();
    assert!(sampled * 1024 >= first.counts.instructions);
}

#[test]
fn a_program_that_asks_the_cpu_and_one_for_avx2_run() {
    let source = r#"
#include <stdio.h>
int main(void) {
    __builtin_cpu_init();
    printf("%d %d\n", !!__builtin_cpu_supports("avx2"), !!__builtin_cpu_supports("avx512f"));
    return 0;
}
"#;
    let Some(program) = compile(source, &[]) else { return };
    let done = Job::new(&program.path, &[]).run();
    assert_eq!(done.stdout, "1 0\n");
    let source = r"
int main(int argc, char **argv) {
    volatile double a[64]; double b[64], s = 0;
    for (int i = 0; i < 64; i++) a[i] = i * argc;
    for (int i = 0; i < 64; i++) b[i] = a[i] * 2 + 1;
    for (int i = 0; i < 64; i++) s += b[i];
    return s == 64 * 63 + 64 ? 0 : 1;
}
";
    let Some(program) = compile(source, &["-O3", "-march=x86-64-v3"]) else { return };
    Job::new(&program.path, &[]).run().succeeded();
}

#[test]
fn programs_compiled_for_avx512_are_refused_or_explained() {
    let source = "int main(void) { return 0; }";
    let Some(marked) = compile(source, &["-Wl,-z,x86-64-v4"]) else { return };
    let job = Job::new(&marked.path, &[]);
    let error = record(job.launch, &plan()).unwrap_err();
    assert!(error.to_string().contains("AVX-512"), "{error}");
    let source = r#"int main(void) { __asm__ volatile("vpxorq %zmm0,%zmm0,%zmm0"); return 0; }"#;
    let Some(program) = compile(source, &[]) else { return };
    let done = Job::new(&program.path, &[]).run();
    assert!(!done.recording.status.success());
    assert!(done.recording.notices.iter().any(|n| n.contains("AVX-512")), "{:?}", done.recording);
}

#[test]
fn what_is_no_program_is_refused_with_the_reason() {
    if emulator_is_missing() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let refusal = |content: &[u8]| {
        let path = directory.path().join("p");
        std::fs::write(&path, content).unwrap();
        record(Job::new(&path, &[]).launch, &plan()).unwrap_err().to_string()
    };
    assert!(refusal(b"hello").contains("neither an ELF program nor a script"));
    assert!(refusal(b"#!/nonexistent/sh\n").contains("its interpreter /nonexistent/sh"));
    assert!(
        refusal(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\xb7\0").contains("another machine")
    );
    let plan = CountingPlan { chunk_instructions: Some(1), ..plan() };
    let error = record(Job::shell("true").launch, &plan).unwrap_err();
    assert!(matches!(error, RecordError::Option(_)), "{error}");
}
