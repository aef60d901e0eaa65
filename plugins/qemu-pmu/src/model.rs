//! The cache model: pure, independent of the emulator.
//!
//! Private first- and second-level caches per vCPU and one last level for all running jobs, each
//! set-associative with true LRU order. The levels are neither inclusive nor exclusive: a miss
//! fills every level, a dirty victim is written into the next one, and an eviction from the last
//! level leaves private copies alone (it may belong to another process).
//!
//! The model counts lines moved between the last level and memory. It omits prefetching (which
//! moves the same lines earlier; useless prefetches past the end of a stream are few), coherence
//! between the private caches (no memory traffic), instruction fetches, the page walker, and the
//! second line of an access that straddles two.

pub mod first;
pub mod index;
pub mod lanes;
pub mod placement;
pub mod private;
pub mod shared;
pub mod vcpu;
