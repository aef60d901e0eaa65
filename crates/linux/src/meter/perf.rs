//! Hardware events per job through `perf_event_open`.
//!
//! Each event is a file descriptor of its own, opened on a job's first process before exec, with
//! `enable_on_exec` and `inherit`, so that it counts every thread and every child from the first
//! instruction of the program on. A read sums over all of them, the dead included, and works
//! whether they run, are blocked or have ended.
//!
//! The events are **not** opened as one perf group. The kernel schedules a group as a whole or not
//! at all: where the NMI watchdog, a hypervisor or Intel's two off-core slots leave one counter
//! too few, a group counts nothing and every figure is zero, while single events take turns and
//! are scaled by their own times (`scaling.rs`). (`PERF_FORMAT_GROUP` on inherited events, which
//! reading a group needs, is refused by kernels before 4.13 besides.) The price is one read per
//! event and quantum, about a microsecond.
//!
//! The events are data: [`events`]. With [`SampleIps::Yes`] the meter also samples where in a job's
//! code its instructions were, which phase prediction needs (`sampling.rs`).

pub(crate) mod counters;
pub mod events;
mod groups;
mod media;
mod probe;
mod records;
mod regions;
mod sampling;
mod scaling;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use memweir_core::input::InputError;
use memweir_core::words::counted;
use memweir_core::{Counts, JobId, Media, Nanos};

use self::counters::{EventCounter, Scope};
use self::events::{CpuEvents, EventFile, Quantity, Source};
use self::media::{ByMedium, Sorted};
use self::probe::Privileges;
use self::sampling::{Sampling, Trigger};
use super::cpu::CpuModel;
use super::{Capabilities, Meter, MeterError, MeterKind, Reading};
use crate::OsError;
use crate::probe::Probe;

pub use self::groups::PerfGroupMeter;
pub use self::probe::probe_perf;
pub use self::sampling::SampleIps;

/// Why no perf meter could be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PerfOpenError {
    /// The user's event file was refused.
    #[error(transparent)]
    Input(#[from] InputError),
    /// This machine does not offer it; the probe has the reason and help.
    #[error("{}", .0.reason)]
    Unavailable(Probe),
}

/// The events of one job, or of one control group on every CPU.
#[derive(Debug, Default)]
struct CounterSet {
    counters: Vec<EventCounter>,
    so_far: ByMedium,
}

impl CounterSet {
    /// Returns the counts since the start and the troubles that users should know of; `of` names
    /// the counted object in errors.
    fn read(&mut self, of: &str) -> Result<(Counts, Vec<String>), OsError> {
        let mut sums = media::Sums::default();
        let mut troubles = Vec::new();
        for counter in &mut self.counters {
            let count = counter.read().map_err(|error| {
                OsError::new(format!("reading event {}{of}", counter.name()), error)
            })?;
            sums.add(counter.sorted(), count);
            if let Some(trouble) = counter.trouble() {
                troubles.push(format!("event {} {trouble}", counter.name()));
            }
        }
        Ok((self.so_far.update(&sums), troubles))
    }
}

/// The events of this machine that count for jobs, or for control groups.
struct ChosenEvents {
    cpu_name: String,
    sources: Vec<Source>,
    scope: Scope,
    caveats: Vec<String>,
}

impl ChosenEvents {
    /// Chooses them from `event_file`, or from the shipped files: of each quantity the first source
    /// for which `try_source` succeeds. Sources that name a medium other than `media` are skipped.
    /// Reads are indispensable; `refused` makes the answer from the error of an event that they
    /// need.
    fn choose(
        event_file: Option<&Path>,
        media: &Media,
        privileges: &Privileges,
        try_source: impl Fn(&Source, Scope) -> Result<(), OsError>,
        refused: impl Fn(&OsError) -> Probe,
    ) -> Result<Self, PerfOpenError> {
        let files = match event_file {
            Some(path) => vec![EventFile::read(path)?],
            None => EventFile::shipped()?,
        };
        let entry = entry_for_this_cpu(&files, privileges)?;
        let (scope, sources) = first_sources(entry, media, try_source, refused)?;
        let of_sources = sources.iter().flat_map(|source| &source.caveats);
        let caveats = entry.caveats.iter().chain(of_sources).cloned();
        let caveats = caveats.chain(media::caveat(&sources)).collect();
        Ok(Self { cpu_name: entry.name.clone(), sources, scope, caveats })
    }

