//! Predictors by name, as `--predictor` takes them.

use std::fmt;
use std::str::FromStr;

use memweir_core::input::Refusal;
use memweir_core::names::suggestion;
use serde::{Deserialize, Serialize};

use super::{DEFAULT_THRESHOLD, ForecastOrLast, Last, MAX_WINDOW, Phases, Predictor, Window};

/// A predictor with its parameter: `last`, `window:K`, `phase[:T_S]` or `profile`.
///
/// ```
/// use memweir_policy::PredictorKind;
///
/// let kind: PredictorKind = "window:3".parse()?;
/// assert_eq!(kind, PredictorKind::Window { quanta: 3 });
/// assert_eq!(kind.to_string(), "window:3");
/// assert_eq!("phase".parse::<PredictorKind>()?.to_string(), "phase:0.4");
/// # Ok::<(), memweir_core::input::Refusal>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum PredictorKind {
    /// The last quantum's bandwidth.
    Last,
    /// The mean of the last quanta.
    Window {
        /// Number of quanta, from 1 to [`MAX_WINDOW`].
        quanta: usize,
    },
    /// Phases by instruction-pointer vectors, with a Markov predictor.
    Phase {
        /// The similarity threshold `T_S`, above 0 and at most 2.
        threshold: f64,
    },
    /// The meter's own forecast from a recorded profile.
    Profile,
}

impl TryFrom<String> for PredictorKind {
    type Error = String;

    fn try_from(given: String) -> Result<Self, String> {
        given.parse().map_err(|refusal: Refusal| refusal.sentence())
    }
}

impl From<PredictorKind> for String {
    fn from(kind: PredictorKind) -> Self {
        kind.to_string()
    }
}

impl PredictorKind {
    /// Builds a predictor of this kind for one job.
    #[must_use]
    pub fn build(self) -> Box<dyn Predictor> {
        match self {
            Self::Last => Box::new(Last::default()),
            Self::Window { quanta } => Box::new(Window::new(quanta)),
            Self::Phase { threshold } => Box::new(Phases::new(threshold)),
            Self::Profile => Box::new(ForecastOrLast::default()),
        }
    }
}

/// Syntax of each predictor.
const FORMS: [&str; 4] = ["last", "window:K", "phase[:T_S]", "profile"];

/// Returns the syntax of each predictor, for help texts: `last`, `window:K`, `phase[:T_S]`,
/// `profile`.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    FORMS.into_iter()
}

fn bad_parameter(given: &str, help: impl Into<String>) -> Refusal {
    Refusal::new(format!("bad parameter of predictor `{given}`"), help)
}

impl FromStr for PredictorKind {
    type Err = Refusal;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        let (name, parameter) = match given.split_once(':') {
            Some((name, parameter)) => (name, Some(parameter)),
            None => (given, None),
        };
        match (name, parameter) {
            ("last", None) => Ok(Self::Last),
            ("profile", None) => Ok(Self::Profile),
            ("last" | "profile", Some(_)) => {
                Err(bad_parameter(given, format!("`{name}` takes none")))
            }
            ("window", parameter) => parameter
                .and_then(|quanta| quanta.parse().ok())
                .filter(|quanta| (1..=MAX_WINDOW).contains(quanta))
                .map(|quanta| Self::Window { quanta })
                .ok_or_else(|| {
                    let help =
                        format!("write a number of quanta, `window:1` to `window:{MAX_WINDOW}`");
                    bad_parameter(given, help)
                }),
            ("phase", None) => Ok(Self::Phase { threshold: DEFAULT_THRESHOLD }),
            ("phase", Some(threshold)) => threshold
                .parse()
                .ok()
                .filter(|threshold: &f64| *threshold > 0.0 && *threshold <= 2.0)
                .map(|threshold| Self::Phase { threshold })
                .ok_or_else(|| {
                    let help = "write a similarity threshold above 0 and at most 2, as `phase:0.4`";
                    bad_parameter(given, help)
                }),
            _ => Err(Refusal::new(format!("unknown predictor `{given}`"), suggestion(name, FORMS))),
        }
    }
}

impl fmt::Display for PredictorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Last => write!(f, "last"),
            Self::Window { quanta } => write!(f, "window:{quanta}"),
            Self::Phase { threshold } => write!(f, "phase:{threshold}"),
            Self::Profile => write!(f, "profile"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn accepts_every_form() {
        let parse = |given: &str| given.parse::<PredictorKind>();
        assert_eq!(parse("last"), Ok(PredictorKind::Last));
        assert_eq!(parse("profile"), Ok(PredictorKind::Profile));
        assert_eq!(parse("window:1000"), Ok(PredictorKind::Window { quanta: 1000 }));
        assert_eq!(parse("phase"), Ok(PredictorKind::Phase { threshold: 0.4 }));
        assert_eq!(parse("phase:0.3"), Ok(PredictorKind::Phase { threshold: 0.3 }));
    }

    #[test]
    fn refuses_with_the_nearest_valid_choice() {
        let refused = |given: &str| given.parse::<PredictorKind>().unwrap_err().sentence();
        assert_eq!(
            refused("lst"),
            "unknown predictor `lst`: did you mean `last`? valid: last, window:K, phase[:T_S], profile"
        );
        for given in ["window", "window:", "window:0", "window:1001", "window:-1", "window:2.5"] {
            assert!(refused(given).contains("`window:1` to `window:1000`"), "{given}");
        }
        for given in ["phase:", "phase:0", "phase:-0.1", "phase:2.1", "phase:nan", "phase:x"] {
            assert!(refused(given).contains("`phase:0.4`"), "{given}");
        }
        assert!(refused("last:3").contains("`last` takes none"));
    }

    proptest! {
        #[test]
        fn parsing_never_panics(given in "\\PC*") {
            let _ = given.parse::<PredictorKind>();
        }

        #[test]
        fn what_is_printed_is_read_back(quanta in 1usize..=1000, threshold in 0.001..2.0f64) {
            for kind in [PredictorKind::Window { quanta }, PredictorKind::Phase { threshold }] {
                prop_assert_eq!(kind.to_string().parse(), Ok(kind));
            }
        }
    }
}
