//! A program's profile as text and as a figure.

use std::fmt::Write;

use memweir_core::profile::Profile;
use memweir_core::{Lines, Nanos};
use memweir_run::profile::{Isolation, PhaseReport, ProfileReport, Profiled, SamplingReport};
use memweir_run::recording::Recording;
use memweir_run::store::{InputState, MediumLines, ProgramState, StoredProfile};

use super::bars::sparkline;
use super::plot::{Chart, Figure, PALETTE, Panel, Series, Style};
use super::text::{Table, count, counted, known, percent, properties, rate, seconds};

/// Width of the sparkline in cells.
const SPARKLINE_CELLS: usize = 72;
/// The coarse interval of iabw Fig. 2.
const COARSE: Nanos = Nanos::from_millis(100);

/// A stored profile: where it comes from, its totals, and its shape.
pub(crate) fn recording(stored: &StoredProfile) -> String {
    let recording = &stored.recording;
    let mut text = format!(
        "{}\nrecorded {} by the {} meter on {}\n",
        recording.command.join(" "),
        recording.date.strftime("%F %H:%M"),
        recording.meter,
        recording.machine
    );
    match stored.exit_code {
        None => text += "how the program ended was not recorded: profile it again\n",
        Some(0) => {}
        Some(code) => {
            let _ = writeln!(text, "the program ended with exit code {code}");
        }
    }
    if stored.program == ProgramState::Changed {
        text += "the program has changed since: profile it again\n";
    }
    if let InputState::Changed(files) = &stored.inputs {
        let _ = writeln!(text, "{} changed since: profile it again", files.join(", "));
    }
    text.push('\n');
    let total = recording.profile.total();
    let shape = shape(&recording.profile, Some(total.instructions), Some(total.writes.0));
    text + &shape + &by_medium(&MediumLines::of(&total, &recording.media))
}

/// Traffic by medium; empty if there is only one.
fn by_medium(lines: &[MediumLines]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let table = Table::of(lines)
        .left("medium", |medium| &*medium.name)
        .right("reads", |medium| count(medium.reads))
        .right("writes", |medium| known(medium.writes, count));
    format!("\n{table}\n")
}

/// A new profile: its totals, its shape, its phases, and its sampling. Runs that make no profile
/// and counted nothing have none of that.
pub(crate) fn report(profiled: &Profiled) -> String {
    let report = &profiled.report;
    let mut text = format!("{}\nby the {} meter\n", report.command.join(" "), report.meter);
    let _ = writeln!(text, "{}\n", isolation(report));
    if report.unusable.is_none() || profiled.recording.profile.total().lines() != Lines(0) {
        text += &figures(profiled);
    }
    for notice in &report.notices {
        let _ = writeln!(text, "note: {notice}");
    }
    if let Some(reason) = &report.unusable {
        let _ = writeln!(text, "not stored: {reason}");
    } else if report.exit_code != 0 {
        let _ = writeln!(text, "the program ended with exit code {}", report.exit_code);
    }
    text
}

/// The figures of a new profile.
fn figures(profiled: &Profiled) -> String {
    let report = &profiled.report;
    let recording = &profiled.recording;
    let mut text = shape(&recording.profile, report.instructions, report.memory_writes);
    text += &by_medium(&report.media);
    if !report.phases.is_empty() {
        text += &format!("\n{}\n", phases(&report.phases));
    }
    if let Some(sampling) = &report.sampling {
        let _ = writeln!(text, "\n{}", sampled(sampling));
    }
    text
}

/// One line on the fate of the files that the profiled program wrote.
pub(crate) fn isolation(report: &ProfileReport) -> String {
    let places: Vec<_> = report.private.iter().map(String::as_str).collect();
    let places = places.join(", ");
    let text = match report.isolation {
        Isolation::Overlay => format!("changes in {places} are discarded"),
        Isolation::Copy => format!("each run has a copy of {places}, which is discarded"),
        Isolation::None => "the program writes its files in place, in every run".to_owned(),
    };
    text + &report.isolation_reason.as_ref().map_or(String::new(), |why| format!(" ({why})"))
}

fn phases(phases: &[PhaseReport]) -> Table<(usize, &PhaseReport)> {
    Table::of((1..).zip(phases))
        .left("phase", |(number, _)| *number)
        .right("share", |(_, phase)| percent(phase.share))
        .right("bandwidth", |(_, phase)| rate(phase.bandwidth_mean))
        .right("first at", |(_, phase)| seconds(phase.first_s))
        .right("visits", |(_, phase)| count(phase.visits))
}

fn sampled(sampling: &SamplingReport) -> String {
    let mut text = format!(
        "simulated {} of the instructions ({} asked for)",
        percent(sampling.simulated_share),
        sampling.requested
    );
    if sampling.used != sampling.requested {
        let _ = write!(
            text,
            "; the sample is {}, since a smaller one of this program is too uncertain",
            sampling.used
        );
    }
    match (sampling.estimated_error, sampling.error_bandwidth) {
        (Some(_), Some(0.0)) if sampling.used == "all" => {}
        (Some(share), Some(bandwidth)) => {
            let _ = write!(
                text,
                "\nerror of the traffic: ±{} (±{} of mean bandwidth), 95 % confidence, beside the \
                 bias of cold caches",
                percent(share),
                rate(bandwidth)
            );
        }
        _ => text += "\nerror of the traffic: unknown, too few bursts",
    }
    if let Some(error) = sampling.measured_error {
        let _ = write!(text, "\n{:+.1} % against a full run", error * 100.0);
    }
    text
}

