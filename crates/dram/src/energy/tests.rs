//! The test patterns of DRAMPower 6.2 (tests/tests_drampower/core/DDR4), and cases that they lack.

use memweir_core::Cycles;
use memweir_core::names::Named;

use super::*;
use crate::command::{BankAddress, CommandKind as K};
use crate::spec::MemorySpec;

/// The device of the patterns. Its clock, 1/1.3 ns, is no whole number of picoseconds, so it runs
/// 13 times slower here, which makes every energy 13 times larger.
const DRAMPOWER: &str = r#"
name = "ddr4 of DRAMPower's tests"
family = "ddr4"
kind = "dram"
source = "DRAMPower 6.2, tests/tests_drampower/resources/ddr4.json"
clock_ns = 10
organization = { bus_bits = 64, device_bits = 64, bank_groups = 4, banks = 4, rows = 65536, columns = 1024, burst_length = 8 }
timing = { CL = 10, CWL = 5, tRCD = 13, tRP = 10, tRAS = 10, tRC = 20, tWR = 5, tRTP = 5, tCCD_S = 4, tCCD_L = 4, tRRD_S = 1, tRRD_L = 1, tFAW = 4, tWTR_S = 1, tWTR_L = 1, tRFC = 25, tREFI = 9360, tRTRS = 1 }
[currents]
bank_share = 0.5
rails = [{ name = "VDD", volts = 1.2, idd0 = 56.25, idd2n = 33.75, idd3n = 39.5, idd4r = 157.5, idd4w = 135, idd5b = 118, idd6 = 20.2, idd2p = 17, idd3p = 22.5 }]
"#;

fn spec(text: &str) -> MemorySpec {
    MemorySpec::parse("x.toml", text).unwrap()
}

fn command(at: u64, kind: K, bank: u16) -> Command {
    let to = BankAddress { group: bank / 4, bank: bank % 4, ..BankAddress::default() };
    Command { at: Cycles(at), kind, to, row: 0, column: 0 }
}

fn report(spec: MemorySpec, commands: &[(u64, K, u16)], end: u64) -> EnergyReport {
    let mut meter = EnergyMeter::new(&MemoryConfig::new(spec));
    for (at, kind, bank) in commands {
        meter.count(&command(*at, *kind, *bank));
    }
    meter.report(Cycles(end))
}

/// Compares with energies that DRAMPower rounds to whole picojoules, some of them sums of two;
/// kinds that are not listed must be zero.
fn pattern(commands: &[(u64, K, u16)], end: u64, expected: &[(EnergyKind, f64)], total: f64) {
    let report = report(spec(DRAMPOWER), commands, end);
    compare(&report, 13.0, expected);
    let sum = report.total() / 13.0;
    assert!((sum - total).abs() < 1.0, "total {sum:.3} pJ, {total} expected");
}

fn compare(report: &EnergyReport, scale: f64, expected: &[(EnergyKind, f64)]) {
    for &kind in EnergyKind::ALL {
        let wanted = expected.iter().find(|(known, _)| *known == kind).map_or(0.0, |(_, pj)| *pj);
        let got = report.of(kind) / scale;
        assert!((got - wanted).abs() < 1.0, "{kind}: {got:.3} pJ, {wanted} expected");
    }
}

use EnergyKind::{
    Activate, ActivePowerDown, ActiveStandby, Precharge, PrechargePowerDown, PrechargeStandby,
    Read, Refresh, SelfRefresh, Write,
};

#[test]
fn drampower_patterns_0_to_2_a_row_and_a_read() {
    pattern(
        &[(0, K::Activate, 0), (15, K::Precharge, 0)],
        15,
        &[(Activate, 179.0), (Precharge, 208.0), (ActiveStandby, 510.0)],
        897.0,
    );
    let read = [(0, K::Activate, 0), (15, K::Read, 0), (35, K::Precharge, 0)];
    let mut expected =
        vec![(Activate, 179.0), (Precharge, 208.0), (Read, 436.0), (ActiveStandby, 1189.0)];
    pattern(&read, 35, &expected, 2012.0);
    expected.push((PrechargeStandby, 467.0));
    pattern(&read, 50, &expected, 2479.0);
}

