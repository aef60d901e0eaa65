//! Scenarios of swapping: `memweir page sim`. `docs/page-sim.md` describes the format.
//!
//! | module | contents |
//! |---|---|
//! | [`custom`] | victim policies from outside the table |
//! | [`report`] | results in the form in which they are written |
//! | [`study`] | all runs of a scenario, at every point of a sweep |

pub mod custom;
pub mod report;
pub mod study;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memweir_core::input::{InputError, Refusal, Replacement, Section, Value};
use memweir_core::{Bytes, Nanos, PAGE};
use memweir_energy::{READINGS, Reading};
use memweir_policy::paging::{self, VictimEntry, VictimSource};
use memweir_swap::area::SwapKind;
use memweir_swap::memory::Killer;
use memweir_swap::phone::{self, Assumed, Phone, PhoneApp};
use memweir_swap::session::{AppSpec, Behavior, SessionSpec};
use memweir_swap::trace::{PageTrace, WINDOW};

use crate::ScenarioText;
use crate::text::one_or_more;
pub use custom::CustomVictims;

/// A commented scenario to start from.
pub const EXAMPLE: &str = include_str!("../data/page-sim.toml");

const KEYS: [&str; 15] = [
    "group",
    "apps",
    "assumed",
    "dram_mib",
    "swap_mib",
    "swaps",
    "policy",
    "killer",
    "rounds",
    "foreground_s",
    "window",
    "reading",
    "seed",
    "repetitions",
    "name",
];

/// Keys of `[assumed]` and of an application that say how much memory it has; `footprint_mib` says
/// so, too.
const FOOTPRINT_KEYS: &[&str] = &["runtime_mib", "per_size"];

/// Further keys of both that describe the model of an application. A recording replaces the model
/// and the size of its memory.
const MODEL_KEYS: &[&str] = &[
    "written_pages",
    "writes",
    "hot_pages",
    "hot_references",
    "resumed_pages",
    "allocated_mib",
    "ring_mib",
    "references",
];

/// Keys of both that hold for recordings, too.
const COMMON_KEYS: &[&str] = &["lines_per_reference", "resume_ms", "launch_ms"];

/// Keys of an application only.
const APP_KEYS: &[&str] = &["name", "app", "trace", "size_mb", "footprint_mib"];

/// Largest memory size accepted, in MiB: 4 TiB.
const MOST_MIB: f64 = 4_194_304.0;
/// Longest time in the foreground accepted, in seconds: a day.
const LONGEST_S: f64 = 86_400.0;

/// Cache of recordings: each is read once for all points of a sweep.
#[derive(Default)]
pub struct Traces {
    read: RefCell<HashMap<(PathBuf, u64), Arc<PageTrace>>>,
}

impl Traces {
    fn open(&self, path: PathBuf, window: u64) -> Result<Arc<PageTrace>, InputError> {
        if let Some(trace) = self.read.borrow().get(&(path.clone(), window)) {
            return Ok(Arc::clone(trace));
        }
        let trace = Arc::new(PageTrace::open(&path, window)?);
        self.read.borrow_mut().insert((path, window), Arc::clone(&trace));
        Ok(trace)
    }
}

