//! A scheduler that records its calls.

use std::ops::Deref;

use memweir_core::{JobId, Nanos};

use super::Call;
use crate::scheduler::{Decision, JobSpec, Observation, QuantumScheduler, QuantumSummary};

/// A [`QuantumScheduler`] that optionally keeps every call and its answer until they are
/// [taken](Self::take_calls).
pub struct RecordingScheduler {
    scheduler: QuantumScheduler,
    calls: Option<Vec<Call>>,
}

impl RecordingScheduler {
    /// Creates a scheduler that keeps no calls.
    #[must_use]
    pub fn silent(scheduler: QuantumScheduler) -> Self {
        Self { scheduler, calls: None }
    }

    /// Creates a scheduler that keeps its calls from now on.
    #[must_use]
    pub fn recording(scheduler: QuantumScheduler) -> Self {
        Self { scheduler, calls: Some(Vec::new()) }
    }

    /// Returns the calls since the last time, in order.
    pub fn take_calls(&mut self) -> Vec<Call> {
        self.calls.as_mut().map(std::mem::take).unwrap_or_default()
    }

    fn keep(&mut self, call: impl FnOnce() -> Call) {
        if let Some(calls) = &mut self.calls {
            calls.push(call());
        }
    }

    /// See [`QuantumScheduler::admit`].
    pub fn admit(&mut self, spec: JobSpec) {
        self.scheduler.admit(spec);
        self.keep(|| Call::Admit(spec));
    }

    /// See [`QuantumScheduler::learn`]. A job without a kind leaves no call.
    pub fn learn(&mut self, elapsed: Nanos, last: &Observation) {
        if self.scheduler.learn(elapsed, last) {
            self.keep(|| Call::Learn { elapsed, last: last.clone() });
        }
    }

    /// See [`QuantumScheduler::retire`].
    pub fn retire(&mut self, job: JobId) {
        self.scheduler.retire(job);
        self.keep(|| Call::Retire(job));
    }

    /// See [`QuantumScheduler::observe`].
    pub fn observe(&mut self, elapsed: Nanos, observations: &[Observation]) -> QuantumSummary {
        let summary = self.scheduler.observe(elapsed, observations);
        self.keep(|| Call::Observe { elapsed, observations: observations.to_vec(), summary });
        summary
    }

    /// See [`QuantumScheduler::select`].
    pub fn select(&mut self) -> Decision {
        let decision = self.scheduler.select();
        self.keep(|| Call::Select(decision.clone()));
        decision
    }

    /// See [`QuantumScheduler::backfill`].
    pub fn backfill(&mut self) -> Option<Decision> {
        let decision = self.scheduler.backfill();
        self.keep(|| Call::Backfill(decision.clone()));
        decision
    }
}

/// The figures of the scheduler can be read; its calls are those of the recording one.
impl Deref for RecordingScheduler {
    type Target = QuantumScheduler;

    fn deref(&self) -> &QuantumScheduler {
        &self.scheduler
    }
}
