//! The share of a program that runs through the cache model.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Instructions of one burst that are counted.
pub const BURST: u64 = 8_000_000;

/// Instructions before each burst that fill the private caches and are not counted. The last-level
/// cache keeps its contents through the fast-forward.
pub const WARM_UP: u64 = 2_000_000;

/// Smallest share that leaves room for the warm-up and gives more than a handful of bursts.
pub const MIN_SHARE: f64 = 0.01;

/// The share of the instructions whose memory accesses are simulated.
///
/// ```
/// use memweir_abi::softpmu::Sampling;
/// assert_eq!("all".parse(), Ok(Sampling::All));
/// assert_eq!("10%".parse(), Ok(Sampling::Share(0.1)));
/// assert!("0%".parse::<Sampling>().is_err());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum Sampling {
    /// Every access.
    #[default]
    All,
    /// Bursts that make up this share, [`MIN_SHARE`] to 0.75.
    Share(f64),
}

/// Error for an invalid sampling.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{given}`: {reason}; write `all` or a share from 1% to 75%")]
pub struct SamplingError {
    given: String,
    reason: &'static str,
}

impl FromStr for Sampling {
    type Err = SamplingError;

    fn from_str(text: &str) -> Result<Self, SamplingError> {
        let refuse = |reason| Err(SamplingError { given: text.to_owned(), reason });
        if text == "all" || text == "100%" {
            return Ok(Self::All);
        }
        let Some(percent) = text.strip_suffix('%').and_then(|n| n.trim().parse::<f64>().ok())
        else {
            return refuse("not a sampling");
        };
        let share = percent / 100.0;
        if !(MIN_SHARE..=0.75).contains(&share) {
            return refuse("out of range");
        }
        Ok(Self::Share(share))
    }
}

impl fmt::Display for Sampling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => write!(f, "all"),
            Self::Share(share) => write!(f, "{}%", (share * 1e4).round() / 1e2),
        }
    }
}

/// Lengths of one period of sampling in instructions: warm-up, burst, fast-forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BurstPlan {
    /// Simulated and not counted.
    pub warm_up: u64,
    /// Simulated and counted.
    pub burst: u64,
    /// Not simulated; only the instructions are counted.
    pub fast_forward: u64,
}

impl Sampling {
    /// Returns the period of this sampling; `None` if everything is simulated.
    #[must_use]
    pub fn plan(&self) -> Option<BurstPlan> {
        let Self::Share(share) = *self else { return None };
        let period = (BURST as f64 / share.max(MIN_SHARE)).round() as u64;
        Some(BurstPlan {
            warm_up: WARM_UP,
            burst: BURST,
            fast_forward: period.saturating_sub(BURST + WARM_UP),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_is_eight_million_in_eighty() {
        let plan = Sampling::Share(0.1).plan().unwrap();
        assert_eq!(plan.warm_up + plan.burst + plan.fast_forward, 80_000_000);
        assert_eq!(plan.burst, 8_000_000);
        assert_eq!(Sampling::All.plan(), None);
    }

    #[test]
    fn what_is_no_sampling_is_refused_with_the_valid_forms() {
        for text in ["", "10", "-5%", "80%", "nan%", "inf%", "half"] {
            let error = text.parse::<Sampling>().unwrap_err().to_string();
            assert!(error.contains("1% to 75%"), "{error}");
        }
    }

    #[test]
    fn printing_and_parsing_agree() {
        for sampling in [Sampling::All, Sampling::Share(0.1), Sampling::Share(0.015)] {
            assert_eq!(sampling.to_string().parse(), Ok(sampling));
        }
    }
}
