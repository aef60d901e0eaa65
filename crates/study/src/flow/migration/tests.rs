use std::num::NonZeroUsize;
use std::path::Path;

use memweir_core::Stop;
use memweir_core::input::Refusal;

use super::super::study::Study;
use super::*;
use crate::ScenarioText;
use crate::sweep::Grid;

/// Half of the memory fits into DRAM; the program is not in the catalog.
const SCENARIO: &str = r#"
machine = "hmmsched"
policies = "os"
[[tasks]]
spans = [{ length_s = 5, read_bandwidth = 1e9, write_bandwidth = 1e9 }]
[migration]
policy = "hot-pages"
elsewhere = "nvm"
dram_mib = 64
footprint_mib = 128
hotness = 1
interval_ms = 500
"#;

fn study(scenario: &str) -> Result<Study, InputError> {
    let text = ScenarioText::new("s.toml", scenario, Path::new("."));
    let no_recordings = |_: &Path| Err(Refusal::new("there are none", "none"));
    Study::read(&text, &[], Grid::default(), &no_recordings)
}

fn run(scenario: &str) -> super::super::report::Run {
    let report = study(scenario)
        .expect("correct")
        .run(&Stop::default(), NonZeroUsize::MIN, |_| {})
        .expect("possible");
    report.points[0].runs[0].clone()
}

#[test]
fn dram_holds_what_fits_and_the_placement_follows() {
    let study = study(SCENARIO).expect("correct");
    let prepared = study.points()[0].prepare(0).expect("no mix");
    let pages = &prepared.pages.as_ref().expect("they may move")[0];
    assert_eq!(pages.inside(), Bytes(64 << 20));
    let placement = prepared.tasks[0].placement;
    assert_eq!(placement, pages.placement());
    assert!((placement.reads[0] + placement.reads[1] - 1.0).abs() < 1e-9, "{placement:?}");
    let hot = SCENARIO.replace("hotness = 1", "hotness = 1\nstart = \"hot\"");
    let hot = self::study(&hot).expect("correct").points()[0].prepare(0).expect("no mix");
    // Harmonic numbers of half of the 32,768 pages and of all.
    let expected = 10.281 / 10.974;
    let share = hot.tasks[0].placement.reads[0];
    assert!((share - expected).abs() < 1e-3, "{share} and not {expected}");
    assert!(placement.reads[0] < share);
}

#[test]
fn moving_pays_where_the_wrong_pages_are_in_dram() {
    let moved = run(SCENARIO);
    let still = run(&SCENARIO.replace("hot-pages", "none"));
    let ideal = run(&SCENARIO.replace("hot-pages\"", "none\"\nstart = \"hot\""));
    assert_eq!((still.copied_bytes, ideal.copied_bytes), (0, 0));
    assert!(moved.copied_bytes > 0);
    assert!(
        moved.turnaround_s < still.turnaround_s,
        "{} {}",
        moved.turnaround_s,
        still.turnaround_s
    );
    assert!(ideal.turnaround_s < moved.turnaround_s, "moving takes time");
    // Alone, the task has its hottest pages in DRAM.
    assert!(moved.tasks[0].slowdown >= 1.0, "{moved:?}");
    assert!((moved.tasks[0].alone_s - ideal.tasks[0].alone_s).abs() < 1e-9, "{moved:?}");
    assert!(
        still.optimum_s.is_some() && moved.optimum_s.is_none(),
        "no bound holds where pages move"
    );
    assert_eq!(moved, run(SCENARIO), "equal scenarios give equal results");
}

#[test]
fn impossible_migrations_are_refused_where_they_stand() {
    for (from, to, said) in [
        ("\"hot-pages\"", "\"hot\"", "s.toml:7: migration.policy: unknown migration policy `hot`"),
        ("\"nvm\"", "\"pram\"", "s.toml:8: migration.elsewhere: `hmmsched` has no memory `pram`"),
        ("\"nvm\"", "\"dram\"", "s.toml:8: migration.elsewhere: `dram` has what the other"),
        ("dram_mib = 64\n", "", "s.toml:6: migration: `dram_mib` is missing"),
        ("hotness = 1", "hotnes = 1", "s.toml:11: migration.hotnes: unknown key"),
        ("interval_ms = 500", "interval_ms = 0", "s.toml:12: migration.interval_ms: 0 is no time"),
        ("\"hmmsched\"", "\"two-node\"", "s.toml:6: migration: `two-node` has 2 nodes"),
        (
            "[migration]",
            "placement = { nvm = 1 }\n[migration]",
            "s.toml:7: migration: it says where",
        ),
        (
            "[[tasks]]",
            "mix = { paper = \"hmmsched-1\", samples = 9 }\n[[tasks]]",
            "s.toml:7: migration: it says where pages are, and so does `mix.samples`",
        ),
    ] {
        assert!(SCENARIO.contains(from), "{from}");
        let refused = study(&SCENARIO.replacen(from, to, 1)).expect_err(to).to_string();
        assert!(refused.starts_with(said), "{refused}\nand not\n{said}");
    }
}
