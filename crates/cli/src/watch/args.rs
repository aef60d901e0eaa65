//! Options of `memweir watch`.

use std::path::{Path, PathBuf};

use memweir_core::Nanos;
use memweir_core::input::InputError;
use memweir_linux::meter::cgroup::GroupMeterOptions;
use memweir_linux::{MeterChoice, MeterKind};
use memweir_watch::{Selection, WrongPattern};

use crate::export::ExportArgs;
use crate::value::{duration, refused};

/// Subjects to watch, and the meter that counts them.
#[derive(Debug, clap::Args)]
pub(crate) struct SubjectArgs {
    /// Watch this control group; `*` and `?` match names, and the group may come later
    #[arg(long, value_name = "PATH", help_heading = "Subjects")]
    cgroup: Vec<String>,
    /// Watch the systemd units of this name, such as `nginx` or `user@*`
    #[arg(long, value_name = "GLOB", help_heading = "Subjects")]
    unit: Vec<String>,
    /// Watch the steps of Slurm jobs
    #[arg(long, help_heading = "Subjects")]
    slurm: bool,
    /// Meter that counts memory traffic: auto, perf or resctrl
    #[arg(long, value_name = "NAME", value_parser = meter, default_value = "auto")]
    #[arg(help_heading = "Measuring")]
    pub(super) meter: MeterChoice,
    /// Perf events, instead of the built-in table
    #[arg(long, value_name = "FILE", help_heading = "Measuring")]
    events: Option<PathBuf>,
    /// Most monitoring groups of resctrl to take [default: half of the CPU's]
    #[arg(long, value_name = "N", help_heading = "Measuring")]
    monitoring_groups: Option<usize>,
}

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

/// An interval; a shorter one would measure the watch itself.
pub(crate) fn interval(text: &str) -> Result<Nanos, String> {
    let shortest = Nanos::from_millis(100);
    match duration(text)? {
        span if span < shortest => Err("the shortest interval is 100 ms".to_owned()),
        span => Ok(span),
    }
}

/// A meter that can count control groups.
fn meter(name: &str) -> Result<MeterChoice, String> {
    match name.parse::<MeterChoice>() {
        Ok(MeterChoice::Only(kind @ (MeterKind::Declared | MeterKind::Software))) => {
            Err(format!("`{kind}` does not count control groups; choose auto, perf or resctrl"))
        }
        Ok(choice) => Ok(choice),
        Err(refusal) => Err(refused(refusal)),
    }
}

impl SubjectArgs {
    /// Returns true if the command line names subjects or a meter.
    pub(crate) fn is_given(&self) -> bool {
        let named = !self.cgroup.is_empty() || !self.unit.is_empty() || self.slurm;
        named || self.events.is_some() || self.meter != MeterChoice::Auto
    }

    /// Returns the subjects to watch in the tree mounted at `top`.
    pub(super) fn selection(&self, top: &Path) -> Result<Selection, InputError> {
        let wrong = |option: &'static str| {
            move |error: WrongPattern| {
                InputError::new("command line", error.to_string()).key(option)
            }
        };
        let mut selection = Selection::default();
        for path in &self.cgroup {
            selection = selection.cgroup(path, top).map_err(wrong("--cgroup"))?;
        }
        for glob in &self.unit {
            selection = selection.unit(glob).map_err(wrong("--unit"))?;
        }
        Ok(if self.slurm { selection.slurm() } else { selection })
    }

    /// Returns the choice of a meter.
    pub(super) fn meter_options(&self) -> GroupMeterOptions {
        GroupMeterOptions {
            choice: self.meter,
            event_file: self.events.clone(),
            monitoring_groups: self.monitoring_groups,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_and_meters_that_cannot_be_are_refused() {
        assert_eq!(interval("2s"), Ok(Nanos::from_millis(2000)));
        assert!(interval("10ms").unwrap_err().contains("100 ms"));
        assert_eq!(meter("perf"), Ok(MeterChoice::Only(MeterKind::Perf)));
        assert!(meter("software").unwrap_err().contains("perf or resctrl"));
        assert!(meter("perv").unwrap_err().contains("perf"));
    }
}
