//! Detection on every published map: prints the table of docs/map.md.
//!
//! ```text
//! cargo run --release -p memweir-map --example published -- [SEEDS]
//! ```

use std::time::{Duration, Instant};

use memweir_core::address_map::{AddressMap, Span};
use memweir_map::detect::{Detection, Options, bpm, detect};
use memweir_map::published;
use memweir_map::synthetic::{Machine, Noise, Synthetic};

fn main() {
    let seeds: u64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1);
    let entries = published::parse("published_maps.json", published::SHIPPED)
        .unwrap_or_else(|error| panic!("{error}"));
    println!(
        "| map | banks | quiet | server | vm | measured, vm | computed, longest | Algorithm 1, quiet |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for entry in &entries {
        let mut row = Row::default();
        let found: Vec<String> =
            Noise::ALL.iter().map(|(_, noise)| row.detect(&entry.map, *noise, seeds)).collect();
        println!(
            "| {} | {} | {} | {:.1} s | {:.2} s | {} |",
            entry.id,
            1u64 << entry.map.span().dimension(),
            found.join(" | "),
            row.measured.as_secs_f64() / seeds as f64,
            row.computed.as_secs_f64(),
            algorithm_1(&entry.map),
        );
    }
}

#[derive(Default)]
struct Row {
    /// Time of the last noise.
    measured: Duration,
    computed: Duration,
}

impl Row {
    fn detect(&mut self, map: &AddressMap, noise: Noise, seeds: u64) -> String {
        let (mut right, mut wrong) = (0, 0);
        self.measured = Duration::ZERO;
        for seed in 0..seeds {
            let mut oracle = Synthetic::new(map, noise, seed);
            let options = Options { seed, budget: Duration::from_secs(60) };
            let start = Instant::now();
            let detection = detect(&mut oracle, "found", &options, &mut |_| {});
            self.computed = self.computed.max(start.elapsed());
            self.measured += detection.elapsed;
            match is_right(map, &detection) {
                Some(true) => right += 1,
                Some(false) => wrong += 1,
                None => {}
            }
        }
        match wrong {
            0 => format!("{right} of {seeds}"),
            wrong => format!("{right} of {seeds}, **{wrong} wrong**"),
        }
    }
}

/// Returns true if the detected map is the machine's: banks, and rows within banks, by span. `None`
/// if no map was found.
fn is_right(map: &AddressMap, detection: &Detection) -> Option<bool> {
    let found = &detection.verdict.as_ref().ok()?.map;
    let rows =
        |banks: Span, rows: &[_]| banks.basis().iter().chain(rows).copied().collect::<Span>();
    let truth = rows(map.span(), Machine::of(map).rows());
    Some(found.span() == map.span() && rows(found.span(), &found.row) == truth)
}

fn algorithm_1(map: &AddressMap) -> String {
    let mut oracle = Synthetic::new(map, Noise::QUIET, 1);
    let options = Options { seed: 1, budget: Duration::from_secs(1800) };
    let detection = bpm::detect(&mut oracle, "found", &options, &mut |_| {});
    match (is_right(map, &detection), &detection.verdict) {
        (Some(true), _) => format!("found, {:.0} s", detection.elapsed.as_secs_f64()),
        (Some(false), _) => "**wrong**".to_owned(),
        (None, Err(refusal)) => format!("refused: {}", refusal.step),
        (None, Ok(_)) => unreachable!("what is found is right or wrong"),
    }
}
