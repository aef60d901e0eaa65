//! Hardware events per control group.
//!
//! The kernel counts a control group on one CPU at a time, so each group takes one file descriptor
//! per event and CPU. An event covers the groups below, and all processes that ever enter.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;

use memweir_core::Media;

use super::counters::{self, EventCounter, Scope};
use super::events::Quantity;
use super::media::Sorted;
use super::probe::{self, Privileges};
use super::{ChosenEvents, CounterSet, PerfOpenError};
use crate::OsError;
use crate::cgroup_tree::CgroupTree;
use crate::launch::limits;
use crate::meter::cgroup::{GroupId, GroupMeter, GroupReading, not_attached};
use crate::meter::{Capabilities, MeterError, MeterKind, Reason};
use crate::topology::online_cpus;

/// Counts the hardware events of control groups.
pub struct PerfGroupMeter {
    events: ChosenEvents,
    groups: BTreeMap<GroupId, CounterSet>,
    notices: Vec<String>,
    /// Messages given already: the same trouble in 500 groups is reported once.
    told: BTreeSet<String>,
}

impl PerfGroupMeter {
    /// Chooses the events of this machine from `event_file`, or from the shipped files, and tries
    /// each of them on the top of `tree`.
    ///
    /// # Errors
    /// The event file is refused, or the machine does not count control groups.
    pub fn open(tree: &CgroupTree, event_file: Option<&Path>) -> Result<Self, PerfOpenError> {
        let privileges = Privileges::of_this_process();
        let refused = |error: &OsError| probe::refused_for_groups(error, &privileges);
        let unavailable = |error: OsError| PerfOpenError::Unavailable(refused(&error));
        let top = OsError::of(tree.top().display().to_string());
        let group = File::open(tree.top()).map_err(top).map_err(unavailable)?;
        let cpus = online_cpus().map_err(OsError::of("on each CPU")).map_err(unavailable)?;
        let cpu = cpus.first().copied().unwrap_or(0);
        let mut events = ChosenEvents::choose(
            event_file,
            &Media::dram_only(),
            &privileges,
            |source, scope| counters::try_group_events(&source.events, scope, &group, cpu),
            refused,
        )?;
        limits::raise_open_files();
        if events.scope == Scope::UserOnly {
            events
                .caveats
                .push(format!("The kernel's own accesses are not counted: {privileges}."));
        }
        let (groups, notices, told) = (BTreeMap::new(), Vec::new(), BTreeSet::new());
        Ok(Self { events, groups, notices, told })
    }

    /// Describes the quantities and the events that count them, as one sentence for people.
    #[must_use]
    pub fn describe(&self) -> String {
        self.events.describe()
    }

    /// Opens counters of the lines that a control group reads and writes, each with its CPU, which
    /// overflow about each time that one of them has counted `lines`, at least 1.
    ///
    /// # Errors
    /// The event that the kernel refuses, or the directory.
    pub(crate) fn overflow_counters(
        &self,
        directory: &Path,
        lines: u32,
    ) -> Result<Vec<(usize, memweir_scx::Counter)>, OsError> {
        let (group, cpus) = group_and_cpus(directory)?;
        let sources = self.events.sources.iter();
        let sources = sources.filter(|source| source.counts != Quantity::Instructions);
        let mut counters = Vec::new();
        for event in sources.flat_map(|source| &source.events) {
            let period = events_of(lines, event.weight);
            let lines = (period as f64 * event.weight).round().max(1.0) as u32;
            for cpu in &cpus {
                let opened = counters::overflowing(event, self.events.scope, &group, *cpu, period);
                let event = opened.map_err(OsError::of(&event.name))?;
                counters.push((*cpu, memweir_scx::Counter { event, lines }));
            }
        }
        Ok(counters)
    }

    fn open_counters(&self, directory: &Path) -> Result<Vec<EventCounter>, OsError> {
        let (group, cpus) = group_and_cpus(directory)?;
        let mut counters = Vec::new();
        let ChosenEvents { sources, scope, .. } = &self.events;
        for source in sources {
            for event in &source.events {
                let sorted = Sorted::of(source.counts, event, &Media::dram_only());
                for cpu in &cpus {
                    let counter = EventCounter::of_group(sorted, event, *scope, &group, *cpu);
                    counters.push(counter.map_err(OsError::of(&event.name))?);
                }
            }
        }
        Ok(counters)
    }
}

/// Opens the directory of a control group, on each of whose CPUs an event has a counter.
fn group_and_cpus(directory: &Path) -> Result<(File, Vec<usize>), OsError> {
    let failed = |error| OsError::new(directory.display().to_string(), error);
    Ok((File::open(directory).map_err(failed)?, online_cpus().map_err(failed)?))
}

/// Returns the number of events that stand for at most `lines`, at least 1.
fn events_of(lines: u32, weight: f64) -> u64 {
    (f64::from(lines) / weight).floor().max(1.0) as u64
}

impl GroupMeter for PerfGroupMeter {
    fn kind(&self) -> MeterKind {
        MeterKind::Perf
    }

    fn capabilities(&self) -> Capabilities {
        self.events.capabilities()
    }

    fn attach(&mut self, group: GroupId, directory: &Path) -> Result<(), MeterError> {
        let counters = self.open_counters(directory).map_err(|OsError { what, source }| {
            let reason = Reason::of(&source);
            let text = match source.raw_os_error() {
                Some(libc::EMFILE | libc::ENFILE) => format!(
                    "{} is not counted: the limit of open files is reached; each group takes one \
                     per event and CPU (raise it with `ulimit -Hn`)",
                    directory.display()
                ),
                _ => format!("opening {what}: {source}"),
            };
            MeterError { reason, text }
        })?;
        self.groups.insert(group, CounterSet { counters, ..CounterSet::default() });
        Ok(())
    }

    fn read(&mut self, group: GroupId) -> Result<GroupReading, MeterError> {
        let counters = self.groups.get_mut(&group).ok_or_else(|| not_attached(group))?;
        let (counts, troubles) = counters.read("")?;
        for text in troubles {
            if self.told.insert(text.clone()) {
                self.notices.push(text);
            }
        }
        Ok(GroupReading { counts, domains: Vec::new() })
    }

    fn detach(&mut self, group: GroupId) {
        self.groups.remove(&group);
    }

    fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overflow_stands_for_no_more_lines_than_asked_for_where_an_event_does_not() {
        assert_eq!(events_of(488, 1.0), 488);
        assert_eq!(events_of(488, 64.0), 7);
        assert_eq!(events_of(488, 0.5), 976);
        assert_eq!(events_of(3, 64.0), 1);
    }
}
