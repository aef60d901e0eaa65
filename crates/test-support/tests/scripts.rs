//! The scripts that judge: skips, costs of the kernel series, benchmarks, tables of the manual, and
//! kernel tests in CI.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("a workspace").to_owned()
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// Exit code and standard output.
fn outcome(output: &Output) -> (Option<i32>, String) {
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// `scripts/skips.sh` on a machine of these kinds.
fn judged(skips: &str, allowed: &str, machine: &str) -> (Option<i32>, String) {
    let directory = tempfile::tempdir().unwrap();
    let (file, list) = (directory.path().join("skips"), directory.path().join("allowed"));
    std::fs::write(&file, skips).unwrap();
    std::fs::write(&list, allowed).unwrap();
    let mut command = Command::new(root().join("scripts/skips.sh"));
    outcome(&command.args([file, list]).env("SKIPS_MACHINE", machine).output().unwrap())
}

#[test]
fn a_skip_is_allowed_by_machine_reason_and_test() {
    let skips =
        "perf::counts\tkernel\tno perf events here\nbatch::full_disk\tprivilege\tonly root\n";
    let allowed = "# a comment\nvirtual kernel perf::*\n\nuser privilege batch::full_disk\n";
    let (code, text) = judged(skips, allowed, "any virtual user");
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("skipped     perf::counts (kernel): no perf events here\n"), "{text}");
    assert!(text.ends_with("2 skipped, 0 of them not allowed here (any virtual user)\n"), "{text}");
    for (skips, allowed, machine) in [
        // The machine is of another kind.
        (skips, allowed, "any user"),
        // The reason is another one.
        ("perf::counts\tprogram\tno perf\n", allowed, "virtual"),
        // Dots and ends of names stand for themselves.
        ("perfx::counts\tkernel\tno perf\n", "any kernel perf.::counts\n", "any"),
        ("perf::counts\tkernel\tno perf\n", "any kernel perf::count\n", "any"),
    ] {
        let (code, text) = judged(skips, allowed, machine);
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains("NOT ALLOWED perf"), "{text}");
    }
}

#[test]
fn skips_of_the_same_test_count_once() {
    let (code, text) = judged("a::b\tkernel\tx\na::b\tkernel\tx\n", "any kernel a::*\n", "any");
    assert_eq!((code, text.lines().count()), (Some(0), 2), "{text}");
}

#[test]
fn a_damaged_list_of_allowed_skips_is_an_error() {
    let (code, text) = judged("a::b\tkernel\tx\n", "any kernel a::b\nany kernel\n", "any");
    assert_eq!(code, Some(1));
    assert!(text.contains("not `MACHINE REASON TEST`: any kernel"), "{text}");
}

#[test]
fn the_list_of_allowed_skips_is_well_formed() {
    let text = std::fs::read_to_string(root().join("scripts/skips.allowed")).unwrap();
    let reasons = ["privilege", "program", "kernel", "processor", "present", "elusive", "busy"];
    let machines = ["any", "user", "virtual", "container"];
    for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        let [machine, reason, test] = line.split_whitespace().collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        assert!(machines.contains(&machine) && reasons.contains(&reason), "{line}");
        assert!(test.contains("::"), "{line}");
    }
}

/// The budgets of a suite, judged as `kernel/test/run.sh` does it.
fn within_budgets(suite: &str, stock: &Path, series: &Path) -> (Option<i32>, String) {
    let script = "baseline='' budgets=''; . ./suites/$0.suite; . ./lib/costs.sh; \
                  echo \"$budgets\" | within_budgets \"$1\" \"$2\"";
    let mut command = Command::new("sh");
    command.current_dir(root().join("kernel/test")).args(["-euc", script, suite]);
    outcome(&command.arg(stock).arg(series).output().unwrap())
}

