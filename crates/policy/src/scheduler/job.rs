//! The scheduler's state of one job.

use memweir_core::{BytesPerSec, JobId, Lines, Nanos};

use super::kinds::Alone;
use super::occupancy::Member;
use super::slowdown_model::{BandwidthEvidence, Measurement, SlowdownModel, SlowdownSample};
use super::types::{JobSpec, Observation};
use crate::ebw::TrafficRates;
use crate::policy::{Candidate, OnSaturation};
use crate::predictor::{Predictor, PredictorKind, Sample};

/// A job that overruns its expected time, or is about to end, is assumed to have one part in this
/// many of that time left, because it is still running.
const LEAST_REMAINING_ONE_IN: u64 = 10;

/// A job that waits for memory for one part in this many of its time, or more, is as far as its
/// traffic says.
const TELLING_PART: f64 = 10.0;

/// Its progress by traffic is at least one part in this many of that by time: the meter may count
/// less than the one of its profile.
const LEAST_BY_TRAFFIC_ONE_IN: f64 = 2.0;

/// A bandwidth that no memory reaches. Rates at or above it, below zero, or NaN count as unknown,
/// so that no single figure can spoil the sums over all jobs.
const ABSURD: BytesPerSec = BytesPerSec(1e18);

fn is_a_rate(rate: &BytesPerSec) -> bool {
    (0.0..ABSURD.0).contains(&rate.0)
}

/// Scheduling state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placement {
    /// In the run queue without cores of its own: blocked, unless the operating system schedules.
    Waiting,
    /// It has had cores of its own since the last observation.
    Running,
    /// It got cores of its own some time after the last observation.
    Joined,
    /// It had cores and did not use them: left unblocked, outside the run queue.
    Asleep,
}

/// Conditions that decide how far an observation can be trusted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Conditions {
    /// Time since the last observation.
    pub(super) elapsed: Nanos,
    /// True if `elapsed` is long enough to count as a whole quantum.
    pub(super) whole: bool,
    /// Spans shorter than this are too noisy to learn from.
    pub(super) shortest: Nanos,
    /// True if the bus was saturated.
    pub(super) saturated: bool,
    /// Use of what a job draws then.
    pub(super) on_saturation: OnSaturation,
    /// Evidence about overload, if there is any.
    pub(super) sample: Option<SlowdownSample>,
}

impl Conditions {
    /// Conditions of a span that shows nothing but the work that was done in it.
    pub(super) fn brief(elapsed: Nanos) -> Self {
        Self {
            elapsed,
            whole: false,
            shortest: elapsed,
            saturated: true,
            on_saturation: OnSaturation::Discard,
            sample: None,
        }
    }
}

/// One job.
pub(super) struct Job {
    pub(super) spec: JobSpec,
    pub(super) placement: Placement,
    /// Model of its slowdown under overload.
    pub(super) slowdown_model: SlowdownModel,
    /// Reason why it last got cores.
    pub(super) reason: Option<&'static str>,
    predictor: Box<dyn Predictor>,
    /// The predictor's answer, computed once per observation.
    prediction: Option<BytesPerSec>,
    /// The highest bandwidth measured on a saturated bus. The job requires at least this.
    lower_bound: Option<BytesPerSec>,
    /// Bytes moved on an unsaturated bus, and the seconds in which they moved.
    measured: (f64, f64),
    /// Latest nonzero rates of traffic, on a saturated bus or not: the division over media and
    /// directions does not depend on saturation. A span of unknown length gives no rates.
    measured_traffic: TrafficRates,
    /// CPU time that it has used.
    executed: Nanos,
    /// True if its next reading of CPU time contains that of an earlier span.
    owes_cpu_time: bool,
    /// Time with cores, or asleep.
    progress: Nanos,
    /// Speed beside the jobs that it runs with, over its speed alone.
    speed: f64,
    /// Part of its time for which it waits for memory when it is alone.
    memory_bound: f64,
    /// Time with cores, times the speed, and time asleep.
    work: Nanos,
    /// Bytes that it has moved.
    moved: f64,
    submitted: Nanos,
    /// The job as a policy sees it when it is submitted, with demand zero if not known. It is made
    /// anew when the job changes, for most jobs of a large batch wait and do not.
    view: Candidate,
    /// True if its demand is known.
    is_known: bool,
}

