//! Finding what a person meant by a misspelt name.

/// The candidate nearest to `given`, if one is near enough to be what was meant.
///
/// ```
/// assert_eq!(memweir_core::names::nearest("ideal-avg", ["os", "ideal-average"]), Some("ideal-average"));
/// assert_eq!(memweir_core::names::nearest("zebra", ["os", "random"]), None);
/// assert_eq!(memweir_core::names::nearest("ddr4-2500", ["ddr4-2400", "ddr4-3200"]), Some("ddr4-2400"));
/// ```
pub fn nearest<'a>(given: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let given = given.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(&given, candidate), candidate))
        .filter(|(score, _)| *score >= 0.7)
        // Equal digits in other places are as near by the first measure, not by the second.
        .max_by(|a, b| {
            let edits = |candidate| strsim::normalized_levenshtein(&given, candidate);
            a.0.total_cmp(&b.0).then_with(|| edits(a.1).total_cmp(&edits(b.1)))
        })
        .map(|(_, candidate)| candidate)
}

/// One sentence that names the valid choices, the nearest first.
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
