//! The daemon as a source: a frame for each quantum, and one per look while nothing runs.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use memweir_core::{JobId, Nanos};
use memweir_daemon::client::Client;
use memweir_daemon::protocol::{
    Expected, JobActivity, JobView, Listing, QuantumView, Reply, Request, Status, ViewedState,
};
use memweir_watch::State;

use super::frame::{Frame, Lane, Opened, Source};
use crate::failure::Failure;
use crate::render::text::{rate, seconds};
use crate::shared::connection::Connection;

/// The jobs of a daemon.
struct DaemonSource {
    client: Client,
    interval: Duration,
    start: Instant,
    /// Number of the first quantum that was not shown.
    next: u64,
}

/// Connects to the daemon.
pub(super) fn open(connection: &Connection, interval: Nanos) -> Result<Opened, Failure> {
    let mut client = connection.open()?;
    let status = status(&mut client)?;
    // From now on the daemon keeps quanta.
    activity(&mut client, 0)?;
    let place = connection.place();
    let title = format!("memweir top: queue at {}, {}", place.display(), status.policy);
    let (interval, start) = (interval.into(), Instant::now());
    let source = Box::new(DaemonSource { client, interval, start, next: 0 });
    Ok(Opened { title, peak: status.peak, source })
}

fn status(client: &mut Client) -> Result<Status, Failure> {
    match client.request(&Request::Status {})? {
        Reply::Status(status) => Ok(*status),
        other => Err(Failure::Fault(format!("the daemon replied {other:?}"))),
    }
}

fn activity(client: &mut Client, from: u64) -> Result<Vec<QuantumView>, Failure> {
    match client.request(&Request::Activity { from })? {
        Reply::Activity(quanta) => Ok(quanta),
        other => Err(Failure::Fault(format!("the daemon replied {other:?}"))),
    }
}

impl Source for DaemonSource {
    fn next(&mut self) -> Result<Option<Vec<Frame>>, Failure> {
        let quanta = activity(&mut self.client, self.next)?;
        let jobs = self.client.jobs(&Request::Queue { which: Listing::Unfinished })?;
        if let Some(last) = quanta.last() {
            self.next = last.number + 1;
        }
        let now = self.start.elapsed().as_secs_f64();
        if quanta.is_empty() {
            let lanes = jobs.iter().map(|job| lane(job, None)).collect();
            return Ok(Some(vec![Frame { at_s: now, lanes, ..Frame::default() }]));
        }
        Ok(Some(quanta.iter().map(|quantum| frame(quantum, &jobs, now)).collect()))
    }

    fn interval(&self) -> Duration {
        self.interval
    }
}

/// Returns the frame of a quantum.
fn frame(quantum: &QuantumView, jobs: &[JobView], at_s: f64) -> Frame {
    let of_job: BTreeMap<JobId, &JobActivity> =
        quantum.jobs.iter().map(|activity| (activity.id, activity)).collect();
    let lanes = jobs.iter().map(|job| lane(job, of_job.get(&job.id).copied()));
    let (bandwidth, target) = (quantum.bandwidth, quantum.target);
    Frame { at_s, bandwidth, target, lanes: lanes.collect() }
}

fn lane(job: &JobView, activity: Option<&JobActivity>) -> Lane {
    let state = match (job.state, activity) {
        (ViewedState::Running, Some(activity)) if activity.chosen => State::Running,
        // Jobs that sleep are not selected, and not blocked either.
        (ViewedState::Running, _) if !job.blocked => State::Running,
        (ViewedState::Running, _) => State::Blocked,
        (ViewedState::Pending, _) => State::Waiting,
        _ => State::Ended,
    };
    let selected = activity.and_then(|activity| activity.reason.clone());
    let why = match state {
        State::Running => selected.unwrap_or_default(),
        State::Blocked => "not selected in this quantum".to_owned(),
        _ => job.reason.clone().unwrap_or_default(),
    };
    let cpu = activity.map(|activity| seconds(Nanos(activity.cpu_ns).as_secs_f64()));
    let after = job.after.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    Lane {
        id: job.id.to_string(),
        name: job.name.clone(),
        state,
        bandwidth: activity.and_then(|activity| activity.bandwidth),
        why,
        details: vec![
            ("command", job.command.clone()),
            ("user", job.user.clone()),
            ("cores", job.cores.to_string()),
            ("priority", job.priority.to_string()),
            ("after", after),
            ("attempt", job.attempt.to_string()),
            ("CPU time", cpu.map(|cpu| format!("{cpu} in this quantum")).unwrap_or_default()),
            ("expected", job.expected.as_ref().map(expected).unwrap_or_default()),
            ("output", job.stdout.to_path().display().to_string()),
        ],
    }
}

fn expected(expected: &Expected) -> String {
    let time = expected.time_ns.map(|time| seconds(Nanos(time).as_secs_f64()));
    let figures: Vec<String> = time.into_iter().chain(expected.bandwidth.map(rate)).collect();
    figures.join(", ")
}
