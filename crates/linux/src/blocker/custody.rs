//! The guardian of a blocker's jobs, and the notices about its loss.

use std::io;

use crate::guardian::Guard;

/// The guardian of a blocker's jobs. It is lost when it is gone and no other can be started;
/// nothing is blocked from then on.
pub(super) struct Custody {
    pub(super) guard: Box<dyn Guard>,
    is_lost: bool,
    /// Messages that the user has not seen yet.
    pub(super) notices: Vec<String>,
}

impl Custody {
    pub(super) fn new(guard: Box<dyn Guard>) -> Self {
        Self { guard, is_lost: false, notices: Vec::new() }
    }

    /// Returns true if the guardian is lost.
    pub(super) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Checks the guardian, and replaces one that died. Returns the reason why there is none, once.
    pub(super) fn take_loss(&mut self) -> Option<io::Error> {
        if self.is_lost {
            return None;
        }
        let checked = self.guard.check();
        self.is_lost = checked.is_err();
        checked.map(|notice| self.notices.extend(notice)).err()
    }

    /// Checks the guardian. Returns false if it is lost: then every job runs and stays running.
    pub(super) fn holds(&mut self) -> bool {
        if let Some(error) = self.take_loss() {
            self.lose(&error);
        }
        !self.is_lost
    }

    /// Gives the guardian up for this reason.
    pub(super) fn lose(&mut self, error: &io::Error) {
        self.is_lost = true;
        self.notices.push(format!(
            "the guardian process is gone and no other can be started ({error}); no job is blocked \
             any more, since nobody would resume it if memweir died"
        ));
    }
}
