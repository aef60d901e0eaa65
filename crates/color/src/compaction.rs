//! Keeps the kernel from moving locked pages while colored programs run.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use memweir_linux::{SharedSetting, guardian};

/// The setting that lets compaction move locked pages.
const SETTING: &str = "/proc/sys/vm/compact_unevictable_allowed";

/// The claim of this process, which all of its colored programs share.
static CLAIM: Mutex<Weak<SharedSetting>> = Mutex::new(Weak::new());

/// Compaction leaves locked pages alone while this lives, if the setting can be changed.
#[derive(Debug)]
pub(crate) struct Quiet(Option<Arc<SharedSetting>>);

impl Quiet {
    /// Claims the setting. Without a guardian, which gives the claim up if this process is killed,
    /// the setting stays as it is.
    pub(crate) fn begin(guardian: Option<&guardian::Command>) -> Self {
        let mut shared = CLAIM.lock().unwrap_or_else(PoisonError::into_inner);
        let claim = || {
            let claim = SharedSetting::claim(Path::new(SETTING), "0", guardian?).ok()?;
            Some(Arc::new(claim))
        };
        let held = shared.upgrade().or_else(claim);
        *shared = held.as_ref().map_or_else(Weak::new, Arc::downgrade);
        Self(held)
    }

    /// Returns true if the kernel leaves locked pages where they are.
    pub(crate) fn holds(&self) -> bool {
        self.0.is_some()
    }
}
