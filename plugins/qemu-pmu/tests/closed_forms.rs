//! The cache model compared with results that can be computed on paper.

use std::sync::atomic::AtomicU64;

use memweir_core::Bytes;
use memweir_core::cache::{CacheGeometry, CacheHierarchy};
use memweir_qemu_pmu::model::shared::SharedCache;
use memweir_qemu_pmu::model::vcpu::{Events, Room, VcpuCaches};
use proptest::prelude::*;

/// 64, 256 and 4,096 lines.
fn caches() -> CacheHierarchy {
    CacheHierarchy {
        l1d: CacheGeometry::new(Bytes(64 * 64), 4),
        l2: CacheGeometry::new(Bytes(256 * 64), 8),
        llc: CacheGeometry::new(Bytes(4096 * 64), 16),
    }
}

const LLC_LINES: u64 = 4096;

fn llc() -> SharedCache<'static> {
    let words: Vec<AtomicU64> = (0..LLC_LINES).map(|_| AtomicU64::new(0)).collect();
    SharedCache::new(Box::leak(words.into_boxed_slice()), 16, 1)
}

/// Accesses a line as the plugin does: the short way, else the long one, and events when the list
/// is full.
fn access(vcpu: &mut VcpuCaches, line: u64, dirty: u64, total: &mut Events) {
    if !vcpu.touch(line, dirty) && vcpu.access(line, dirty) == Room::None {
        *total += vcpu.take_events();
    }
}

fn run(vcpu: &mut VcpuCaches, lines: impl IntoIterator<Item = u64>, dirty: u64) -> Events {
    let mut total = Events::default();
    for line in lines {
        access(vcpu, line, dirty, &mut total);
    }
    total += vcpu.take_events();
    total
}

#[test]
fn a_stream_longer_than_the_cache_reads_every_line_every_time() {
    let mut vcpu = VcpuCaches::new(&caches(), llc());
    for _ in 0..3 {
        let events = run(&mut vcpu, 0..3 * LLC_LINES, 0);
        assert_eq!((events.reads, events.writes), (3 * LLC_LINES, 0));
        assert_eq!(events.l1_misses, 3 * LLC_LINES);
    }
}

#[test]
fn an_array_that_fits_is_read_once() {
    let mut vcpu = VcpuCaches::new(&caches(), llc());
    assert_eq!(run(&mut vcpu, 0..LLC_LINES, 0).reads, LLC_LINES);
    let again = run(&mut vcpu, 0..LLC_LINES, 0);
    assert_eq!((again.reads, again.writes), (0, 0));
    assert_eq!(again.l2_misses, LLC_LINES, "it fits the last level, not the second");
}

#[test]
fn every_access_to_the_same_line_after_the_first_is_free() {
    let mut vcpu = VcpuCaches::new(&caches(), llc());
    let events = run(&mut vcpu, std::iter::repeat_n(9, 1000), 1);
    assert_eq!(events, Events { l1_misses: 1, l2_misses: 1, reads: 1, ..Events::default() });
}

#[test]
fn a_write_stream_reads_and_writes_back_every_line() {
    let mut vcpu = VcpuCaches::new(&caches(), llc());
    run(&mut vcpu, 0..2 * LLC_LINES, 1);
    let steady = run(&mut vcpu, 2 * LLC_LINES..4 * LLC_LINES, 1);
    assert_eq!((steady.reads, steady.writes), (2 * LLC_LINES, 2 * LLC_LINES));
}

#[test]
fn a_dirty_line_is_written_back_once() {
    let mut vcpu = VcpuCaches::new(&caches(), llc());
    run(&mut vcpu, 0..100, 1);
    // Twice through everything, clean: the hundred lines leave once.
    assert_eq!(run(&mut vcpu, 1000..1000 + 2 * LLC_LINES, 0).writes, 100);
    assert_eq!(run(&mut vcpu, 1000..1000 + 2 * LLC_LINES, 0).writes, 0);
}

