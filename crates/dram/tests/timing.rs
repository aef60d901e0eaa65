//! Constraint by constraint, as a data sheet draws them: a few requests, one offered per cycle, and
//! the cycles in which their commands must issue, computed by hand from the timing of DDR4-2400 (CL
//! 17, CWL 12, tRCD 17, tRP 17, tRAS 39, BL/2 4, tRTP 9, tWR 18, ...).

mod common;

use common::{Seen, machine_h, run};
use memweir_core::names::Named;
use memweir_core::{Cycles, Direction, PhysAddr};
use memweir_dram::command::CommandKind as C;
use memweir_dram::config::{MapLayout, PagePolicy, RefreshPolicy, Scheduler};
use memweir_dram::drive::Mode;
use memweir_dram::request::{Request, Source};
use memweir_dram::{MemoryConfig, MemorySpec, MemorySystem};

const WRITE: u64 = 1;
const GROUP: u64 = 1 << 13;
const BANK: u64 = 1 << 15;
const ROW: u64 = 1 << 17;

fn read(address: u64) -> Request {
    let (direction, source) = (Direction::Read, Source(0));
    Request { address: PhysAddr(address), direction, source, tag: 0 }
}

fn write(address: u64) -> Request {
    Request { direction: Direction::Write, ..read(address) }
}

fn commands(config: &MemoryConfig, words: &[u64]) -> Vec<(u64, C)> {
    let mut seen = Seen::default();
    run(config, words.iter().copied(), Mode::Saturate, &mut seen);
    seen.kinds()
}

fn expect(words: &[u64], expected: &[(u64, C)]) {
    assert_eq!(commands(&machine_h(), words), expected, "{words:x?}");
}

#[test]
fn act_to_rd_respects_trcd() {
    expect(&[0], &[(0, C::Activate), (17, C::Read)]);
}

#[test]
fn rd_to_rd_respects_tccd_l_and_tccd_s() {
    // tCCD_L = 6.
    expect(&[0, 64], &[(0, C::Activate), (17, C::Read), (23, C::Read)]);
    expect(&[WRITE, 64 | WRITE], &[(0, C::Activate), (17, C::Write), (23, C::Write)]);
    // tRRD_S = 4, and tCCD_S = 4 as well.
    let two = [(0, C::Activate), (4, C::Activate), (17, C::Read), (21, C::Read)];
    expect(&[0, GROUP], &two);
}

#[test]
fn act_to_act_respects_trrd_and_tfaw() {
    // tRRD_L = 6.
    let two = [(0, C::Activate), (6, C::Activate), (17, C::Read), (23, C::Read)];
    expect(&[0, BANK], &two);
    // The fifth waits for tFAW = 26 from the first.
    let opened: Vec<u64> = commands(&machine_h(), &[0, GROUP, 2 * GROUP, 3 * GROUP, BANK])
        .into_iter()
        .filter_map(|(at, kind)| (kind == C::Activate).then_some(at))
        .collect();
    assert_eq!(opened, [0, 4, 8, 12, 26]);
}

#[test]
fn rd_to_pre_respects_trtp() {
    // tRAS = 39 after the first, tRP = 17 after that.
    let one =
        [(0, C::Activate), (17, C::Read), (39, C::Precharge), (56, C::Activate), (73, C::Read)];
    expect(&[0, ROW], &one);
    // tRTP = 9 after the last of five: 17 + 4 * 6 + 9 = 50.
    let many = commands(&machine_h(), &[0, 64, 128, 192, 256, ROW]);
    assert_eq!(many[6..8], [(50, C::Precharge), (67, C::Activate)]);
}

#[test]
fn wr_to_pre_respects_twr() {
    // CWL + BL/2 + tWR = 34 after the write at 17.
    let two =
        [(0, C::Activate), (17, C::Write), (51, C::Precharge), (68, C::Activate), (85, C::Write)];
    expect(&[WRITE, ROW | WRITE], &two);
}

#[test]
fn bus_turnaround_respects_twtr() {
    // Read to write: CL + BL/2 + 2 - CWL = 11.
    expect(&[0, 64 | WRITE], &[(0, C::Activate), (17, C::Read), (28, C::Write)]);
    // Write to read: CWL + BL/2 + tWTR_L = 25 in the group, + tWTR_S = 19 in another.
    expect(&[WRITE, 64], &[(0, C::Activate), (17, C::Write), (42, C::Read)]);
    let other = [(0, C::Activate), (4, C::Activate), (17, C::Write), (36, C::Read)];
    expect(&[WRITE, GROUP], &other);
}

