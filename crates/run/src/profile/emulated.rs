//! Profiling with the software meter: a native run for the time, an emulated one for the counts.

use std::path::Path;

use memweir_abi::softpmu::sampling::BURST;
use memweir_abi::softpmu::{LineBatch, Sampling};
use memweir_core::cache::CacheHierarchy;
use memweir_core::input::InputError;
use memweir_core::words::counted;
use memweir_core::{Bytes, BytesPerSec, Counts, LINE_BYTES, Nanos};
use memweir_linux::launch::Signals;
use memweir_linux::qemu::Qemu;
use memweir_linux::record::{
    self, Chunk, RecordError, RecordProgress, Recording, SamplingError, Sink,
};
use memweir_linux::softpmu::CountingPlan;
use memweir_linux::{MeterKind, topology};

use super::addresses::Recorder;
use super::native::NativeRun;
use super::timing::Slice;
use super::types::{
    Check, ProfileError, ProfileOptions, ProfileProgress, Profiled, SamplingReport,
};
use super::workspace::{self, Counting, Isolation, Workspace};
use super::{command, natively, report};
use crate::report::LostOutput;
use crate::store::{InputFile, Invocation};

/// Programs that take longer natively are recorded in coarser chunks, at least one per millisecond
/// of native time, to keep them all in memory.
const LONG: Nanos = Nanos::from_millis(60_000);

/// A program that has run natively, and has still to run under the emulator.
///
/// The native run tells the time, so nothing else should keep the machine busy in it. The emulated
/// one counts, which it does as well beside those of other programs.
pub struct Timed<'a> {
    invocation: &'a Invocation,
    options: &'a ProfileOptions,
    plan: CountingPlan,
    workspace: Workspace,
    run: NativeRun,
    inputs: Vec<InputFile>,
}

impl<'a> Timed<'a> {
    /// Runs the program natively.
    ///
    /// # Errors
    /// See [`ProfileError`]. What the emulated run would refuse is refused before the native one.
    pub fn run(
        invocation: &'a Invocation,
        options: &'a ProfileOptions,
        signals: &Signals,
        progress: &mut dyn FnMut(ProfileProgress),
    ) -> Result<Self, ProfileError> {
        let here = topology::caches();
        let caches = options.caches.unwrap_or(here.hierarchy);
        check(invocation, options, &caches)?;
        let workspace = Workspace::choose(invocation, options.isolation, Counting::Inside)?;
        let (mut run, inputs) = natively(invocation, options, &workspace, None, signals, progress)?;
        if options.caches.is_none() {
            run.notices.extend(here.notice.into_iter().chain(here.shared));
        }
        let chunk = if run.exit.cpu_time < LONG { 250_000 } else { 1_000_000 };
        let plan = CountingPlan {
            caches,
            placement: options.placement.clone().unwrap_or_default(),
            sampling: at_first(options.sampling, run.exit.cpu_time),
            chunk_instructions: Some(chunk),
        };
        Ok(Self { invocation, options, plan, workspace, run, inputs })
    }

    /// Returns the CPU time of the native run.
    #[must_use]
    pub fn cpu_time(&self) -> Nanos {
        self.run.exit.cpu_time
    }

    /// Returns true if its emulated run can be one of this many at the same time: what it writes
    /// concerns no other program, and there is memory for as many.
    #[must_use]
    pub fn may_be_one_of(&self, count: usize) -> bool {
        let all = Bytes(self.run.written.0.saturating_mul(count as u64));
        self.workspace.isolation != Isolation::None && all <= workspace::room()
    }

