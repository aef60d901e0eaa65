//! Real programs, profiled from end to end: natively by software events, and under the emulator.

use std::fs;
use std::path::{Path, PathBuf};

use memweir_abi::softpmu::Sampling;
use memweir_core::Bytes;
use memweir_core::Nanos;
use memweir_core::cache::{CacheGeometry, CacheHierarchy};
use memweir_linux::MeterKind;
use memweir_linux::launch::Signals;
use memweir_linux::qemu::{Qemu, QemuPaths};
use memweir_run::profile::{
    Check, Isolation, ProfileError, ProfileOptions, ProfileProgress, Profiled, profile,
};
use memweir_run::recording::Recording;
use memweir_run::store::{Invocation, ProgramKey, Store};

fn options() -> ProfileOptions {
    let cache = |size, ways| CacheGeometry { size: Bytes(size), ways, line: 64 };
    ProfileOptions {
        meter: Some(MeterKind::Software),
        // Small, so that small programs miss them.
        caches: Some(CacheHierarchy {
            l1d: cache(32 << 10, 8),
            l2: cache(256 << 10, 8),
            llc: cache(2 << 20, 16),
        }),
        ..ProfileOptions::default()
    }
}

/// Options without those that the software meter alone can follow.
fn native() -> ProfileOptions {
    ProfileOptions { caches: None, ..options() }
}

fn program(path: &str, arguments: &[&str], directory: &Path) -> Invocation {
    Invocation {
        program: PathBuf::from(path),
        argv: [path].iter().chain(arguments).map(Into::into).collect(),
        directory: directory.to_owned(),
        env: std::collections::BTreeMap::new(),
        stdin: None,
    }
}

/// Returns a directory for programs that the emulator runs; `None` where that is missing.
fn emulated() -> Option<tempfile::TempDir> {
    if let Err(error) = Qemu::find(&QemuPaths::default()) {
        memweir_test_support::skip!(Program, "{error}");
        return None;
    }
    Some(tempfile::tempdir().unwrap())
}

fn signals() -> Signals {
    Signals::caught().unwrap()
}

fn run(invocation: &Invocation, options: &ProfileOptions) -> Profiled {
    profile(invocation, options, &signals(), &mut |_| ()).unwrap()
}

/// A file of lines in no order, larger than the last-level cache of the tests.
fn unsorted(directory: &Path) -> PathBuf {
    let mut state = 1_u32;
    let text: String = (0..200_000)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            format!("{state:010}\n")
        })
        .collect();
    let path = directory.join("unsorted");
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn a_sort_is_profiled_along_its_native_time() {
    let Some(dir) = emulated() else { return };
    unsorted(dir.path());
    let sort = program("/usr/bin/sort", &["--parallel=1", "unsorted", "-o", "sorted"], dir.path());
    let mut stages = (0, 0);
    let profiled = profile(&sort, &options(), &signals(), &mut |progress| match progress {
        ProfileProgress::Native { .. } => stages.0 += 1,
        ProfileProgress::Emulated { .. } => stages.1 += 1,
        ProfileProgress::Checking { .. } => panic!("nobody asked for a check"),
    })
    .unwrap();
    let report = &profiled.report;
    assert!(stages.0 >= 1 && stages.1 >= 1, "{stages:?}");
    assert_eq!((report.exit_code, report.meter.as_str()), (0, "software"));
    // 200,000 lines of 11 bytes are read once at least: 34,375 lines of memory.
    assert!(report.memory_reads > 34_000, "{}", report.memory_reads);
    assert!(report.memory_writes.unwrap() > 5_000, "{:?}", report.memory_writes);
    assert!(report.instructions.unwrap() > 200_000 * 100, "{:?}", report.instructions);
    assert!(report.cpu_s > 0.0 && report.wall_s > 0.0);
    assert!(report.bandwidth_peak >= report.bandwidth_mean && report.bandwidth_mean > 0.0);
    let reads: u64 = report.intervals.iter().map(|interval| interval.memory_reads).sum();
    assert_eq!(reads, report.memory_reads, "intervals are all of it");
    assert_eq!(report.intervals.len(), (report.cpu_s * 1000.0).ceil() as usize);
    let share: f64 = report.phases.iter().map(|phase| phase.share).sum();
    assert!((share - 1.0).abs() < 1e-6, "{:?}", report.phases);
    let sampling = report.sampling.as_ref().unwrap();
    assert_eq!((sampling.requested.as_str(), sampling.estimated_error), ("all", Some(0.0)));
    assert!(sampling.simulated_share > 0.99, "{sampling:?}");

    // Into the store and a file, and out again.
    let store = Store::open(Some(&dir.path().join("profiles.sqlite"))).unwrap();
    let key = ProgramKey::of(&sort).unwrap();
    profiled.keep(&store, &key).unwrap();
    assert_eq!(store.get(&key).unwrap().unwrap().recording, profiled.recording);
    let file = dir.path().join("sort.parquet");
    profiled.recording.save(&file).unwrap();
    assert_eq!(Recording::load(&file).unwrap(), profiled.recording);
}

