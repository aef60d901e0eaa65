//! Report of `memweir map detect`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use memweir_core::address_map::{AddressMap, XorFunction};
use memweir_map::detect::{Detection, Found, Share};
use serde::Serialize;
use serde_json::Value;

use crate::failure::Outcome;
use crate::render::map::functions;

/// Page sizes whose colors are shown, by their bits.
const PAGES: [u32; 4] = [12, 14, 16, 21];

/// Result of a detection.
pub(super) struct Report {
    verdict: Result<Found, String>,
    possible: bool,
    measurements: u64,
    seconds: f64,
}

/// The JSON.
#[derive(Debug, Serialize)]
pub(super) struct Json<'a> {
    verdict: &'static str,
    functions: Vec<Vec<u8>>,
    row_bits: Vec<Value>,
    column_bits: Vec<Value>,
    offset: Option<u64>,
    banks: Option<u64>,
    colors: BTreeMap<u64, u32>,
    precision: Option<f64>,
    recall: Option<f64>,
    seconds: f64,
    measurements: u64,
    reason: Option<&'a str>,
}

/// A bit, or the bits of a sum.
fn bit_or_sum(function: &XorFunction) -> Value {
    let bits: Vec<u8> = function.bits().collect();
    match bits.as_slice() {
        [bit] => Value::from(*bit),
        sum => Value::from(sum),
    }
}

impl Report {
    pub(super) fn new(detection: &Detection) -> Self {
        Self {
            verdict: detection.verdict.clone().map_err(|refused| match &*refused.reason {
                // The step at which a signal came is no part of the reason.
                super::INTERRUPTED => refused.reason,
                _ => refused.to_string(),
            }),
            possible: true,
            measurements: detection.measurements,
            seconds: detection.elapsed.as_secs_f64(),
        }
    }

    /// Report of a machine that could not be measured.
    pub(super) fn impossible(reason: &str) -> Self {
        Self { verdict: Err(reason.to_owned()), possible: false, measurements: 0, seconds: 0.0 }
    }

    /// The map, if one was found.
    pub(super) fn map(&self) -> Option<&AddressMap> {
        self.verdict.as_ref().ok().map(|found| &found.map)
    }

    pub(super) fn outcome(&self) -> Outcome {
        match (&self.verdict, self.possible) {
            (Ok(_), _) => Outcome::Success,
            (Err(_), true) => Outcome::Refused,
            (Err(_), false) => Outcome::Impossible,
        }
    }

    pub(super) fn json(&self) -> Json<'_> {
        let found = self.verdict.as_ref().ok();
        let map = self.map();
        let bits = |of: fn(&AddressMap) -> &[XorFunction]| {
            map.map_or_else(Vec::new, |map| of(map).iter().map(bit_or_sum).collect())
        };
        Json {
            verdict: if found.is_some() { "found" } else { "refused" },
            functions: map.map_or_else(Vec::new, |map| {
                map.functions.iter().map(|set| set.function.bits().collect()).collect()
            }),
            row_bits: bits(|map| &map.row),
            column_bits: bits(|map| &map.column),
            offset: map.map(|map| map.offset),
            banks: map.map(memweir_map::view::banks),
            colors: map.map_or_else(BTreeMap::new, colors),
            precision: found.map(|found| found.score.precision.value),
            recall: found.map(|found| found.score.recall.value),
            seconds: self.seconds,
            measurements: self.measurements,
            reason: self.verdict.as_ref().err().map(String::as_str),
        }
    }

    pub(super) fn text(&self, written_to: Option<&Path>) -> String {
        let cost = format!("{} pairs in {:.1} s", self.measurements, self.seconds);
        match &self.verdict {
            Err(reason) => format!("no map: {reason}\nmeasured     {cost}\n"),
            Ok(found) => {
                let mut text = describe(found);
                put(&mut text, "measured", &cost);
                if let Some(path) = written_to {
                    put(&mut text, "written to", &path.display().to_string());
                }
                format!("{text}\n{}\n", functions(&found.map))
            }
        }
    }
}

fn colors(map: &AddressMap) -> BTreeMap<u64, u32> {
    PAGES.into_iter().map(|bits| (1 << bits, map.coloring(bits).colors())).collect()
}

fn describe(found: &Found) -> String {
    let (map, score) = (&found.map, &found.score);
    let mut text = format!("found a map of address bits 0 to {}\n", map.bits - 1);
    put(&mut text, "banks", &memweir_map::view::banks(map).to_string());
    if map.offset != 0 {
        put(&mut text, "offset", &format!("{:#x} is taken off an address first", map.offset));
    }
    if let Some(interleave) = map.interleave {
        let (channels, granule) = (interleave.channels, interleave.granule);
        put(&mut text, "interleaving", &format!("{channels} channels by turns, {granule} each"));
    }
    for (what, functions) in [("row", &map.row), ("column", &map.column)] {
        let list: Vec<String> = functions.iter().map(ToString::to_string).collect();
        let list = if list.is_empty() { "not known".to_owned() } else { list.join(" ") };
        put(&mut text, what, &list);
    }
    let colors: Vec<String> = colors(map)
        .iter()
        .map(|(page, colors)| format!("{colors} of {} KiB pages", page / 1024))
        .collect();
    put(&mut text, "colors", &colors.join(", "));
    let percent = |share: Share| {
        format!(
            "{:.1} % ({:.1} to {:.1})",
            100.0 * share.value,
            100.0 * share.low,
            100.0 * share.high
        )
    };
    put(
        &mut text,
        "confidence",
        &format!(
            "precision {}, recall {}, F1 {}, on {} fresh pairs",
            percent(score.precision),
            percent(score.recall),
            percent(score.f1),
            score.pairs
        ),
    );
    let (cycles, noise) = found.conflict;
    put(&mut text, "a conflict", &format!("adds {cycles:.0} cycles, with a noise of {noise:.0}"));
    text
}

fn put(text: &mut String, what: &str, value: &str) {
    let _ = writeln!(text, "{what:<12} {value}");
}
