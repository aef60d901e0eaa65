//! `memweir calibrate`: measures this machine's memory bus and writes `platform.toml`.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use indicatif::ProgressBar;
use memweir_core::Bytes;
use memweir_linux::hog::Kernel;
use memweir_linux::tell;
use memweir_run::calibrate::{
    CalibrateError, CalibrateOptions, CalibrateProgress, CalibrationCheck, Stage, calibrate, check,
    partial_path,
};
use memweir_run::files;
use memweir_run::platform::{Effort, Machine, Platform, PlatformError, Target};

use crate::failure::{Failure, Outcome, refusal_of};
use crate::render::text::counted;
use crate::render::{plot, progress};
use crate::shared::hog::{allowed, default_array, noticed, platform_path};
use crate::value::named;
use crate::{interrupt, output};

/// Options of `memweir calibrate`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Measure for several minutes instead of some twenty seconds
    #[arg(long)]
    full: bool,
    /// Compare the calibration with the machine as it is now, in a second or two; the exit code is
    /// 1 if they differ
    #[arg(long, conflicts_with_all = ["full", "kernel", "seed", "svg"])]
    check: bool,
    /// CPUs to measure with, one hog on each [default: all]
    #[arg(long, value_name = "N,N,...", value_delimiter = ',')]
    cpus: Vec<usize>,
    /// The kernel whose peak counts [default: read, whose lines every meter counts alike]
    #[arg(long, value_name = "KERNEL", value_parser = named::<Kernel>())]
    kernel: Option<Kernel>,
    /// Seed of the random segments
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Where to write [default: platform.toml in the XDG data directory]
    #[arg(long, value_name = "FILE.toml", value_parser = crate::value::calibration)]
    platform: Option<PathBuf>,
    /// Draw the measured points and the fitted curve
    #[arg(long, value_name = "FILE.svg", value_parser = crate::value::svg)]
    svg: Option<PathBuf>,
    /// Write the calibration as JSON (`-`: to standard output instead of the text)
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
}

impl From<CalibrateError> for Failure {
    fn from(error: CalibrateError) -> Self {
        match error {
            CalibrateError::File(PlatformError::Io { path, source }) => Self::write(&path, source),
            CalibrateError::File(error) => error.into(),
            CalibrateError::NoPeak => Self::Input(refusal_of("--check", error.to_string())),
            other => Self::Machine(other.to_string()),
        }
    }
}

/// Calibrates and shows the result.
pub(crate) fn execute(args: &Args) -> Result<Outcome, Failure> {
    let path = platform_path(args.platform.as_deref())?;
    if args.check {
        output::check([&args.json], [&*path])?;
        return compare(args, path);
    }
    output::check([&args.svg, &args.json, &args.platform], [])?;
    if args.platform.is_none() {
        files::own_data_dir().map_err(|error| Failure::write(&path, error))?;
    }
    let machine = Machine::here();
    let options = options(args, &machine, path.clone())?;
    let platform = watched(|progress, stop| calibrate(&options, machine, progress, stop))?;
    let platform = match platform {
        Err(CalibrateError::Interrupted) => return interrupted(&partial_path(&path)),
        platform => platform?,
    };
    let svg = args.svg.as_ref();
    let figure =
        svg.map_or(Ok(()), |path| output::figure(path, &plot::calibration::figure(&platform)));
    let shown = output::report(args.json.as_deref(), &platform, || {
        format!("{}\nwritten to {}\n", text(&platform), path.display())
    });
    output::both(figure, shown)?;
    Ok(Outcome::Success)
}

fn options(args: &Args, machine: &Machine, path: PathBuf) -> Result<CalibrateOptions, Failure> {
    let cpus = allowed(&args.cpus)?;
    if cpus.len() < machine.cores as usize {
        tell!(
            "{} of {} cores measure; if these cannot fill the memory bus, the peak is too low",
            cpus.len(),
            machine.cores
        );
    }
    if let Some(twice) = cpus.iter().enumerate().find(|(at, cpu)| cpus[..*at].contains(cpu)) {
        let reason = format!("CPU {} is named twice", twice.1);
        let error = refusal_of("--cpus", reason);
        return Err(error.help("one hog runs on each CPU").into());
    }
    let array = noticed(default_array(machine, cpus.len()), machine);
    if stays_in_cache(array, machine) {
        return Err(Failure::Machine(format!(
            "half of the memory that memweir may use, {}, holds no arrays for {} hogs that pass \
             the cache by; name fewer --cpus, or lift the memory limit of the control group",
            machine.memory,
            cpus.len()
        )));
    }
    Ok(CalibrateOptions {
        effort: if args.full { Effort::Full } else { Effort::Quick },
        array,
        cpus,
        kernel: args.kernel,
        seed: args.seed,
        path,
    })
}

