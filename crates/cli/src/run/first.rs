//! `memweir run --profile-first`: profiles the programs that have no profile, once.

use std::cmp::Reverse;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use indicatif::{MultiProgress, ProgressBar};
use memweir_abi::softpmu::Sampling;
use memweir_core::Nanos;
use memweir_linux::MeterKind;
use memweir_linux::launch::Signals;
use memweir_run::batch::{self, RunError, invocation, placement_of, unknown_jobs};
use memweir_run::jobs::{Batch, Job};
use memweir_run::options::{self, RunOptions};
use memweir_run::profile::{Isolation, ProfileOptions, ProfileProgress, ProfileReport, Timed};
use memweir_run::store::{Invocation, ProgramKey};
use memweir_run::{compare, files};
use memweir_study::parallel::for_each;

use crate::failure::Failure;
use crate::render::profile::isolation;
use crate::render::progress::bar;
use crate::render::text::counted;
use crate::shared::batch_args::Plan;
use crate::shared::profiling::{keep, not_kept, open, show, signals, spinner};
use crate::value::available_cores;

/// A program of the batch that has no profile.
struct Program<'a> {
    /// Its place among these programs.
    place: usize,
    job: &'a Job,
    invocation: Invocation,
    key: ProgramKey,
    options: ProfileOptions,
}

/// Fills the store with the profiles that the batch needs; returns notices for the user.
///
/// The native runs come first, one by one, since they tell times. The emulated runs only count, so
/// that as many as there are processors take place at once.
pub(super) fn profile(plan: &Plan<RunOptions>, sampling: Sampling) -> Result<Vec<String>, Failure> {
    let Plan { batch, options, compare } = plan;
    let programs = unknown_programs(batch, options, sampling)?;
    // Profiles take long, and a store that was named is there by now.
    match compare {
        None => batch::check_input(batch, options)?,
        Some(compare) => compare::check_input(batch, options, compare)?,
    }
    let signals = signals()?;
    let mut timed = Vec::new();
    for program in &programs {
        let bar = line(program, programs.len());
        let native =
            Timed::run(&program.invocation, &program.options, &signals, &mut |p| show(&bar, p));
        bar.finish_and_clear();
        timed.push((program, native?));
    }
    // The longest first, so that none of them is left over at the end.
    timed.sort_by_key(|(_, native)| Reverse(native.cpu_time()));
    let processors = available_cores();
    let at_once = processors.get().min(timed.len());
    let (together, alone): (Vec<_>, Vec<_>) =
        timed.iter().partition(|(_, native)| native.may_be_one_of(at_once));
    let store = options.store.as_deref();
    let reports = Vec::new();
    let mut emulation = Emulation { store, signals: &signals, all: programs.len(), reports };
    emulation.run(&together, processors)?;
    emulation.run(&alone, NonZeroUsize::MIN)?;
    emulation.reports.sort_by_key(|(place, _)| *place);
    Ok(notes(&programs, &emulation.reports, sampling))
}

fn unknown_programs<'a>(
    batch: &'a Batch,
    options: &RunOptions,
    sampling: Sampling,
) -> Result<Vec<Program<'a>>, Failure> {
    let mut programs: Vec<Program<'a>> = Vec::new();
    // The store is opened to be written to.
    let unknown = unknown_jobs(batch, options.store.as_deref()).map_err(|error| match error {
        RunError::Store(error) => not_kept(error),
        error => error.into(),
    })?;
    for index in unknown {
        let job = &batch.jobs[index];
        if job.stdin.as_deref().is_some_and(|stdin| files::fifo(stdin).is_some()) {
            let help = "save it to a file, or give the job's time and bandwidth";
            let reason = "a pipe can be read once, and a profile runs the program twice";
            return Err(job.refuse("stdin", reason).help(help).into());
        }
        let invocation = invocation_of(job)?;
        let key = ProgramKey::of(&invocation)
            .map_err(|error| Failure::Machine(format!("{}: {error}", job.name)))?;
        // Instances of one job are one program.
        if programs.iter().all(|program| program.key != key) {
            let options = ProfileOptions {
                media: options.media.clone(),
                placement: placement_of(job, options)?,
                meter: Some(MeterKind::Software),
                sampling,
                caches: options.software.caches.as_deref().map(options::caches).transpose()?,
                qemu: options.software.qemu.clone(),
                ..ProfileOptions::default()
            };
            programs.push(Program { place: programs.len(), job, invocation, key, options });
        }
    }
    Ok(programs)
}

/// The line that shows the progress of one of so many programs.
fn line(program: &Program<'_>, of: usize) -> ProgressBar {
    spinner(&format!("profiling {} ({} of {of}): ", program.job.name, program.place + 1))
}