#[test]
fn costs_of_the_kernel_series_are_held_against_their_budgets() {
    let (stock, series) = (data("fault-cost-stock.log"), data("fault-cost.log"));
    let (code, text) = within_budgets("fault-cost", &stock, &series);
    assert_eq!(code, Some(0), "{text}");
    // 128 of 6,930 instructions are 1.85 %, 27 of 6,832 are 0.40 %.
    assert!(text.contains("PASS colored: 7058, stock 6930: +1.85 %, budget 2 %\n"), "{text}");
    assert!(text.contains("PASS map loaded: 6859, stock 6832: +0.40 %, budget 0.5 %\n"), "{text}");
    assert_eq!(text.matches("PASS").count(), 6, "{text}");

    let directory = tempfile::tempdir().unwrap();
    let changed = |from: &str, to: &str| {
        let text = std::fs::read_to_string(&series).unwrap();
        assert!(text.contains(from));
        let file = directory.path().join("series.log");
        std::fs::write(&file, text.replace(from, to)).unwrap();
        within_budgets("fault-cost", &stock, &file)
    };
    // 0.5 % of 6,832 are 34.16 instructions, 2 % of 6,930 are 138.6.
    assert_eq!(changed("loaded: 6859", "loaded: 6866").0, Some(0));
    for (from, to, said) in [
        ("loaded: 6859", "loaded: 6867", "FAIL map loaded: 6867, stock 6832: +0.51 %"),
        ("colored: 7058", "colored: 7069", "FAIL colored: 7069, stock 6930: +2.01 %"),
        ("COST colored: ", "colored: ", "FAIL colored: not measured"),
    ] {
        let (code, text) = changed(from, to);
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains(said), "{text}");
    }
    let (code, _) = within_budgets("fault-cost", &directory.path().join("missing"), &series);
    assert_eq!(code, Some(1), "a baseline that did not run");
    let (code, _) = within_budgets("fault-cost-direct-read", &stock, &series);
    assert_eq!(code, Some(0));
}

/// The verdict of `kernel/test/run.sh review` on the output of two builds.
fn reviewed(stock: &str, series: &str) -> String {
    let script = "say() { echo \"$*\"; }; failed() { say \"FAIL $*\"; }; \
                  scratch=$0 tree=/tree reviewed=series; . ./lib/review.sh; \
                  for build in stock series; do \
                      warnings_in \"$0/$build.log\" >\"$0/$build\"; \
                  done; review_outcome warnings \"$0/stock\" \"$0/series\"";
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("stock.log"), stock).unwrap();
    std::fs::write(directory.path().join("series.log"), series).unwrap();
    let mut command = Command::new("sh");
    command.current_dir(root().join("kernel/test")).args(["-euc", script]);
    let (code, text) = outcome(&command.arg(directory.path()).output().unwrap());
    assert_eq!(code, Some(0), "{text}");
    text
}

#[test]
fn a_kernel_series_is_reviewed_by_the_warnings_that_it_adds() {
    let stock = "../mm/a.c:10:5: warning: unused\nmm/a.c: note: in included file\n";
    let pass = "PASS review of series: warnings\n";
    // A patch moves lines, and trees lie in several places.
    assert_eq!(reviewed(stock, "/tree/mm/a.c:12:7: warning: unused\n"), pass);
    assert_eq!(reviewed(stock, ""), pass, "one less");
    for line in [
        "mm/b.c:10:5: warning: unused",
        "mm/a.c:10:5: error: unused",
        "a.rst:3: ERROR: indentation",
    ] {
        let text = reviewed(stock, &format!("{stock}{line}\n"));
        let end = line.rsplit(": ").next().unwrap();
        assert!(text.starts_with("FAIL review of series: warnings:\n"), "{text}");
        assert!(text.lines().count() == 2 && text.contains(end), "{text}");
    }
}

/// Criterion's record of a benchmark that was compared: the change of its mean, 95 %.
fn change(directory: &Path, name: &str, low: f64, high: f64) {
    let directory = directory.join("criterion").join(name).join("change");
    std::fs::create_dir_all(&directory).unwrap();
    let interval = format!(
        "{{\"confidence_interval\":{{\"confidence_level\":0.95,\"lower_bound\":{low},\
         \"upper_bound\":{high}}},\"point_estimate\":{low},\"standard_error\":0.01}}"
    );
    let text = format!("{{\"mean\":{interval},\"median\":{interval}}}");
    std::fs::write(directory.join("estimates.json"), text).unwrap();
}

