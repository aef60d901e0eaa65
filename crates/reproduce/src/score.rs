//! Agreement of a reproduction with its paper, by the kind of each comparison.
//!
//! Only magnitudes and directions count as agreement. A match of any other kind is no evidence; a
//! miss is a miss whatever its kind.

use memweir_core::names::Named;
use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::report::Comparison;
use crate::source::{Kind, Statement, Test};

/// Agreement of our value with the paper's in one comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Agreement {
    /// A magnitude lies in its band, or a direction is the paper's.
    Agrees,
    /// An effect has the paper's sign, and its size lies outside of the band.
    SignAlone,
    /// Ours contradicts the paper.
    Differs,
    /// Ours matches the paper, which follows from an input, the model or an assumption.
    NoEvidence,
}

impl Agreement {
    /// Judges ours by the test of a statement; `None` if there is nothing to judge.
    #[must_use]
    pub fn of(statement: &Statement, ours: f64) -> Option<Self> {
        let passed = match (&statement.kind, &statement.test) {
            (Kind::Repeated | Kind::Unclaimed, _) => return None,
            (_, None) => true,
            (_, Some(Test::Range(rule))) => rule.holds(ours),
            (_, Some(Test::Ratio(scale))) if scale.holds(ours) => true,
            (_, Some(Test::Ratio(scale))) if scale.has_sign(ours) => return Some(Self::SignAlone),
            (_, Some(Test::Ratio(_))) => false,
        };
        Some(match (passed, statement.kind.is_evidence()) {
            (true, true) => Self::Agrees,
            (true, false) => Self::NoEvidence,
            (false, _) => Self::Differs,
        })
    }

    /// Returns true if ours is not what the paper says.
    #[must_use]
    pub const fn misses(self) -> bool {
        matches!(self, Self::SignAlone | Self::Differs)
    }
}

/// Comparisons of one kind, by agreement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tally {
    /// Magnitudes and directions that agree.
    pub agree: usize,
    /// Effects with the paper's sign and another size.
    pub sign_alone: usize,
    /// Comparisons that contradict the paper.
    pub differ: usize,
    /// Matches that are no evidence.
    pub no_evidence: usize,
    /// Comparisons that were not judged.
    pub open: usize,
}

impl Tally {
    fn add(&mut self, verdict: Option<Agreement>) {
        *match verdict {
            Some(Agreement::Agrees) => &mut self.agree,
            Some(Agreement::SignAlone) => &mut self.sign_alone,
            Some(Agreement::Differs) => &mut self.differ,
            Some(Agreement::NoEvidence) => &mut self.no_evidence,
            None => &mut self.open,
        } += 1;
    }

    /// Comparisons that miss.
    #[must_use]
    pub const fn misses(&self) -> usize {
        self.sign_alone + self.differ
    }

    /// All comparisons.
    #[must_use]
    pub const fn all(&self) -> usize {
        self.agree + self.misses() + self.no_evidence + self.open
    }
}

/// The tallies of a report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Score {
    kinds: BTreeMap<Kind, Tally>,
}

impl Score {
    /// Counts comparisons.
    pub fn of<'a>(comparisons: impl Iterator<Item = &'a Comparison>) -> Self {
        let mut kinds: BTreeMap<Kind, Tally> =
            Kind::ALL.iter().map(|kind| (*kind, Tally::default())).collect();
        for line in comparisons {
            kinds.entry(line.kind).or_default().add(line.verdict);
        }
        Self { kinds }
    }

    /// The comparisons of one kind.
    #[must_use]
    pub fn kind(&self, kind: Kind) -> Tally {
        self.kinds.get(&kind).copied().unwrap_or_default()
    }

    fn sum(&self, count: impl Fn(&Tally) -> usize) -> usize {
        self.kinds.values().map(count).sum()
    }

    /// Magnitudes and directions that agree.
    #[must_use]
    pub fn agree(&self) -> usize {
        self.sum(|tally| tally.agree)
    }

    /// Comparisons that agree or miss. Matches that are no evidence are left out, misses of the
    /// same kinds are not.
    #[must_use]
    pub fn judged(&self) -> usize {
        self.agree() + self.sum(Tally::misses)
    }

    /// Misses of the kinds that are no evidence.
    #[must_use]
    pub fn weak_misses(&self) -> usize {
        let weak = self.kinds.iter().filter(|(kind, _)| !kind.is_evidence());
        weak.map(|(_, tally)| tally.misses()).sum()
    }

    /// Matches that are no evidence.
    #[must_use]
    pub fn no_evidence(&self) -> usize {
        self.sum(|tally| tally.no_evidence)
    }
}

