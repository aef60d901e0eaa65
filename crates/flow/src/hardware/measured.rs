//! The `platform.toml` of `memweir calibrate` as a machine: one node with one memory, whose
//! capacity, peak of one core and growth of latency below saturation were measured.
//!
//! This module reads only the keys that the simulator needs; `memweir-run` owns the format and
//! checks the rest.

use memweir_core::input::{InputError, Section};
use memweir_core::medium::MediumKind;
use memweir_core::{BytesPerSec, Picos};

use super::{DEFAULT_CORE_INSTRUCTIONS, Hardware};
use crate::machine::{Machine, Memory, Node};
use crate::service::{GrowthPoint, ServiceCurve};

/// Version of the format that this code reads.
const FORMAT: i64 = 1;

/// A calibration measures no latency. Only ratios of latencies matter, and there is one memory.
const NOMINAL_LATENCY: Picos = Picos::from_nanos(100);

/// Share of the peak above which the memory is saturated, and the stretch comes from the queue.
const SATURATED: f64 = 0.95;

/// Returns true if this is the text of a `platform.toml`: machine files have no format number.
pub(super) fn is_platform(text: &str) -> bool {
    text.lines().any(|line| line.split_once('=').is_some_and(|(key, _)| key.trim() == "format"))
}

/// Reads the outermost table of the file `name`.
pub(super) fn parse(name: &str, mut root: Section<'_>) -> Result<Hardware, InputError> {
    let format = root.require("format")?;
    if format.integer()? != FORMAT {
        return Err(format.refuse(format!("this version reads format {FORMAT}")));
    }
    let mut machine = root.require("machine")?.section()?;
    let cores = machine.require("cores")?.whole_in(1..=u32::MAX)?;
    let cpu = machine.require("cpu")?.string()?.to_owned();
    let Some(peak) = root.take("peak") else {
        return Err(InputError::new(name, "the calibration measured no peak")
            .key("peak")
            .help("`memweir calibrate` measures it"));
    };
    let peak = peak.section()?.require("bandwidth")?.capacity()?;
    let core_peak = single_hog(&mut root)?.unwrap_or(peak).min(peak);
    let growth = growth(&mut root, peak, core_peak)?;
    Ok(Hardware {
        core: super::CoreModel::default(),
        caches: super::default_caches(),
        machine: Machine {
            name: cpu,
            nodes: vec![Node { cores }],
            memories: vec![Memory {
                name: "dram".to_owned(),
                kind: MediumKind::Dram,
                node: 0,
                read_latency: NOMINAL_LATENCY,
                write_latency: NOMINAL_LATENCY,
                service: ServiceCurve {
                    capacity: peak,
                    read_cost: 1.0,
                    write_cost: 1.0,
                    growth: growth.into(),
                    source: format!("measured: {name}"),
                },
            }],
            core_peak,
            interconnect: None,
        },
        core_instructions: DEFAULT_CORE_INSTRUCTIONS,
        source: format!("measured: {name}"),
    })
}

/// Returns the highest rate of one hog alone, if any was measured.
fn single_hog(root: &mut Section<'_>) -> Result<Option<BytesPerSec>, InputError> {
    let Some(list) = root.take("streams") else { return Ok(None) };
    let mut highest: Option<BytesPerSec> = None;
    for mut point in list.sections()? {
        let bandwidth = point.require("bandwidth")?.capacity()?;
        if point.require("instances")?.integer()? == 1 {
            highest = Some(highest.map_or(bandwidth, |other| other.max(bandwidth)));
        }
    }
    Ok(highest)
}

/// Returns the stretch that two hogs cause each other below saturation.
///
/// Each of the two demands half of a point's demand `d`, so it waits for memory `w = d / 2 /
/// core_peak` of its time. It takes `2 / W` times as long as alone, `W` the weighted speedup of
/// iabw eq. (1), and all of that is waiting: the latency has stretched by `1 + (2 / W - 1) / w`.
/// Measurements scatter, so a point never lies below the one before it.
fn growth(
    root: &mut Section<'_>,
    peak: BytesPerSec,
    core_peak: BytesPerSec,
) -> Result<Vec<GrowthPoint>, InputError> {
    let Some(list) = root.take("hog_curve") else { return Ok(Vec::new()) };
    let mut points = Vec::new();
    for mut point in list.sections()? {
        let demand = point.require("demand")?.capacity()?;
        let achieved = point.require("achieved")?.capacity()?;
        let speedup = point.require("weighted_speedup")?.number_in(1e-3..=1e3, "speedup")?;
        let utilization = achieved.0 / peak.0;
        if utilization.max(demand.0 / peak.0) <= SATURATED {
            let waiting = (demand.0 / 2.0 / core_peak.0).min(1.0);
            let stretch = 1.0 + (2.0 / speedup - 1.0).max(0.0) / waiting;
            points.push(GrowthPoint { utilization, stretch });
        }
    }
    points.sort_by(|a, b| a.utilization.total_cmp(&b.utilization));
    points.dedup_by(|later, earlier| {
        let same = later.utilization <= earlier.utilization;
        if same {
            earlier.stretch = earlier.stretch.max(later.stretch);
        } else {
            later.stretch = later.stretch.max(earlier.stretch);
        }
        same
    });
    Ok(points)
}
