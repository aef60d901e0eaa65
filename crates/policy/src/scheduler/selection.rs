//! Step 3 of iabw section 4.1: selection of the jobs for the next quantum.

use memweir_core::{BytesPerSec, JobId};

use super::job::{Job, Placement};
use super::survey::WholeBatch;
use super::table::Slot;
use super::types::{Decision, Running};
use super::{QuantumScheduler, Scratch};
use crate::policy::{Blocking, QuantumView};

/// Reason for the head of the run queue.
const HEAD: &str = "head of the run queue";

/// Reason for a job that was moved to the head, see [`CoreUse::Auto`](super::CoreUse::Auto).
const ALONE: &str = "to learn what it requires without company";

/// Cores and demand of running jobs.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    cores: u32,
    demand: BytesPerSec,
}

impl Load {
    /// Returns the load with `job` added; its demand is `unknown` if not known.
    fn with(self, job: &Job, unknown: BytesPerSec) -> Self {
        Self {
            cores: self.cores.saturating_add(job.spec.cores),
            demand: self.demand + job.demand().unwrap_or(unknown),
        }
    }
}

impl QuantumScheduler {
    /// Step 3 for a whole quantum: moves the jobs that ran to the tail of the run queue, chooses
    /// its head, then lets the policy choose.
    pub fn select(&mut self) -> Decision {
        self.rotate();
        for slot in self.chosen.drain(..) {
            self.jobs[slot].placement = Placement::Waiting;
        }
        let load = match self.policy.blocking() {
            Blocking::Unchosen => {
                self.begin_quantum();
                let load = self.fill(Placement::Running);
                self.occupancy.settle();
                load
            }
            Blocking::Nobody => self.share(),
        };
        self.quantum += 1;
        self.decision(load)
    }

    /// Step 3 when a job has ended or fallen asleep in mid-quantum: chooses waiting jobs for the
    /// free cores, while the others keep running. `None` if no job is added.
    pub fn backfill(&mut self) -> Option<Decision> {
        if self.policy.blocking() == Blocking::Nobody {
            return None;
        }
        let before = self.chosen.len();
        let load = self.fill(Placement::Joined);
        if self.chosen.len() == before {
            return None;
        }
        self.occupancy.disturb();
        Some(self.decision(load))
    }

    /// Moves the jobs that had cores to the tail of the run queue. Both groups keep their order.
    fn rotate(&mut self) {
        let moved = &mut self.scratch.moved;
        moved.clear();
        self.queue.retain(|slot| {
            let ran = self.jobs[*slot].has_cores();
            if ran {
                moved.push(*slot);
            }
            !ran
        });
        self.queue.append(moved);
    }

    /// Begins a quantum in which jobs are blocked. If one of them needs a quantum alone, it becomes
    /// the head of the run queue.
    fn begin_quantum(&mut self) {
        let (jobs, queue) = (&self.jobs, &mut self.queue);
        self.occupancy.begin_quantum(|| {
            let is_due = |slot: &Slot| jobs[*slot].slowdown_model.needs_solo_quantum();
            let place = queue.iter().position(is_due);
            if let Some(place) = place {
                queue[..=place].rotate_right(1);
            }
            place.is_some()
        });
    }

    /// Lets every job compete for the cores. Returns the cores wanted, and the demand scaled to the
    /// jobs' share of the cores.
    fn share(&mut self) -> Load {
        let batch = WholeBatch::new(&self.jobs, &self.queue, &self.asleep, self.config.cores);
        let unknown = batch.mean_demand();
        let add = |load: Load, slot: &Slot| load.with(&self.jobs[*slot], unknown);
        let load = self.queue.iter().fold(Load::default(), add);
        self.chosen.extend(&self.queue);
        let share = f64::from(self.config.cores) / f64::from(load.cores.max(1));
        Load { cores: load.cores, demand: load.demand * share.min(1.0) }
    }

