//! Profiling with the software meter: a native run for the time, an emulated one for the counts.

use std::path::Path;

use memweir_abi::softpmu::{LineBatch, Sampling};
use memweir_core::cache::CacheHierarchy;
use memweir_core::{BytesPerSec, Counts, LINE_BYTES, Nanos};
use memweir_linux::MeterKind;
use memweir_linux::qemu::Qemu;
use memweir_linux::record::{
    self, Chunk, RecordError, RecordOptions, RecordProgress, SamplingError,
};
use memweir_linux::topology;

use super::addresses::Recorder;
use super::timing::Slice;
use super::types::{
    Check, ProfileError, ProfileOptions, ProfileProgress, Profiled, SamplingReport,
};
use super::workspace::{Counting, Workspace};
use super::{command, natively, report};
use crate::platform::Machine;
use crate::store::Invocation;

/// Programs that take longer natively are recorded in coarser chunks, at least one per millisecond
/// of native time, to keep them all in memory.
const LONG: Nanos = Nanos::from_millis(60_000);

pub(super) fn profile(
    invocation: &Invocation,
    options: &ProfileOptions,
    progress: &mut dyn FnMut(ProfileProgress),
) -> Result<Profiled, ProfileError> {
    let here = topology::caches();
    let caches = options.caches.unwrap_or(here.hierarchy);
    check(invocation, options, &caches)?;
    let workspace = Workspace::choose(invocation, options.isolation, Counting::Inside)?;
    let (mut run, inputs) = natively(invocation, options, &workspace, None, progress)?;
    let mut record_options = RecordOptions::new(caches);
    record_options.sampling = options.sampling;
    record_options.placement = options.placement.clone().unwrap_or_default();
    record_options.paths = options.qemu.clone();
    if run.exit.cpu_time < LONG {
        record_options.chunk_instructions /= 4;
    }
    let mut addresses = options
        .addresses
        .as_deref()
        .map(|path| Recorder::create(path, &name(invocation)))
        .transpose()?;
    let cpu_time = run.exit.cpu_time;
    let mut ends = Vec::new();
    let recorded = loop {
        let recorded = emulate(
            invocation,
            &workspace,
            &record_options,
            addresses.as_mut(),
            &mut |RecordProgress { instructions, .. }| {
                progress(ProfileProgress::Emulated { instructions });
            },
        )?;
        ends.push(recorded.status);
        match extended(record_options.sampling, recorded.sampling_error, cpu_time) {
            Some(more) => record_options.sampling = more,
            None => break recorded,
        }
    };
    let error = recorded.sampling_error;
    let is_full = record_options.sampling == Sampling::All;
    let mut sampling = SamplingReport {
        requested: options.sampling.to_string(),
        used: record_options.sampling.to_string(),
        simulated_share: recorded.sampled_share,
        estimated_error: if is_full { Some(0.0) } else { error.map(|error| error.share) },
        error_bandwidth: if is_full { Some(0.0) } else { error.map(|e| bandwidth(e, cpu_time).0) },
        measured_error: None,
    };
    if options.check == Check::FullRun && !is_full {
        record_options.sampling = Sampling::All;
        let full = emulate(
            invocation,
            &workspace,
            &record_options,
            None,
            &mut |RecordProgress { instructions, .. }| {
                progress(ProfileProgress::Checking { instructions });
            },
        )?;
        sampling.measured_error = measured_error(&recorded.chunks, &full.chunks);
        ends.push(full.status);
    }
    if options.caches.is_none() {
        run.notices.extend(here.notice);
    }
    run.notices.extend(recorded.notices);
    if let Some(recorder) = addresses {
        run.notices.push(told(recorder)?);
    }
    run.slices = recorded.chunks.into_iter().map(slice).collect();
    let counted = report::Counted {
        meter: MeterKind::Software,
        instructions: true,
        writes: true,
        media: options.media.clone(),
        sampling: Some(sampling),
    };
    let around = report::Circumstances { workspace: &workspace, emulated: ends, inputs };
    Ok(report::build(invocation, options.interval, run, counted, around, &Machine::here()))
}

