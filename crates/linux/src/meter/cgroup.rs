//! Counting the memory traffic of control groups that others made.
//!
//! A [`Meter`](super::Meter) counts a job from before its exec on. A [`GroupMeter`] counts what the
//! processes of a control group do from [`attach`](GroupMeter::attach) on, whoever started them.

use std::path::{Path, PathBuf};

use memweir_core::input::InputError;
use memweir_core::{Bytes, Counts};

use super::native::{Choice, OpenedMeter, first};
use super::perf::PerfGroupMeter;
use super::resctrl::ResctrlGroupMeter;
use super::{Capabilities, MeterChoice, MeterError, MeterKind};
use crate::cgroup_tree::CgroupTree;

/// Identity of a control group for a meter: the inode of its directory.
pub type GroupId = u64;

/// One reading of a meter for a control group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupReading {
    /// Cumulative counts since the group was attached.
    pub counts: Counts,
    /// Bytes by L3 domain since the group was attached; empty for meters that know no domains.
    pub domains: Vec<DomainBytes>,
}

/// Bytes between one L3 domain and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DomainBytes {
    /// Number of the domain.
    pub domain: u32,
    /// The memory that is counted.
    pub scope: Scope,
    /// Bytes in both directions.
    pub bytes: Bytes,
}

/// The memory whose traffic an L3 domain counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// All memory of the machine.
    Total,
    /// The domain's own memory.
    Local,
}

memweir_core::named! { pub Scope, "scope": Total = "total", Local = "local" }

/// A source of counts for control groups.
pub trait GroupMeter: Send {
    /// Returns the kind of this meter.
    fn kind(&self) -> MeterKind;

    /// Returns its capabilities and blind spots, which stay the same.
    fn capabilities(&self) -> Capabilities;

    /// Starts counting the group of this directory.
    ///
    /// # Errors
    /// The group cannot be counted; a later try may succeed.
    fn attach(&mut self, group: GroupId, directory: &Path) -> Result<(), MeterError>;

    /// Reads the counts of an attached group. Works on groups that have just ended.
    ///
    /// # Errors
    /// The counts cannot be read this time.
    fn read(&mut self, group: GroupId) -> Result<GroupReading, MeterError>;

    /// Stops counting a group and returns whatever was opened for it.
    fn detach(&mut self, group: GroupId);

    /// Takes the messages for users since the last call, one sentence each.
    fn take_notices(&mut self) -> Vec<String> {
        Vec::new()
    }
}

/// Returns the error of reading a group that is not attached.
pub(crate) fn not_attached(group: GroupId) -> MeterError {
    MeterError::other(format!("group {group} is not attached"))
}

/// Options of group meters.
#[derive(Clone, Debug, Default)]
pub struct GroupMeterOptions {
    /// The meter, or the first that works.
    pub choice: MeterChoice,
    /// An event file in the place of the shipped ones.
    pub event_file: Option<PathBuf>,
    /// Most monitoring groups to take at once; half of what the CPU has if absent.
    pub monitoring_groups: Option<usize>,
}

/// Opens the first of `perf` and `resctrl` that the choice allows and that works on this tree.
/// Without one only CPU time can be read.
///
/// # Errors
/// The event file was refused.
pub fn open_group_meter(
    tree: &CgroupTree,
    options: &GroupMeterOptions,
) -> Result<Choice<dyn GroupMeter>, InputError> {
    let perf = || {
        let meter = PerfGroupMeter::open(tree, options.event_file.as_deref())?;
        let description = meter.describe();
        Ok(OpenedMeter { meter: Box::new(meter) as Box<dyn GroupMeter>, description })
    };
    let resctrl = || {
        let meter = ResctrlGroupMeter::open(options.monitoring_groups)?;
        let description = meter.describe();
        Ok(OpenedMeter { meter: Box::new(meter) as Box<dyn GroupMeter>, description })
    };
    first(options.choice, perf, resctrl)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_meter_is_opened_or_passed_over_with_a_reason() {
        let Ok(tree) = CgroupTree::open() else {
            return memweir_test_support::skip!(Kernel, "no cgroup v2 tree is mounted");
        };
        let opened = open_group_meter(&tree, &GroupMeterOptions::default()).unwrap();
        assert!(opened.meter.is_some() || opened.passed_over.len() == 2);
    }
}
