//! The metrics of a batch or a queue, from the events of its loop.

use std::collections::BTreeSet;
use std::time::Instant;

use memweir_core::{BytesPerSec, LINE_BYTES, Media, MediumId, Nanos};
use memweir_linux::MeterKind;
use memweir_run::observer::{Event, Observer};
use memweir_run::timeline::Row;
use memweir_watch::{MeterFacts, Metrics, Series, State};

/// Keeps the series of a batch or a queue. In a comparison, the counters go on from run to run.
pub(crate) struct BatchMetrics {
    metrics: Metrics,
    /// Jobs that are known from the beginning.
    jobs: usize,
    /// Names of the media, by number.
    media: Vec<String>,
    saturation: Option<BytesPerSec>,
    meter: Option<MeterKind>,
    /// Jobs that have started, up to the row of their last quantum.
    started: BTreeSet<u32>,
    /// Of these, the ones that have ended.
    ended: BTreeSet<u32>,
    start: Instant,
}

impl BatchMetrics {
    /// Registers the jobs of these names as waiting.
    pub(crate) fn new<'a>(
        metrics: Metrics,
        jobs: impl ExactSizeIterator<Item = &'a str>,
        media: &Media,
    ) -> Self {
        let count = jobs.len();
        for (number, name) in jobs.enumerate() {
            metrics.update(&number.to_string(), |series| series.name = name.to_owned());
        }
        Self {
            metrics,
            jobs: count,
            media: media.iter().map(|(_, medium)| medium.name.clone()).collect(),
            saturation: None,
            meter: None,
            started: BTreeSet::new(),
            ended: BTreeSet::new(),
            start: Instant::now(),
        }
    }

    fn now(&self) -> Nanos {
        self.start.elapsed().into()
    }

    fn quantum(&mut self, rows: &[Row]) {
        let Some(first) = rows.first() else { return };
        self.metrics.set_target(first.target.map(BytesPerSec));
        if let Some((bandwidth, saturation)) = first.system_bandwidth.zip(self.saturation) {
            self.metrics.quantum_ended(bandwidth >= saturation.0);
        }
        let meter = self.facts(rows);
        for row in rows.iter().filter(|row| self.started.contains(&row.job)) {
            let jobid = row.job.to_string();
            self.metrics.update(&jobid, |series| add(series, row, meter, &self.media));
            // Its last quantum is recorded after its end.
            if self.ended.contains(&row.job) {
                self.metrics.end(&jobid, self.now());
            }
        }
        for job in rows.iter().map(|row| row.job) {
            if self.ended.remove(&job) {
                self.started.remove(&job);
            }
        }
    }

    /// Learns from the first rows with counts what the meter sees.
    fn facts(&self, rows: &[Row]) -> Option<MeterFacts> {
        let counted = rows.iter().find(|row| row.reads.is_some())?;
        let meter = MeterFacts {
            kind: self.meter?,
            instructions: counted.instructions.is_some(),
            writes: counted.writes.is_some(),
            media: self.media.len() > 1 && counted.reads_1.is_some(),
        };
        self.metrics.set_meter(meter);
        Some(meter)
    }
}

impl Observer for BatchMetrics {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::RunStarted { .. } => {
                self.ended.clear();
                self.started.clear();
                for job in 0..self.jobs {
                    self.metrics.update(&job.to_string(), |series| series.state = State::Waiting);
                }
            }
            Event::BusKnown(bus) => {
                self.saturation = bus.saturation;
                bus.peak.into_iter().for_each(|peak| self.metrics.set_peak(peak));
            }
            Event::MeterChosen { kind, .. } => self.meter = Some(kind),
            Event::JobStarted { job, name } => {
                self.started.insert(job.0);
                self.ended.remove(&job.0);
                self.metrics.update(&job.to_string(), |series| {
                    series.name = name.to_owned();
                    series.state = State::Blocked;
                });
            }
            Event::QuantumRecorded(rows) => self.quantum(rows),
            Event::JobEnded { job, .. } => {
                if self.started.contains(&job.0) {
                    self.ended.insert(job.0);
                }
                self.metrics.end(&job.to_string(), self.now());
            }
            Event::QuantumEnded(_) => self.metrics.expire(self.now()),
            Event::Switched { took } => self.metrics.switched(took),
            Event::MeterFailed { kind, reason } => self.metrics.meter_failed(kind, reason.name()),
            Event::Queued(jobs) => {
                self.metrics.set_queued(jobs);
                self.metrics.expire(self.now());
            }
            Event::MechanismChosen { .. } | Event::Notice(_) => {}
        }
    }

    fn wants_rows(&self) -> bool {
        true
    }
}

