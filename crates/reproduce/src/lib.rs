//! The figures and tables of iabw, hmmsched, bpm and drswap, simulated and set beside the papers' values.
//!
//! What a paper states and with which parameters it is repeated is data ([`source`]); the code of a
//! figure runs the simulators and says what came out ([`report::Found`]); the two are judged by the
//! kind of each comparison ([`score`]) and become an HTML page ([`html`]) and `results.json`
//! ([`report::Results`]), from which the tables of the manual are generated ([`manual`]). Nothing
//! here does I/O.

#![forbid(unsafe_code)]

mod bpm;
mod drswap;
mod hmmsched;
pub mod html;
mod iabw;
pub mod manual;
pub mod report;
mod run;
pub mod score;
pub mod source;
pub mod work;

pub use report::{Comparison, Effort, Report};
pub use run::{Failed, Options, PaperName, reproduce};
pub use source::Suite;
pub use work::{Observer, Stop, Unobserved};