    /// Runs the program under the emulator, and more than once where a sample turns out too small.
    ///
    /// # Errors
    /// See [`ProfileError`].
    pub fn count(
        &self,
        signals: &Signals,
        progress: &mut dyn FnMut(ProfileProgress),
    ) -> Result<Profiled, ProfileError> {
        let options = self.options;
        let mut addresses = options
            .addresses
            .as_deref()
            .map(|path| Recorder::create(path, &name(self.invocation)))
            .transpose()?;
        let expected = (self.cpu_time().as_f64() * GUESSED_PACE) as u64;
        let mut used = self.plan.sampling;
        let mut ends = Vec::new();
        let recorded = loop {
            let recorded = self.emulate(used, signals, addresses.as_mut(), &mut |seen| {
                let instructions = seen.instructions;
                progress(ProfileProgress::Emulated { instructions, expected });
            })?;
            ends.push(recorded.status);
            match extended(used, recorded.sampling_error, self.cpu_time()) {
                Some(more) => used = more,
                None => break recorded,
            }
        };
        let mut sampling = sampled(options.sampling, used, &recorded, self.cpu_time());
        if options.check == Check::FullRun && used != Sampling::All {
            let full = self.emulate(Sampling::All, signals, None, &mut |seen| {
                progress(ProfileProgress::Checking { instructions: seen.instructions });
            })?;
            sampling.measured_error = measured_error(&recorded.chunks, &full.chunks);
            ends.push(full.status);
        }
        let mut run = self.run.clone();
        run.notices.extend(recorded.notices);
        let trace = addresses.map(told).transpose();
        if let Ok(Some(told)) = &trace {
            run.notices.push(told.clone());
        }
        run.slices = recorded.chunks.into_iter().map(slice).collect();
        let counted = report::Counted {
            meter: MeterKind::Software,
            instructions: true,
            writes: true,
            media: options.media.clone(),
            sampling: Some(sampling),
        };
        let around = report::Circumstances {
            workspace: &self.workspace,
            emulated: ends,
            uncounted: recorded.uncounted,
            inputs: self.inputs.clone(),
        };
        let built = report::build(self.invocation, options.interval, run, counted, around);
        Ok(Profiled { lost: trace.err(), ..built })
    }

