//! Suggestions for misspelled names.

/// Returns the candidate nearest to `given`, if one is near enough.
///
/// ```
/// use memweir_core::names::nearest;
///
/// assert_eq!(nearest("ideal-avg", ["os", "ideal-average"]), Some("ideal-average"));
/// assert_eq!(nearest("zebra", ["os", "random"]), None);
/// assert_eq!(nearest("ideal", ["os", "ideal-average"]), Some("ideal-average"));
/// assert_eq!(nearest("gddr6", ["ddr4-1866", "ddr3-1066"]), None);
/// assert_eq!(nearest("ddr4-2500", ["ddr4-2400", "ddr4-3200"]), Some("ddr4-2400"));
/// ```
pub fn nearest<'a>(given: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let given = given.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| {
            let likeness = strsim::jaro_winkler(&given, candidate);
            (likeness, strsim::normalized_levenshtein(&given, candidate), candidate)
        })
        // Jaro-Winkler alone finds `gddr6` near `ddr4-1866`. A prefix has a large edit distance.
        .filter(|(likeness, edits, candidate)| {
            *likeness >= 0.7 && (*edits >= 0.4 || candidate.starts_with(&given))
        })
        // Equal digits in other positions are as near by the first measure, but not by the second.
        .max_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.total_cmp(&b.1)))
        .map(|(_, _, candidate)| candidate)
}

/// Returns a sentence that lists the valid choices, preceded by the nearest one if there is any.
pub fn suggestion<'a>(
    given: &str,
    candidates: impl IntoIterator<Item = &'a str> + Clone,
) -> String {
    let list = candidates.clone().into_iter().collect::<Vec<_>>().join(", ");
    match nearest(given, candidates) {
        Some(name) => format!("did you mean `{name}`? valid: {list}"),
        None => format!("valid: {list}"),
    }
}
