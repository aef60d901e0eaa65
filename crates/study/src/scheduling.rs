//! Keys that scenarios of both fidelities have if policies choose which tasks run.

use memweir_core::input::{InputError, Refusal, Section, Value};
use memweir_core::names::choose;
use memweir_core::{BytesPerSec, Nanos};
use memweir_flow::experiment::{Knowledge, KnowledgeError};
use memweir_policy::{TargetCurve, policies};

use crate::text::one_or_more;

/// Range of quanta, in milliseconds.
const QUANTUM_MS: std::ops::RangeInclusive<f64> = 1.0..=60_000.0;
/// Realistic peak of the machine of iabw eq. (11): 40 transactions of 128 bytes per microsecond.
const PAPER_PEAK: BytesPerSec = BytesPerSec::from_gb(40.0 * 0.128);

/// Reads one policy or an array of policies, each with its options. `others` are the names that
/// stand beside those of the table, and take no options.
pub(crate) fn policy_names<'a>(
    value: &Value<'_>,
    others: impl Iterator<Item = &'a str>,
) -> Result<Vec<String>, InputError> {
    let others: Vec<&str> = others.collect();
    let mut names: Vec<&str> = policies::names().collect();
    names.extend(&others);
    let check = |given: &str| {
        let name = given.split(':').next().unwrap_or(given);
        match others.contains(&choose("policy", name, names.iter().map(|name| (*name, *name)))?) {
            true => choose("policy", given, [(name, ())]),
            false => policies::find(given).map(drop),
        }
    };
    let checked = |value: &Value<'_>| {
        let given = value.string()?;
        value.checked(check(given)).map_err(|error| match given.contains(',') {
            true => error.help(format!("several policies stand in brackets: `[{given}]`")),
            false => error,
        })?;
        Ok(given.to_owned())
    };
    let none = Refusal::new("there is no policy", format!("valid: {}", names.join(", ")));
    one_or_more(value, "the name of a policy or an array of names", none, checked, String::as_str)
}

/// Reads `quantum_ms`.
pub(crate) fn quantum(root: &mut Section<'_>) -> Result<Nanos, InputError> {
    let default = Nanos::from_millis(100);
    let read = |v: Value<'_>| v.number_in(QUANTUM_MS, "quantum in milliseconds");
    Ok(root.map("quantum_ms", read)?.map_or(default, |ms| Nanos::from_secs_f64(ms / 1e3)))
}

/// Reads `knowledge`.
pub(crate) fn knowledge(root: &mut Section<'_>) -> Result<Knowledge, InputError> {
    Ok(root.map("knowledge", |v| v.named())?.unwrap_or_default())
}

/// Reads `knowledge_error`.
pub(crate) fn knowledge_error(root: &mut Section<'_>) -> Result<KnowledgeError, InputError> {
    let read = |v: Value<'_>| v.number_in(0.0..=KnowledgeError::MOST, "error of knowledge");
    Ok(root.map("knowledge_error", read)?.map(KnowledgeError).unwrap_or_default())
}

/// Scales iabw eq. (11) to a machine of another peak: its bandwidths grow in proportion to the
/// peaks.
pub(crate) fn paper_scaled_to(peak: BytesPerSec) -> TargetCurve {
    let paper = TargetCurve::paper();
    let scale = peak.0 / PAPER_PEAK.0;
    TargetCurve {
        quadratic: paper.quadratic / scale,
        linear: paper.linear,
        constant: paper.constant * scale,
        iabw_min: paper.iabw_min * scale,
        iabw_max: paper.iabw_max * scale,
        r_squared: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gb(value: f64) -> BytesPerSec {
        BytesPerSec::from_gb(value)
    }

    #[test]
    fn the_papers_curve_scales_with_the_peak() {
        // 50 transactions per microsecond of 40 are 25 GB/s of 20.
        let of_paper =
            TargetCurve::paper().apply(gb(50.0 * 0.128), None).as_gb() / PAPER_PEAK.as_gb();
        let scaled = paper_scaled_to(gb(20.0)).apply(gb(25.0), None).as_gb() / 20.0;
        assert!((of_paper - scaled).abs() < 1e-12, "{of_paper} {scaled}");
        // -0.0118 * 2500 + 1.4571 * 50 - 6.2403 = 37.1147, of 40.
        assert!((scaled - 37.1147 / 40.0).abs() < 1e-12);
        assert_eq!(paper_scaled_to(PAPER_PEAK), TargetCurve::paper());
    }
}
