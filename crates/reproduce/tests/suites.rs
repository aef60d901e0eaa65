//! Invariants of the data files, and of every report made from them.

use std::collections::BTreeSet;
use std::fs;

use memweir_core::names::Named;
use memweir_reproduce::report::Results;
use memweir_reproduce::score::Agreement;
use memweir_reproduce::source::{Kind, Value};
use memweir_reproduce::{
    Comparison, Effort, Failed, Observer, Options, PaperName, Report, Stop, Unobserved, html,
    manual, reproduce,
};

fn options(figures: &[&str]) -> Options {
    let figures = figures.iter().map(|figure| (*figure).to_owned()).collect();
    Options { effort: Effort::Quick, figures, threads: 2 }
}

fn run(paper: PaperName, figures: &[&str]) -> Report {
    reproduce(paper, &options(figures), &Unobserved).expect("figures that exist")
}

#[test]
fn every_item_of_the_papers_is_shown_or_said_to_be_elsewhere() {
    let papers = [
        (PaperName::Iabw, 'X', 15),
        (PaperName::Hmmsched, 'H', 12),
        (PaperName::Bpm, 'B', 13),
        (PaperName::Drswap, 'D', 10),
        (PaperName::Beyond, 'M', 5),
    ];
    for (paper, letter, count) in papers {
        let suite = paper.suite().unwrap();
        for number in 1..=count {
            let id = format!("{letter}{number}");
            let item = suite.paper.items.iter().find(|item| item.id == id);
            let item = item.unwrap_or_else(|| panic!("{id} is missing"));
            let elsewhere = item.elsewhere.as_deref().is_some_and(|reason| reason.len() > 40);
            assert!(!item.figures.is_empty() || elsewhere, "{id}: neither shown nor explained");
        }
    }
}

#[test]
fn every_statement_says_where_the_paper_says_so() {
    for &paper in PaperName::ALL {
        for figure in paper.suite().unwrap().figures {
            for statement in &figure.statements {
                let name = format!("{} {} {}", paper.name(), figure.id, statement.id);
                assert!(!statement.place.is_empty() && !statement.quantity.is_empty(), "{name}");
                let (Value::Number(paper), Some(_)) = (&statement.paper, statement.test) else {
                    continue;
                };
                let itself = Agreement::of(statement, *paper);
                assert!(!itself.unwrap().misses(), "{name}: the paper disagrees with itself");
            }
        }
    }
}

/// A workload that was drawn to match Table 1 is an input, however well it matches.
#[test]
fn table_1_is_no_evidence() {
    let report = run(PaperName::Iabw, &["table1"]);
    assert_eq!(report.score().kind(Kind::Input).no_evidence, 35);
    assert_eq!(report.score().judged(), 0);
}

/// A number that the paper prints for a direction is a number that could be judged: only bounds and
/// differences that the paper does not print itself are left to their sign.
#[test]
fn a_printed_number_is_judged_by_its_size() {
    let left: Vec<String> = PaperName::ALL
        .iter()
        .flat_map(|paper| paper.suite().unwrap().figures)
        .flat_map(|figure| figure.statements.into_iter().map(move |s| (figure.id.clone(), s)))
        .filter(|(_, s)| s.kind == Kind::Direction && matches!(s.paper, Value::Number(_)))
        .map(|(figure, s)| format!("{figure} {}", s.id))
        .collect();
    let bounds = ["11 order", "12 order", "12 worst", "14 order", "1 lowest"];
    assert_eq!(left, bounds);
}

#[test]
fn an_unknown_figure_is_refused_with_the_nearest() {
    let failed = reproduce(PaperName::Iabw, &options(&["9", "tabel1"]), &Unobserved).unwrap_err();
    let Failed::Input(error) = failed else { panic!("{failed:?}") };
    assert_eq!(error.key.as_deref(), Some("--figure"));
    assert!(error.to_string().contains("did you mean `table1`?"), "{error}");
    // Another number is no misspelling.
    let failed = reproduce(PaperName::Iabw, &options(&["99"]), &Unobserved).unwrap_err();
    assert!(!failed.to_string().contains("did you mean"), "{failed}");
}

/// Hog and the segments come from the solver and the seeds alone.
#[test]
fn small_figures_are_golden() {
    let report = run(PaperName::Iabw, &["1b", "4", "eq7"]);
    let ours = |figure: &str, start: &str| {
        let found = report
            .comparisons()
            .find(|line| line.figure == figure && line.quantity.starts_with(start));
        found.and_then(|line| line.ours).unwrap_or_else(|| panic!("{figure} {start}"))
    };
    // Two Hogs of core peak 34.4 each on a bus of 40: 2 x 20 / 34.4 at full demand, and one percent
    // lost where 40 / demand is 0.99, between two points of the curve.
    assert!((ours("1b", "weighted speedup at the highest") - 40.0 / 34.4).abs() < 1e-3);
    assert!((ours("1b", "system bandwidth at which") - 40.0).abs() < 0.4);
    assert!((ours("1b", "weighted speedup just before") - 2.0).abs() < 1e-3);
    // 17 crossings in 100 ms.
    assert!((ours("4", "period") - 100.0 / 17.0).abs() < 1e-3);
    assert!((ours("eq7", "best") - 1.0).abs() < 1e-9);
}

