//! Options and results that `hog`, `hogsim` and `calibrate` share.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use memweir_core::{Bytes, LINE_BYTES, Nanos};
use memweir_linux::hog::Kernel;
use memweir_linux::tell;
use memweir_run::hog::{HogOptions, HogReport, Limit, array_size};
use memweir_run::platform::{Machine, Platform};

use crate::failure::{Failure, Outcome, refusal_of};
use crate::output;
use crate::render::text::{Table, count, rate, seconds};
use crate::value::{duration, size};

/// Options that Hog and HogSim share.
#[derive(Debug, clap::Args)]
pub(crate) struct Common {
    /// End after this time
    #[arg(long = "for", value_name = "TIME", value_parser = duration, default_value = "10s")]
    time: Nanos,
    /// End after moving this much instead: the work of a job, however fast the bus is
    #[arg(long, value_name = "SIZE", value_parser = size, conflicts_with = "time")]
    traffic: Option<Bytes>,
    /// Size of each of the two arrays [default: twice the last-level cache]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    array: Option<Bytes>,
    /// One instance for each of these CPUs, bound to it [default: one, unbound]
    #[arg(long, value_name = "N,N,...", value_delimiter = ',')]
    cpus: Vec<usize>,
    /// Write the report as JSON (`-`: to standard output instead of the table)
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub(crate) json: Option<PathBuf>,
}

/// Returns the file of the calibration: this one, or that of the user.
pub(crate) fn platform_path(given: Option<&Path>) -> Result<PathBuf, Failure> {
    let path = given.map_or_else(Platform::default_path, |path| Ok(path.to_owned()));
    path.map_err(|error| Failure::Machine(error.to_string()))
}

/// Returns these CPUs if this process may use all of them, or every CPU that it may use if there
/// are none.
pub(crate) fn allowed(cpus: &[usize]) -> Result<Vec<usize>, Failure> {
    let allowed = memweir_linux::topology::allowed_cpus()
        .map_err(|error| Failure::Machine(format!("sched_getaffinity: {error}")))?;
    if let Some(absent) = cpus.iter().find(|cpu| !allowed.contains(cpu)) {
        let list: Vec<String> = allowed.iter().map(ToString::to_string).collect();
        return Err(refusal_of("--cpus", format!("there is no CPU {absent} to use"))
            .help(format!("this process may use {}", list.join(", ")))
            .into());
    }
    Ok(if cpus.is_empty() { allowed } else { cpus.to_vec() })
}

impl Common {
    /// Returns the options for a kernel.
    pub(crate) fn options(&self, kernel: Kernel) -> Result<HogOptions, Failure> {
        let here = Machine::here();
        let cpus = if self.cpus.is_empty() { Vec::new() } else { allowed(&self.cpus)? };
        if let Some(array) = self.array.filter(|array| array.0 < LINE_BYTES) {
            return Err(refusal_of("--array", format!("an array of {array} holds no line"))
                .help(format!("the smallest is {LINE_BYTES} B, one cache line"))
                .into());
        }
        let array = self.array.unwrap_or_else(|| default_array(&here, cpus.len()));
        Ok(HogOptions {
            kernel,
            array: noticed(array, &here),
            limit: self.traffic.map_or(Limit::Time(self.time), Limit::Work),
            cpus,
        })
    }

    /// Shows the report.
    pub(crate) fn show(&self, report: &HogReport) -> Result<Outcome, Failure> {
        output::report(self.json.as_deref(), report, || text(report))?;
        Ok(if report.interrupted { Outcome::Interrupted } else { Outcome::Success })
    }
}

/// Returns the size of the arrays of so many hogs where none is given.
pub(crate) fn default_array(here: &Machine, hogs: usize) -> Bytes {
    array_size(here.caches.as_ref(), hogs, here.memory)
}

/// Returns the size of the arrays of hogs, with a notice if they may stay in the last-level cache.
pub(crate) fn noticed(array: Bytes, here: &Machine) -> Bytes {
    let caches = here.caches.as_ref();
    if let Some(notice) = caches.and_then(|caches| in_cache(array, caches.llc.size)) {
        tell!("{notice}");
    }
    array
}

fn in_cache(array: Bytes, llc: Bytes) -> Option<String> {
    (array < llc).then(|| {
        format!(
            "an array of {array} is smaller than the last-level cache of {llc}: the bandwidth is \
             in part that of the cache; arrays of {} pass it by",
            Bytes(2 * llc.0)
        )
    })
}

fn text(report: &HogReport) -> String {
    let instances = Table::of(report.instances.iter().enumerate())
        .left("instance", |(index, instance)| {
            instance.cpu.map_or(format!("{index}"), |cpu| format!("{index} on CPU {cpu}"))
        })
        .right("bandwidth", |(_, instance)| rate(instance.bandwidth))
        .right("time", |(_, instance)| seconds(instance.seconds))
        .right("lines read", |(_, instance)| count(instance.memory_reads))
        .right("lines written", |(_, instance)| count(instance.memory_writes));
    let mut text = format!(
        "kernel {}, arrays of {}\n\n{instances}\n\n",
        report.kernel.name(),
        Bytes(report.array_bytes),
    );
    let _ = write!(text, "together {} in {}", rate(report.bandwidth), seconds(report.seconds));
    if let Some(demand) = report.demand {
        let _ = write!(text, "; {} were demanded of each", rate(demand));
    }
    if report.interrupted {
        text.push_str("; a signal ended it early");
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use memweir_run::hog::InstanceReport;

    #[test]
    fn arrays_that_fit_into_the_cache_are_told() {
        let told = in_cache(Bytes(1 << 20), Bytes(32 << 20)).expect("a notice");
        assert!(told.contains("1 MiB") && told.contains("arrays of 64 MiB"), "{told}");
        assert_eq!(in_cache(Bytes(64 << 20), Bytes(32 << 20)), None);
    }

    #[test]
    fn the_text_has_instances_and_their_sum() {
        let instance = |cpu| InstanceReport {
            cpu: Some(cpu),
            memory_reads: 2_000_000,
            memory_writes: 1_000_000,
            seconds: 1.5,
            bandwidth: 11.2e9,
        };
        let report = HogReport {
            kernel: Kernel::Copy,
            idle: Some(0),
            demand: Some(12e9),
            array_bytes: 64 << 20,
            bytes: 0,
            seconds: 1.5,
            bandwidth: 22.4e9,
            interrupted: false,
            instances: vec![instance(0), instance(1)],
        };
        let text = text(&report);
        for needle in [
            "kernel copy, arrays of 64 MiB",
            "1 on CPU 1",
            "2,000,000",
            "together 22.4 GB/s in 1.50 s; 12.0 GB/s were demanded of each",
        ] {
            assert!(text.contains(needle), "{needle} is missing in\n{text}");
        }
    }
}