/// Adds a quantum to the series of a job.
fn add(series: &mut Series, row: &Row, meter: Option<MeterFacts>, media: &[String]) {
    series.state = if row.chosen { State::Running } else { State::Blocked };
    *series.cpu_s.get_or_insert_default() += row.cpu_s;
    let (selected, blocked) = if row.chosen { (row.span_s, 0.0) } else { (0.0, row.span_s) };
    *series.selected_s.get_or_insert_default() += selected;
    *series.blocked_s.get_or_insert_default() += blocked;
    let Some(meter) = meter else { return };
    for (medium, name) in media.iter().enumerate() {
        let (reads, writes) = lines(row, medium);
        let of = [(meter.direction_of_reads(), reads), (memweir_watch::Direction::Write, writes)];
        for (direction, lines) in of {
            if let Some(lines) = lines {
                let bytes = lines as f64 * LINE_BYTES as f64;
                *series.memory.entry((direction, name.clone())).or_default() += bytes;
            }
        }
    }
}

/// Returns the lines read from and written to a medium. The local DRAM, number 0, has those that
/// are not counted elsewhere.
fn lines(row: &Row, medium: usize) -> (Option<u64>, Option<u64>) {
    let elsewhere =
        [(row.reads_1, row.writes_1), (row.reads_2, row.writes_2), (row.reads_3, row.writes_3)];
    match medium.checked_sub(MediumId::LOCAL_DRAM.index() + 1) {
        Some(other) => elsewhere.get(other).copied().unwrap_or_default(),
        None => {
            let reads = elsewhere.iter().filter_map(|(reads, _)| *reads).sum();
            let writes = elsewhere.iter().filter_map(|(_, writes)| *writes).sum();
            (
                row.reads.map(|all| all.saturating_sub(reads)),
                row.writes.map(|all| all.saturating_sub(writes)),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use memweir_core::JobId;
    use memweir_core::medium::data::MediumData;
    use memweir_linux::meter::Reason;
    use memweir_policy::Bus;

    use super::*;

    fn batch(media: &Media) -> (Metrics, BatchMetrics) {
        let metrics = Metrics::default();
        let batch = BatchMetrics::new(metrics.clone(), ["a", "b"].into_iter(), media);
        (metrics, batch)
    }

    fn row(job: u32, chosen: bool) -> Row {
        Row { job, chosen, span_s: 0.5, cpu_s: 0.25, ..Row::default() }
    }

    fn start(batch: &mut BatchMetrics, job: u32) {
        batch.event(Event::JobStarted { job: JobId(job), name: "a" });
    }

    fn value(metrics: &Metrics, sample: &str) -> Option<f64> {
        let text = metrics.openmetrics();
        let line = text.lines().find_map(|line| line.strip_prefix(sample))?;
        Some(line.trim().parse().expect("a number"))
    }

    #[test]
    fn times_add_up_by_what_was_selected() {
        let (metrics, mut batch) = batch(&Media::dram_only());
        assert_eq!(value(&metrics, "memweir_jobs{state=\"waiting\"}"), Some(2.0));
        start(&mut batch, 0);
        batch.event(Event::QuantumRecorded(&[row(0, true), row(1, false)]));
        batch.event(Event::QuantumRecorded(&[row(0, false), row(1, false)]));
        let of = |name: &str| {
            value(&metrics, &format!("memweir_job_{name}_seconds_total{{jobid=\"0\",name=\"a\"}}"))
        };
        assert_eq!((of("selected"), of("blocked"), of("cpu")), (Some(0.5), Some(0.5), Some(0.5)));
        let unstarted = "memweir_job_blocked_seconds_total{jobid=\"1\"";
        assert_eq!(value(&metrics, unstarted), None);
        assert_eq!(value(&metrics, "memweir_meter_info"), None, "nothing counted");
    }

    #[test]
    fn a_job_stays_ended_when_its_last_quantum_is_recorded() {
        let (metrics, mut batch) = batch(&Media::dram_only());
        start(&mut batch, 0);
        let wall = Nanos::MILLI;
        batch.event(Event::JobEnded { job: JobId(0), name: "a", exit_code: Some(0), wall });
        batch.event(Event::QuantumRecorded(&[row(0, true)]));
        assert_eq!(value(&metrics, "memweir_jobs{state=\"ended\"}"), Some(1.0));
        batch.event(Event::RunStarted { variant: "os", round: 0, rounds: 2 });
        assert_eq!(value(&metrics, "memweir_jobs{state=\"waiting\"}"), Some(2.0));
    }

    #[test]
    fn failures_of_the_meter_and_the_bus_have_series() {
        let (metrics, mut batch) = batch(&Media::dram_only());
        let failed = Event::MeterFailed { kind: MeterKind::Perf, reason: Reason::Limit };
        batch.event(failed);
        batch.event(failed);
        let errors = "memweir_meter_errors_total{meter=\"perf\",reason=\"limit\"}";
        assert_eq!(value(&metrics, errors), Some(2.0));
        let (peak, saturation) = (Some(BytesPerSec(8e9)), Some(BytesPerSec(7e9)));
        batch.event(Event::BusKnown(Bus { peak, saturation, ..Bus::default() }));
        assert_eq!(value(&metrics, "memweir_peak_bytes_per_second"), Some(8e9));
        start(&mut batch, 0);
        let rows = [Row { system_bandwidth: Some(7e9), ..row(0, true) }];
        batch.event(Event::QuantumRecorded(&rows));
        assert_eq!(value(&metrics, "memweir_quanta_total{saturated=\"true\"}"), Some(1.0));
    }

    #[test]
    fn a_queue_counts_jobs_that_wait_and_jobs_that_run_again() {
        let metrics = Metrics::default();
        let mut queue = BatchMetrics::new(metrics.clone(), [].into_iter(), &Media::dram_only());
        queue.event(Event::Queued(9_000));
        assert_eq!(value(&metrics, "memweir_jobs{state=\"waiting\"}"), Some(9_000.0));
        let wall = Nanos::MILLI;
        for _ in 0..2 {
            start(&mut queue, 7);
            assert_eq!(value(&metrics, "memweir_jobs{state=\"blocked\"}"), Some(1.0));
            queue.event(Event::JobEnded { job: JobId(7), name: "a", exit_code: Some(0), wall });
            queue.event(Event::QuantumRecorded(&[row(7, true)]));
            assert_eq!(value(&metrics, "memweir_jobs{state=\"ended\"}"), Some(1.0));
        }
        let cpu = "memweir_job_cpu_seconds_total{jobid=\"7\",name=\"a\"}";
        assert_eq!(value(&metrics, cpu), Some(0.5));
    }

    #[test]
    fn traffic_is_told_apart_by_medium() {
        let cxl = Media::with_dram(&[MediumData::shipped("cxl").expect("shipped")]);
        let (metrics, mut batch) = batch(&cxl.expect("two media"));
        batch.event(Event::MeterChosen { kind: MeterKind::Software, reason: "" });
        start(&mut batch, 0);
        let counted = Row {
            reads: Some(10),
            reads_1: Some(4),
            writes: Some(3),
            writes_1: Some(3),
            ..row(0, true)
        };
        batch.event(Event::QuantumRecorded(&[counted]));
        let of = |direction: &str, medium: &str| {
            let labels = format!(
                "jobid=\"0\",name=\"a\",direction=\"{direction}\",medium=\"{medium}\",\
                 meter=\"software\""
            );
            value(&metrics, &format!("memweir_job_memory_bytes_total{{{labels}}}"))
        };
        assert_eq!((of("read", "dram"), of("read", "cxl")), (Some(384.0), Some(256.0)));
        assert_eq!((of("write", "dram"), of("write", "cxl")), (Some(0.0), Some(192.0)));
        let info = "memweir_meter_info{meter=\"software\",blind_to=\"instructions\"}";
        assert_eq!(value(&metrics, info), Some(1.0));
    }
}
