//! Control groups as subjects of `watch` and `top`: the options that choose them, and their meter.

use std::path::{Path, PathBuf};

use memweir_core::Nanos;
use memweir_core::input::InputError;
use memweir_linux::cgroup_tree::CgroupTree;
use memweir_linux::meter::Choice;
use memweir_linux::meter::cgroup::{GroupMeter, GroupMeterOptions, open_group_meter};
use memweir_linux::{MeterChoice, MeterKind};
use memweir_run::options::counts_events;
use memweir_watch::{Row, Selection, Watch, WrongPattern};

use crate::failure::{Failure, refusal_of};
use crate::value::{duration, offering};

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
    /// Meter that counts memory traffic
    #[arg(long, value_name = "NAME", default_value = "auto", help_heading = "Measuring")]
    #[arg(value_parser = offering(meter, ["auto", "perf", "resctrl"]))]
    meter: MeterChoice,
    /// Perf events, instead of the built-in table
    #[arg(long, value_name = "FILE", help_heading = "Measuring")]
    events: Option<PathBuf>,
    /// Most monitoring groups of resctrl to take [default: half of the CPU's]
    #[arg(long, value_name = "N", help_heading = "Measuring")]
    monitoring_groups: Option<usize>,
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
        Err(_) => Err(format!("unknown meter `{name}`; choose auto, perf or resctrl")),
    }
}

impl SubjectArgs {
    /// Returns true if the command line names subjects or a meter.
    pub(crate) fn is_given(&self) -> bool {
        let named = !self.cgroup.is_empty() || !self.unit.is_empty() || self.slurm;
        let metered = self.events.is_some() || self.monitoring_groups.is_some();
        named || metered || self.meter != MeterChoice::Auto
    }

    /// Refuses options of another meter than the one that is named.
    fn check_meter(&self) -> Result<(), InputError> {
        let MeterChoice::Only(kind) = self.meter else { return Ok(()) };
        if self.events.is_some() {
            counts_events(kind)
                .map_err(|refusal| refusal.placed(|reason| refusal_of("--events", reason)))?;
        }
        if self.monitoring_groups.is_some() && kind != MeterKind::Resctrl {
            let refusal = refusal_of("--monitoring-groups", format!("{kind} takes none"));
            return Err(refusal.help("they are those of the resctrl meter"));
        }
        Ok(())
    }

    /// Returns the subjects to watch in the tree mounted at `top`.
    fn selection(&self, top: &Path) -> Result<Selection, InputError> {
        let wrong =
            |option: &'static str| move |error: WrongPattern| refusal_of(option, error.to_string());
        let mut selection = Selection::default();
        for path in &self.cgroup {
            selection = selection.cgroup(path, top).map_err(wrong("--cgroup"))?;
        }
        for glob in &self.unit {
            selection = selection.unit(glob).map_err(wrong("--unit"))?;
        }
        Ok(if self.slurm { selection.slurm() } else { selection })
    }
}

/// Opens a watch, and describes its meter or why there is none.
pub(crate) fn open(args: &SubjectArgs) -> Result<(Watch, String), Failure> {
    args.check_meter()?;
    let tree = CgroupTree::open().map_err(|probe| Failure::Machine(probe.to_string()))?;
    let selection = args.selection(tree.top())?;
    let options = GroupMeterOptions {
        choice: args.meter,
        event_file: args.events.clone(),
        monitoring_groups: args.monitoring_groups,
    };
    let opened = open_group_meter(&tree, &options)?;
    let described = described(&opened, args)?;
    Ok((Watch::new(tree, selection, opened.meter.map(|opened| opened.meter)), described))
}

/// Describes the meter, or why there is none. A meter that was named must serve.
fn described(opened: &Choice<dyn GroupMeter>, args: &SubjectArgs) -> Result<String, Failure> {
    let passed = opened.passed_over.join("; ");
    match &opened.meter {
        Some(opened) => Ok(format!("meter {}: {}", opened.meter.kind(), opened.description)),
        _ if args.meter == MeterChoice::Auto => Ok(format!("CPU time alone is measured: {passed}")),
        _ => Err(Failure::Machine(passed)),
    }
}

/// Puts the rows with the most traffic first; CPU time decides where none was measured.
pub(crate) fn busiest_first(rows: &mut [Row]) {
    let weight = |row: &Row| (row.bandwidth.unwrap_or(-1.0), row.cpu_s.unwrap_or(-1.0));
    rows.sort_by(|a, b| {
        let ((a_rate, a_cpu), (b_rate, b_cpu)) = (weight(a), weight(b));
        b_rate.total_cmp(&a_rate).then(b_cpu.total_cmp(&a_cpu))
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_another_meter_are_refused() {
        let given = |meter, events: Option<&str>, monitoring_groups| {
            let (cgroup, unit, slurm) = (Vec::new(), Vec::new(), false);
            let events = events.map(PathBuf::from);
            let args = SubjectArgs { cgroup, unit, slurm, meter, events, monitoring_groups };
            args.check_meter().map_err(|error| error.to_string())
        };
        let (perf, resctrl) = (MeterKind::Perf, MeterKind::Resctrl);
        let refused = given(MeterChoice::Only(resctrl), Some("e.toml"), None).unwrap_err();
        assert!(refused.contains("--events: resctrl counts without perf events"), "{refused}");
        let refused = given(MeterChoice::Only(perf), None, Some(4)).unwrap_err();
        assert!(refused.contains("--monitoring-groups: perf takes none"), "{refused}");
        assert_eq!(given(MeterChoice::Only(perf), Some("e.toml"), None), Ok(()));
        assert_eq!(given(MeterChoice::Only(resctrl), None, Some(4)), Ok(()));
        assert_eq!(given(MeterChoice::Auto, Some("e.toml"), Some(4)), Ok(()));
    }

    #[test]
    fn intervals_and_meters_that_cannot_be_are_refused() {
        assert_eq!(interval("2s"), Ok(Nanos::from_millis(2000)));
        assert!(interval("10ms").unwrap_err().contains("100 ms"));
        assert_eq!(meter("perf"), Ok(MeterChoice::Only(MeterKind::Perf)));
        assert!(meter("software").unwrap_err().contains("perf or resctrl"));
        assert_eq!(
            meter("none").unwrap_err(),
            "unknown meter `none`; choose auto, perf or resctrl"
        );
    }
}