#[test]
fn a_pointer_chase_misses_when_it_is_longer_than_the_cache() {
    // A full cycle: 5 is a primitive step for a length that is a power of two plus odd increment.
    let chase = |length: u64| {
        let mut at = 0;
        (0..length).map(move |_| {
            at = (at * 5 + 1) % length;
            at
        })
    };
    let mut vcpu = VcpuCaches::new(&caches(), llc());
    run(&mut vcpu, chase(4 * LLC_LINES), 0);
    assert_eq!(run(&mut vcpu, chase(4 * LLC_LINES), 0).reads, 4 * LLC_LINES);
    let mut small = VcpuCaches::new(&caches(), llc());
    run(&mut small, chase(LLC_LINES / 2), 0);
    assert_eq!(run(&mut small, chase(LLC_LINES / 2), 0).reads, 0);
}

#[test]
fn two_programs_that_fit_alone_evict_each_other() {
    let llc = llc();
    let share = LLC_LINES * 3 / 4;
    let mut one = VcpuCaches::new(&caches(), llc);
    run(&mut one, 0..share, 0);
    assert_eq!(run(&mut one, 0..share, 0).reads, 0, "alone it fits");
    let mut two = VcpuCaches::new(&caches(), llc.in_address_space(2));
    let (mut reads_one, mut reads_two) = (0, 0);
    for _ in 0..4 {
        reads_two += run(&mut two, 0..share, 0).reads;
        reads_one += run(&mut one, 0..share, 0).reads;
    }
    assert_eq!(
        (reads_one, reads_two),
        (4 * share, 4 * share),
        "LRU thrashes on two cyclic readers"
    );
}

proptest! {
    /// For any accesses, no more lines are written back than were modified, and no level misses
    /// more often than the level above it does.
    #[test]
    fn levels_filter(accesses in proptest::collection::vec((0_u64..20_000, 0_u64..2), 1..4000)) {
        let mut vcpu = VcpuCaches::new(&caches(), llc());
        let mut events = Events::default();
        for (line, dirty) in &accesses {
            access(&mut vcpu, *line, *dirty, &mut events);
        }
        events += vcpu.take_events();
        let stores = accesses.iter().filter(|(_, dirty)| *dirty == 1).count() as u64;
        prop_assert!(events.l1_misses <= accesses.len() as u64);
        prop_assert!(events.l2_misses <= events.l1_misses);
        prop_assert!(events.reads <= events.l2_misses);
        prop_assert!(events.writes <= stores);
    }

    /// The fast path is an optimization only.
    #[test]
    fn the_fast_path_changes_nothing(
        accesses in proptest::collection::vec((0_u64..600, 0_u64..2), 1..2000),
    ) {
        let mut fast = VcpuCaches::new(&caches(), llc());
        let mut slow = VcpuCaches::new(&caches(), llc());
        let mut events = [Events::default(); 2];
        for (line, dirty) in accesses {
            access(&mut fast, line, dirty, &mut events[0]);
            if slow.access(line, dirty) == Room::None {
                events[1] += slow.take_events();
            }
        }
        events[0] += fast.take_events();
        events[1] += slow.take_events();
        prop_assert_eq!(events[0], events[1]);
    }
}

#[test]
fn a_flush_takes_what_is_modified_down_and_leaves_nothing() {
    let mut vcpu = VcpuCaches::new(&caches(), llc());
    let mut total = run(&mut vcpu, 0..40, 1);
    total += run(&mut vcpu, 40..100, 0);
    assert_eq!((total.l1_misses, total.reads), (100, 100));
    vcpu.flush();
    let flushed = vcpu.take_events();
    assert_eq!((flushed.reads, flushed.writes), (0, 0), "the last level has room");
    let again = run(&mut vcpu, 0..100, 0);
    assert_eq!((again.l1_misses, again.l2_misses, again.reads), (100, 100, 0));
    // A modified line stays modified until it leaves the last level.
    assert_eq!(run(&mut vcpu, 1000..1000 + 2 * LLC_LINES, 0).writes, 40);
}
