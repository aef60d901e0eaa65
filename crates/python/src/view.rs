//! The views that Python policies decide by: those of `memweir-policy`, with times in seconds and
//! rates in bytes per second.

use memweir_core::{BytesPerSec, Nanos};
use memweir_policy::colors::{ProgramTraits, Supply};
use memweir_policy::speed::{Load, SpeedModel};
use memweir_policy::{QuantumView, SchedulerConfig};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// A job that may run in the next quantum.
#[pyclass(frozen, module = "memweir")]
#[derive(Clone, Copy)]
pub(crate) struct Candidate(pub(crate) memweir_policy::Candidate);

#[pymethods]
impl Candidate {
    /// Number of the job.
    #[getter]
    fn job(&self) -> u32 {
        self.0.job.0
    }

    /// Cores that it occupies while it runs; at least one.
    #[getter]
    fn cores(&self) -> u32 {
        self.0.cores
    }

    /// Predicted bandwidth of the job in the next quantum, over all of its cores.
    #[getter]
    fn demand(&self) -> f64 {
        self.0.demand.0
    }

    /// The same for each of its cores.
    #[getter]
    fn demand_per_core(&self) -> f64 {
        self.0.demand_per_core().0
    }

    /// Estimated execution time, if known.
    #[getter]
    fn expected_time_s(&self) -> Option<f64> {
        self.0.expected_time.map(Nanos::as_secs_f64)
    }

    /// The demand by medium: pairs of reads and writes, the local DRAM first.
    #[getter]
    fn traffic(&self) -> Vec<(f64, f64)> {
        self.0.traffic.0.iter().map(|rate| (rate.reads.0, rate.writes.0)).collect()
    }

    /// CPU time that it has used so far.
    #[getter]
    fn executed_s(&self) -> f64 {
        self.0.executed.as_secs_f64()
    }

    /// Completed work, as the time that it would have taken alone.
    #[getter]
    fn progress_s(&self) -> f64 {
        self.0.progress.as_secs_f64()
    }

    /// Time since it was submitted.
    #[getter]
    fn age_s(&self) -> f64 {
        self.0.age.as_secs_f64()
    }

    /// Its priority: each step doubles the worth of a second of its progress.
    #[getter]
    fn priority(&self) -> i32 {
        self.0.priority.0
    }

    fn __repr__(&self) -> String {
        let job = &self.0;
        format!("Candidate(job={}, cores={}, demand={:.4e})", job.job.0, job.cores, job.demand.0)
    }
}

/// The state of the machine when a quantum is about to start.
#[pyclass(frozen, module = "memweir")]
pub(crate) struct View {
    /// Number of quanta that have begun; a call within a quantum counts that one, too.
    #[pyo3(get)]
    quantum: u64,
    /// Free cores beside the jobs that run in any case. May be zero.
    #[pyo3(get)]
    cores: u32,
    /// Predicted bandwidth of the jobs that run in any case.
    #[pyo3(get)]
    committed: f64,
    /// The jobs that run in any case: the head of the run queue, or those that run on.
    #[pyo3(get)]
    running: Py<PyTuple>,
    /// The waiting jobs in the order of the run queue.
    #[pyo3(get)]
    queue: Py<PyTuple>,
    /// Peak bandwidth of the memory bus, if known.
    #[pyo3(get)]
    peak: Option<f64>,
    /// Bandwidth from which the bus counts as saturated, if known.
    #[pyo3(get)]
    saturation: Option<f64>,
    /// The highest bandwidth of the system in any quantum so far.
    #[pyo3(get)]
    highest_observed: f64,
    /// Ideal average bandwidth of the rest of the batch (iabw eq. 10), if known.
    #[pyo3(get)]
    ideal_average: Option<f64>,
    speeds: SpeedModel,
}

