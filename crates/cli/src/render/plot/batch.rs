//! Figures of batches: bandwidth per quantum, the times at which jobs ran, and their speeds.

use memweir_run::timeline::Row;

use super::{Chart, Figure, Lane, Lanes, Level, PALETTE, Panel, Series, Span, Style};

/// One run, as its timeline recorded it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Run {
    /// The policy.
    pub(crate) policy: String,
    /// One row per job and quantum, in the order of the quanta.
    pub(crate) rows: Vec<Row>,
    /// From the first exec to the end of the last job, in seconds.
    pub(crate) turnaround_s: f64,
    /// Peak bandwidth as calibrated, in bytes per second.
    pub(crate) peak: Option<f64>,
    /// Predicted and measured speed of each job beside the others, over its speed alone, where both
    /// are known.
    pub(crate) speeds: Vec<(f64, f64)>,
}

/// The unit of a figure's times.
#[derive(Clone, Copy)]
struct Unit {
    name: &'static str,
    /// Length of a second in it.
    per_second: f64,
}

impl Unit {
    /// Returns the unit in which times up to `end`, in seconds, are read best.
    fn of(end: f64) -> Self {
        let (name, per_second) = if end < 0.1 { ("ms", 1e3) } else { ("s", 1.0) };
        Self { name, per_second }
    }

    /// Writes a time that is given in seconds.
    fn text(self, seconds: f64) -> String {
        format!("{:.2} {}", seconds * self.per_second, self.name)
    }

    fn label(self) -> String {
        format!("time ({})", self.name)
    }
}

/// One run, or several of the same batch beside each other.
pub(crate) fn figure(runs: &[Run], subtitle: String) -> Figure {
    match runs {
        [run] => timeline(run, subtitle),
        runs => comparison(runs, subtitle),
    }
}

/// One batch: the system's bandwidth with peak and target, then a lane per job.
pub(crate) fn timeline(run: &Run, subtitle: String) -> Figure {
    let end = run.turnaround_s.max(last_end(&run.rows));
    let unit = Unit::of(end);
    let panels = [
        Panel::Chart(bandwidth(run, "memory bandwidth of all jobs per quantum", end, unit, None)),
        Panel::Lanes(lanes(run, end, unit)),
    ];
    Figure {
        title: format!("A batch under {}: {}", run.policy, unit.text(run.turnaround_s)),
        subtitle,
        panels: panels.into_iter().chain(speeds(std::slice::from_ref(run))).collect(),
    }
}

/// The same batch under several policies: for each its bandwidth and its lanes, on one time axis.
pub(crate) fn comparison(runs: &[Run], subtitle: String) -> Figure {
    let end = runs.iter().map(|run| run.turnaround_s.max(last_end(&run.rows))).fold(0.0, f64::max);
    let top = runs
        .iter()
        .flat_map(|run| run.rows.iter().filter_map(|row| row.system_bandwidth).chain(run.peak))
        .fold(0.0, f64::max);
    let unit = Unit::of(end);
    let mut panels = Vec::new();
    for run in runs {
        let title = format!("{}: {}", run.policy, unit.text(run.turnaround_s));
        panels.push(Panel::Chart(bandwidth(run, &title, end, unit, Some(top * 1.06 / 1e9))));
        panels.push(Panel::Lanes(lanes(run, end, unit)));
    }
    panels.extend(speeds(runs));
    let names: Vec<&str> = runs.iter().map(|run| run.policy.as_str()).collect();
    Figure { title: format!("The same batch under {}", names.join(", ")), subtitle, panels }
}

/// The measured speed of each job over the predicted one; `None` if there is no job with both.
fn speeds(runs: &[Run]) -> Option<Panel> {
    let all = runs.iter().flat_map(|run| &run.speeds);
    let highest = all.map(|(predicted, measured)| predicted.max(*measured)).reduce(f64::max)?;
    let end = highest.max(1.0) * 1.05;
    let diagonal = vec![(0.0, 0.0), (end, end)];
    let equal = Series::new("as predicted", diagonal, Style::Dashes, PALETTE[6]);
    let jobs = runs.iter().zip(PALETTE).filter(|(run, _)| !run.speeds.is_empty());
    let jobs =
        jobs.map(|(run, color)| Series::new(&run.policy, run.speeds.clone(), Style::Dots, color));
    Some(Panel::Chart(Chart {
        title: "speed of each job beside the others, over its speed alone".to_owned(),
        x_label: "predicted".to_owned(),
        y_label: "measured".to_owned(),
        x_end: Some(end),
        y_end: Some(end),
        series: std::iter::once(equal).chain(jobs).collect(),
        ..Chart::default()
    }))
}

