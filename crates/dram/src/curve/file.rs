//! The file of a curve: what the flow model reads, and all that was measured.

use std::fmt::Write;

use memweir_core::input::{Document, InputError, Section};
use memweir_core::{BytesPerSec, medium};

use super::{Curve, Fit, Pattern};

/// Version of the format.
const FORMAT: i64 = 1;

impl Curve {
    /// The text of a file: the service curve of `fit`, then the measurement.
    #[must_use]
    pub fn to_toml(&self, fit: &Fit) -> String {
        let mut text = format!(
            "# Bandwidth against latency, written by `memweir dram curve`. A machine file names it as\n\
             # `curve = \"FILE\"` of a memory; only the tables before `lines` are read then.\n\
             curve = {FORMAT}\nmemory = {:?}\n\n[service]\n",
            self.memory
        );
        let growth: Vec<String> =
            fit.growth.iter().map(|[load, stretch]| format!("[{load:.4}, {stretch:.4}]")).collect();
        let _ = write!(
            text,
            "pattern = \"{}\"\ncapacity = {:.6e}\nread_cost = 1.0\nwrite_cost = {:.4}\n\
             growth = [{}]\nunloaded_read_ns = {:.3}\nerror = {:.4}\n",
            fit.pattern,
            fit.capacity.0,
            fit.write_cost,
            growth.join(", "),
            fit.unloaded_ns,
            fit.error
        );
        for line in &self.lines {
            let _ = write!(
                text,
                "\n[[lines]]\npattern = \"{}\"\nread_share = {}\nsaturated = {:.6e}\n\
                 # offered and carried in bytes per second, mean and 99th percentile of the read latency in ns\n\
                 points = [\n",
                line.pattern, line.read_share, line.saturated.0
            );
            for point in &line.points {
                let _ = write!(text, "    [{:.6e}, {:.6e}", point.offered.0, point.bandwidth.0);
                for latency in [point.latency_ns, point.p99_ns].into_iter().flatten() {
                    let _ = write!(text, ", {latency:.2}");
                }
                text.push_str("],\n");
            }
            text.push_str("]\n");
        }
        text
    }
}

impl Fit {
    /// Reads the service curve of a file; `name` stands in messages. The memory's name comes first.
    ///
    /// # Errors
    /// If the text is no such file: with line, key and reason.
    pub fn parse(name: &str, text: &str) -> Result<(String, Self), InputError> {
        let mut root = Document { name, text }.parse()?;
        let format = root.require("curve")?;
        if format.integer()? != FORMAT {
            return Err(format.refuse(format!("this version reads format {FORMAT}")));
        }
        let memory = root.require("memory")?.string()?.to_owned();
        let fit = service(root.require("service")?.section()?)?;
        Ok((memory, fit))
    }
}

fn service(mut section: Section<'_>) -> Result<Fit, InputError> {
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
    let capacity =
        section.require("capacity")?.number_in(1.0..=1e14, "bandwidth in bytes per second")?;
    let write_cost = medium::data::cost(&section.require("write_cost")?)?;
    let mut growth: Vec<[f64; 2]> = Vec::new();
    for pair in section.require("growth")?.array("an array of pairs")? {
        let wrong = || pair.refuse("must be a pair [utilization, stretch], both ascending");
        let values = pair.array("a pair [utilization, stretch]")?;
        let [utilization, stretch] = values.as_slice() else { return Err(wrong()) };
        let point = [
            utilization.number_in(0.0..=1.0, "share of the memory's time")?,
            stretch.number_in(1.0..=1e4, "stretch of the latency")?,
        ];
        if growth.last().is_some_and(|last| last[0] >= point[0] || last[1] > point[1]) {
            return Err(wrong());
        }
        growth.push(point);
    }
    Ok(Fit {
        pattern,
        capacity: BytesPerSec(capacity),
        write_cost,
        growth,
        unloaded_ns: section.require("unloaded_read_ns")?.number_in(0.001..=1e6, "latency")?,
        error: section.require("error")?.number_in(0.0..=1e3, "relative error")?,
    })
}
