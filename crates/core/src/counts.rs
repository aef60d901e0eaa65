//! What a meter counts for a job.

use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

use crate::units::{BytesPerSec, Lines, Nanos};

/// Events of one job, over some span or since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Instructions retired; zero where the meter cannot count them.
    pub instructions: u64,
    /// Lines read from memory (demand and prefetch fills as far as the meter sees them).
    pub reads: Lines,
    /// Lines written back to memory; zero where the meter sees reads alone.
    pub writes: Lines,
}

impl Counts {
    /// Memory transactions in both directions.
    #[must_use]
    pub fn lines(&self) -> Lines {
        self.reads + self.writes
    }

    /// The bandwidth of these transactions over `span`.
    #[must_use]
    pub fn bandwidth(&self, span: Nanos) -> BytesPerSec {
        self.lines().over(span)
    }

    /// What was counted since `earlier`. A counter that went backwards counts as zero.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            instructions: self.instructions.saturating_sub(earlier.instructions),
            reads: self.reads.saturating_sub(earlier.reads),
            writes: self.writes.saturating_sub(earlier.writes),
        }
    }
}

impl Add for Counts {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            instructions: self.instructions + other.instructions,
            reads: self.reads + other.reads,
            writes: self.writes + other.writes,
        }
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}