/// DDR5-4800: bank 0 is open for 1,000 cycles of 0.416 ns, and the banks with the number 1 of the
/// eight groups are refreshed for tRFCsb = 312 of them.
#[test]
fn a_refresh_of_banks_with_one_number_keeps_them_all_open() {
    let ddr5 = MemorySpec::shipped("ddr5-4800").unwrap();
    let report = report(ddr5, &[(0, K::Activate, 0), (100, K::RefreshBank, 1)], 1_000);
    // Volts, devices of half a channel, and nanoseconds.
    let cycle = 1.1 * 4.0 * 0.416;
    // IDD2N = 92, IDD3N = 142, rho = 0.5, 32 banks; tRAS = 77.
    let (shared, each) = (117.0, 25.0 / 32.0);
    let standby = (shared * 1_000.0 + each * (1_000.0 + 8.0 * 312.0)) * cycle;
    let activate = (122.0 - shared - each) * 77.0 * cycle;
    // IDD5B = 277; tRFC = 708, of which a refresh of some banks is 1171 / 9375.
    let refresh = (277.0 - 142.0) * 708.0 * cycle * 1_171.0 / 9_375.0;
    let expected = [
        (ActiveStandby, standby),
        (Activate, activate),
        (Refresh, refresh),
        // The other half of the channel: IDD2N.
        (PrechargeStandby, 92.0 * 1_000.0 * cycle),
    ];
    compare(&report, 1.0, &expected);
}

/// A rank that sleeps during the refresh draws standby current until the end of it.
#[test]
fn power_down_begins_after_the_refresh_of_a_bank() {
    let ddr5 = MemorySpec::shipped("ddr5-4800").unwrap();
    let report = report(ddr5, &[(0, K::RefreshBank, 0), (10, K::PowerDownEnter, 0)], 1_000);
    let cycle = 1.1 * 4.0 * 0.416;
    let standby = (117.0 * 312.0 + 25.0 / 32.0 * 8.0 * 312.0) * cycle;
    let refresh = (277.0 - 142.0) * 708.0 * cycle * 1_171.0 / 9_375.0;
    let asleep = 88.0 * (1_000.0 - 312.0) * cycle;
    let expected = [
        (ActiveStandby, standby),
        (Refresh, refresh),
        (PrechargePowerDown, asleep),
        (PrechargeStandby, 92.0 * 1_000.0 * cycle),
    ];
    compare(&report, 1.0, &expected);
}

#[test]
fn ranks_of_all_channels_are_counted_on_their_own() {
    let rank = std::sync::Arc::new(spec(DRAMPOWER));
    let mut meter = EnergyMeter::new(&MemoryConfig::of_ranks(vec![rank.clone(), rank], 2));
    let standby = |meter: &EnergyMeter| meter.report(Cycles(100)).of(ActiveStandby);
    for (count, (channel, rank)) in [(0, 0), (0, 1), (1, 0), (1, 1)].into_iter().enumerate() {
        let to = BankAddress { channel, rank, ..BankAddress::default() };
        meter.count(&Command { to, ..command(0, K::Activate, 0) });
        let one = report(spec(DRAMPOWER), &[(0, K::Activate, 0)], 100).of(ActiveStandby);
        assert!((standby(&meter) / one - (count + 1) as f64).abs() < 1e-9, "{channel} {rank}");
    }
}

#[test]
fn a_device_without_energies_is_known_as_such() {
    let without = |text: &str| {
        let (before, _) = text.split_once("[currents]").unwrap();
        EnergyMeter::new(&MemoryConfig::new(spec(before))).is_partial()
    };
    assert!(without(DRAMPOWER));
    assert!(!EnergyMeter::new(&MemoryConfig::new(spec(DRAMPOWER))).is_partial());
    let nvm = MemoryConfig::new(MemorySpec::shipped("stt-ram").unwrap());
    assert!(!EnergyMeter::new(&nvm).is_partial());
}

#[test]
fn drampower_pattern_3_two_banks_of_different_lengths() {
    pattern(
        &[
            (0, K::Activate, 0),
            (15, K::Read, 0),
            (20, K::Activate, 3),
            (35, K::Precharge, 0),
            (45, K::Precharge, 3),
        ],
        50,
        &[
            (Activate, 359.0),
            (Precharge, 415.0),
            (Read, 436.0),
            (ActiveStandby, 1531.0),
            (PrechargeStandby, 156.0),
        ],
        2897.0,
    );
}

