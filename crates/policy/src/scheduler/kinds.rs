//! Kinds of jobs, and the figures of the first job of each.

use std::collections::VecDeque;

use memweir_core::{BytesPerSec, Nanos};

use super::types::Kind;

/// Kinds that are remembered. A daemon meets ever more, and looks through all of them per job.
const MOST_KINDS: usize = 1024;

/// Figures of a job that has done its work, as if it had been alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Alone {
    /// Execution time.
    pub(super) time: Nanos,
    /// Mean bandwidth over that time, if anything was counted.
    pub(super) bandwidth: Option<BytesPerSec>,
}

/// Figures of the known kinds, the one that has been known for longest first.
#[derive(Default)]
pub(super) struct Kinds(VecDeque<(Kind, Alone)>);

impl Kinds {
    pub(super) fn get(&self, kind: Kind) -> Option<Alone> {
        self.0.iter().find(|(known, _)| *known == kind).map(|(_, alone)| *alone)
    }

    /// Keeps the figures of the first job of a kind.
    pub(super) fn add(&mut self, kind: Kind, alone: Alone) {
        if self.0.len() == MOST_KINDS {
            self.0.pop_front();
        }
        self.0.push_back((kind, alone));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_kind_makes_room() {
        let mut kinds = Kinds::default();
        let alone = |time| Alone { time: Nanos(time), bandwidth: None };
        for kind in 0..=MOST_KINDS as u64 {
            kinds.add(Kind(kind), alone(kind));
        }
        assert_eq!(kinds.get(Kind(0)), None);
        assert_eq!(kinds.get(Kind(1)), Some(alone(1)));
        assert_eq!(kinds.get(Kind(MOST_KINDS as u64)), Some(alone(MOST_KINDS as u64)));
    }
}
