//! Scenarios at bank level: `memweir sim` with `fidelity = "bank"`. `docs/bank-level.md` describes
//! the format.
//!
//! | module | contents |
//! |---|---|
//! | [`batch`] | policies that choose who runs, where the programs are jobs |
//! | [`custom`] | color assignments from outside the table |
//! | `drawn` | programs drawn at random |
//! | `machine` | the machine of a file |
//! | `programs` | the programs of a file |
//! | [`report`] | results |
//! | [`study`] | all runs, at every point of a sweep |

pub mod batch;
pub mod custom;
mod drawn;
mod machine;
mod programs;
pub mod report;
pub mod study;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use memweir_bank::experiment::Machine;
use memweir_bank::experiment::ProgramSpec;
use memweir_bank::fit::Characteristics;
use memweir_bank::synthetic::Structure;
use memweir_core::Nanos;
use memweir_core::input::{InputError, Refusal, Replacement, Value};
use memweir_flow::workload::mix::instance_name;
use memweir_policy::colors::{CacheUse, ColorAssignment, names};

use crate::fidelity::Fidelity;
use crate::text::{ScenarioText, one_or_more};

pub use crate::fidelity::BANK_MACHINES as MACHINES;
pub use batch::BatchSpec;
pub use custom::{CustomAssignment, CustomAssignments};

/// A commented scenario to start from.
pub const EXAMPLE: &str = include_str!("../data/bank-level.toml");

/// Division of the pages among a scenario's programs.
#[derive(Clone, Debug)]
pub enum Partition {
    /// No division: any page for any program.
    None,
    /// The colors that the programs state.
    Given,
    /// The colors that an assignment policy chooses.
    Policy(ColorAssignment),
    /// The colors that an assignment from outside the table chooses.
    Custom(custom::Custom),
}

impl Partition {
    /// Returns its name in files.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::None => "none",
            Self::Given => "given",
            Self::Policy(policy) => policy.entry().name,
            Self::Custom(custom) => custom.name(),
        }
    }

    fn read(value: &Value<'_>, custom: &CustomAssignments) -> Result<Self, InputError> {
        if let Some(custom) = value.text().and_then(|name| custom.find(name)) {
            return Ok(Self::Custom(custom));
        }
        let names: Vec<&'static str> = ["none", "given"].into_iter().chain(names()).collect();
        Ok(match value.one_of("partition", &names)? {
            "none" => Self::None,
            "given" => Self::Given,
            policy => Self::Policy(value.checked(ColorAssignment::named(policy))?),
        })
    }
}

/// A program of the scenario before its structure is fitted.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The program; its source is a placeholder if `behavior` is present.
    pub spec: ProgramSpec,
    /// Characteristics to reach, and the given parts of the structure.
    pub behavior: Option<(Characteristics, Structure)>,
    /// Time that it takes alone, if that determines the number of its instructions.
    pub time: Option<Nanos>,
}

/// A bank-level scenario. Equal scenarios give equal results.
#[derive(Clone, Debug)]
pub struct BankScenario {
    /// Name of the machine.
    pub machine_name: String,
    /// The machine.
    pub machine: Machine,
    /// The programs, each with a core or hardware thread for each of its threads unless they are a
    /// batch.
    pub programs: Vec<Wanted>,
    /// Name of each program in results; of equal names, the later ones are numbered.
    pub names: Vec<String>,
    /// The partitions to compare, the baseline first; none for a batch.
    pub partitions: Vec<Partition>,
    /// The policies to compare, if the programs are a batch.
    pub batch: Option<BatchSpec>,
    /// Division of the cache where bank colors also choose cache sets.
    pub cache_use: CacheUse,
    /// Seed of all random numbers.
    pub seed: u64,
    /// True if synthetic programs start warm, as if they had been running for long.
    pub warm: bool,
}

impl BankScenario {
    /// Reads the scenario with `replacements` in place of its own values.
    ///
    /// # Errors
    /// Names file, line, key and reason of the first problem, or the option.
    pub fn read(text: &ScenarioText, replacements: &[Replacement]) -> Result<Self, InputError> {
        let (own, all) = (text.replaced_outside_machine(replacements), text.replaced(replacements));
        let mut root = own.parse()?;
        root.only(Fidelity::Bank.keys()).map_err(|error| Fidelity::Bank.unknown_key(error))?;
        let mut machine = root.require("machine")?;
        let mut inside: Vec<_> = replacements.iter().filter_map(|r| r.below("machine")).collect();
        if machine.is_table() {
            // The machine is part of the scenario, and so are the values inside it.
            root = all.parse()?;
            (machine, inside) = (root.require("machine")?, Vec::new());
        }
        let _ = root.take("fidelity");
        let (machine_name, machine) = machine::read(machine, &text.directory, &inside)?;
        let seed = root.map("seed", |v| v.seed())?.unwrap_or(1);
        let instructions = root.map("instructions", |v| v.whole_in(1..=u64::MAX))?;
        let reader = programs::Reader {
            directory: &text.directory,
            machine: &machine,
            instructions: instructions.unwrap_or(1_000_000),
            run_together: !root.has("policies"),
        };
        let programs = reader.programs(root.require("programs")?)?;
        let given = programs
            .iter()
            .any(|program| program.spec.colors.is_some() || !program.spec.thread_colors.is_empty());
        let batch = BatchSpec::read(&mut root, &text.custom)?;
        let partitions = match root.take("partitions") {
            Some(value) if batch.is_some() => {
                let help = "leave one of them out; the programs' own `colors` hold in a batch";
                return Err(value.refuse("a batch is not compared by partitions").help(help));
            }
            None if batch.is_some() => Vec::new(),
            Some(value) => partitions(&value, &text.assignments)?,
            None if given => vec![Partition::None, Partition::Given],
            None => vec![Partition::None],
        };
        let cache_use = root.map("cache_use", |value| match batch.is_some() {
            true => Err(value.refuse("is for partitions, which a batch does not have")),
            false => value.named::<CacheUse>(),
        })?;
        Ok(Self {
            cache_use: cache_use.unwrap_or_default(),
            warm: root.map("warm", |v| v.boolean())?.unwrap_or(true),
            names: own_names(&programs),
            machine_name,
            machine,
            programs,
            partitions,
            batch,
            seed,
        })
    }
}

/// Returns a name for each program that no other has.
fn own_names(programs: &[Wanted]) -> Vec<String> {
    let mut taken = HashSet::new();
    let name = |wanted: &Wanted| {
        let mut names = (1..).map(|number| instance_name(&wanted.spec.name, number));
        names.find(|name| taken.insert(name.clone())).expect("there are more numbers than programs")
    };
    programs.iter().map(name).collect()
}

fn partitions(value: &Value<'_>, custom: &CustomAssignments) -> Result<Vec<Partition>, InputError> {
    let none = Refusal::new("there is no partition", "`none` is the plain allocator");
    let read = |value: &Value<'_>| Partition::read(value, custom);
    one_or_more(value, "a partition or an array of them", none, read, Partition::name)
}
