//! Cache geometry: the sizes that the software PMU models and that a hog must exceed.

use serde::{Deserialize, Serialize};

use crate::units::{Bytes, LINE_BYTES};

/// One set-associative cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheGeometry {
    /// Capacity in bytes.
    pub size: Bytes,
    /// Associativity, at least one.
    pub ways: u32,
    /// Line size in bytes, a power of two.
    pub line: u32,
}

impl CacheGeometry {
    /// Creates a cache of `size` with lines of [`LINE_BYTES`].
    #[must_use]
    pub const fn new(size: Bytes, ways: u32) -> Self {
        Self { size, ways, line: LINE_BYTES as u32 }
    }

    /// Returns the number of sets: capacity over ways times line. Not always a power of two; zero
    /// for a set size of zero, which [`CacheHierarchy::validate`] refuses.
    #[must_use]
    pub fn sets(&self) -> u64 {
        let set = u64::from(self.ways) * u64::from(self.line);
        self.size.0.checked_div(set).unwrap_or(0)
    }

    fn validate(&self, level: &'static str) -> Result<(), GeometryError> {
        let refuse = |reason: String| Err(GeometryError { level, reason });
        if u64::from(self.line) != LINE_BYTES {
            return refuse(format!("lines of {} B; only {LINE_BYTES} B is modeled", self.line));
        }
        if !(1..=MAX_WAYS).contains(&self.ways) {
            return refuse(format!("{} ways; 1 to {MAX_WAYS} are modeled", self.ways));
        }
        let set = u64::from(self.ways) * LINE_BYTES;
        if self.size.0 == 0 || !self.size.0.is_multiple_of(set) {
            return refuse(format!("{} is not a multiple of {set} B, one set", self.size));
        }
        if self.size > MAX_SIZE {
            return refuse(format!("{} is more than {MAX_SIZE}", self.size));
        }
        Ok(())
    }
}

/// Highest associativity that the cache model supports.
pub const MAX_WAYS: u32 = 64;

/// Size of the largest cache that the cache model supports.
pub const MAX_SIZE: Bytes = Bytes(4 << 30);

/// The caches between one core and memory. The last level is shared between the running jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheHierarchy {
    /// Private first-level data cache.
    pub l1d: CacheGeometry,
    /// Private second-level cache.
    pub l2: CacheGeometry,
    /// Last-level cache, shared.
    pub llc: CacheGeometry,
}

/// A cache that cannot be modeled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{level}: {reason}")]
pub struct GeometryError {
    /// Level of the cache: `l1d`, `l2` or `llc`.
    pub level: &'static str,
    /// Reason.
    pub reason: String,
}

impl CacheHierarchy {
    /// Returns an error for the first cache that the cache model cannot simulate.
    pub fn validate(&self) -> Result<(), GeometryError> {
        for (level, cache) in [("l1d", &self.l1d), ("l2", &self.l2), ("llc", &self.llc)] {
            cache.validate(level)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> CacheHierarchy {
        CacheHierarchy {
            l1d: CacheGeometry::new(Bytes(48 << 10), 12),
            l2: CacheGeometry::new(Bytes(1280 << 10), 20),
            llc: CacheGeometry::new(Bytes(33 << 20), 11),
        }
    }

    #[test]
    fn sets_need_not_be_a_power_of_two() {
        assert_eq!(server().l1d.sets(), 64);
        // 33 MiB / (11 x 64 B) = 49,152 sets.
        assert_eq!(server().llc.sets(), 49_152);
        assert_eq!(server().validate(), Ok(()));
    }

    #[test]
    fn impossible_caches_are_refused_with_their_level() {
        let mut caches = server();
        caches.l2.ways = 0;
        assert_eq!(caches.validate().unwrap_err().level, "l2");
        assert_eq!(caches.l2.sets(), 0);
        caches = server();
        caches.llc.size = Bytes((33 << 20) + 64);
        assert!(caches.validate().unwrap_err().to_string().starts_with("llc: "));
        caches = server();
        caches.l1d.line = 128;
        assert!(caches.validate().unwrap_err().reason.contains("only 64 B"));
        let llc = |size, ways| {
            let llc = CacheGeometry::new(Bytes(size), ways);
            CacheHierarchy { llc, ..server() }.validate().err().map(|error| error.reason)
        };
        assert_eq!(llc(4 << 30, 64), None);
        assert_eq!(llc(64, 1), None);
        assert!(llc(65 * 64, 65).unwrap().contains("1 to 64 are modeled"));
        assert!(llc((4 << 30) + 64, 1).unwrap().contains("more than 4 GiB"));
        assert!(llc(0, 1).unwrap().contains("not a multiple"));
    }
}
