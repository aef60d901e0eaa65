//! Each rule is broken by one cycle and by nothing else, and kept to the cycle; and the text
//! format.

mod text;

use memweir_core::Cycles;

use super::*;
use crate::command::{BankAddress, CommandKind as K};
use crate::config::RefreshPolicy;
use crate::spec::{MemorySpec, SHIPPED};

/// A command: cycle, kind, rank, group, bank.
type Line = (u64, K, u16, u16, u16);

fn command((at, kind, rank, group, bank): Line) -> Command {
    let has_row = kind == K::Activate || kind.direction().is_some();
    let to = BankAddress { channel: 0, rank, group, bank };
    Command { at: Cycles(at), kind, to, row: if has_row { 7 } else { 0 }, column: 0 }
}

/// The shipped memory with parameters of its file replaced, and two ranks.
fn memory(name: &str, changes: &[(&str, &str)]) -> MemoryConfig {
    let (_, text) = SHIPPED.iter().find(|(known, _)| *known == name).unwrap();
    let text = changes.iter().fold((*text).to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replacen(from, to, 1)
    });
    let spec = std::sync::Arc::new(MemorySpec::parse(name, &text).unwrap());
    MemoryConfig::of_ranks(vec![spec.clone(), spec], 1)
}

fn violations(config: &MemoryConfig, trace: &[Line]) -> Vec<Violation> {
    let mut checker = Checker::new(config).unwrap();
    trace.iter().for_each(|line| checker.check(&command(*line)));
    assert_eq!(checker.count(), checker.violations().len() as u64);
    checker.violations().to_vec()
}

/// The last command of `trace` is just in time; a cycle earlier it breaks `rule`, and no other.
fn exact(config: &MemoryConfig, rule: Rule, trace: &[Line]) {
    let found = violations(config, trace);
    assert_eq!(found, [], "{} is kept", rule.name());
    let mut early = trace.to_vec();
    early.last_mut().unwrap().0 -= 1;
    let found = violations(config, &early);
    assert_eq!(found.len(), 1, "{}: {found:?}", rule.name());
    assert_eq!(found[0].rule, rule, "{}", found[0]);
    assert_eq!(found[0].actual.0 + 1, found[0].required.0, "{}", found[0]);
    assert_eq!(found[0].second, early.last().map(|line| command(*line)));
}

/// The last command of `trace` breaks `rule`, and no other, at any time; without it, no rule is
/// broken.
fn forbidden(config: &MemoryConfig, rule: Rule, trace: &[Line]) {
    assert_eq!(violations(config, &trace[..trace.len() - 1]), []);
    let found = violations(config, trace);
    let rules: Vec<Rule> = found.iter().map(|violation| violation.rule).collect();
    assert_eq!(rules, [rule], "{found:?}");
}

fn h() -> MemoryConfig {
    memory("ddr4-2400", &[])
}

const ACT: Line = (0, K::Activate, 0, 0, 0);

#[test]
fn activates_respect_trcd_tras_trc_trp_trrd_and_tfaw() {
    exact(&h(), Rule::TRcd, &[ACT, (17, K::Read, 0, 0, 0)]);
    exact(&h(), Rule::TRcd, &[ACT, (17, K::WriteAutoPrecharge, 0, 0, 0)]);
    exact(&h(), Rule::TRas, &[ACT, (39, K::Precharge, 0, 0, 0)]);
    exact(&h(), Rule::TRas, &[ACT, (39, K::PrechargeAll, 0, 0, 0)]);
    let long_cycle = memory("ddr4-2400", &[("tRC = 56", "tRC = 60")]);
    let trace = [ACT, (39, K::Precharge, 0, 0, 0), (60, K::Activate, 0, 0, 0)];
    exact(&long_cycle, Rule::TRc, &trace);
    let trace = [ACT, (45, K::Precharge, 0, 0, 0), (62, K::Activate, 0, 0, 0)];
    exact(&h(), Rule::TRp, &trace);
    exact(&h(), Rule::TRrdS, &[ACT, (4, K::Activate, 0, 1, 0)]);
    exact(&h(), Rule::TRrdL, &[ACT, (6, K::Activate, 0, 0, 1)]);
    let window: Vec<Line> = (0..4).map(|i| (i * 4, K::Activate, 0, i as u16, 0)).collect();
    let fifth = [(26, K::Activate, 0, 0, 1)];
    exact(&h(), Rule::TFaw, &[window.as_slice(), &fifth].concat());
    let elsewhere = [(16, K::Activate, 1, 0, 1)];
    assert_eq!(violations(&h(), &[window.as_slice(), &elsewhere].concat()), []);
}