#[test]
fn transactions_with_nvm_follow_its_costs() {
    let report = run(PaperName::Hmmsched, &["3", "table1"]);
    let ours: Vec<f64> = report.comparisons().filter_map(|line| line.ours).collect();
    // Saturated: reads cost 1 and writes 3, then 3 and 8; eq. (7) makes them equal.
    let figure_3: Vec<f64> =
        report.comparisons().filter(|line| line.figure == "3").filter_map(|l| l.ours).collect();
    for (found, expected) in figure_3.iter().zip([1.0 / 3.0, 3.0 / 8.0, 1.0]) {
        assert!((found - expected).abs() < 1e-6, "{figure_3:?}");
    }
    assert_eq!(ours.len(), 9);
    // The paper's constants, and what follows from them, are no evidence.
    let score = report.score();
    assert_eq!((score.agree(), score.judged(), score.no_evidence()), (0, 0, 9));
}

/// The seeds of the whole run are recorded: two runs give the same results, on any number of
/// threads.
#[test]
fn equal_seeds_give_equal_results() {
    let lines = |threads| {
        let options = Options { threads, ..options(&["6", "2"]) };
        reproduce(PaperName::Iabw, &options, &Unobserved).unwrap().json()
    };
    assert_eq!(lines(1), lines(3));
}

/// The figures that take a second or less as a whole.
#[test]
fn recorded_results_are_those_of_this_build() {
    let quick = [
        (PaperName::Iabw, &["1b", "2", "3", "4", "5", "6", "eq7", "table1", "15"][..]),
        (PaperName::Hmmsched, &["table1", "2", "3", "writes", "7"]),
        (PaperName::Bpm, &["overhead"]),
        (PaperName::Drswap, &["programs"]),
    ];
    for (paper, figures) in quick {
        let name = paper.name();
        let file = format!("{}/../../evidence/reproduce/{name}.json", env!("CARGO_MANIFEST_DIR"));
        let recorded = fs::read_to_string(file).expect("results that are recorded");
        let recorded: Results = serde_json::from_str(&recorded).expect("results");
        let whole = Options { effort: Effort::Full, ..options(figures) };
        let report = reproduce(paper, &whole, &Unobserved).expect("figures that exist");
        for line in report.comparisons() {
            let same = |other: &&Comparison| {
                (&other.figure, &other.quantity) == (&line.figure, &line.quantity)
            };
            let before = recorded.comparisons.iter().find(same);
            let before = before.unwrap_or_else(|| panic!("{name}: {} is new", line.quantity));
            assert_eq!(line.ours, before.ours, "{name} {}: {}", line.figure, line.quantity);
        }
    }
}

/// Runs at bank level are as reproducible as the others.
#[test]
fn equal_seeds_give_equal_banks() {
    let lines = |threads| {
        let options = Options { threads, ..options(&["streamcluster", "overhead"]) };
        reproduce(PaperName::Bpm, &options, &Unobserved).unwrap().json()
    };
    assert_eq!(lines(1), lines(3));
}

/// Whole papers, quickly: every statement has a value, every disagreement an explanation, and the
/// page is well-formed and complete by itself.
#[test]
fn a_quick_run_says_everything_and_explains_what_differs() {
    // At bank level, the figures that take a few runs of the workloads; the others make theirs in
    // the same way.
    let bpm = ["1", "4", "5", "7", "power", "streamcluster", "overhead"];
    for (paper, figures) in [
        (PaperName::Iabw, &[][..]),
        (PaperName::Hmmsched, &[][..]),
        (PaperName::Bpm, &bpm[..]),
        (PaperName::Drswap, &[][..]),
        (PaperName::Beyond, &["hybrid", "bank"][..]),
    ] {
        let report = run(paper, figures);
        assert!(report.missing.is_empty());
        for line in report.comparisons() {
            let name = format!("{} {}: {}", paper.name(), line.figure, line.quantity);
            // One repetition has no spread.
            assert!(line.ours.is_some() || line.figure == "rsd", "{name} has no value");
            if line.verdict.is_some_and(Agreement::misses) {
                assert!(line.note.len() > 60, "{name} is not explained: {}", line.note);
            }
        }
        if paper == PaperName::Beyond {
            let goal = |line: &&Comparison| line.figure == "bank" && line.verdict.is_some();
            assert!(report.comparisons().filter(goal).all(|line| line.item == "M4"));
            assert!(report.comparisons().any(|line| line.item == "M4"), "M4 has no statement");
        }
        check_json(&report);
        check_page(&report);
    }
}

