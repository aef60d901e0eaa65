//! Jobs of a batch whose memory lies in pages of chosen colors.

use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};

use memweir_abi::preload::{Counter, ORDER_VARIABLE, Shortage};
use memweir_color::{Colored, Request, Totals};
use memweir_core::address_map::{AddressMap, BASE_PAGE_BITS, ColorSet};
use memweir_core::input::{InputError, Refusal};
use memweir_linux::meter::{MeterChoice, MeterKind};
use memweir_linux::preload::{self, NotStarted, Unreached, UnreachedProgram};
use memweir_run::jobs::{Batch, Command, Job};
use memweir_run::options::{self, RunOptions};
use serde::Serialize;

use crate::failure::{Failure, refusal_of};
use crate::shared;
use crate::shared::coloring::{self, GivenPages, WALK_INTERVAL};

/// Pages that are gathered for each colored job before it starts: 1 MiB.
const POOL_PAGES: u64 = 256;

/// A job with `colors`, until the batch has ended.
pub(super) struct ColoredJob {
    name: String,
    colors: ColorSet,
    colored: Colored,
}

/// Checks the colors of the jobs with `colors` before anything starts, and returns the map that
/// they are of. `source` names the file or command line of the batch.
pub(super) fn check(
    batch: &Batch,
    source: &str,
    map: Option<&Path>,
    choices: &RunOptions,
) -> Result<Option<AddressMap>, Failure> {
    let colored = || batch.jobs.iter().filter(|job| job.colors.is_some());
    let Some(first) = colored().next() else {
        return match map {
            Some(_) => Err(refusal_of("--map", "no job has `colors`").help("leave it out").into()),
            None => Ok(None),
        };
    };
    let refuse = |reason: String, help: &str| {
        InputError::new("command line", format!("job `{}`: {reason}", first.name)).help(help)
    };
    let Some(map) = map else {
        return Err(
            refuse("has colors".to_owned(), "name the machine's map with --map FILE").into()
        );
    };
    if choices.meter == MeterChoice::Only(MeterKind::Software) {
        let reason =
            "the software meter runs it in an emulator, whose pages would be colored".to_owned();
        return Err(refuse(reason, "choose another --meter, or leave `colors` out").into());
    }
    let map = shared::map::read(map)?;
    let all = map.coloring(BASE_PAGE_BITS).colors();
    for job in colored() {
        check_program(job)?;
        job.colors.iter().try_for_each(|colors| colors.within(all)).map_err(|refusal| {
            refusal.written_in(source).key(format!("job `{}`: colors", job.name))
        })?;
    }
    Ok(Some(map))
}

/// Prepares the colors of the jobs with `colors`, and adds to their environment.
pub(super) fn prepare(
    batch: &mut Batch,
    map: Option<&AddressMap>,
    choices: &RunOptions,
) -> Result<Vec<ColoredJob>, Failure> {
    let Some(map) = map else { return Ok(Vec::new()) };
    let mut colored = Vec::new();
    for job in &mut batch.jobs {
        let Some(colors) = job.colors.clone() else { continue };
        let request = Request {
            map: map.clone(),
            colors: colors.clone(),
            cache: None,
            shortage: Shortage::Spill,
            delivery: None,
            pool_pages: POOL_PAGES,
            limit_pages: 0,
        };
        let prepared = Colored::prepare(&request, Some(&choices.guardian))?;
        extend_environment(job, &prepared)?;
        colored.push(ColoredJob { name: job.name.clone(), colors, colored: prepared });
    }
    Ok(colored)
}

fn wrong(job: &Job, refusal: Refusal) -> InputError {
    refusal.written_in("job").key(job.name.as_str())
}

/// Refuses a job whose program does not load the preload library.
fn check_program(job: &Job) -> Result<(), InputError> {
    let Command::Exec(argv) = &job.command else { return Ok(()) };
    let directory = job.directory.as_deref().unwrap_or(Path::new("."));
    let program = options::program(&argv[0], directory);
    let checked = program.and_then(|program| preload::check_program(program.as_os_str()));
    checked.map_err(|refusal| wrong(job, refusal))
}