#[test]
fn rank_switch_respects_trtrs() {
    let spec = MemorySpec::shipped("ddr4-2400").unwrap();
    let config = MemoryConfig::of_ranks(vec![spec.clone().into(), spec.into()], 1);
    let config = config.with_layout(MapLayout::Plain);
    let rank = 1 << 13;
    // Rows at once; data BL/2 + tRTRS = 6 later.
    let reads = [(0, C::Activate), (1, C::Activate), (17, C::Read), (23, C::Read)];
    assert_eq!(commands(&config, &[0, rank]), reads);
    assert_eq!(commands(&config, &[rank, 0]), reads);
    // Read to write: CL + BL/2 + tRTRS - CWL = 11.
    let turn = [(0, C::Activate), (1, C::Activate), (17, C::Read), (28, C::Write)];
    assert_eq!(commands(&config, &[0, rank | WRITE]), turn);
    // Write to read: CWL + BL/2 + tRTRS - CL = 1, and the row is open at 18.
    let back = [(0, C::Activate), (1, C::Activate), (17, C::Write), (18, C::Read)];
    assert_eq!(commands(&config, &[WRITE, rank]), back);
}

/// The data of both reads meets on one bus, CL = 30 and CL = 17 after their commands.
#[test]
fn ranks_of_different_latencies_share_the_data_bus() {
    let text = include_str!("../data/ddr4-2400.toml").replace("CL = 17", "CL = 30");
    let slow = MemorySpec::parse("slow", &text).unwrap();
    let config = MemoryConfig::of_ranks(vec![machine_h().spec().clone().into(), slow.into()], 1);
    let config = config.with_layout(MapLayout::Plain);
    let rank = 1 << 13;
    // 30 + BL/2 + tRTRS - 17 = 19.
    let slow_first = [(0, C::Activate), (1, C::Activate), (17, C::Read), (36, C::Read)];
    assert_eq!(commands(&config, &[rank, 0]), slow_first);
    // The other way round, the rule of the device is more than enough: BL/2 + tRTRS = 6.
    let fast_first = [(0, C::Activate), (1, C::Activate), (17, C::Read), (23, C::Read)];
    assert_eq!(commands(&config, &[0, rank]), fast_first);
}

#[test]
fn closed_page_policy_auto_precharges() {
    let mut config = machine_h();
    config.page = PagePolicy::Closed { accesses: 1 };
    // The bank is free again when tRAS and tRP are over: tRC.
    let two = [
        (0, C::Activate),
        (17, C::ReadAutoPrecharge),
        (56, C::Activate),
        (73, C::ReadAutoPrecharge),
    ];
    assert_eq!(commands(&config, &[0, ROW]), two);
    // After a write: 17 + CWL + BL/2 + tWR + tRP = 68.
    let write = commands(&config, &[WRITE, ROW | WRITE]);
    assert_eq!(write[2], (68, C::Activate));
    config.page = PagePolicy::Closed { accesses: 2 };
    let kinds: Vec<C> = commands(&config, &[0, 64]).into_iter().map(|(_, kind)| kind).collect();
    assert_eq!(kinds, [C::Activate, C::Read, C::ReadAutoPrecharge]);
}

#[test]
fn refresh_precharges_banks_and_respects_trfc() {
    let mut memory = MemorySystem::new(&machine_h()).unwrap();
    let mut seen = Seen::default();
    memory.enqueue(Cycles(9000), read(0)).unwrap();
    memory.advance(Cycles(9369), &mut seen);
    memory.enqueue(Cycles(9370), read(64)).unwrap();
    memory.advance(Cycles(20_000), &mut seen);
    // Due at tREFI = 9360; tRP for closing, tRFC = 420 until a row can be opened.
    let expected = [
        (9000, C::Activate),
        (9017, C::Read),
        (9360, C::PrechargeAll),
        (9377, C::Refresh),
        (9797, C::Activate),
        (9814, C::Read),
        (18_720, C::PrechargeAll),
        (18_737, C::Refresh),
    ];
    assert_eq!(seen.kinds(), expected);
    assert_eq!(memory.stats().refreshes, 2);
}

