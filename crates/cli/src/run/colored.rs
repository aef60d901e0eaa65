//! Jobs of a batch whose memory lies in pages of chosen colors.

use std::path::Path;

use memweir_abi::preload::Shortage;
use memweir_color::{Colored, Request};
use memweir_core::address_map::BASE_PAGE_BITS;
use memweir_core::input::{InputError, Refusal};
use memweir_linux::meter::{MeterChoice, MeterKind};
use memweir_linux::preload;
use memweir_run::jobs::{Batch, Command, Job};
use memweir_run::options::{self, RunOptions};

use crate::failure::Failure;
use crate::shared;

/// Pages that are gathered for each colored job before it starts: 1 MiB.
const POOL_PAGES: u64 = 256;

/// Prepares the colors of the jobs with `colors`, and adds to their environment. `source` names
/// the file or command line of the batch. The caller keeps the returned values until the batch has
/// ended.
pub(super) fn prepare(
    batch: &mut Batch,
    source: &str,
    map: Option<&Path>,
    choices: &RunOptions,
) -> Result<Vec<Colored>, Failure> {
    let Some(first) = batch.jobs.iter().find(|job| job.colors.is_some()) else {
        return Ok(Vec::new());
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
    let mut colored = Vec::new();
    for job in &mut batch.jobs {
        let Some(colors) = job.colors.clone() else { continue };
        check_program(job)?;
        colors.within(all).map_err(|refusal| {
            refusal.written_in(source).key(format!("job `{}`: colors", job.name))
        })?;
        let request = Request {
            map: map.clone(),
            colors,
            cache: None,
            shortage: Shortage::Spill,
            delivery: None,
            pool_pages: POOL_PAGES,
            limit_pages: 0,
        };
        let prepared = Colored::prepare(&request, Some(&choices.guardian))?;
        extend_environment(job, &prepared)?;
        colored.push(prepared);
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

/// Notices for the user about the colored jobs, when they have ended.
pub(super) fn notices(colored: &[Colored]) -> Vec<String> {
    use memweir_abi::preload::Counter;
    let sum = |counter| colored.iter().map(|job| job.totals().get(counter)).sum::<u64>();
    let (placed, spilled) = (sum(Counter::Placed), sum(Counter::Spilled));
    let told = match (colored.len(), spilled) {
        (0, _) => return Vec::new(),
        (jobs, 0) => format!("{placed} pages of {jobs} jobs were placed in their colors"),
        (jobs, _) => format!(
            "{placed} pages of {jobs} jobs were placed in their colors, {spilled} in others: there \
             were too few"
        ),
    };
    shared::map::virtual_machine().into_iter().chain([told]).collect()
}