#[test]
fn drampower_patterns_4_and_5_precharge_all_and_refresh() {
    let mut commands = vec![
        (0, K::Activate, 0),
        (15, K::Read, 0),
        (20, K::Activate, 3),
        (35, K::Read, 3),
        (40, K::Read, 0),
        (50, K::PrechargeAll, 0),
    ];
    let always = [(Activate, 359.0), (Precharge, 415.0), (Read, 1307.0)];
    let standby = [(ActiveStandby, 1704.0), (PrechargeStandby, 623.0)];
    pattern(&commands, 70, &[always.as_slice(), &standby].concat(), 4408.0);
    commands.push((65, K::Refresh, 0));
    let standby = [(ActiveStandby, 2615.0), (PrechargeStandby, 779.0), (Refresh, 1812.0)];
    pattern(&commands, 100, &[always.as_slice(), &standby].concat(), 7287.0);
}

#[test]
fn drampower_pattern_6_automatic_precharge() {
    pattern(
        &[
            (0, K::Activate, 0),
            (15, K::ReadAutoPrecharge, 0),
            (20, K::Activate, 3),
            (35, K::Read, 3),
            (50, K::PrechargeAll, 0),
            (65, K::Refresh, 0),
        ],
        100,
        &[
            (Activate, 359.0),
            (Precharge, 415.0),
            (Read, 872.0),
            (Refresh, 1812.0),
            (ActiveStandby, 2610.0),
            (PrechargeStandby, 779.0),
        ],
        6846.0,
    );
}

#[test]
fn drampower_pattern_7_self_refresh() {
    pattern(
        &[(0, K::SelfRefreshEnter, 0), (40, K::SelfRefreshExit, 0)],
        100,
        &[
            (SelfRefresh, 280.0),
            (Refresh, 1812.0),
            (ActiveStandby, 912.0),
            (PrechargeStandby, 1869.0),
        ],
        4872.0,
    );
}

#[test]
fn drampower_pattern_9_power_down() {
    pattern(
        &[
            (5, K::Activate, 0),
            (15, K::Activate, 5),
            (20, K::Read, 0),
            (30, K::PowerDownEnter, 0),
            (50, K::PowerDownExit, 0),
            (55, K::Read, 5),
            (60, K::Read, 0),
            (70, K::PrechargeAll, 0),
            (80, K::PowerDownEnter, 0),
            (95, K::PowerDownExit, 0),
        ],
        100,
        &[
            (Activate, 359.0),
            (Precharge, 415.0),
            (Read, 1307.0),
            (ActiveStandby, 1535.0),
            (PrechargeStandby, 623.0),
            (ActivePowerDown, 415.0),
            (PrechargePowerDown, 235.0),
        ],
        4890.0,
    );
}

/// DRAMPower trusts its commands, and here counts active power-down of a rank whose banks are all
/// closed (623 pJ). In a device and here, the banks decide which of the two it is: 30 cycles more
/// of precharged power-down (471 pJ).
#[test]
fn drampower_pattern_8_power_down_with_closed_banks() {
    pattern(
        &[
            (0, K::PowerDownEnter, 0),
            (30, K::PowerDownExit, 0),
            (45, K::PowerDownEnter, 0),
            (70, K::PowerDownExit, 0),
        ],
        85,
        &[(PrechargeStandby, 935.0), (PrechargePowerDown, 392.0 + 471.0)],
        1950.0 - 623.0 + 471.0,
    );
}

/// The device of the patterns 10 to 15: a clock of 1 ns, 1 V, eight banks, the share 1/3. Their
/// write latency is zero; here the write recovery is shorter by as much.
const ROUND: &str = r#"
name = "ddr4 of DRAMPower's patterns 10 to 15"
family = "ddr4"
kind = "dram"
source = "DRAMPower 6.2, tests/tests_drampower/core/DDR4"
clock_ns = 1
organization = { bus_bits = 32, device_bits = 32, bank_groups = 2, banks = 4, rows = 65536, columns = 1024, burst_length = 16 }
timing = { CL = 10, CWL = 1, tRCD = 10, tRP = 10, tRAS = 20, tRC = 20, tWR = 11, tRTP = 10, tCCD_S = 4, tCCD_L = 4, tRRD_S = 1, tRRD_L = 1, tFAW = 4, tWTR_S = 1, tWTR_L = 1, tRFC = 25, tREFI = 9360, tRTRS = 1 }
[currents]
bank_share = 0.333333333
rails = [{ name = "VDD", volts = 1, idd0 = 64, idd2n = 8, idd3n = 32, idd4r = 72, idd4w = 96, idd5b = 118, idd6 = 20.2, idd2p = 6, idd3p = 20 }]
"#;

/// Patterns whose device differs from the one above in `changes`.
fn round_pattern(
    changes: &[(&str, &str)],
    commands: &[(u64, K, u16)],
    expected: &[(EnergyKind, f64)],
) {
    let text = changes.iter().fold(ROUND.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    });
    compare(&report(spec(&text), commands, 125), 1.0, expected);
}