/// A scenario. Equal scenarios give equal results.
#[derive(Clone, Debug)]
pub struct PageScenario {
    /// Applications, memory and turns.
    pub session: SessionSpec,
    /// The swap areas to compare; at least one, no name twice.
    pub swaps: Vec<SwapKind>,
    /// Interpretation of the energy equations, with its name.
    pub reading: (&'static str, Reading),
    /// Seed of the first repetition; each further one has the next.
    pub seed: u64,
    /// Simulations of each swap area, each with its own seed; at least one.
    pub repetitions: u32,
}

impl PageScenario {
    /// Reads the scenario with `replacements` in place of its own values.
    ///
    /// # Errors
    /// Names file, line, key and reason of the first problem, or the option.
    pub fn read(
        text: &ScenarioText,
        replacements: &[Replacement],
        traces: &Traces,
    ) -> Result<Self, InputError> {
        let replaced = text.replaced(replacements);
        let mut root = replaced.parse()?;
        root.only(&KEYS).map_err(InputError::of_another_command)?;
        let _ = root.take("name");
        let directory = &text.directory;
        let mut assumed = Phone::shipped().assumed.clone();
        if let Some(value) = root.take("assumed") {
            let mut section = value.section()?;
            section.only(&[FOOTPRINT_KEYS, MODEL_KEYS, COMMON_KEYS].concat())?;
            change(&mut section, &mut assumed)?;
        }
        let window = root.map("window", |v| v.whole_in(1..=u64::MAX))?.unwrap_or(WINDOW);
        let reader = Reader { directory, assumed, traces, window };
        let apps = reader.apps(&mut root)?;
        let swaps = root.require("swaps")?;
        let seed = root.map("seed", |v| v.seed())?.unwrap_or(1);
        Ok(Self {
            session: session(&mut root, apps, &text.victims)?,
            swaps: kinds(&swaps, directory)?,
            reading: root
                .map("reading", |v| reading(&v))?
                .unwrap_or(("physical", Reading::PHYSICAL)),
            seed,
            repetitions: root.map("repetitions", |v| v.whole_in(1..=10_000))?.unwrap_or(1),
        })
    }
}

fn session(
    root: &mut Section<'_>,
    apps: Vec<AppSpec>,
    custom: &CustomVictims,
) -> Result<SessionSpec, InputError> {
    let dram = root.require("dram_mib")?;
    let dram_size = mebibytes(&dram, PAGE.as_f64() / f64::from(1 << 20))?;
    let swap = root.map("swap_mib", |v| mebibytes(&v, 0.0))?.unwrap_or(Bytes::ZERO);
    let policy = |v: Value<'_>| match custom.find(v.string()?) {
        Some(found) => Ok(found),
        None => v.checked(paging::find(v.string()?)).map(in_table),
    };
    let killer: Option<Killer> = root.map("killer", |v| v.named())?;
    let foreground = |v: Value<'_>| v.number_in(1e-3..=LONGEST_S, "time in seconds");
    let needy = apps.iter().max_by_key(|app| app.behavior.pages());
    if let Some(app) = needy.filter(|app| room(app) > room_for_one(dram_size, swap)) {
        let reason =
            format!("{} needs {}, DRAM and swap are {}", app.name, room(app), dram_size + swap);
        let help = "it would be killed in the foreground; give it more than it needs";
        return Err(dram.refuse(reason).help(help));
    }
    Ok(SessionSpec {
        apps,
        dram: dram_size,
        swap,
        rounds: root.map("rounds", |v| v.whole_in(1..=100_000))?.unwrap_or(3),
        foreground: Nanos::from_secs_f64(root.map("foreground_s", foreground)?.unwrap_or(60.0)),
        victims: root
            .map("policy", policy)?
            .unwrap_or_else(|| in_table(&paging::VICTIM_POLICIES[0])),
        killer: killer.unwrap_or_default(),
    })
}

fn in_table(entry: &VictimEntry) -> Arc<dyn VictimSource> {
    Arc::new(*entry)
}

/// Returns the memory that an application can have without being killed in the foreground. Of a
/// swap area it is a page less than all: with both full, no evicted page could return.
fn room_for_one(dram: Bytes, swap: Bytes) -> Bytes {
    let pages = dram.0 / PAGE.0 + (swap.0 / PAGE.0).saturating_sub(1);
    Bytes(pages * PAGE.0)
}

/// Returns the memory that an application needs.
fn room(app: &AppSpec) -> Bytes {
    Bytes(u64::from(app.behavior.pages()) * PAGE.0)
}

fn mebibytes(value: &Value<'_>, least: f64) -> Result<Bytes, InputError> {
    let mib = value.number_in(least..=MOST_MIB, "size in MiB")?;
    Ok(Bytes((mib * f64::from(1 << 20)) as u64))
}

/// Reads one kind of swap area or several.
fn kinds(value: &Value<'_>, directory: &Path) -> Result<Vec<SwapKind>, InputError> {
    let none = Refusal::new("there is no swap area", "for none, say `swap_mib = 0`");
    let read = |value: &Value<'_>| SwapKind::find(value, directory);
    one_or_more(value, "a swap area or an array of them", none, read, |kind| &kind.name)
}

fn reading(value: &Value<'_>) -> Result<(&'static str, Reading), InputError> {
    value.choose("reading", READINGS.map(|reading| (reading.0, reading)))
}

/// Replaces the assumed parameters that the section gives.
fn change(section: &mut Section<'_>, assumed: &mut Assumed) -> Result<(), InputError> {
    let mut set = |key: &str, place: &mut f64, most: f64, what: &str| {
        *place = section.map(key, |v| v.number_in(0.0..=most, what))?.unwrap_or(*place);
        Ok::<_, InputError>(())
    };
    set("runtime_mib", &mut assumed.runtime_mib, MOST_MIB, "size in MiB")?;
    set("per_size", &mut assumed.per_size, 1e3, "factor")?;
    set("written_pages", &mut assumed.written_pages, 1.0, "share")?;
    set("writes", &mut assumed.writes, 1.0, "share")?;
    set("hot_pages", &mut assumed.hot_pages, 1.0, "share")?;
    set("hot_references", &mut assumed.hot_references, 1.0, "share")?;
    set("resumed_pages", &mut assumed.resumed_pages, 1.0, "share")?;
    set("allocated_mib", &mut assumed.allocated_mib, MOST_MIB, "size in MiB")?;
    set("ring_mib", &mut assumed.ring_mib, MOST_MIB, "size in MiB")?;
    set("lines_per_reference", &mut assumed.lines_per_reference, 1e6, "number of lines")?;
    set("resume_ms", &mut assumed.resume_ms, 1e3 * LONGEST_S, "time in milliseconds")?;
    set("launch_ms", &mut assumed.launch_ms, 1e3 * LONGEST_S, "time in milliseconds")?;
    let references = section.map("references", |v| v.whole_in(1..=1_000_000_000_000))?;
    assumed.references = references.unwrap_or(assumed.references);
    Ok(())
}

