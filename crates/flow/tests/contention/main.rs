//! Properties of the engine that hold for any input, and observations of the papers as far as they
//! can be computed by hand.

mod bursts;
mod common;
mod driver;
mod growth;
mod invariants;
mod kernel;