#[test]
fn precharges_respect_trtp_twr_trp_and_tppd() {
    let read = [ACT, (35, K::Read, 0, 0, 0), (44, K::Precharge, 0, 0, 0)];
    exact(&h(), Rule::TRtp, &read);
    let write = [ACT, (17, K::Write, 0, 0, 0), (51, K::Precharge, 0, 0, 0)];
    exact(&h(), Rule::TWr, &write);
    // Automatic precharge waits for tRAS, tRTP and tWR itself.
    let early = [ACT, (17, K::ReadAutoPrecharge, 0, 0, 0), (56, K::Activate, 0, 0, 0)];
    let long = memory("ddr4-2400", &[("tRC = 56", "tRC = 50")]);
    exact(&long, Rule::TRp, &early);
    let late = [ACT, (35, K::ReadAutoPrecharge, 0, 0, 0), (61, K::Activate, 0, 0, 0)];
    exact(&h(), Rule::TRp, &late);
    let write = [ACT, (17, K::WriteAutoPrecharge, 0, 0, 0), (68, K::Activate, 0, 0, 0)];
    exact(&h(), Rule::TRp, &write);
    let ddr5 = memory("ddr5-4800", &[]);
    let both = [ACT, (20, K::Activate, 0, 1, 0)];
    let closing = [(200, K::Precharge, 0, 0, 0), (202, K::Precharge, 0, 1, 0)];
    exact(&ddr5, Rule::TPpd, &[both.as_slice(), &closing].concat());
    // All banks of LPDDR take longer.
    let lpddr2 = memory("lpddr2-1066", &[]);
    let one = [ACT, (40, K::Precharge, 0, 0, 0), (50, K::Activate, 0, 0, 0)];
    exact(&lpddr2, Rule::TRp, &one);
    let all = [ACT, (40, K::PrechargeAll, 0, 0, 0), (52, K::Activate, 0, 0, 0)];
    exact(&lpddr2, Rule::TRp, &all);
}

/// LPDDR counts tRTP from the last prefetch of a burst, and tWR from a cycle after its data.
#[test]
fn precharges_of_lpddr_respect_trtp_and_twr() {
    // Bursts of 8 cycles with prefetches of 2: 8 + tRTP 4 - 2 = 10; WL 4 + 8 + 1 + tWR 8 = 21.
    let lpddr2 = memory("lpddr2-1066", &[]);
    exact(&lpddr2, Rule::TRtp, &[ACT, (20, K::Read, 0, 0, 0), (30, K::Precharge, 0, 0, 0)]);
    exact(&lpddr2, Rule::TWr, &[ACT, (20, K::Write, 0, 0, 0), (41, K::Precharge, 0, 0, 0)]);
    // Bursts of 16 with prefetches of 8: 16 + tRTP 12 - 8 = 20; WL 14 + 16 + 1 + tWR 29 = 60.
    let lpddr4 = memory("lpddr4-3200", &[]);
    exact(&lpddr4, Rule::TRtp, &[ACT, (60, K::Read, 0, 0, 0), (80, K::Precharge, 0, 0, 0)]);
    exact(&lpddr4, Rule::TWr, &[ACT, (40, K::Write, 0, 0, 0), (100, K::Precharge, 0, 0, 0)]);
    // At least as long as a prefetch takes.
    let short = memory("lpddr2-1066", &[("tRTP = { ns = 7.5, cycles = 2 }", "tRTP = 1")]);
    exact(&short, Rule::TRtp, &[ACT, (20, K::Read, 0, 0, 0), (28, K::Precharge, 0, 0, 0)]);
    let short = memory("lpddr4-3200", &[("tRTP = { ns = 7.5, cycles = 8 }", "tRTP = 7")]);
    exact(&short, Rule::TRtp, &[ACT, (60, K::Read, 0, 0, 0), (76, K::Precharge, 0, 0, 0)]);
}

/// Returns commands that open two banks of two groups, a third of the first group, and one of the
/// other rank.
fn opened() -> Vec<Line> {
    vec![ACT, (10, K::Activate, 0, 1, 0), (20, K::Activate, 0, 0, 1), (24, K::Activate, 1, 0, 0)]
}

