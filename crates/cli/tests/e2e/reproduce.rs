//! `memweir reproduce`: its files and its refusals.

use crate::support::{World, refusal, stdout_of};

#[test]
fn writes_a_report_and_the_results() {
    let world = World::new();
    let figures = ["reproduce", "hmmsched", "--figure", "table1,3", "--out", "results"];
    let text = stdout_of(world.memweir().args(figures), 0);
    assert!(text.contains("written to results/report.html"), "{text}");
    let page = world.read("results/report.html");
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("Figure 3"), "{page}");
    // The paper's constants, and what follows from them: nothing that could have failed.
    assert!(text.starts_with("0 of 0 judged comparisons agree"), "{text}");
    assert!(text.contains("9 match without being evidence"), "{text}");
    let results = world.json("results/results.json");
    assert_eq!(results["memweir"]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(results["memweir"]["arguments"][1], "hmmsched");
    assert_eq!(results["score"]["input"]["no_evidence"], 6);
    assert_eq!(results["score"]["construction"]["no_evidence"], 3);
    assert_eq!((&results["paper"], &results["effort"]), (&"hmmsched".into(), &"full".into()));
    let lines = results["comparisons"].as_array().expect("an array");
    assert_eq!(lines.len(), 9);
    let fields = "item figure quantity paper ours unit kind decided_by ratio band verdict note";
    for line in lines {
        for field in fields.split(' ') {
            assert!(line.get(field).is_some(), "{field} is missing in {line}");
        }
    }
}

#[test]
fn a_figure_of_the_bank_level_machine() {
    let world = World::new();
    let figure = ["reproduce", "bpm", "--figure", "streamcluster", "--quick", "--out", "results"];
    let text = stdout_of(world.memweir().args(figure), 0);
    assert!(text.contains("4 threads: less time"), "{text}");
    let results = world.json("results/results.json");
    let lines = results["comparisons"].as_array().expect("an array");
    assert!(lines.iter().all(|line| line["item"] == "B8" && line["ours"].is_number()), "{lines:?}");
    assert!(world.read("results/report.html").contains("Streamcluster"));
}

#[test]
fn lists_the_figures() {
    let world = World::new();
    let text = stdout_of(world.memweir().args(["reproduce", "iabw", "--list"]), 0);
    for figure in ["1b", "table1", "9", "15"] {
        assert!(text.lines().any(|line| line.split_whitespace().next() == Some(figure)), "{text}");
    }
}

#[test]
fn unknown_figures_and_papers_are_refused_with_the_nearest() {
    let world = World::new();
    let unknown = ["reproduce", "iabw", "--figure", "tabel1", "--out", "results"];
    let message = refusal(world.memweir().args(unknown), 2);
    assert!(message.contains("unknown figure `tabel1`"), "{message}");
    assert!(message.contains("did you mean `table1`?"), "{message}");
    assert!(!world.has("results"));
    let message = refusal(world.memweir().args(["reproduce", "iabv"]), 2);
    assert!(message.contains("iabw"), "{message}");
}

#[test]
fn results_that_cannot_be_written_are_a_failure_of_their_own() {
    let world = World::new();
    let file = world.file("results", "a file where the directory should be");
    let arguments = ["reproduce", "hmmsched", "--figure", "table1", "--out", "results"];
    let message = refusal(world.memweir().args(arguments), 4);
    assert!(message.contains("cannot write"), "{message}");
    assert!(file.is_file());
}

/// `bpm` in full takes minutes: the refusal comes before any figure is made.
#[test]
fn a_directory_that_cannot_be_written_is_refused_before_the_work() {
    let world = World::new();
    let message = refusal(world.memweir().args(["reproduce", "bpm", "--out", "/proc/x"]), 4);
    assert!(message.contains("cannot write /proc/x/report.html"), "{message}");
    std::fs::create_dir_all(world.path().join("taken/report.html")).expect("directories");
    let message = refusal(world.memweir().args(["reproduce", "bpm", "--out", "taken"]), 4);
    assert!(message.contains("cannot write taken/report.html"), "{message}");
}
