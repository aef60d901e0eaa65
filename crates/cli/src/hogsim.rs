//! `memweir hogsim`: replays a bandwidth segment on the memory bus (X2).

use std::path::{Path, PathBuf};

use memweir_core::BytesPerSec;
use memweir_core::input::InputError;
use memweir_linux::hog::Kernel;
use memweir_linux::tell;
use memweir_run::files;
use memweir_run::hog::{HogPlan, IdleTable, hogsim};
use memweir_run::platform::Platform;
use memweir_run::segment::{self, Segment, Shape};

use crate::failure::{Failure, Outcome, refusal_of};
use crate::shared::hog::{Common, platform_path};
use crate::value::{bandwidth, named};
use crate::{interrupt, output};

/// Options of `memweir hogsim`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A segment (rates) or a plan (steps and nops)
    #[arg(value_name = "FILE", required_unless_present = "synthetic")]
    file: Option<PathBuf>,
    /// Make a segment of random bursts with this mean instead, for example `4GB/s`
    #[arg(long, value_name = "RATE", value_parser = bandwidth, conflicts_with = "file")]
    synthetic: Option<BytesPerSec>,
    /// Amplitude of a synthetic segment about its mean, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.5, requires = "synthetic")]
    #[arg(conflicts_with = "file")]
    burstiness: f64,
    /// Seed of a synthetic segment
    #[arg(long, value_name = "N", default_value_t = 1, requires = "synthetic")]
    #[arg(value_parser = crate::value::seed, conflicts_with = "file")]
    seed: u64,
    /// The kernel whose steps replay a segment [default: that of the calibration's idle table]
    #[arg(long, value_name = "KERNEL", value_parser = named::<Kernel>())]
    kernel: Option<Kernel>,
    /// Scale the fluctuation about the mean by Y (iabw section 2.3)
    #[arg(long, value_name = "Y", value_parser = factor)]
    degree: Option<f64>,
    /// Stretch the fluctuation in time by X
    #[arg(long, value_name = "X", value_parser = positive)]
    period: Option<f64>,
    /// Make the fluctuation regular, keeping its values
    #[arg(long)]
    regular: bool,
    /// The calibration, whose idle table says how many nops make a rate
    #[arg(long, value_name = "FILE")]
    platform: Option<PathBuf>,
    /// Write the plan to a file, to be replayed without the calibration
    #[arg(long, value_name = "FILE")]
    write_plan: Option<PathBuf>,
    /// Write the segment, after its transformations, to a file
    #[arg(long, value_name = "FILE")]
    write_segment: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

/// Load that a file or the options describe.
enum Load {
    Segment(Segment),
    Plan(HogPlan),
}

/// Runs HogSim and shows the result.
pub(crate) fn execute(args: &Args) -> Result<Outcome, Failure> {
    let results = [&args.write_plan, &args.write_segment, &args.common.json];
    output::check(results, args.file.as_deref())?;
    let plan = match load(args)? {
        Load::Plan(plan) => plan,
        Load::Segment(segment) => plan_of(&transformed(segment, args)?, args)?,
    };
    if let Some(path) = &args.write_plan {
        output::file(path, &plan.to_text())?;
    }
    let options = args.common.options(plan.kernel())?;
    let report = hogsim(&options, &plan, interrupt::catch()?)
        .map_err(|error| Failure::Machine(error.to_string()))?;
    args.common.show(&report)
}

fn load(args: &Args) -> Result<Load, Failure> {
    if let Some(mean) = args.synthetic {
        if !(0.0..=1.0).contains(&args.burstiness) {
            return Err(refusal_of("--burstiness", "burstiness lies between 0 and 1").into());
        }
        let ceiling = idle_table(args)?.fastest();
        if mean > ceiling {
            let reason = format!("one core reaches {ceiling} here, not {mean}");
            return Err(refusal_of("--synthetic", reason)
                .help("name a lower mean, or run an instance on each of several CPUs (--cpus)")
                .into());
        }
        let shape = Shape { mean, burstiness: args.burstiness, ceiling };
        return Ok(Load::Segment(segment::synthetic(&shape, args.seed)));
    }
    let path = args.file.as_deref().unwrap_or(Path::new(""));
    let name = path.display().to_string();
    let text = files::text(path)?;
    if text.trim_start().starts_with("memweir-hogsim") {
        if args.degree.is_some() || args.period.is_some() || args.regular {
            return Err(InputError::new(&name, "a plan cannot be transformed")
                .help("transform the segment that it was made of")
                .into());
        }
        if args.write_segment.is_some() {
            return Err(InputError::new(&name, "a plan has no segment that could be written")
                .key("--write-segment")
                .help("leave it out, or name a segment")
                .into());
        }
        let plan = HogPlan::parse(&text, &name)?;
        if let Some(kernel) = args.kernel.filter(|kernel| *kernel != plan.kernel()) {
            let (of_plan, asked) = (plan.kernel().name(), kernel.name());
            let reason = format!("the plan is of the kernel {of_plan}, not {asked}");
            let error = InputError::new(&name, reason).key("--kernel");
            return Err(error.help("leave it out, or name the segment of the plan").into());
        }
        return Ok(Load::Plan(plan));
    }
    Ok(Load::Segment(segment::parse(&text, &name)?))
}

/// Transforms the segment as the options say.
///
/// # Errors
/// Factors may lead beyond what a segment can be.
fn transformed(segment: Segment, args: &Args) -> Result<Segment, InputError> {
    let segment = if args.regular { segment.regular() } else { segment };
    let segment = args.period.map_or(segment.clone(), |x| segment.with_period(x));
    let segment = args.degree.map_or(segment.clone(), |y| segment.with_degree(y));
    Segment::new(segment.interval(), segment.rates().to_vec())
}

/// A factor, zero or more.
fn factor(text: &str) -> Result<f64, String> {
    let factor = text.parse().ok().filter(|factor: &f64| factor.is_finite() && *factor >= 0.0);
    factor.ok_or_else(|| format!("`{text}` is no factor: write a number such as 0.5 or 2"))
}

/// A factor above zero.
fn positive(text: &str) -> Result<f64, String> {
    factor(text).and_then(|factor| match factor > 0.0 {
        true => Ok(factor),
        false => Err("a period of no length does not fluctuate".to_owned()),
    })
}

fn plan_of(segment: &Segment, args: &Args) -> Result<HogPlan, Failure> {
    if let Some(path) = &args.write_segment {
        output::file(path, &segment::to_text(segment))?;
    }
    let table = idle_table(args)?;
    // Rounding in the file of a segment is no excess.
    let fastest = table.fastest() * 1.001;
    let beyond = segment.rates().iter().filter(|rate| **rate > fastest).count();
    if beyond > 0 {
        tell!(
            "{beyond} of {} intervals ask for more than the {} that one core reaches, and \
             take longer",
            segment.rates().len(),
            table.fastest()
        );
    }
    Ok(HogPlan::of_segment(segment, &table))
}

fn idle_table(args: &Args) -> Result<IdleTable, Failure> {
    let path = platform_path(args.platform.as_deref())?;
    let platform = Platform::load(&path)?;
    if let Some(kernel) = args.kernel.filter(|kernel| *kernel != platform.kernel) {
        let (of_table, asked) = (platform.kernel.name(), kernel.name());
        let reason = format!("the idle table is of the kernel {of_table}, not {asked}");
        let error = InputError::new(path.display().to_string(), reason).key("--kernel");
        let help = format!("leave it out, or measure by `memweir calibrate --kernel {asked}`");
        return Err(error.help(help).into());
    }
    Ok(IdleTable::new(platform.kernel, &platform.idle_table)?)
}