/// The refresh waits for the read whose row was opened for it, and goes before all others.
#[test]
fn a_read_that_arrives_after_a_refresh_was_due_waits_for_it() {
    let mut memory = MemorySystem::new(&machine_h()).unwrap();
    let mut seen = Seen::default();
    for (now, address) in [(9355, 0), (9362, GROUP)] {
        memory.advance(Cycles(now - 1), &mut seen);
        memory.enqueue(Cycles(now), read(address)).unwrap();
    }
    memory.advance(Cycles(10_000), &mut seen);
    // tRAS = 39 after the activate, tRP = 17, tRFC = 420.
    let expected = [
        (9355, C::Activate),
        (9372, C::Read),
        (9394, C::PrechargeAll),
        (9411, C::Refresh),
        (9831, C::Activate),
        (9848, C::Read),
    ];
    assert_eq!(seen.kinds(), expected);
}

#[test]
fn idle_ranks_power_down_and_respect_txp() {
    let mut config = machine_h();
    config.power.power_down_after = Some(Cycles(100));
    let mut memory = MemorySystem::new(&config).unwrap();
    let mut seen = Seen::default();
    memory.advance(Cycles(500), &mut seen);
    memory.enqueue(Cycles(501), read(0)).unwrap();
    memory.advance(Cycles(1000), &mut seen);
    // tXP = 6 ns, 8 cycles; asleep again 100 cycles after the read.
    let expected = [
        (100, C::PowerDownEnter),
        (501, C::PowerDownExit),
        (509, C::Activate),
        (526, C::Read),
        (626, C::PowerDownEnter),
    ];
    assert_eq!(seen.kinds(), expected);
}

#[test]
fn self_refresh_replaces_refresh() {
    let mut config = machine_h();
    config.power.self_refresh_after = Some(Cycles(1000));
    let mut memory = MemorySystem::new(&config).unwrap();
    let mut seen = Seen::default();
    memory.advance(Cycles(100_000), &mut seen);
    assert_eq!(seen.kinds(), [(1000, C::SelfRefreshEnter)]);
    memory.enqueue(Cycles(100_001), read(0)).unwrap();
    memory.advance(Cycles(100_900), &mut seen);
    // tXS = 360 ns, 433 cycles (432.17, rounded up); then the refresh that must lie between two
    // self-refreshes, tRFC = 420 cycles.
    let woken = [(100_001, C::SelfRefreshExit), (100_434, C::Refresh), (100_854, C::Activate)];
    assert_eq!(seen.kinds()[1..4], woken);
}

/// The automatic precharge begins tRAS after the activate, later than tRTP after the read.
#[test]
fn self_refresh_waits_for_automatic_precharges() {
    let mut config = machine_h();
    config.page = PagePolicy::Closed { accesses: 1 };
    config.power.self_refresh_after = Some(Cycles(1));
    let mut memory = MemorySystem::new(&config).unwrap();
    let mut seen = Seen::default();
    memory.enqueue(Cycles(0), read(0)).unwrap();
    memory.advance(Cycles(1000), &mut seen);
    let expected = [(0, C::Activate), (17, C::ReadAutoPrecharge), (56, C::SelfRefreshEnter)];
    assert_eq!(seen.kinds(), expected);
}

/// Where rows close quickly, self-refresh waits for the data of a read: CL + BL/2 + 1.
#[test]
fn self_refresh_waits_for_the_data_of_a_read() {
    let text = include_str!("../data/ddr4-2400.toml").replace("tRP = 17", "tRP = 5");
    let text = text.replace("tRAS = 39", "tRAS = 19").replace("tRC = 56", "tRC = 24");
    let spec = MemorySpec::parse("quick", &text.replace("tRTP = 9", "tRTP = 4")).unwrap();
    let mut config = MemoryConfig::new(spec);
    config.power.self_refresh_after = Some(Cycles(1));
    let mut memory = MemorySystem::new(&config).unwrap();
    let mut seen = Seen::default();
    memory.enqueue(Cycles(0), read(0)).unwrap();
    memory.advance(Cycles(1000), &mut seen);
    let asleep =
        [(0, C::Activate), (17, C::Read), (21, C::PrechargeAll), (39, C::SelfRefreshEnter)];
    assert_eq!(seen.kinds(), asleep);
}