    /// Describes the quantities and the events that count them, as one sentence for people.
    fn describe(&self) -> String {
        let names = |quantity| {
            let sources = self.sources.iter().filter(|source| source.counts == quantity);
            let events = sources.flat_map(|source| &source.events);
            events.map(|event| event.name.as_str()).collect::<Vec<_>>().join(" + ")
        };
        let writes = match names(Quantity::Writes) {
            none if none.is_empty() => "writes are not seen".to_owned(),
            events => format!("writes by {events}"),
        };
        format!("{}: reads by {}, {writes}", self.cpu_name, names(Quantity::Reads))
    }

    /// Returns what they see by themselves, without samples.
    fn capabilities(&self) -> Capabilities {
        let counts = |quantity| self.sources.iter().any(|source| source.counts == quantity);
        Capabilities {
            instructions: counts(Quantity::Instructions),
            writes: counts(Quantity::Writes),
            instruction_pointers: false,
            media: self.sources.iter().any(Source::separates),
            caveats: self.caveats.clone(),
        }
    }
}

/// Counts hardware events, chosen for this CPU from an event file.
pub struct PerfMeter {
    events: ChosenEvents,
    media: Media,
    jobs: BTreeMap<JobId, CounterSet>,
    sampling: Option<Sampling>,
    notices: Vec<String>,
    /// Messages given already: the same trouble in 500 jobs is reported once.
    told: BTreeSet<String>,
}

impl PerfMeter {
    /// Chooses the events of this machine from `event_file`, or from the shipped files, and tries
    /// each of them; sources that name a medium other than `media` are skipped. If sampling is
    /// asked for and refused, the meter opens without it and a caveat says so.
    pub fn open(
        event_file: Option<&Path>,
        media: &Media,
        sample: SampleIps,
    ) -> Result<Self, PerfOpenError> {
        let privileges = Privileges::of_this_process();
        let mut events = ChosenEvents::choose(
            event_file,
            media,
            &privileges,
            |source, scope| counters::try_events(&source.events, scope),
            |error| probe::refused(error, &privileges),
        )?;
        if events.scope == Scope::UserOnly {
            events.caveats.push(format!(
                "What the kernel reads and writes for a job (clearing pages, copying files) is \
                 not counted: {privileges}."
            ));
        }
        let sampling = match sample {
            SampleIps::No => None,
            SampleIps::Yes => open_sampling(&mut events.caveats),
        };
        let (media, jobs) = (media.clone(), BTreeMap::new());
        let (notices, told) = (Vec::new(), BTreeSet::new());
        Ok(Self { events, media, jobs, sampling, notices, told })
    }

    /// Describes the quantities and the events that count them, as one sentence for people.
    #[must_use]
    pub fn describe(&self) -> String {
        self.events.describe()
    }

    fn take_samples(&mut self, job: JobId) -> Vec<u32> {
        let Some(sampling) = &mut self.sampling else { return Vec::new() };
        let samples = sampling.take(job);
        match sampling.take_lost() {
            0 => {}
            lost => self.notices.push(format!(
                "{} got lost: the buffers are too small for quanta of this length",
                counted(lost, "sample")
            )),
        }
        samples
    }

    /// Adds `text` to the messages, with the first job that it applies to.
    fn tell(&mut self, job: JobId, text: String) {
        let notice = format!("job {job}: {text}");
        if self.told.insert(text) {
            self.notices.push(notice);
        }
    }
}

/// Starts sampling if possible, and adds the caveats of the samples.
fn open_sampling(caveats: &mut Vec<String>) -> Option<Sampling> {
    match Sampling::open() {
        Ok(sampling) => {
            if sampling.trigger() == Trigger::CpuClock {
                caveats.push(
                    "Code regions are sampled by CPU time, because instructions cannot trigger \
                     samples here."
                        .to_owned(),
                );
            }
            Some(sampling)
        }
        Err(error) => {
            caveats.push(format!("Instruction pointers cannot be sampled here: {error}."));
            None
        }
    }
}

