//! The recordings of `memweir profile` that a scenario names, each read once.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memweir_core::input::Refusal;
use memweir_core::profile::Profile;
use memweir_run::recording::Recording;
use memweir_study::flow::Recordings;

/// Recordings by their files.
#[derive(Default)]
pub(super) struct Recorded {
    read: RefCell<HashMap<PathBuf, Arc<Profile>>>,
}

impl Recordings for Recorded {
    fn profile(&self, path: &Path) -> Result<Arc<Profile>, Refusal> {
        if let Some(profile) = self.read.borrow().get(path) {
            return Ok(Arc::clone(profile));
        }
        let recording = Recording::load(path).map_err(|error| {
            Refusal::new(error.to_string(), "`memweir profile --recording FILE` writes one")
        })?;
        let profile = Arc::new(recording.profile);
        self.read.borrow_mut().insert(path.to_owned(), Arc::clone(&profile));
        Ok(profile)
    }
}
