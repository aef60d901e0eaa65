//! `memweir fit`: how many copies of a command pay off on this machine.

use std::fmt::Write;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use memweir_core::input::InputError;
use memweir_core::{BytesPerSec, Nanos};
use memweir_linux::launch::Signals;
use memweir_linux::{stderr, tell};
use memweir_policy::SpeedModel;
use memweir_run::batch::{Knowledge, find_programs};
use memweir_run::fit::{self, JobKind, MeasureError, Point};
use memweir_run::jobs::{Batch, Job};
use memweir_run::platform::Platform;
use memweir_run::store::Store;
use serde::Serialize;

use crate::failure::{EXIT_CODES, Failure, Outcome};
use crate::output;
use crate::render::progress::Counter;
use crate::render::text::{Table, known, rate, seconds};
use crate::shared::batch::ended;
use crate::shared::batch_args::JobSource;
use crate::value::{allowed_cores, available_cores};

const USAGE: &str = "memweir fit [OPTIONS] -- CMD [ARGS] ::: CMD [ARGS] ...
       memweir fit [OPTIONS] JOBS.toml";

/// Examples and meaning of the result.
const AFTER: &str = "\
Prints the number of copies, or NAME=COPIES for each of several commands, which get done equally
often. A copy pays off if it adds at least a tenth of the throughput that it has alone.

Examples:
  memweir profile -- ./solve small && parallel -j \"$(memweir fit -- ./solve small)\" ./solve ::: *
      the bandwidth from a profile, the peak from `memweir calibrate`
  memweir fit --measure -- ./solve small
      runs 1, 2, 3, ... copies and takes their times; needs neither profile nor calibration
  memweir fit -- ./solve small ::: ./render frame
      how many of each, side by side
";

/// Options of `memweir fit`.
#[derive(Debug, clap::Args)]
#[command(override_usage = USAGE, after_long_help = format!("{AFTER}\n{EXIT_CODES}"))]
pub(crate) struct Args {
    #[command(flatten)]
    jobs: JobSource,
    /// Cores that the copies may use [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    cores: Option<u32>,
    /// Run the copies and take their times, instead of predicting them
    #[arg(long)]
    measure: bool,
    /// The profile store, instead of the one in the XDG data directory
    #[arg(long, value_name = "FILE", conflicts_with = "measure")]
    store: Option<PathBuf>,
    /// The calibration, instead of the one in the XDG data directory
    #[arg(long, value_name = "FILE")]
    platform: Option<PathBuf>,
    /// Write the curve as JSON, a measured one after each point (`-`: to standard output instead of
    /// the numbers)
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
}

/// The result as JSON.
#[derive(Serialize)]
struct Report<'a> {
    cores: u32,
    peak_bandwidth: Option<f64>,
    jobs: Vec<JobFit<'a>>,
    throughput: f64,
    curve: &'a [Point],
    #[serde(skip_serializing_if = "Option::is_none")]
    incomplete: Option<String>,
}

/// One command of the result.
#[derive(Serialize)]
struct JobFit<'a> {
    name: &'a str,
    copies: u32,
    cores: u32,
    bandwidth: Option<f64>,
    time_s: Option<f64>,
}

/// The commands, and the curve as far as it is known.
struct Fitted {
    kinds: Vec<JobKind>,
    points: Vec<Point>,
    /// The failure that ended the measurement.
    failure: Option<MeasureError>,
}

/// Properties of the machine and of the command line that a report repeats.
struct Setting {
    cores: u32,
    peak: Option<BytesPerSec>,
    measures: bool,
}

