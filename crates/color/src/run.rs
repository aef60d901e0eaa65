//! Everything around a colored program that is not the program: its environment, the counters, and
//! the machine's setting.

use std::ffi::OsString;

use memweir_core::preload::ORDER_VARIABLE;
use memweir_linux::preload;

use crate::compaction::Quiet;
use crate::counters::{CountersFile, Totals};
use crate::plan::Wish;
use crate::{ColorError, machine};

/// The capability without which pagemap hides page frames.
const CAP_SYS_ADMIN: u64 = 1 << 21;

/// A program that can be started colored: put [`environment`](Self::environment) into it, keep
/// this until it has ended, and read [`totals`](Self::totals).
#[derive(Debug)]
pub struct Colored {
    environment: Vec<(OsString, OsString)>,
    counters: CountersFile,
    quiet: Quiet,
}

impl Colored {
    /// Prepares what `wish` asks for. The program itself is checked by
    /// [`check_program`](preload::check_program).
    ///
    /// # Errors
    /// Refuses wrong wishes, and machines without what is needed.
    pub fn prepare(wish: &Wish) -> Result<Self, ColorError> {
        let mut counters = CountersFile::create()
            .map_err(|e| machine(format!("/dev/shm: {e}"), "mount a tmpfs there"))?;
        let order = wish.order(counters.path().display().to_string())?;
        privileged()?;
        recent_kernel()?;
        let preload = preload::variable()?;
        counters
            .begin(&order)
            .map_err(|e| machine(format!("{}: {e}", counters.path().display()), "free memory"))?;
        let environment = vec![preload, (ORDER_VARIABLE.into(), order.to_string().into())];
        Ok(Self { environment, counters, quiet: Quiet::begin() })
    }

    /// The variables to set in the program's environment.
    #[must_use]
    pub fn environment(&self) -> &[(OsString, OsString)] {
        &self.environment
    }

    /// Whether the kernel leaves the program's pages where they are (locked, and compaction kept
    /// off). Where it does not, the library moves them back.
    #[must_use]
    pub fn drift_prevented(&self) -> bool {
        self.quiet.holds()
    }

    /// What has been counted so far.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.counters.totals()
    }
}

/// Whether this process may see page frames.
pub(crate) fn privileged() -> Result<(), ColorError> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|text| u64::from_str_radix(text.trim(), 16).ok());
    match effective {
        Some(set) if set & CAP_SYS_ADMIN != 0 => Ok(()),
        _ => Err(machine(
            "page frames are visible to CAP_SYS_ADMIN only",
            "run as root, or give that capability",
        )),
    }
}

/// Whether pages can be moved.
fn recent_kernel() -> Result<(), ColorError> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse::<u32>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) if (major, minor) >= (6, 8) => Ok(()),
        _ => Err(machine(
            format!("Linux {} cannot move pages into a program (UFFDIO_MOVE)", release.trim()),
            "Linux 6.8 or later is needed",
        )),
    }
}
