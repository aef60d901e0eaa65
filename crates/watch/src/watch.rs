//! Measuring subjects from tick to tick.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use memweir_core::{Counts, LINE_BYTES, Nanos};
use memweir_linux::cgroup_tree::{CgroupTree, Group, GroupState};
use memweir_linux::meter::Reason;
use memweir_linux::meter::cgroup::{DomainBytes, GroupId, GroupMeter, GroupReading};
use memweir_linux::{Capabilities, MeterError, MeterKind};
use serde::Serialize;

use crate::metrics::{MeterFacts, State};
use crate::selection::Selection;
use crate::subject::{Kind, Subject};

/// A subject between two ticks. Values that were not measured are absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Row {
    /// End of the interval, in seconds since the first tick.
    pub t_s: f64,
    /// Length of the interval in seconds.
    pub span_s: f64,
    /// Path in the cgroup tree.
    pub jobid: String,
    /// Name for people.
    pub name: String,
    /// Kind of the subject.
    pub kind: Kind,
    /// Number of its Slurm job.
    pub slurm_jobid: Option<String>,
    /// State at the end of the interval.
    pub state: State,
    /// CPU time in the interval, in seconds.
    pub cpu_s: Option<f64>,
    /// Instructions in the interval.
    pub instructions: Option<u64>,
    /// Bytes read from memory in the interval, or moved in both directions where the meter does not
    /// tell them apart (`resctrl`).
    pub read_bytes: Option<u64>,
    /// Bytes written to memory in the interval.
    pub write_bytes: Option<u64>,
    /// Bytes in both directions per second, as far as the meter sees them.
    pub bandwidth: Option<f64>,
    /// CPU time since the group was made, in seconds.
    #[serde(skip)]
    pub cpu_total_s: Option<f64>,
    /// Counts since the subject was found.
    #[serde(skip)]
    pub total: Option<Counts>,
    /// Bytes by L3 domain since the subject was found.
    #[serde(skip)]
    pub domains: Vec<DomainBytes>,
}

/// A subject that could not be counted at a tick.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterFailure {
    /// The meter.
    pub meter: MeterKind,
    /// Path of the subject.
    pub jobid: String,
    /// The failure.
    pub error: MeterError,
}

/// A subject with its last values.
struct Watched {
    group: Group,
    subject: Subject,
    last: Nanos,
    cpu_time: Option<Nanos>,
    /// Counts at the last tick. Where they were not read, the next interval has none.
    counts: Option<Counts>,
    attached: bool,
    /// CPU time of the last interval; the busiest get a meter first.
    busy: Nanos,
}

/// Measures the subjects of a selection.
pub struct Watch {
    tree: CgroupTree,
    selection: Selection,
    meter: Option<Box<dyn GroupMeter>>,
    watched: BTreeMap<GroupId, Watched>,
    failures: Vec<MeterFailure>,
    /// Subjects whose failures were reported, until they end.
    reported: BTreeSet<GroupId>,
}

impl Watch {
    /// Begins to watch a tree, with CPU time alone if there is no meter.
    #[must_use]
    pub fn new(tree: CgroupTree, selection: Selection, meter: Option<Box<dyn GroupMeter>>) -> Self {
        let (watched, reported) = (BTreeMap::new(), BTreeSet::new());
        Self { tree, selection, meter, watched, failures: Vec::new(), reported }
    }

    /// Finds the subjects of now, and returns a row for each that was there at the last tick and
    /// one for each that has ended since, in the order of their paths. `now` is the time since the
    /// first tick.
    ///
    /// # Errors
    /// The top of the tree cannot be read.
    pub fn tick(&mut self, now: Nanos) -> io::Result<Vec<Row>> {
        let groups = self.tree.groups()?;
        let present: BTreeMap<GroupId, (Group, Subject)> = self
            .selection
            .choose(&groups)
            .into_iter()
            .map(|(group, subject)| (group.id, (group.clone(), subject)))
            .collect();
        let gone: Vec<GroupId> =
            self.watched.keys().filter(|id| !present.contains_key(id)).copied().collect();
        let mut rows: Vec<Row> = gone.into_iter().filter_map(|id| self.end(id, now)).collect();
        let known: Vec<GroupId> = self.watched.keys().copied().collect();
        rows.extend(known.into_iter().filter_map(|id| self.measure(id, now)));
        for (id, (group, subject)) in present {
            if !self.watched.contains_key(&id) {
                self.begin(group, subject, now);
            }
        }
        self.attach_waiting();
        rows.sort_by(|a, b| a.jobid.cmp(&b.jobid));
        Ok(rows)
    }

    /// Returns the number of subjects that are watched now.
    #[must_use]
    pub fn subjects(&self) -> usize {
        self.watched.len()
    }

    /// Returns the meter and its blind spots, if there is one.
    #[must_use]
    pub fn meter(&self) -> Option<MeterFacts> {
        let meter = self.meter.as_ref()?;
        let Capabilities { instructions, writes, media, .. } = meter.capabilities();
        Some(MeterFacts { kind: meter.kind(), instructions, writes, media })
    }

    /// Takes the failures of the meter since the last call. A subject that cannot be taken counts
    /// once, a reading that fails each time.
    pub fn take_failures(&mut self) -> Vec<MeterFailure> {
        std::mem::take(&mut self.failures)
    }

