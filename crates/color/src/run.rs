//! Surroundings of a colored program: its environment, the counters, and the machine's setting.

use std::ffi::OsString;
use std::path::Path;

use memweir_abi::preload::page::PAGE_ORDER_VARIABLE;
use memweir_abi::preload::{Delivery, ORDER_VARIABLE, Order};
use memweir_core::input::Refusal;
use memweir_linux::host::{CAP_SYS_ADMIN, has_capability, kernel_release};
use memweir_linux::{guardian, memories, preload};

use crate::compaction::Quiet;
use crate::counters::{CountersFile, Totals};
use crate::plan::Request;
use crate::{ColorError, machine};

/// Help where the run-time directory cannot be used.
const RUNTIME_DIRECTORY: &str = "their directory must be writable, and this user's alone";

/// A program that can be started colored: put [`environment`](Self::environment) into it, keep
/// this until it has ended, and read [`totals`](Self::totals).
#[derive(Debug)]
pub struct Colored {
    environment: Vec<(OsString, OsString)>,
    delivery: Delivery,
    counters: CountersFile,
    quiet: Quiet,
}

impl Colored {
    /// Prepares `request`. [`check_program`](preload::check_program) checks the program
    /// itself. `guardian` starts the process that restores the kernel's setting if this process is
    /// killed; without one the setting is not changed.
    ///
    /// # Errors
    /// Refuses invalid requests, programs inside `memweir page run`, and machines that lack a
    /// requirement.
    pub fn prepare(
        request: &Request,
        guardian: Option<&guardian::Command>,
    ) -> Result<Self, ColorError> {
        if std::env::var_os(PAGE_ORDER_VARIABLE).is_some() {
            return Err(Refusal::new(
                "a paged program cannot be colored: both would answer its page faults",
                "start it outside `memweir page run`",
            )
            .into());
        }
        let mut counters = CountersFile::create()
            .map_err(|e| machine(format!("no place for counters: {e}"), RUNTIME_DIRECTORY))?;
        let order = request.order(counters.path().display().to_string())?;
        if let Some(available) = memories::available() {
            request.pool_fits(&order, available)?;
        }
        privileged()?;
        let release = kernel_release(Path::new("/")).unwrap_or_default();
        let order = Order { delivery: delivery(request.delivery, &release)?, ..order };
        let preload = preload::variable()?;
        counters
            .begin(&order)
            .map_err(|e| machine(format!("{}: {e}", counters.path().display()), "free memory"))?;
        let environment = vec![preload, (ORDER_VARIABLE.into(), order.to_string().into())];
        let quiet = Quiet::begin(guardian);
        Ok(Self { environment, delivery: order.delivery, counters, quiet })
    }

    /// The variables to set in the program's environment.
    #[must_use]
    pub fn environment(&self) -> &[(OsString, OsString)] {
        &self.environment
    }

    /// Delivery of its pages.
    #[must_use]
    pub fn delivery(&self) -> Delivery {
        self.delivery
    }

    /// Returns true if the kernel leaves the program's pages where they are (locked, and compaction
    /// kept off). Otherwise the library moves them back.
    #[must_use]
    pub fn drift_prevented(&self) -> bool {
        self.quiet.holds()
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.counters.totals()
    }
}

/// Checks that this process may see page frames.
pub(crate) fn privileged() -> Result<(), ColorError> {
    if has_capability(CAP_SYS_ADMIN) {
        return Ok(());
    }
    Err(machine(
        "page frames are visible to CAP_SYS_ADMIN only",
        "run as root, or give that capability",
    ))
}

/// Returns the requested delivery, or else the best one, if a kernel of this release supports it.
fn delivery(request: Option<Delivery>, release: &str) -> Result<Delivery, ColorError> {
    if let Some(delivery) = request.or_else(|| Delivery::best_on(release))
        && delivery.works_on(release)
    {
        return Ok(delivery);
    }
    let needed = |delivery: Delivery| {
        let (major, minor) = delivery.since();
        format!("Linux {major}.{minor} or later is needed")
    };
    let reason = format!("Linux {release} cannot move pages into a program (UFFDIO_MOVE)");
    Err(match request {
        Some(Delivery::Move) if Delivery::Recycle.works_on(release) => {
            machine(reason, format!("{}, or `--delivery recycle`", needed(Delivery::Move)))
        }
        Some(Delivery::Move) => machine(reason, needed(Delivery::Move)),
        _ => machine(
            format!("Linux {release} is older than any that recycles page frames as it must"),
            needed(Delivery::Recycle),
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_cannot_do_it_is_refused_with_what_can() {
        let said = |request, release| delivery(request, release).map_err(|error| error.to_string());
        assert_eq!(said(None, "6.18.4"), Ok(Delivery::Move));
        assert_eq!(said(None, "6.1.0-56-amd64"), Ok(Delivery::Recycle));
        assert_eq!(said(Some(Delivery::Recycle), "6.18.4"), Ok(Delivery::Recycle));
        let refused = said(Some(Delivery::Move), "6.1.0-56-amd64").unwrap_err();
        assert!(refused.contains("UFFDIO_MOVE") && refused.contains("Linux 6.8"), "{refused}");
        assert!(refused.contains("--delivery recycle"), "{refused}");
        for request in [None, Some(Delivery::Recycle)] {
            let refused = said(request, "5.15.0").unwrap_err();
            assert!(refused.contains("5.15.0") && refused.contains("Linux 6.1"), "{refused}");
        }
        assert!(!said(Some(Delivery::Move), "5.15.0").unwrap_err().contains("--delivery"));
    }
}