#[test]
fn adaptive_pages_close_without_further_requests() {
    let mut config = machine_h();
    config.page = PagePolicy::Adaptive { timeout: Cycles(100) };
    let mut memory = MemorySystem::new(&config).unwrap();
    let mut seen = Seen::default();
    for now in [0, 1000] {
        memory.enqueue(Cycles(now), read(0)).unwrap();
        memory.advance(Cycles(now + 990), &mut seen);
    }
    // The same row again: it should have stayed, so now it stays for 200.
    let expected = [
        (0, C::Activate),
        (17, C::Read),
        (117, C::Precharge),
        (1000, C::Activate),
        (1017, C::Read),
        (1217, C::Precharge),
    ];
    assert_eq!(seen.kinds(), expected);
}

#[test]
fn adaptive_pages_close_in_a_rank_that_is_about_to_sleep() {
    let mut config = machine_h();
    config.page = PagePolicy::Adaptive { timeout: Cycles(100) };
    config.power.power_down_after = Some(Cycles(500));
    let mut memory = MemorySystem::new(&config).unwrap();
    let mut seen = Seen::default();
    memory.enqueue(Cycles(0), read(0)).unwrap();
    memory.advance(Cycles(1000), &mut seen);
    let wanted = [(0, C::Activate), (17, C::Read), (117, C::Precharge), (517, C::PowerDownEnter)];
    assert_eq!(seen.kinds(), wanted);
}

/// Offers each request in its cycle; returns the commands up to cycle 200.
fn offered_at(config: &MemoryConfig, requests: &[(u64, Request)]) -> Vec<(u64, C)> {
    let mut memory = MemorySystem::new(config).unwrap();
    let mut seen = Seen::default();
    for (place, (now, request)) in requests.iter().enumerate() {
        memory.enqueue(Cycles(*now), *request).unwrap();
        let next = requests.get(place + 1).map_or(201, |(next, _)| *next);
        memory.advance(Cycles(next - 1), &mut seen);
    }
    seen.kinds()
}

/// The write at 97 keeps reads of its bank group from the bus until 122. The timeout of the first
/// bank ends at 117, but a read of its row arrives at 110.
#[test]
fn a_read_that_arrives_before_the_timeout_keeps_its_row_open() {
    let mut config = machine_h();
    config.page = PagePolicy::Adaptive { timeout: Cycles(100) };
    let requests = [(0, read(0)), (80, write(BANK)), (105, read(BANK)), (110, read(0))];
    let expected = [
        (0, C::Activate),
        (17, C::Read),
        (80, C::Activate),
        (97, C::Write),
        (122, C::Read),
        (128, C::Read),
    ];
    assert_eq!(offered_at(&config, &requests), expected);
}

/// The write at 27 keeps reads from the bus until 52. The bank of the first write could be closed
/// at 51 for the read of another row, but a read of the open row arrives at 40.
#[test]
fn a_row_hit_that_arrives_before_the_precharge_goes_first() {
    let mut config = machine_h();
    config.scheduler = Scheduler::FrFcfsHit;
    let requests = [(0, write(0)), (10, write(BANK)), (30, read(ROW)), (40, read(64))];
    let expected = [
        (0, C::Activate),
        (10, C::Activate),
        (17, C::Write),
        (27, C::Write),
        (52, C::Read),
        (61, C::Precharge),
        (78, C::Activate),
        (95, C::Read),
    ];
    assert_eq!(offered_at(&config, &requests), expected);
}

/// Without reads that wait, the write would be served at once.
#[test]
fn a_write_waits_while_reads_do() {
    let requests = [(0, read(0)), (1, read(ROW)), (5, write(BANK))];
    let expected = [
        (0, C::Activate),
        (17, C::Read),
        (39, C::Precharge),
        // From here on no read waits in the queue. tRRD_L = 6.
        (56, C::Activate),
        (62, C::Activate),
        (73, C::Read),
        // Read to write: 11.
        (84, C::Write),
    ];
    assert_eq!(offered_at(&machine_h(), &requests), expected);
}

/// The command bus of DDR5 is busy with a read for two cycles.
#[test]
fn commands_of_two_cycles_keep_the_bus() {
    let config = MemoryConfig::new(MemorySpec::shipped("ddr5-4800").unwrap());
    let config = config.with_layout(MapLayout::Plain);
    // tRCD = 16 ns, 39 cycles.
    let expected = [(0, C::Activate), (39, C::Read), (41, C::Activate), (80, C::Read)];
    assert_eq!(offered_at(&config, &[(0, read(0)), (40, read(1 << 13))]), expected);
}