impl Job {
    pub(super) fn new(spec: JobSpec, predictor: PredictorKind, submitted: Nanos) -> Self {
        let expected_bandwidth = spec.expected_bandwidth.filter(is_a_rate);
        let spec = JobSpec { cores: spec.cores.max(1), expected_bandwidth, ..spec };
        let view = Candidate {
            cores: spec.cores,
            priority: spec.priority,
            ..Candidate::new(spec.job, BytesPerSec::ZERO)
        };
        let mut job = Self {
            spec,
            placement: Placement::Waiting,
            slowdown_model: SlowdownModel::default(),
            reason: None,
            predictor: predictor.build(),
            prediction: None,
            lower_bound: None,
            measured: (0.0, 0.0),
            measured_traffic: TrafficRates::default(),
            executed: Nanos::ZERO,
            owes_cpu_time: false,
            progress: Nanos::ZERO,
            speed: 1.0,
            memory_bound: 0.0,
            work: Nanos::ZERO,
            moved: 0.0,
            submitted,
            view,
            is_known: false,
        };
        job.changed();
        job
    }

    /// Makes the view of policies anew.
    fn changed(&mut self) {
        let known = self.known_demand();
        self.is_known = known.is_some();
        let demand = known.unwrap_or_default();
        self.view = Candidate {
            demand,
            expected_time: self.spec.expected_time,
            traffic: self.measured_traffic.scaled_to(demand),
            executed: self.executed,
            progress: self.completed(),
            ..self.view
        };
    }

    /// Returns true if it has cores of its own.
    pub(super) fn has_cores(&self) -> bool {
        matches!(self.placement, Placement::Running | Placement::Joined)
    }

    pub(super) fn id(&self) -> JobId {
        self.spec.job
    }

    /// Returns the CPU time that it used in the observed span alone, if known. A reading after one
    /// that failed is that of a longer span than the counts beside it.
    pub(super) fn cpu_time(&mut self, observation: &Observation) -> Option<Nanos> {
        let owed = std::mem::replace(&mut self.owes_cpu_time, observation.cpu_time.is_none());
        observation.cpu_time.filter(|_| !owed)
    }

    /// Learns from a span in which the job was not asleep and used this [CPU time](Self::cpu_time).
    pub(super) fn learn(
        &mut self,
        observation: &Observation,
        used: Option<Nanos>,
        conditions: &Conditions,
    ) {
        let used = used.unwrap_or_default();
        let evidence = self.update_slowdown_model(observation, used, conditions);
        let span = self.span(used, conditions.elapsed);
        self.pass(span, self.speed);
        let executed = observation.cpu_time.unwrap_or_default();
        self.executed = Nanos(self.executed.0.saturating_add(executed.0));
        self.moved += observation.counts.map_or(0.0, |counts| counts.lines().bytes().as_f64());
        let long_enough = span > Nanos::ZERO && span >= conditions.shortest;
        let bandwidth =
            observation.counts.filter(|_| long_enough).map(|counts| counts.bandwidth(span));
        let unsaturated = bandwidth.filter(|_| match evidence {
            BandwidthEvidence::Demand => true,
            BandwidthEvidence::DemandUnlessSaturated => !conditions.saturated,
            BandwidthEvidence::Slowed => false,
        });
        if let Some(bandwidth) = unsaturated {
            self.measured.0 += bandwidth.0 * span.as_secs_f64();
            self.measured.1 += span.as_secs_f64();
        } else if let Some(bandwidth) = bandwidth {
            let known = self.lower_bound.unwrap_or(BytesPerSec::ZERO);
            self.lower_bound = Some(known.max(bandwidth));
        }
        let disproves = |bandwidth: &BytesPerSec| {
            conditions.on_saturation == OnSaturation::RaiseDemand
                && self.prediction.is_some_and(|predicted| bandwidth.0 > predicted.0)
        };
        self.predictor.observe(&Sample {
            bandwidth: unsaturated.or(bandwidth.filter(disproves)),
            instruction_pointers: &observation.instruction_pointers,
            forecast: observation.forecast.filter(is_a_rate),
        });
        self.prediction = self.predictor.predict();
        let traffic = observation.counts.filter(|counts| counts.lines() > Lines::ZERO);
        if let Some(counts) = traffic.filter(|_| span > Nanos::ZERO) {
            self.measured_traffic = TrafficRates::of(&counts, span);
        }
        self.changed();
    }