fn check_json(report: &Report) {
    let results: Results = serde_json::from_str(&report.json()).expect("the documented fields");
    assert!(results.comparisons.iter().eq(report.comparisons()));
    let items: BTreeSet<&str> = report.paper.items.iter().map(|item| item.id.as_str()).collect();
    assert!(results.comparisons.iter().all(|line| items.contains(line.item.as_str())));
}

fn check_page(report: &Report) {
    let page = html::page(report).expect("drawings of finite numbers");
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    let document = roxmltree::Document::parse_with_options(&page, options)
        .unwrap_or_else(|error| panic!("not well-formed: {error}"));
    for node in document.descendants().filter(roxmltree::Node::is_element) {
        let name = node.tag_name().name();
        assert!(!["script", "link", "img", "iframe", "object"].contains(&name), "{name}");
        for attribute in node.attributes() {
            let (key, value) = (attribute.name(), attribute.value());
            assert!(!["src", "xlink:href"].contains(&key), "{key}={value}");
            assert!(key != "href" || value.starts_with('#'), "a link that leads away: {value}");
        }
    }
    let score = report.score().to_string();
    let lead = score.split_once(". ").map_or(score.trim_end_matches('.'), |(lead, _)| lead);
    assert!(page.contains(&format!("<p><strong>{lead}.</strong>")), "the score leads the page");
    assert!(!page.contains('`'), "names between backticks are code");
    assert!(!page.contains("http:") && !page.contains("https:") && !page.contains("url("));
    let ids: BTreeSet<&str> = document.descendants().filter_map(|n| n.attribute("id")).collect();
    for node in document.descendants().filter(|node| node.has_tag_name("a")) {
        let target = node.attribute("href").map(|href| &href[1..]);
        assert!(target.is_some_and(|target| ids.contains(target)), "{target:?} leads nowhere");
    }
}

/// Sessions are as reproducible as the others.
#[test]
fn equal_seeds_give_equal_sessions() {
    let lines = |threads| {
        let options = Options { threads, ..options(&["2", "programs"]) };
        reproduce(PaperName::Drswap, &options, &Unobserved).unwrap().json()
    };
    assert_eq!(lines(1), lines(3));
}

/// Recorded results of full runs, as the example `manual` writes them.
fn recorded(paper: PaperName) -> Results {
    let file = root().join(format!("evidence/reproduce/{}.json", paper.name()));
    let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{file:?}: {error}"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{file:?}: {error}"))
}

fn root() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The recorded results are judged by the rules of today, and the manual agrees with them.
#[test]
fn the_manual_says_what_the_results_say() {
    let all: Vec<Results> = PaperName::ALL.iter().copied().map(recorded).collect();
    for (paper, results) in PaperName::ALL.iter().zip(&all) {
        let judged = results.judged_by(&paper.suite().unwrap());
        assert_eq!(judged, *results, "{}: run the example `manual`", paper.name());
        assert!(results.effort == Effort::Full && results.missing.is_empty());
        let figures: BTreeSet<&str> =
            results.comparisons.iter().map(|line| line.figure.as_str()).collect();
        let suite = paper.suite().unwrap();
        assert!(suite.figures.iter().all(|figure| figures.contains(figure.id.as_str())));
    }
    for page in manual::PAGES {
        let text = std::fs::read_to_string(root().join(page.0)).unwrap();
        let filled = manual::filled(page, &text, &all).unwrap();
        assert!(text == filled, "{}: run the example `manual`", page.0);
    }
}

fn full(paper: PaperName, figures: &[&str]) {
    let options = Options { effort: Effort::Full, ..options(figures) };
    let report = reproduce(paper, &options, &Unobserved).unwrap();
    let recorded = recorded(paper);
    let of_figures =
        |line: &&Comparison| figures.is_empty() || figures.contains(&line.figure.as_str());
    let lines: Vec<&Comparison> = recorded.comparisons.iter().filter(of_figures).collect();
    assert_eq!(report.comparisons().collect::<Vec<_>>(), lines, "{}", paper.name());
}

/// A full run gives the recorded results to the last bit; here where that takes a moment.
#[test]
fn full_figures_give_the_recorded_results() {
    full(PaperName::Iabw, &["1b", "2", "4", "table1"]);
    full(PaperName::Hmmsched, &["table1", "2", "3"]);
    full(PaperName::Bpm, &["overhead"]);
}

#[test]
#[ignore = "takes a quarter of an hour"]
fn full_runs_give_the_recorded_results() {
    PaperName::ALL.iter().for_each(|paper| full(*paper, &[]));
}

/// Results are handed over as they come, and the observer can stop the reproduction.
#[test]
fn the_observer_sees_every_figure_and_can_stop() {
    struct AfterOne;
    impl Observer for AfterOne {
        fn finished(&self, report: &Report) -> Result<(), Stop> {
            assert_eq!((report.sections.len(), report.missing.len()), (1, 1));
            Err(Stop)
        }
    }
    let stopped = reproduce(PaperName::Hmmsched, &options(&["table1", "3"]), &AfterOne);
    assert_eq!(stopped.unwrap_err(), Failed::Stopped(Stop));
}