/// The emulated runs of a batch.
struct Emulation<'a> {
    store: Option<&'a Path>,
    signals: &'a Signals,
    /// Number of programs.
    all: usize,
    /// Reports on the programs by their places, in the order in which they ended.
    reports: Vec<(usize, ProfileReport)>,
}

impl Emulation<'_> {
    /// Runs these programs on so many threads, and keeps each profile as soon as it is there.
    /// Returns the first failure, after which no other program begins.
    fn run(
        &mut self,
        programs: &[&(&Program<'_>, Timed<'_>)],
        threads: NonZeroUsize,
    ) -> Result<(), Failure> {
        let (store, signals, all) = (self.store, self.signals, self.all);
        let (lines, failed) = (MultiProgress::new(), AtomicBool::new(false));
        let foot = Foot::new(&lines, programs);
        let emulate = |index: usize| {
            if failed.load(Ordering::Relaxed) {
                return None;
            }
            let (program, native) = programs[index];
            let bar = lines.insert_before(&foot.bar, line(program, all));
            let counted = native.count(signals, &mut |progress| {
                show(&bar, progress);
                foot.show(index, progress);
            });
            bar.finish_and_clear();
            foot.is_done(index);
            let kept = counted.map_err(Failure::from).and_then(|profiled| {
                keep(&open(store)?, &program.key, &profiled)?;
                Ok((program.place, profiled.report))
            });
            failed.fetch_or(kept.is_err(), Ordering::Relaxed);
            Some(kept)
        };
        let mut outcome = Ok(());
        for_each(programs.len(), threads, emulate, |_, kept| match kept {
            Some(Ok(report)) => self.reports.push(report),
            Some(Err(failure)) if outcome.is_ok() => outcome = Err(failure),
            _ => {}
        });
        foot.bar.finish_and_clear();
        outcome
    }
}

/// The line below those of the programs: how far all of them are, and the time that is left.
struct Foot {
    bar: ProgressBar,
    /// Native time of each program, and the part of it that is counted, in milliseconds.
    programs: Vec<(u64, AtomicU64)>,
}

impl Foot {
    fn new(lines: &MultiProgress, programs: &[&(&Program<'_>, Timed<'_>)]) -> Self {
        let native = programs.iter().map(|(_, native)| native.cpu_time().0 / Nanos::MILLI.0);
        let programs: Vec<_> = native.map(|time| (time, AtomicU64::new(0))).collect();
        let all = programs.iter().map(|(time, _)| time).sum();
        let bar = bar(Some(all), "{wide_bar} {percent:>3} % of all, perhaps {eta} left");
        Self { bar: lines.add(bar), programs }
    }

    fn show(&self, index: usize, progress: ProfileProgress) {
        if let ProfileProgress::Emulated { instructions, expected } = progress {
            let part = (instructions as f64 / expected.max(1) as f64).min(1.0);
            self.set(index, |time| (time as f64 * part) as u64);
        }
    }

    fn is_done(&self, index: usize) {
        self.set(index, |time| time);
    }

    fn set(&self, index: usize, counted: impl Fn(u64) -> u64) {
        let (time, part) = &self.programs[index];
        part.fetch_max(counted(*time), Ordering::Relaxed);
        let counted = self.programs.iter().map(|(_, part)| part.load(Ordering::Relaxed)).sum();
        self.bar.set_position(counted);
    }
}

/// Notes for the user on all profiles.
fn notes(
    programs: &[Program<'_>],
    reports: &[(usize, ProfileReport)],
    sampling: Sampling,
) -> Vec<String> {
    let told = |(place, report): &(usize, _)| told(programs[*place].job, report);
    let mut notes: Vec<String> = reports.iter().flat_map(told).collect();
    let kept = reports.iter().filter(|(_, report)| report.unusable.is_none()).count();
    if kept > 0 {
        notes.push(format!(
            "profiled {} with the software meter (sample {sampling}); now at native speed",
            counted(kept as u64, "program")
        ));
    }
    notes
}

/// Notes for the user on a job's profile.
fn told(job: &Job, report: &ProfileReport) -> Vec<String> {
    let name = &job.name;
    let mut notes = Vec::new();
    if let Some(reason) = &report.unusable {
        notes.push(format!("no profile of {name} is stored: {reason}"));
    } else if report.exit_code != 0 {
        notes
            .push(format!("{name} ended with exit code {} when it was profiled", report.exit_code));
    }
    if report.isolation == Isolation::None {
        notes.push(format!("{name}: {}", isolation(report)));
    }
    notes
}

fn invocation_of(job: &Job) -> Result<Invocation, Failure> {
    let argv = job.command.argv();
    let name = argv.first().map_or("".as_ref(), |name| name.as_os_str());
    let directory = job.directory.as_deref().unwrap_or(Path::new("."));
    let program = options::program(name, directory)
        .map_err(|refusal| refusal.written_in("job").key(&job.name))?;
    Ok(invocation(job, &program))
}
