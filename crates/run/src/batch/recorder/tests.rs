use std::fs::OpenOptions;

use memweir_core::{Counts, Lines};
use memweir_policy::record::Header;
use memweir_policy::{Decision, QuantumSummary, Running, SchedulerConfig};

use super::*;

/// Keeps the rows that it is shown.
#[derive(Default)]
struct Reader(Vec<Row>);

impl Observer for Reader {
    fn event(&mut self, event: Event<'_>) {
        if let Event::QuantumRecorded(rows) = event {
            self.0.extend_from_slice(rows);
        }
    }

    fn wants_rows(&self) -> bool {
        true
    }
}

/// A quantum of 100 ms in which the second job ran and read 1,000 lines.
fn quantum() -> Quantum {
    let elapsed = Nanos::from_millis(100);
    let entry = JobQuantum {
        job: JobId(1),
        chosen: true,
        reason: Some("first"),
        running: elapsed,
        speed: None,
        cpu_time: elapsed,
        counts: Some(Counts::new(0, Lines(1_000), Lines(0))),
    };
    Quantum {
        start: Nanos::from_millis(5_000),
        summary: QuantumSummary { elapsed, bandwidth: BytesPerSec::ZERO, saturated: false },
        jobs: vec![entry],
        decision: Decision {
            running: Running::Everything,
            chosen: vec![JobId(1)],
            predicted: BytesPerSec::ZERO,
            target: Some(BytesPerSec(1e9)),
        },
        switch: None,
        calls: Vec::new(),
    }
}

fn subject(job: u32, predicted: Option<f64>) -> RowSubject {
    RowSubject {
        job: JobId(job),
        name: format!("job-{job}"),
        predicted: predicted.map(BytesPerSec),
    }
}

#[test]
fn a_row_joins_a_job_with_its_part_in_the_quantum() {
    let mut reader = Reader::default();
    let mut recorder = QuantumRecorder::new(&mut reader, Media::dram_only());
    let subjects = || vec![subject(0, None), subject(1, Some(5.0))];
    for start in [0, 100] {
        let start = Nanos::from_millis(start);
        assert!(recorder.quantum_ended(&quantum(), start, None, subjects).is_empty());
    }
    assert_eq!(recorder.number(), 2);
    let [_, _, blocked, ran] = &reader.0[..] else { panic!("{:?}", reader.0) };
    assert_eq!((blocked.quantum, blocked.t_start_s, blocked.chosen), (1, 0.1, false));
    assert_eq!((blocked.reads, blocked.cpu_s, blocked.predicted), (None, 0.0, None));
    assert_eq!((ran.job, ran.name.as_str(), ran.chosen, ran.cpu_s), (1, "job-1", true, 0.1));
    assert_eq!((ran.reads, ran.bandwidth, ran.predicted), (Some(1_000), Some(640e3), Some(5.0)));
    for row in [blocked, ran] {
        assert_eq!((row.system_bandwidth, row.target), (Some(640e3), Some(1e9)));
    }
}

#[test]
fn no_row_is_made_that_is_not_read() {
    let mut silent = crate::observer::Silent;
    let mut recorder = QuantumRecorder::new(&mut silent, Media::dram_only());
    let subjects = || unreachable!("no file and no observer asks for rows");
    assert!(recorder.quantum_ended(&quantum(), Nanos::ZERO, None, subjects).is_empty());
}

#[test]
fn a_file_that_cannot_be_written_is_given_up_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("record.jsonl");
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
    let reader = OpenOptions::new().read(true).write(true).open(&path).expect("opens");
    let header = Header::new(SchedulerConfig::default(), Vec::new());
    let decisions = DecisionLog::create(&path, &header).expect("room for a line");
    drop(reader);
    let mut silent = crate::observer::Silent;
    let mut recorder =
        QuantumRecorder::new(&mut silent, Media::dram_only()).with_files(None, Some(decisions));
    let call = Call::Retire(JobId(0));
    let notices = recorder.decided(std::slice::from_ref(&call));
    assert_eq!(recorder.decided(&[call]), [""; 0]);
    let [LostOutput { path: lost, reason }] = recorder.lost() else { panic!("{notices:?}") };
    let path = path.display().to_string();
    assert_eq!((lost, notices), (&path, vec![format!("{path}: {reason}")]));
    assert!(reason.starts_with("no more decisions are recorded: "), "{reason}");
}