/// Error of the traffic, as a share of it, that a scheduling decision tolerates.
const SMALL_SHARE: f64 = 0.1;

/// Error of the mean bandwidth that no scheduling decision depends on: 1 % of 10 GB/s, which even
/// machines with one memory channel exceed.
const SMALL_BANDWIDTH: BytesPerSec = BytesPerSec(100e6);

/// Factor by which a sample that is too small grows.
const EXTENSION: f64 = 3.0;

/// Returns the sampling for another run of the program; `None` if the error is small enough.
fn extended(sampling: Sampling, error: Option<SamplingError>, cpu_time: Nanos) -> Option<Sampling> {
    let Sampling::Share(share) = sampling else { return None };
    let is_small = error.is_some_and(|error| {
        error.share <= SMALL_SHARE || bandwidth(error, cpu_time).0 <= SMALL_BANDWIDTH.0
    });
    let more = share * EXTENSION;
    // Beyond half of the program, simulating all of it costs little more.
    (!is_small).then_some(if more > 0.5 { Sampling::All } else { Sampling::Share(more) })
}

/// Converts an error in lines to an error of the mean bandwidth.
fn bandwidth(error: SamplingError, cpu_time: Nanos) -> BytesPerSec {
    BytesPerSec(error.lines * LINE_BYTES as f64 / cpu_time.as_secs_f64().max(1e-3))
}

/// Refuses what the emulated run would refuse, before the native run has taken its time.
fn check(
    invocation: &Invocation,
    options: &ProfileOptions,
    caches: &CacheHierarchy,
) -> Result<(), ProfileError> {
    caches.validate().map_err(|error| RecordError::Option(error.to_string()))?;
    let qemu = Qemu::find(&options.qemu).map_err(RecordError::from)?;
    let mut trial = command(invocation)?;
    let nowhere = Path::new("/dev/null");
    qemu.emulate(&mut trial, nowhere, nowhere, None).map_err(RecordError::from)?;
    Ok(())
}

fn emulate(
    invocation: &Invocation,
    workspace: &Workspace,
    options: &RecordOptions,
    addresses: Option<&mut Recorder>,
    progress: &mut dyn FnMut(RecordProgress),
) -> Result<record::Recording, ProfileError> {
    let mut launch = command(invocation)?;
    let _place = workspace.place(&mut launch)?;
    Ok(match addresses {
        Some(recorder) => {
            let mut sink = |batch: &LineBatch| recorder.append(batch);
            record::record_accesses(launch, options, progress, &mut sink)?
        }
        None => record::record(launch, options, progress)?,
    })
}

/// The command as one text.
fn name(invocation: &Invocation) -> String {
    let words = invocation.argv.iter().map(|word| word.to_string_lossy());
    words.collect::<Vec<_>>().join(" ")
}

/// Ends the trace, and describes its content.
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

/// Returns the error of the sampled memory transactions as a share of those of a full run.
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
    fn a_sample_grows_until_its_error_is_small() {
        let second = Nanos::from_millis(1000);
        let error = |lines, share| Some(SamplingError { lines, share });
        let tenth = Sampling::Share(0.1);
        // 1.5 million lines in a second are 96 MB/s, 1.6 million are 102.4 MB/s.
        assert_eq!(extended(tenth, error(1.5e6, 0.9), second), None);
        assert_eq!(extended(tenth, error(1.6e6, 0.1), second), None);
        let Some(Sampling::Share(more)) = extended(tenth, error(1.6e6, 0.11), second) else {
            panic!("the sample stays as it was");
        };
        assert!((more - 0.3).abs() < 1e-12);
        assert_eq!(extended(Sampling::Share(0.3), None, second), Some(Sampling::All));
        assert_eq!(extended(Sampling::All, None, second), None);
    }
}