    /// Updates the slowdown model. It compares the measurement with the previous prediction, so it
    /// runs before the next one is made.
    fn update_slowdown_model(
        &mut self,
        observation: &Observation,
        used: Nanos,
        conditions: &Conditions,
    ) -> BandwidthEvidence {
        let (Some(sample), Some(counts)) = (&conditions.sample, &observation.counts) else {
            return BandwidthEvidence::DemandUnlessSaturated;
        };
        if self.placement != Placement::Running {
            return BandwidthEvidence::DemandUnlessSaturated;
        }
        // Its bandwidth on a saturated bus is no reference for its own speed.
        let known = self.prediction.is_some() || self.spec.expected_bandwidth.is_some();
        let demand = self.demand().filter(|_| known);
        let measured = Measurement::new(counts, conditions.elapsed, used);
        self.slowdown_model.learn(sample, demand, &measured)
    }

    /// Advances its progress by time asleep. It counts in full, whatever the speed at which the job
    /// ran before: the job would have slept as long if it ran alone.
    pub(super) fn advance(&mut self, span: Nanos) {
        self.pass(span, 1.0);
        self.changed();
    }

    fn pass(&mut self, span: Nanos, speed: f64) {
        self.progress = Nanos(self.progress.0.saturating_add(span.0));
        self.work = Nanos(self.work.0.saturating_add((span.as_f64() * speed) as u64));
    }

    /// Notes its speed beside the jobs that it runs with, over its speed alone, and the part of its
    /// time for which it waits for memory when it is alone.
    pub(super) fn runs_at(&mut self, speed: f64, memory_bound: f64) {
        (self.speed, self.memory_bound) = (speed, memory_bound);
        self.changed();
    }

    /// Returns its speed beside the jobs that it runs with, over its speed alone.
    pub(super) fn speed(&self) -> f64 {
        self.speed
    }

    /// Returns the span to which the job's counts belong. With cores of its own it is the whole
    /// span, in which the job may have waited for other things than the scheduler. Otherwise only
    /// the job's CPU time is known.
    fn span(&self, used: Nanos, elapsed: Nanos) -> Nanos {
        match self.placement {
            Placement::Running => elapsed,
            Placement::Waiting | Placement::Joined | Placement::Asleep => {
                elapsed.min(Nanos(used.0 / u64::from(self.spec.cores)))
            }
        }
    }

    /// Returns its demand, if known.
    pub(super) fn demand(&self) -> Option<BytesPerSec> {
        self.is_known.then_some(self.view.demand)
    }

    /// Returns its demand, if known: the prediction; before the first one the expected bandwidth,
    /// or its bandwidth on a saturated bus if that is higher.
    fn known_demand(&self) -> Option<BytesPerSec> {
        self.prediction.or(match (self.spec.expected_bandwidth, self.lower_bound) {
            (Some(expected), Some(bound)) => Some(expected.max(bound)),
            (expected, bound) => expected.or(bound),
        })
    }