/// Returns true if a hog that runs alone finds both of its arrays in the last-level cache.
fn stays_in_cache(array: Bytes, machine: &Machine) -> bool {
    machine.caches.is_some_and(|caches| 2 * array.0 <= caches.llc.size.0)
}

/// Shows the progress of measurements, which a signal ends.
fn watched<T>(
    measure: impl FnOnce(&mut dyn FnMut(CalibrateProgress), &AtomicBool) -> T,
) -> Result<T, Failure> {
    let bar = progress::bar(Some(1000), "{wide_bar} {percent:>3} % {msg:<32}");
    let measured = measure(&mut |progress| show(&bar, &progress), interrupt::catch()?);
    bar.finish_and_clear();
    Ok(measured)
}

/// Compares the calibration with the machine as it is now, and shows both.
fn compare(args: &Args, path: PathBuf) -> Result<Outcome, Failure> {
    let platform = Platform::load(&path)?;
    let machine = Machine::here();
    if let Some(notice) = platform.notice_for(&machine) {
        tell!("{notice}");
    }
    let options = options(args, &machine, path)?;
    let found = match watched(|progress, stop| check(&options, &platform, progress, stop))? {
        Err(CalibrateError::Interrupted) => return Ok(Outcome::Interrupted),
        found => found?,
    };
    output::report(args.json.as_deref(), &found, || comparison(&found))?;
    Ok(if found.holds { Outcome::Success } else { Outcome::Changed })
}

fn comparison(found: &CalibrationCheck) -> String {
    let mut text = format!("calibrated on {}\n", found.date.strftime("%F"));
    for figure in &found.figures {
        let cores = if figure.cores == 1 { "core " } else { "cores" };
        let _ = writeln!(
            text,
            "{:>3} {cores}  {} then, {} now ({:+.0} %)",
            figure.cores,
            figure.calibrated,
            figure.now,
            100.0 * figure.change
        );
    }
    text.push_str(match found.holds {
        true => "the calibration holds\n",
        false => "the bus has changed: `memweir calibrate` measures it anew\n",
    });
    text
}

/// Shows the measurements from before a signal.
fn interrupted(partial: &Path) -> Result<Outcome, Failure> {
    let measured = Platform::load(partial).map_or_else(
        |_| "interrupted before the first point\n".to_owned(),
        |platform| {
            format!("{}\ninterrupted; its points are in {}\n", text(&platform), partial.display())
        },
    );
    output::print(&measured)?;
    Ok(Outcome::Interrupted)
}

fn show(bar: &ProgressBar, progress: &CalibrateProgress) {
    let stage = match progress.stage {
        Stage::Peak => "peak",
        Stage::FullLoad => "full load",
        Stage::IdleTable => "idle table",
        Stage::HogCurve => "hog curve",
        Stage::Segments => "segments",
        Stage::Combinations => "combinations",
    };
    bar.set_position((progress.done * 1000.0) as u64);
    bar.set_message(format!("{stage}, {}", progress.bandwidth));
}

fn text(platform: &Platform) -> String {
    let mut text = format!("{}\n", platform.machine.name());
    if let Some(peak) = &platform.peak {
        let _ = writeln!(
            text,
            "peak bandwidth        {} ({} on {})\nsaturation T_B        {}",
            peak.bandwidth,
            peak.kernel.name(),
            counted(u64::from(peak.instances), "core"),
            peak.saturation
        );
    }
    if let Some(point) = platform.hog_curve.iter().max_by(|a, b| a.demand.0.total_cmp(&b.demand.0))
    {
        let _ = writeln!(
            text,
            "two hogs at most      {} demanded, {} reached, weighted speedup {:.2}",
            point.demand, point.achieved, point.weighted_speedup
        );
    }
    match &platform.target {
        Target::Measured { coefficients: [constant, linear, quadratic], from, to, r_squared } => {
            let _ = writeln!(
                text,
                "scheduling target     {constant:.3} {linear:+.4} x {quadratic:+.6} x^2 GB/s for \
                 {from} to {to}, R^2 {r_squared:.3}, {} combinations",
                platform.combinations.len()
            );
        }
        Target::NotMeasurable { reason } => {
            let _ = writeln!(text, "scheduling target     not measurable here: {reason}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use memweir_linux::topology::TYPICAL_CACHES;

    use super::*;

    #[test]
    fn the_cache_is_not_calibrated() {
        // Arrays for two hogs in half of so much memory, beside a cache of 32 MiB.
        let refused = |mib: u64| {
            let (memory, caches) = (Bytes(mib << 20), Some(TYPICAL_CACHES));
            let machine = Machine { memory, caches, ..Machine::here() };
            stays_in_cache(default_array(&machine, 2), &machine)
        };
        assert_eq!([100, 128, 200, 4096].map(refused), [true, true, false, false]);
    }
}
