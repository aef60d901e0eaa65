//! A synthetic program as a table of a TOML file.

use memweir_core::input::{InputError, Section, Value};
use memweir_core::{BytesPerSec, MAX_MEDIA, Nanos};

use super::{Fluctuation, LONGEST, Phases, Stall, Synthetic};

/// Length of the cycle if the file gives none.
const DEFAULT_LENGTH: Nanos = Nanos::from_millis(20_000);

impl Synthetic {
    /// Keys of a table that [`Synthetic::take_from`] reads.
    pub const KEYS: [&'static str; 14] = [
        "name",
        "length_s",
        "bandwidth",
        "write_share",
        "stall",
        "instructions",
        "phases",
        "phase_ms",
        "phase_spread",
        "degree",
        "period_ms",
        "regularity",
        "memories",
        "seed",
    ];

    /// Takes [`Synthetic::KEYS`] from a table; the defaults are those of [`Synthetic::steady`],
    /// except for the cycle, which is 20 s long. The caller handles the other keys.
    ///
    /// # Errors
    /// If a key is missing, of the wrong type or out of its range: with line and reason.
    pub fn take_from(section: &mut Section<'_>, ceiling: BytesPerSec) -> Result<Self, InputError> {
        let name = section.require("name")?.string()?.to_owned();
        let bandwidth = section.require("bandwidth")?.bandwidth()?;
        let base = Self::steady(name, bandwidth, ceiling);
        let length = section.map("length_s", |v| span(&v, 1e9, "length in seconds"))?;
        let stall = section.map("stall", |v| v.number_in(0.001..=1.0, "share"))?;
        let instructions =
            section.map("instructions", |v| v.number_in(0.0..=1e14, "rate per second"))?;
        let program = Self {
            length: length.unwrap_or(DEFAULT_LENGTH),
            write_share: share(section, "write_share")?.unwrap_or(base.write_share),
            stall: stall.map_or(base.stall, Stall::Share),
            instructions: instructions.unwrap_or(base.instructions),
            phases: phases(section, base.phases)?,
            fluctuation: fluctuation(section, base.fluctuation)?,
            memories: section.map("memories", |v| memories(&v))?.unwrap_or(base.memories),
            seed: section.map("seed", |v| v.seed())?.unwrap_or(base.seed),
            ..base
        };
        section.checked(program.check()).map(|()| program)
    }
}

fn phases(section: &mut Section<'_>, base: Phases) -> Result<Phases, InputError> {
    let kinds = section.map("phases", |v| v.whole_in(1..=64))?;
    let length = section.map("phase_ms", |v| span(&v, 1e6, "length in milliseconds"))?;
    let spread = section.map("phase_spread", |v| v.number_in(0.0..=10.0, "spread"))?;
    Ok(Phases {
        kinds: kinds.unwrap_or(base.kinds),
        length: length.unwrap_or(base.length),
        spread: spread.unwrap_or(base.spread),
    })
}

fn fluctuation(section: &mut Section<'_>, base: Fluctuation) -> Result<Fluctuation, InputError> {
    let degree = section.map("degree", |v| v.number_in(0.0..=10.0, "degree"))?;
    let period = section.map("period_ms", |v| span(&v, 1e6, "period in milliseconds"))?;
    Ok(Fluctuation {
        degree: degree.unwrap_or(base.degree),
        period: period.unwrap_or(base.period),
        regularity: share(section, "regularity")?.unwrap_or(base.regularity),
    })
}

fn share(section: &mut Section<'_>, key: &str) -> Result<Option<f64>, InputError> {
    section.map(key, |v| v.number_in(0.0..=1.0, "share"))
}

/// Reads a time in units of `nanos` nanoseconds, from a millisecond to [`LONGEST`].
fn span(value: &Value<'_>, nanos: f64, what: &str) -> Result<Nanos, InputError> {
    let number = value.number_in(1e6 / nanos..=LONGEST.as_f64() / nanos, what)?;
    Ok(Nanos((number * nanos).round() as u64))
}

/// Reads shares of the memories in the machine's order; missing ones are zero.
fn memories(value: &Value<'_>) -> Result<[f64; MAX_MEDIA], InputError> {
    let given = value.array("an array of shares, one per memory")?;
    if given.len() > MAX_MEDIA {
        return Err(value.refuse(format!("a machine has at most {MAX_MEDIA} memories")));
    }
    let mut shares = [0.0; MAX_MEDIA];
    for (share, value) in shares.iter_mut().zip(&given) {
        *share = value.number_in(0.0..=1.0, "share")?;
    }
    Ok(shares)
}
