//! `memweir page energy`: the energy models of drswap section IV.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use memweir_core::input::{DataFile, InputError, Refusal};
use memweir_core::names::choose;
use memweir_core::{Bytes, Joules, LINE_BYTES, Nanos, PAGE, Seconds};
use memweir_energy::{
    Activity, BusMemory, Energy, Flash, Medium, POINTS, READINGS, Reading, TABLE_IV, average,
    break_even,
};
use serde::Serialize;

use crate::failure::{Failure, Outcome, refusal_of};
use crate::output;
use crate::render::text::Table;
use crate::value::{duration, refused, size};

/// The paper's claims (section V-E): reduction against DRAM-backed swap, in percent.
const CLAIMS: [(Bytes, f64); 3] =
    [(Bytes(128 << 20), 55.0), (Bytes(256 << 20), 60.0), (Bytes(512 << 20), 65.0)];

/// The rest of the paper's inputs, the defaults of the options.
const DURATION: Duration = Duration::from_secs(900);
const MEDIA: [&str; 3] = ["lpddr2-dram", "lpddr2-pcm", "emmc-flash"];

/// Options of `memweir page energy`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Reading of the equations: `as-printed`, `mended` (gives the paper's claims) or `physical`
    #[arg(long, value_name = "NAME", default_value = "physical")]
    #[arg(value_parser = |name: &str| reading(name).map_err(refused))]
    reading: (&'static str, Reading),
    /// Size of the swap area; the three of the paper, with the swap-ins of its Table IV, if absent
    #[arg(long, value_name = "SIZE", value_parser = area, requires = "swap_ins")]
    swap: Option<Bytes>,
    /// Pages that would have been copied in without direct read
    #[arg(long, value_name = "N", requires = "swap")]
    swap_ins: Option<u64>,
    /// Pages that were copied in with it; all of them if absent
    #[arg(long, value_name = "N", requires = "swap_ins")]
    copies_in: Option<u64>,
    /// Pages that were copied out; as many as `--swap-ins` if absent
    #[arg(long, value_name = "N", requires = "swap_ins")]
    swap_outs: Option<u64>,
    /// 64-byte lines that were read in place because no cache had them
    #[arg(long, value_name = "N", default_value_t = 0)]
    lines_in_place: u64,
    /// Time for which the swap area existed
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = duration)]
    duration: Nanos,
    /// The DRAM: a name, or a file that ends in `.toml`
    #[arg(long, value_name = "MEDIUM", default_value = "lpddr2-dram")]
    dram: String,
    /// The NVM: a name, or a file that ends in `.toml`
    #[arg(long, value_name = "MEDIUM", default_value = "lpddr2-pcm")]
    nvm: String,
    /// The flash: a name, or a file that ends in `.toml`
    #[arg(long, value_name = "MEDIUM", default_value = "emmc-flash")]
    flash: String,
    /// Write the energies as JSON (`-`: to standard output instead of the tables)
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
}

pub(super) fn reading(name: &str) -> Result<(&'static str, Reading), Refusal> {
    choose("reading", name, READINGS.map(|reading| (reading.0, reading)))
}

/// The size of a swap area.
fn area(text: &str) -> Result<Bytes, String> {
    let area = size(text)?;
    match area.0.is_multiple_of(PAGE.0) {
        true => Ok(area),
        false => Err(format!("{area} are no whole pages; write a size such as `256M`")),
    }
}

/// The three media.
struct Media {
    dram: BusMemory,
    nvm: BusMemory,
    flash: Flash,
}

/// Swap-ins with and without direct read, of an area of one size.
#[derive(Clone, Copy)]
struct Load {
    copied: Activity,
    direct: Activity,
}

