//! Behavior of controllers that does not depend on the timing: the blame for conflicts, the order
//! of service, and that every request is served under every option.

mod common;

use common::{Kind, Seen, machine_h, run, trace};
use memweir_core::names::Named;
use memweir_core::{Cycles, Direction, PhysAddr};
use memweir_dram::command::CommandKind;
use memweir_dram::config::{MapLayout, PagePolicy, PowerPolicy, RefreshPolicy, Scheduler};
use memweir_dram::drive::Mode;
use memweir_dram::request::{Request, RowOutcome, Source};
use memweir_dram::{MemoryConfig, MemorySpec, MemorySystem};
use proptest::prelude::*;

const ROW: u64 = 1 << 17;

/// Offers a request as soon as there is room; returns the next cycle.
fn offer(memory: &mut MemorySystem, now: u64, request: Request, seen: &mut Seen) -> u64 {
    let mut now = now;
    while memory.enqueue(Cycles(now), request).is_err() {
        let next = memory.next_event().expect("it is full").0;
        memory.advance(Cycles(next), seen);
        now = next + 1;
    }
    memory.advance(Cycles(now), seen);
    now + 1
}

fn drain(memory: &mut MemorySystem, seen: &mut Seen) {
    while let Some(next) = memory.next_event() {
        memory.advance(next, seen);
    }
}

fn request(address: u64, direction: Direction, source: u16, tag: u32) -> Request {
    Request { address: PhysAddr(address), direction, source: Source(source), tag }
}

#[test]
fn a_conflict_is_blamed_on_whoever_opened_the_row() {
    let mut memory = MemorySystem::new(&machine_h()).unwrap();
    let mut seen = Seen::default();
    for (now, row, source) in [(0, 0, 1), (100, 0, 2), (200, 1, 3), (300, 0, 1)] {
        let read = request(row * ROW, Direction::Read, source, 0);
        offer(&mut memory, now, read, &mut seen);
        drain(&mut memory, &mut seen);
    }
    let found: Vec<_> = seen.completions.iter().map(|c| (c.outcome, c.blamed)).collect();
    let expected = [
        (RowOutcome::Miss, None),
        (RowOutcome::Hit, None),
        // Source 2 only used the row that source 1 had opened.
        (RowOutcome::Conflict, Some(Source(1))),
        (RowOutcome::Conflict, Some(Source(3))),
    ];
    assert_eq!(found, expected);
}

#[test]
fn reads_of_lines_that_wait_to_be_written_are_answered_at_once() {
    let mut memory = MemorySystem::new(&machine_h()).unwrap();
    let mut seen = Seen::default();
    let (read, write) = (Direction::Read, Direction::Write);
    // A read elsewhere keeps the write waiting.
    for (now, address, direction) in [(0, ROW, read), (0, 0, write), (1, 0, read), (1, 0, write)] {
        memory.enqueue(Cycles(now), request(address, direction, 0, 0)).unwrap();
    }
    drain(&mut memory, &mut seen);
    let stats = memory.stats();
    assert_eq!((stats.reads, stats.writes), (2, 2));
    assert_eq!((stats.forwarded, stats.coalesced), (1, 1));
    assert_eq!((stats.row_hits, stats.row_misses, stats.row_conflicts), (2, 1, 1));
    assert_eq!(seen.completions[0].done, Cycles(2));
}

/// Returns the wait of a read of `row`, which has been opened before, while requests stream through
/// another. In both layouts the next line of its bank group is 64 or 256 bytes away, so that 256
/// bytes are in the open row.
fn wait_behind_a_stream(config: &MemoryConfig, stream: u64, row: u64) -> u64 {
    let mut memory = MemorySystem::new(config).unwrap();
    let mut seen = Seen::default();
    let mut now = offer(&mut memory, 0, request(row, Direction::Read, 0, 1), &mut seen);
    for line in 0..8000 {
        if line == 100 {
            now = offer(&mut memory, now, request(row + 256, Direction::Read, 1, 0), &mut seen);
        }
        let hit = request(stream + line % 128 * 64, Direction::Read, 0, 1);
        now = offer(&mut memory, now, hit, &mut seen);
    }
    drain(&mut memory, &mut seen);
    let other = seen.completions.iter().find(|c| c.request.tag == 0).unwrap();
    other.done.0 - other.accepted.0
}

fn check_that_none_starves(mut config: MemoryConfig, stream: u64, row: u64) {
    config.refresh = RefreshPolicy::Off;
    for scheduler in [Scheduler::FrFcfs, Scheduler::FrFcfsHit, Scheduler::PerBank] {
        config.scheduler = scheduler;
        config.age_limit = Some(Cycles(2000));
        let limited = wait_behind_a_stream(&config, stream, row);
        assert!((2000..2200).contains(&limited), "{scheduler:?}: {limited}");
        config.age_limit = None;
        let unlimited = wait_behind_a_stream(&config, stream, row);
        assert!(unlimited > 30_000, "{scheduler:?}: {unlimited}");
    }
}

