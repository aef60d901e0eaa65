//! Costs of pages of chosen colors: the rates at which they are gathered and delivered, the cost of
//! a page fault beside a plain one, and the slowdown of a colored program beyond its page faults.
//!
//! The measured programs are this one again, which touches memory page by page and then passes over
//! it. Plain and colored runs alternate, so that disturbances of the machine affect both; neither
//! has huge pages.
//!
//! `cargo bench -p memweir-color --bench pool`; `MEMWEIR_ROUNDS` is the number of rounds.

use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use memmap2::MmapMut;
use memweir_abi::kernel::PAGE_BYTES;
use memweir_abi::preload::{Counter, Delivery, Shortage};
use memweir_color::{Colored, Request, Totals};
use memweir_core::address_map::AddressMap;
use memweir_core::metrics::{Interval, hodges_lehmann};
use memweir_core::names::Named;
use memweir_test_support::rows::record;
use nix::sys::prctl;
use nix::time::{ClockId, clock_gettime};

/// Sixteen colors that neighboring pages differ in, so that no two pages of one color can be moved
/// at once: the worst of all maps with as many colors.
const MAP: &str = "name = \"bench\"\nbits = 36\n\
    function = [{ bits = [12] }, { bits = [13] }, { bits = [14] }, { bits = [15] }]\n";
const ROUNDS: usize = 12;
const PAGE: usize = PAGE_BYTES;
const MIB: usize = 1 << 20;
/// Memory that a program touches in one color.
const ONE_COLOR_MIB: usize = 128;
/// Memory that a program touches whose pages wait in the pool.
const READY_MIB: usize = 64;
/// Passes over the memory, of programs that are measured beyond their page faults.
const PASSES: usize = 60;
const LEVEL: f64 = 0.95;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, "touch", mib, passes] = arguments.iter().map(String::as_str).collect::<Vec<_>>()[..]
    {
        let number = |text: &str| text.parse().expect("a number");
        touch(number(mib), number(passes));
        return ExitCode::SUCCESS;
    }
    if !arguments.iter().any(|argument| argument == "--bench") {
        println!("run `cargo bench -p memweir-color --bench pool` to measure");
        return ExitCode::SUCCESS;
    }
    let rounds = std::env::var("MEMWEIR_ROUNDS")
        .map_or(ROUNDS, |number| number.parse().expect("MEMWEIR_ROUNDS is a number"));
    if let Err(error) = measure(rounds) {
        memweir_test_support::skip!(Privilege, "{error}");
    }
    ExitCode::SUCCESS
}

/// Measurements that a program reports of itself.
struct Told {
    touch_seconds: f64,
    /// CPU time of the passes.
    pass_seconds: f64,
    mappings_before: usize,
    mappings_after: usize,
}

/// Touches memory page by page, passes over it and reports the time of both.
fn touch(mib: usize, passes: usize) {
    prctl::set_thp_disable(true).expect("a setting of this process");
    let mappings = || std::fs::read_to_string("/proc/self/maps").map_or(0, |t| t.lines().count());
    let mut memory = MmapMut::map_anon(mib * MIB).expect("memory");
    let before = mappings();
    let begun = Instant::now();
    for page in memory.chunks_mut(PAGE) {
        page[0] = 1;
    }
    let touched = begun.elapsed();
    let after = mappings();
    let begun = cpu_time();
    let mut sum = 0u64;
    for _ in 0..passes {
        sum = sum.wrapping_add(memory.iter().map(|byte| u64::from(*byte)).sum::<u64>());
        memory[0] = memory[0].wrapping_add(std::hint::black_box(sum) as u8);
    }
    let passed = cpu_time() - begun;
    println!("{} {} {before} {after}", touched.as_secs_f64(), passed.as_secs_f64());
}

fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("the clock of this process").into()
}

