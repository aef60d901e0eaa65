//! The software meter: every job runs in the emulator with the cache model (H7).

use std::collections::HashMap;
use std::sync::Arc;

use memweir_abi::softpmu::Totals;
use memweir_core::cache::CacheHierarchy;
use memweir_core::placement::Placement;
use memweir_core::{JobId, Nanos};

use super::{Capabilities, Meter, MeterError, MeterKind, Reading};
use crate::OsError;
use crate::gate::Gate;
use crate::launch::Launch;
use crate::qemu::{Qemu, QemuPaths};
use crate::softpmu::{CountingPlan, JobCounters, LastLevel};

/// Counts jobs that run under QEMU. The last-level cache is one for all jobs of the meter.
#[derive(Debug)]
pub struct SoftwareMeter {
    qemu: Qemu,
    caches: CacheHierarchy,
    last_level: LastLevel,
    placements: HashMap<JobId, Placement>,
    /// The gate that gives jobs their turns, if they run in virtual time.
    gate: Option<Arc<Gate>>,
    jobs: HashMap<JobId, Metered>,
}

#[derive(Debug)]
struct Metered {
    counters: JobCounters,
    last: Totals,
}

impl SoftwareMeter {
    /// Makes a meter that simulates `caches`. Fails where the emulator or the plugin is missing or
    /// the caches cannot be modeled.
    pub fn new(caches: CacheHierarchy, paths: &QemuPaths) -> Result<Self, MeterError> {
        caches.validate().map_err(|e| MeterError::other(e.to_string()))?;
        let qemu = Qemu::find(paths).map_err(|e| MeterError::other(e.to_string()))?;
        let last_level = LastLevel::new(&caches.llc)
            .map_err(OsError::of("cannot make the shared last-level cache"))?;
        Ok(Self {
            qemu,
            caches,
            last_level,
            placements: HashMap::new(),
            gate: None,
            jobs: HashMap::new(),
        })
    }

    /// Sets the placement of the pages of jobs that are about to start. The pages of other jobs lie
    /// in local DRAM.
    #[must_use]
    pub fn with_placements(self, placements: HashMap<JobId, Placement>) -> Self {
        Self { placements, ..self }
    }

    /// Makes jobs run in virtual time, in turns that this gate gives.
    #[must_use]
    pub fn behind(self, gate: Arc<Gate>) -> Self {
        Self { gate: Some(gate), ..self }
    }

    /// Returns the counts so far of the processes of a job that had this slot; zero for a job that
    /// is not metered.
    #[must_use]
    pub fn totals_of(&self, job: JobId, slot: usize) -> Totals {
        self.jobs.get(&job).map(|job| job.counters.totals_of(slot)).unwrap_or_default()
    }
}

impl Meter for SoftwareMeter {
    fn kind(&self) -> MeterKind {
        MeterKind::Software
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            instructions: true,
            writes: true,
            instruction_pointers: true,
            media: true,
            caveats: vec![
                "the job runs several times slower than natively".to_owned(),
                "the caches are simulated with LRU and without prefetching; pages that \
                 processes share count for each of them"
                    .to_owned(),
            ],
        }
    }

    fn prepare(&mut self, job: JobId, launch: &mut Launch) -> Result<(), MeterError> {
        let placement = self.placements.get(&job).cloned().unwrap_or_default();
        let plan = CountingPlan { placement, ..CountingPlan::new(self.caches) };
        let counters =
            JobCounters::new(&plan).map_err(OsError::of("cannot make the job's counters"))?;
        let gate = self.gate.as_ref().map(|gate| gate.option(job.0));
        self.qemu
            .emulate(launch, &counters.path(), &self.last_level.path(), gate)
            .map_err(|e| MeterError::other(e.to_string()))?;
        self.jobs.insert(job, Metered { counters, last: Totals::default() });
        Ok(())
    }

    /// Does nothing more: the plugin starts counting with the program's first instruction.
    fn attach(&mut self, job: JobId, _pid: i32) -> Result<(), MeterError> {
        self.metered(job).map(|_| ())
    }

    fn read(&mut self, job: JobId, _: Nanos, _: Nanos) -> Result<Reading, MeterError> {
        let metered = self.metered(job)?;
        let totals = metered.counters.totals();
        let instruction_pointers = totals.since(&metered.last).instruction_pointers();
        let counts = totals.counts();
        metered.last = totals;
        Ok(Reading { counts, instruction_pointers, forecast: None })
    }

    /// Returns messages about programs that ran uncounted, with the reasons.
    fn notices(&self, job: JobId) -> Vec<String> {
        self.jobs.get(&job).map(|metered| metered.counters.notices()).unwrap_or_default()
    }

    fn detach(&mut self, job: JobId) {
        self.jobs.remove(&job);
    }
}

impl SoftwareMeter {
    fn metered(&mut self, job: JobId) -> Result<&mut Metered, MeterError> {
        self.jobs
            .get_mut(&job)
            .ok_or_else(|| MeterError::other(format!("job {job} was not prepared")))
    }
}