/// Computes the energies and shows them.
pub(crate) fn execute(args: &Args) -> Result<Outcome, Failure> {
    output::writable(args.json.as_deref())?;
    let media =
        Media { dram: memory(&args.dram)?, nvm: memory(&args.nvm)?, flash: flash(&args.flash)? };
    let loads = loads(args)?;
    let (name, reading) = args.reading;
    let areas: Vec<Area> = loads
        .iter()
        .map(|load| Area {
            paper_percent: args.is_of_paper().then(|| claim(load.copied.size)).flatten(),
            ..Area::new(load, &media, &reading)
        })
        .collect();
    let points = POINTS.map(|(point, reading)| Point {
        point,
        less_percent: loads
            .iter()
            .map(|load| Area::new(load, &media, &reading).less_percent)
            .collect(),
    });
    let report = Report {
        reading: name,
        duration_s: args.duration.as_secs_f64(),
        areas,
        points: points.to_vec(),
        break_even_lines: break_even(&media.nvm, &media.dram),
    };
    output::report(args.json.as_deref(), &report, || render(&report))?;
    Ok(Outcome::Success)
}

fn claim(size: Bytes) -> Option<f64> {
    CLAIMS.iter().find(|(of, _)| *of == size).map(|(_, claim)| *claim)
}

impl Args {
    /// Returns true if the claims of the paper are about these inputs, however its equations are
    /// read.
    fn is_of_paper(&self) -> bool {
        let media = [self.dram.as_str(), &self.nvm, &self.flash];
        self.swap.is_none()
            && self.lines_in_place == 0
            && Duration::from(self.duration) == DURATION
            && media == MEDIA
    }
}

fn loads(args: &Args) -> Result<Vec<Load>, InputError> {
    let load = |size: Bytes, without: u64, with: u64, swap_outs: u64| {
        let copied = Activity {
            duration: Seconds(args.duration.as_secs_f64()),
            size,
            swap_ins: without,
            swap_outs,
            direct_reads: 0,
            lines_in_place: 0,
        };
        let direct = Activity {
            swap_ins: with,
            direct_reads: without - with,
            lines_in_place: args.lines_in_place,
            ..copied
        };
        Load { copied, direct }
    };
    let (Some(size), Some(without)) = (args.swap, args.swap_ins) else {
        let of_paper = |(size, cells): &(Bytes, _)| {
            let cell = average(cells);
            // Swap-outs are not printed in the paper.
            load(*size, cell.without, cell.with, cell.without)
        };
        return Ok(TABLE_IV.iter().map(of_paper).collect());
    };
    let with = args.copies_in.unwrap_or(without);
    if with > without {
        return Err(refusal_of("--copies-in", format!("{with} copies of {without} swap-ins"))
            .help("direct read leaves at most as many as there are without it"));
    }
    Ok(vec![load(size, without, with, args.swap_outs.unwrap_or(without))])
}

fn medium(name: &str) -> Result<Medium, InputError> {
    let found =
        DataFile::find("medium", name, &memweir_energy::MEDIA, Path::new(""), fs::read_to_string);
    let file = found.map_err(|refusal| refusal.written_in("command line"))?;
    Medium::parse(&file.name, &file.text)
}

pub(super) fn memory(name: &str) -> Result<BusMemory, InputError> {
    match medium(name)? {
        Medium::Memory(memory) => Ok(memory),
        Medium::Flash(_) => Err(InputError::new(name, "is flash, not memory on the bus")
            .help("`lpddr2-dram`, `lpddr2-pcm` or a file with `kind = \"memory\"`")),
    }
}

fn flash(name: &str) -> Result<Flash, InputError> {
    match medium(name)? {
        Medium::Flash(flash) => Ok(flash),
        Medium::Memory(_) => Err(InputError::new(name, "is memory on the bus, not flash")
            .help("`emmc-flash` or a file with `kind = \"flash\"`")),
    }
}

/// The report, in JSON.
#[derive(Debug, Serialize)]
struct Report {
    reading: &'static str,
    duration_s: f64,
    areas: Vec<Area>,
    points: Vec<Point>,
    break_even_lines: f64,
}

