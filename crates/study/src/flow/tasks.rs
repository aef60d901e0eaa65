//! Reads the tasks that a scenario lists one by one.

use std::path::Path;
use std::sync::Arc;

use memweir_core::input::{InputError, Section, Value};
use memweir_core::{Nanos, Priority};
use memweir_flow::hardware::Hardware;
use memweir_flow::program::{Demand, Flow, Program, Span};
use memweir_flow::task::Placement;
use memweir_flow::workload::catalog::Catalog;
use memweir_flow::workload::synthetic::Synthetic;

use super::workload::{Offset, Source, TaskSpec};
use super::{Recordings, pages, placement};

/// Keys of every task.
pub(super) const KEYS: [&str; 8] =
    ["name", "instances", "work_s", "arrival_s", "offset_s", "placement", "pages", "priority"];

/// Sources of a task's program: the key of each, and all keys that belong to it.
const SOURCES: [(&str, &[&str]); 4] = [
    ("program", &["program", "seed"]),
    ("recording", &["recording"]),
    ("spans", &["spans"]),
    ("bandwidth", &Synthetic::KEYS),
];

/// Keys of a span.
const SPAN_KEYS: [&str; 5] =
    ["length_s", "read_bandwidth", "write_bandwidth", "stall", "instructions"];

/// Limit on times, a month; a longer one is taken for a mistake of unit.
const ABSURD_SECONDS: f64 = 30.0 * 86_400.0;
/// Limit on instances of a task.
const MOST_INSTANCES: u32 = 100_000;

/// Reads tasks for a machine.
pub(super) struct TaskReader<'a> {
    pub(super) directory: &'a Path,
    pub(super) hardware: &'a Hardware,
    pub(super) catalog: &'a Catalog,
    pub(super) recordings: &'a dyn Recordings,
    /// Placement of the pages of tasks that do not state their own.
    pub(super) placement: Placement,
}

