//! Profiling with the software meter: a native run for the time, an emulated one for the counts.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;

use memweir_core::cache::CacheHierarchy;
use memweir_core::softpmu::{LineBatch, Sampling};
use memweir_core::{Counts, Nanos};
use memweir_linux::MeterKind;
use memweir_linux::qemu::Qemu;
use memweir_linux::record::{self, Chunk, RecordError, RecordOptions, RecordProgress};
use memweir_linux::topology;

use nix::sys::signal::Signal;

use super::addresses::Recorder;
use super::timing::Slice;
use super::types::{
    Check, ProfileError, ProfileOptions, ProfileProgress, Profiled, ProgramOutput, SamplingReport,
};
use super::{command, native, report};
use crate::platform::Machine;
use crate::store::Invocation;

/// Programs that take longer natively are recorded in coarser chunks, which a millisecond of
/// native time holds at least one of, to keep them all in memory.
const LONG: Nanos = Nanos::from_millis(60_000);

pub(super) fn profile(
    invocation: &Invocation,
    options: &ProfileOptions,
    progress: &mut dyn FnMut(ProfileProgress),
) -> Result<Profiled, ProfileError> {
    let here = topology::caches();
    let caches = options.caches.unwrap_or(here.hierarchy);
    check(invocation, options, &caches)?;
    let launch = command(invocation, options.output)?;
    let mut run = native::run(launch, None, options.interval, progress)?;
    let mut record_options = RecordOptions::new(caches);
    record_options.sampling = options.sampling;
    record_options.placement = options.placement.clone().unwrap_or_default();
    record_options.paths = options.qemu.clone();
    if run.exit.cpu_time < LONG {
        record_options.chunk_instructions /= 4;
    }
    let native = run.exit.code();
    let mut addresses = options
        .addresses
        .as_deref()
        .map(|path| Recorder::create(path, &name(invocation)))
        .transpose()?;
    let recorded = emulate(
        invocation,
        &record_options,
        native,
        addresses.as_mut(),
        &mut |RecordProgress { instructions, .. }| {
            progress(ProfileProgress::Emulated { instructions });
        },
    )?;
    let mut sampling = SamplingReport {
        requested: options.sampling.to_string(),
        simulated_share: recorded.sampled_share,
        estimated_error: match options.sampling {
            Sampling::All => Some(0.0),
            Sampling::Share(_) => recorded.sampling_error,
        },
        measured_error: None,
    };
    if options.check == Check::FullRun && options.sampling != Sampling::All {
        record_options.sampling = Sampling::All;
        let full = emulate(
            invocation,
            &record_options,
            native,
            None,
            &mut |RecordProgress { instructions, .. }| {
                progress(ProfileProgress::Checking { instructions });
            },
        )?;
        sampling.measured_error = measured_error(&recorded.chunks, &full.chunks);
    }
    if options.caches.is_none() {
        run.notices.extend(here.notice);
    }
    run.notices.extend(recorded.notices);
    if let Some(recorder) = addresses {
        run.notices.push(told(recorder)?);
    }
    run.notices.extend(different_end(native, recorded.status));
    run.slices = recorded.chunks.into_iter().map(slice).collect();
    let counted = report::Counted {
        meter: MeterKind::Software,
        instructions: true,
        writes: true,
        media: options.media.clone(),
        sampling: Some(sampling),
    };
    Ok(report::build(invocation, options.interval, run, counted, &Machine::here()))
}

/// Refuses what the emulated run would refuse, before the native run has taken its time.
fn check(
    invocation: &Invocation,
    options: &ProfileOptions,
    caches: &CacheHierarchy,
) -> Result<(), ProfileError> {
    caches.validate().map_err(|error| RecordError::Option(error.to_string()))?;
    let qemu = Qemu::find(&options.qemu).map_err(RecordError::from)?;
    let mut trial = command(invocation, ProgramOutput::Discard)?;
    let nowhere = Path::new("/dev/null");
    qemu.emulate(&mut trial, nowhere, nowhere, None).map_err(RecordError::from)?;
    Ok(())
}