/// All banks are closed for self-refresh, and a read arrives before it begins: its bank, not the
/// first, needs tRP.
#[test]
fn act_respects_trp_after_closing_all_banks() {
    let mut config = machine_h();
    config.power.self_refresh_after = Some(Cycles(100));
    let expected = [
        (0, C::Activate),
        (17, C::Read),
        (117, C::PrechargeAll),
        (134, C::Activate),
        (151, C::Read),
    ];
    assert_eq!(offered_at(&config, &[(0, read(BANK)), (120, read(BANK))]), expected);
}

/// Returns the commands before cycle `end` of a memory that is idle but for a read that arrives at
/// `at`.
fn of_idle(config: &MemoryConfig, at: u64, end: u64) -> Seen {
    let mut memory = MemorySystem::new(config).unwrap();
    let mut seen = Seen::default();
    memory.advance(Cycles(at - 1), &mut seen);
    memory.enqueue(Cycles(at), read(0)).unwrap();
    memory.advance(Cycles(end - 1), &mut seen);
    seen
}

#[test]
fn a_rank_leaves_power_down_for_a_refresh() {
    let mut config = machine_h();
    config.power.power_down_after = Some(Cycles(100));
    let mut memory = MemorySystem::new(&config).unwrap();
    let mut seen = Seen::default();
    memory.advance(Cycles(18_700), &mut seen);
    // tXP = 8; a cycle after the refresh it may sleep again.
    let expected = [
        (100, C::PowerDownEnter),
        (9360, C::PowerDownExit),
        (9368, C::Refresh),
        (9369, C::PowerDownEnter),
    ];
    assert_eq!(seen.kinds(), expected);
}

#[test]
fn a_rank_that_has_just_fallen_asleep_is_woken_before_its_request() {
    // tCKE = 5 ns, 6 cycles (6.002, less the correction); tXP = 8.
    let from_power_down =
        [(100, C::PowerDownEnter), (106, C::PowerDownExit), (114, C::Activate), (131, C::Read)];
    // tCKE + 1 = 7, tXS = 433, tRFC = 420.
    let from_self_refresh = [
        (100, C::SelfRefreshEnter),
        (107, C::SelfRefreshExit),
        (540, C::Refresh),
        (960, C::Activate),
        (977, C::Read),
    ];
    for scheduler in Scheduler::ALL {
        let mut config = machine_h();
        config.scheduler = *scheduler;
        config.power.power_down_after = Some(Cycles(100));
        assert_eq!(of_idle(&config, 101, 200).kinds(), from_power_down, "{scheduler}");
        config.power.power_down_after = None;
        config.power.self_refresh_after = Some(Cycles(100));
        assert_eq!(of_idle(&config, 101, 1000).kinds(), from_self_refresh, "{scheduler}");
    }
}

/// From power-down the rank has to wake first: tXP = 8 to close the row, tRP = 17.
#[test]
fn a_rank_goes_from_power_down_to_self_refresh() {
    let mut config = machine_h();
    config.power.power_down_after = Some(Cycles(100));
    config.power.self_refresh_after = Some(Cycles(1000));
    let mut memory = MemorySystem::new(&config).unwrap();
    let mut seen = Seen::default();
    memory.enqueue(Cycles(0), read(0)).unwrap();
    memory.advance(Cycles(5000), &mut seen);
    let expected = [
        (0, C::Activate),
        (17, C::Read),
        (117, C::PowerDownEnter),
        (1017, C::PowerDownExit),
        (1025, C::PrechargeAll),
        (1042, C::SelfRefreshEnter),
    ];
    assert_eq!(seen.kinds(), expected);
}

