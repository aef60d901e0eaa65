//! A recording as a source: the timeline or the decisions of a batch, a frame for each quantum. A
//! timeline can be followed while it is written.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;
use std::path::Path;
use std::time::Duration;

use memweir_core::input::InputError;
use memweir_core::{JobId, Nanos};
use memweir_policy::record::{Call, Record};
use memweir_policy::{Decision, JobSpec, Observation, Running};
use memweir_run::decisions;
use memweir_run::timeline::{self, Follower, Row};
use memweir_watch::State;

use super::frame::{Frame, Lane, Opened, Source};
use crate::export::calibrated_peak;
use crate::failure::Failure;
use crate::render::text::{rate, seconds};

/// A recording that is played back.
struct Playback {
    frames: Peekable<Frames>,
    /// Time of the last frame and of the one before, in seconds.
    at: (f64, f64),
}

/// A frame takes several times the memory of its rows, so each is made when it is shown.
type Frames = Box<dyn Iterator<Item = Frame>>;

/// Reads the recording: a timeline if its name ends in `.csv` or `.parquet`, otherwise a record of
/// decisions.
pub(super) fn open(path: &Path) -> Result<Opened, Failure> {
    let ending = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    let (frames, policy, peak): (Frames, _, _) = match ending.as_str() {
        "csv" | "parquet" => {
            let frames = of_timeline(timeline::read(path)?);
            (Box::new(frames), "timeline".to_owned(), calibrated_peak())
        }
        _ => {
            let record = decisions::read(path)?;
            let config = &record.header.config;
            (Box::new(of_record(&record).into_iter()), config.policy.clone(), config.bus.peak)
        }
    };
    let mut frames = frames.peekable();
    if frames.peek().is_none() {
        let refusal = InputError::new(path.display().to_string(), "it has no quantum");
        return Err(refusal.into());
    }
    let title = format!("memweir top: {}, {policy}", path.display());
    let peak = peak.map(|peak| peak.0);
    let source = Box::new(Playback { frames, at: (0.0, 0.0) });
    Ok(Opened { title, peak, source })
}

impl Source for Playback {
    fn next(&mut self) -> Result<Option<Vec<Frame>>, Failure> {
        Ok(self.frames.next().map(|frame| {
            self.at = (frame.at_s, self.at.0);
            vec![frame]
        }))
    }

    fn interval(&self) -> Duration {
        Duration::try_from_secs_f64(self.at.0 - self.at.1).unwrap_or_default()
    }
}

/// A timeline that a batch in progress writes.
struct Followed {
    follower: Follower,
    /// Rows of the last quantum, of which more may come.
    last: Vec<Row>,
    interval: Duration,
}

/// Opens a timeline that is being written.
pub(super) fn follow(path: &Path, interval: Nanos) -> Result<Opened, Failure> {
    let title = format!("memweir top: {}, followed", path.display());
    let follower = Follower::open(path)?;
    let source = Box::new(Followed { follower, last: Vec::new(), interval: interval.into() });
    Ok(Opened { title, peak: calibrated_peak().map(|peak| peak.0), source })
}

impl Source for Followed {
    fn next(&mut self) -> Result<Option<Vec<Frame>>, Failure> {
        let mut rows = std::mem::take(&mut self.last);
        rows.extend(self.follower.rows()?);
        let last = rows.last().map(|row| row.quantum);
        let whole = rows.iter().take_while(|row| Some(row.quantum) != last).count();
        self.last = rows.split_off(whole);
        Ok(Some(of_timeline(rows).collect()))
    }

    fn interval(&self) -> Duration {
        self.interval
    }
}

/// Returns the frames of a timeline.
fn of_timeline(rows: Vec<Row>) -> impl Iterator<Item = Frame> {
    let mut rows = rows.into_iter().peekable();
    std::iter::from_fn(move || {
        let first = rows.next()?;
        let others = std::iter::from_fn(|| rows.next_if(|row| row.quantum == first.quantum));
        Some(Frame {
            at_s: first.t_start_s + first.span_s,
            bandwidth: first.system_bandwidth,
            target: first.target,
            lanes: std::iter::once(of_row(&first)).chain(others.map(|row| of_row(&row))).collect(),
        })
    })
}

