//! Paging a program that runs: what to refuse before it starts, what to put into its environment, and
//! what is known of it while it runs and afterwards.
//!
//! Pages are moved by the preload library inside the program (`plugins/preload`), which counts what it
//! does in memory that is shared with this process. Nothing here renders or parses arguments.

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
pub use session::{Look, Paged, SMALLEST_DRAM, Wish};
pub use timeline::{Format, Row, Timeline};
pub use times::{Bucket, Histogram};