/// LPDDR2, where tXS is 75 cycles, tRFCpb 32, tRRD 6 and tRCD 10, and a bank is refreshed every
/// 2080 / 8 = 260 cycles.
#[test]
fn all_banks_are_refreshed_after_self_refresh() {
    let mut config = MemoryConfig::new(MemorySpec::shipped("lpddr2-1066").unwrap());
    config.refresh = RefreshPolicy::PerBank;
    config.power.self_refresh_after = Some(Cycles(100));
    let seen = of_idle(&config, 1000, 1500);
    let found: Vec<_> = seen.commands.iter().map(|c| (c.at.0, c.kind, c.to.bank)).collect();
    let expected = [
        (100, C::SelfRefreshEnter, 0),
        (1000, C::SelfRefreshExit, 0),
        (1075, C::RefreshBank, 0),
        (1107, C::RefreshBank, 1),
        // The refresh of bank 0 is over since 1107.
        (1113, C::Activate, 0),
        (1123, C::Read, 0),
        (1139, C::RefreshBank, 2),
        (1171, C::RefreshBank, 3),
        (1203, C::RefreshBank, 4),
        (1235, C::RefreshBank, 5),
        // The next refresh falls due 260 cycles after the exit, and is of bank 0.
        (1260, C::Precharge, 0),
        (1267, C::RefreshBank, 6),
        (1299, C::RefreshBank, 7),
        (1331, C::RefreshBank, 0),
        (1363, C::SelfRefreshEnter, 0),
    ];
    assert_eq!(found, expected);
}

/// DDR5-4800, where a refresh of the banks with number 0 falls due in cycle 1171. A row of bank 1
/// can be opened after tREFSBRD = 72 cycles, and one of bank 0 of another group after tRFCsb = 312.
#[test]
fn act_respects_the_refresh_of_banks_with_its_number() {
    let mut config = MemoryConfig::new(MemorySpec::shipped("ddr5-4800").unwrap());
    config.refresh = RefreshPolicy::PerBank;
    let config = config.with_layout(MapLayout::Plain);
    let mut memory = MemorySystem::new(&config).unwrap();
    let mut seen = Seen::default();
    for (now, address) in [(1172, 1 << 16), (1173, 3 << 13)] {
        memory.advance(Cycles(now - 1), &mut seen);
        memory.enqueue(Cycles(now), read(address)).unwrap();
    }
    memory.advance(Cycles(1600), &mut seen);
    seen.commands.retain(|command| command.to.channel == 0);
    // tRCD = 39.
    let expected = [
        (1171, C::RefreshBank),
        (1243, C::Activate),
        (1282, C::Read),
        (1483, C::Activate),
        (1522, C::Read),
    ];
    assert_eq!(seen.kinds(), expected);
}

#[test]
fn ranks_are_refreshed_one_after_another() {
    let spec = std::sync::Arc::new(machine_h().spec().clone());
    let mut config = MemoryConfig::of_ranks(vec![spec; 4], 1);
    config.refresh = RefreshPolicy::Staggered;
    let mut memory = MemorySystem::new(&config).unwrap();
    let mut seen = Seen::default();
    memory.advance(Cycles(14_040), &mut seen);
    let found: Vec<_> = seen.commands.iter().map(|c| (c.at.0, c.to.rank)).collect();
    let expected = [(2340, 0), (4680, 1), (7020, 2), (9360, 3), (11_700, 0), (14_040, 1)];
    assert_eq!(found, expected);
}

/// Fields below the level of a command are zero.
#[test]
fn commands_name_their_rank_bank_row_and_column() {
    let spec = std::sync::Arc::new(machine_h().spec().clone());
    let mut config = MemoryConfig::of_ranks(vec![spec; 2], 1).with_layout(MapLayout::Plain);
    config.power.self_refresh_after = Some(Cycles(100));
    let mut memory = MemorySystem::new(&config).unwrap();
    let mut seen = Seen::default();
    // Column 5, rank 1, group 2, bank 3, row 9.
    let address = 5 << 6 | 1 << 13 | 2 << 14 | 3 << 16 | 9 << 18;
    memory.enqueue(Cycles(0), read(address)).unwrap();
    memory.advance(Cycles(150), &mut seen);
    seen.commands.retain(|command| command.to.rank == 1);
    let found =
        seen.commands.iter().map(|c| (c.at.0, c.kind, c.to.group, c.to.bank, c.row, c.column));
    let expected = [
        (0, C::Activate, 2, 3, 9, 0),
        (17, C::Read, 2, 3, 9, 5),
        (117, C::PrechargeAll, 0, 0, 0, 0),
        (134, C::SelfRefreshEnter, 0, 0, 0, 0),
    ];
    assert_eq!(found.collect::<Vec<_>>(), expected);
    assert!(memory.is_idle());
    memory.enqueue(Cycles(200), read(address)).unwrap();
    assert!(!memory.is_idle());
}
