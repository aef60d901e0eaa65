//! The scheduling bandwidth target of a scenario: iabw eq. (11) scaled to its machine, a curve of
//! its own, or a single value.

use memweir_core::input::{InputError, Value};
use memweir_core::names::suggestion;
use memweir_core::{ABSURD_BANDWIDTH, BytesPerSec};
use memweir_policy::TargetCurve;

use crate::scheduling::paper_scaled_to;

/// Keys of a curve, those of `platform.toml`.
const KEYS: [&str; 3] = ["coefficients", "from", "to"];

/// Reads `target`: `"none"`, `"paper"`, a bandwidth in bytes per second, or a table of
/// `coefficients` (constant first, in GB/s as in `platform.toml`), `from` and `to`.
pub(super) fn read(value: Value<'_>, peak: BytesPerSec) -> Result<Option<TargetCurve>, InputError> {
    match value.text() {
        Some("none") => return Ok(None),
        Some("paper") => return Ok(Some(paper_scaled_to(peak))),
        Some(other) => {
            let valid = suggestion(other, ["none", "paper"]);
            let help = format!("{valid}, or a number of bytes per second, such as 4e9");
            return Err(value.refuse(format!("unknown target `{other}`")).help(help));
        }
        None => {}
    }
    if value.is_table() {
        return curve(value).map(Some);
    }
    value
        .number_in(0.0..=ABSURD_BANDWIDTH, "target in bytes per second")
        .map(BytesPerSec)
        .map(fixed)
        .map(Some)
}

/// Returns a curve with the same target for every workload.
fn fixed(target: BytesPerSec) -> TargetCurve {
    TargetCurve {
        quadratic: 0.0,
        linear: 0.0,
        constant: target.as_gb(),
        iabw_min: BytesPerSec::ZERO,
        iabw_max: BytesPerSec(f64::MAX),
        r_squared: None,
    }
}

fn curve(value: Value<'_>) -> Result<TargetCurve, InputError> {
    const WHAT: &str = "an array of three coefficients, the constant first, in GB/s";
    let mut section = value.section()?;
    section.only(&KEYS)?;
    let list = section.require("coefficients")?;
    let coefficients = list
        .array(WHAT)?
        .iter()
        .map(|c| c.number_in(-1e12..=1e12, "coefficient"))
        .collect::<Result<Vec<f64>, _>>()?;
    let [constant, linear, quadratic] = coefficients[..] else {
        return Err(list.refuse(format!("must be {WHAT}, and has {}", coefficients.len())));
    };
    let iabw_min = section.map("from", |v| v.bandwidth())?.unwrap_or(BytesPerSec::ZERO);
    let to = section.take("to");
    let iabw_max = to.as_ref().map(Value::bandwidth).transpose()?.unwrap_or(BytesPerSec(f64::MAX));
    if iabw_max < iabw_min {
        let value = to.as_ref().unwrap_or(&list);
        return Err(value
            .refuse("the range ends before it starts")
            .help("`from` is the lower end"));
    }
    Ok(TargetCurve { quadratic, linear, constant, iabw_min, iabw_max, r_squared: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gb(value: f64) -> BytesPerSec {
        BytesPerSec::from_gb(value)
    }

    #[test]
    fn a_fixed_target_is_the_same_for_every_workload() {
        for iabw in [0.0, 0.1, 5.0, 500.0] {
            assert_eq!(fixed(gb(4.0)).apply(gb(iabw), None), gb(4.0));
        }
        assert_eq!(fixed(gb(4.0)).apply(gb(1.0), Some(gb(3.0))), gb(3.0), "at most the peak");
    }
}
