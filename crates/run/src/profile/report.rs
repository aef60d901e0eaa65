//! Makes a report and a recording from counts and times.

use jiff::Timestamp;
use memweir_core::{Media, Nanos};
use memweir_linux::MeterKind;
use memweir_linux::launch::Exit;

use super::ends::{DifferentEnd, Runs};
use super::native::NativeRun;
use super::phases;
use super::timing::{NativeTime, lay_on_time};
use super::types::{IntervalReport, ProfileReport, Profiled, SamplingReport};
use super::workspace::Workspace;
use crate::platform::Machine;
use crate::recording::Recording;
use crate::store::{InputFile, Invocation, MediumLines};

/// The meter, its capabilities and its media.
pub(super) struct Counted {
    pub(super) meter: MeterKind,
    pub(super) instructions: bool,
    pub(super) writes: bool,
    /// The media that the counts tell apart.
    pub(super) media: Media,
    pub(super) sampling: Option<SamplingReport>,
}

/// Circumstances of the runs.
pub(super) struct Circumstances<'a> {
    pub(super) workspace: &'a Workspace,
    /// Ends of the emulated runs.
    pub(super) emulated: Vec<Exit>,
    /// Number of programs that these could not count.
    pub(super) uncounted: u64,
    pub(super) inputs: Vec<InputFile>,
}

/// The profile of a run whose slices have been counted.
pub(super) fn build(
    invocation: &Invocation,
    interval: Nanos,
    run: NativeRun,
    counted: Counted,
    around: Circumstances<'_>,
) -> Profiled {
    let time = NativeTime { cpu: run.exit.cpu_time, wall: run.wall };
    let profile = lay_on_time(&run.slices, time, interval);
    let total = profile.total();
    let command: Vec<_> =
        invocation.argv.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let isolation = around.workspace.isolation;
    let runs = Runs {
        native: &run.exit,
        emulated: &around.emulated,
        isolation,
        full: run.full,
        cut_short: run.cut_short,
        uncounted: around.uncounted,
    };
    let start = |index: usize| Nanos(index as u64 * profile.interval.0);
    let report = ProfileReport {
        command: command.clone(),
        meter: counted.meter.name().to_owned(),
        exit_code: run.exit.code(),
        different_end: DifferentEnd::between(&run.exit, &around.emulated),
        unusable: runs.unusable(),
        isolation,
        isolation_reason: around.workspace.reason.clone(),
        private: around
            .workspace
            .directories()
            .iter()
            .map(|path| path.display().to_string())
            .collect(),
        wall_s: run.wall.as_secs_f64(),
        cpu_s: profile.cpu_time.as_secs_f64(),
        instructions: counted.instructions.then_some(total.instructions),
        memory_reads: total.reads.0,
        memory_writes: counted.writes.then_some(total.writes.0),
        bandwidth_mean: profile.mean_bandwidth().0,
        bandwidth_peak: profile.peak_bandwidth().0,
        media: MediumLines::of(&total, &counted.media),
        interval_ms: profile.interval.as_millis_f64(),
        intervals: (0..profile.intervals.len())
            .map(|i| IntervalReport::new(start(i), profile.span_of(i), &profile.intervals[i]))
            .collect(),
        phases: phases::find(&profile, &run.slices),
        sampling: counted.sampling,
        notices: run.notices,
    };
    let recording = Recording {
        command,
        meter: report.meter.clone(),
        machine: Machine::here().name(),
        date: Timestamp::now(),
        media: counted.media,
        profile,
    };
    Profiled { report, recording, inputs: around.inputs, lost: None }
}
