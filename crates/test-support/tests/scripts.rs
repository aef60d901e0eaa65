//! The scripts that judge: tests, skips, costs of the kernel series, benchmarks, tables of the
//! manual, and kernel tests in CI.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use memweir_test_support::root;

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

/// `scripts/tests.sh` with a cargo whose first run fails in `failed` of the target `target`, and
/// whose later ones fail unless the test is among `steady`.
fn tested(target: &str, failed: &[&str], steady: &[&str]) -> (Option<i32>, String) {
    let directory = tempfile::tempdir().unwrap();
    let names: String = failed.iter().map(|name| format!("    {name}\n")).collect();
    let first = format!(
        "test paged::a ... FAILED\n\nfailures:\n\n---- paged::a stdout ----\n    word\n\n\
         failures:\n{names}\ntest result: FAILED. 3 passed\n\n\
         error: 1 target failed:\n    `{target}`\n"
    );
    std::fs::write(directory.path().join("first"), first).unwrap();
    std::fs::write(directory.path().join("steady"), steady.join("\n")).unwrap();
    let cargo = "#!/bin/sh\nfor last; do :; done\ncase $* in\n\
                 *--exact*) grep -qx \"$last\" steady ;;\n\
                 *) cat first; exit 101 ;;\nesac\n";
    let file = directory.path().join("cargo");
    std::fs::write(&file, cargo).unwrap();
    let mut command = Command::new("sh");
    command.arg("-c").arg("chmod +x ./cargo && exec \"$0\" ./cargo");
    command.arg(root().join("scripts/tests.sh")).current_dir(directory.path());
    outcome(&command.output().unwrap())
}

#[test]
fn an_end_to_end_test_that_passes_alone_is_listed_and_any_other_failure_stands() {
    let (end_to_end, both) = ("-p memweir --test e2e", ["paged::a", "colors::b"]);
    let (code, text) = tested(end_to_end, &both, &both);
    assert_eq!(code, Some(0), "{text}");
    for test in both {
        assert!(text.contains(&format!("unsteady    {test}: failed beside")), "{text}");
    }
    let many = ["paged::a", "paged::b", "paged::c", "paged::d"];
    for (target, failed, steady) in [
        (end_to_end, &both[..], &both[..1]),
        (end_to_end, &many, &many),
        // The tests ended without a list.
        (end_to_end, &[], &[]),
        ("-p memweir-flow --lib", &both, &both),
        ("-p memweir --test e2e`\n    `-p memweir-flow --lib", &both, &both),
    ] {
        let (code, text) = tested(target, failed, steady);
        assert_eq!(code, Some(101), "{target} {failed:?}: {text}");
        assert!(!text.contains("unsteady"), "{text}");
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
    let own = ["scripts/performance.py", "scripts/figures.py", "docs/performance.md"];
    let own = own.map(PathBuf::from);
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

#[test]
fn figures_have_the_statistics_and_verdicts_of_their_examples() {
    let mut command = Command::new("python3");
    command.args(["-m", "doctest"]).arg(root().join("scripts/figures.py"));
    assert_eq!(outcome(&command.output().unwrap()), (Some(0), String::new()));
}

/// Two benches, of which the first fails, and rows with every kind of budget.
const TABLES: &str = r#"
[bench.broken]
command = "exit 3"

[bench.good]
set = { MEMWEIR_PAIRS = "7" }
command = "cat pairs.txt >>$MEMWEIR_ROWS"

[reason]
"A reason" = "It is known."

[[table.one]]
what = "point"
bench = "good"
figures = ["point"]
measured = "{0.median:.1f} us"
at_most = 6
tolerated = 8
unit = " us"
reason = "A reason"

[[table.one]]
what = "rate"
bench = "good"
figures = ["rate"]
measured = "{0.median:.0f}"
at_least = 100

[[table.one]]
what = "pairs"
bench = "good"
figures = ["pairs"]
measured = "{0.usual:+.1f} % ({0.low:+.1f} to {0.high:+.1f} %)"
judged = "interval"
at_most = 5
unit = " %"
"#;

/// A tree of these scripts and tables, in which the bench `good` measures these rows.
fn tree_of_tables(tables: &str, rows: &str) -> tempfile::TempDir {
    let tree = tempfile::tempdir().unwrap();
    for folder in ["scripts", "docs", "evidence/performance"] {
        std::fs::create_dir_all(tree.path().join(folder)).unwrap();
    }
    for script in ["scripts/performance.py", "scripts/figures.py"] {
        std::fs::copy(root().join(script), tree.path().join(script)).unwrap();
    }
    let blocks = ["one", "machines", "reasons"]
        .map(|name| format!("<!-- {name}: scripts/performance.py -->\n<!-- end -->\n"));
    for (file, text) in [
        ("evidence/performance/tables.toml", tables),
        ("docs/performance.md", &blocks.concat()),
        ("pairs.txt", rows),
    ] {
        std::fs::write(tree.path().join(file), text).unwrap();
    }
    let git = ["init -q", "add .", "-c user.name=a -c user.email=a@b commit -qm a"];
    for arguments in git {
        let mut command = Command::new("git");
        // Without what the user's own configuration asks of a commit.
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").current_dir(&tree);
        command.args(arguments.split(' '));
        assert!(command.status().unwrap().success(), "{arguments}");
    }
    tree
}

/// `scripts/performance.py` in a tree: the exit code, and both outputs.
fn performance(tree: &tempfile::TempDir, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(tree.path().join("scripts/performance.py"));
    let command = command.args(arguments).env_remove("CI").env_remove("MEMWEIR_PAIRS");
    let output = command.env_remove("CARGO_TARGET_DIR").output().unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    (output.status.code(), text)
}

/// Rows of the figures of [`TABLES`].
fn measured(point: f64, rate: f64, pairs: [i32; 8]) -> String {
    let pairs: String = pairs.iter().map(|pair| format!("\"pairs\",%,{pair}\n")).collect();
    format!("\"point\",us,{point}\n\"rate\",per s,{rate}\n{pairs}")
}

/// The lines of an output that begin with this verdict.
fn with_verdict<'t>(text: &'t str, verdict: &str) -> Vec<&'t str> {
    text.lines().filter(|line| line.starts_with(verdict)).collect()
}