/// Adds the variables of coloring, none of which the job may set itself.
fn extend_environment(job: &mut Job, colored: &Colored) -> Result<(), InputError> {
    for (name, value) in colored.environment() {
        if job.env.insert(name.clone(), value.clone()).is_some() {
            let reason = format!("sets {}, which coloring needs", name.to_string_lossy());
            let help = "leave it out of `env`, or the job without colors";
            return Err(wrong(job, Refusal::new(reason, help)));
        }
    }
    Ok(())
}

/// Looks for programs that the jobs start and that run uncolored, while the batch runs.
pub(super) struct Watch {
    jobs: Vec<ColoredJob>,
    /// The batch has ended when this is dropped.
    running: Sender<()>,
    walks: JoinHandle<Vec<UnreachedProgram>>,
}

impl Watch {
    /// Begins, if there are such jobs.
    pub(super) fn start(jobs: Vec<ColoredJob>) -> Result<Option<Self>, Failure> {
        if jobs.is_empty() {
            return Ok(None);
        }
        let library = preload::library().map_err(NotStarted::Machine)?;
        let unreached = Unreached::descendants(&library).map_err(NotStarted::Machine)?;
        let mut unreached = unreached.started_with(ORDER_VARIABLE);
        let (running, ended) = mpsc::channel();
        let walks = thread::spawn(move || {
            while ended.recv_timeout(WALK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                // A walk that fails misses programs; the colored ones do not depend on it.
                drop(unreached.look());
            }
            unreached.programs()
        });
        Ok(Some(Self { jobs, running, walks }))
    }

    /// Returns what is known when the batch has ended.
    pub(super) fn finish(self) -> Coloring {
        drop(self.running);
        let uncolored = self.walks.join().unwrap_or_default();
        let jobs = self.jobs.iter().map(|job| {
            let totals = job.colored.totals();
            let pages = GivenPages::counted(&totals, &job.colors);
            JobPages {
                job: job.name.clone(),
                colors: job.colors.to_string(),
                pages,
                counters: totals,
            }
        });
        Coloring { jobs: jobs.collect(), uncolored }
    }
}

/// Where the memory of the colored jobs was, in all runs of the batch.
#[derive(Debug, Serialize)]
pub(super) struct Coloring {
    jobs: Vec<JobPages>,
    /// Programs that the jobs started and whose pages were not placed.
    uncolored: Vec<UnreachedProgram>,
}

/// The pages that a job was given.
#[derive(Debug, Serialize)]
struct JobPages {
    job: String,
    colors: String,
    pages: GivenPages,
    counters: Totals,
}

impl Coloring {
    /// Lines for the user.
    pub(super) fn notices(&self) -> Vec<String> {
        let told = |job: &JobPages| {
            let unmoved = job.counters.get(Counter::UnmovedMicros) as f64 / 1e6;
            let unmoved = match unmoved >= 0.5 {
                true => format!("; {unmoved:.0} page-seconds in others that could not be moved"),
                false => String::new(),
            };
            format!("job `{}`: {}{unmoved}", job.job, job.pages.inside(&job.colors))
        };
        let counted = self.jobs.iter().map(|job| job.counters.get(Counter::Uncolored)).sum();
        let uncolored = coloring::uncolored(&self.uncolored, counted);
        let warning = shared::map::uncertain_colors();
        warning.into_iter().chain(self.jobs.iter().map(told)).chain(uncolored).collect()
    }
}

/// A report of the batch, with the colors of its jobs.
#[derive(Serialize)]
pub(super) struct WithColoring<'a, T> {
    #[serde(flatten)]
    pub(super) report: &'a T,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) coloring: Option<&'a Coloring>,
}
