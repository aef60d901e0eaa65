//! The last quanta, for those who watch the daemon.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::protocol::{MAX_QUANTA, QuantumView};

/// Time after the last request for which quanta are still kept.
const WATCH_TIMEOUT: Duration = Duration::from_secs(10);

/// Quanta that are kept while somebody asks for them.
#[derive(Debug, Default)]
pub(super) struct Activity {
    asked: Option<Instant>,
    quanta: VecDeque<QuantumView>,
}

impl Activity {
    /// Returns true if somebody has asked lately.
    pub(super) fn is_watched(&self) -> bool {
        self.asked.is_some_and(|asked| asked.elapsed() < WATCH_TIMEOUT)
    }

    /// Keeps a quantum.
    pub(super) fn keep(&mut self, quantum: QuantumView) {
        if self.quanta.len() == MAX_QUANTA {
            self.quanta.pop_front();
        }
        self.quanta.push_back(quantum);
    }

    /// Returns the quanta from this number on that are kept, for somebody who will ask again.
    pub(super) fn ask(&mut self, from: u64) -> Vec<QuantumView> {
        if !self.is_watched() {
            // There is a gap behind those of an earlier watcher.
            self.quanta.clear();
        }
        self.asked = Some(Instant::now());
        self.quanta.iter().filter(|quantum| quantum.number >= from).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantum(number: u64) -> QuantumView {
        QuantumView { number, span_ns: 1, bandwidth: None, target: None, jobs: Vec::new() }
    }

    #[test]
    fn the_last_quanta_are_kept_for_a_watcher() {
        let mut activity = Activity::default();
        assert!(!activity.is_watched());
        activity.keep(quantum(0));
        assert_eq!(activity.ask(0), [], "it was nobody's");
        assert!(activity.is_watched());
        let last = MAX_QUANTA as u64;
        (0..=last).for_each(|number| activity.keep(quantum(number)));
        assert_eq!(activity.ask(0).len(), MAX_QUANTA);
        assert_eq!(activity.ask(0)[0].number, 1, "the oldest is gone");
        assert_eq!(activity.ask(last), [quantum(last)]);
    }
}