/// Reads applications.
struct Reader<'a> {
    directory: &'a Path,
    assumed: Assumed,
    traces: &'a Traces,
    window: u64,
}

impl Reader<'_> {
    /// Reads the applications of `group`, then those of `[[apps]]`.
    fn apps(&self, root: &mut Section<'_>) -> Result<Vec<AppSpec>, InputError> {
        let mut apps = Vec::new();
        if let Some(value) = root.take("group") {
            let group = value.checked(Phone::shipped().group(value.string()?))?;
            for app in group {
                let app = phone::app(app, &self.assumed);
                value.checked(check(&app))?;
                apps.push(app);
            }
        }
        if let Some(value) = root.take("apps") {
            for section in value.sections()? {
                apps.push(self.one(section)?);
            }
        }
        if apps.is_empty() {
            let help = "name a `group` of applications, or add `[[apps]]` tables";
            return Err(root.refuse("there is no application").help(help));
        }
        Ok(apps)
    }

    /// Reads an application from a table.
    fn one(&self, mut section: Section<'_>) -> Result<AppSpec, InputError> {
        section.only(&[APP_KEYS, FOOTPRINT_KEYS, MODEL_KEYS, COMMON_KEYS].concat())?;
        let replaced =
            [("trace", &[FOOTPRINT_KEYS, MODEL_KEYS][..]), ("footprint_mib", &[FOOTPRINT_KEYS])];
        for (key, others) in replaced.into_iter().filter(|(key, _)| section.has(key)) {
            let reason = format!("`{key}` says it already");
            let mut others = others.iter().copied().flatten();
            if let Some(refused) = others.find_map(|other| section.refuse_value(other, &reason)) {
                return Err(refused.help("leave out one of them"));
            }
        }
        let mut assumed = self.assumed.clone();
        change(&mut section, &mut assumed)?;
        let size = section.map("size_mb", |v| v.number_in(0.0..=MOST_MIB, "size in MB"))?;
        let footprint = section.map("footprint_mib", |v| mebibytes(&v, 0.01))?;
        let name = section.map("name", |v| Ok(v.string()?.to_owned()))?;
        let known = |v: Value<'_>| v.checked(Phone::shipped().app(v.string()?)).cloned();
        let known = section.map("app", known)?;
        let trace = section.map("trace", |v| self.trace(&v))?;
        if known.is_some() && trace.is_some() {
            return Err(section.refuse("`app` and `trace` exclude each other"));
        }
        let named = known.as_ref().map(|app| app.name.clone());
        let file = trace.as_ref().map(|(file, _)| file.clone());
        let (name, size_mb) = (
            name.or(named).or(file).unwrap_or_else(|| "application".to_owned()),
            size.or(known.map(|app| app.size_mb)).unwrap_or(0.0),
        );
        let mut spec = phone::app(&PhoneApp { name, size_mb }, &assumed);
        match (&mut spec.behavior, trace, footprint) {
            (behavior, Some((_, trace)), None) => *behavior = Behavior::Recorded(trace),
            (_, Some(_), Some(_)) => {
                return Err(section.refuse("`footprint_mib` is what the recording says"));
            }
            (Behavior::Model(model), None, Some(footprint)) => model.footprint = footprint,
            _ => {}
        }
        section.checked(check(&spec))?;
        Ok(spec)
    }

    fn trace(&self, value: &Value<'_>) -> Result<(String, Arc<PageTrace>), InputError> {
        let given = value.string()?;
        let trace = self.traces.open(self.directory.join(given), self.window)?;
        let stem = Path::new(given).file_stem().unwrap_or_default();
        Ok((stem.to_string_lossy().into_owned(), trace))
    }
}

/// Checks that an application can allocate as its model says.
fn check(app: &AppSpec) -> Result<(), Refusal> {
    let Behavior::Model(model) = &app.behavior else { return Ok(()) };
    if model.ring >= model.footprint {
        let reason = format!("a ring of {} leaves nothing of {}", model.ring, model.footprint);
        return Err(Refusal::new(reason, "a smaller `ring_mib`, or more memory"));
    }
    if u64::from(memweir_swap::pages(model.allocated)) > model.references {
        let reason = "it allocates more pages than it makes references";
        return Err(Refusal::new(reason, "a smaller `allocated_mib`, or more `references`"));
    }
    Ok(())
}