#[test]
fn nobody_starves_behind_row_hits() {
    check_that_none_starves(machine_h(), 0, ROW);
}

#[test]
fn no_hit_starves_behind_those_of_another_rank() {
    const RANK: u64 = 1 << 15;
    let spec = std::sync::Arc::new(machine_h().spec().clone());
    let config = MemoryConfig::of_ranks(vec![spec; 2], 1);
    check_that_none_starves(config.clone(), 0, RANK);
    check_that_none_starves(config, RANK, 0);
}

#[test]
fn reads_are_served_although_writes_never_end() {
    let mut config = machine_h();
    config.age_limit = Some(Cycles(3000));
    let mut memory = MemorySystem::new(&config).unwrap();
    let mut seen = Seen::default();
    let mut now = 0;
    for i in 0..3000 {
        if i == 100 {
            memory.enqueue(Cycles(now), request(ROW, Direction::Read, 0, 7)).unwrap();
        }
        now = offer(&mut memory, now, request(i * 8192, Direction::Write, 0, 0), &mut seen);
    }
    drain(&mut memory, &mut seen);
    let read = seen.completions.iter().find(|c| c.request.tag == 7).unwrap();
    assert!(read.done.0 - read.accepted.0 < 3500, "{read:?}");
}

/// Row hits of one bank, as many as there is room for in each cycle. The queue of writes is always
/// full, so a drain lasts for the age limit of 300 cycles, in which a write is sent every 6
/// (tCCD_L). Then the 32 reads that wait are served, in 192 cycles.
#[test]
fn neither_reads_nor_writes_that_never_end_stop_the_others() {
    let mut config = machine_h();
    config.age_limit = Some(Cycles(300));
    config.refresh = RefreshPolicy::Off;
    let mut memory = MemorySystem::new(&config).unwrap();
    let mut seen = Seen::default();
    let mut sent = [0, 0];
    for now in 0..50_000 {
        for (direction, first) in [(Direction::Read, 0), (Direction::Write, 64)] {
            let count = &mut sent[direction as usize];
            let line = first + *count % 64;
            let request = request(line * 64, direction, 0, 0);
            *count += u64::from(memory.enqueue(Cycles(now), request).is_ok());
        }
        memory.advance(Cycles(now), &mut seen);
    }
    let writes = seen.completions.iter().filter(|c| c.request.direction == Direction::Write);
    let writes = writes.count() as f64 / seen.completions.len() as f64;
    // Some 50 of each 82, and each change of the direction takes a while.
    assert!((0.5..0.65).contains(&writes), "{writes}");
}

#[test]
fn in_order_means_in_order() {
    let mut config = machine_h();
    config.scheduler = Scheduler::Fcfs;
    let mut seen = Seen::default();
    run(&config, trace(Kind::RandR).take(2000), Mode::Saturate, &mut seen);
    let served = seen.completions.iter().map(|completion| completion.request.address.0);
    assert!(served.eq(trace(Kind::RandR).take(2000)));
}

#[test]
fn keeping_rows_open_pays_for_streams_and_closing_them_for_chance() {
    let cycles = |kind, page| {
        let mut config = machine_h();
        config.page = page;
        run(&config, trace(kind).take(20_000), Mode::Parallel(1), &mut ()).cycles()
    };
    let closed = PagePolicy::Closed { accesses: 1 };
    assert!(cycles(Kind::StreamR, PagePolicy::Open) < 0.7 * cycles(Kind::StreamR, closed));
    assert!(cycles(Kind::RandR, closed) < 0.8 * cycles(Kind::RandR, PagePolicy::Open));
}

