//! Reads scenario files and refuses invalid ones. `docs/sim.md` describes the format.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use memweir_core::Nanos;
use memweir_core::input::{InputError, Replacement, Section, Value, read_replacing};
use memweir_flow::experiment::{KernelConfig, Overheads};
use memweir_flow::hardware::Hardware;
use memweir_flow::optimal::SCHEDULES;
use memweir_flow::optimal::planned::{MOST_CORES, PLANNED};
use memweir_flow::task::Placement;
use memweir_flow::workload::catalog::Catalog;
use memweir_policy::PredictorKind;

use super::custom::CustomPolicies;
use super::log::LogSpec;
use super::migration::MigrationSpec;
use super::mix::MixSpec;
use super::tasks::TaskReader;
use super::{Recordings, Scenario, Workload, cores, placement, target};
use crate::fidelity::Fidelity;
use crate::scheduling::{knowledge, knowledge_error, policy_names, quantum};
use crate::text::ScenarioText;

/// Limit on repetitions; a larger number is taken for a mistake.
const MOST_REPETITIONS: u32 = 100_000;

impl ScenarioText {
    /// Reads the scenario with `replacements` in place of its own values. Those below `machine` go
    /// into the file of a machine that is given by name.
    ///
    /// # Errors
    /// Names file, line, key and reason of the first problem, or the option.
    pub fn scenario(
        &self,
        replacements: &[Replacement],
        recordings: &dyn Recordings,
    ) -> Result<Scenario, InputError> {
        let (own, all) = (self.replaced_outside_machine(replacements), self.replaced(replacements));
        let mut root = own.parse()?;
        root.only(Fidelity::Flow.keys()).map_err(|error| Fidelity::Flow.unknown_key(error))?;
        let machine = root.require("machine")?;
        let hardware = if machine.is_table() {
            // The machine is part of the scenario, and so are the values inside it.
            root = all.parse()?;
            Hardware::of_section(root.require("machine")?.section()?, &self.directory)?
        } else {
            let inside: Vec<_> = replacements.iter().filter_map(|r| r.below("machine")).collect();
            let file = Fidelity::Flow.machine(&machine, &self.directory)?;
            read_replacing(&file.name, &inside, |inside| Hardware::of_file(&file, inside))?
        };
        let (directory, custom) = (&self.directory, &self.custom);
        Reader { directory, recordings, hardware, custom }.scenario(root)
    }
}

/// Reads a scenario for its machine.
struct Reader<'a> {
    directory: &'a Path,
    recordings: &'a dyn Recordings,
    hardware: Hardware,
    custom: &'a CustomPolicies,
}

impl Reader<'_> {
    fn scenario(self, mut root: Section<'_>) -> Result<Scenario, InputError> {
        let _ = root.take("fidelity");
        let peak = self.hardware.machine.memories[0].service.capacity;
        let seed = root.map("seed", |v| v.seed())?.unwrap_or(1);
        let repetitions = root.map("repetitions", |v| v.whole_in(1..=MOST_REPETITIONS))?;
        let catalog = root.map("catalog", |v| self.catalog(&v))?.unwrap_or_else(shipped);
        let quantum = quantum(&mut root)?;
        let (cores, core_use) = cores::read(&mut root, &self.hardware.machine)?;
        let workload = self.workload(&mut root, &catalog, cores)?;
        let named = root.require("policies")?;
        let others = SCHEDULES.into_iter().chain(self.custom.names());
        let policies = cores::apply(core_use, policy_names(&named, others)?, &named)?;
        let migration = root.map("migration", |v| self.migration(v, &workload))?;
        let names = |schedule: &str| policies.iter().any(|name| name == schedule);
        if names(PLANNED) {
            check_planned(&named, migration.as_ref(), cores)?;
        }
        if let Some(schedule) = SCHEDULES.into_iter().find(|name| names(name))
            && workload.log.is_some()
        {
            let reason = format!("`{schedule}` is for tasks that are all admitted");
            return Err(named.refuse(reason).help("leave it out, or `log`"));
        }
        Ok(Scenario {
            migration,
            workload,
            cores,
            policies,
            custom: self.custom.clone(),
            core_use,
            predictor: root
                .map("predictor", |v| v.checked(v.string()?.parse()))?
                .unwrap_or(PredictorKind::Last),
            quantum,
            target: root.map("target", |v| target::read(v, peak))?.flatten(),
            knowledge: knowledge(&mut root)?,
            knowledge_error: knowledge_error(&mut root)?,
            overheads: overheads(&mut root, quantum)?,
            kernel: root.map("kernel", kernel)?.unwrap_or_default(),
            seed,
            repetitions: repetitions.unwrap_or(1),
            confidence: root.map("confidence", |v| confidence(&v))?.unwrap_or(0.95),
            optimum: root.map("optimum", |v| v.named())?.unwrap_or_default(),
            catalog,
            hardware: self.hardware,
        })
    }

    fn workload(
        &self,
        root: &mut Section<'_>,
        catalog: &Arc<Catalog>,
        cores: u32,
    ) -> Result<Workload, InputError> {
        let machine = &self.hardware.machine;
        let given = root.map("placement", |v| placement::read(&v, machine).map(|p| (v, p)))?;
        let placement = given.as_ref().map(|(_, placement)| *placement).unwrap_or_default();
        let reader = TaskReader {
            directory: self.directory,
            hardware: &self.hardware,
            catalog,
            recordings: self.recordings,
            placement,
        };
        let tasks = root.map("tasks", |v| reader.tasks(v))?.unwrap_or_default();
        let mix = root.map("mix", |v| MixSpec::read(v, catalog, &self.hardware, cores))?;
        if let (Some((value, _)), true) = (&given, mix.as_ref().is_some_and(MixSpec::is_placed)) {
            let reason = "the mix says itself where pages are";
            return Err(value.refuse(reason).help("leave `placement` out, or set mix.dram_share"));
        }
        let log = root.map("log", |value| {
            if !tasks.is_empty() || mix.is_some() {
                let help = "leave out `tasks` and `mix`, or `log`";
                return Err(value.refuse("a job log is a whole workload").help(help));
            }
            let (directory, hardware) = (self.directory, &self.hardware);
            LogSpec::read(value, directory, hardware, cores, catalog, self.recordings)
        })?;
        if tasks.is_empty() && mix.is_none() && log.is_none() {
            let help = "add a `[[tasks]]` table, a `[mix]` or a `[log]`";
            return Err(root.refuse("there is nothing to execute").help(help));
        }
        Ok(Workload { tasks, mix, log, placement })
    }

    /// Reads page migration, which excludes other placements of pages.
    fn migration(
        &self,
        value: Value<'_>,
        workload: &Workload,
    ) -> Result<MigrationSpec, InputError> {
        let placed = workload
            .tasks
            .iter()
            .find(|task| task.pages.is_some() || task.placement != Placement::default());
        if let Some(task) = placed {
            let reason = format!("it says where pages are, and so does `{}` itself", task.name);
            return Err(value.refuse(reason).help("leave `placement` and `pages` out"));
        }
        if workload.placement != Placement::default() {
            let reason = "it says where pages are, and so does `placement`";
            return Err(value.refuse(reason).help("leave `placement` out"));
        }
        if let Some(key) = workload.mix.as_ref().and_then(MixSpec::placed_by) {
            let reason = format!("it says where pages are, and so does `mix.{key}`");
            return Err(value.refuse(reason).help(format!("leave `mix.{key}` out")));
        }
        MigrationSpec::read(value, &self.hardware.machine)
    }

    /// Reads the programs of a file, in addition to the shipped ones.
    fn catalog(&self, value: &Value<'_>) -> Result<Arc<Catalog>, InputError> {
        let mut catalog = Catalog::clone(&shipped());
        catalog.extend(Catalog::read(&self.directory.join(value.string()?))?);
        Ok(Arc::new(catalog))
    }
}

