use std::sync::atomic::Ordering;

use memweir_core::{LINE_BYTES, Lines, Nanos};

use super::*;
use crate::platform::{Machine, Target};

static GO_ON: AtomicBool = AtomicBool::new(false);

/// A bus on which a step of the read kernel takes 2 ns plus 0.25 ns per nop alone, and that moves
/// at most `capacity`: beyond that, all hogs slow down in proportion.
struct FakeBus {
    members: usize,
    capacity: f64,
    runs: usize,
    fails_at: Option<usize>,
    /// By the number of the run: the hogs' share of their CPUs, and true if lone hogs are slowed to
    /// a third.
    cpu_share: fn(usize) -> f64,
    slow_alone: fn(usize) -> bool,
}

impl FakeBus {
    fn new(members: usize, gb: f64) -> Self {
        Self {
            members,
            capacity: gb * 1e9,
            runs: 0,
            fails_at: None,
            cpu_share: |_| 1.0,
            slow_alone: |_| false,
        }
    }

    fn rate_alone(kernel: Kernel, load: &Load) -> f64 {
        let bytes = ((kernel.lines_read() + kernel.lines_written()) * LINE_BYTES) as f64;
        // The read kernel is the strongest.
        let base = if kernel == Kernel::Read { 2.0 } else { 10.0 };
        let ns = |idle: u32| base + 0.25 * f64::from(idle);
        match load {
            Load::Steady { idle } => bytes / ns(*idle) * 1e9,
            Load::Replay(plan) => {
                let time: f64 = plan.groups().iter().map(|g| g.steps as f64 * ns(g.idle)).sum();
                plan.steps() as f64 * bytes / time * 1e9
            }
        }
    }
}

impl Bus for FakeBus {
    fn members(&self) -> usize {
        self.members
    }

    fn run(
        &mut self,
        kernel: Kernel,
        loads: &[(usize, &Load)],
        limit: Limit,
    ) -> io::Result<Vec<Measured>> {
        self.runs += 1;
        if self.fails_at == Some(self.runs) {
            return Err(io::Error::other("injected"));
        }
        let alone: Vec<_> = loads.iter().map(|(_, load)| Self::rate_alone(kernel, load)).collect();
        let demand: f64 = alone.iter().sum();
        let share = (self.cpu_share)(self.runs);
        let disturbed = loads.len() == 1 && (self.slow_alone)(self.runs);
        let slowdown = (demand / self.capacity).max(if disturbed { 3.0 } else { 1.0 });
        let measured = |rate: f64| {
            let seconds = match limit {
                Limit::Time(time) => time.as_secs_f64(),
                Limit::Rounds(_) => 0.1 * slowdown,
                Limit::Work(work) => work.as_f64() / rate,
            };
            let bytes = rate * seconds;
            let lines = Lines((bytes / 64.0).round() as u64);
            Measured {
                steps: lines.0,
                lines,
                elapsed: Nanos::from_secs_f64(seconds),
                cpu_time: Nanos::from_secs_f64(seconds * share),
            }
        };
        Ok(alone.into_iter().map(|rate| measured(rate / slowdown)).collect())
    }
}

fn machine() -> Machine {
    Machine {
        cpu: "A Processor".to_owned(),
        cores: 2,
        memory: Bytes(8 << 30),
        hypervisor: None,
        caches: None,
    }
}

fn options(dir: &tempfile::TempDir) -> CalibrateOptions {
    CalibrateOptions {
        effort: Effort::Quick,
        cpus: vec![0, 1],
        array: Bytes(1 << 20),
        kernel: None,
        seed: 7,
        path: dir.path().join("platform.toml"),
    }
}