fn configs() -> impl Strategy<Value = MemoryConfig> {
    let schedulers = Scheduler::ALL;
    let pages = [
        PagePolicy::Open,
        PagePolicy::Closed { accesses: 1 },
        PagePolicy::Closed { accesses: 4 },
        PagePolicy::Adaptive { timeout: Cycles(100) },
    ];
    let refreshes = [RefreshPolicy::AllBank, RefreshPolicy::Staggered, RefreshPolicy::Off];
    let sleep = [None, Some(Cycles(1)), Some(Cycles(300))];
    (
        prop::sample::select(schedulers.to_vec()),
        prop::sample::select(pages.to_vec()),
        prop::sample::select(refreshes.to_vec()),
        prop::sample::select(sleep.to_vec()),
        prop::sample::select(sleep.to_vec()),
        (1u32..40, 1u32..40, 0u32..3, 0u32..2, 100u64..3000),
    )
        .prop_map(|(scheduler, page, refresh, down, deep, sizes)| {
            let spec = std::sync::Arc::new(machine_h().spec().clone());
            let (reads, writes, ranks, channels, age) = sizes;
            let mut config = MemoryConfig::of_ranks(vec![spec; 1 << ranks], 1 << channels);
            (config.scheduler, config.page, config.refresh) = (scheduler, page, refresh);
            (config.read_queue, config.write_queue) = (reads, writes);
            config.age_limit = Some(Cycles(age));
            config.power = PowerPolicy { power_down_after: down, self_refresh_after: deep };
            config
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever the options, every request is answered once and all sums agree (`run` verifies).
    #[test]
    fn everything_is_served(
        config in configs(),
        words in prop::collection::vec((0u64..1 << 20, any::<bool>()), 1..400),
        pace in prop::option::of(1u64..500),
    ) {
        let words = words.iter().map(|(line, writes)| {
            // Few banks and rows, so that requests meet.
            (line & 0x1f | (line >> 5 & 3) << 7 | (line >> 7 & 7) << 11) << 6 | u64::from(*writes)
        });
        let words: Vec<u64> = words.collect();
        let count = words.len() as u64;
        let mode = pace.map_or(Mode::Saturate, Mode::Pace);
        let run = run(&config, words, mode, &mut ());
        prop_assert_eq!(run.driven.requests(), count);
    }
}

#[test]
fn banks_are_refreshed_in_turn() {
    for (name, turns) in [("lpddr4-3200", 8), ("ddr5-4800", 4)] {
        let mut config = MemoryConfig::new(MemorySpec::shipped(name).unwrap());
        config.refresh = RefreshPolicy::PerBank;
        let interval = config.spec().bank_refresh_interval().unwrap().0;
        let mut memory = MemorySystem::new(&config).unwrap();
        let mut seen = Seen::default();
        let controllers = u64::from(config.controllers());
        memory.advance(Cycles(interval * 2 * turns), &mut seen);
        seen.commands.retain(|command| command.kind == CommandKind::RefreshBank);
        assert_eq!(seen.commands.len() as u64, 2 * turns * controllers, "{name}");
        let last = seen.commands.last().unwrap();
        assert_eq!((last.at.0, last.to.bank), (interval * 2 * turns, turns as u16 - 1), "{name}");
        assert!(seen.commands.iter().all(|command| command.to.group == 0), "{name}");
    }
}

#[test]
fn the_other_banks_work_while_one_is_refreshed() {
    let latency = |refresh| {
        let mut config = MemoryConfig::new(MemorySpec::shipped("ddr5-4800").unwrap());
        config.refresh = refresh;
        // Refresh closes rows: with open pages it would spare random reads a conflict.
        config.page = PagePolicy::Closed { accesses: 1 };
        run(&config, trace(Kind::RandR).take(50_000), Mode::Pace(301), &mut ()).mean_latency()
    };
    let (off, all_bank) = (latency(RefreshPolicy::Off), latency(RefreshPolicy::AllBank));
    let per_bank = latency(RefreshPolicy::PerBank);
    // A read in all-bank refresh waits for half of tRFC, one in the refresh of its own bank for
    // half of tRFCsb: in cycles, 710^2 / 2 / 9375 = 27 on average, and a quarter of 313^2 / 2 /
    // 1171 = 10. The latter prevents activates of other banks for tREFSBRD: 72^2 / 2 / 1171 = 2
    // more.
    assert!((15.0..35.0).contains(&(all_bank - off)), "{off} {all_bank}");
    assert!((5.0..15.0).contains(&(per_bank - off)), "{off} {per_bank}");
}

#[test]
fn dram_and_slower_cells_share_a_channel() {
    let dram = include_str!("../data/ddr4-2400.toml");
    let slow = dram
        .replace("kind = \"dram\"", "kind = \"nvm\"")
        .replace("tRCD = 17", "tRCD = 120")
        .replace("tWR = 18", "tWR = 360")
        .replace("tREFI = 9360\n", "");
    let slow = MemorySpec::parse("slow", &slow).unwrap();
    let dram = MemorySpec::shipped("ddr4-2400").unwrap();
    let config = MemoryConfig::of_ranks(vec![dram.into(), slow.into()], 1);
    let config = config.with_layout(MapLayout::Plain);
    let rank = 1 << 13;
    let mut seen = Seen::default();
    run(&config, [0, rank, 2 * ROW + rank + 64], Mode::Parallel(1), &mut seen);
    // 17 + 17 + 4; 120 + 17 + 4; and 17 more to close the other row.
    assert_eq!(seen.latencies(), [38, 141, 158]);
}

#[test]
fn refreshes_of_banks_that_take_no_time_or_all_of_it_are_refused() {
    let text = include_str!("../data/lpddr4-3200.toml");
    // A bank is refreshed every 6246 / 8 = 780 cycles.
    for (to, reason) in [("", "does not say how long"), ("tRFCpb = 780\n", "without pause")] {
        let text = text.replace("tRFCpb = { ns = 140 }\n", to);
        let mut config = MemoryConfig::new(MemorySpec::parse("x", &text).unwrap());
        config.validate().unwrap();
        config.refresh = RefreshPolicy::PerBank;
        let refused = config.validate().unwrap_err();
        assert!(refused.reason.contains(reason), "{refused:?}");
    }
}

#[test]
fn ranks_of_a_channel_that_are_not_alike_are_refused() {
    let text = include_str!("../data/ddr4-2400.toml");
    for (from, to) in [("clock_ns = 0.833", "clock_ns = 0.75"), ("rows = 65536", "rows = 32768")] {
        let other = MemorySpec::parse("other", &text.replace(from, to)).unwrap();
        let ranks = vec![machine_h().spec().clone().into(), other.into()];
        let refused = MemoryConfig::of_ranks(ranks, 1).validate().unwrap_err();
        assert!(refused.reason.contains("on one channel"), "{to}: {refused:?}");
    }
}

#[test]
fn queues_that_cannot_be_held_are_refused() {
    let mut config = machine_h();
    config.read_queue = 4096;
    config.validate().unwrap();
    config.scheduler = Scheduler::PerBank;
    assert!(config.validate().unwrap_err().reason.contains("16 banks"));
    config.read_queue = 0;
    assert!(config.validate().unwrap_err().reason.contains("a read queue of 0"));
    config.read_queue = 32;
    for watermarks in [(0.9, 0.8), (-0.1, 0.8), (0.2, 1.1)] {
        (config.low_watermark, config.high_watermark) = watermarks;
        assert!(config.validate().unwrap_err().reason.contains("watermarks"), "{watermarks:?}");
    }
}

/// LPDDR2: four rows take 18 of the 27 cycles of tFAW, and a refresh of a bank counts like one.
#[test]
fn rows_wait_for_refreshes_of_banks_in_the_window_of_four() {
    let mut config = MemoryConfig::new(MemorySpec::shipped("lpddr2-1066").unwrap());
    config.refresh = RefreshPolicy::PerBank;
    let mut seen = Seen::default();
    let words = trace(Kind::RandR).map(|word| word & ((1 << 29) - 1)).take(20_000);
    run(&config, words, Mode::Saturate, &mut seen);
    let mut counted = seen.kinds();
    counted.retain(|(_, kind)| matches!(kind, CommandKind::Activate | CommandKind::RefreshBank));
    let fourth = |kind: CommandKind| {
        let windows = counted.windows(5).filter(|w| w.iter().any(|(_, known)| *known == kind));
        windows.map(|w| w[4].0 - w[0].0).min().unwrap()
    };
    assert_eq!(fourth(CommandKind::Activate), 27);
    assert_eq!(fourth(CommandKind::RefreshBank), 27);
}

/// Returns the longest wait of reads here and there, among row hits and writes that never end.
fn longest_wait(config: &MemoryConfig, seed: u64) -> u64 {
    let mut memory = MemorySystem::new(config).unwrap();
    let mut seen = Seen::default();
    let (mut now, mut state) = (0, seed);
    for i in 0..30_000u64 {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let chance = state >> 33;
        // One in 64 asks for another row of the bank through which the others stream.
        let (address, direction, source) = match chance % 64 {
            0 => ((chance >> 8) % 512 * ROW, Direction::Read, 1),
            1..20 => (chance % 128 * 64, Direction::Write, 0),
            _ => (i % 128 * 64, Direction::Read, 0),
        };
        now = offer(&mut memory, now, request(address, direction, source, 0), &mut seen);
    }
    drain(&mut memory, &mut seen);
    seen.completions.retain(|completion| completion.request.source == Source(1));
    seen.latencies().into_iter().max().expect("there are such reads")
}

/// A read that has waited for the limit is served before all younger requests. It still waits for
/// the reads that are as old (at most the queue's 32 of one bank, tRC 56 each), for writes in
/// progress, and for a refresh. Without a limit it waits as long as others request the row in its
/// way.
#[test]
fn whoever_starves_is_served_within_the_age_limit() {
    const OLDER: u64 = 32 * 56 + 420 + 200;
    for scheduler in [Scheduler::FrFcfs, Scheduler::FrFcfsHit, Scheduler::PerBank] {
        for seed in 0..4 {
            for limit in [300, 1_000, 4_000] {
                let mut config = machine_h();
                config.scheduler = scheduler;
                config.age_limit = Some(Cycles(limit));
                let longest = longest_wait(&config, seed);
                assert!(longest <= limit + OLDER, "{scheduler:?} {seed}: {longest} of {limit}");
            }
        }
    }
}