/// Totals, rates and the sparkline of a profile, of which a meter may have counted no instructions
/// or no writes.
fn shape(profile: &Profile, instructions: Option<u64>, writes: Option<u64>) -> String {
    let lines = |lines: u64| format!("{} of 64 bytes", counted(lines, "line"));
    let not_counted = || "not counted".to_owned();
    let rows = [
        ("CPU time", seconds(profile.cpu_time.as_secs_f64())),
        ("wall time", seconds(profile.wall_time.as_secs_f64())),
        ("instructions", instructions.map_or_else(not_counted, count)),
        ("memory reads", lines(profile.total().reads.0)),
        ("memory writes", writes.map_or_else(not_counted, lines)),
        ("bandwidth, mean", rate(profile.mean_bandwidth().0)),
        (
            "bandwidth, peak",
            format!("{} in {}", rate(profile.peak_bandwidth().0), milliseconds(profile.interval)),
        ),
    ];
    let mut text = properties(rows, 16);
    let rates: Vec<f64> = rates(profile).into_iter().map(|(_, rate)| rate).collect();
    if rates.len() > 1 {
        let _ = writeln!(text, "\nbandwidth over CPU time\n{}", sparkline(&rates, SPARKLINE_CELLS));
    }
    text
}

/// The rate over CPU time at the recording's interval and at 100 ms, as iabw Fig. 2.
pub(crate) fn figure(recording: &Recording) -> Figure {
    let profile = &recording.profile;
    let mut panels = vec![panel(profile, 0)];
    let factor = COARSE.0 / profile.interval.0.max(1);
    if factor > 1 {
        panels.push(panel(&profile.coarser(factor as usize), 1));
    }
    Figure {
        title: format!(
            "Memory bandwidth of {}",
            super::text::shortened(&recording.command.join(" "), 70)
        ),
        subtitle: format!("{} meter, {}", recording.meter, recording.machine),
        panels,
    }
}

fn panel(profile: &Profile, color: usize) -> Panel {
    let points = rates(profile).into_iter().map(|(at, rate)| (at, rate / 1e9)).collect();
    Panel::Chart(Chart {
        title: format!("sampled every {}", milliseconds(profile.interval)),
        x_label: "CPU time (s)".to_owned(),
        y_label: "bandwidth (GB/s)".to_owned(),
        x_end: Some(profile.cpu_time.as_secs_f64()),
        series: vec![Series::new("reads and writes", points, Style::Steps, PALETTE[color])],
        ..Chart::default()
    })
}

/// Start of each interval in seconds, and the rate in it in bytes per second.
fn rates(profile: &Profile) -> Vec<(f64, f64)> {
    let start = |index: usize| Nanos(index as u64 * profile.interval.0).as_secs_f64();
    (0..profile.intervals.len())
        .map(|i| (start(i), profile.intervals[i].bandwidth(profile.span_of(i)).0))
        .collect()
}

fn milliseconds(interval: Nanos) -> String {
    let value = interval.as_millis_f64();
    if value.fract() == 0.0 { format!("{value:.0} ms") } else { format!("{value:.3} ms") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memweir_core::Counts;

    fn profile() -> Profile {
        // 1 ms each: 1,000 lines are 64 MB/s, 3,000 are 192 MB/s.
        let lines = |reads| Counts::new(500, Lines(reads), Lines(0));
        Profile {
            interval: Nanos::MILLI,
            intervals: vec![lines(1000), lines(3000), lines(2000)],
            cpu_time: Nanos::from_millis(3),
            wall_time: Nanos::from_millis(4),
        }
    }

    #[test]
    fn the_shape_has_totals_rates_and_a_sparkline() {
        let text = shape(&profile(), None, Some(0));
        for needle in [
            "instructions     not counted",
            "memory reads     6,000 lines of 64 bytes",
            "memory writes    0 lines of 64 bytes",
            "bandwidth, mean  128.0 MB/s",
            "bandwidth, peak  192.0 MB/s in 1 ms",
            "▃█▆",
        ] {
            assert!(text.contains(needle), "{needle} is missing in\n{text}");
        }
    }

    #[test]
    fn a_sample_comes_with_its_error() {
        let mut sampling = SamplingReport {
            requested: "10%".to_owned(),
            used: "30%".to_owned(),
            simulated_share: 0.31,
            estimated_error: Some(0.08),
            error_bandwidth: Some(120e6),
            measured_error: None,
        };
        let text = sampled(&sampling);
        for needle in ["31.0 %", "10% asked for", "the sample is 30%", "±8.0 % (±120.0 MB/s"] {
            assert!(text.contains(needle), "{needle} is missing in {text}");
        }
        (sampling.estimated_error, sampling.error_bandwidth) = (None, None);
        assert!(sampled(&sampling).contains("unknown, too few bursts"));
    }

    #[test]
    fn the_figure_has_a_fine_and_a_coarse_panel() {
        let recording = Recording {
            command: vec!["gzip".into(), "-c".into()],
            meter: "software".into(),
            machine: "a machine".into(),
            date: jiff::Timestamp::UNIX_EPOCH,
            media: memweir_core::Media::dram_only(),
            profile: profile(),
        };
        let svg = figure(&recording).to_svg().unwrap();
        for needle in ["sampled every 1 ms", "sampled every 100 ms", "gzip -c", "CPU time (s)"] {
            assert!(svg.contains(needle), "{needle} is missing");
        }
    }
}