#[test]
fn benchmarks_that_are_slower_beyond_doubt_fail() {
    let directory = tempfile::tempdir().unwrap();
    let judged = || {
        let mut command = Command::new(root().join("scripts/slower.sh"));
        outcome(&command.arg("judge").arg(directory.path()).output().unwrap())
    };
    assert_ne!(judged().0, Some(0), "nothing was compared");
    change(directory.path(), "decision/8 jobs", -0.02, 0.01);
    change(directory.path(), "engine", 0.05, 0.5);
    let (code, text) = judged();
    assert_eq!(code, Some(0), "{text}");
    assert!(text.ends_with("2 benchmarks compared, 0 slower\n"), "{text}");
    change(directory.path(), "bank", 0.11, 0.14);
    let (code, text) = judged();
    assert_ne!(code, Some(0), "{text}");
    assert!(text.contains("SLOWER bank: mean at least +11.0 %\n"), "{text}");
}

/// A command on a machine that has no tools to build or boot kernels with.
fn without_tools(directory: &Path, script: &str, arguments: &[&str]) -> Command {
    let bin = directory.join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    // Enough to get as far as the look for tools.
    for tool in ["sh", "dirname", "uname", "mkdir", "nproc", "tr", "sed", "uniq"] {
        let found = ["/bin", "/usr/bin"].map(|place| Path::new(place).join(tool));
        let found = found.iter().find(|path| path.exists()).expect(tool);
        if !bin.join(tool).exists() {
            std::os::unix::fs::symlink(found, bin.join(tool)).unwrap();
        }
    }
    let mut command = Command::new(root().join(script));
    command.args(arguments).env_clear().env("PATH", &bin);
    command.env("KERNEL_TEST_DIR", directory.join("work"));
    command.env("KERNEL_TEST_CACHE", directory.join("cache"));
    command
}

#[test]
fn kernel_tests_without_their_tools_fail_in_ci_and_are_skipped_elsewhere() {
    let directory = tempfile::tempdir().unwrap();
    let run = |ci: &str| {
        let mut command = without_tools(directory.path(), "kernel/test/run.sh", &["test"]);
        command.env("CI", ci).output().unwrap()
    };
    let elsewhere = run("");
    assert_eq!(elsewhere.status.code(), Some(0), "{elsewhere:?}");
    assert!(String::from_utf8_lossy(&elsewhere.stdout).contains("SKIPPED: kernel-test: missing:"));
    let ci = run("true");
    assert_eq!(ci.status.code(), Some(1), "{ci:?}");
    assert!(String::from_utf8_lossy(&ci.stderr).contains("CI must run these tests: missing:"));
}

#[test]
fn a_night_goes_on_after_a_part_that_failed_and_fails() {
    let directory = tempfile::tempdir().unwrap();
    let parts = ["costs", "planted"];
    let night = without_tools(directory.path(), "scripts/nightly.sh", &parts).output().unwrap();
    assert_eq!(night.status.code(), Some(1), "{night:?}");
    assert_eq!(String::from_utf8_lossy(&night.stdout), "nightly: costs\nnightly: planted\n");
    let errors = String::from_utf8_lossy(&night.stderr);
    assert!(errors.ends_with("nightly: failed: costs planted\n"), "{errors}");
}

/// `scripts/performance.py draw --check` in a copy of its files below `directory`.
fn checked_tables(directory: &Path) -> Output {
    Command::new(directory.join("scripts/performance.py"))
        .args(["draw", "--check"])
        .output()
        .unwrap()
}

#[test]
fn tables_of_the_performance_page_are_drawn_from_the_rows() {
    let output = checked_tables(&root());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let directory = tempfile::tempdir().unwrap();
    let rows = "evidence/performance";
    for folder in ["scripts", "docs", rows] {
        std::fs::create_dir_all(directory.path().join(folder)).unwrap();
    }
    let own = ["scripts/performance.py".into(), "docs/performance.md".into()];
    let evidence = std::fs::read_dir(root().join(rows)).unwrap();
    let evidence = evidence.map(|entry| Path::new(rows).join(entry.unwrap().file_name()));
    for file in own.into_iter().chain(evidence) {
        std::fs::copy(root().join(&file), directory.path().join(&file)).unwrap();
    }
    assert!(checked_tables(directory.path()).status.success());
    // The longest time of fifty is in the table.
    let kills = directory.path().join(rows).join("kill.csv");
    let text = std::fs::read_to_string(&kills).unwrap();
    std::fs::write(&kills, text + "\"SIGKILL to the last job thawed\",ms,900\n").unwrap();
    let output = checked_tables(directory.path());
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("performance.md is not what the rows say"), "{error}");
}
