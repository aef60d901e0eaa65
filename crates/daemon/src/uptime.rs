//! Ages of jobs: a clock that runs while the machine does, across restarts of both daemon and
//! machine. It follows no wall clock, which may be set; that serves display alone.

use std::io;

use memweir_linux::clock;

/// Milliseconds in a day.
pub const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// State of the clock as it is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Milliseconds that the machine has run while it had this queue, as far as readings tell.
    pub total_ms: u64,
    /// Identifier of the boot in which it was read.
    pub boot: String,
    /// Milliseconds since that boot.
    pub at_ms: u64,
}

/// The clock of one queue.
#[derive(Debug)]
pub(crate) struct Uptime {
    /// The reading from which it goes on, in this boot.
    base: Reading,
}

impl Uptime {
    /// Goes on from the last reading on disk, or from the latest time on record if that is later:
    /// the machine may have restarted between two readings.
    ///
    /// # Errors
    /// If the boot cannot be identified.
    pub(crate) fn after(last: &Reading, latest_ms: u64) -> io::Result<Self> {
        let mut base = continued(last, clock::boot_id()?, since_boot());
        base.total_ms = base.total_ms.max(latest_ms);
        Ok(Self { base })
    }

    /// Returns the reading now.
    pub(crate) fn read(&self) -> Reading {
        continued(&self.base, self.base.boot.clone(), since_boot())
    }
}

fn since_boot() -> u64 {
    clock::since_boot().0 / 1_000_000
}

/// Returns the reading at a time of a boot. The time between the last reading of a boot and the
/// next boot does not count.
fn continued(last: &Reading, boot: String, at_ms: u64) -> Reading {
    let since = if last.boot == boot { at_ms.saturating_sub(last.at_ms) } else { 0 };
    Reading { total_ms: last.total_ms + since, boot, at_ms }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_counts_within_a_boot_and_stands_still_between_two() {
        let last = Reading { total_ms: 1_000, boot: "a".to_owned(), at_ms: 70 };
        let same = continued(&last, "a".to_owned(), 100);
        assert_eq!((same.total_ms, same.at_ms), (1_030, 100));
        let next = continued(&same, "b".to_owned(), 5);
        assert_eq!((next.total_ms, next.at_ms), (1_030, 5));
        assert_eq!(continued(&next, "b".to_owned(), 7).total_ms, 1_032);
        // A file that was copied from a later moment of the same boot.
        assert_eq!(continued(&last, "a".to_owned(), 3).total_ms, 1_000);
    }

    #[test]
    fn the_clock_of_this_machine_goes_on() {
        let clock = Uptime::after(&Reading::default(), 0).unwrap();
        let first = clock.read();
        assert_eq!(Uptime::after(&first, 0).unwrap().read().boot, first.boot);
        assert!(clock.read().total_ms >= first.total_ms);
    }

    #[test]
    fn no_job_ended_later_than_now() {
        let lost = Reading { total_ms: 1_000, boot: "before".to_owned(), at_ms: 70 };
        let clock = Uptime::after(&lost, 5_000).unwrap();
        assert!(clock.read().total_ms >= 5_000);
    }
}
