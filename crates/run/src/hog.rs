//! Hog (X1) and HogSim (X2): putting a known load on the memory bus.
//!
//! [`hog`] demands a steady bandwidth, [`hogsim`] replays a [`Segment`](crate::segment::Segment)
//! through a [`HogPlan`]. The loops themselves are in [`memweir_linux::hog`]; running several at
//! once is in `hog/team.rs`.

mod plan;
mod team;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use memweir_core::cache::CacheHierarchy;
use memweir_core::{Bytes, Lines, Nanos};
use memweir_linux::hog::Kernel;
use serde::{Deserialize, Serialize};

pub use plan::{Group, HogPlan, IdleTable};
pub use team::{Afterwards, Limit, Load, Measured, Team};

/// Last-level cache that is assumed where the system does not report one.
const UNKNOWN_LLC: Bytes = Bytes(32 << 20);

/// The least that an array may be cut to where memory is short.
const SMALLEST_ARRAY: Bytes = Bytes(1 << 20);

/// Options of Hog and HogSim.
#[derive(Clone, Debug, PartialEq)]
pub struct HogOptions {
    /// Kernel of the steps. A plan brings its own.
    pub kernel: Kernel,
    /// Size of each of the two arrays of an instance.
    pub array: Bytes,
    /// Condition at which an instance ends.
    pub limit: Limit,
    /// One instance for each, bound to that CPU; a single free instance if empty.
    pub cpus: Vec<usize>,
}

/// Result of a Hog. `hog --json` is this structure, field by field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HogReport {
    /// The kernel.
    pub kernel: Kernel,
    /// Nops after each step; absent for HogSim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle: Option<u32>,
    /// Mean bandwidth that each instance was to demand, in bytes per second; absent for Hog.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub demand: Option<f64>,
    /// Size of each array in bytes.
    pub array_bytes: u64,
    /// Bytes that all instances moved in both directions.
    pub bytes: u64,
    /// The time that the slowest instance took, in seconds.
    pub seconds: f64,
    /// Sum of the instances' bandwidths, in bytes per second.
    pub bandwidth: f64,
    /// True if a signal ended it before its time or its work was over.
    #[serde(default)]
    pub interrupted: bool,
    /// Each instance.
    pub instances: Vec<InstanceReport>,
}

/// Result of one instance.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct InstanceReport {
    /// The CPU it was bound to, if it was.
    pub cpu: Option<usize>,
    /// Lines read from memory, reads for ownership included.
    pub memory_reads: u64,
    /// Lines written back to memory.
    pub memory_writes: u64,
    /// The time it took, in seconds.
    pub seconds: f64,
    /// Its bandwidth in both directions, in bytes per second.
    pub bandwidth: f64,
}

/// Size of one array such that `instances` hogs always miss the last-level cache: twice its size
/// (iabw section 2.2), or less where all of them would take more than half of `memory`.
#[must_use]
pub fn array_size(caches: Option<&CacheHierarchy>, instances: usize, memory: Bytes) -> Bytes {
    let llc = caches.map_or(UNKNOWN_LLC, |caches| caches.llc.size);
    let arrays = 2 * instances.max(1) as u64;
    Bytes((2 * llc.0).min(memory.0 / 2 / arrays).max(SMALLEST_ARRAY.0))
}

/// Runs Hog: every instance demands as much as `idle` nops after each step allow. Setting `stop`
/// ends it early.
///
/// # Errors
/// If memory cannot be allocated or a CPU cannot be used.
pub fn hog(options: &HogOptions, idle: u32, stop: &AtomicBool) -> io::Result<HogReport> {
    let load = Load::Steady { idle };
    let mut report = run(options, options.kernel, &load, stop)?;
    report.idle = Some(idle);
    Ok(report)
}

/// Runs HogSim: every instance replays `plan` over and over. Setting `stop` ends it early.
///
/// # Errors
/// If memory cannot be allocated or a CPU cannot be used.
pub fn hogsim(options: &HogOptions, plan: &HogPlan, stop: &AtomicBool) -> io::Result<HogReport> {
    let mut report = run(options, plan.kernel(), &Load::Replay(plan.clone()), stop)?;
    report.demand = plan.demand().map(|demand| demand.0);
    Ok(report)
}

