//! Requests over time, as rows of a file and as charts: of the memories of a replay, and of the
//! programs of a simulation at bank level.

use std::path::Path;

use memweir_core::{LINE_BYTES, Nanos, Picos};
use memweir_dram::intervals::{Interval, Intervals};
use memweir_run::table::{Field, Format, Kind, Table, cells, columns};

use crate::failure::Failure;
use crate::render::plot::{Chart, Panel};
use crate::value::duration;

/// The requests of a memory or program up to its end.
pub(crate) struct Line<'a> {
    pub(crate) name: &'a str,
    pub(crate) requests: &'a Intervals,
    pub(crate) end: Picos,
}

/// One row: an interval of a line.
struct Row<'a> {
    name: &'a str,
    start: Picos,
    length: Picos,
    of: Interval,
}

impl Row<'_> {
    fn bandwidth(&self) -> f64 {
        (self.of.rows.total() * LINE_BYTES) as f64 / seconds(self.length)
    }
}

impl<'a> Line<'a> {
    fn rows(&self) -> impl Iterator<Item = Row<'a>> + use<'a> {
        let name = self.name;
        let intervals = self.requests.until(self.end);
        intervals.map(move |(start, length, of)| Row { name, start, length, of })
    }
}

/// Returns the fields of a row, of which the first names its memory or program.
fn fields<'a>(name: &'static str) -> [Field<Row<'a>>; 10] {
    [
        (name, Kind::String, |row| row.name.into()),
        ("start_s", Kind::Float, |row| seconds(row.start).into()),
        ("length_s", Kind::Float, |row| seconds(row.length).into()),
        ("reads", Kind::Integer, |row| row.of.reads.into()),
        ("writes", Kind::Integer, |row| row.of.writes.into()),
        ("row_hits", Kind::Integer, |row| row.of.rows.hits.into()),
        ("row_misses", Kind::Integer, |row| row.of.rows.misses.into()),
        ("row_conflicts", Kind::Integer, |row| row.of.rows.conflicts.into()),
        ("read_latency_mean_ns", Kind::Float, |row| row.of.latency_ns().into()),
        ("bandwidth_bytes_per_s", Kind::Float, |row| row.bandwidth().into()),
    ]
}

fn seconds(time: Picos) -> f64 {
    time.0 as f64 / 1e12
}

/// Writes a row for each line and interval; `name` is the column of the lines' names.
pub(crate) fn write(path: &Path, name: &'static str, lines: &[Line<'_>]) -> Result<(), Failure> {
    let fields = fields(name);
    let rows: Vec<_> = lines.iter().flat_map(Line::rows).map(|row| cells(&fields, &row)).collect();
    Table::create(path, format(path)?, columns(&fields))
        .and_then(|table| table.finish(&rows))
        .map_err(|error| Failure::write(path, error))
}

/// The lines of one of the choices that are compared.
pub(crate) struct Group<'a> {
    /// Name of the choice, which is drawn where there are several.
    pub(crate) name: &'a str,
    pub(crate) lines: Vec<Line<'a>>,
}

