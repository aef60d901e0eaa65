//! Tests of scenario files, and of their sessions.

use std::num::NonZeroUsize;
use std::path::Path;

use memweir_core::{Direction, Stop};
use memweir_swap::memory::Counts;
use memweir_swap::session::Behavior;
use memweir_trace::{Access, Format, Header, ThreadId, Writer};
use proptest::prelude::*;

use super::study::PageStudy;
use super::{EXAMPLE, PageScenario, Traces};
use crate::ScenarioText;
use crate::sweep::Grid;

fn scenario(text: &str) -> PageScenario {
    let text = ScenarioText::new("scenario.toml", text, Path::new(""));
    PageScenario::read(&text, &[], &Traces::default()).unwrap_or_else(|error| panic!("{error}"))
}

fn refused(text: &str) -> String {
    let text = ScenarioText::new("scenario.toml", text, Path::new(""));
    PageScenario::read(&text, &[], &Traces::default()).expect_err("a mistake").to_string()
}

#[test]
fn equal_seeds_give_equal_sessions_and_others_do_not() {
    let scenario = scenario(&format!("{EXAMPLE}\n[assumed]\nreferences = 20000\n"));
    let kind = &scenario.swaps[3];
    let run = |seed| scenario.session.run(kind, seed);
    assert_eq!(run(7), run(7));
    assert_ne!(run(7).counts, run(8).counts);
    let outcome = run(7);
    let sum = outcome.by_app.iter().fold(Counts::default(), |sum, counts| sum + *counts);
    assert_eq!(sum, outcome.counts);
    assert_eq!((outcome.switches.len(), outcome.duration.0), (15, 900.0));
}

#[test]
fn no_run_begins_after_a_request_to_stop() {
    let text = ScenarioText::new("scenario.toml", EXAMPLE, Path::new(""));
    let study = PageStudy::read(&text, &[], Grid::default()).expect("a scenario");
    let stop = Stop::default();
    stop.request();
    let stopped = study.run(&stop, NonZeroUsize::MIN, |_| panic!("a run")).expect_err("a stop");
    assert_eq!(stopped.to_string(), "scenario.toml: stopped before its end");
}

#[test]
fn what_is_wrong_in_a_scenario_is_refused_with_its_line() {
    let base = "swaps = \"nvm\"\ndram_mib = 64\nswap_mib = 48\n";
    for (text, said) in [
        ("group = \"browsers\"", "scenario.toml:4: group: unknown group `browsers`"),
        ("", "there is no application"),
        ("group = \"news\"\npolicy = \"lru\"", "unknown victim policy `lru`"),
        ("group = \"news\"\n[assumed]\nwrites = 2", "assumed.writes: 2 is no share"),
        ("group = \"social\"", "Facebook needs 123"),
        ("[[apps]]\nfootprint_mib = 4", "leaves nothing"),
        ("[[apps]]\napp = \"Fierfox\"", "did you mean `Firefox`"),
        ("[[apps]]\nfootprint_mib = 20\nreferences = 10", "allocates more pages"),
        ("group = \"news\"\n[assumed]\nreferences = 10", "group: it allocates more pages"),
        ("group = \"news\"\n[assumed]\nring_mib = 900", "group: a ring of 900 MiB leaves"),
        ("[[apps]]\ntrace = \"none.mwt\"", "none.mwt"),
        (
            "[[apps]]\ntrace = \"a\"\nwrites = 0.5",
            "scenario.toml:6: apps[0].writes: `trace` says it already",
        ),
        (
            "[[apps]]\nfootprint_mib = 20\nper_size = 2",
            "scenario.toml:6: apps[0].per_size: `footprint_mib` says it already",
        ),
        ("group = \"news\"\nkiller = \"x\"", "unknown killer `x`"),
    ] {
        let error = refused(&format!("{base}{text}\n"));
        assert!(error.contains(said), "{error} and not {said}");
    }
    assert!(
        refused("dram_mib = 64\nswaps = [\"nvm\", \"nvm\"]\ngroup = \"news\"").contains("twice")
    );
    let misspelt = refused("dram_mib = 64\nswaps = \"nvm-cpy\"\ngroup = \"news\"");
    assert!(misspelt.contains("did you mean `nvm-copy`"), "{misspelt}");
}

/// An application of 8 MiB, with 4 MiB of DRAM and so much swap.
fn needs_8_mib(swap_mib: &str) -> String {
    format!(
        "swaps = [\"nvm\", \"nvm-copy\"]\ndram_mib = 4\nswap_mib = {swap_mib}\n[[apps]]\n\
         name = \"a\"\nfootprint_mib = 8\nring_mib = 1\nallocated_mib = 1\nreferences = 20000\n"
    )
}

#[test]
fn an_application_that_fits_is_not_killed() {
    // With a slot of swap less, DRAM and swap are full and no evicted page can return.
    for full in ["4", "4.001"] {
        let error = refused(&needs_8_mib(full));
        assert!(error.contains("a needs 8 MiB, DRAM and swap are 8"), "{error}");
    }
    let fits = scenario(&needs_8_mib("4.00390625"));
    for kind in &fits.swaps {
        let outcome = fits.session.run(kind, 1);
        assert_eq!(outcome.counts.killed, 0, "{}", kind.name);
        assert!(outcome.counts.copies_in > 0, "{}", kind.name);
    }
}

proptest! {
    #[test]
    fn no_scenario_is_too_odd(text in "[a-z_]{1,8} = [0-9.\"a-z\\[\\]]{0,12}\n") {
        let text = ScenarioText::new("s.toml", &text, Path::new(""));
        let _ = PageScenario::read(&text, &[], &Traces::default());
    }
}

#[test]
fn a_recording_is_an_application() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut writer =
        Writer::start(Vec::new(), Format::Memweir, &Header::default()).expect("memory");
    for (address, gap) in [(0, 1), (4096, 1000)] {
        let (thread, direction) = (ThreadId::default(), Direction::Read);
        writer.push(&Access { address, gap, thread, direction }).expect("memory");
    }
    let (bytes, _) = writer.finish().expect("memory");
    std::fs::write(directory.path().join("two.mwt"), bytes).expect("a file");
    let text = "swaps = \"nvm\"\ndram_mib = 1\nwindow = 10\n[[apps]]\ntrace = \"two.mwt\"\n";
    let text = ScenarioText::new("s.toml", text, directory.path());
    let scenario = PageScenario::read(&text, &[], &Traces::default()).expect("a scenario");
    let app = &scenario.session.apps[0];
    assert!(matches!(&app.behavior, Behavior::Recorded(trace) if trace.pages() == 2));
    assert_eq!(app.name, "two");
    let counts = scenario.session.run(&scenario.swaps[0], 1).counts;
    assert_eq!((counts.references, counts.first_touches), (2, 2), "in three turns");
}