    /// Takes the messages of the meter for users.
    pub fn take_notices(&mut self) -> Vec<String> {
        self.meter.as_mut().map(|meter| meter.take_notices()).unwrap_or_default()
    }

    fn begin(&mut self, group: Group, subject: Subject, now: Nanos) {
        let cpu_time = self.tree.state(&group).ok().map(|state| state.cpu_time);
        let watched = Watched {
            group,
            subject,
            last: now,
            cpu_time,
            counts: None,
            attached: false,
            busy: Nanos::ZERO,
        };
        self.watched.insert(watched.group.id, watched);
    }

    /// Offers the subjects without a meter to it, the busiest first, until it has no room.
    fn attach_waiting(&mut self) {
        let Some(meter) = &mut self.meter else { return };
        let mut waiting: Vec<&mut Watched> =
            self.watched.values_mut().filter(|watched| !watched.attached).collect();
        waiting.sort_by_key(|watched| std::cmp::Reverse(watched.busy));
        for watched in waiting {
            let id = watched.group.id;
            match meter.attach(id, &self.tree.directory(&watched.group)) {
                Ok(()) => {
                    watched.attached = true;
                    watched.counts = Some(Counts::default());
                }
                Err(error) => {
                    let is_full = error.reason == Reason::Limit;
                    // A group that ends while it is found is no failure.
                    if error.reason != Reason::Gone && self.reported.insert(id) {
                        let jobid = watched.subject.jobid.clone();
                        self.failures.push(MeterFailure { meter: meter.kind(), jobid, error });
                    }
                    if is_full {
                        return;
                    }
                }
            }
        }
    }

    /// Measures a subject that was there at the last tick. `None` if it has just gone; the next
    /// tick ends it.
    fn measure(&mut self, id: GroupId, now: Nanos) -> Option<Row> {
        let state = self.tree.state(&self.watched.get(&id)?.group).ok()?;
        let reading = self.read(id);
        let watched = self.watched.get_mut(&id)?;
        Some(watched.row(now, Some(state), reading))
    }

    /// Ends a subject: its group is gone, but the meter still has the counts until its end.
    fn end(&mut self, id: GroupId, now: Nanos) -> Option<Row> {
        let reading = self.read(id);
        let mut watched = self.watched.remove(&id)?;
        if let Some(meter) = self.meter.as_mut().filter(|_| watched.attached) {
            meter.detach(id);
        }
        self.reported.remove(&id);
        Some(watched.row(now, None, reading))
    }

    fn read(&mut self, id: GroupId) -> Option<(GroupReading, MeterFacts)> {
        let facts = self.meter()?;
        let meter = self.meter.as_mut()?;
        let watched = self.watched.get(&id).filter(|watched| watched.attached)?;
        match meter.read(id) {
            Ok(reading) => Some((reading, facts)),
            Err(error) => {
                if error.reason != Reason::Gone {
                    let jobid = watched.subject.jobid.clone();
                    self.failures.push(MeterFailure { meter: meter.kind(), jobid, error });
                }
                None
            }
        }
    }
}

impl Watched {
    /// Returns the row of the interval that ends now, and starts the next one.
    fn row(
        &mut self,
        now: Nanos,
        state: Option<GroupState>,
        reading: Option<(GroupReading, MeterFacts)>,
    ) -> Row {
        let span = now.saturating_sub(self.last);
        let cpu_time = state.map(|state| state.cpu_time);
        let cpu = cpu_time.zip(self.cpu_time).map(|(now, last)| now.saturating_sub(last));
        let news = reading.as_ref().zip(self.counts).map(|((r, _), last)| r.counts.since(&last));
        let sees = reading.as_ref().map(|(_, meter)| *meter);
        let bytes = |lines: u64| lines.saturating_mul(LINE_BYTES);
        let total = reading.as_ref().map(|(reading, _)| reading.counts);
        let row = Row {
            t_s: now.as_secs_f64(),
            span_s: span.as_secs_f64(),
            jobid: self.subject.jobid.clone(),
            name: self.subject.name.clone(),
            kind: self.subject.kind,
            slurm_jobid: self.subject.slurm_jobid.clone(),
            state: State::of(state),
            cpu_s: cpu.map(Nanos::as_secs_f64),
            instructions: news
                .filter(|_| sees.is_some_and(|s| s.instructions))
                .map(|c| c.instructions),
            read_bytes: news.map(|counts| bytes(counts.reads.0)),
            write_bytes: news
                .filter(|_| sees.is_some_and(|sees| sees.writes))
                .map(|counts| bytes(counts.writes.0)),
            bandwidth: news.filter(|_| span > Nanos::ZERO).map(|counts| counts.bandwidth(span).0),
            cpu_total_s: cpu_time.map(Nanos::as_secs_f64),
            total,
            domains: reading.map(|(reading, _)| reading.domains).unwrap_or_default(),
        };
        self.last = now;
        self.busy = cpu.unwrap_or_default();
        self.cpu_time = cpu_time.or(self.cpu_time);
        self.counts = total;
        row
    }
}

#[cfg(test)]
mod tests;