/// Returns the entry for this machine, or the reason why there is none.
fn entry_for_this_cpu<'a>(
    files: &'a [EventFile],
    privileges: &Privileges,
) -> Result<&'a CpuEvents, PerfOpenError> {
    // An entry for any machine needs no CPU model, which some architectures do not report.
    let any = files.iter().flat_map(|file| &file.cpus).find(|e| e.matches == events::CpuMatch::Any);
    if let Some(entry) = any {
        return Ok(entry);
    }
    let cpu = CpuModel::of_this_machine()
        .map_err(|error| PerfOpenError::Unavailable(Probe::missing(error.to_string())))?;
    files
        .iter()
        .find_map(|file| file.find(&cpu))
        .ok_or_else(|| PerfOpenError::Unavailable(probe::no_entry(&cpu, files, privileges)))
}

/// Chooses the first source of each quantity for which `try_source` succeeds. Reads are
/// indispensable; `refused` makes the answer from an event that they need and its error.
fn first_sources(
    entry: &CpuEvents,
    media: &Media,
    try_source: impl Fn(&Source, Scope) -> Result<(), OsError>,
    refused: impl Fn(&OsError) -> Probe,
) -> Result<(Scope, Vec<Source>), PerfOpenError> {
    let mut refusal = None;
    for scope in [Scope::UserAndKernel, Scope::UserOnly] {
        let mut chosen: Vec<Source> = Vec::new();
        for source in entry.sources.iter().filter(|source| source.suits(media)) {
            if chosen.iter().any(|other| other.counts == source.counts) {
                continue;
            }
            match try_source(source, scope) {
                Ok(()) => chosen.push(source.clone()),
                Err(error) if source.counts == Quantity::Reads => {
                    refusal = Some(refused(&error));
                }
                Err(_) => {}
            }
        }
        if chosen.iter().any(|source| source.counts == Quantity::Reads) {
            return Ok((scope, chosen));
        }
    }
    let refusal = refusal.unwrap_or_else(|| Probe::missing("the event file counts no reads"));
    Err(PerfOpenError::Unavailable(refusal))
}

impl Meter for PerfMeter {
    fn kind(&self) -> MeterKind {
        MeterKind::Perf
    }

    fn capabilities(&self) -> Capabilities {
        let instruction_pointers = self.sampling.is_some();
        Capabilities { instruction_pointers, ..self.events.capabilities() }
    }

    fn attach(&mut self, job: JobId, pid: i32) -> Result<(), MeterError> {
        let mut counters = Vec::new();
        for source in &self.events.sources {
            for event in &source.events {
                let sorted = Sorted::of(source.counts, event, &self.media);
                let counter = EventCounter::of_job(sorted, event, self.events.scope, pid);
                counters.push(counter.map_err(|e| counters::open_error(e, &event.name, job))?);
            }
        }
        self.jobs.insert(job, CounterSet { counters, ..CounterSet::default() });
        if let Some(Err(error)) = self.sampling.as_mut().map(|sampling| sampling.attach(job, pid)) {
            // The counts are worth more than the phases.
            self.tell(job, format!("instruction pointers are not sampled: {error}"));
        }
        Ok(())
    }

    fn read(&mut self, job: JobId, _: Nanos, _: Nanos) -> Result<Reading, MeterError> {
        let (counts, troubles) = self
            .jobs
            .get_mut(&job)
            .ok_or_else(|| MeterError::other(format!("job {job} is not being counted")))?
            .read(&format!(" of job {job}"))?;
        for trouble in troubles {
            self.tell(job, trouble);
        }
        Ok(Reading { counts, instruction_pointers: self.take_samples(job), forecast: None })
    }

    fn detach(&mut self, job: JobId) {
        self.jobs.remove(&job);
        if let Some(sampling) = &mut self.sampling {
            sampling.detach(job);
        }
    }

    fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }
}
