//! The identity of a job, and its priority.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::input::Refusal;

/// A job of one batch: its index in the jobs file, from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(pub u32);

impl JobId {
    /// Returns the index for per-job tables.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Priority of a job; each step doubles the worth of a second of its progress. 0 unless said.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Priority(pub i32);

impl Priority {
    /// Distance from 0 beyond which priorities make no further difference: a factor of 1,024.
    pub const FARTHEST: i32 = 10;

    /// Checks a priority that a user writes.
    ///
    /// # Errors
    /// If it is farther from 0 than [`FARTHEST`](Self::FARTHEST).
    pub fn checked(step: i64) -> Result<Self, Refusal> {
        i32::try_from(step).ok().filter(|step| step.abs() <= Self::FARTHEST).map(Self).ok_or_else(
            || {
                let farthest = Self::FARTHEST;
                let reason = format!("{step} is no priority from -{farthest} to {farthest}");
                Refusal::new(reason, "each step doubles the weight of the job; 0 is usual")
            },
        )
    }

    /// Returns the worth of a second of progress, over that of a job of priority 0.
    #[must_use]
    pub fn worth(self) -> f64 {
        let doubled = f64::from(1_u32 << self.0.unsigned_abs().min(Self::FARTHEST as u32));
        if self.0 < 0 { 1.0 / doubled } else { doubled }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_doubles_the_worth() {
        assert_eq!([-1, 0, 1, 3].map(|step| Priority(step).worth()), [0.5, 1.0, 2.0, 8.0]);
        assert_eq!(Priority(i32::MAX).worth(), 1024.0);
        assert_eq!(Priority(i32::MIN).worth(), 1.0 / 1024.0);
    }

    #[test]
    fn absurd_priorities_are_refused() {
        assert_eq!(Priority::checked(-10), Ok(Priority(-10)));
        for step in [11, i64::MIN] {
            let reason = Priority::checked(step).unwrap_err().to_string();
            assert!(reason.contains("no priority from -10 to 10"), "{reason}");
        }
    }
}