#[test]
fn a_bus_that_saturates_gives_its_peak_and_a_curve_below_the_demand() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(&dir);
    // One reader alone: 64 B / 2 ns = 32 GB/s; two share 40.
    let mut bus = FakeBus::new(2, 40.0);
    let mut shares = Vec::new();
    let platform =
        measure(&options, machine(), &mut bus, &mut |progress| shares.push(progress.done), &GO_ON)
            .unwrap();
    let peak = platform.peak.unwrap();
    assert_eq!((peak.kernel, peak.instances), (Kernel::Read, 2));
    assert!((peak.bandwidth.as_gb() - 40.0).abs() < 0.01, "{}", peak.bandwidth);
    assert!((platform.full_load[0].weighted_speedup - 40.0 / 32.0).abs() < 0.01);
    let curve = platform.target_curve().unwrap();
    let at = |gb: f64| curve.apply(BytesPerSec::from_gb(gb), platform.peak()).as_gb();
    assert!((at(20.0) - 20.0).abs() < 3.0, "little contention at half load: {}", at(20.0));
    assert!((at(60.0) - 40.0).abs() < 3.0, "the peak at full load: {}", at(60.0));
    // The file has it all, the partial one is gone, and progress went from nothing to everything.
    assert_eq!(Platform::load(&options.path).unwrap(), platform);
    assert!(!partial_path(&options.path).exists());
    assert!(shares.is_sorted() && shares[0] < 0.1 && *shares.last().unwrap() > 0.99);
}

#[test]
fn a_bus_that_never_saturates_has_no_target_but_a_peak() {
    let dir = tempfile::tempdir().unwrap();
    let mut bus = FakeBus::new(2, 1000.0);
    let platform = measure(&options(&dir), machine(), &mut bus, &mut |_| (), &GO_ON).unwrap();
    let Target::NotMeasurable { reason } = &platform.target else {
        panic!("{:?}", platform.target)
    };
    assert!(reason.contains("do not contend"), "{reason}");
    assert!((platform.peak().unwrap().as_gb() - 64.0).abs() < 0.01);
}

#[test]
fn a_machine_that_stays_busy_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(&dir);
    let mut bus = FakeBus::new(2, 40.0);
    bus.cpu_share = |_| 0.58;
    let error = measure(&options, machine(), &mut bus, &mut |_| (), &GO_ON).unwrap_err();
    assert!(error.to_string().contains("58 % of the time"), "{error}");
    assert!(!options.path.exists(), "nothing is calibrated");
}

#[test]
fn a_measurement_that_was_disturbed_is_repeated() {
    let dir = tempfile::tempdir().unwrap();
    let calm = measure(&options(&dir), machine(), &mut FakeBus::new(2, 40.0), &mut |_| (), &GO_ON);
    let mut bus = FakeBus::new(2, 40.0);
    bus.cpu_share = |run| if run % 3 == 0 { 0.5 } else { 1.0 };
    let busy = measure(&options(&dir), machine(), &mut bus, &mut |_| (), &GO_ON).unwrap();
    assert_eq!(busy.streams, calm.unwrap().streams);
}

#[test]
fn hogs_that_are_faster_together_than_alone_are_measured_again_or_refused() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(&dir);
    // The bus is slow while a hog runs alone: at first, or always.
    let mut bus = FakeBus::new(2, 40.0);
    bus.slow_alone = |run| run < 60;
    let platform = measure(&options, machine(), &mut bus, &mut |_| (), &GO_ON).unwrap();
    let possible = |speedup: f64| speedup <= 2.2;
    assert!(platform.full_load.iter().all(|point| possible(point.weighted_speedup)));
    assert!(platform.combinations.iter().all(|point| possible(point.weighted_speedup)));
    bus.slow_alone = |_| true;
    let error = measure(&options, machine(), &mut bus, &mut |_| (), &GO_ON).unwrap_err();
    assert!(error.to_string().contains("weighted speedup of"), "{error}");
    assert_eq!(Platform::load(&options.path).unwrap(), platform, "the one before stays");
}

#[test]
fn a_signal_ends_it_and_leaves_the_points_measured_so_far() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(&dir);
    let stop = AtomicBool::new(false);
    let mut count = 0;
    let mut progress = |_| {
        count += 1;
        stop.store(count == 10, Ordering::Relaxed);
    };
    let mut bus = FakeBus::new(2, 40.0);
    let error = measure(&options, machine(), &mut bus, &mut progress, &stop).unwrap_err();
    assert!(matches!(error, CalibrateError::Interrupted), "{error}");
    assert_eq!(Platform::load(&partial_path(&options.path)).unwrap().streams.len(), 10);
    assert!(!options.path.exists());
}

