//! Paging a program that runs: refusals before it starts, the variables for its environment, and
//! reports while it runs and afterwards.
//!
//! The preload library inside the program (`plugins/preload`) moves the pages, and counts its work
//! in memory that is shared with this process. Nothing here renders or parses arguments.

mod killer;
mod machine;
mod outside;
mod overshoot;
mod place;
mod report;
mod session;
mod timeline;
mod times;

pub use killer::{Killer, largest};
pub use machine::{FileFinding, Here, Surroundings};
pub use outside::{Outside, UnpagedProgram};
pub use overshoot::Cause;
pub use place::{Nvm, SMALLEST_NVM};
pub use report::{Delay, NvmReport, Outcome, Report, UnpagedReport};
pub use session::{Look, Paged, Request, SMALLEST_DRAM};
pub use timeline::{Format, Row, Timeline};
pub use times::{Bucket, Histogram};
