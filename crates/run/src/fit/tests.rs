use memweir_linux::launch::Signals;
use memweir_policy::Bus;

use super::*;
use crate::jobs::{Command, Job};

fn kind(cores: u32, gb: f64, seconds: u64) -> JobKind {
    JobKind {
        name: "k".into(),
        cores,
        bandwidth: BytesPerSec::from_gb(gb),
        time: Nanos::from_millis(1000 * seconds),
    }
}

/// Speeds on a machine of so many cores with a bus of 10 GB/s.
fn model_of(cores: u32) -> SpeedModel {
    let bus = Bus { peak: Some(BytesPerSec::from_gb(10.0)), ..Bus::default() };
    SpeedModel::new(&SchedulerConfig { cores, bus, ..SchedulerConfig::default() })
}

fn copies(points: &[Point]) -> Vec<Vec<u32>> {
    points.iter().map(|point| point.copies.clone()).collect()
}

#[test]
fn a_command_that_does_not_touch_memory_fills_the_cores() {
    let kinds = [kind(1, 0.0, 1)];
    let points = curve(&kinds, 4, Some(&model_of(4)));
    assert_eq!(copies(&points), [[1], [2], [3], [4]]);
    let throughputs: Vec<f64> = points.iter().map(Point::throughput).collect();
    assert_eq!(throughputs, [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(recommended(&points).unwrap().copies, [4]);
}

#[test]
fn copies_beyond_the_peak_add_nothing() {
    // Alone a copy waits for memory all of its time. Four copies share 10 of 16 GB/s, s = 0.6, and
    // lose 0.25 / (1 + 0.6 / 0.5) to bursts: 4 / 1.714. A fifth adds 5 / 2.083 - 4 / 1.714 = 0.07.
    let kinds = [kind(1, 4.0, 1)];
    let points = curve(&kinds, 8, Some(&model_of(8)));
    let best = recommended(&points).unwrap();
    assert_eq!(best.copies, [4]);
    // The traffic of a full bus is the limit: 10 of 4 GB/s.
    assert!(points.iter().all(|point| point.throughput() <= 2.5 + 1e-3), "{points:?}");
    assert!((best.throughput() - 4.0 / (1.6 + 0.25 / 2.2)).abs() < 1e-3, "{best:?}");
}

#[test]
fn several_commands_get_done_equally_often() {
    // The second takes three times as long: of four cores it gets three.
    let kinds = [kind(1, 0.0, 1), kind(1, 0.0, 3)];
    let points = curve(&kinds, 4, Some(&model_of(4)));
    assert_eq!(copies(&points), [[1, 1], [1, 2], [1, 3]]);
    // A set takes 4 s one by one, and one gets done each second.
    assert!((recommended(&points).unwrap().throughput() - 4.0).abs() < 1e-9);
}

#[test]
fn wide_commands_take_their_cores() {
    let points = curve(&[kind(2, 0.0, 1), kind(1, 0.0, 1)], 6, Some(&model_of(6)));
    assert_eq!(copies(&points), [[1, 1], [2, 1], [2, 2]]);
    assert!(curve(&[kind(3, 0.0, 1)], 2, Some(&model_of(2))).is_empty());
    assert!(recommended(&[]).is_none());
    // Each copy adds all of its throughput, though it occupies twelve cores.
    let points = curve(&[kind(12, 0.0, 1)], 48, Some(&model_of(48)));
    assert_eq!(recommended(&points).unwrap().copies, [4]);
}

#[test]
fn what_was_measured_decides() {
    let kinds = [kind(1, 0.0, 1)];
    let point = |n: u32, predicted: f64, measured: f64| Point {
        copies: vec![n],
        speeds: Vec::new(),
        predicted: Some(predicted),
        measured: Some(measured),
    };
    let points = [point(1, 1.0, 1.0), point(2, 2.0, 1.49), point(3, 3.0, 1.5), point(4, 4.0, 1.4)];
    assert_eq!(recommended(&points).unwrap().copies, [2]);
    let exceeds = |measured| exceeds_full_speed(&kinds, &point(2, 2.0, measured));
    assert_eq!([1.49, 2.1, 2.3].map(exceeds), [false, false, true]);
}

#[test]
fn a_slow_first_run_makes_no_copy_fast() {
    let directory = tempfile::tempdir().unwrap();
    let line = "[ -e warm ] || sleep 3; touch warm; sleep 0.02".into();
    let mut job = Job::new("job", Command::Shell(line));
    job.directory = Some(directory.path().to_owned());
    let signals = Signals::caught().unwrap();
    let time = time_alone(&job, &signals).unwrap();
    assert!(time < Nanos::from_millis(3000), "{time:?}");
    let kinds = [JobKind { time, ..kind(1, 0.0, 9) }];
    let mut points = curve(&kinds, 1, None);
    measure(&[job], &kinds, &mut points, &signals, |_| ()).unwrap();
    assert_eq!(points[0].measured, Some(1.0));
}

#[test]
fn copies_are_run_side_by_side_and_failures_are_named() {
    let shell = |line: &str| Job::new("job", Command::Shell(line.into()));
    let signals = Signals::caught().unwrap();
    let time = time_alone(&shell("sleep 0.2"), &signals).unwrap();
    assert!(time >= Nanos::from_millis(200), "{time:?}");
    let kinds = [JobKind { time, ..kind(1, 0.0, 9) }];
    let mut points = curve(&kinds, 2, None);
    assert_eq!(copies(&points), [[1], [2]]);
    let mut told = Vec::new();
    let done = |points: &[Point]| told.push(copies(points));
    measure(&[shell("sleep 0.2")], &kinds, &mut points, &signals, done).unwrap();
    assert_eq!(told, [vec![vec![1]], vec![vec![1], vec![2]]]);
    // Sleeping copies do not contend, whatever the machine does meanwhile.
    assert!(points.iter().all(|point| point.measured.is_some_and(|rate| rate > 0.0)));
    let measured = |job: Job, points: &mut [Point]| {
        measure(&[job], &kinds, points, &signals, |_| ()).unwrap_err().to_string()
    };
    assert_eq!(measured(shell("exit 3"), &mut points), "a copy of job failed: exit code 3");
    let missing = Job::new("job", Command::Exec(vec!["/no/such/program".into()]));
    let missing = measured(missing, &mut points);
    assert!(missing.starts_with("job cannot be started"), "{missing}");
}
