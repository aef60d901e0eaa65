//! Finding what a person meant by a misspelt name.

/// The candidate nearest to `given`, if one is near enough to be what was meant.
///
/// ```
/// assert_eq!(memweir_core::names::nearest("ideal-avg", ["os", "ideal-average"]), Some("ideal-average"));
/// assert_eq!(memweir_core::names::nearest("zebra", ["os", "random"]), None);
/// ```
pub fn nearest<'a>(given: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let given = given.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(&given, candidate), candidate))
        .filter(|(score, _)| *score >= 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0))
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
