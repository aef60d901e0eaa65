//! The last quanta, for those who watch the daemon.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::{Service, lock};
use crate::protocol::{MAX_QUANTA, QuantumView, Reply};

/// Time after the last request for which quanta are still kept.
const WATCH_TIMEOUT: Duration = Duration::from_secs(10);

/// Quanta that are kept while somebody asks for them.
#[derive(Debug, Default)]
pub(super) struct Activity {
    asked: Option<Instant>,
    quanta: VecDeque<QuantumView>,
}

impl Service {
    /// Returns true if quanta are of interest.
    pub(crate) fn is_watched(&self) -> bool {
        lock(&self.activity).asked.is_some_and(|asked| asked.elapsed() < WATCH_TIMEOUT)
    }

    /// Keeps a quantum.
    pub(crate) fn quantum_ended(&self, quantum: QuantumView) {
        let quanta = &mut lock(&self.activity).quanta;
        if quanta.len() == MAX_QUANTA {
            quanta.pop_front();
        }
        quanta.push_back(quantum);
    }

    /// Returns the quanta from this number on that are kept.
    pub(super) fn activity(&self, from: u64) -> Reply {
        let mut activity = lock(&self.activity);
        let was_watched = activity.asked.is_some_and(|asked| asked.elapsed() < WATCH_TIMEOUT);
        activity.asked = Some(Instant::now());
        if !was_watched {
            // There is a gap behind those of an earlier watcher.
            activity.quanta.clear();
        }
        let wanted = activity.quanta.iter().filter(|quantum| quantum.number >= from);
        Reply::Activity(wanted.cloned().collect())
    }
}
