//! A request to end simulations early.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Request to end simulations before they are over. Clones share one request.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Requests the end. Simulations that hold a clone end at their next event.
    pub fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns true if the end has been requested.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
