//! Parts that several commands share. Commands do not import each other.

pub(crate) mod batch;
pub(crate) mod batch_args;
pub(crate) mod coloring;
pub(crate) mod connection;
pub(crate) mod help;
pub(crate) mod hog;
pub(crate) mod map;
pub(crate) mod metrics;
pub(crate) mod names;
pub(crate) mod over_time;
pub(crate) mod profiling;
pub(crate) mod rows;
pub(crate) mod scenario;
pub(crate) mod shards;
pub(crate) mod subjects;
pub(crate) mod watcher;