fn of_row(row: &Row) -> Lane {
    let state = if row.chosen { State::Running } else { State::Blocked };
    let why = match state {
        State::Running => row.reason.clone().unwrap_or_default(),
        _ => unselected(row.predicted),
    };
    Lane {
        id: row.job.to_string(),
        name: row.name.clone(),
        state,
        bandwidth: row.bandwidth,
        why,
        details: vec![
            ("predicted", row.predicted.map(rate).unwrap_or_default()),
            ("CPU time", format!("{} in this quantum", seconds(row.cpu_s))),
            ("quantum", row.quantum.to_string()),
        ],
    }
}

fn unselected(predicted: Option<f64>) -> String {
    let demand = predicted.map(|demand| format!("; it would draw {}", rate(demand)));
    format!("not selected in this quantum{}", demand.unwrap_or_default())
}

/// Returns the frames of a record of decisions.
fn of_record(record: &Record) -> Vec<Frame> {
    let (jobs, ran) = (BTreeMap::new(), BTreeSet::new());
    let mut scene = Scene { record, at: Nanos::ZERO, jobs, ran, target: None };
    let mut frames = Vec::new();
    for (_, call) in &record.calls {
        match call {
            Call::Admit(spec) => drop(scene.jobs.insert(spec.job, *spec)),
            Call::Select(decision) => {
                scene.ran.clear();
                scene.decide(decision);
            }
            Call::Backfill(Some(decision)) => scene.decide(decision),
            Call::Backfill(None) | Call::Learn { .. } => {}
            Call::Observe { elapsed, observations, summary } => {
                scene.at += *elapsed;
                let counted = observations.iter().any(|seen| seen.counts.is_some());
                let bandwidth = counted.then_some(summary.bandwidth.0);
                frames.push(scene.frame(bandwidth, observations, *elapsed));
            }
            Call::Retire(job) => drop(scene.jobs.remove(job)),
        }
    }
    frames
}

/// The batch at one call of its record.
struct Scene<'a> {
    record: &'a Record,
    at: Nanos,
    /// Jobs that have arrived and are not over.
    jobs: BTreeMap<JobId, JobSpec>,
    /// Jobs that have cores in this quantum.
    ran: BTreeSet<JobId>,
    target: Option<f64>,
}