#[test]
fn a_program_in_its_caches_reads_almost_nothing_and_its_exit_code_is_kept() {
    let Some(dir) = emulated() else { return };
    let script = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; exit 3";
    let report = run(&program("/bin/sh", &["-c", script], dir.path()), &options()).report;
    assert_eq!(report.exit_code, 3);
    assert!(!report.notices.iter().any(|notice| notice.contains("another course")));
    let instructions = report.instructions.unwrap();
    assert!(instructions > 10_000_000, "{instructions}");
    // Its own start-up misses; the loop does not.
    assert!(report.memory_reads < 40_000, "{}", report.memory_reads);
}

#[test]
fn sampling_says_what_it_simulated_and_how_far_off_it_is() {
    let Some(dir) = emulated() else { return };
    let input = unsorted(dir.path());
    // So long that half of it is sample enough, and the same all along.
    let text = fs::read(&input).unwrap().repeat(4);
    fs::write(&input, text).unwrap();
    let mut gzip = program("/usr/bin/gzip", &["-c"], dir.path());
    gzip.stdin = Some(input);
    let sampled =
        ProfileOptions { sampling: Sampling::Share(0.5), check: Check::FullRun, ..options() };
    let report = run(&gzip, &sampled).report;
    let sampling = report.sampling.unwrap();
    assert_eq!(sampling.requested, "50%");
    assert!((0.3..0.8).contains(&sampling.simulated_share), "{sampling:?}");
    let error = sampling.measured_error.unwrap();
    assert!(error.abs() < 0.6, "{sampling:?}");
}

/// A script that fails if its output is there already.
const ONCE: &str = "test ! -e made && echo made > made && cp given taken && rm given";

#[test]
fn every_run_finds_the_files_as_they_were_and_leaves_them_so() {
    if emulated().is_none() {
        return;
    }
    for isolation in [Isolation::Overlay, Isolation::Copy] {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("given"), "x").unwrap();
        let options = ProfileOptions {
            isolation: Some(isolation),
            sampling: Sampling::Share(0.5),
            check: Check::FullRun,
            ..options()
        };
        let once = program("/bin/sh", &["-c", ONCE], dir.path());
        let profiled = match profile(&once, &options, &signals(), &mut |_| ()) {
            Err(ProfileError::Invalid(error)) if isolation == Isolation::Overlay => {
                memweir_test_support::skip!(Privilege, "{error}");
                continue;
            }
            profiled => profiled.unwrap(),
        };
        let report = &profiled.report;
        assert_eq!((report.exit_code, report.isolation), (0, isolation));
        assert_eq!((&report.unusable, &report.different_end), (&None, &None));
        assert_eq!(report.private, [fs::canonicalize(dir.path()).unwrap()]);
        let left: Vec<_> =
            fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, ["given"], "{isolation:?}");
        // The program removes what it was given, which makes that an input all the same.
        assert_eq!(profiled.inputs.len(), 1, "{:?}", profiled.inputs);
    }
}

#[test]
fn runs_that_share_their_files_and_end_differently_are_not_stored() {
    let Some(dir) = emulated() else { return };
    fs::write(dir.path().join("given"), "x").unwrap();
    let shared = ProfileOptions { isolation: Some(Isolation::None), ..options() };
    let once = program("/bin/sh", &["-c", ONCE], dir.path());
    let profiled = run(&once, &shared);
    let different = profiled.report.different_end.unwrap();
    assert_eq!((different.native, different.emulated), (0, 1));
    let reason = profiled.report.unusable.as_deref().unwrap();
    assert!(reason.contains("the runs share their files"), "{reason}");
    let store = Store::open(Some(&dir.path().join("profiles.sqlite"))).unwrap();
    profiled.keep(&store, &ProgramKey::of(&once).unwrap()).unwrap();
    assert_eq!(store.list().unwrap(), []);
}

