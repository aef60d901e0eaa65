//! A request to end simulations early.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::input::Refusal;

/// Request to end simulations before they are over. Clones share one request.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Requests the end. Simulations that hold a clone end at their next event.
    pub fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Refuses to go on after a request.
    ///
    /// # Errors
    /// If the end has been requested.
    pub fn check(&self) -> Result<(), Refusal> {
        match self.is_requested() {
            true => Err(Refusal::plain("stopped before its end")),
            false => Ok(()),
        }
    }

    /// Returns true if the end has been requested.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