/// The sentences that lead a report.
impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [magnitude, direction] = [Kind::Magnitude, Kind::Direction].map(|kind| self.kind(kind));
        write!(
            f,
            "{} of {} judged comparisons agree: {} of {} magnitudes ({} more have the \
             sign alone) and {} of {} directions.",
            self.agree(),
            self.judged(),
            magnitude.agree,
            magnitude.agree + magnitude.misses(),
            magnitude.sign_alone,
            direction.agree,
            direction.agree + direction.misses(),
        )?;
        match self.weak_misses() {
            0 => {}
            1 => write!(f, " 1 misses although an input, the model or an assumption decides it.")?,
            misses => write!(
                f,
                " {misses} miss although an input, the model or an assumption decides them."
            )?,
        }
        if self.no_evidence() > 0 {
            let kinds = [
                (Kind::Input, "is an input", "are inputs"),
                (Kind::Construction, "holds by construction", "hold by construction"),
                (Kind::Assumed, "follows from an assumption", "follow from an assumption"),
            ];
            let parts =
                kinds.map(|(kind, one, several)| said(self.kind(kind).no_evidence, one, several));
            let parts: Vec<String> = parts.into_iter().flatten().collect();
            let matches = if self.no_evidence() == 1 { "matches" } else { "match" };
            write!(
                f,
                " {} {matches} without being evidence: {}.",
                self.no_evidence(),
                parts.join(", ")
            )?;
        }
        let repeated = said(
            self.kind(Kind::Repeated).all(),
            "repeats a claim that is judged elsewhere",
            "repeat a claim that is judged elsewhere",
        );
        match (repeated, self.kind(Kind::Unclaimed).all()) {
            (None, 0) => Ok(()),
            (Some(repeated), 0) => write!(f, " {repeated}."),
            (None, unclaimed) => write!(f, " For {unclaimed} nothing is claimed."),
            (Some(repeated), unclaimed) => {
                write!(f, " {repeated}, and for {unclaimed} nothing is claimed.")
            }
        }
    }
}

