//! Pages of real programs in several media (H8).

use memweir_core::medium::data::MediumData;
use memweir_core::placement::{Placement, PlacementSpec};
use memweir_core::{Media, MediumId, Traffic};
use memweir_linux::softpmu::CountingPlan;

use crate::common::*;

/// Lines of the two megabytes' last level.
const LLC_LINES: u64 = 2 << 14;

/// Lines that a program reads and writes besides those of its task.
const OTHER: u64 = 6_000;

fn placed(text: &str) -> CountingPlan {
    let pram = MediumData::shipped("pram").unwrap();
    let media = Media::with_dram(&[pram]).unwrap();
    let placement: Placement = text.parse::<PlacementSpec>().unwrap().resolve(&media).unwrap();
    CountingPlan { placement, ..plan() }
}

fn traffic(done: &Done) -> [Traffic; 2] {
    let of = |medium| {
        let chunks = done.recording.chunks.iter().map(|chunk| chunk.counts.traffic(medium));
        chunks.fold(Traffic::default(), |sum, traffic| sum + traffic)
    };
    [0, 1].map(|number| of(MediumId::new(number).unwrap()))
}

#[test]
fn a_share_of_a_streams_pages_is_that_share_of_its_lines() {
    let Some(stream) = compile(STREAM, &[]) else { return };
    // 64 MiB, written twice: 2^20 lines each time.
    let done = Job::new(&stream.path, &["64", "2", "store"]).record(&placed("pram=75%"));
    done.succeeded();
    let [dram, pram] = traffic(&done);
    let share = pram.reads.as_f64() / (pram.reads + dram.reads).as_f64();
    assert!((0.73..0.77).contains(&share), "{share}");
    let share = pram.writes.as_f64() / (pram.writes + dram.writes).as_f64();
    assert!((0.73..0.77).contains(&share), "{share}");
    let written = (pram.writes + dram.writes).0;
    let expected = 2 << 20;
    // Lines in the caches at the end are not written back.
    assert!((expected - LLC_LINES - OTHER..expected + OTHER).contains(&written), "{written}");
}

#[test]
fn the_same_program_lies_in_the_same_places_again() {
    let Some(stream) = compile(STREAM, &["-static"]) else { return };
    let run = || {
        let done = Job::new(&stream.path, &["16", "1"]).record(&placed("pram=50%"));
        traffic(&done)[1].reads.0
    };
    let (one, two) = (run(), run());
    // Stack and auxiliary vector are at random addresses; the array is not.
    assert!(one.abs_diff(two) < 100, "{one} and {two}");
}

#[test]
fn hot_pages_move_to_dram() {
    // 16 MiB read once, and then 4 MiB, which do not fit the last level, again and again.
    let source = r"
#include <stddef.h>
#include <sys/mman.h>
int main(void) {
    size_t cold = 16 << 20, hot = 4 << 20;
    volatile char *a = mmap(0, cold + hot, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    long sum = 0;
    for (size_t i = 0; i < cold; i += 64) sum += a[i];
    for (int t = 0; t < 20; t++) for (size_t i = 0; i < hot; i += 64) sum += a[cold + i];
    return sum != 0;
}
";
    let Some(program) = compile(source, &[]) else { return };
    let done = Job::new(&program.path, &[]).record(&placed("hot=5MiB,every=100000"));
    done.succeeded();
    let [dram, pram] = traffic(&done);
    // The first five megabytes of the cold ones find room; the rest of them and the first round of
    // the hot ones do not. Of the 20 rounds of 65,536 lines, all but the first few are DRAM's.
    assert!(dram.reads.0 > 15 * 65_536, "{dram:?} {pram:?}");
    assert!(pram.reads.0 < 11 * 16_384 + 5 * 65_536 + OTHER, "{dram:?} {pram:?}");
    let moved = done.recording.notices.iter().any(|notice| notice.contains("moved between media"));
    assert!(moved, "{:?}", done.recording.notices);
}

#[test]
fn a_range_of_addresses_lies_where_it_is_told_to() {
    // A fixed address, so that the test knows it.
    let source = r"
#include <stddef.h>
#include <sys/mman.h>
int main(void) {
    size_t size = 16 << 20;
    volatile char *a = mmap((void *)0x10000000, size, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    long sum = 0;
    for (size_t i = 0; i < size; i += 64) sum += a[i];
    return sum != 0;
}
";
    let Some(program) = compile(source, &[]) else { return };
    let done = Job::new(&program.path, &[]).record(&placed("0x10000000-0x10800000=pram"));
    done.succeeded();
    let [dram, pram] = traffic(&done);
    assert_eq!(pram.reads.0, 8 << 14, "eight megabytes and nothing else");
    assert!((8 << 14..(8 << 14) + OTHER).contains(&dram.reads.0), "{dram:?}");
}

#[test]
fn children_have_pages_of_their_own_and_are_placed_like_their_parents() {
    let Some(stream) = compile(STREAM, &[]) else { return };
    let path = stream.path.display();
    let done = Job::shell(&format!("{path} 16 1 & {path} 16 1; wait")).record(&placed("pram"));
    let [dram, pram] = traffic(&done);
    // A race of the two in one set can cost a line its medium.
    assert_eq!(dram.reads.0, 0);
    assert!(dram.writes.0 < 16, "{dram:?}");
    assert!(pram.reads.0 >= 2 << 18, "{pram:?}");
}