fn last_end(rows: &[Row]) -> f64 {
    rows.last().map_or(0.0, end_of)
}

/// Returns the end of a row's quantum.
fn end_of(row: &Row) -> f64 {
    row.t_start_s + row.span_s
}

/// Returns the times at which the last job ended and another came much later. The next quantum
/// begins with it, so that the gap is longer than a switch.
fn pauses(rows: &[Row]) -> impl Iterator<Item = f64> {
    let pause = |pair: &[Row]| {
        let [before, after] = pair else { return None };
        let end = end_of(before);
        (after.t_start_s - end > before.span_s).then_some(end)
    };
    rows.windows(2).filter_map(pause)
}

fn bandwidth(run: &Run, title: &str, end: f64, unit: Unit, y_end: Option<f64>) -> Chart {
    let per_quantum = |value: fn(&Row) -> Option<f64>| {
        let mut points: Vec<(f64, f64)> = Vec::new();
        for row in &run.rows {
            let known = value(row).map(|rate| (row.t_start_s * unit.per_second, rate / 1e9));
            if let Some(point) = known.filter(|p| points.last().is_none_or(|last| last.0 < p.0)) {
                points.push(point);
            }
        }
        points
    };
    let mut measured = per_quantum(|row| row.system_bandwidth);
    if !measured.is_empty() {
        let idle = pauses(&run.rows).chain([last_end(&run.rows)]);
        measured.extend(idle.map(|from| (from * unit.per_second, 0.0)));
        measured.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    let mut series = vec![Series::new("all jobs", measured, Style::Steps, PALETTE[0])];
    let mut target = per_quantum(|row| row.target);
    let last = run.rows.iter().rfind(|row| row.target.is_some());
    if let (Some(row), Some((_, rate))) = (last, target.last().copied()) {
        target.push(((row.t_start_s + row.span_s) * unit.per_second, rate));
        series.push(Series::new("target", target, Style::StepLine, PALETTE[2]));
    }
    let peak = run.peak.map(|peak| Level::new("peak", peak / 1e9, PALETTE[5]));
    Chart {
        title: title.to_owned(),
        x_label: unit.label(),
        y_label: "bandwidth (GB/s)".to_owned(),
        x_end: Some(end * unit.per_second),
        y_end: y_end.filter(|end| *end > 0.0),
        series,
        levels: peak.into_iter().collect(),
        ..Chart::default()
    }
}

/// A lane per job, dark where it moved much memory.
fn lanes(run: &Run, end: f64, unit: Unit) -> Lanes {
    let top = run.rows.iter().filter_map(|row| row.bandwidth).fold(0.0, f64::max);
    let jobs = run.rows.iter().map(|row| row.job as usize + 1).max().unwrap_or(0);
    let mut rows = vec![Lane { label: String::new(), spans: Vec::new() }; jobs];
    for row in &run.rows {
        let lane = &mut rows[row.job as usize];
        lane.label.clone_from(&row.name);
        // Under `os` no job is blocked; its CPU time shows what it really got.
        let ran = row.cpu_s / row.span_s.max(f64::MIN_POSITIVE);
        if !row.chosen || ran < 0.02 {
            continue;
        }
        let shade = match row.bandwidth {
            Some(rate) if top > 0.0 => rate / top,
            _ => 0.5,
        };
        let (from, to) = (row.t_start_s, row.t_start_s + row.span_s * ran.min(1.0));
        let in_unit = |seconds: f64| seconds * unit.per_second;
        lane.spans.push(Span { from: in_unit(from), to: in_unit(to), shade });
    }
    Lanes {
        title: "which jobs ran".to_owned(),
        x_label: unit.label(),
        x_end: end * unit.per_second,
        shade_label: if top > 0.0 {
            format!("up to {:.1} GB/s per job", top / 1e9)
        } else {
            String::new()
        },
        rows,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(quantum: u64, job: u32, chosen: bool, bandwidth: f64) -> Row {
        Row {
            quantum,
            t_start_s: quantum as f64 * 0.1,
            span_s: 0.1,
            job,
            name: format!("job{job}"),
            chosen,
            cpu_s: if chosen { 0.1 } else { 0.0 },
            bandwidth: Some(bandwidth),
            system_bandwidth: Some(3e9),
            target: Some(4e9),
            ..Row::default()
        }
    }

    fn run() -> Run {
        let rows = vec![row(0, 0, true, 2e9), row(0, 1, false, 0.0), row(1, 1, true, 1e9)];
        Run {
            policy: "ideal-average".into(),
            rows,
            turnaround_s: 0.2,
            peak: Some(40e9),
            speeds: vec![(0.8, 0.7), (0.9, 1.2)],
        }
    }

    #[test]
    fn a_lane_has_the_quanta_in_which_its_job_ran() {
        let lanes = lanes(&run(), 0.2, Unit::of(0.2));
        assert_eq!(lanes.rows[0].spans, vec![Span { from: 0.0, to: 0.1, shade: 1.0 }]);
        assert_eq!(lanes.rows[1].spans, vec![Span { from: 0.1, to: 0.2, shade: 0.5 }]);
        assert_eq!(lanes.shade_label, "up to 2.0 GB/s per job");
    }

    #[test]
    fn the_chart_has_a_step_per_quantum() {
        let chart = bandwidth(&run(), "", 0.2, Unit::of(0.2), None);
        assert_eq!(chart.series[0].points, vec![(0.0, 3.0), (0.1, 3.0), (0.2, 0.0)]);
        assert_eq!(chart.series[1].points, vec![(0.0, 4.0), (0.1, 4.0), (0.2, 4.0)]);
        assert_eq!(chart.series[1].style, Style::StepLine);
        assert_eq!(chart.levels[0].value, 40.0);
    }

    #[test]
    fn no_bandwidth_is_drawn_while_no_job_is_there() {
        let steps = |start: f64| {
            let next = Row { t_start_s: start, ..row(1, 1, true, 1e9) };
            let run =
                Run { rows: vec![row(0, 0, true, 2e9), row(0, 1, false, 0.0), next], ..run() };
            bandwidth(&run, "", 2.0, Unit::of(2.0), None).series[0].points.clone()
        };
        assert_eq!(steps(1.0), [(0.0, 3.0), (0.1, 0.0), (1.0, 3.0), (1.1, 0.0)]);
        // A switch between two quanta.
        assert_eq!(steps(0.125), [(0.0, 3.0), (0.125, 3.0), (0.225, 0.0)]);
    }

    #[test]
    fn speeds_of_all_policies_share_a_panel() {
        let os = Run { policy: "os".into(), speeds: Vec::new(), ..run() };
        let Some(Panel::Chart(chart)) = speeds(&[os.clone(), run()]) else { panic!("no chart") };
        let names: Vec<&str> = chart.series.iter().map(|series| series.name.as_str()).collect();
        assert_eq!(names, ["as predicted", "ideal-average"]);
        assert_eq!(chart.series[1].points, run().speeds);
        assert!(chart.y_end.is_some_and(|end| end > 1.2));
        assert!(speeds(&[os]).is_none());
    }

    #[test]
    fn an_unmeasured_batch_can_be_drawn() {
        let mut run = run();
        for row in &mut run.rows {
            row.system_bandwidth = None;
            row.bandwidth = None;
            row.target = None;
        }
        run.peak = None;
        run.speeds.clear();
        let svg = timeline(&run, String::new()).to_svg().unwrap();
        assert!(svg.contains("job1"), "{svg}");
        assert!(comparison(&[], String::new()).to_svg().is_ok());
    }

    #[test]
    fn a_batch_of_a_simulated_millisecond_is_drawn_in_milliseconds() {
        let rows =
            vec![Row { t_start_s: 0.0004, span_s: 0.0001, cpu_s: 0.0001, ..row(0, 0, true, 2e9) }];
        let figure = timeline(&Run { rows, turnaround_s: 0.0005, ..run() }, String::new());
        assert!(figure.title.ends_with(": 0.50 ms"), "{}", figure.title);
        let [Panel::Chart(chart), Panel::Lanes(lanes), ..] = &figure.panels[..] else {
            panic!("no lanes")
        };
        assert_eq!((chart.x_label.as_str(), chart.x_end), ("time (ms)", Some(0.5)));
        assert_eq!(chart.series[0].points, [(0.4, 3.0), (0.5, 0.0)]);
        let Span { from, to, .. } = lanes.rows[0].spans[0];
        assert_eq!((from, to, lanes.x_end), (0.4, 0.5, 0.5));
    }
}
