//! The direction that is served: reads, or a drain of the write queue.
//!
//! A drain begins when writes fill the queue above the high watermark or no read waits, and ends
//! below the low watermark once a read waits. A drain that lasts longer than the age limit ends as
//! well, and the reads that wait then are served before the next one begins.

use memweir_core::Direction;

use crate::config::MemoryConfig;
use crate::timer::NEVER;

/// The direction that is served. After an update, reads are served only while one waits.
#[derive(Clone, Debug)]
pub(super) struct Drain {
    served: Direction,
    /// The latest cycle in which a drain began or no read waited.
    began: u64,
    /// Reads to serve before a drain may begin again.
    owed_reads: u32,
    /// Waiting writes at which a drain begins, and below which it ends.
    high: u32,
    low: u32,
    age_limit: u64,
}

impl Drain {
    pub(super) fn new(config: &MemoryConfig) -> Self {
        let share = |share: f64| share * f64::from(config.write_queue);
        Self {
            served: Direction::Read,
            began: 0,
            owed_reads: 0,
            // A drain begins above the high watermark and ends below the low one.
            high: (share(config.high_watermark).floor() as u32 + 1).min(config.write_queue),
            low: share(config.low_watermark).ceil() as u32,
            age_limit: config.age_limit.map_or(NEVER, |limit| limit.0),
        }
    }

    /// Returns the direction whose waiting requests are served.
    #[inline]
    pub(super) fn served(&self) -> Direction {
        self.served
    }

    /// Begins or ends a drain at `now`, with the waiting reads and writes, and with the reads that
    /// have not been served: those that wait, and those whose rows are open. Returns true if the
    /// direction has changed.
    #[inline]
    pub(super) fn update(
        &mut self,
        [reads, writes]: [u32; 2],
        unserved_reads: u32,
        now: u64,
    ) -> bool {
        let before = self.served;
        if before == Direction::Read {
            if (writes >= self.high && self.owed_reads == 0) || reads == 0 {
                self.served = Direction::Write;
            }
        } else if reads != 0 {
            if writes == 0 || writes < self.low {
                self.served = Direction::Read;
            } else if now.saturating_sub(self.began) > self.age_limit {
                self.served = Direction::Read;
                self.owed_reads = unserved_reads;
            }
        }
        if self.served == Direction::Write && (before == Direction::Read || reads == 0) {
            self.began = now;
            self.owed_reads = 0;
        }
        self.served != before
    }

    /// Records that a read was served.
    pub(super) fn read_served(&mut self) {
        self.owed_reads = self.owed_reads.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use memweir_core::Cycles;

    use super::*;
    use crate::spec::MemorySpec;

    /// A queue of 10 writes that is drained from 8 on until fewer than 2 are left.
    fn drain() -> Drain {
        let mut config = MemoryConfig::new(MemorySpec::shipped("ddr4-2400").unwrap());
        config.write_queue = 10;
        (config.high_watermark, config.low_watermark) = (0.7, 0.2);
        config.age_limit = Some(Cycles(100));
        Drain::new(&config)
    }

    #[test]
    fn writes_are_drained_between_the_watermarks() {
        let mut drain = drain();
        assert!(!drain.update([1, 7], 1, 0));
        assert!(drain.update([1, 8], 1, 1));
        assert_eq!(drain.served(), Direction::Write);
        assert!(!drain.update([1, 2], 1, 50));
        assert!(drain.update([1, 1], 1, 51));
        assert_eq!(drain.served(), Direction::Read);
        assert!(drain.update([1, 8], 1, 52), "no read is owed");
    }

    #[test]
    fn a_drain_that_has_no_lower_end_ends_with_the_last_write() {
        let mut drain = Drain { low: 0, ..drain() };
        assert!(drain.update([0, 2], 0, 0));
        assert!(!drain.update([1, 1], 1, 1));
        assert!(drain.update([1, 0], 1, 2));
    }

    #[test]
    fn a_drain_is_long_only_while_reads_wait() {
        let mut drain = drain();
        assert!(drain.update([0, 9], 0, 0));
        assert!(!drain.update([0, 9], 0, 500));
        assert!(!drain.update([1, 9], 1, 600));
        assert!(drain.update([1, 9], 1, 601));
    }

    #[test]
    fn writes_are_served_while_no_read_waits() {
        let mut drain = drain();
        assert!(drain.update([0, 1], 0, 0));
        assert!(drain.update([1, 1], 1, 1), "below the low watermark");
    }

    #[test]
    fn reads_that_waited_for_a_long_drain_are_served_before_the_next() {
        let mut drain = drain();
        assert!(drain.update([2, 9], 2, 0));
        assert!(!drain.update([2, 9], 2, 100));
        assert!(drain.update([2, 9], 2, 101));
        assert!(!drain.update([2, 10], 2, 102), "two reads are owed");
        drain.read_served();
        assert!(!drain.update([1, 10], 1, 103));
        drain.read_served();
        assert!(drain.update([3, 10], 3, 104));
    }

    #[test]
    fn reads_whose_rows_are_open_are_served_beside_those_that_waited_for_a_long_drain() {
        let mut drain = drain();
        assert!(drain.update([0, 9], 1, 0));
        // Two reads wait, and the row of a third was opened before the drain.
        assert!(!drain.update([2, 9], 3, 100));
        assert!(drain.update([2, 9], 3, 101));
        drain.read_served();
        drain.read_served();
        assert!(!drain.update([1, 9], 1, 110), "one of the two still waits");
        drain.read_served();
        assert!(drain.update([1, 9], 1, 111));
    }
}