#[test]
fn drampower_pattern_10_banks_that_overlap() {
    let commands = [
        (0, K::Activate, 0),
        (10, K::Activate, 1),
        (15, K::Precharge, 0),
        (25, K::Activate, 3),
        (25, K::Precharge, 1),
        (30, K::Activate, 0),
        (35, K::Activate, 2),
        (40, K::Precharge, 1),
        (40, K::Precharge, 3),
        (45, K::Precharge, 0),
        (50, K::Precharge, 2),
        (85, K::Activate, 7),
        (100, K::Precharge, 7),
        (120, K::Activate, 6),
    ];
    let expected = [
        (Activate, 3220.0),
        (Precharge, 3360.0),
        (ActiveStandby, 1310.0),
        (PrechargeStandby, 440.0),
    ];
    round_pattern(&[("tRAS = 20", "tRAS = 10")], &commands, &expected);
}

#[test]
fn drampower_pattern_11_reads_and_writes() {
    let rows = (0..8).map(|bank| (u64::from(bank) * 5, K::Activate, bank));
    let reads = [
        (35, 0),
        (40, 0),
        (40, 1),
        (45, 0),
        (45, 2),
        (50, 3),
        (55, 4),
        (60, 5),
        (65, 6),
        (70, 7),
        (75, 7),
        (80, 7),
        (115, 0),
    ];
    let writes =
        [(85, 7), (90, 6), (95, 5), (100, 4), (105, 3), (110, 2), (110, 0), (115, 1), (120, 0)];
    let mut commands: Vec<(u64, K, u16)> = rows.collect();
    commands.extend(reads.map(|(at, bank)| (at, K::Read, bank)));
    commands.extend(writes.map(|(at, bank)| (at, K::Write, bank)));
    commands.sort_by_key(|(at, ..)| *at);
    let found = report(spec(ROUND), &commands, 125);
    assert!((found.of(Read) - 4160.0).abs() < 1.0 && (found.of(Write) - 4608.0).abs() < 1.0);
}

#[test]
fn drampower_pattern_12_automatic_precharges() {
    let commands = [
        (0, K::Activate, 0),
        (10, K::ReadAutoPrecharge, 0),
        (15, K::Activate, 1),
        (15, K::Activate, 2),
        (25, K::WriteAutoPrecharge, 1),
        (30, K::Precharge, 0),
        (35, K::ReadAutoPrecharge, 2),
        (50, K::Activate, 0),
        (50, K::Activate, 2),
        (60, K::WriteAutoPrecharge, 0),
        (60, K::ReadAutoPrecharge, 2),
        (75, K::Activate, 1),
        (80, K::Activate, 0),
        (85, K::WriteAutoPrecharge, 0),
        (95, K::ReadAutoPrecharge, 1),
    ];
    let expected = [
        (Activate, 7.0 * 920.0),
        (Precharge, 2240.0 + 1680.0),
        (Read, 1280.0),
        (Write, 1536.0),
        (ActiveStandby, 1970.0),
        (PrechargeStandby, 200.0),
    ];
    round_pattern(&[], &commands, &expected);
}

#[test]
fn drampower_pattern_13_precharges_of_closed_banks() {
    let commands = [
        (0, K::Activate, 0),
        (5, K::Activate, 1),
        (10, K::Activate, 2),
        (15, K::Precharge, 0),
        (20, K::PrechargeAll, 0),
        (25, K::Precharge, 1),
        (30, K::PrechargeAll, 0),
        (40, K::Activate, 0),
        (40, K::Activate, 3),
        (50, K::Precharge, 3),
    ];
    let expected = [
        (Activate, 4600.0),
        (Precharge, 2240.0),
        (ActiveStandby, 1950.0),
        (PrechargeStandby, 160.0),
    ];
    round_pattern(&[], &commands, &expected);
}

/// DRAMPower gives no energies of activate, precharge and refresh here; they follow from their
/// formulas.
const SLOW: [(&str, &str); 3] =
    [("tRAS = 20", "tRAS = 10"), ("tRP = 10", "tRP = 20"), ("tRCD = 10", "tRCD = 20")];