fn then(lines: &[Line]) -> Vec<Line> {
    [opened().as_slice(), lines].concat()
}

#[test]
fn reads_and_writes_respect_tccd_and_twtr() {
    let slow = memory("ddr4-2400", &[("tCCD_S = 4", "tCCD_S = 5")]);
    for kind in [K::Read, K::Write] {
        exact(&slow, Rule::TCcdS, &then(&[(50, kind, 0, 0, 0), (55, kind, 0, 1, 0)]));
        exact(&h(), Rule::TCcdL, &then(&[(50, kind, 0, 0, 0), (56, kind, 0, 0, 1)]));
    }
    let ddr5 = memory("ddr5-4800", &[]);
    let writes = then(&[(100, K::Write, 0, 0, 0), (124, K::Write, 0, 0, 1)]);
    exact(&ddr5, Rule::TCcdL, &writes);
    let to_read = then(&[(50, K::Write, 0, 0, 0), (69, K::Read, 0, 1, 0)]);
    exact(&h(), Rule::TWtrS, &to_read);
    let to_read = then(&[(50, K::Write, 0, 0, 0), (75, K::Read, 0, 0, 1)]);
    exact(&h(), Rule::TWtrL, &to_read);
    let to_write = then(&[(50, K::Read, 0, 0, 0), (61, K::Write, 0, 1, 0)]);
    exact(&h(), Rule::ReadToWrite, &to_write);
    // LPDDR2: RL 8, tDQSCK 3, WL 4, a burst of 8 cycles.
    let lpddr2 = memory("lpddr2-1066", &[]);
    let lines = [ACT, (10, K::Activate, 0, 0, 1), (40, K::Read, 0, 0, 0), (56, K::Write, 0, 0, 1)];
    exact(&lpddr2, Rule::ReadToWrite, &lines);
    let lines = [ACT, (10, K::Activate, 0, 0, 1), (40, K::Write, 0, 0, 0), (57, K::Read, 0, 0, 1)];
    exact(&lpddr2, Rule::TWtrL, &lines);
    // LPDDR4: RL 28, tDQSCK 6, WL 14, a burst of 16 cycles, a write preamble of 2, tWTR 16.
    let lpddr4 = memory("lpddr4-3200", &[]);
    let open = [ACT, (40, K::Activate, 0, 0, 1)];
    let to_write = [(100, K::Read, 0, 0, 0), (138, K::Write, 0, 0, 1)];
    exact(&lpddr4, Rule::ReadToWrite, &[open, to_write].concat());
    let to_read = [(100, K::Write, 0, 0, 0), (147, K::Read, 0, 0, 1)];
    exact(&lpddr4, Rule::TWtrL, &[open, to_read].concat());
}

#[test]
fn buses_respect_trtrs_and_bursts() {
    let switch = then(&[(50, K::Read, 0, 0, 0), (56, K::Read, 1, 0, 0)]);
    exact(&h(), Rule::TRtrs, &switch);
    let switch = then(&[(50, K::Read, 0, 0, 0), (61, K::Write, 1, 0, 0)]);
    exact(&h(), Rule::TRtrs, &switch);
    let writes = then(&[(50, K::Write, 0, 0, 0), (54, K::Write, 1, 0, 0)]);
    exact(&h(), Rule::DataBus, &writes);
    let close = memory("ddr4-2400", &[("tRTRS = 2", "tRTRS = 0")]);
    let data = then(&[(50, K::Read, 0, 0, 0), (54, K::Read, 1, 0, 0)]);
    exact(&close, Rule::DataBus, &data);
    // A write's data comes sooner than a read's: it may pass before it, in part only on top of it.
    let before = then(&[(50, K::Read, 0, 0, 0), (51, K::Write, 1, 0, 0)]);
    assert_eq!(violations(&close, &before), []);
    let on_top = then(&[(50, K::Read, 0, 0, 0), (52, K::Write, 1, 0, 0)]);
    assert_eq!(violations(&close, &on_top)[0].rule, Rule::DataBus);
    exact(&h(), Rule::CommandBus, &[(10, K::Activate, 0, 0, 0), (11, K::Activate, 1, 0, 0)]);
    let lpddr4 = memory("lpddr4-3200", &[]);
    exact(&lpddr4, Rule::CommandBus, &[(10, K::Activate, 0, 0, 0), (14, K::Activate, 1, 0, 0)]);
    let ddr5 = memory("ddr5-4800", &[]);
    exact(&ddr5, Rule::CommandBus, &[(10, K::Activate, 0, 0, 0), (12, K::Activate, 1, 0, 0)]);
    let back = [(10, K::PowerDownEnter, 0, 0, 0), (9, K::PowerDownEnter, 1, 0, 0)];
    forbidden(&h(), Rule::Order, &back);
}