#[test]
fn a_program_that_is_killed_is_not_stored() {
    let Some(dir) = emulated() else { return };
    let killed = program("/bin/sh", &["-c", "kill -9 $$"], dir.path());
    let profiled = run(&killed, &options());
    assert_eq!((profiled.report.exit_code, profiled.report.different_end), (137, None));
    assert_eq!(profiled.report.unusable.as_deref(), Some("SIGKILL ended the program"));
    let store = Store::open(Some(&dir.path().join("profiles.sqlite"))).unwrap();
    profiled.keep(&store, &ProgramKey::of(&killed).unwrap()).unwrap();
    assert_eq!(store.list().unwrap(), []);
}

#[test]
fn a_native_meter_samples_the_running_program() {
    let events =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../linux/tests/data/software-events.toml");
    let dir = tempfile::tempdir().unwrap();
    let native =
        ProfileOptions { meter: Some(MeterKind::Perf), perf_events: Some(events), ..native() };
    // Every page of the buffer is a fault, which the file of test events counts as reads.
    let dd = program("/bin/dd", &["if=/dev/zero", "of=/dev/null", "bs=64M", "count=4"], dir.path());
    let report = match profile(&dd, &native, &signals(), &mut |_| ()) {
        Ok(profiled) => profiled.report,
        Err(ProfileError::NoMeter(reason)) => {
            return memweir_test_support::skip!(Kernel, "{reason}");
        }
        Err(error) => panic!("{error}"),
    };
    assert_eq!((report.meter.as_str(), report.exit_code), ("perf", 0));
    assert!(report.memory_reads > 0, "{report:?}");
    assert!(report.sampling.is_none());
    let reads: u64 = report.intervals.iter().map(|interval| interval.memory_reads).sum();
    assert_eq!(reads, report.memory_reads);
}

#[test]
fn wrong_requests_are_refused_before_anything_runs() {
    let dir = tempfile::tempdir().unwrap();
    let touch = program("/usr/bin/touch", &["ran"], dir.path());
    let refuse = |options: &ProfileOptions| {
        profile(&touch, options, &signals(), &mut |_| ()).unwrap_err().to_string()
    };
    let declared = ProfileOptions { meter: Some(MeterKind::Declared), ..options() };
    assert!(refuse(&declared).contains("counts nothing"));
    let short = ProfileOptions { interval: Nanos(10), ..options() };
    assert!(refuse(&short).contains("a millisecond or more"));
    let full = ProfileOptions { check: Check::FullRun, ..options() };
    assert!(refuse(&full).contains("check: a full profile has nothing to be held against"));
    for meter in [MeterKind::Perf, MeterKind::Resctrl].map(Some) {
        let sampling = Sampling::Share(0.1);
        let full = "counts all of a program\n  help: `--sample` needs the software meter";
        assert!(refuse(&ProfileOptions { meter, sampling, ..native() }).ends_with(full));
        let caches = "at the caches of this machine\n  help: `--caches` needs the software meter";
        assert!(refuse(&ProfileOptions { meter, ..options() }).ends_with(caches));
    }
    let unused = |meter, options: ProfileOptions| {
        let perf_events = Some("/nonexistent/events.toml".into());
        refuse(&ProfileOptions { meter, perf_events, ..options })
    };
    let needs_perf = "counts without perf events\n  help: `--events` needs the perf meter";
    for meter in [MeterKind::Software, MeterKind::Resctrl].map(Some) {
        assert!(unused(meter, native()).ends_with(needs_perf));
    }
    // Caches are those of the software meter.
    assert!(unused(None, options()).ends_with(needs_perf));
    let missing = ProfileOptions {
        meter: None,
        perf_events: Some("/nonexistent/events.toml".into()),
        ..native()
    };
    assert!(refuse(&missing).contains("/nonexistent/events.toml"));
    let no_plugin = ProfileOptions {
        qemu: QemuPaths { plugin: Some("/nonexistent/plugin.so".into()), emulator: None },
        ..options()
    };
    assert!(refuse(&no_plugin).contains("/nonexistent/plugin.so"));
    let mut impossible = options();
    impossible.caches.as_mut().unwrap().l2.ways = 0;
    assert!(refuse(&impossible).contains("l2"));
    assert!(!dir.path().join("ran").exists());
}
