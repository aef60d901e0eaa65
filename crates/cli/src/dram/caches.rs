//! The caches before a memory: of a trace that was taken at the core.

use std::path::{Path, PathBuf};

use memweir_bank::cached_trace::CachedTrace;
use memweir_core::cache::CacheHierarchy;
use memweir_core::input::InputError;
use memweir_linux::topology::TYPICAL_CACHES;
use memweir_run::options;
use memweir_trace::{Side, Trace};
use serde::Serialize;

use crate::failure::Failure;

/// The word for no caches.
const NONE: &str = "none";

/// Options of the caches.
#[derive(Debug, clap::Args)]
pub(super) struct CacheArgs {
    /// Caches between the trace and memory: a file as for `memweir profile`, or `none` [default:
    /// 32 KiB, 1 MiB and 32 MiB for traces of loads and stores (champsim, lackey, drmemtrace), none
    /// for all others]
    #[arg(long, value_name = "FILE|none")]
    caches: Option<PathBuf>,
}

impl CacheArgs {
    /// Returns the caches that the options say, `Some(None)` for none; `None` if they leave the
    /// choice to the trace.
    pub(super) fn chosen(&self) -> Result<Option<Option<CacheHierarchy>>, InputError> {
        self.caches
            .as_deref()
            .map(|file| match file == Path::new(NONE) {
                true => Ok(None),
                false => options::caches(file).map(Some),
            })
            .transpose()
    }

    /// Puts a trace behind the caches that the options say, or that the trace needs.
    pub(super) fn apply(&self, trace: Trace) -> Result<CachedTrace, Failure> {
        let needed = || (trace.header().side == Side::Core).then_some(TYPICAL_CACHES);
        let caches = self.chosen()?.unwrap_or_else(needed);
        Ok(CachedTrace::new(trace, caches))
    }

    /// Returns true if the options leave the choice to the trace.
    pub(super) fn is_default(&self) -> bool {
        self.caches.is_none()
    }
}

/// The caches as a report shows them.
pub(super) fn describe(caches: &CacheHierarchy) -> String {
    let CacheHierarchy { l1d, l2, llc } = caches;
    format!("{} and {} per thread, {} shared", l1d.size, l2.size, llc.size)
}

/// The caches in a JSON document.
#[derive(Serialize)]
pub(super) struct CacheFigures {
    l1d_bytes: u64,
    l2_bytes: u64,
    llc_bytes: u64,
}

impl From<&CacheHierarchy> for CacheFigures {
    fn from(caches: &CacheHierarchy) -> Self {
        let CacheHierarchy { l1d, l2, llc } = caches;
        Self { l1d_bytes: l1d.size.0, l2_bytes: l2.size.0, llc_bytes: llc.size.0 }
    }
}
