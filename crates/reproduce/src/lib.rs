//! The figures and tables of iabw, hmmsched, bpm and drswap, simulated and compared with the
//! papers' values; and, as `beyond`, all policies on the mixes of all papers.
//!
//! The statements of a paper and the parameters with which they are repeated are data ([`source`]);
//! the code of a figure runs the simulators and returns their results ([`report::Found`]); the two
//! are judged by the kind of each comparison ([`score`]) and become an HTML page ([`html`]) and
//! `results.json` ([`report::Results`]), from which the tables of the manual are generated
//! ([`manual`]). The figure of its first page shows a comparison on a real machine ([`live`]).
//! Nothing here does I/O.

#![forbid(unsafe_code)]

mod bars;
mod beyond;
mod bpm;
mod drswap;
mod hmmsched;
pub mod html;
mod iabw;
pub mod live;
pub mod manual;
pub mod report;
mod run;
pub mod score;
pub mod source;
mod statistics;
pub mod work;

/// Hash of the code and the data of the figures from which this memweir was built, in hexadecimal
/// digits.
pub const FIGURES: &str = env!("MEMWEIR_FIGURES");

pub use report::{Comparison, Effort, Report};
pub use run::{Failed, Options, PaperName, choose, reproduce};
pub use source::Suite;
pub use work::{Observer, Stop, Unobserved};