#[test]
fn refreshes_respect_trfc_trfcpb_and_trefsbrd() {
    exact(&h(), Rule::TRfc, &[(100, K::Refresh, 0, 0, 0), (520, K::Activate, 0, 3, 3)]);
    exact(&h(), Rule::TRfc, &[(100, K::Refresh, 0, 0, 0), (520, K::Refresh, 0, 0, 0)]);
    let trace = [ACT, (39, K::Precharge, 0, 0, 0), (56, K::Refresh, 0, 0, 0)];
    exact(&h(), Rule::TRp, &trace);
    forbidden(&h(), Rule::RefreshOfOpenBank, &[ACT, (500, K::Refresh, 0, 0, 0)]);
    forbidden(&h(), Rule::NoSuchCommand, &[(500, K::RefreshBank, 0, 0, 0)]);
    let lpddr4 = memory("lpddr4-3200", &[]);
    let first = (100, K::RefreshBank, 0, 0, 0);
    exact(&lpddr4, Rule::TRfcPb, &[first, (324, K::RefreshBank, 0, 0, 1)]);
    exact(&lpddr4, Rule::TRfcPb, &[first, (324, K::Activate, 0, 0, 0)]);
    exact(&lpddr4, Rule::TRfcPb, &[first, (324, K::Refresh, 0, 0, 0)]);
    exact(&lpddr4, Rule::TRefsbrd, &[first, (116, K::Activate, 0, 0, 1)]);
    exact(&lpddr4, Rule::TRefsbrd, &[ACT, (16, K::RefreshBank, 0, 0, 1)]);
    forbidden(&lpddr4, Rule::RefreshTurn, &[first, (500, K::RefreshBank, 0, 0, 0)]);
    forbidden(&lpddr4, Rule::RefreshOfOpenBank, &[ACT, (500, K::RefreshBank, 0, 0, 0)]);
    // In LPDDR, four activates are activates and refreshes of banks.
    let lpddr2 = memory("lpddr2-1066", &[]);
    let rows = |first, from| -> Vec<Line> {
        (0..3u64).map(|i| (first + 6 * i, K::Activate, 0, 0, from + i as u16)).collect()
    };
    let refreshed = [&[(100, K::RefreshBank, 0, 0, 0)], rows(106, 1).as_slice()].concat();
    let fifth = (127, K::Activate, 0, 0, 4);
    exact(&lpddr2, Rule::TFaw, &[refreshed.as_slice(), &[fifth]].concat());
    let opened = [&[ACT], rows(6, 1).as_slice(), &[(27, K::RefreshBank, 0, 0, 4)]].concat();
    exact(&lpddr2, Rule::TFaw, &opened);
    // DDR5 takes the banks of one number in all groups: 130 ns, 30 ns for others.
    let ddr5 = memory("ddr5-4800", &[]);
    let same = (100, K::RefreshBank, 0, 0, 2);
    exact(&ddr5, Rule::TRfcPb, &[same, (412, K::Activate, 0, 7, 2)]);
    exact(&ddr5, Rule::TRefsbrd, &[same, (172, K::Activate, 0, 7, 1)]);
    let open = [(0, K::Activate, 0, 5, 2), (500, K::RefreshBank, 0, 0, 2)];
    forbidden(&ddr5, Rule::RefreshOfOpenBank, &open);
    let turns: Vec<Line> =
        (0..9).map(|i| (i * 1171, K::RefreshBank, 0, 0, (i % 4) as u16)).collect();
    assert_eq!(violations(&ddr5, &turns), []);
}

