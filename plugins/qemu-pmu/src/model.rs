//! The cache model: pure, no emulator in sight.
//!
//! Private first- and second-level caches per vCPU and one last level for all running jobs, each
//! set-associative with true LRU order. The levels are neither inclusive nor exclusive: a miss
//! fills every level, a dirty victim is written into the next one, and an eviction from the last
//! level leaves private copies alone (it may belong to another process).
//!
//! What is counted is lines moved between the last level and memory. Left out on purpose:
//! prefetching (it moves the same lines earlier; what it fetches in vain past the end of a
//! stream is small), coherence between the private caches (no memory traffic), instruction
//! fetches, the page walker, and the second line of an access that straddles two.

pub mod first;
pub mod index;
pub mod lanes;
pub mod placement;
pub mod private;
pub mod shared;
pub mod tags;
pub mod vcpu;