/// Refuses a schedule that is planned where none can be.
fn check_planned(
    named: &Value<'_>,
    migration: Option<&MigrationSpec>,
    cores: u32,
) -> Result<(), InputError> {
    let (what, help) = if migration.is_some() {
        ("pages that stay where they are".to_owned(), "leave it out, or `migration`")
    } else if cores > MOST_CORES {
        let what = format!("up to {MOST_CORES} cores, not for {cores}");
        (what, "`hindsight` instead, or fewer cores")
    } else {
        return Ok(());
    };
    Err(named.refuse(format!("`{PLANNED}` plans for {what}")).help(help))
}

/// Returns the shipped programs, read once.
fn shipped() -> Arc<Catalog> {
    static SHIPPED: LazyLock<Arc<Catalog>> = LazyLock::new(|| Arc::new(Catalog::shipped()));
    Arc::clone(&SHIPPED)
}

fn confidence(value: &Value<'_>) -> Result<f64, InputError> {
    let level = value.number()?;
    if level > 0.0 && level < 1.0 {
        return Ok(level);
    }
    Err(value.refuse(format!("{level} is no level of confidence")).help("between 0 and 1"))
}

fn overheads(root: &mut Section<'_>, quantum: Nanos) -> Result<Overheads, InputError> {
    let default = Overheads::default();
    let Some(value) = root.take("overheads") else { return Ok(default) };
    let mut section = value.section()?;
    section.only(&["quantum_switch_us", "context_switch_us"])?;
    let switch = |value: Value<'_>| {
        let switch = micros(&value)?;
        if switch < quantum {
            return Ok(switch);
        }
        let reason = format!("a switch of {} ms takes the whole quantum", switch.as_millis_f64());
        Err(value.refuse(reason).help("less than `quantum_ms`"))
    };
    Ok(Overheads {
        quantum_switch: section.map("quantum_switch_us", switch)?.unwrap_or(default.quantum_switch),
        context_switch: section
            .map("context_switch_us", |v| micros(&v))?
            .unwrap_or(default.context_switch),
    })
}

fn kernel(value: Value<'_>) -> Result<KernelConfig, InputError> {
    let mut section = value.section()?;
    section.only(&["slice_ms", "balance_ms", "jitter_us"])?;
    let default = KernelConfig::default();
    let millis = |v: Value<'_>| {
        v.number_in(0.01..=1e6, "time in milliseconds").map(|ms| Nanos::from_secs_f64(ms / 1e3))
    };
    Ok(KernelConfig {
        slice: section.map("slice_ms", millis)?.unwrap_or(default.slice),
        balance: section.map("balance_ms", millis)?.or(default.balance),
        jitter: section.map("jitter_us", |v| micros(&v))?.unwrap_or(default.jitter),
    })
}

fn micros(value: &Value<'_>) -> Result<Nanos, InputError> {
    value.number_in(0.0..=1e6, "time in microseconds").map(|us| Nanos::from_secs_f64(us / 1e6))
}