/// A quantity that is drawn over time.
struct Quantity {
    name: &'static str,
    unit: &'static str,
    value: fn(&Row<'_>) -> Option<f64>,
}

const QUANTITIES: [Quantity; 3] = [
    Quantity { name: "bandwidth", unit: "GB/s", value: |row| Some(row.bandwidth() / 1e9) },
    Quantity { name: "row hits", unit: "%", value: |row| Some(100.0 * row.of.rows.hit_rate()?) },
    Quantity { name: "read latency", unit: "ns", value: |row| row.of.latency_ns() },
];

/// Returns charts of bandwidth, share of row hits and mean read latency over time, for each group
/// and on the same axes for all.
pub(crate) fn panels(groups: &[Group<'_>]) -> Vec<Panel> {
    let ends = groups.iter().flat_map(|group| &group.lines).map(|line| line.end);
    let x_end = micros(ends.max().unwrap_or_default());
    let is_compared = groups.len() > 1;
    let of_group = |group: &Group<'_>| {
        let title = if is_compared { format!("{}: ", group.name) } else { String::new() };
        QUANTITIES.each_ref().map(|quantity| chart(&title, &group.lines, quantity, x_end))
    };
    let mut charts: Vec<_> = groups.iter().map(of_group).collect();
    for quantity in 0..QUANTITIES.len() {
        let series = charts.iter().flat_map(|charts| &charts[quantity].series);
        let values = series.flat_map(|series| &series.points).map(|(_, value)| *value);
        let top = values.reduce(f64::max).map(|top| 1.06 * top);
        charts.iter_mut().for_each(|charts| charts[quantity].y_end = top);
    }
    charts.into_iter().flatten().map(Panel::Chart).collect()
}

fn chart(title: &str, lines: &[Line<'_>], quantity: &Quantity, x_end: f64) -> Chart {
    let Quantity { name, unit, value } = quantity;
    let mut chart = Chart {
        title: format!("{title}{name}"),
        x_label: "time (us)".to_owned(),
        y_label: format!("{name} ({unit})"),
        x_end: Some(x_end),
        y_start: Some(0.0),
        ..Chart::lines(lines.iter().map(|line| (line.name, points(line, *value))))
    };
    chart.series.retain(|series| !series.points.is_empty());
    chart
}

/// Returns the points of a line: the starts of its intervals, and the end of a single one. A short
/// last interval would end it in a spike; it is left out unless it is the only one.
fn points(line: &Line<'_>, value: fn(&Row<'_>) -> Option<f64>) -> Vec<(f64, f64)> {
    let is_whole = |row: &Row<'_>| row.length == line.requests.length() || row.start.0 == 0;
    let rows = line.rows().filter(is_whole);
    let drawn: Vec<_> = rows.filter_map(|row| Some((value(&row)?, row))).collect();
    let end = match &drawn[..] {
        [(value, row)] => Some((micros(row.start + row.length), *value)),
        _ => None,
    };
    drawn.iter().map(|(value, row)| (micros(row.start), *value)).chain(end).collect()
}

fn micros(time: Picos) -> f64 {
    time.0 as f64 / 1e6
}

/// Returns the format of a timeline's file.
pub(crate) fn format(path: &Path) -> Result<Format, Failure> {
    Format::of(path).map_err(|r| r.written_in("command line").key("--timeline").into())
}

/// The longest interval: a day, whose picoseconds can be counted.
const LONGEST: Nanos = Nanos(86_400_000_000_000);

/// Parses the length of an interval.
pub(crate) fn interval(text: &str) -> Result<Nanos, String> {
    let interval = duration(text)?;
    match (Nanos(100)..=LONGEST).contains(&interval) {
        true => Ok(interval),
        false => Err(format!("`{text}` is out of range: an interval lasts from 100ns to 24h")),
    }
}

#[cfg(test)]
mod tests {
    use memweir_core::{Cycles, Direction, PhysAddr};
    use memweir_dram::request::{Completion, Request, RowOutcome, Source};

    use super::*;

    #[test]
    fn an_interval_has_bounds() {
        assert_eq!(interval("100ns"), Ok(Nanos(100)));
        assert_eq!(interval("24h"), Ok(LONGEST));
        assert!(interval("99ns").unwrap_err().contains("from 100ns"));
        // 2^61 ns are 125 times 2^64 ps.
        assert!(interval("2305843009s 213693952ns").unwrap_err().contains("to 24h"));
    }

    #[test]
    fn a_run_shorter_than_an_interval_is_a_line_across_the_chart() {
        let mut requests = Intervals::new(Picos(10_000_000));
        let request =
            Request { address: PhysAddr(0), direction: Direction::Read, source: Source(0), tag: 0 };
        let (done, outcome) = (Cycles(0), RowOutcome::Hit);
        let completion = Completion { request, accepted: done, done, outcome, blamed: None };
        requests.count(Picos(1_000_000), &completion, Picos(40_000));
        let line = Line { name: "dram", requests: &requests, end: Picos(2_000_000) };
        let panels = panels(&[Group { name: "", lines: vec![line] }]);
        let points = panels.iter().map(|panel| match panel {
            Panel::Chart(chart) => chart.series[0].points.clone(),
            other => panic!("{other:?}"),
        });
        // 64 bytes in 2 us.
        let expected = [0.032, 100.0, 40.0].map(|value| vec![(0.0, value), (2.0, value)]);
        assert_eq!(points.collect::<Vec<_>>(), expected);
    }
}
