//! Bandwidths of the jobs of a log, which no log records.

use std::f64::consts::TAU;
use std::sync::Arc;

use memweir_core::input::{InputError, Value};
use memweir_core::{ABSURD_BANDWIDTH, BytesPerSec};
use memweir_flow::hardware::Hardware;
use memweir_flow::workload::catalog::{Catalog, Entry};
use memweir_flow::workload::requirement::mean_bandwidth;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::super::Recordings;
use super::LoggedJob;

/// Seed of the programs of the catalog, of which the mean bandwidth alone counts.
const CATALOG_SEED: u64 = 1;

/// Bandwidth that one core of a job draws.
#[derive(Clone, Debug)]
pub(super) enum Bandwidth {
    /// The same for all.
    Fixed(BytesPerSec),
    /// Drawn from a lognormal distribution with this mean; `spread` is its standard deviation over
    /// the mean.
    Lognormal { mean: f64, spread: f64 },
    /// Drawn between two values.
    Uniform { from: f64, to: f64 },
    /// That of any of these programs.
    Pool(Arc<[BytesPerSec]>),
    /// That of each job, by its place.
    OfJobs(Arc<[BytesPerSec]>),
}

impl Bandwidth {
    /// Reads the key `bandwidth`.
    pub(super) fn read(
        value: Value<'_>,
        hardware: &Hardware,
        catalog: &Catalog,
        recordings: &dyn Recordings,
        jobs: &[LoggedJob],
    ) -> Result<Self, InputError> {
        if value.is_table() {
            return Self::drawn(value, hardware);
        }
        if value.text().is_none() {
            return Ok(Self::Fixed(rate_of_core(&value, hardware)?));
        }
        if value.one_of("source of bandwidths", &["catalog", "store"])? == "store" {
            return Self::stored(&value, recordings, jobs);
        }
        let rate = |entry: &Entry| mean_bandwidth(&entry.program(hardware, CATALOG_SEED));
        Ok(Self::Pool(catalog.iter().map(rate).collect()))
    }

    fn drawn(value: Value<'_>, hardware: &Hardware) -> Result<Self, InputError> {
        let reversed = value.refuse("`from` is more than `to`");
        let mut section = value.section()?;
        if section.has("mean") {
            section.only(&["mean", "spread"])?;
            let mean = rate_of_core(&section.require("mean")?, hardware)?.0;
            let spread = section.require("spread")?.number_in(0.0..=ABSURD_BANDWIDTH, "spread")?;
            return Ok(Self::Lognormal { mean, spread });
        }
        section.only(&["from", "to"])?;
        let from = rate_of_core(&section.require("from")?, hardware)?.0;
        let to = rate_of_core(&section.require("to")?, hardware)?.0;
        if from > to {
            return Err(reversed);
        }
        Ok(Self::Uniform { from, to })
    }

    /// Looks up each job's program in the profile store.
    fn stored(
        value: &Value<'_>,
        recordings: &dyn Recordings,
        jobs: &[LoggedJob],
    ) -> Result<Self, InputError> {
        let stored = value.checked(recordings.stored())?;
        let rate = |job: &LoggedJob| {
            let program = job.program.as_deref().ok_or_else(|| {
                value
                    .refuse(format!("job {} of the log has no program's name", job.name))
                    .help("add the column JobName to `sacct`, or give a distribution")
            })?;
            stored.iter().find(|(name, _)| name == program).map(|(_, rate)| *rate).ok_or_else(
                || {
                    value
                        .refuse(format!("the profile store has no program `{program}`"))
                        .help("measure it with `memweir profile`, or give a distribution")
                },
            )
        };
        Ok(Self::OfJobs(jobs.iter().map(rate).collect::<Result<_, _>>()?))
    }

    /// Returns the bandwidth of a core of the job at this place.
    pub(super) fn of_core(&self, place: usize, random: &mut ChaCha8Rng) -> BytesPerSec {
        match self {
            Self::Fixed(rate) => *rate,
            Self::Lognormal { mean, spread } => {
                // Box and Muller; `1 - u` is never zero.
                let radius = (-2.0 * (1.0 - random.random::<f64>()).ln()).sqrt();
                let normal = radius * (TAU * random.random::<f64>()).cos();
                let variance = (1.0 + spread * spread).ln();
                BytesPerSec(mean * (variance.sqrt() * normal - variance / 2.0).exp())
            }
            Self::Uniform { from, to } => BytesPerSec(from + (to - from) * random.random::<f64>()),
            Self::Pool(rates) => rates[random.random_range(0..rates.len())],
            Self::OfJobs(rates) => rates[place],
        }
    }
}

/// Reads a bandwidth that a core of the machine can move.
fn rate_of_core(value: &Value<'_>, hardware: &Hardware) -> Result<BytesPerSec, InputError> {
    let (rate, machine) = (value.bandwidth()?, &hardware.machine);
    if rate > machine.core_peak {
        let (name, peak) = (&machine.name, machine.core_peak);
        let reason = format!("{rate} is more than a core of `{name}` can move, {peak}");
        return Err(value.refuse(reason).help("less bandwidth, or a larger `core_peak`"));
    }
    Ok(rate)
}