/// Nine intervals of 9360 cycles may pass, then one, if eight were postponed.
#[test]
fn refresh_intervals_respect_trefi() {
    let h = h();
    let one = |at| (at, K::Refresh, 0, 0, 0);
    let rules = |trace: &[Line]| -> Vec<Rule> {
        violations(&h, trace).iter().map(|violation| violation.rule).collect()
    };
    assert_eq!(rules(&[one(9 * 9360)]), []);
    assert_eq!(rules(&[one(9 * 9360 + 1)]), [Rule::TRefi; 16], "each bank of the rank");
    assert_eq!(rules(&[one(9 * 9360), one(10 * 9360)]), []);
    assert_eq!(rules(&[one(9 * 9360), one(10 * 9360 + 1)]), [Rule::TRefi; 16]);
    // Eight were pulled in, a ninth is for nothing.
    let early: Vec<Line> = (0..9).map(|i| one(1000 + i * 420)).collect();
    assert_eq!(rules(&[early.as_slice(), &[one(4360 + 9 * 9360)]].concat()), []);
    let late = [early.as_slice(), &[one(4361 + 9 * 9360)]].concat();
    assert_eq!(rules(&late), [Rule::TRefi; 16]);
    // While a rank refreshes itself, nothing falls due.
    let asleep = [(1000, K::SelfRefreshEnter, 0, 0, 0), (1_001_000, K::SelfRefreshExit, 0, 0, 0)];
    let due = 1_000_000 + 9 * 9360;
    assert_eq!(rules(&[asleep.as_slice(), &[one(due)]].concat()), []);
    assert_eq!(rules(&[asleep.as_slice(), &[one(due + 1)]].concat()), [Rule::TRefi; 16]);
}

#[test]
fn missing_refreshes_violate_trefi_at_the_end() {
    let mut config = h();
    let at_end = |config: &MemoryConfig, end: u64| {
        let mut checker = Checker::new(config).unwrap();
        checker.finish(Cycles(end));
        checker
    };
    assert_eq!(at_end(&config, 9 * 9360).count(), 0);
    let missed = at_end(&config, 9 * 9360 + 1);
    assert_eq!(missed.count(), 32);
    assert_eq!(
        missed.violations()[17].to_string(),
        "at the end: channel 0 rank 1 group 0 bank 1: tREFI: 84241 cycles after the start, 84240 allowed"
    );
    config.refresh = RefreshPolicy::Off;
    assert_eq!(at_end(&config, 1_000_000).count(), 0);
    // One bank is left out.
    let mut checker = Checker::new(&memory("lpddr4-3200", &[])).unwrap();
    for turn in 0..100 {
        let (at, bank) = (turn * 780, (turn % 7) as u16);
        checker.check(&command((at, K::RefreshBank, 0, 0, bank)));
    }
    let first = checker.violations().first().unwrap();
    assert_eq!(first.rule, Rule::RefreshTurn, "{first}");
    checker.finish(Cycles(100 * 780));
    let late = checker.violations().iter().filter(|late| late.rule == Rule::TRefi);
    let late: Vec<u16> =
        late.filter(|late| late.place.rank == 0).map(|late| late.place.bank).collect();
    assert_eq!(late, [7]);
}

#[test]
fn power_down_and_self_refresh_respect_tcke_txp_tckesr_and_txs() {
    let down = (100, K::PowerDownEnter, 0, 0, 0);
    exact(&h(), Rule::TCke, &[down, (106, K::PowerDownExit, 0, 0, 0)]);
    let up = (130, K::PowerDownExit, 0, 0, 0);
    exact(&h(), Rule::TXp, &[down, up, (138, K::Activate, 0, 0, 0)]);
    exact(&h(), Rule::TCke, &[down, up, (136, K::PowerDownEnter, 0, 0, 0)]);
    let read = [ACT, (30, K::Read, 0, 0, 0), (52, K::PowerDownEnter, 0, 0, 0)];
    exact(&h(), Rule::PowerDownEntry, &read);
    let write = [ACT, (30, K::Write, 0, 0, 0), (64, K::PowerDownEnter, 0, 0, 0)];
    exact(&h(), Rule::PowerDownEntry, &write);
    exact(&h(), Rule::PowerDownEntry, &[ACT, (1, K::PowerDownEnter, 0, 0, 0)]);
    let asleep = (100, K::SelfRefreshEnter, 0, 0, 0);
    exact(&h(), Rule::TCkesr, &[asleep, (107, K::SelfRefreshExit, 0, 0, 0)]);
    let awake = (200, K::SelfRefreshExit, 0, 0, 0);
    let exit = h().spec().timing.get("tXS").unwrap().0;
    let woken = [asleep, awake, (200 + exit, K::Activate, 0, 0, 0)];
    exact(&h(), Rule::TXs, &woken);
    let closed = [ACT, (40, K::Precharge, 0, 0, 0), (57, K::SelfRefreshEnter, 0, 0, 0)];
    exact(&h(), Rule::TRp, &closed);
    forbidden(&h(), Rule::RefreshOfOpenBank, &[ACT, (900, K::SelfRefreshEnter, 0, 0, 0)]);
    forbidden(&h(), Rule::Asleep, &[down, (500, K::Activate, 0, 0, 0)]);
    forbidden(&h(), Rule::Asleep, &[asleep, (500, K::Refresh, 0, 0, 0)]);
    forbidden(&h(), Rule::Awake, &[(500, K::PowerDownExit, 0, 0, 0)]);
    forbidden(&h(), Rule::Awake, &[down, (500, K::SelfRefreshExit, 0, 0, 0)]);
    assert_eq!(violations(&h(), &[down, (101, K::Activate, 1, 0, 0)]), [], "the other rank");
}