/// Runs the program with these variables in its environment.
fn run(mib: usize, passes: usize, colored: Option<&Colored>) -> Result<Told, String> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut command = Command::new(program);
    command.args(["touch", &mib.to_string(), &passes.to_string()]).stderr(Stdio::inherit());
    let environment = colored.map_or(&[][..], Colored::environment);
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    let output = command.output().map_err(|e| e.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let numbers: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    match numbers[..] {
        [touch_seconds, pass_seconds, before, after] => Ok(Told {
            touch_seconds,
            pass_seconds,
            mappings_before: before as usize,
            mappings_after: after as usize,
        }),
        _ => Err(format!("the program ended with {} and said `{text}`", output.status)),
    }
}

/// The same in pages of these colors, some of which are in the pool before the program starts.
fn run_colored(
    colors: &str,
    delivery: Delivery,
    pool_mib: usize,
    mib: usize,
    passes: usize,
) -> Result<(Told, Totals), String> {
    let request = Request {
        map: AddressMap::parse("bench", MAP).map_err(|e| e.to_string())?,
        colors: colors.parse().map_err(|e: memweir_core::input::Refusal| e.to_string())?,
        cache: None,
        shortage: Shortage::Spill,
        delivery: Some(delivery),
        pool_pages: (pool_mib * MIB / PAGE) as u64,
        limit_pages: 0,
    };
    let colored = Colored::prepare(&request, None).map_err(|e| e.to_string())?;
    let told = run(mib, passes, Some(&colored))?;
    let totals = colored.totals();
    if totals.get(Counter::Processes) == 0 || totals.get(Counter::Spilled) > 0 {
        return Err("the program did not get the pages that it should".to_owned());
    }
    Ok((told, totals))
}

