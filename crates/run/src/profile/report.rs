//! Makes a report and a recording from counts and times.

use jiff::Timestamp;
use memweir_core::{Counts, Media, Nanos};
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
    let instructions = |counts: &Counts| counted.instructions.then_some(counts.instructions);
    let writes = |counts: &Counts| counted.writes.then_some(counts.writes.0);
    let interval_at = |(index, counts): (usize, &Counts)| IntervalReport {
        time_s: Nanos(index as u64 * profile.interval.0).as_secs_f64(),
        instructions: instructions(counts),
        memory_reads: counts.reads.0,
        memory_writes: writes(counts),
        bandwidth: counts.bandwidth(profile.span_of(index)).0,
    };
    let by_medium = MediumLines::of(&total, &counted.media);
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
        instructions: instructions(&total),
        memory_reads: total.reads.0,
        memory_writes: writes(&total),
        bandwidth_mean: profile.mean_bandwidth().0,
        bandwidth_peak: profile.peak_bandwidth().0,
        media: match counted.writes {
            true => by_medium,
            false => by_medium.into_iter().map(MediumLines::of_reads).collect(),
        },
        interval_ms: profile.interval.as_millis_f64(),
        intervals: profile.intervals.iter().enumerate().map(interval_at).collect(),
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use memweir_core::{Bytes, Lines};
    use memweir_linux::launch::Ending;

    use super::super::timing::Slice;
    use super::super::workspace::{Counting, Isolation};
    use super::*;

    #[test]
    fn what_a_meter_does_not_count_is_absent_in_the_intervals_too() {
        let directory = std::env::temp_dir();
        let invocation = Invocation {
            program: Path::new("/bin/true").into(),
            argv: vec!["true".into()],
            directory,
            env: std::collections::BTreeMap::new(),
            stdin: None,
        };
        let none = Some(Isolation::None);
        let workspace = Workspace::choose(&invocation, none, Counting::Outside).unwrap();
        let counts = Counts::new(0, Lines(7), Lines(0));
        let run = NativeRun {
            exit: Exit { ending: Ending::Code(0), cpu_time: Nanos::MILLI },
            wall: Nanos::MILLI,
            slices: vec![Slice { counts, weight: 1.0, instruction_pointers: Vec::new() }],
            notices: Vec::new(),
            written: Bytes(0),
            full: false,
            cut_short: false,
        };
        let counted = Counted {
            meter: MeterKind::Perf,
            instructions: false,
            writes: false,
            media: Media::dram_only(),
            sampling: None,
        };
        let around = Circumstances {
            workspace: &workspace,
            emulated: Vec::new(),
            uncounted: 0,
            inputs: Vec::new(),
        };
        let report = build(&invocation, Nanos::MILLI, run, counted, around).report;
        let [interval] = &report.intervals[..] else { panic!("{report:?}") };
        assert_eq!((report.instructions, report.memory_writes), (None, None));
        assert_eq!((interval.instructions, interval.memory_writes), (None, None));
        assert_eq!(interval.memory_reads, 7);
    }
}
