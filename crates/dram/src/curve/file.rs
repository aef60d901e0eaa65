//! The file of a curve: the service curve that the flow model reads, and all measurements.
//!
//! Format 1 had one growth for all shares of reads, a row of pairs `growth` of `[service]`; it can
//! still be read.

use std::fmt::Write;

use memweir_core::input::{Document, InputError, Section, Value};
use memweir_core::medium;

use super::{Curve, Fit, Growth, Line, Pattern};

/// Version of the format that is written.
const FORMAT: i64 = 2;
/// Version 1, with one growth for all shares of reads.
const ONE_GROWTH: i64 = 1;

/// Expected content of a growth, for error messages.
const PAIRS: &str = "an array of pairs [utilization, stretch]";

impl Curve {
    /// Returns the text of a file: the service curve of `fit`, then the measurements.
    #[must_use]
    pub fn to_toml(&self, fit: &Fit) -> String {
        let mut text = format!(
            "# Bandwidth against latency, written by `memweir dram curve`. A machine file names it as\n\
             # `curve = \"FILE\"` of a memory; only the tables before `lines` are read then.\n\
             curve = {FORMAT}\nmemory = {:?}\n\n[service]\n\
             pattern = \"{}\"\ncapacity = {:.6e}\nread_cost = 1.0\nwrite_cost = {:.4}\n\
             unloaded_read_ns = {:.3}\nerror = {:.4}\n",
            self.memory, fit.pattern, fit.capacity.0, fit.write_cost, fit.unloaded_ns, fit.error
        );
        for growth in &fit.growth {
            let points = growth.points.iter().map(|[load, by]| format!("[{load:.4}, {by:.4}]"));
            let _ = write!(
                text,
                "\n[[service.growth]]\nread_share = {}\n# utilization, stretch of the latency\npoints = [{}]\n",
                growth.read_share,
                points.collect::<Vec<_>>().join(", ")
            );
        }
        for line in &self.lines {
            line.write(&mut text);
        }
        text
    }
}

impl Line {
    fn write(&self, text: &mut String) {
        let _ = write!(
            text,
            "\n[[lines]]\npattern = \"{}\"\nread_share = {}\nsaturated = {:.6e}\n\
             # offered and carried in bytes per second, mean and 99th percentile of the read latency in ns\n\
             points = [\n",
            self.pattern, self.read_share, self.saturated.0
        );
        for point in &self.points {
            let _ = write!(text, "    [{:.6e}, {:.6e}", point.offered.0, point.bandwidth.0);
            for latency in [point.latency_ns, point.p99_ns].into_iter().flatten() {
                let _ = write!(text, ", {latency:.2}");
            }
            text.push_str("],\n");
        }
        text.push_str(
            "]\n# programs that wait for each read, carried in bytes per second, time from read to read in ns\n\
             waiting = [\n",
        );
        for seen in &self.waiting {
            let _ = writeln!(
                text,
                "    [{}, {:.6e}, {:.2}],",
                seen.programs, seen.bandwidth.0, seen.wait_ns
            );
        }
        text.push_str("]\n");
    }
}

impl Fit {
    /// Parses the service curve of a file and returns it after the memory's name; `name` appears in
    /// messages.
    ///
    /// # Errors
    /// If the text is no such file; the error tells line, key and reason.
    pub fn parse(name: &str, text: &str) -> Result<(String, Self), InputError> {
        let mut root = Document { name, text }.parse()?;
        let format = root.require("curve")?;
        let growth = match format.integer()? {
            ONE_GROWTH => one_growth,
            FORMAT => growth_by_reads,
            _ => {
                let reason = format!("this version reads formats {ONE_GROWTH} to {FORMAT}");
                return Err(format.refuse(reason));
            }
        };
        let memory = root.require("memory")?.string()?.to_owned();
        let fit = service(root.require("service")?.section()?, growth)?;
        Ok((memory, fit))
    }
}

fn service(
    mut section: Section<'_>,
    growth: fn(Value<'_>) -> Result<Vec<Growth>, InputError>,
) -> Result<Fit, InputError> {
    section.only(&[
        "pattern",
        "capacity",
        "read_cost",
        "write_cost",
        "growth",
        "unloaded_read_ns",
        "error",
    ])?;
    let pattern = section.require("pattern")?;
    let pattern = pattern.checked(pattern.string()?.parse::<Pattern>())?;
    section.map("read_cost", |value| unit(&value))?;
    Ok(Fit {
        pattern,
        capacity: section.require("capacity")?.capacity()?,
        write_cost: medium::data::cost(&section.require("write_cost")?)?,
        growth: growth(section.require("growth")?)?,
        unloaded_ns: section.require("unloaded_read_ns")?.number_in(0.001..=1e6, "latency")?,
        error: section.require("error")?.number_in(0.0..=1e3, "relative error")?,
    })
}

/// Refuses a cost of reads other than 1, which has no place in a [`Fit`]: its capacity is that of
/// reads.
fn unit(value: &Value<'_>) -> Result<(), InputError> {
    match medium::data::cost(value)? {
        cost if cost != 1.0 => Err(value
            .refuse(format!("{cost} is not 1, and `capacity` is that of reads"))
            .help("`read_cost` beside `curve` in the machine file")),
        _ => Ok(()),
    }
}

/// Parses one growth, which holds for all shares of reads.
fn one_growth(value: Value<'_>) -> Result<Vec<Growth>, InputError> {
    Ok(vec![Growth { read_share: 1.0, points: points(&value)? }])
}

/// Parses the growth at each of several shares of reads.
fn growth_by_reads(value: Value<'_>) -> Result<Vec<Growth>, InputError> {
    let none = value.refuse("latency is known at one share of reads at least");
    let mut growth: Vec<Growth> = Vec::new();
    for mut section in value.sections()? {
        section.only(&["read_share", "points"])?;
        let share = section.require("read_share")?;
        let read_share = share.number_in(0.0..=1.0, "share of reads")?;
        if growth.last().is_some_and(|last| last.read_share >= read_share) {
            return Err(share.refuse("must be larger than the one before"));
        }
        growth.push(Growth { read_share, points: points(&section.require("points")?)? });
    }
    if growth.is_empty() { Err(none) } else { Ok(growth) }
}

fn points(value: &Value<'_>) -> Result<Vec<[f64; 2]>, InputError> {
    let mut points: Vec<[f64; 2]> = Vec::new();
    for pair in value.array(PAIRS)? {
        let wrong = || pair.refuse("must be a pair [utilization, stretch], both ascending");
        let values = pair.array("a pair [utilization, stretch]")?;
        let [utilization, stretch] = values.as_slice() else { return Err(wrong()) };
        let point = [
            utilization.number_in(0.0..=1.0, "share of the memory's time")?,
            stretch.number_in(1.0..=1e4, "stretch of the latency")?,
        ];
        if points.last().is_some_and(|last| last[0] >= point[0] || last[1] > point[1]) {
            return Err(wrong());
        }
        points.push(point);
    }
    Ok(points)
}