/// Says something of a number of comparisons; `None` of none.
fn said(number: usize, one: &str, several: &str) -> Option<String> {
    let verb = if number == 1 { one } else { several };
    (number > 0).then(|| format!("{number} {verb}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{data, statement};
    use crate::source::{Band, Rule, Scale};

    fn effect(paper: f64, from: f64) -> Option<Test> {
        Some(Test::Ratio(Scale { band: Band::Effect, from, paper }))
    }

    fn judged(kind: Kind, test: Option<Test>, ours: f64) -> Option<Agreement> {
        Agreement::of(&statement(kind, test), ours)
    }

    #[test]
    fn a_magnitude_by_hand() {
        // 66.4 % fewer kills in the paper, 1.3 % here: 0.02 of it.
        let fewer = effect(66.4, 0.0);
        assert_eq!(judged(Kind::Magnitude, fewer, 1.3), Some(Agreement::SignAlone));
        assert_eq!(judged(Kind::Magnitude, fewer, -1.3), Some(Agreement::Differs));
        // 66.4 / 1.5 is 44.27, 66.4 x 1.5 is 99.6.
        for (ours, verdict) in [
            (44.2, Agreement::SignAlone),
            (44.3, Agreement::Agrees),
            (99.6, Agreement::Agrees),
            (99.7, Agreement::SignAlone),
        ] {
            assert_eq!(judged(Kind::Magnitude, fewer, ours), Some(verdict), "{ours}");
        }
    }

    #[test]
    fn an_effect_counts_from_where_there_is_none() {
        // Programs keep 92 and 96 % of their best: losses of 8 and 4 %.
        let kept = Scale { band: Band::Effect, from: 100.0, paper: 92.0 };
        assert!((kept.ratio(96.0) - 0.5).abs() < 1e-12);
        assert_eq!(
            judged(Kind::Magnitude, Some(Test::Ratio(kept)), 96.0),
            Some(Agreement::SignAlone)
        );
        assert_eq!(
            judged(Kind::Magnitude, Some(Test::Ratio(kept)), 101.0),
            Some(Agreement::Differs)
        );
    }

    #[test]
    fn a_level_has_no_sign() {
        let level = Some(Test::Ratio(Scale { band: Band::Level, from: 0.0, paper: 38.2 }));
        assert_eq!(judged(Kind::Magnitude, level, 42.0), Some(Agreement::Agrees));
        assert_eq!(judged(Kind::Magnitude, level, 42.1), Some(Agreement::Differs));
        assert_eq!(judged(Kind::Magnitude, level, 30.1), Some(Agreement::Differs));
    }

    #[test]
    fn a_match_that_was_made_is_no_evidence_and_its_miss_is_a_miss() {
        let positive = Some(Test::Range(Rule { at_least: Some(0.0), at_most: None }));
        for kind in [Kind::Input, Kind::Construction, Kind::Assumed] {
            assert_eq!(judged(kind, positive, 1.0), Some(Agreement::NoEvidence));
            assert_eq!(judged(kind, positive, -1.0), Some(Agreement::Differs));
            assert_eq!(judged(kind, effect(3.1, 0.0), 1.0), Some(Agreement::SignAlone));
            assert_eq!(judged(kind, None, 1.0), Some(Agreement::NoEvidence));
        }
        assert_eq!(judged(Kind::Repeated, None, 1.0), None);
        assert_eq!(judged(Kind::Unclaimed, None, 1.0), None);
    }

    #[test]
    fn counts_by_hand() {
        let positive = Some(Test::Range(Rule { at_least: Some(0.0), at_most: None }));
        let lines: Vec<Comparison> = [
            (Kind::Magnitude, effect(3.1, 0.0), 3.0),
            (Kind::Magnitude, effect(3.1, 0.0), 9.0),
            (Kind::Magnitude, effect(3.1, 0.0), -3.0),
            (Kind::Direction, positive, 1.0),
            (Kind::Direction, positive, 2.0),
            (Kind::Direction, positive, f64::NAN),
            (Kind::Input, None, 1.0),
            (Kind::Construction, positive, 1.0),
            (Kind::Assumed, positive, 1.0),
            (Kind::Assumed, positive, -1.0),
            (Kind::Repeated, None, 1.0),
            (Kind::Unclaimed, None, 1.0),
        ]
        .into_iter()
        .map(|(kind, test, ours)| Comparison::new(&data(), &statement(kind, test), Some(ours)))
        .collect();
        let score = Score::of(lines.iter());
        let magnitude = Tally { agree: 1, sign_alone: 1, differ: 1, ..Tally::default() };
        assert_eq!(score.kind(Kind::Magnitude), magnitude);
        assert_eq!(score.kind(Kind::Direction), Tally { agree: 2, open: 1, ..Tally::default() });
        assert_eq!(score.kind(Kind::Assumed).all(), 2);
        assert_eq!((score.agree(), score.judged()), (3, 6));
        assert_eq!((score.weak_misses(), score.no_evidence()), (1, 3));
        assert!(Score::default().to_string().ends_with(" directions."));
        let text = score.to_string();
        assert!(text.starts_with("3 of 6 judged comparisons agree: 1 of 3 "), "{text}");
        assert!(text.contains("2 of 2 directions"), "{text}");
        assert!(text.contains(" 1 misses although an input, "), "{text}");
        assert!(
            text.contains(" 3 match without being evidence: 1 is an input, 1 holds "),
            "{text}"
        );
        let end = " 1 repeats a claim that is judged elsewhere, and for 1 nothing is claimed.";
        assert!(text.ends_with(end), "{text}");
    }
}
