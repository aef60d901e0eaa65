//! The two fidelities of scenarios. A refusal in one says what the other knows.

use std::fs;
use std::path::Path;

use memweir_core::input::{DataFile, InputError, Value};
use memweir_flow::hardware;

/// Level of detail of a simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fidelity {
    /// Flow level: tasks demand bandwidth and memories serve it; for hours of machine time.
    #[default]
    Flow,
    /// Bank level: request by request, for milliseconds ([`memweir_bank`]).
    Bank,
}

memweir_core::named! { pub Fidelity, "fidelity": Flow = "flow", Bank = "bank" }

/// Keys of a flow-level scenario.
const FLOW_KEYS: [&str; 21] = [
    "fidelity",
    "machine",
    "catalog",
    "cores",
    "policies",
    "predictor",
    "quantum_ms",
    "target",
    "knowledge",
    "knowledge_error",
    "seed",
    "repetitions",
    "confidence",
    "optimum",
    "placement",
    "tasks",
    "mix",
    "log",
    "migration",
    "overheads",
    "kernel",
];

/// Keys of a bank-level scenario.
const BANK_KEYS: [&str; 15] = [
    "fidelity",
    "machine",
    "programs",
    "partitions",
    "cache_use",
    "instructions",
    "seed",
    "warm",
    "policies",
    "compression",
    "quantum_ms",
    "knowledge",
    "knowledge_error",
    "predictor",
    "target",
];

/// Shipped machines of bank-level scenarios.
pub const BANK_MACHINES: [(&str, &str); 2] = [
    ("i7-860", include_str!("../data/bank-machines/i7-860.toml")),
    ("simple-o3", include_str!("../data/bank-machines/simple-o3.toml")),
];

impl Fidelity {
    fn other(self) -> Self {
        match self {
            Self::Flow => Self::Bank,
            Self::Bank => Self::Flow,
        }
    }

    /// Returns the keys of a scenario.
    pub(crate) fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Flow => &FLOW_KEYS,
            Self::Bank => &BANK_KEYS,
        }
    }

    fn machines(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Flow => &hardware::MACHINES,
            Self::Bank => &BANK_MACHINES,
        }
    }

    /// Adds help to the refusal of an unknown key if scenarios of the other fidelity have it.
    pub(crate) fn unknown_key(self, error: InputError) -> InputError {
        let other = self.other();
        match error.key.clone() {
            Some(key) if other.keys().contains(&key.as_str()) => {
                error.help(format!("scenarios with `fidelity = \"{other}\"` have `{key}`"))
            }
            _ => error.of_another_command(),
        }
    }

    /// Finds the file of a machine that is given by name or by file. The refusal of an unknown one
    /// says if scenarios of the other fidelity can name it.
    pub(crate) fn machine<'a>(
        self,
        value: &'a Value<'_>,
        directory: &Path,
    ) -> Result<DataFile<'a>, InputError> {
        let given = value
            .text()
            .ok_or_else(|| value.expected("the name of a machine, a file, or a table"))?;
        let known = self.machines();
        let found = DataFile::find("machine", given, known, directory, fs::read_to_string);
        let other = self.other();
        value.checked(found).map_err(|error| {
            if !other.machines().iter().any(|(machine, _)| *machine == given) {
                return error;
            }
            error.help(format!("scenarios with `fidelity = \"{other}\"` can name `{given}`"))
        })
    }
}
