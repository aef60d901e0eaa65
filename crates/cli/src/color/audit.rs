//! `memweir color audit`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use memweir_color::audit::{Audit, audit, order_of};
use memweir_core::address_map::ColorSet;
use memweir_core::input::InputError;

use crate::failure::{Failure, Outcome};
use crate::output::{self, Reader};
use crate::render::text::Table;
use crate::shared::map;
use crate::value::parsed;

/// Columns of the longest bar.
const BAR: u64 = 40;

/// Options of `memweir color audit`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The process
    #[arg(value_name = "PID")]
    pid: u32,
    /// The map of this machine; not needed for what `memweir color run` started
    #[arg(long, value_name = "FILE")]
    map: Option<PathBuf>,
    /// The colors that it should use; not needed for what `memweir color run` started
    #[arg(long, value_name = "COLORS", value_parser = parsed::<ColorSet>)]
    colors: Option<ColorSet>,
    /// Look again every so many seconds until the process ends
    #[arg(long, value_name = "SECONDS", value_parser = interval)]
    watch: Option<Duration>,
    /// Write the audit as JSON (`-`: to standard output instead of the table)
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
}

/// An interval between two looks: shorter ones would be one look without end.
fn interval(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.01..=86_400.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(format!("`{text}` is no interval: write seconds, from 0.01 to 86400")),
    }
}

/// Looks at the process.
pub(crate) fn execute(args: &Args) -> Result<Outcome, Failure> {
    output::check([&args.json], args.map.as_deref())?;
    if !Path::new(&format!("/proc/{}", args.pid)).exists() {
        let reason = format!("there is no process {}", args.pid);
        return Err(InputError::new("command line", reason)
            .help("name a process that runs")
            .into());
    }
    let order = order_of(args.pid);
    let coloring = match (&args.map, &order) {
        (Some(path), _) => map::read(path)?.coloring(12),
        (None, Some(order)) => order.coloring.clone(),
        (None, None) => {
            let reason = format!("process {} was not started by `memweir color run`", args.pid);
            return Err(InputError::new("command line", reason)
                .help("name the map with --map")
                .into());
        }
    };
    let given = order.filter(|order| order.coloring == coloring).map(|order| order.colors);
    let asked = args.colors.clone().or(given).unwrap_or_else(|| ColorSet::all(coloring.colors()));
    let refuse = |refusal: memweir_core::input::Refusal| refusal.written_in("command line");
    asked.within(coloring.colors()).map_err(refuse)?;
    let mut seen = false;
    loop {
        let found = match audit(args.pid, &coloring, &asked) {
            Ok(found) => found,
            Err(_) if seen => return Ok(Outcome::Success),
            Err(error) => return Err(error.into()),
        };
        seen = true;
        let reader = output::shown_report(args.json.as_deref(), &found, || text(&found))?;
        match args.watch {
            Some(interval) if reader == Reader::There => std::thread::sleep(interval),
            _ => return Ok(Outcome::Success),
        }
    }
}

/// The audit as a table by kind and a histogram by color.
fn text(audit: &Audit) -> String {
    let share = |pages: u64, inside: u64| match pages {
        0 => "-".to_owned(),
        _ => format!("{:.2} %", inside as f64 * 100.0 / pages as f64),
    };
    let kinds = audit.kinds.iter();
    let kinds = kinds.map(|(kind, pages)| (format!("{kind:?}").to_lowercase(), pages));
    let own = ("own (heap, anonymous, stack)".to_owned(), &audit.own);
    let table = Table::of(kinds.chain([own]))
        .left("memory", |(name, _)| name.clone())
        .right("pages", |(_, pages)| pages.pages)
        .right("inside", |(_, pages)| pages.inside)
        .right("share", |(_, pages)| share(pages.pages, pages.inside));
    let mut text = format!(
        "process {}, colors {} of {}\n{table}\n\n",
        audit.pid, audit.asked, audit.color_count
    );
    let most = audit.own.colors.values().copied().max().unwrap_or(1).max(1);
    for (color, pages) in &audit.own.colors {
        let bar = "#".repeat((pages * BAR).div_ceil(most) as usize);
        let _ = writeln!(text, "color {color:>4} {pages:>9} {bar}");
    }
    text
}