/// Measurements of one way to deliver pages.
struct Way {
    name: &'static str,
    delivery: Delivery,
    one_color: OneColor,
    /// Pages per second put into the pool, by the requested colors.
    pooled: [(&'static str, Vec<f64>); 3],
    faults: Vec<f64>,
    /// Logarithms of CPU time beyond page faults over that of the plain program.
    beyond: Vec<f64>,
}

impl Way {
    /// The ways that work on this kernel.
    fn all() -> Vec<Self> {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let works = Delivery::ALL.iter().filter(|delivery| delivery.works_on(&release));
        let way = |delivery: &Delivery| Self {
            name: delivery.name(),
            delivery: *delivery,
            one_color: OneColor::default(),
            pooled: ["0", "0-7", "0-15"].map(|colors| (colors, Vec::new())),
            faults: Vec::new(),
            beyond: Vec::new(),
        };
        works.map(way).collect()
    }

    fn measure(&mut self, round: usize, plain: &mut Vec<f64>) -> Result<(), String> {
        self.one_color.measure(self.delivery)?;
        for (colors, rates) in &mut self.pooled {
            let (_, totals) = run_colored(colors, self.delivery, READY_MIB, 1, 0)?;
            rates.push(rate(&totals, Counter::Gathered, Counter::MoveMicros));
        }
        let all = || {
            let ran = run_colored("0-15", self.delivery, READY_MIB + 4, READY_MIB, PASSES);
            ran.map(|(told, _)| told)
        };
        let none = || run(READY_MIB, PASSES, None);
        let (one, other) = if round.is_multiple_of(2) {
            let one = none()?;
            (one, all()?)
        } else {
            let other = all()?;
            (none()?, other)
        };
        plain.push(per_fault(&one));
        self.faults.push(per_fault(&other));
        self.beyond.push((other.pass_seconds / one.pass_seconds).ln());
        Ok(())
    }

    fn print(self) {
        let name = self.name;
        println!("{name}:");
        self.one_color.print(name);
        for (colors, rates) in self.pooled {
            let what = format!("{name}: put into the pool, colors {colors}");
            record(&what, "pages/s", rates.iter().copied());
            println!(
                "  put into the pool, colors {colors:>4} of 16:    {} thousand pages per second",
                spread(rates, 1e3)
            );
        }
        record(&format!("{name}: page fault"), "us", self.faults.iter().copied());
        println!("  page fault, served from the pool:     {} us", spread(self.faults, 1.0));
        let percent = self.beyond.iter().map(|difference| difference * 100.0);
        record(&format!("{name}: CPU time beyond page faults"), "%", percent);
        print_beyond(&self.beyond);
    }
}

fn measure(rounds: usize) -> Result<(), String> {
    let mut ways = Way::all();
    let mut plain = Vec::new();
    for round in 0..rounds {
        for way in &mut ways {
            way.measure(round, &mut plain)?;
        }
    }
    record("page fault, plain", "us", plain.iter().copied());
    println!("page fault, plain:                      {} us", spread(plain, 1.0));
    ways.into_iter().for_each(Way::print);
    Ok(())
}

/// A program in one of 16 colors, whose pages are searched while it runs.
#[derive(Default)]
struct OneColor {
    delivered: Vec<f64>,
    gathered: Vec<f64>,
    missed: u64,
    mappings: Vec<(usize, usize)>,
}

impl OneColor {
    fn measure(&mut self, delivery: Delivery) -> Result<(), String> {
        let (told, totals) = run_colored("5", delivery, 1, ONE_COLOR_MIB, 0)?;
        self.delivered.push(ONE_COLOR_MIB as f64 / told.touch_seconds);
        let pages = rate(&totals, Counter::Gathered, Counter::GatherMicros);
        self.gathered.push(pages * PAGE as f64 / MIB as f64);
        self.missed += totals.get(Counter::Missed);
        self.mappings.push((told.mappings_before, told.mappings_after));
        Ok(())
    }

    fn print(self, way: &str) {
        let what = format!("{way}: one of 16 colors, gathered");
        record(&what, "MiB/s", self.gathered.iter().copied());
        let pages = self.delivered.len() * ONE_COLOR_MIB * MIB / PAGE;
        println!("  one of 16 colors, gathered:           {} MiB/s", spread(self.gathered, 1.0));
        println!("  one of 16 colors, touched by program: {} MiB/s", spread(self.delivered, 1.0));
        println!("  pages of another color at first:      {} of {pages}", self.missed);
        let added = self.mappings.iter().map(|(before, after)| after - before.min(after));
        record(&format!("{way}: mappings added"), "", added.clone().map(|added| added as f64));
        let (before, _) = self.mappings.first().copied().unwrap_or_default();
        println!(
            "  mappings while {ONE_COLOR_MIB} MiB are placed: {before}, and at most {} more",
            added.max().unwrap_or(0)
        );
    }
}

/// Pages per second.
fn rate(totals: &Totals, pages: Counter, micros: Counter) -> f64 {
    totals.get(pages) as f64 * 1e6 / totals.get(micros).max(1) as f64
}

/// Microseconds.
fn per_fault(told: &Told) -> f64 {
    told.touch_seconds * 1e6 / (READY_MIB * MIB / PAGE) as f64
}

/// Median, least and most, in this unit.
fn spread(mut values: Vec<f64>, unit: f64) -> String {
    values.sort_by(f64::total_cmp);
    match (values.first(), values.get(values.len() / 2), values.last()) {
        (Some(least), Some(median), Some(most)) => {
            format!("{:.1} ({:.1} to {:.1})", median / unit, least / unit, most / unit)
        }
        _ => "not measured".to_owned(),
    }
}

fn print_beyond(differences: &[f64]) {
    let Some((usual, interval)) = hodges_lehmann(differences, LEVEL) else { return };
    print!("  CPU time beyond page faults:          {:+.2} %", usual * 100.0);
    if let Some(Interval { low, high }) = interval {
        print!(" (95 %: {:+.2} to {:+.2} %)", low * 100.0, high * 100.0);
    }
    println!(", {} pairs", differences.len());
}