/// The energies of one size.
#[derive(Debug, Serialize)]
struct Area {
    size: Bytes,
    swap_ins: u64,
    copies_in: u64,
    swap_outs: u64,
    dram: Parts,
    flash: Parts,
    nvm: Parts,
    /// Reduction by the NVM with direct read against the DRAM.
    less_percent: f64,
    /// Savings by direct read alone, as a share of the DRAM's energy.
    direct_read_percent: f64,
    /// The paper's claim, for its own inputs.
    paper_percent: Option<f64>,
}

/// One energy by its purposes, in joules.
#[derive(Debug, Serialize)]
struct Parts {
    background_j: f64,
    moving_j: f64,
    in_place_j: f64,
    total_j: f64,
}

impl From<Energy> for Parts {
    fn from(energy: Energy) -> Self {
        Self {
            background_j: energy.background.0,
            moving_j: energy.moving.0,
            in_place_j: energy.in_place.0,
            total_j: energy.total().0,
        }
    }
}

/// One point on which the readings differ.
#[derive(Clone, Debug, Serialize)]
struct Point {
    point: &'static str,
    less_percent: Vec<f64>,
}

impl Area {
    fn new(load: &Load, media: &Media, reading: &Reading) -> Self {
        let Media { dram, nvm, flash } = media;
        let on_dram = dram.energy(&load.copied, reading, None);
        let on_nvm = nvm.energy(&load.direct, reading, Some(dram));
        let without = nvm.energy(&load.copied, reading, Some(dram));
        let all = on_dram.total().0;
        let share = |joules: f64| if all > 0.0 { 100.0 * joules / all } else { 0.0 };
        let size = load.copied.size;
        Self {
            size,
            swap_ins: load.copied.swap_ins,
            copies_in: load.direct.swap_ins,
            swap_outs: load.copied.swap_outs,
            less_percent: share(all - on_nvm.total().0),
            direct_read_percent: share(without.total().0 - on_nvm.total().0),
            dram: on_dram.into(),
            flash: flash.energy(&load.copied).into(),
            nvm: on_nvm.into(),
            paper_percent: None,
        }
    }
}

fn render(report: &Report) -> String {
    let mut areas = Table::of(&report.areas)
        .right("swap", |area| area.size)
        .right("swap-ins", |area| area.swap_ins)
        .right("copied in", |area| area.copies_in)
        .right("DRAM", |area| Joules(area.dram.total_j))
        .right("flash", |area| Joules(area.flash.total_j))
        .right("NVM, direct read", |area| Joules(area.nvm.total_j))
        .right("NVM less by", |area| format!("{:.1} %", area.less_percent))
        .right("direct read alone", |area| format!("{:.3} %", area.direct_read_percent));
    if report.areas.iter().any(|area| area.paper_percent.is_some()) {
        areas = areas.right("the paper's NVM less by", |area| {
            area.paper_percent.map_or(String::new(), |claim| format!("> {claim:.0} %"))
        });
    }
    let mut text =
        format!("{:.0} s, the equations read `{}`\n\n{areas}\n", report.duration_s, report.reading);
    let mut points = Table::of(&report.points).left("`mended`, but", |point| point.point);
    for (at, area) in report.areas.iter().enumerate() {
        points =
            points.right(area.size.to_string(), |point| format!("{:.1} %", point.less_percent[at]));
    }
    let _ = writeln!(
        text,
        "\nHow much less the NVM uses where one point is read otherwise:\n\n{points}\n\n{}",
        in_place(report.break_even_lines)
    );
    text
}

/// Tells what a page that is read in place costs beside a copy of it.
fn in_place(break_even: f64) -> String {
    if break_even.is_infinite() {
        return "A page that is read in place never costs more than a copy of it.".to_owned();
    }
    let passes = break_even / (PAGE.as_f64() / LINE_BYTES as f64);
    format!(
        "A page that is read in place costs more than a copy of it once {break_even:.0} of its \
         lines were missed in the caches ({passes:.1} times its length)."
    )
}
