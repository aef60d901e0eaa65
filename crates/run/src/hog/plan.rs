//! HogSim's instructions (iabw Fig. 3a): for each fine interval the number of steps (the array
//! `GS`) and the number of nops after each (the array `NOP`), and the table from which the nops are
//! taken.
//!
//! The file form is text: a line `memweir-hogsim 1`, a line `kernel NAME`, then per group the steps
//! and the nops. Empty lines and lines that begin with `#` are ignored.

use std::fmt::Write as _;

use memweir_core::input::InputError;
use memweir_core::names::Named;
use memweir_core::{BytesPerSec, LINE_BYTES};
use memweir_linux::hog::Kernel;

use crate::lines::{self, Head};
use crate::platform::IdlePoint;
use crate::segment::Segment;

const HEAD: Head =
    Head { header: "memweir-hogsim 1", file: "HogSim file", key: "kernel", value: "its name" };

/// The most groups that a plan may have, and the most steps of a group.
const MAX_GROUPS: usize = 1_000_000;
const MAX_STEPS: u64 = 1 << 40;

/// Calibrated time of a step by the number of nops after it.
#[derive(Clone, Debug, PartialEq)]
pub struct IdleTable {
    kernel: Kernel,
    /// Nops and nanoseconds per step, both ascending.
    entries: Vec<(f64, f64)>,
}

/// One fine interval of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Steps, the element of `GS`.
    pub steps: u64,
    /// Nops after each, the element of `NOP`.
    pub idle: u32,
}

/// Steps and nops that HogSim repeats.
#[derive(Clone, Debug, PartialEq)]
pub struct HogPlan {
    kernel: Kernel,
    groups: Vec<Group>,
    demand: Option<BytesPerSec>,
}

impl IdleTable {
    /// Builds the table of a calibration from the median of the repeats at each number of nops.
    /// Points that noise has put out of order are leveled: more nops never make a step faster.
    ///
    /// # Errors
    /// Refuses fewer than two points with a bandwidth.
    pub fn new(kernel: Kernel, points: &[IdlePoint]) -> Result<Self, InputError> {
        let per_step = bytes_per_step(kernel);
        let mut points: Vec<&IdlePoint> =
            points.iter().filter(|point| point.bandwidth > BytesPerSec::ZERO).collect();
        points.sort_by(|a, b| a.idle.cmp(&b.idle).then(a.bandwidth.0.total_cmp(&b.bandwidth.0)));
        let mut entries: Vec<(f64, f64)> = points
            .chunk_by(|a, b| a.idle == b.idle)
            .map(|repeats| repeats[repeats.len() / 2])
            .map(|median| (f64::from(median.idle), per_step / median.bandwidth.0 * 1e9))
            .collect();
        let mut slowest = 0.0_f64;
        for (_, time) in &mut entries {
            slowest = slowest.max(*time);
            *time = slowest;
        }
        if entries.len() < 2 || entries[0].1 >= slowest {
            return Err(InputError::new("platform", "too few points to find nops for a rate")
                .key("idle_table")
                .help("`memweir calibrate` measures them"));
        }
        Ok(Self { kernel, entries })
    }

    /// The highest rate that the table reaches.
    #[must_use]
    pub fn fastest(&self) -> BytesPerSec {
        BytesPerSec(bytes_per_step(self.kernel) / self.entries[0].1 * 1e9)
    }

    /// Returns the nops after which a step has taken `wanted` nanoseconds. The paper takes the
    /// closest entry; this interpolates between two entries, and extrapolates past the last one.
    fn idle_for(&self, wanted: f64) -> u32 {
        let above = self.entries.iter().position(|(_, time)| *time >= wanted);
        let right = match above {
            Some(0) => return self.entries[0].0 as u32,
            Some(index) => index,
            None => self.entries.len() - 1,
        };
        // The last rise before `right`: leveled entries have no slope.
        let left = self.entries[..right]
            .iter()
            .rposition(|(_, time)| *time < self.entries[right].1)
            .unwrap_or(0);
        let ((x0, t0), (x1, t1)) = (self.entries[left], self.entries[right]);
        // A conversion to u32 saturates.
        (x0 + (wanted - t0) * (x1 - x0) / (t1 - t0)).round() as u32
    }
}

