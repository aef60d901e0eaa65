//! What the engine must do whatever it is given, and what the papers saw, as far as it can be
//! computed by hand.

mod bursts;
mod common;
mod driver;
mod growth;
mod invariants;
mod kernel;
