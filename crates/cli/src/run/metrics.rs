//! The metrics of a batch, from the events of its loop.

use std::collections::BTreeSet;
use std::time::Instant;

use memweir_core::{BytesPerSec, LINE_BYTES, Media, MediumId, Nanos};
use memweir_linux::MeterKind;
use memweir_run::observer::Event;
use memweir_run::platform::Platform;
use memweir_run::timeline::Row;
use memweir_watch::{MeterFacts, Metrics, Series, State};

/// Keeps the series of a batch. In a comparison, the counters go on from run to run.
pub(super) struct BatchMetrics {
    metrics: Metrics,
    /// Names of the media, by number.
    media: Vec<String>,
    saturation: Option<BytesPerSec>,
    meter: Option<MeterKind>,
    started: BTreeSet<u32>,
    ended: BTreeSet<u32>,
    start: Instant,
}

impl BatchMetrics {
    /// Registers the jobs of these names as waiting.
    pub(super) fn new<'a>(
        metrics: Metrics,
        jobs: impl Iterator<Item = &'a str>,
        media: &Media,
        platform: Option<&Platform>,
    ) -> Self {
        for (number, name) in jobs.enumerate() {
            metrics.update(&number.to_string(), |series| series.name = name.to_owned());
        }
        if let Some(peak) = platform.and_then(Platform::peak) {
            metrics.set_peak(peak);
        }
        Self {
            metrics,
            media: media.iter().map(|(_, medium)| medium.name.clone()).collect(),
            saturation: platform.and_then(Platform::saturation),
            meter: None,
            started: BTreeSet::new(),
            ended: BTreeSet::new(),
            start: Instant::now(),
        }
    }

    /// Takes in an event of the batch.
    pub(super) fn event(&mut self, event: Event<'_>) {
        match event {
            Event::RunStarted { .. } => {
                self.ended.clear();
                for job in std::mem::take(&mut self.started) {
                    self.metrics.update(&job.to_string(), |series| series.state = State::Waiting);
                }
            }
            Event::MeterChosen { kind, .. } => self.meter = Some(kind),
            Event::JobStarted { job, name } => {
                self.started.insert(job.0);
                self.metrics.update(&job.to_string(), |series| {
                    series.name = name.to_owned();
                    series.state = State::Blocked;
                });
            }
            Event::QuantumRecorded(rows) => self.quantum(rows),
            Event::JobEnded { job, .. } => {
                self.ended.insert(job.0);
                self.metrics.end(&job.to_string(), self.now());
            }
            Event::QuantumEnded(_) => self.metrics.expire(self.now()),
            Event::Switched { took } => self.metrics.switched(took),
            Event::MechanismChosen { .. } | Event::Notice(_) => {}
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

    use super::*;

    fn batch(media: &Media) -> (Metrics, BatchMetrics) {
        let metrics = Metrics::default();
        let batch = BatchMetrics::new(metrics.clone(), ["a", "b"].into_iter(), media, None);
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