#[test]
fn drampower_pattern_14_power_down_in_every_state() {
    let commands = [
        (0, K::Activate, 0),
        (20, K::PowerDownEnter, 0),
        (30, K::PowerDownExit, 0),
        (40, K::Precharge, 0),
        (60, K::PowerDownEnter, 0),
        (65, K::PowerDownExit, 0),
        (75, K::Refresh, 0),
        (100, K::PowerDownEnter, 0),
    ];
    let expected = [
        (Activate, 460.0),
        (Precharge, 1120.0),
        (Refresh, 2150.0),
        (ActiveStandby, 1340.0),
        (PrechargeStandby, 240.0),
        (ActivePowerDown, 200.0),
        (PrechargePowerDown, 180.0),
    ];
    round_pattern(&SLOW, &commands, &expected);
}

/// Power-down during an activate, a precharge and a refresh saves nothing before they are over.
#[test]
fn drampower_pattern_15_power_down_while_something_is_under_way() {
    let commands = [
        (0, K::Activate, 0),
        (5, K::PowerDownEnter, 0),
        (30, K::PowerDownExit, 0),
        (40, K::Precharge, 0),
        (45, K::PowerDownEnter, 0),
        (65, K::PowerDownExit, 0),
        (75, K::Refresh, 0),
        (85, K::PowerDownEnter, 0),
        (90, K::PowerDownExit, 0),
    ];
    let expected = [
        (Activate, 460.0),
        (Precharge, 1120.0),
        (Refresh, 2150.0),
        (ActiveStandby, 1340.0),
        (PrechargeStandby, 440.0),
        (ActivePowerDown, 200.0),
        (PrechargePowerDown, 30.0),
    ];
    round_pattern(&SLOW, &commands, &expected);
}

/// The states share the time among them, whatever happens.
#[test]
fn a_rank_is_in_one_state_at_a_time() {
    let even = "idd2n = 10, idd3n = 10, idd6 = 10, idd2p = 10, idd3p = 10";
    let text = DRAMPOWER.replace("idd2n = 33.75, idd3n = 39.5", "");
    let text = text.replace(", , ", ", ").replace("idd6 = 20.2, idd2p = 17, idd3p = 22.5", even);
    let commands = [
        (3, K::Activate, 0),
        (7, K::Activate, 5),
        (20, K::PowerDownEnter, 0),
        (31, K::PowerDownExit, 0),
        (40, K::ReadAutoPrecharge, 0),
        (60, K::PrechargeAll, 0),
        (70, K::Refresh, 0),
        (100, K::SelfRefreshEnter, 0),
        (200, K::SelfRefreshExit, 0),
    ];
    let report = report(spec(&text), &commands, 321);
    let standing: f64 =
        [ActiveStandby, PrechargeStandby, ActivePowerDown, PrechargePowerDown, SelfRefresh]
            .iter()
            .map(|kind| report.of(*kind))
            .sum();
    assert!((standing - 1.2 * 10.0 * 321.0 * 10.0).abs() < 1e-6, "{standing}");
}

/// Returns the mean power in mW of a memory of `spec` that drew this energy in so many cycles.
fn milliwatts(spec: &MemorySpec, drawn: &EnergyReport, cycles: u64) -> f64 {
    // pJ / ps = W.
    drawn.total() / spec.span(Cycles(cycles)).as_f64() * 1e3
}

/// Idle configuration H: eight devices at 34 mA and 1.2 V, the 326.4 mW of DRAMsim3.
#[test]
fn devices_of_a_rank_ranks_and_channels_add_up() {
    let h = MemorySpec::shipped("ddr4-2400").unwrap();
    let idle = milliwatts(&h, &report(h.clone(), &[], 1_000_000), 1_000_000);
    assert!((idle - 326.4).abs() < 1e-6, "{idle}");
    let opened = report(h.clone(), &[(0, K::Activate, 0)], 10_000_000);
    let open = milliwatts(&h, &opened, 10_000_000);
    assert!(idle < open && open < 412.8, "{open}");
    let mut config = MemoryConfig::with_channels(h.clone(), 2);
    config.ranks = vec![config.ranks[0].clone(); 4];
    let all = milliwatts(&h, &EnergyMeter::new(&config).report(Cycles(1000)), 1000);
    assert!((all - 8.0 * idle).abs() < 1e-6, "{all}");
}

#[test]
fn every_rail_counts() {
    let spec = MemorySpec::shipped("lpddr2-1066").unwrap();
    let idle = milliwatts(&spec, &report(spec.clone(), &[], 1_000), 1_000);
    assert!((idle - 2.0 * (1.8 * 1.7 + 1.2 * 22.0)).abs() < 1e-9, "{idle}");
}