impl Setting {
    /// Returns the report on a curve, and why the curve is `incomplete` if it is; `None` for a
    /// curve without points.
    fn report<'a>(
        &self,
        kinds: &'a [JobKind],
        points: &'a [Point],
        incomplete: Option<String>,
    ) -> Option<Report<'a>> {
        let best = fit::recommended(points)?;
        let jobs = kinds.iter().zip(&best.copies).map(|(kind, copies)| JobFit {
            name: &kind.name,
            copies: *copies,
            cores: kind.cores,
            bandwidth: (!self.measures).then_some(kind.bandwidth.0),
            time_s: (self.measures || kinds.len() > 1).then(|| kind.time.as_secs_f64()),
        });
        Some(Report {
            cores: self.cores,
            peak_bandwidth: self.peak.map(|peak| peak.0),
            jobs: jobs.collect(),
            throughput: best.throughput(),
            curve: points,
            incomplete,
        })
    }

    /// Keeps the points so far of a measurement, if the report is a file.
    fn keep(&self, json: Option<&Path>, kinds: &[JobKind], points: &[Point]) {
        // A pipe gets one report, at the end.
        let file = json.filter(|path| !output::is_stdout(Some(path)));
        let file = file.filter(|path| path.is_file() || !path.exists());
        let report = self.report(kinds, points, Some("the measurement goes on".to_owned()));
        if let Some((file, report)) = file.zip(report) {
            // A failure recurs at the end, which tells it.
            let _ = output::json(file, &report);
        }
    }
}

/// Computes or measures the curve and prints the recommended numbers of copies.
pub(crate) fn execute(args: &Args) -> Result<Outcome, Failure> {
    let cores = args.cores.unwrap_or(available_cores().get() as u32);
    output::check([&args.json], args.jobs.file())?;
    let (mut batch, _) = args.jobs.read(cores, "memweir fit")?;
    batch.jobs = one_of_each(&batch.jobs);
    let mut notices = Vec::new();
    let platform = Platform::find(args.platform.as_deref(), &mut notices)?;
    notices.iter().for_each(|notice| tell!("{notice}"));
    let peak = platform.as_ref().and_then(Platform::peak);
    let wanted: u32 = batch.jobs.iter().map(|job| job.cores).sum();
    if wanted > cores {
        return Err(InputError::new("command line", "one copy of each command does not fit")
            .help(format!("they occupy {wanted} cores, and there are {cores}"))
            .into());
    }
    let setting = Setting { cores, peak, measures: args.measure };
    let Fitted { kinds, points, failure } = match args.measure {
        true => {
            find_programs(&batch)?;
            let allowed = allowed_cores();
            if cores > allowed {
                tell!("--cores is {cores}, but there are {allowed}: copies beyond that share them");
            }
            measured(&batch, cores, |kinds, points| {
                setting.keep(args.json.as_deref(), kinds, points);
            })?
        }
        false => {
            let model = platform.as_ref().and_then(|platform| fit::model(platform, cores));
            predicted(args, &batch, cores, model)?
        }
    };
    let incomplete = failure.as_ref().map(ToString::to_string);
    let is_whole = failure.is_none();
    let outcome = failure.map_or(Ok(Outcome::Success), |failure| Err(failure.into()));
    let Some(report) = setting.report(&kinds, &points, incomplete) else { return outcome };
    if !is_whole || std::io::stderr().is_terminal() {
        stderr::print(curve(&kinds, &points));
    }
    let json = args.json.as_deref();
    let written = match is_whole {
        true => output::report(json, &report, || numbers(&report.jobs)),
        // Numbers would be taken for those of the whole curve.
        false => json.map_or(Ok(()), |path| output::json(path, &report)),
    };
    ended(outcome, written)
}

/// Returns one job for all instances of a command: their number is what is looked for.
fn one_of_each(jobs: &[Job]) -> Vec<Job> {
    let is_same = |a: &Job, b: &Job| Job { name: a.name.clone(), ..b.clone() } == *a;
    let one = |instances: &[Job]| {
        let mut first = instances[0].clone();
        if instances.len() > 1
            && let Some(name) = first.name.strip_suffix(".1")
        {
            first.name = name.to_owned();
        }
        first
    };
    jobs.chunk_by(is_same).map(one).collect()
}