#[test]
fn commands_respect_bank_states() {
    forbidden(&h(), Rule::ClosedBank, &[(500, K::Read, 0, 0, 0)]);
    let closed = [ACT, (60, K::ReadAutoPrecharge, 0, 0, 0), (500, K::Write, 0, 0, 0)];
    forbidden(&h(), Rule::ClosedBank, &closed);
    forbidden(&h(), Rule::OpenBank, &[ACT, (500, K::Activate, 0, 0, 0)]);
    let mut checker = Checker::new(&h()).unwrap();
    checker.check(&command(ACT));
    checker.check(&Command { row: 8, ..command((60, K::Read, 0, 0, 0)) });
    assert_eq!(checker.violations()[0].rule, Rule::OtherRow);
    // A closed bank ignores a precharge.
    assert_eq!(violations(&h(), &[(10, K::Precharge, 0, 0, 0), (11, K::Activate, 0, 0, 0)]), []);
}

#[test]
fn addresses_exist() {
    forbidden(&h(), Rule::Address, &[(10, K::Activate, 2, 0, 0)]);
    forbidden(&h(), Rule::Address, &[(10, K::Activate, 0, 4, 0)]);
    forbidden(&h(), Rule::Address, &[(10, K::Activate, 0, 0, 4)]);
    let mut checker = Checker::new(&h()).unwrap();
    checker.check(&Command { row: 65536, ..command(ACT) });
    checker.check(&Command { column: 128, ..command((100, K::Read, 0, 0, 0)) });
    let mut elsewhere = command(ACT);
    elsewhere.to.channel = 1;
    checker.check(&elsewhere);
    assert!(checker.violations().iter().all(|violation| violation.rule == Rule::Address));
    assert_eq!(checker.count(), 3);
}

#[test]
fn violations_name_rule_commands_and_cycles() {
    let found = violations(&h(), &[ACT, (16, K::Read, 0, 0, 0)]);
    assert_eq!(
        found[0].to_string(),
        "cycle 16: read of channel 0 rank 0 group 0 bank 0: tRCD: 16 cycles after \
         activate of channel 0 rank 0 group 0 bank 0 row 7 at 0, 17 required"
    );
    let found = violations(&h(), &[ACT, (500, K::Refresh, 0, 0, 0)]);
    assert_eq!(
        found[0].to_string(),
        "cycle 500: refresh of channel 0 rank 0: refresh of an open bank, after \
         activate of channel 0 rank 0 group 0 bank 0 row 7 at 0"
    );
}

#[test]
fn the_first_violations_are_kept_and_all_are_counted() {
    let mut checker = Checker::new(&h()).unwrap();
    for i in 0..1000 {
        checker.check(&command((i * 10, K::Read, 0, 0, 0)));
    }
    assert_eq!((checker.count(), checker.violations().len()), (1000, Violation::KEPT));
    assert_eq!((checker.commands(), checker.last()), (1000, Cycles(9990)));
}

#[test]
fn every_shipped_memory_can_be_checked() {
    for (name, _) in SHIPPED {
        assert!(Checker::new(&memory(name, &[])).is_ok(), "{name}");
    }
}
