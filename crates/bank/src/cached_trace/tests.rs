use std::io::Cursor;

use memweir_core::Bytes;
use memweir_core::cache::CacheGeometry;
use memweir_trace::{AddressSpace, Format, Header, Side, Writer};
use proptest::prelude::*;

use super::*;

const R: Direction = Direction::Read;
const W: Direction = Direction::Write;

fn access(thread: u32, gap: u64, address: u64, direction: Direction) -> Access {
    Access { address, gap, thread: ThreadId { process: 0, thread }, direction }
}

fn trace(accesses: &[Access]) -> Trace {
    trace_of(AddressSpace::Physical, accesses)
}

fn trace_of(addresses: AddressSpace, accesses: &[Access]) -> Trace {
    let header = Header { side: Side::Core, addresses, ..Header::default() };
    let mut writer = Writer::start(Vec::new(), Format::Memweir, &header).unwrap();
    accesses.iter().for_each(|access| writer.push(access).unwrap());
    Trace::read("t", Box::new(Cursor::new(writer.finish().unwrap().0)), None).unwrap()
}

/// Caches with this many lines in each set of their levels, one set each.
fn caches(first: u32, second: u32, last: u32) -> CacheHierarchy {
    let cache = |ways: u32| CacheGeometry::new(Bytes(u64::from(ways) * 64), ways);
    CacheHierarchy { l1d: cache(first), l2: cache(second), llc: cache(last) }
}

fn behind(accesses: &[Access], caches: CacheHierarchy) -> Vec<Access> {
    all_of(trace(accesses), caches)
}

fn all_of(trace: Trace, caches: CacheHierarchy) -> Vec<Access> {
    let mut behind = CachedTrace::new(trace, Some(caches));
    std::iter::from_fn(|| behind.next_access().unwrap()).collect()
}

#[test]
fn hits_lengthen_the_gap_of_the_next_miss() {
    let accesses = [
        access(0, 5, 0x1000, R),
        access(0, 1, 0x1008, W),
        access(0, 2, 0x1030, R),
        access(0, 4, 0x2000, R),
    ];
    let wanted = [access(0, 5, 0x1000, R), access(0, 7, 0x2000, R)];
    assert_eq!(behind(&accesses, caches(2, 4, 8)), wanted);
}

#[test]
fn a_store_fetches_its_line_and_writes_it_back_when_it_leaves_the_last_level() {
    // One line per level: each new line pushes the one before it a level further.
    let accesses = [
        access(0, 1, 0x000, W),
        access(0, 1, 0x040, R),
        access(0, 1, 0x080, R),
        access(0, 1, 0x0c0, R),
    ];
    // The fourth load evicts line 0 from the last level, where the third has put it.
    let wanted = [
        access(0, 1, 0x000, R),
        access(0, 1, 0x040, R),
        access(0, 1, 0x080, R),
        access(0, 1, 0x0c0, R),
        access(0, 0, 0x000, W),
    ];
    assert_eq!(behind(&accesses, caches(1, 1, 1)), wanted);
}

#[test]
fn threads_share_the_last_level_alone() {
    let accesses = [
        access(1, 1, 0x40, R),
        access(2, 3, 0x40, R),
        access(2, 1, 0x80, R),
        access(1, 9, 0x80, R),
        access(1, 1, 0xc0, R),
    ];
    let wanted = [access(1, 1, 0x40, R), access(2, 4, 0x80, R), access(1, 10, 0xc0, R)];
    assert_eq!(behind(&accesses, caches(1, 1, 8)), wanted);
}

