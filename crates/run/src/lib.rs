//! The use cases of `memweir run`, `profile`, `hog`, `calibrate` and `doctor`.
//!
//! They compose the decisions of `memweir-policy` with the mechanisms of `memweir-linux` and
//! return reports as data. Nothing here prints, parses arguments or draws.

#![forbid(unsafe_code)]

pub mod calibrate;
pub mod files;
pub mod hog;
mod machine;
pub mod platform;
pub mod profile;
pub mod recording;
pub mod segment;
pub mod store;