impl TaskReader<'_> {
    /// Reads the tasks of the array `value`.
    pub(super) fn tasks(&self, value: Value<'_>) -> Result<Vec<TaskSpec>, InputError> {
        let mut tasks: Vec<TaskSpec> = Vec::new();
        for (place, mut section) in value.sections()?.into_iter().enumerate() {
            let task = self.task(&mut section, place)?;
            if tasks.iter().any(|other| other.name == task.name) {
                return Err(section
                    .refuse(format!("a task before is called `{}` already", task.name))
                    .help("give each a `name` of its own, or use `instances`"));
            }
            tasks.push(task);
        }
        Ok(tasks)
    }

    fn task(&self, section: &mut Section<'_>, place: usize) -> Result<TaskSpec, InputError> {
        let given = SOURCES.iter().filter(|(key, _)| section.has(key)).collect::<Vec<_>>();
        let key = match given[..] {
            [(key, keys)] => {
                section.only(&[&KEYS[..], keys].concat())?;
                *key
            }
            [(first, _), (second, _), ..] => {
                let reason = format!("`{first}` and `{second}` both say what is executed");
                return Err(section.refuse(reason).help("a task executes one program"));
            }
            [] => {
                section.only(&SOURCES.iter().fold(KEYS.to_vec(), |mut all, (_, keys)| {
                    all.extend(*keys);
                    all
                }))?;
                let help = "`program` of the catalog, `bandwidth` of a synthetic one, `recording` \
                            or `spans`";
                return Err(section.refuse("nothing says what is executed").help(help));
            }
        };
        // A synthetic program reads its own name.
        let named = match key {
            "bandwidth" => None,
            _ => section.map("name", |v| name_of(&v))?,
        };
        let default = named.clone().unwrap_or_else(|| format!("task-{}", place + 1));
        let (name, source) = self.source(section, key, default)?;
        let placed = section.map("placement", |v| placement::read(&v, &self.hardware.machine))?;
        if placed.is_some() && section.has("pages") {
            let reason = "`placement` and `pages` both say where the task's memory is";
            return Err(section.refuse(reason).help("leave out one of them"));
        }
        let paged = section.map("pages", |v| pages::read(v, &self.hardware.machine, &source))?;
        let offset = if source.is_drawn() { Offset::Random } else { Offset::At(Nanos::ZERO) };
        Ok(TaskSpec {
            name: named.unwrap_or(name),
            source,
            instances: section.map("instances", |v| v.whole_in(1..=MOST_INSTANCES))?.unwrap_or(1),
            work: section.map("work_s", |v| seconds(&v, 1e-3))?,
            arrival: section.map("arrival_s", |v| seconds(&v, 0.0))?.unwrap_or_default(),
            offset: section.map("offset_s", |v| self::offset(&v))?.unwrap_or(offset),
            placement: placed.unwrap_or(self.placement),
            pages: paged,
            priority: section.map("priority", |v| priority(&v))?.unwrap_or_default(),
        })
    }

    /// Reads the program of a task, given by `key`, with its name; `default` is the name of a
    /// program without one.
    fn source(
        &self,
        section: &mut Section<'_>,
        key: &str,
        default: String,
    ) -> Result<(String, Source), InputError> {
        match key {
            "program" => {
                let value = section.require(key)?;
                let entry = value.checked(self.catalog.find(value.string()?))?.clone();
                let seed = section.map("seed", |v| v.seed())?;
                Ok((entry.name.clone(), Source::Catalog { entry: Arc::new(entry), seed }))
            }
            "recording" => self.recording(&section.require(key)?),
            "spans" => {
                let spans = self.spans(section.require(key)?)?;
                let program = Program { name: default.clone(), spans };
                Ok((default, Source::Spans(Arc::new(program))))
            }
            _ => {
                let fixed = section.has("seed");
                let machine = &self.hardware.machine;
                let program = Synthetic::take_from(section, machine.core_peak)?;
                if let Some(memory) = (machine.memories.len()..program.memories.len())
                    .find(|memory| program.memories[*memory] > 0.0)
                {
                    let reason = format!("`{}` has no memory {memory}", machine.name);
                    return Err(section.refuse(reason).help("`memories` counts from 0"));
                }
                Ok((program.name.clone(), Source::Synthetic { program: Box::new(program), fixed }))
            }
        }
    }

    fn recording(&self, value: &Value<'_>) -> Result<(String, Source), InputError> {
        let path = self.directory.join(value.string()?);
        let profile = value.checked(self.recordings.profile(&path))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let machine = &self.hardware.machine;
        let program = Program::from_profile(&name, &profile, machine.core_peak)
            .map_err(|error| value.refuse(format!("`{}`: {error}", path.display())))?;
        let elsewhere = |span: &Span| span.demand.flows[machine.memories.len()..].to_vec();
        if program.spans.iter().flat_map(elsewhere).any(|f| f.reads.0 + f.writes.0 > 0.0) {
            let reason = format!(
                "it moves more memories than the {} of `{}`",
                machine.memories.len(),
                machine.name
            );
            return Err(value.refuse(reason));
        }
        Ok((name.clone(), Source::Recording { name, profile }))
    }

    fn spans(&self, value: Value<'_>) -> Result<Vec<Span>, InputError> {
        let none = value.refuse("a program has at least one span");
        let span = |section| self.span(section);
        let spans = value.sections()?.into_iter().map(span).collect::<Result<Vec<_>, _>>()?;
        if spans.is_empty() { Err(none) } else { Ok(spans) }
    }

    fn span(&self, mut section: Section<'_>) -> Result<Span, InputError> {
        section.only(&SPAN_KEYS)?;
        let length = seconds(&section.require("length_s")?, 1e-6)?;
        let flow = Flow {
            reads: section.map("read_bandwidth", |v| v.bandwidth())?.unwrap_or_default(),
            writes: section.map("write_bandwidth", |v| v.bandwidth())?.unwrap_or_default(),
        };
        let (rate, machine) = (flow.reads + flow.writes, &self.hardware.machine);
        if rate > machine.core_peak {
            let peak = machine.core_peak;
            let reason =
                format!("{rate} is more than a core of `{}` can move, {peak}", machine.name);
            return Err(section.refuse(reason).help("less bandwidth, or a larger `core_peak`"));
        }
        let stall = section.map("stall", |v| v.number_in(0.0..=1.0, "share"))?;
        let instructions = section
            .map("instructions", |v| v.number_in(0.0..=1e15, "rate of instructions per second"))?;
        let mut demand = Demand {
            instructions: instructions.unwrap_or(0.0),
            // The default share of waiting time is the bandwidth over the peak of a core.
            stall: stall.unwrap_or(rate.0 / machine.core_peak.0),
            ..Demand::default()
        };
        demand.flows[0] = flow;
        Ok(Span { length, demand })
    }
}

/// Reads a time in seconds, at least `least`.
pub(super) fn seconds(value: &Value<'_>, least: f64) -> Result<Nanos, InputError> {
    value.number_in(least..=ABSURD_SECONDS, "time in seconds").map(Nanos::from_secs_f64)
}

fn offset(value: &Value<'_>) -> Result<Offset, InputError> {
    if value.text().is_some() {
        value.one_of("offset", &["random"])?;
        return Ok(Offset::Random);
    }
    seconds(value, 0.0).map(Offset::At)
}

fn name_of(value: &Value<'_>) -> Result<String, InputError> {
    let name = value.string()?;
    if name.trim().is_empty() || name.chars().any(char::is_control) || name.len() > 100 {
        return Err(value.refuse(format!("{name:?} is no name for a task")));
    }
    Ok(name.to_owned())
}

fn priority(value: &Value<'_>) -> Result<Priority, InputError> {
    value.checked(Priority::checked(value.integer()?))
}
