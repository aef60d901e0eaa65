//! `memweir run --profile-first`: profiles the programs that have no profile, once.

use std::path::Path;

use memweir_linux::MeterKind;
use memweir_run::batch::{invocation, unknown_jobs};
use memweir_run::jobs::{Batch, Job};
use memweir_run::options::{self, RunOptions};
use memweir_run::profile::{Isolation, ProfileOptions, ProfileReport, profile as record};
use memweir_run::store::{Invocation, ProgramKey};

use memweir_abi::softpmu::Sampling;

use crate::failure::Failure;
use crate::render::profile::isolation;
use crate::shared::profiling::{keep, show, spinner};

/// Fills the store with the profiles that the batch needs; returns notices for the user.
pub(super) fn profile(
    batch: &Batch,
    options: &RunOptions,
    sampling: Sampling,
) -> Result<Vec<String>, Failure> {
    let unknown = unknown_jobs(batch, options.store.as_deref())?;
    let mut done: Vec<ProgramKey> = Vec::new();
    let (mut notes, mut kept) = (Vec::new(), 0);
    for (place, index) in unknown.iter().enumerate() {
        let job = &batch.jobs[*index];
        let invocation = invocation_of(job)?;
        let key = ProgramKey::of(&invocation)
            .map_err(|error| Failure::Machine(format!("{}: {error}", job.name)))?;
        // Instances of one job are one program.
        if done.contains(&key) {
            continue;
        }
        let bar =
            spinner(&format!("profiling {} ({} of {}): ", job.name, place + 1, unknown.len()));
        let how = profile_options(job, options, sampling)?;
        let profiled = record(&invocation, &how, &mut |p| show(&bar, p));
        bar.finish_and_clear();
        let profiled = profiled?;
        notes.extend(told(job, &profiled.report));
        kept += usize::from(profiled.report.unusable.is_none());
        keep(options.store.as_deref(), &invocation, &profiled)?;
        done.push(key);
    }
    if kept > 0 {
        let programs = if kept == 1 { "program" } else { "programs" };
        notes.push(format!(
            "profiled {kept} {programs} with the software meter (sample {sampling}); now at native \
             speed",
        ));
    }
    Ok(notes)
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

fn profile_options(
    job: &Job,
    options: &RunOptions,
    sampling: Sampling,
) -> Result<ProfileOptions, Failure> {
    let spec = job.placement.as_ref().or(options.placement.as_ref());
    let placed = |spec| options::placed(spec, &options.media);
    Ok(ProfileOptions {
        media: options.media.clone(),
        placement: spec.map(placed).transpose()?,
        meter: Some(MeterKind::Software),
        sampling,
        caches: options.software.caches.as_deref().map(options::caches).transpose()?,
        qemu: options.software.qemu.clone(),
        ..ProfileOptions::default()
    })
}