impl HogPlan {
    /// A plan of these groups.
    ///
    /// # Errors
    /// Refuses plans without a step, with more than a million groups, or with a group of more
    /// than 2^40 steps.
    pub fn new(kernel: Kernel, groups: Vec<Group>) -> Result<Self, InputError> {
        let refuse = |reason: &str| Err(InputError::new("plan", reason));
        if groups.len() > MAX_GROUPS {
            return refuse("a plan has at most a million groups");
        }
        if groups.iter().any(|group| group.steps > MAX_STEPS) {
            return refuse("a group has at most 2^40 steps");
        }
        if groups.iter().all(|group| group.steps == 0) {
            return refuse("a plan without a step does nothing");
        }
        Ok(Self { kernel, groups, demand: None })
    }

    /// Builds the plan that makes a hog demand `segment`. A rate beyond the table's fastest gets
    /// its steps without nops, and takes longer than its interval. An interval with less than one
    /// step gets one, followed by nops to its end, so that pauses last.
    #[must_use]
    pub fn of_segment(segment: &Segment, table: &IdleTable) -> Self {
        let per_step = bytes_per_step(table.kernel);
        let interval = segment.interval().as_f64();
        let group = |rate: &BytesPerSec| {
            let bytes = rate.0 * interval / 1e9;
            let steps = ((bytes / per_step).round() as u64).clamp(1, MAX_STEPS);
            Group { steps, idle: table.idle_for(interval / steps as f64) }
        };
        Self {
            kernel: table.kernel,
            groups: segment.rates().iter().map(group).collect(),
            demand: Some(segment.mean()),
        }
    }

    /// The kernel whose steps the plan counts.
    #[must_use]
    pub fn kernel(&self) -> Kernel {
        self.kernel
    }

    /// The groups, in order.
    #[must_use]
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// Steps of one round.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.groups.iter().map(|group| group.steps).sum()
    }

    /// Mean rate of the segment that the plan was made from, if it was made from one.
    #[must_use]
    pub fn demand(&self) -> Option<BytesPerSec> {
        self.demand
    }

    /// Reads the text of a plan file; `source_name` stands in messages.
    pub fn parse(text: &str, source_name: &str) -> Result<Self, InputError> {
        let mut lines = lines::content(text);
        let refuse = |line: usize, reason: String| InputError::new(source_name, reason).line(line);
        let (line, name) = HEAD.take(&mut lines, source_name)?;
        let kernel = Kernel::named(name)
            .map_err(|refusal| refusal.written_in(source_name).line(line).key("kernel"))?;
        let mut groups = Vec::new();
        for (line, text) in lines {
            groups.push(group(text).ok_or_else(|| {
                refuse(line, format!("`{text}` is not a number of steps and a number of nops"))
            })?);
        }
        Self::new(kernel, groups).map_err(|error| InputError::new(source_name, error.reason))
    }

    /// The text of the plan's file.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = format!("{}\n{} {}\n", HEAD.header, HEAD.key, self.kernel.name());
        for group in &self.groups {
            let _ = writeln!(text, "{} {}", group.steps, group.idle);
        }
        text
    }
}

fn group(text: &str) -> Option<Group> {
    let (steps, idle) = text.split_once(char::is_whitespace)?;
    Some(Group { steps: steps.parse().ok()?, idle: idle.trim().parse().ok()? })
}

fn bytes_per_step(kernel: Kernel) -> f64 {
    ((kernel.lines_read() + kernel.lines_written()) * LINE_BYTES) as f64
}

#[cfg(test)]
mod tests;
