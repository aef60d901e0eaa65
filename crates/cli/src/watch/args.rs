//! Options of `memweir watch`.

use std::path::PathBuf;

use memweir_core::Nanos;

use crate::export::ExportArgs;
use crate::shared::subjects::{SubjectArgs, interval};
use crate::value::duration;

/// Options of `memweir watch`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) subjects: SubjectArgs,
    /// Show the N subjects with the most memory traffic
    #[arg(long, value_name = "N", help_heading = "Subjects")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) top: Option<u32>,

    /// Time between two measurements
    #[arg(long, value_name = "TIME", value_parser = interval, default_value = "1s")]
    #[arg(help_heading = "Measuring")]
    pub(super) interval: Nanos,
    /// End after this time [default: at Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = duration, help_heading = "Measuring")]
    pub(super) time: Option<Nanos>,

    /// Write one row per subject and interval, as Parquet or CSV by the ending
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(super) record: Option<PathBuf>,
    #[command(flatten)]
    pub(super) export: ExportArgs,
}