#[test]
fn one_core_is_measured_without_a_target() {
    let dir = tempfile::tempdir().unwrap();
    let platform =
        measure(&options(&dir), machine(), &mut FakeBus::new(1, 40.0), &mut |_| (), &GO_ON)
            .unwrap();
    assert!(platform.hog_curve.is_empty());
    assert!(matches!(platform.target, Target::NotMeasurable { .. }));
}

#[test]
fn a_failure_loses_no_point_and_keeps_the_calibration_before() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(&dir);
    let before =
        measure(&options, machine(), &mut FakeBus::new(2, 40.0), &mut |_| (), &GO_ON).unwrap();
    let mut bus = FakeBus::new(2, 50.0);
    bus.fails_at = Some(11);
    let error = measure(&options, machine(), &mut bus, &mut |_| (), &GO_ON).unwrap_err();
    assert!(error.to_string().contains("injected"), "{error}");
    assert_eq!(Platform::load(&options.path).unwrap(), before);
    let partial = Platform::load(&partial_path(&options.path)).unwrap();
    assert_eq!(partial.streams.len(), 10);
    assert_eq!(partial.peak, None);
}

#[test]
fn the_same_seed_draws_the_same_combinations() {
    let dir = tempfile::tempdir().unwrap();
    let draw = |seed| {
        let options = CalibrateOptions { seed, ..options(&dir) };
        let platform =
            measure(&options, machine(), &mut FakeBus::new(2, 40.0), &mut |_| (), &GO_ON).unwrap();
        platform.combinations.into_iter().map(|point| point.seeds).collect::<Vec<_>>()
    };
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));
}

#[test]
fn a_file_that_cannot_be_written_is_an_error_at_the_first_point() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    let mut options = options(&dir);
    options.path = dir.path().join("file/platform.toml");
    let mut bus = FakeBus::new(2, 40.0);
    assert!(measure(&options, machine(), &mut bus, &mut |_| (), &GO_ON).is_err());
    assert_eq!(bus.runs, 1);
}

#[test]
fn a_calibration_holds_until_the_bus_changes() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(&directory);
    let mut bus = FakeBus::new(2, 40.0);
    let platform = measure(&options, machine(), &mut bus, &mut |_| (), &GO_ON).unwrap();
    let compare = |gb, members| {
        let mut bus = FakeBus::new(members, gb);
        check::compare(&options, &platform, &mut bus, &mut |_| (), &GO_ON)
    };
    let same = compare(40.0, 2).unwrap();
    assert!(same.holds, "{same:?}");
    // A hog alone draws 32 GB/s.
    let cores: Vec<_> = same.figures.iter().map(|figure| figure.cores).collect();
    assert_eq!((cores, same.figures[0].now.as_gb().round()), (vec![1, 2], 32.0));
    let wider = compare(70.0, 2).unwrap();
    assert!(!wider.holds);
    assert!(wider.figures[0].change.abs() < 1e-6, "one core draws as much");
    assert!((wider.figures[1].change - 24.0 / 40.0).abs() < 1e-6, "two draw 64 GB/s");
    assert!(matches!(compare(40.0, 1), Err(CalibrateError::FewerCpus { calibrated: 2, here: 1 })));
}

#[test]
fn an_unfinished_calibration_has_nothing_to_compare_with() {
    let directory = tempfile::tempdir().unwrap();
    let empty = Platform::new(machine(), Effort::Quick);
    let mut bus = FakeBus::new(2, 40.0);
    let found = check::compare(&options(&directory), &empty, &mut bus, &mut |_| (), &GO_ON);
    assert!(matches!(found, Err(CalibrateError::NoPeak)));
    assert_eq!(bus.runs, 0);
}