    /// Returns its mean bandwidth `B_j` (iabw eq. (8)), if known: the expected one, else the
    /// measured mean, else the demand.
    pub(super) fn mean_bandwidth(&self) -> Option<BytesPerSec> {
        let (bytes, seconds) = self.measured;
        let measured = || (seconds > 0.0).then(|| BytesPerSec(bytes / seconds));
        self.spec.expected_bandwidth.or_else(measured).or_else(|| self.demand())
    }

    /// Returns its remaining execution time `T_j`, if known.
    pub(super) fn remaining_time(&self) -> Option<Nanos> {
        let expected = self.spec.expected_time?;
        let least = Nanos(expected.0 / LEAST_REMAINING_ONE_IN);
        Some(expected.saturating_sub(self.progress).max(least))
    }

    /// Returns its completed work, as the time that it would have taken alone.
    ///
    /// The speeds by which `work` is summed are a model's. Where the mean bandwidth is known, the
    /// traffic so far says the same without one, but nothing about jobs that hardly have any: those
    /// are at nearly full speed.
    fn completed(&self) -> Nanos {
        let by_time = self.work.as_f64();
        let rate = self.spec.expected_bandwidth.filter(|rate| rate.0 > 0.0 && self.moved > 0.0);
        let Some(rate) = rate else { return self.work };
        let least = by_time / LEAST_BY_TRAFFIC_ONE_IN;
        let by_traffic = (self.moved / rate.0 * 1e9).clamp(least, self.progress.as_f64());
        let trust = (TELLING_PART * self.memory_bound).min(1.0);
        Nanos((by_time + trust * (by_traffic - by_time) + 0.5) as u64)
    }

    /// Returns the figures of the job, which has done its work, as if it had been alone.
    pub(super) fn alone(&self) -> Alone {
        let time = self.completed();
        let bandwidth = BytesPerSec(self.moved / time.as_secs_f64());
        Alone { time, bandwidth: Some(bandwidth).filter(|rate| is_a_rate(rate) && rate.0 > 0.0) }
    }

    /// Takes what is unknown of it from another job of its kind.
    pub(super) fn expect(&mut self, alone: &Alone) {
        self.spec.expected_time = self.spec.expected_time.or(Some(alone.time));
        self.spec.expected_bandwidth = self.spec.expected_bandwidth.or(alone.bandwidth);
        self.changed();
    }

    /// Returns the job as a candidate for sharing the bus; its demand is `unknown` if not known.
    pub(super) fn member(&self, unknown: BytesPerSec) -> Member {
        Member {
            demand: self.demand().unwrap_or(unknown),
            cores: self.spec.cores,
            sensitivity: self.slowdown_model.sensitivity(),
        }
    }

    /// Returns the job as a policy sees it at this time, with demand zero if not known.
    #[inline]
    pub(super) fn candidate(&self, now: Nanos) -> Candidate {
        Candidate { age: now.saturating_sub(self.submitted), ..self.view }
    }