/// Returns what profiles say of the commands, and the curve that follows.
fn predicted(
    args: &Args,
    batch: &Batch,
    cores: u32,
    model: Option<SpeedModel>,
) -> Result<Fitted, Failure> {
    let model = model.ok_or_else(|| {
        InputError::new("fit", "the peak bandwidth of this machine is not known")
            .help("run `memweir calibrate` once, or add --measure")
    })?;
    let mut notices = Vec::new();
    let store = Store::find(args.store.as_deref(), &mut notices)?;
    let knowledge = Knowledge::of_batch(batch, store.as_ref())?;
    for notice in notices.iter().chain(&knowledge.notices) {
        tell!("{notice}");
    }
    let kind = |(job, known): (&Job, &memweir_run::batch::Known)| {
        let figures = known.bandwidth.zip(known.time.or((batch.jobs.len() == 1).then_some(ONE)));
        let (bandwidth, time) = figures.ok_or_else(|| {
            InputError::new("fit", format!("nothing is known of `{}`", job.name))
                .help("record it by `memweir profile -- CMD`, or add --measure")
        })?;
        Ok(JobKind { name: job.name.clone(), cores: job.cores, bandwidth, time })
    };
    let kinds: Result<Vec<JobKind>, InputError> =
        batch.jobs.iter().zip(&knowledge.jobs).map(kind).collect();
    let kinds = kinds?;
    let points = fit::curve(&kinds, cores, Some(&model));
    Ok(Fitted { kinds, points, failure: None })
}

/// Time of the only command, where it does not matter.
const ONE: Nanos = Nanos::from_millis(1000);

/// Measures each command alone, so that the curve can follow their times, and then the curve, whose
/// points so far `keep` gets.
fn measured(
    batch: &Batch,
    cores: u32,
    keep: impl Fn(&[JobKind], &[Point]),
) -> Result<Fitted, Failure> {
    let signals = Signals::caught()
        .map_err(|error| Failure::Machine(format!("cannot wait for signals: {error}")))?;
    let counter = Counter::new("commands alone", batch.jobs.len() as u64);
    let alone = |job: &Job| {
        let time = fit::time_alone(job, &signals)?;
        counter.one_more();
        let name = job.name.clone();
        Ok(JobKind { name, cores: job.cores, bandwidth: BytesPerSec::ZERO, time })
    };
    let kinds: Vec<JobKind> = batch.jobs.iter().map(alone).collect::<Result<_, MeasureError>>()?;
    counter.finish();
    let mut points = fit::curve(&kinds, cores, None);
    let counter = Counter::new("runs", points.len() as u64);
    let measured = fit::measure(&batch.jobs, &kinds, &mut points, &signals, |points| {
        counter.one_more();
        keep(&kinds, points);
    });
    counter.finish();
    points.retain(|point| point.measured.is_some());
    if points.iter().any(|point| fit::exceeds_full_speed(&kinds, point)) {
        tell!(
            "copies got more done than they can at full speed: something else slowed down the runs \
             alone, so measure again on an idle machine"
        );
    }
    Ok(Fitted { kinds, points, failure: measured.err() })
}

impl From<MeasureError> for Failure {
    fn from(error: MeasureError) -> Self {
        match error {
            MeasureError::Interrupted(_) => Self::Interrupted(error.to_string()),
            _ => Self::Machine(error.to_string()),
        }
    }
}

/// Returns the number of copies, or a line `NAME=COPIES` for each of several commands.
fn numbers(jobs: &[JobFit<'_>]) -> String {
    match jobs {
        [job] => format!("{}\n", job.copies),
        jobs => jobs.iter().map(|job| format!("{}={}\n", job.name, job.copies)).collect(),
    }
}

/// Returns the curve as a table.
fn curve(kinds: &[JobKind], points: &[Point]) -> String {
    let number = |throughput: f64| format!("{throughput:.2}");
    let mut table = Table::of(points);
    for (at, kind) in kinds.iter().enumerate() {
        table = table.right(&kind.name, |point| point.copies[at]);
    }
    let table = table
        .right("predicted", |point| known(point.predicted, number))
        .right("measured", |point| known(point.measured, number));
    let mut text = format!("{table}\n");
    for kind in kinds.iter().filter(|kind| kind.bandwidth > BytesPerSec::ZERO) {
        let _ = writeln!(
            text,
            "{}: {} alone, {}",
            kind.name,
            rate(kind.bandwidth.0),
            seconds(kind.time.as_secs_f64())
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use memweir_run::jobs::Command;

    use super::*;

    #[test]
    fn instances_are_one_command_under_the_name_of_their_job() {
        let job = |name: &str, line: &str| Job::new(name, Command::Shell(line.into()));
        let jobs = [job("v.1.1", "a"), job("v.1.2", "a"), job("v.1.3", "a"), job("w.1", "b")];
        let names: Vec<String> = one_of_each(&jobs).into_iter().map(|job| job.name).collect();
        assert_eq!(names, ["v.1", "w.1"]);
    }
}
