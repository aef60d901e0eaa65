//! `memweir sim --list`: the names that a scenario can use.

use memweir_bank::characteristics;
use memweir_bank::fit::Characteristics;
use memweir_core::medium::data::{MEDIA, MediumData};
use memweir_flow::Hardware;
use memweir_flow::hardware::MACHINES;
use memweir_flow::optimal::hindsight::HINDSIGHT;
use memweir_flow::optimal::planned::PLANNED;
use memweir_flow::workload::catalog::{Catalog, Entry};
use memweir_flow::workload::mix::iabw::TABLE_1;
use memweir_run::options::PINNED;
use memweir_study::bank;

use crate::render::text::{counted, rate};
use crate::shared::help::Names;
use crate::shared::names;

/// The whole list.
pub(super) fn names() -> Names {
    Names::default()
        .with("machines", "Machines", "machine = \"NAME\"", machines())
        .with("media", "Media", "in machine files", media())
        .with("programs", "Programs", "program = \"NAME\", mix.programs", programs())
        .with("mixes", "Mixes of the papers", "mix.paper = \"NAME\"", mixes())
        .with("bank_machines", "Machines at bank level", "machine = \"NAME\"", bank_machines())
        .with("bank_programs", "Programs at bank level", "program = \"NAME\"", bank_programs())
        .with("policies", "Policies", "policies = [\"NAME\", ...]", policies())
        .with(
            "policy_options",
            "Options of policies",
            "\"NAME:OPTION:...\"",
            names::policy_options(),
        )
        .with("predictors", "Predictors", "predictor = \"NAME\"", names::predictors())
}

/// The shipped catalog; estimated figures are marked.
fn programs() -> Vec<(String, String)> {
    let row = |entry: &Entry| {
        let mark = if entry.mpki.is_estimated() { " (estimated)" } else { "" };
        let about = format!(
            "{}: {} lines read per 1,000 instructions{mark}, {:.0} s alone on iabw",
            entry.suite.name(),
            entry.mpki.value,
            entry.run_time_s.value
        );
        (entry.name.clone(), about)
    };
    Catalog::shipped().iter().map(row).collect()
}

fn bank_machines() -> Vec<(&'static str, String)> {
    let about = |text: &str| text.lines().next().unwrap_or("").trim_start_matches("# ").to_owned();
    bank::MACHINES.iter().map(|(name, text)| (*name, about(text))).collect()
}

/// The table of characteristics.
fn bank_programs() -> Vec<(String, String)> {
    let row = |(name, is): (String, Characteristics)| {
        let about = format!(
            "{} misses per 1,000 instructions, {:.1} % row hits, {} banks at once",
            is.mpki,
            100.0 * is.rbl,
            is.blp
        );
        (name, about)
    };
    characteristics::all().into_iter().map(row).collect()
}

fn mixes() -> Vec<(String, String)> {
    let of_table_1 = TABLE_1.iter().map(|workload| {
        (workload.name(), format!("iabw Table 1, ideal average bandwidth {}", workload.bandwidth()))
    });
    let hmmsched = ["hmmsched-1", "hmmsched-2"]
        .map(|name| (name.to_owned(), "hmmsched section VI, on a machine with NVM".to_owned()));
    of_table_1.chain(hmmsched).collect()
}

/// The policies, and the schedules that are none; `pinned` binds real jobs to real CPUs.
fn policies() -> Vec<(&'static str, String)> {
    let schedules = [
        (PLANNED, "planned with all knowledge, as the best schedule that is known; no policy"),
        (
            HINDSIGHT,
            "the shortest of twelve runs of `max-weight` with corrected lengths; no policy",
        ),
    ];
    let policies = names::policies().into_iter().filter(|(name, _)| *name != PINNED);
    policies.chain(schedules.map(|(name, about)| (name, about.to_owned()))).collect()
}

fn machines() -> Vec<(String, String)> {
    let shipped = MACHINES.iter().filter_map(|(name, _)| Hardware::shipped(name).ok());
    let row = |hardware: Hardware| {
        let machine = &hardware.machine;
        let memories: Vec<String> = machine
            .memories
            .iter()
            .map(|memory| format!("{} {}", memory.name, rate(memory.service.capacity.0)))
            .collect();
        let cores = counted(u64::from(machine.cores()), "core");
        let about = format!("{cores}; {} ({})", memories.join(", "), hardware.source);
        (machine.name.clone(), about)
    };
    shipped.map(row).collect()
}

fn media() -> Vec<(String, String)> {
    let shipped = MEDIA.iter().filter_map(|(name, _)| MediumData::shipped(name).ok());
    let row = |medium: MediumData| {
        let nanos = |latency: memweir_core::Picos| latency.as_f64() / 1e3;
        let about = format!(
            "read {} ns, write {} ns beside DRAM of {} ns ({})",
            nanos(medium.read_latency),
            nanos(medium.write_latency),
            nanos(medium.dram_latency),
            medium.source
        );
        (medium.name, about)
    };
    shipped.map(row).collect()
}
