//! The cores of a scenario: their number, and if policies have to fill them. The option `--cores`
//! is the counterpart in live runs.

use memweir_core::input::{InputError, Section, Value};
use memweir_core::words::counted;
use memweir_policy::CoreUse;
use memweir_policy::policies::with_core_use;

use memweir_flow::machine::Machine;

/// Reads `cores`: all cores of the machine, or fewer; `auto`, or `auto:` and a number.
pub(super) fn read(
    root: &mut Section<'_>,
    machine: &Machine,
) -> Result<(u32, CoreUse), InputError> {
    let most = machine.cores();
    let Some(value) = root.take("cores") else { return Ok((most, CoreUse::All)) };
    let (limit, core_use) = match value.text() {
        None => (u32::try_from(value.integer()?).ok(), CoreUse::All),
        Some("auto") => (Some(most), CoreUse::Auto),
        Some(text) => match text.strip_prefix("auto:").map(str::parse) {
            Some(Ok(limit)) => (Some(limit), CoreUse::Auto),
            _ => {
                return Err(value
                    .refuse(format!("`{text}` is not a number of cores"))
                    .help(format!("from 1 to {most}, or `auto`, or `auto:{most}`")));
            }
        },
    };
    match limit {
        Some(cores) if (1..=most).contains(&cores) => Ok((cores, core_use)),
        _ => Err(value
            .refuse(format!("`{}` has {}", machine.name, counted(most.into(), "core")))
            .help(format!("from 1 to {most}, or `--set machine.nodes[0].cores=N`"))),
    }
}

/// Applies this use of the cores to the policies, which must stay distinct.
pub(super) fn apply(
    core_use: CoreUse,
    policies: Vec<String>,
    value: &Value<'_>,
) -> Result<Vec<String>, InputError> {
    let mut chosen: Vec<String> = Vec::with_capacity(policies.len());
    for policy in policies {
        let policy = with_core_use(policy, core_use);
        if chosen.contains(&policy) {
            return Err(value
                .refuse(format!("`{policy}` is named twice"))
                .help("`cores = \"auto\"` adds `auto-cores` to every policy that has it"));
        }
        chosen.push(policy);
    }
    Ok(chosen)
}