#[test]
fn benches_fail_beyond_a_budget_or_the_ceiling_of_a_known_miss() {
    let within = [-1, 0, 1, 2, 0, 1, -1, 2];
    let around = [1, 2, 3, 4, 5, 6, 7, 8];
    let beyond = [6, 7, 8, 9, 6, 7, 8, 9];
    for (rows, code, said) in [
        (measured(7.9, 101.0, within), 0, "known miss"),
        (measured(8.1, 101.0, within), 1, "REGRESSION"),
        (measured(5.0, 99.0, within), 1, "MISSED"),
        (measured(5.0, 101.0, around), 0, "not shown"),
        (measured(5.0, 101.0, beyond), 1, "MISSED"),
    ] {
        let tree = tree_of_tables(TABLES, &rows);
        let (found, text) = performance(&tree, &["bench", "good"]);
        assert_eq!(found, Some(code), "{text}");
        assert_eq!(with_verdict(&text, said).len(), 1, "{text}");
        assert_eq!(with_verdict(&text, "kept").len(), 2, "{text}");
    }
    let tree = tree_of_tables(TABLES, &measured(5.0, 101.0, within));
    let (code, text) = performance(&tree, &["bench", "good"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("point (remove its ceiling if no host misses it)\n"), "{text}");
}

#[test]
fn every_bench_runs_and_is_judged_though_one_failed() {
    let tree = tree_of_tables(TABLES, &measured(7.0, 101.0, [0; 8]));
    let (code, text) = performance(&tree, &["bench"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("exit 3: exit code 3\n"), "{text}");
    assert!(text.contains("known miss "), "{text}");
    let (_, text) = performance(&tree, &["bench", "goof"]);
    assert_eq!(text, "no bench goof; there are broken, good\n");
}

#[test]
fn figures_that_were_not_measured_fail_in_ci_alone() {
    let tree = tree_of_tables(TABLES, "\"rate\",per s,101\n");
    let (code, text) = performance(&tree, &["bench", "good"]);
    assert_eq!((code, with_verdict(&text, "not measured").len()), (Some(0), 2), "{text}");
    let mut command = Command::new(tree.path().join("scripts/performance.py"));
    let rows = tree.path().join("target/performance");
    let output = command.arg("judge").arg(rows).env("CI", "true").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn measurements_are_those_of_a_commit_and_make_the_rows_of_the_page() {
    let tree = tree_of_tables(TABLES, &measured(7.0, 101.0, [1, 2, 3, 4, 1, 2, 3, 4]));
    let page = || std::fs::read_to_string(tree.path().join("docs/performance.md")).unwrap();
    assert_eq!(performance(&tree, &["draw"]), (Some(0), String::new()));
    assert!(!page().contains("| pairs") && !page().contains("| point"), "{}", page());

    // A page drawn anew is no change of the tree.
    let (code, text) = performance(&tree, &["measure", "good"]);
    assert_eq!(code, Some(0), "{text}");
    let rows = tree.path().join("evidence/performance/good.csv");
    let text = std::fs::read_to_string(&rows).unwrap();
    let mut head = text.lines();
    assert_eq!(head.next(), Some("# MEMWEIR_PAIRS=7 cat pairs.txt >>$MEMWEIR_ROWS"));
    assert!(!head.next().unwrap().contains("dirty"), "{text}");
    assert_eq!(performance(&tree, &["draw", "--check"]).0, Some(1));
    assert_eq!(performance(&tree, &["draw"]), (Some(0), String::new()));
    let drawn =
        ["| point | 6 us | **7.0 us** |", "| pairs | +5 % | +2.5 % (", "- **A reason.** It"];
    assert!(drawn.iter().all(|line| page().contains(line)), "{}", page());

    std::fs::write(tree.path().join("pairs.txt"), measured(1.0, 1.0, [0; 8])).unwrap();
    let (code, error) = performance(&tree, &["measure", "good"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("uncommitted changes") && error.contains("--dirty"), "{error}");
    assert_eq!(std::fs::read_to_string(&rows).unwrap(), text, "the rows are as they were");
    assert_eq!(performance(&tree, &["measure", "--dirty", "good"]).0, Some(0));
    assert!(std::fs::read_to_string(&rows).unwrap().contains("-dirty\n"));
}

#[test]
fn tables_that_contradict_themselves_are_refused() {
    for (from, to, said) in [
        ("reason = \"A reason\"\n", "", "`point`: one of at_most and at_least; tolerated needs"),
        ("judged = \"interval\"", "judged = \"mean\"", "`mean` is none of median, p99,"),
        ("at_least = 100", "at_lest = 100", "unexpected keyword argument 'at_lest'"),
        ("\"A reason\" =", "\"Another\" =", "reasons without a row"),
        ("bench = \"good\"\nfigures = [\"rate\"]", "bench = \"god\"\nfigures = []", "no bench god"),
    ] {
        assert!(TABLES.contains(from), "{from}");
        let tree = tree_of_tables(&TABLES.replace(from, to), "");
        let (code, error) = performance(&tree, &["draw"]);
        assert_eq!(code, Some(1), "{error}");
        assert!(error.contains(said), "{error}");
    }
}