impl View {
    /// Returns the view as Python sees it.
    pub(crate) fn new(py: Python<'_>, view: &QuantumView<'_>) -> PyResult<Self> {
        let tuple = |jobs: &[memweir_policy::Candidate]| {
            let jobs = jobs.iter().map(|job| Bound::new(py, Candidate(*job)));
            let jobs = jobs.collect::<PyResult<Vec<_>>>()?;
            Ok::<_, PyErr>(PyTuple::new(py, jobs)?.unbind())
        };
        Ok(Self {
            quantum: view.quantum,
            cores: view.cores,
            committed: view.committed.0,
            running: tuple(view.running)?,
            queue: tuple(view.queue)?,
            peak: view.bus.peak.map(rate),
            saturation: view.bus.saturation_threshold().map(rate),
            highest_observed: view.highest_observed.0,
            ideal_average: view.batch.ideal_average().map(rate),
            speeds: view.speeds.clone(),
        })
    }
}

#[pymethods]
impl View {
    /// Predicts the speed of each of these jobs if they run together, over its speed alone: from 0
    /// to 1.
    fn speeds(&self, jobs: Vec<PyRef<'_, Candidate>>) -> Vec<f64> {
        let loads: Vec<Load> = jobs.iter().map(|job| self.speeds.load(&job.0)).collect();
        let contention = self.speeds.contention(loads.iter());
        loads.iter().map(|load| load.speed(&contention)).collect()
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let (running, waiting) = (self.running.bind(py).len(), self.queue.bind(py).len());
        let (quantum, cores) = (self.quantum, self.cores);
        format!("View(quantum={quantum}, cores={cores}, running={running}, waiting={waiting})")
    }
}

/// The machine and the batch that a policy is about to schedule.
#[pyclass(frozen, get_all, module = "memweir")]
pub(crate) struct Setup {
    /// Cores that the batch may use.
    cores: u32,
    /// Length of a quantum.
    quantum_s: f64,
    /// Peak bandwidth of the memory bus, if known.
    peak: Option<f64>,
    /// Names of the media whose traffic is told apart, the local DRAM first.
    media: Vec<String>,
    /// Peak bandwidth of each of them, if known.
    medium_peaks: Vec<Option<f64>>,
    /// Seed of the run, for policies that draw random numbers.
    seed: u64,
}

impl Setup {
    /// Returns the setup of a scheduler.
    pub(crate) fn new(config: &SchedulerConfig) -> Self {
        let media: Vec<String> =
            config.media.iter().map(|(_, medium)| medium.name.clone()).collect();
        let peaks = config.medium_peaks.iter().take(media.len());
        Self {
            cores: config.cores,
            quantum_s: config.quantum.as_secs_f64(),
            peak: config.bus.peak.map(rate),
            medium_peaks: peaks.map(|peak| peak.map(rate)).collect(),
            media,
            seed: config.seed,
        }
    }
}

/// A program that is about to get colors, as it ran alone.
#[pyclass(frozen, module = "memweir")]
pub(crate) struct Program(pub(crate) ProgramTraits);

#[pymethods]
impl Program {
    /// Misses of the last-level cache per 1,000 instructions.
    #[getter]
    fn mpki(&self) -> Option<f64> {
        self.0.mpki
    }

    /// Share of the misses that find their row open.
    #[getter]
    fn row_buffer_locality(&self) -> Option<f64> {
        self.0.row_buffer_locality
    }

    /// Mean number of banks that are busy for it while at least one is.
    #[getter]
    fn bank_parallelism(&self) -> Option<f64> {
        self.0.bank_parallelism
    }

    /// Its bandwidth.
    #[getter]
    fn bandwidth(&self) -> Option<f64> {
        self.0.bandwidth.map(rate)
    }

    /// Banks beyond which it is no faster: 8 where it hardly misses, else 16.
    #[getter]
    fn banks(&self) -> u32 {
        self.0.banks()
    }
}

/// The colors that can be handed out.
#[pyclass(frozen, get_all, module = "memweir")]
pub(crate) struct ColorSupply {
    /// The colors, in ascending order.
    colors: Vec<u32>,
    /// Part of the cache that each of them is in.
    cache_parts: Vec<u32>,
    /// Number of banks of one color.
    banks_per_color: u32,
}

impl ColorSupply {
    pub(crate) fn new(supply: &Supply) -> Self {
        let (colors, cache_parts) =
            supply.parts().iter().map(|(color, part)| (color.0, *part)).unzip();
        Self { colors, cache_parts, banks_per_color: supply.banks_per_color() }
    }
}

fn rate(rate: BytesPerSec) -> f64 {
    rate.0
}
