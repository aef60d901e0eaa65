//! Data shared by the software PMU and its reader (H7): the page of a job, the last-level cache,
//! and the words for sampling.
//!
//! The plugin runs inside the processes of the job; the scheduler reads each quantum. Both map the
//! same zero-initialized file, so the structures here are `repr(C)` and consist of atomics alone:
//! all zeros is a valid, empty value of each of them. The two sides do the mapping.

pub mod addresses;
pub mod gate;
pub mod heat;
pub mod layout;
pub mod placed;
pub mod program;
mod ring;
pub mod sampling;
pub mod totals;

pub use addresses::{AddressCell, LineAccess, LineBatch};
pub use heat::HeatCell;
pub use layout::{ChunkCell, JobPage, LlcHeader, Slot};
pub use placed::PlacementWords;
pub use ring::Unfinished;
pub use sampling::{BurstPlan, Sampling, SamplingError};
pub use totals::{RawChunk, Totals, claim};
