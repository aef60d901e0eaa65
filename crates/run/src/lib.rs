//! The use cases of `memweir run`, `profile`, `hog`, `calibrate` and `doctor`.
//!
//! They compose the decisions of `memweir-policy` with the mechanisms of `memweir-linux` and
//! return reports as data. Nothing here prints, parses arguments or draws.

#![forbid(unsafe_code)]

pub mod batch;
pub mod calibrate;
pub mod colors;
pub mod compare;
pub mod decisions;
pub mod declared;
pub mod doctor;
pub mod files;
pub mod fit;
pub mod hog;
pub mod jobs;
mod lines;
pub mod logs;
mod machine;
pub mod observer;
pub mod options;
mod parquet_file;
pub mod platform;
pub mod policy_program;
pub mod profile;
pub mod recording;
pub mod report;
pub mod segment;
pub mod store;
pub mod table;
pub mod text;
pub mod timeline;