    /// Gives the free cores to waiting jobs: to the head of the queue, if no job is running yet,
    /// then to the jobs that the policy chooses. Returns the load of all chosen jobs.
    fn fill(&mut self, placement: Placement) -> Load {
        // Moved out, so that jobs can be chosen while the survey is read.
        let Scratch { moved, mut survey, mut picks, loads } = std::mem::take(&mut self.scratch);
        let batch = WholeBatch::new(&self.jobs, &self.queue, &self.asleep, self.config.cores);
        survey.take(&batch, self.clock);
        let unknown = survey.unknown_demand;
        let mut rest = 0..survey.waiting.len();
        if self.chosen.is_empty() && !rest.is_empty() {
            let reason = if self.occupancy.head_is_alone() { ALONE } else { HEAD };
            self.choose(survey.waiting[0], placement, Some(reason));
            rest.start = 1;
        }
        let mut load = Load::default();
        for slot in &self.chosen {
            let job = &self.jobs[*slot];
            load = load.with(job, unknown);
            survey.run(job, self.clock);
        }
        let running = self.chosen.iter().map(|slot| self.jobs[*slot].member(unknown));
        self.occupancy.begin_choice(running);
        let batch = WholeBatch::new(&self.jobs, &self.queue, &self.asleep, self.config.cores);
        let view = QuantumView {
            quantum: self.quantum,
            cores: self.config.cores.saturating_sub(load.cores),
            committed: load.demand,
            running: &survey.running,
            queue: &survey.candidates[rest.clone()],
            bus: self.config.bus,
            highest_observed: self.highest_observed,
            batch: &batch,
            speeds: &self.speeds,
        };
        picks.clear();
        self.policy.select(&view, &mut picks);
        let waiting = &survey.waiting[rest];
        for (nth, slot) in picks.iter().map(|pick| waiting.get(*pick)).enumerate() {
            let Some(slot) = slot.copied() else { continue };
            let free = self.config.cores.saturating_sub(load.cores);
            let job = &self.jobs[slot];
            let fits = job.placement == Placement::Waiting && job.spec.cores <= free;
            if fits && self.occupancy.lets_in(job.member(unknown)) {
                let reason = self.policy.reason(nth);
                load = load.with(self.choose(slot, placement, reason), unknown);
            }
        }
        self.scratch = Scratch { moved, survey, picks, loads };
        self.note_speeds(unknown);
        load
    }

    /// Notes the speed of each running job beside the others, by which its progress counts.
    fn note_speeds(&mut self, unknown: BytesPerSec) {
        let loads = &mut self.scratch.loads;
        loads.clear();
        loads.extend(
            self.chosen.iter().map(|slot| {
                self.speeds.load(&self.jobs[*slot].candidate_with(self.clock, unknown))
            }),
        );
        let contention = self.speeds.contention(loads.iter());
        for (slot, load) in self.chosen.iter().zip(loads) {
            let job = &mut self.jobs[*slot];
            job.runs_at(load.speed(&contention), load.share.iter().sum());
        }
    }

    /// Gives cores to a job.
    fn choose(&mut self, slot: Slot, placement: Placement, reason: Option<&'static str>) -> &Job {
        self.chosen.push(slot);
        let job = &mut self.jobs[slot];
        (job.placement, job.reason) = (placement, reason);
        job
    }

    /// Returns the decision that corresponds to the present placements.
    fn decision(&self, load: Load) -> Decision {
        let name = |slot: &Slot| self.jobs[*slot].id();
        let chosen: Vec<JobId> = self.chosen.iter().map(name).collect();
        let running = match self.policy.blocking() {
            Blocking::Unchosen => {
                let asleep = self.asleep.iter().map(name);
                Running::Only(chosen.iter().copied().chain(asleep).collect())
            }
            Blocking::Nobody => Running::Everything,
        };
        Decision { running, chosen, predicted: load.demand, target: self.policy.target() }
    }
}