#[test]
fn equal_virtual_addresses_of_two_processes_are_two_lines() {
    let of = |process: u32, address, direction| Access {
        thread: ThreadId { process, thread: 0 },
        ..access(0, 1, address, direction)
    };
    let kernel = 0xffff_ffff_8100_0000;
    let accesses = [
        of(7, 0x40, W),
        of(9, 0x40, R),
        of(9, kernel, W),
        of(7, 0x80, R),
        of(9, 0xc0, R),
        of(7, 0x100, R),
        of(9, 0x140, R),
        of(7, 0x180, R),
    ];
    let found = all_of(trace_of(AddressSpace::Virtual, &accesses), caches(1, 1, 1));
    let read = |process, address| of(process, address, R);
    let written_back = |process, address| Access { gap: 0, ..of(process, address, W) };
    // The third new line after a store pushes its line into the last level, and the next miss of
    // the other process evicts it there.
    let wanted = [
        read(7, 0x40),
        read(9, 0x40),
        read(9, kernel),
        read(7, 0x80),
        read(9, 0xc0),
        read(7, 0x100),
        read(9, 0x140),
        written_back(7, 0x40),
        read(7, 0x180),
        written_back(9, kernel),
    ];
    assert_eq!(found, wanted);
    // Physical addresses are the same lines whoever uses them.
    let found = all_of(trace_of(AddressSpace::Physical, &accesses[..2]), caches(1, 1, 2));
    assert_eq!(found, [of(7, 0x40, R)]);
}

#[test]
fn addresses_keep_their_sign() {
    let kernel = 0xffff_ffff_8100_0000;
    let accesses = [access(0, 1, kernel, W), access(0, 1, 0x7fff_ffff_f000, W)];
    let found = behind(&accesses, caches(1, 1, 1));
    assert_eq!(found.iter().map(|a| a.address).collect::<Vec<_>>(), [kernel, 0x7fff_ffff_f000]);
    let mut odd = CachedTrace::new(trace(&[access(0, 1, 1 << 60, R)]), Some(caches(1, 1, 1)));
    let error = odd.next_access().unwrap_err().to_string();
    assert_eq!(error, "t: access 1: 0x1000000000000000 is no address of a processor");
}

#[test]
fn too_many_threads_are_refused() {
    let accesses: Vec<_> = (0..=1024).map(|thread| access(thread, 1, 0x40, R)).collect();
    let mut many = CachedTrace::new(trace(&accesses), Some(caches(1, 1, 1)));
    let error = loop {
        match many.next_access() {
            Ok(found) => assert!(found.is_some()),
            Err(error) => break error.to_string(),
        }
    };
    assert_eq!(error, "t: access 1025: the trace has more than 1024 threads");
}

#[test]
fn without_caches_a_trace_stays_as_it_is() {
    let accesses = [access(0, 1, 0x40, R), access(0, 0, 0x40, W), access(1, 1, 0x40, R)];
    let mut same = CachedTrace::new(trace(&accesses), None);
    let found: Vec<_> = std::iter::from_fn(|| same.next_access().unwrap()).collect();
    assert_eq!(found, accesses);
}

proptest! {
    #[test]
    fn memory_holds_what_was_written(
        accesses in prop::collection::vec((0u32..2, 0u64..4, 0u64..24, any::<bool>()), 1..400),
        (first, second, last) in (1u32..4, 1u32..6, 1u32..10),
    ) {
        let accesses: Vec<Access> = accesses
            .into_iter()
            .map(|(thread, gap, line, write)| {
                access(thread, gap, line * 64, if write { W } else { R })
            })
            .collect();
        let found = behind(&accesses, caches(first, second, last));
        // Instructions are neither lost nor counted twice, up to each thread's last miss.
        let sum = |all: &[Access], thread| -> u64 {
            all.iter().filter(|a| a.thread.thread == thread).map(|a| a.gap).sum()
        };
        for thread in 0..2 {
            prop_assert!(sum(&found, thread) <= sum(&accesses, thread));
        }
        // A line is fetched before it is used, and only a line that was stored is written back.
        for line in 0..24 {
            let of_line = |all: &[Access]| -> Vec<Direction> {
                all.iter().filter(|a| a.address == line * 64).map(|a| a.direction).collect()
            };
            let (used, moved) = (of_line(&accesses), of_line(&found));
            prop_assert_eq!(used.is_empty(), moved.is_empty());
            prop_assert!(moved.first() != Some(&W));
            prop_assert!(used.contains(&W) || !moved.contains(&W));
        }
    }
}
