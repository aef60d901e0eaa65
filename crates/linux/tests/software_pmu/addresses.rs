//! Recorded addresses: all of them, in order, by thread and process, however slow the recorder.

use std::collections::HashMap;
use std::time::Duration;

use memweir_abi::softpmu::LineBatch;
use memweir_linux::launch::Signals;
use memweir_linux::qemu::QemuPaths;
use memweir_linux::record::{RecordError, Recording, Sampling, record};
use memweir_linux::softpmu::CountingPlan;

use crate::common::*;

fn recorded(job: Job, mut each: impl FnMut(usize)) -> (Recording, Vec<LineBatch>) {
    let (launch, _) = job.into_parts();
    let mut batches = Vec::new();
    let mut sink = |batch: &LineBatch| {
        each(batches.len());
        batches.push(batch.clone());
    };
    let signals = Signals::caught().unwrap();
    let paths = QemuPaths::default();
    let recording = record(launch, &plan(), &paths, &signals, &mut |_| (), Some(&mut sink));
    let recording = recording.unwrap();
    assert!(recording.status.success());
    (recording, batches)
}

/// Returns the reads and writes in `batches`, and those of the counters.
fn counts(recording: &Recording, batches: &[LineBatch]) -> [(u64, u64); 2] {
    let writes = |write| {
        let accesses = batches.iter().flat_map(|batch| &batch.accesses);
        accesses.filter(|access| access.write == write).count() as u64
    };
    let sum = |of: fn(&memweir_core::Counts) -> u64| {
        recording.chunks.iter().map(|chunk| of(&chunk.counts)).sum::<u64>()
    };
    [(writes(false), sum(|c| c.reads.0)), (writes(true), sum(|c| c.writes.0))]
}

#[test]
fn a_stream_comes_line_by_line_with_its_instructions() {
    let Some(stream) = compile(STREAM, &[]) else { return };
    let (recording, batches) = recorded(Job::new(&stream.path, &["16", "2", "w"]), |_| ());
    for (recorded, counted) in counts(&recording, &batches) {
        assert_eq!(recorded, counted);
    }
    let accesses: Vec<_> = batches.iter().flat_map(|batch| &batch.accesses).collect();
    let reads: Vec<_> = accesses.iter().filter(|access| !access.write).collect();
    let next = reads.windows(2).filter(|pair| pair[1].line == pair[0].line + 1).count();
    assert!(next > 2 * (16 << 20) / 64 * 99 / 100, "{next} of {} in order", reads.len());
    assert!(accesses.iter().all(|access| (access.gap == 0) == access.write));
    let told: u64 = accesses.iter().map(|access| access.gap).sum();
    let executed: u64 = recording.chunks.iter().map(|chunk| chunk.counts.instructions).sum();
    assert!(told <= executed + 1000 && told > executed * 8 / 10, "{told} of {executed}");
}

/// Two threads and a child, each of which reads 8 MiB of its own.
const THREADS_AND_A_CHILD: &str = r#"
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static void *sum(void *x) {
    volatile long *a = calloc(1 << 20, 8);
    long s = 0;
    for (long i = 0; i < (1 << 20); i += 8) s += a[i];
    return (void *)s;
}
int main(void) {
    pthread_t t[2];
    for (int i = 0; i < 2; i++) pthread_create(&t[i], 0, sum, 0);
    for (int i = 0; i < 2; i++) pthread_join(t[i], 0);
    if (!fork()) { sum(0); _exit(0); }
    wait(0);
    return 0;
}
"#;

#[test]
fn threads_and_children_are_told_apart() {
    let Some(program) = compile(THREADS_AND_A_CHILD, &["-pthread"]) else { return };
    let (recording, batches) = recorded(Job::new(&program.path, &[]), |_| ());
    for (recorded, counted) in counts(&recording, &batches) {
        assert_eq!(recorded, counted);
    }
    let mut reads: HashMap<(u32, u32), u64> = HashMap::new();
    for batch in &batches {
        for access in batch.accesses.iter().filter(|access| !access.write) {
            *reads.entry((access.space, batch.thread)).or_default() += 1;
        }
    }
    let many = reads.values().filter(|count| **count > (8 << 20) / 64 / 2).count();
    assert_eq!(many, 3, "{reads:?}");
    let spaces: std::collections::HashSet<u32> = reads.keys().map(|(space, _)| *space).collect();
    assert_eq!(spaces.len(), 2, "{reads:?}");
}

#[test]
fn a_program_waits_for_a_slow_recorder_and_loses_nothing() {
    let Some(stream) = compile(STREAM, &[]) else { return };
    // More than the ring holds, while the recorder takes nothing for a second.
    let job = Job::new(&stream.path, &["64", "1", "w"]);
    let (recording, batches) = recorded(job, |taken| {
        if taken == 100 {
            std::thread::sleep(Duration::from_millis(1000));
        }
    });
    for (recorded, counted) in counts(&recording, &batches) {
        assert_eq!(recorded, counted);
    }
    assert!(!recording.notices.iter().any(|notice| notice.contains("not recorded")));
}

#[test]
fn a_sampled_program_has_no_addresses() {
    let plan = CountingPlan { sampling: Sampling::Share(0.5), ..plan() };
    let (launch, _) = Job::shell("true").into_parts();
    let signals = Signals::caught().unwrap();
    let paths = QemuPaths::default();
    let recorded = record(launch, &plan, &paths, &signals, &mut |_| (), Some(&mut |_| ()));
    let error = recorded.unwrap_err();
    assert!(matches!(error, RecordError::Option(_)), "{error}");
}