    /// Returns the job as a policy sees it at this time; its demand is `unknown` if not known.
    pub(super) fn candidate_with(&self, now: Nanos, unknown: BytesPerSec) -> Candidate {
        let mut candidate = self.candidate(now);
        if self.demand().is_none() {
            candidate.assume(unknown);
        }
        candidate
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memweir_core::{Counts, MAX_MEDIA, Traffic};

    const SECOND: Nanos = Nanos(1_000_000_000);

    /// Returns the completed work of a job of 2 GB/s after a second on a core at half of its speed,
    /// in which it moved this many GB.
    fn completed(gigabytes: u64, memory_bound: f64, expected: Option<BytesPerSec>) -> f64 {
        let spec = JobSpec {
            expected_time: Some(Nanos(10 * SECOND.0)),
            expected_bandwidth: expected,
            ..JobSpec::new(JobId(0))
        };
        let mut job = Job::new(spec, PredictorKind::Last, Nanos::ZERO);
        job.placement = Placement::Running;
        job.runs_at(0.5, memory_bound);
        let counts = Counts { reads: Lines(gigabytes * 15_625_000), ..Counts::default() };
        let observation = Observation::new(JobId(0), SECOND, Some(counts));
        let brief = Conditions::brief(SECOND);
        let conditions = Conditions { whole: true, saturated: false, ..brief };
        job.learn(&observation, observation.cpu_time, &conditions);
        job.candidate(SECOND).progress.as_secs_f64()
    }

    #[test]
    fn time_asleep_counts_in_full_whatever_the_speed_before() {
        let mut job = Job::new(JobSpec::new(JobId(0)), PredictorKind::Last, Nanos::ZERO);
        job.runs_at(0.5, 0.5);
        job.advance(SECOND);
        assert_eq!(job.candidate(SECOND).progress, SECOND);
    }

    #[test]
    fn counts_without_cpu_time_leave_the_division_of_the_demand_as_it_was() {
        let mut job = Job::new(JobSpec::new(JobId(0)), PredictorKind::Last, Nanos::ZERO);
        // All from the second medium, 6.4 GB/s.
        let mut traffic = [Traffic::default(); MAX_MEDIA];
        traffic[1].reads = Lines(100_000_000);
        let counts = Some(Counts::by_medium(0, traffic));
        let conditions = Conditions { saturated: false, ..Conditions::brief(SECOND) };
        job.placement = Placement::Running;
        job.learn(&Observation::new(JobId(0), SECOND, counts), Some(SECOND), &conditions);
        // It got cores in mid-quantum, and its CPU time could not be read.
        job.placement = Placement::Joined;
        job.learn(&Observation::new(JobId(0), Nanos::ZERO, counts), None, &conditions);
        let candidate = job.candidate(SECOND);
        assert_eq!(candidate.demand, BytesPerSec(6.4e9));
        assert_eq!(candidate.traffic.0[1].reads, candidate.demand);
    }

    #[test]
    fn cpu_time_of_two_spans_is_no_span_of_the_counts_of_one() {
        let mut job = Job::new(JobSpec::new(JobId(0)), PredictorKind::Last, Nanos::ZERO);
        let conditions = Conditions { saturated: false, ..Conditions::brief(SECOND) };
        // It runs without cores of its own for half of each second, at 6.4 GB/s.
        let counts = Some(Counts { reads: Lines(50_000_000), ..Counts::default() });
        let half = Nanos(SECOND.0 / 2);
        let mut observe = |cpu_time, demand: Option<f64>| {
            let observation = Observation { cpu_time, ..Observation::new(JobId(0), half, counts) };
            let used = job.cpu_time(&observation);
            job.learn(&observation, used, &Conditions { shortest: half, ..conditions });
            assert_eq!(job.demand(), demand.map(BytesPerSec));
        };
        observe(None, None);
        observe(Some(SECOND), None);
        observe(Some(half), Some(6.4e9));
        assert_eq!(job.executed, Nanos(SECOND.0 + half.0));
    }

    #[test]
    fn traffic_says_how_far_a_memory_bound_job_is() {
        let known = Some(BytesPerSec::from_gb(2.0));
        assert_eq!(completed(2, 0.5, Some(BytesPerSec::from_gb(2.5))), 0.8);
        // No more than the time that it had, no less than half of what the speeds say.
        assert_eq!(completed(3, 0.5, known), 1.0);
        assert_eq!(completed(0, 0.5, known), 0.5);
        assert_eq!(completed(1, 0.5, Some(BytesPerSec::from_gb(8.0))), 0.25);
        // Half-way between 0.5 s by the speeds and 1 s by the traffic.
        assert_eq!(completed(2, 0.05, known), 0.75);
        assert_eq!(completed(2, 0.0, known), 0.5);
        assert_eq!(completed(2, 0.5, None), 0.5);
    }
}
