//! Control groups as a source, as `memweir watch` measures them: a frame for each interval.

use std::time::{Duration, Instant};

use memweir_core::Nanos;
use memweir_watch::{Row, State, Watch};

use super::frame::{Frame, Lane, Opened, Source};
use crate::export;
use crate::failure::Failure;
use crate::render::text::{count, seconds};
use crate::shared::subjects::{self, SubjectArgs, busiest_first};

/// The subjects of a watch.
struct Watched {
    watch: Watch,
    interval: Duration,
    start: Instant,
}

/// Opens the watch.
pub(super) fn open(args: &SubjectArgs, interval: Nanos) -> Result<Opened, Failure> {
    let (watch, meter) = subjects::open(args)?;
    let title = format!("memweir top: watch, {meter}");
    let source = Box::new(Watched { watch, interval: interval.into(), start: Instant::now() });
    Ok(Opened { title, peak: export::calibrated_peak().map(|peak| peak.0), source })
}

impl Source for Watched {
    fn next(&mut self) -> Result<Option<Vec<Frame>>, Failure> {
        let now = self.start.elapsed();
        let rows = self.watch.tick(Nanos::from(now)).map_err(|error| {
            Failure::Machine(format!("the cgroup tree cannot be read: {error}"))
        })?;
        // Failures show as missing bandwidth.
        self.watch.take_failures();
        Ok(Some(vec![frame(rows, now.as_secs_f64())]))
    }

    fn interval(&self) -> Duration {
        self.interval
    }
}

fn frame(mut rows: Vec<Row>, at_s: f64) -> Frame {
    busiest_first(&mut rows);
    let counted: Vec<f64> = rows.iter().filter_map(|row| row.bandwidth).collect();
    let bandwidth = (!counted.is_empty()).then(|| counted.iter().sum());
    Frame { at_s, bandwidth, target: None, lanes: rows.iter().map(lane).collect() }
}

fn lane(row: &Row) -> Lane {
    let cores = |cpu_s: f64| format!("{:.2} cores", cpu_s / row.span_s);
    let (state, why) = match row.state {
        State::Running => (State::Running, row.cpu_s.map(cores)),
        State::Blocked => (State::Blocked, Some("frozen".to_owned())),
        State::Empty => (State::Waiting, Some("without processes".to_owned())),
        state @ (State::Waiting | State::Ended) => (state, None),
    };
    let bytes = |bytes: Option<u64>| bytes.map(count).unwrap_or_default();
    Lane {
        id: row.jobid.clone(),
        name: row.name.clone(),
        state,
        bandwidth: row.bandwidth,
        why: why.unwrap_or_default(),
        details: vec![
            ("kind", row.kind.name().to_owned()),
            ("cgroup", row.jobid.clone()),
            ("CPU time", row.cpu_s.map(seconds).unwrap_or_default()),
            ("read", bytes(row.read_bytes)),
            ("written", bytes(row.write_bytes)),
            ("Slurm job", row.slurm_jobid.clone().unwrap_or_default()),
        ],
    }
}