fn run(
    options: &HogOptions,
    kernel: Kernel,
    load: &Load,
    stop: &AtomicBool,
) -> io::Result<HogReport> {
    let cpus = match options.cpus.as_slice() {
        [] => vec![None],
        cpus => cpus.iter().copied().map(Some).collect(),
    };
    let mut team = Team::new(kernel, options.array, &cpus, stop)?;
    let loads: Vec<_> = (0..cpus.len()).map(|member| (member, load)).collect();
    let measured = team.run(&loads, options.limit, Afterwards::Stop, stop)?;
    let instances: Vec<_> = cpus
        .iter()
        .zip(&measured)
        .map(|(cpu, measured)| InstanceReport {
            cpu: *cpu,
            memory_reads: measured.steps * kernel.lines_read(),
            memory_writes: measured.steps * kernel.lines_written(),
            seconds: measured.elapsed.as_secs_f64(),
            bandwidth: measured.bandwidth().0,
        })
        .collect();
    let slowest = measured.iter().map(|measured| measured.elapsed).max();
    Ok(HogReport {
        kernel,
        idle: None,
        demand: None,
        array_bytes: options.array.0,
        bytes: measured.iter().map(|measured| measured.lines).sum::<Lines>().bytes().0,
        seconds: slowest.unwrap_or(Nanos::ZERO).as_secs_f64(),
        bandwidth: instances.iter().map(|instance| instance.bandwidth).sum(),
        interrupted: stop.load(Ordering::Relaxed),
        instances,
    })
}

#[cfg(test)]
mod tests {
    use memweir_core::cache::CacheGeometry;

    use super::*;

    static GO_ON: AtomicBool = AtomicBool::new(false);

    fn options(limit: Limit) -> HogOptions {
        HogOptions { kernel: Kernel::Copy, array: Bytes(4 << 20), limit, cpus: Vec::new() }
    }

    #[test]
    fn arrays_are_twice_the_cache_unless_memory_is_short() {
        let cache = |size| CacheGeometry { size: Bytes(size), ways: 16, line: 64 };
        let caches =
            CacheHierarchy { l1d: cache(32 << 10), l2: cache(1 << 20), llc: cache(32 << 20) };
        let gib = |n: u64| Bytes(n << 30);
        assert_eq!(array_size(Some(&caches), 2, gib(8)), Bytes(64 << 20));
        assert_eq!(array_size(None, 2, gib(8)), Bytes(64 << 20));
        // 64 instances of two arrays in half of 8 GiB: 32 MiB each.
        assert_eq!(array_size(Some(&caches), 64, gib(8)), Bytes(32 << 20));
        assert_eq!(array_size(Some(&caches), 64, Bytes(1)), SMALLEST_ARRAY);
    }

    #[test]
    fn a_given_amount_of_work_is_done_exactly_by_every_instance() {
        let mut options = options(Limit::Work(Bytes(192 * 1000 + 1)));
        options.cpus = memweir_linux::topology::allowed_cpus().unwrap();
        let report = hog(&options, 10, &GO_ON).unwrap();
        assert_eq!(report.instances.len(), options.cpus.len());
        for instance in &report.instances {
            // 192 bytes move per step of the copy kernel; the odd byte takes a step of its own.
            assert_eq!((instance.memory_reads, instance.memory_writes), (2002, 1001));
            assert!(instance.seconds > 0.0 && instance.bandwidth > 0.0);
        }
        assert_eq!(report.bytes, 192 * 1001 * options.cpus.len() as u64);
    }

    #[test]
    fn a_given_time_is_run_at_least() {
        let report = hog(&options(Limit::Time(Nanos::from_millis(20))), 0, &GO_ON).unwrap();
        assert!(report.seconds >= 0.02, "{report:?}");
        assert_eq!(
            report.bytes,
            (report.instances[0].memory_reads + report.instances[0].memory_writes) * 64
        );
    }

    #[test]
    fn a_cpu_that_does_not_exist_is_an_error() {
        let mut options = options(Limit::Work(Bytes(1)));
        options.cpus = vec![0, 1023];
        assert!(hog(&options, 0, &GO_ON).is_err());
    }

    #[test]
    fn hogsim_replays_its_plan_once_per_round_of_work() {
        let plan = HogPlan::new(
            Kernel::Read,
            vec![Group { steps: 30, idle: 0 }, Group { steps: 1, idle: 500 }],
        )
        .unwrap();
        // Three rounds of 31 lines.
        let report = hogsim(&options(Limit::Work(Bytes(3 * 31 * 64))), &plan, &GO_ON).unwrap();
        assert_eq!(report.instances[0].memory_reads, 93);
        assert_eq!(report.kernel, Kernel::Read);
    }
}