/// Refreshing all banks one by one draws as much as refreshing all at once, as far as intervals are
/// even.
#[test]
fn bank_refreshes_share_the_energy_of_a_refresh() {
    let spec = MemorySpec::shipped("lpddr4-3200").unwrap();
    let whole = report(spec.clone(), &[(0, K::Refresh, 0)], 10_000).of(Refresh);
    let mut meter = EnergyMeter::new(&MemoryConfig::new(spec));
    for bank in 0..8 {
        let mut command = command(u64::from(bank) * 500, K::RefreshBank, 0);
        command.to.bank = bank;
        meter.count(&command);
    }
    let single = meter.report(Cycles(10_000)).of(Refresh);
    assert!((single / whole - 1.0).abs() < 2e-3, "{single} {whole}");
}

/// LPDDR4 counts tRTP (12 cycles) from the last prefetch of the burst, and tWR (29) from a cycle
/// after its data: the precharges begin BL/2 + tRTP - 8 = 20 and CWL + BL/2 + 1 + tWR = 60 cycles
/// after the commands.
#[test]
fn automatic_precharges_begin_when_the_family_lets_them() {
    let spec = MemorySpec::shipped("lpddr4-3200").unwrap();
    let open = |commands: &[(u64, K, u16)]| {
        let all = [&[(0, K::Activate, 0)][..], commands].concat();
        report(spec.clone(), &all, 1_000)
    };
    let read = open(&[(100, K::ReadAutoPrecharge, 0)]);
    assert_eq!(read, open(&[(100, K::Read, 0), (120, K::Precharge, 0)]));
    let write = open(&[(100, K::WriteAutoPrecharge, 0)]);
    assert_eq!(write, open(&[(100, K::Write, 0), (160, K::Precharge, 0)]));
}

/// PCM: a row of 2 KiB is sensed once, a read of it costs the buffer alone, and the two lines that
/// were written (one of them twice) go back to the cells together.
#[test]
fn cells_of_nvm_are_read_once_and_written_back_when_dirty() {
    let mut meter =
        EnergyMeter::new(&MemoryConfig::new(MemorySpec::shipped("pcm-lpddr2").unwrap()));
    let mut send = |at, kind, column| {
        meter.count(&Command { column, ..command(at, kind, 0) });
        meter.report(Cycles(at))
    };
    let close = |got: f64, wanted: f64| assert!((got - wanted).abs() < 1e-6, "{got} {wanted}");
    close(send(0, K::Activate, 0).of(EnergyKind::ArrayRead), 16384.0 * 2.47);
    send(50, K::Read, 3);
    let after = send(60, K::Read, 4);
    close(after.of(EnergyKind::BufferRead), 1024.0 * 0.93);
    close(after.of(EnergyKind::ArrayRead), 16384.0 * 2.47);
    send(70, K::Write, 4);
    send(80, K::Write, 4);
    send(90, K::Write, 5);
    let closed = send(200, K::Precharge, 0);
    close(closed.of(EnergyKind::BufferWrite), 3.0 * 512.0 * 1.02);
    close(closed.of(EnergyKind::ArrayWrite), 2.0 * 512.0 * 16.82);
    close(send(400, K::Activate, 0).of(EnergyKind::ArrayWrite), 2.0 * 512.0 * 16.82);
    assert_eq!(closed.of(Activate) + closed.of(Precharge) + closed.of(Read), 0.0);
}

#[test]
fn energy_before_a_restart_does_not_count() {
    let commands = [(0, K::Activate, 0), (15, K::Read, 0), (40, K::Precharge, 0)];
    let mut meter = EnergyMeter::new(&MemoryConfig::new(spec(DRAMPOWER)));
    let count = |meter: &mut EnergyMeter, commands: &[(u64, K, u16)]| {
        commands.iter().for_each(|(at, kind, bank)| meter.count(&command(*at, *kind, *bank)));
    };
    count(&mut meter, &commands[..1]);
    let before = meter.report(Cycles(12));
    meter.restart(Cycles(12));
    count(&mut meter, &commands[1..]);
    let (after, whole) = (meter.report(Cycles(60)), report(spec(DRAMPOWER), &commands, 60));
    assert!(after.of(Activate) == 0.0 && after.of(Read) > 0.0 && before.of(ActiveStandby) > 0.0);
    for &kind in EnergyKind::ALL {
        let sum = before.of(kind) + after.of(kind);
        assert!((sum - whole.of(kind)).abs() < 1e-6, "{kind}: {sum} of {}", whole.of(kind));
    }
}
