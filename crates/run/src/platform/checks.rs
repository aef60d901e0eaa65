//! Checks of the values of a `platform.toml` while they are read, so that the parser knows the line
//! of an error.

use memweir_core::BytesPerSec;
use serde::{Deserialize, Deserializer, de};

use super::FORMAT;

/// The key that is assigned on `line`, counted from one.
pub(super) fn key_on_line(text: &str, line: usize) -> Option<String> {
    let (key, _) = text.lines().nth(line.checked_sub(1)?)?.split_once('=')?;
    Some(key.trim().to_owned())
}

pub(super) fn known_format<'de, D: Deserializer<'de>>(input: D) -> Result<u32, D::Error> {
    let format = u32::deserialize(input)?;
    if format == FORMAT {
        return Ok(format);
    }
    Err(de::Error::custom(format!(
        "format {format} is unknown to this version, which reads {FORMAT}"
    )))
}

pub(super) fn not_negative<'de, D: Deserializer<'de>>(input: D) -> Result<f64, D::Error> {
    let value = f64::deserialize(input)?;
    if value.is_finite() && value >= 0.0 {
        return Ok(value);
    }
    Err(de::Error::custom(format!("{value} must be a finite number, zero or more")))
}

pub(super) fn rate<'de, D: Deserializer<'de>>(input: D) -> Result<BytesPerSec, D::Error> {
    not_negative(input).map(BytesPerSec)
}

pub(super) fn positive<'de, D: Deserializer<'de>>(input: D) -> Result<BytesPerSec, D::Error> {
    let value = rate(input)?;
    if value > BytesPerSec::ZERO {
        return Ok(value);
    }
    Err(de::Error::custom("a bandwidth of zero measures nothing"))
}

pub(super) fn finite_coefficients<'de, D: Deserializer<'de>>(
    input: D,
) -> Result<[f64; 3], D::Error> {
    let values = <[f64; 3]>::deserialize(input)?;
    if values.iter().all(|value| value.is_finite()) {
        return Ok(values);
    }
    Err(de::Error::custom("the coefficients must be finite numbers"))
}