fn emulate(
    invocation: &Invocation,
    options: &RecordOptions,
    native: i32,
    addresses: Option<&mut Recorder>,
    progress: &mut dyn FnMut(RecordProgress),
) -> Result<record::Recording, ProfileError> {
    let launch = command(invocation, ProgramOutput::Discard)?;
    let recorded = match addresses {
        Some(recorder) => {
            let mut sink = |batch: &LineBatch| recorder.append(batch);
            record::record_accesses(launch, options, progress, &mut sink)?
        }
        None => record::record(launch, options, progress)?,
    };
    // Ctrl-C on a terminal reaches the emulator as well as memweir.
    match recorded.status.signal().and_then(|number| Signal::try_from(number).ok()) {
        Some(signal @ (Signal::SIGINT | Signal::SIGTERM | Signal::SIGHUP)) => {
            Err(ProfileError::Interrupted(signal.as_str()))
        }
        Some(signal) if native != 128 + signal as i32 => Err(ProfileError::DiedEmulated {
            native,
            signal: signal as i32,
            instructions: recorded.chunks.iter().map(|chunk| chunk.counts.instructions).sum(),
        }),
        _ => Ok(recorded),
    }
}

/// The command as one text.
fn name(invocation: &Invocation) -> String {
    let words = invocation.argv.iter().map(|word| word.to_string_lossy());
    words.collect::<Vec<_>>().join(" ")
}

/// Ends the trace, and says what is in it.
fn told(recorder: Recorder) -> Result<String, ProfileError> {
    let (path, totals) = recorder.finish()?;
    Ok(format!(
        "{} holds {} lines read and {} written back, with virtual addresses",
        path.display(),
        totals.reads,
        totals.writes
    ))
}

fn slice(chunk: Chunk) -> Slice {
    Slice {
        counts: chunk.counts,
        weight: chunk.cycles,
        instruction_pointers: chunk.instruction_pointers,
    }
}

/// What the user should know where the emulated program ended otherwise than the native one.
fn different_end(native: i32, emulated: ExitStatus) -> Option<String> {
    let emulated = emulated.code().or(emulated.signal().map(|signal| 128 + signal))?;
    (emulated != native).then(|| {
        format!(
            "natively the program ended with {native}, under the emulator with {emulated}: its \
             counts may be those of another course"
        )
    })
}

/// How far the sampled memory transactions are from those of a full run, as a share of the latter.
fn measured_error(sampled: &[Chunk], full: &[Chunk]) -> Option<f64> {
    let lines = |chunks: &[Chunk]| {
        chunks.iter().fold(Counts::default(), |sum, chunk| sum + chunk.counts).lines().as_f64()
    };
    let full = lines(full);
    (full > 0.0).then(|| lines(sampled) / full - 1.0)
}

#[cfg(test)]
mod tests {
    use memweir_core::Lines;
    use memweir_linux::record::Origin;

    use super::*;

    fn chunk(reads: u64, writes: u64) -> Chunk {
        Chunk {
            counts: Counts::new(5, Lines(reads), Lines(writes)),
            cycles: 7.0,
            instruction_pointers: vec![1, 2],
            origin: Origin::Simulated,
        }
    }

    #[test]
    fn the_measured_error_is_signed_and_counts_both_directions() {
        let full = [chunk(60, 20), chunk(20, 0)];
        let error = |reads, writes| measured_error(&[chunk(reads, writes)], &full).unwrap();
        assert!((error(100, 10) - 0.1).abs() < 1e-12);
        assert!((error(60, 30) + 0.1).abs() < 1e-12);
        assert_eq!(measured_error(&full, &[chunk(0, 0)]), None);
    }

    #[test]
    fn an_end_that_differs_is_told() {
        assert_eq!(different_end(0, ExitStatus::from_raw(0)), None);
        assert_eq!(different_end(137, ExitStatus::from_raw(9)), None);
        assert!(different_end(0, ExitStatus::from_raw(3 << 8)).unwrap().contains("with 3"));
    }
}
