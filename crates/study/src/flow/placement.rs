//! Placement of a task's pages in scenarios: shares by the names of the machine's memories.

use memweir_core::MAX_MEDIA;
use memweir_core::input::{InputError, Value};
use memweir_core::names::suggestion;

use memweir_flow::machine::Machine;
use memweir_flow::task::Placement;

/// Reads `{ pram = 0.5 }`, or `{ reads = { pram = 0.3 }, writes = { pram = 0.8 } }`.
pub(super) fn read(value: &Value<'_>, machine: &Machine) -> Result<Placement, InputError> {
    let mut placement = Placement::default();
    let entries = value.entries()?;
    let is_of_direction =
        |name: &str, entry: &Value<'_>| matches!(name, "reads" | "writes") && entry.is_table();
    let of_directions = entries.iter().filter(|(name, entry)| is_of_direction(name, entry)).count();
    if of_directions > 0 && of_directions < entries.len() {
        let reason = "some shares are of all traffic, and others of `reads` or `writes`";
        return Err(value.refuse(reason).help("both `reads` and `writes`, or neither"));
    }
    for (name, entry) in entries {
        match (name.as_str(), entry.is_table()) {
            ("reads", true) => placement.reads = shares(&entry, machine)?,
            ("writes", true) => placement.writes = shares(&entry, machine)?,
            _ => {
                let memory = memory(&entry, &name, machine)?;
                let share = share(&entry)?;
                placement.reads[memory] = share;
                placement.writes[memory] = share;
            }
        }
    }
    for shares in [&placement.reads, &placement.writes] {
        let sum: f64 = shares[1..].iter().sum();
        if sum > 1.0 + 1e-9 {
            return Err(value.refuse(format!("the shares add up to {sum}")).help("at most 1"));
        }
    }
    Ok(placement)
}

fn shares(value: &Value<'_>, machine: &Machine) -> Result<[f64; MAX_MEDIA], InputError> {
    let mut shares = [0.0; MAX_MEDIA];
    for (name, entry) in value.entries()? {
        shares[memory(&entry, &name, machine)?] = share(&entry)?;
    }
    Ok(shares)
}

fn share(value: &Value<'_>) -> Result<f64, InputError> {
    value.number_in(0.0..=1.0, "share")
}

/// Returns the index of the memory called `name`. Refuses the first memory, which takes what the
/// others leave.
pub(super) fn memory(
    value: &Value<'_>,
    name: &str,
    machine: &Machine,
) -> Result<usize, InputError> {
    let others = machine.memories.iter().skip(1).map(|memory| memory.name.as_str());
    match machine.memories.iter().position(|memory| memory.name == name) {
        Some(0) => Err(value
            .refuse(format!("`{name}` has what the other memories leave"))
            .help("give the shares of the others")),
        Some(place) => Ok(place),
        None if machine.memories.len() == 1 => {
            Err(value.refuse(format!("`{}` has no memory `{name}`", machine.name)).help(format!(
                "its only memory is `{}`; shipped machines with several: hmmsched, two-node, \
                 cxl-server",
                machine.memories[0].name
            )))
        }
        None => Err(value
            .refuse(format!("`{}` has no memory `{name}`", machine.name))
            .help(suggestion(name, others))),
    }
}