impl Scene<'_> {
    /// Gives jobs cores, beside those that have some.
    fn decide(&mut self, decision: &Decision) {
        match decision.running {
            Running::Everything => self.ran.extend(self.jobs.keys()),
            Running::Only(_) => self.ran.extend(&decision.chosen),
        }
        self.target = decision.target.map(|target| target.0);
    }

    fn frame(&self, bandwidth: Option<f64>, seen: &[Observation], span: Nanos) -> Frame {
        // A job that ended in the quantum has an observation, and may be retired already.
        let jobs: BTreeSet<JobId> =
            self.jobs.keys().copied().chain(seen.iter().map(|seen| seen.job)).collect();
        let lane = |job: JobId| {
            let observation = seen.iter().find(|observation| observation.job == job);
            self.lane(job, observation, span)
        };
        Frame {
            at_s: self.at.as_secs_f64(),
            bandwidth,
            target: self.target,
            lanes: jobs.into_iter().map(lane).collect(),
        }
    }

    fn lane(&self, job: JobId, seen: Option<&Observation>, span: Nanos) -> Lane {
        let state = if self.ran.contains(&job) { State::Running } else { State::Blocked };
        let counts = seen.and_then(|observation| observation.counts);
        let spec = self.jobs.get(&job);
        let cpu = seen.and_then(|seen| seen.cpu_time).map(|time| seconds(time.as_secs_f64()));
        let time = spec.and_then(|spec| spec.expected_time);
        let demand = spec.and_then(|spec| spec.expected_bandwidth);
        Lane {
            id: job.to_string(),
            name: self.record.header.name(job),
            state,
            bandwidth: counts.map(|counts| counts.bandwidth(span).0),
            why: match state {
                State::Running => String::new(),
                _ => unselected(None),
            },
            details: vec![
                ("cores", spec.map(|spec| spec.cores.to_string()).unwrap_or_default()),
                ("CPU time", cpu.map(|cpu| format!("{cpu} in this quantum")).unwrap_or_default()),
                ("expected", time.map(|time| seconds(time.as_secs_f64())).unwrap_or_default()),
                ("demand", demand.map(|demand| rate(demand.0)).unwrap_or_default()),
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use memweir_core::{BytesPerSec, Counts, Lines};
    use memweir_policy::record::Header;
    use memweir_policy::{QuantumSummary, SchedulerConfig};

    use super::*;

    fn row(quantum: u64, job: u32, chosen: bool) -> Row {
        Row {
            quantum,
            job,
            name: format!("job-{job}"),
            chosen,
            t_start_s: quantum as f64 / 10.0,
            span_s: 0.1,
            system_bandwidth: Some(3e9),
            predicted: Some(2e9),
            reason: chosen.then(|| "head".to_owned()),
            ..Row::default()
        }
    }

    #[test]
    fn a_timeline_has_a_frame_for_each_quantum() {
        let rows = vec![row(0, 0, true), row(0, 1, false), row(1, 1, true)];
        let frames: Vec<Frame> = of_timeline(rows).collect();
        assert_eq!(frames.len(), 2);
        assert_eq!((frames[0].at_s, frames[0].bandwidth), (0.1, Some(3e9)));
        let lanes = &frames[0].lanes;
        assert_eq!((lanes[0].state, lanes[0].why.as_str()), (State::Running, "head"));
        assert_eq!(lanes[1].state, State::Blocked);
        assert!(lanes[1].why.contains("would draw 2"), "{}", lanes[1].why);
    }

    #[test]
    fn a_record_shows_the_jobs_of_each_decision() {
        let spec = |job| JobSpec::new(JobId(job));
        let decision = |jobs: &[u32]| Decision {
            running: Running::Only(jobs.iter().copied().map(JobId).collect()),
            chosen: jobs.iter().copied().map(JobId).collect(),
            predicted: BytesPerSec::ZERO,
            target: Some(BytesPerSec(5e9)),
        };
        let observe = |job| {
            let counts = Some(Counts::new(0, Lines(1_000_000), Lines(0)));
            let elapsed = Nanos::from_millis(100);
            let observation = Observation::new(JobId(job), elapsed, counts);
            let bandwidth = BytesPerSec(640e6);
            let summary = QuantumSummary { elapsed, bandwidth, saturated: false };
            Call::Observe { elapsed, observations: vec![observation], summary }
        };
        let calls = vec![
            Call::Admit(spec(0)),
            Call::Admit(spec(1)),
            Call::Select(decision(&[0])),
            observe(0),
            Call::Select(decision(&[1])),
            Call::Retire(JobId(0)),
            observe(1),
        ];
        let names = vec!["a".to_owned(), "b".to_owned()];
        let header = Header::new(SchedulerConfig::default(), names);
        let calls = calls.into_iter().enumerate().collect();
        let frames = of_record(&Record { header, calls, truncated: None });
        assert_eq!(frames.len(), 2);
        let states: Vec<State> = frames[0].lanes.iter().map(|lane| lane.state).collect();
        assert_eq!(states, [State::Running, State::Blocked]);
        assert_eq!(frames[0].lanes[0].bandwidth, Some(640e6));
        assert_eq!((frames[1].lanes.len(), frames[1].lanes[0].name.as_str()), (1, "b"));
        assert_eq!((frames[1].at_s, frames[1].target), (0.2, Some(5e9)));
    }
}
