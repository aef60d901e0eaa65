//! `memweir profile`: the memory traffic of a program along its own execution (X3).
//!
//! A native meter samples the program while it runs. The software meter needs two runs: a native
//! one for the time, and an emulated one for the counts; `profile/timing.rs` lays the second on the
//! first. Each run sees the files as they are before the profile: it writes to a private copy
//! (`profile/workspace.rs`). Runs that end differently make no profile (`profile/ends.rs`). A
//! program must tolerate two runs in all that is not a file, and its input must be a file or
//! nothing ([`input_of`]). `profile/phases.rs` finds the phases.

mod addresses;
mod emulated;
mod ends;
mod input;
mod native;
mod observed;
mod phases;
mod report;
mod timing;
mod types;
mod workspace;

use std::fs::File;

use memweir_abi::softpmu::Sampling;
use memweir_core::input::InputError;
use memweir_core::{Media, Nanos};
use memweir_linux::launch::Signals;
use memweir_linux::meter::perf::SampleIps;
use memweir_linux::meter::{Choice, NativeOptions, native as native_meter};
use memweir_linux::qemu::Qemu;
use memweir_linux::{Launch, Meter, MeterChoice, MeterKind, OsError};

use crate::options::{counts_events, unused_events, unused_placement};
use crate::store::{InputFile, Invocation, inputs, not_written};
use native::NativeRun;

pub use emulated::Timed;
pub use ends::DifferentEnd;
pub use input::{Input, input_of};
pub use observed::Observed;
pub use types::{
    Check, IntervalReport, PhaseReport, ProfileError, ProfileOptions, ProfileProgress,
    ProfileReport, Profiled, SamplingReport,
};
pub use workspace::Isolation;
use workspace::{Counting, Workspace};

/// The shortest interval: a native meter is read once in each.
pub const SHORTEST_INTERVAL: Nanos = Nanos::MILLI;

/// Profiles a program: runs it natively, and once more under the emulator if the software meter
/// counts. Writes to files are discarded where [`Isolation`] reaches; other effects of the program
/// take place in every run.
///
/// One of the `signals` that ask memweir to end kills the program, and ends the profile.
///
/// # Errors
/// See [`ProfileError`]. A program that ends with an error is profiled all the same.
pub fn profile(
    invocation: &Invocation,
    options: &ProfileOptions,
    signals: &Signals,
    progress: &mut dyn FnMut(ProfileProgress),
) -> Result<Profiled, ProfileError> {
    if options.interval < SHORTEST_INTERVAL {
        return Err(InputError::new("profile", "an interval lasts a millisecond or more")
            .key("interval")
            .into());
    }
    if options.check == Check::FullRun && options.sampling == Sampling::All {
        return Err(InputError::new("profile", "a full profile has nothing to be held against")
            .key("check")
            .help("add a sample, such as `--sample 10%`, or leave `--check` out")
            .into());
    }
    let meter = choose_meter(options)?;
    let kind = meter.as_ref().map_or(MeterKind::Software, |meter| meter.kind());
    let mut profiled = match meter {
        Some(mut meter) => {
            with_native_meter(invocation, options, meter.as_mut(), signals, progress)?
        }
        None => Timed::run(invocation, options, signals, progress)?.count(signals, progress)?,
    };
    let unused = unused_events(options.perf_events.as_deref(), Some(kind));
    profiled.report.notices.extend(unused);
    Ok(profiled)
}

fn with_native_meter(
    invocation: &Invocation,
    options: &ProfileOptions,
    meter: &mut dyn Meter,
    signals: &Signals,
    progress: &mut dyn FnMut(ProfileProgress),
) -> Result<Profiled, ProfileError> {
    let workspace = Workspace::choose(invocation, options.isolation, Counting::Outside)?;
    let (mut run, inputs) =
        natively(invocation, options, &workspace, Some(meter), signals, progress)?;
    let capabilities = meter.capabilities();
    if options.media.len() > 1 && !capabilities.media {
        run.notices
            .push(format!("{} cannot tell media apart here; `--meter software` can", meter.kind()));
    }
    if options.placement.is_some() {
        run.notices.extend(unused_placement(meter.kind()));
    }
    let counted = report::Counted {
        meter: meter.kind(),
        instructions: capabilities.instructions,
        writes: capabilities.writes,
        media: if capabilities.media { options.media.clone() } else { Media::dram_only() },
        sampling: None,
    };
    let around =
        report::Circumstances { workspace: &workspace, emulated: Vec::new(), uncounted: 0, inputs };
    Ok(report::build(invocation, options.interval, run, counted, around))
}