    fn emulate(
        &self,
        sampling: Sampling,
        signals: &Signals,
        addresses: Option<&mut Recorder>,
        progress: &mut dyn FnMut(RecordProgress),
    ) -> Result<Recording, ProfileError> {
        let plan = CountingPlan { sampling, ..self.plan.clone() };
        let mut launch = command(self.invocation)?;
        let _place = self.workspace.place(&mut launch)?;
        let mut sink = addresses.map(|recorder| move |batch: &LineBatch| recorder.append(batch));
        let sink = sink.as_mut().map(|sink| -> Sink<'_> { sink });
        Ok(record::record(launch, &plan, &self.options.qemu, signals, progress, sink)?)
    }
}

/// Describes the sample that was taken.
fn sampled(
    requested: Sampling,
    used: Sampling,
    recorded: &Recording,
    cpu_time: Nanos,
) -> SamplingReport {
    let error = recorded.sampling_error;
    let is_full = used == Sampling::All;
    SamplingReport {
        requested: requested.to_string(),
        used: used.to_string(),
        simulated_share: recorded.sampled_share,
        estimated_error: if is_full { Some(0.0) } else { error.map(|error| error.share) },
        error_bandwidth: if is_full { Some(0.0) } else { error.map(|e| bandwidth(e, cpu_time).0) },
        measured_error: None,
    }
}

/// Error of the traffic, as a share of it, that a scheduling decision tolerates.
const SMALL_SHARE: f64 = 0.1;

/// Error of the mean bandwidth that no scheduling decision depends on: 1 % of 10 GB/s, which even
/// machines with one memory channel exceed.
const SMALL_BANDWIDTH: BytesPerSec = BytesPerSec(100e6);

/// Bursts that a first sample should have: the error of five or fewer is hardly known.
const FIRST_BURSTS: f64 = 10.0;

/// Instructions per nanosecond that most programs execute at least. Those that stream execute 0.4
/// to 0.7 and have fewer bursts; to sample more of all programs costs the others as much as it
/// saves.
const LOW_PACE: f64 = 1.0;

/// Instructions per nanosecond of native time that the display of progress expects. The nine
/// programs of the demo need 0.9 to 15, so that the time left is wrong by up to four times at
/// first.
const GUESSED_PACE: f64 = 4.0;

/// Share beyond which simulating all of a program costs little more, since the emulator translates
/// all code again around each burst: 85 % of all of it is the cost of `xz` with a sample of 15 %,
/// and 97 % that of `gzip` with one of 33 %.
const NEARLY_ALL: f64 = 0.25;

/// Part of the allowed error at which a further sample aims, so that it seldom takes a third.
const AIM: f64 = 0.8;

/// Returns the sampling for the first run of a program that takes `cpu_time` natively: a short
/// program needs a larger share for as many bursts.
fn at_first(sampling: Sampling, cpu_time: Nanos) -> Sampling {
    let Sampling::Share(share) = sampling else { return sampling };
    let length = (cpu_time.as_f64() * LOW_PACE).max(1.0);
    let needed = FIRST_BURSTS * BURST as f64 / length;
    if needed <= share { sampling } else { share_or_all(needed) }
}

/// Returns the sampling for another run of the program; `None` if the error is small enough. The
/// error falls with the square root of the number of bursts.
fn extended(sampling: Sampling, error: Option<SamplingError>, cpu_time: Nanos) -> Option<Sampling> {
    let Sampling::Share(share) = sampling else { return None };
    let Some(error) = error else { return Some(Sampling::All) };
    let excess = (error.share / SMALL_SHARE).min(bandwidth(error, cpu_time).0 / SMALL_BANDWIDTH.0);
    (excess > 1.0).then(|| share_or_all(share * (excess / AIM).powi(2)))
}

fn share_or_all(share: f64) -> Sampling {
    if share > NEARLY_ALL { Sampling::All } else { Sampling::Share(share) }
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
    if options.addresses.is_some() && options.sampling != Sampling::All {
        return Err(InputError::new("profile", "addresses are recorded of all of a program")
            .key("sample")
            .help("leave `--sample` out, or `--addresses`")
            .into());
    }
    caches.validate().map_err(|error| RecordError::Option(error.to_string()))?;
    let qemu = Qemu::find(&options.qemu).map_err(RecordError::from)?;
    let mut trial = command(invocation)?;
    let nowhere = Path::new("/dev/null");
    qemu.emulate(&mut trial, nowhere, nowhere, None).map_err(RecordError::from)?;
    Ok(())
}

/// The command as one text.
fn name(invocation: &Invocation) -> String {
    let words = invocation.argv.iter().map(|word| word.to_string_lossy());
    words.collect::<Vec<_>>().join(" ")
}

/// Ends the trace, and describes its content.
fn told(recorder: Recorder) -> Result<String, LostOutput> {
    let (path, totals) = recorder.finish()?;
    Ok(format!(
        "{} holds {} read and {} written back, with virtual addresses",
        path.display(),
        counted(totals.reads, "line"),
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
    fn a_short_program_gets_a_larger_share_at_first() {
        let tenth = Sampling::Share(0.1);
        let first = |sampling, millis| at_first(sampling, Nanos::from_millis(millis));
        // 80 million instructions, at one per nanosecond.
        assert_eq!(first(tenth, 800), tenth);
        assert_eq!(first(tenth, 400), Sampling::Share(0.2));
        assert_eq!(first(tenth, 320), Sampling::Share(0.25));
        assert_eq!(first(tenth, 319), Sampling::All);
        assert_eq!(first(tenth, 0), Sampling::All);
        assert_eq!(first(Sampling::Share(0.01), 4_000), Sampling::Share(0.02));
        assert_eq!(first(Sampling::Share(0.7), 160), Sampling::Share(0.7), "as was asked for");
        assert_eq!(first(Sampling::All, 800), Sampling::All);
    }

    #[test]
    fn a_sample_grows_as_far_as_its_error_asks_for() {
        let second = Nanos::from_millis(1000);
        let error = |lines, share| Some(SamplingError { lines, share });
        let tenth = Sampling::Share(0.1);
        // 1.5 million lines in a second are 96 MB/s, 3.125 million are 200 MB/s.
        assert_eq!(extended(tenth, error(1.5e6, 0.9), second), None);
        assert_eq!(extended(tenth, error(3.125e6, 0.1), second), None);
        let hundredth = Sampling::Share(0.01);
        let Some(Sampling::Share(more)) = extended(hundredth, error(3.125e6, 0.16), second) else {
            panic!("the sample stays as it was");
        };
        assert!((more - 0.04).abs() < 1e-9, "twice of the aim, four times as many bursts: {more}");
        let Some(Sampling::Share(more)) = extended(tenth, error(1.875e6, 0.9), second) else {
            panic!("the sample stays as it was");
        };
        assert!((more - 0.225).abs() < 1e-9, "1.2 times the bandwidth that is small: {more}");
        assert_eq!(extended(tenth, error(1e7, 0.2), second), Some(Sampling::All));
        assert_eq!(extended(tenth, None, second), Some(Sampling::All));
        assert_eq!(extended(Sampling::All, None, second), None);
    }
}
