//! The recordings that a scenario names, each read once.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memweir_core::input::Refusal;
use memweir_core::profile::Profile;

use super::Recording;

/// Profiles by the files that they were read from.
#[derive(Debug, Default)]
pub struct ProfileCache {
    read: RefCell<HashMap<PathBuf, Arc<Profile>>>,
}

impl ProfileCache {
    /// Returns the profile of the recording at `path`.
    ///
    /// # Errors
    /// If the file cannot be read or is not a recording, with the command that writes one.
    pub fn profile(&self, path: &Path) -> Result<Arc<Profile>, Refusal> {
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