/// Runs the program natively, and returns the run and the input files that it did not write to. Its
/// own files are gone then.
fn natively(
    invocation: &Invocation,
    options: &ProfileOptions,
    workspace: &Workspace,
    meter: Option<&mut dyn Meter>,
    signals: &Signals,
    progress: &mut dyn FnMut(ProfileProgress),
) -> Result<(NativeRun, Vec<InputFile>), ProfileError> {
    let given = inputs(invocation);
    let mut command = command(invocation)?;
    let place = workspace.place(&mut command)?;
    let (run, view) = native::run(command, meter, options.interval, signals, progress)?;
    Ok((run, not_written(given, |path| place.inside(view.as_ref(), path))))
}

/// Returns an option that the software meter alone can follow, if one is set, and what the other
/// meters lack for it.
fn needs_software(options: &ProfileOptions) -> Option<(&'static str, &'static str)> {
    let needs = [
        (options.addresses.is_some(), "--addresses", "knows no addresses"),
        (options.sampling != Sampling::All, "--sample", "counts all of a program"),
        (options.caches.is_some(), "--caches", "counts at the caches of this machine"),
    ];
    needs.into_iter().find(|(is_set, ..)| *is_set).map(|(_, option, lack)| (option, lack))
}

/// Chooses the native meter; `None` for the software meter.
fn choose_meter(options: &ProfileOptions) -> Result<Option<Box<dyn Meter>>, ProfileError> {
    let needs_software = needs_software(options);
    let settled = options.meter.or(needs_software.map(|_| MeterKind::Software));
    if let (Some(kind), Some(_)) = (settled, &options.perf_events)
        && kind != MeterKind::Declared
    {
        counts_events(kind).map_err(|refusal| refusal.written_in("profile").key("events"))?;
    }
    let choice = match (options.meter, needs_software) {
        (Some(MeterKind::Software), _) | (None, Some(_)) => return Ok(None),
        (Some(MeterKind::Declared), _) => {
            return Err(InputError::new("profile", "`declared` counts nothing")
                .key("meter")
                .help("perf, resctrl or software")
                .into());
        }
        (Some(kind), Some((option, lack))) => {
            return Err(InputError::new("profile", format!("{kind} {lack}"))
                .key("meter")
                .help(format!("`{option}` needs the software meter"))
                .into());
        }
        (Some(kind), None) => MeterChoice::Only(kind),
        (None, None) => MeterChoice::Auto,
    };
    let native_options = NativeOptions {
        event_file: options.perf_events.clone(),
        sample_ips: SampleIps::Yes,
        media: options.media.clone(),
    };
    let Choice { meter, passed_over: mut reasons } = native_meter(choice, &native_options)?;
    if let Some(opened) = meter {
        return Ok(Some(opened.meter));
    }
    if options.meter.is_none() {
        let probe = Qemu::probe(&options.qemu);
        if probe.available {
            return Ok(None);
        }
        reasons.push(format!("software: {}", probe.reason));
        reasons.extend(probe.help);
    }
    Err(ProfileError::NoMeter(reasons.join("; ")))
}

/// The command of an invocation, with its variables on top of memweir's own. Its output is
/// discarded: several runs would show everything several times, mixed with the report.
pub(crate) fn command(invocation: &Invocation) -> Result<Launch, ProfileError> {
    let silent = Launch::silent(invocation.program.clone(), invocation.argv.clone());
    let silent = silent.map_err(OsError::of("opening /dev/null"))?;
    let stdin = match &invocation.stdin {
        Some(path) => {
            let what = format!("opening {}", path.display());
            File::open(path).map_err(OsError::of(what))?
        }
        None => silent.stdin,
    };
    Ok(Launch {
        env: std::env::vars_os().chain(invocation.env.clone()).collect(),
        directory: Some(invocation.directory.clone()),
        stdin,
        ..silent
    })
}
