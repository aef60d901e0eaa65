//! A replay as text: the trace and the memories, the results, and the latencies.

use std::fmt::Write;

use memweir_bank::cached_trace::CachedTrace;
use memweir_core::address_map::{AddressMap, Role, XorFunction};
use memweir_core::names::Named;
use memweir_core::{PhysAddr, Picos};
use memweir_dram::drive::{Bucket, Mode, Report, Served, WarmUp};
use memweir_dram::{MemoryConfig, Stats};

use super::caches::describe;
use crate::failure::Failure;
use crate::render::bars::bar;
use crate::render::text::{count, counted, percent, properties, rate, seconds, time};

/// Memories, trace and mode, and the address maps as the controllers read them.
pub(super) fn head(
    systems: &[(PhysAddr, MemoryConfig)],
    behind: &CachedTrace,
    mode: Mode,
) -> Result<String, Failure> {
    let trace = behind.trace();
    let mut text = String::new();
    for (number, (from, config)) in systems.iter().enumerate() {
        let name = if number == 0 { "memory" } else { "second" };
        let place = if number == 0 { String::new() } else { format!(", from {from}") };
        let channels = counted(u64::from(config.channels), "channel");
        let devices = devices(config);
        let _ = writeln!(text, "{name:<12} {devices}, {channels}, {}{place}", config.capacity());
    }
    let config = &systems[0].1;
    let _ = writeln!(
        text,
        "controller   {}, {} page, refresh {}, queues of {} reads and {} writes",
        config.scheduler,
        config.page,
        config.effective_refresh(),
        config.read_queue,
        config.write_queue
    );
    let about = match trace.header().name.as_str() {
        "" => String::new(),
        name => format!(", {name}"),
    };
    let _ = writeln!(
        text,
        "trace        {} ({}, {} addresses{about}), {mode}",
        trace.name(),
        trace.format().name(),
        trace.header().addresses.name()
    );
    if let Some(caches) = behind.caches() {
        let _ = writeln!(text, "caches       {}", describe(caches));
    }
    for (_, config) in systems {
        let map = config.complete_map().map_err(|refusal| refusal.written_in("command line"))?;
        text += &address_map(&map);
    }
    Ok(text + "\n")
}

/// The devices of a memory's ranks.
pub(super) fn devices(config: &MemoryConfig) -> String {
    let names: Vec<&str> = config.ranks.iter().map(|spec| spec.name.as_str()).collect();
    match names.as_slice() {
        [name, others @ ..] if others.iter().all(|other| other == name) => {
            format!("{name}, {} per channel", counted(names.len() as u64, "rank"))
        }
        names => format!("ranks {}", names.join(" + ")),
    }
}

/// Address bits of each role, as the controllers read them.
fn address_map(map: &AddressMap) -> String {
    let mut text = format!("address map  {}\n", map.name);
    if let Some(interleave) = map.interleave {
        let _ = writeln!(
            text,
            "  way           blocks of {} round {} channels",
            interleave.granule, interleave.channels
        );
    }
    for role in Role::ALL {
        let functions: Vec<XorFunction> = map.functions_of(*role).collect();
        if !functions.is_empty() {
            let _ = writeln!(text, "  {role:<13} {}", listed(&functions));
        }
    }
    let _ = writeln!(text, "  row           {}", listed(&map.row));
    let _ = writeln!(text, "  byte in row   {}", listed(&map.column));
    text
}

/// Functions in ascending order, runs of single bits as `17-32`.
fn listed(functions: &[XorFunction]) -> String {
    let mut parts: Vec<(String, Option<(u32, u32)>)> = Vec::new();
    for function in functions {
        let bit = (function.0.count_ones() == 1).then(|| function.lowest());
        match (parts.last_mut(), bit) {
            (Some((_, Some((_, to)))), Some(bit)) if *to + 1 == bit => *to = bit,
            (_, Some(bit)) => parts.push((String::new(), Some((bit, bit)))),
            (_, None) => parts.push((function.to_string(), None)),
        }
    }
    let part = |(text, run): &(String, Option<(u32, u32)>)| match run {
        None => text.clone(),
        Some((from, to)) if from == to => format!("bit {from}"),
        Some((from, to)) => format!("bits {from}-{to}"),
    };
    parts.iter().map(part).collect::<Vec<_>>().join(", ")
}

/// The results, in cycles of `clock`; `stats` are those of all memories.
pub(super) fn report(report: &Report, clock: Picos, stats: &Stats) -> String {
    let mut rows = served(&report.served, clock);
    if let Some(before) = report.warm_up {
        let WarmUp { requests, cycles } = before;
        let text =
            format!("{} in {} cycles, not counted", counted(requests, "request"), count(cycles));
        rows.insert(0, ("warm-up", text));
    }
    for (name, value) in [("from writes", stats.forwarded), ("merged writes", stats.coalesced)] {
        if value > 0 {
            rows.push((name, count(value)));
        }
    }
    rows.push((
        "CPU time",
        format!(
            "{}, {} requests/s",
            seconds(report.cpu_s),
            count(report.requests_per_cpu_s as u64)
        ),
    ));
    let mut text = properties(rows, 14) + &latencies(&report.served);
    for part in &report.parts {
        let _ = writeln!(text, "\n{}, from {}", part.memory, PhysAddr(part.from));
        text += &properties(served(&part.served, clock), 14);
        text += &latencies(&part.served);
    }
    text
}

/// Rows about the served requests.
fn served(served: &Served, clock: Picos) -> Vec<(&'static str, String)> {
    let time = time(served.cycles as f64 * clock.as_f64() * 1e-3, 1);
    let of_requests = |part: u64| {
        format!("{} ({})", count(part), percent(part as f64 / served.requests.max(1) as f64))
    };
    let mut rows = vec![
        (
            "requests",
            format!(
                "{}: {}, {}",
                count(served.requests),
                counted(served.reads, "read"),
                counted(served.writes, "write")
            ),
        ),
        ("cycles", format!("{} ({time})", count(served.cycles))),
        ("row hits", of_requests(served.row_hits)),
        ("row misses", of_requests(served.row_misses)),
        ("row conflicts", of_requests(served.row_conflicts)),
        ("activates", count(served.activates)),
        ("refreshes", count(served.refreshes)),
        ("bandwidth", rate(served.bandwidth_bytes_per_s)),
        ("bus in use", percent(served.bus_utilisation)),
    ];
    if let (Some(energy), Some(power)) = (&served.energy_pj, served.average_power_mw) {
        let kinds: Vec<String> = energy
            .iter()
            .filter(|(_, pj)| **pj > 0.0)
            .map(|(kind, pj)| format!("{kind} {:.3}", pj * 1e-6))
            .collect();
        rows.push(("power", format!("{power:.1} mW mean")));
        rows.push(("energy in µJ", kinds.join(", ")));
    }
    rows
}

/// Mean, percentiles, and a bar for each range of latencies.
fn latencies(served: &Served) -> String {
    let latency = &served.read_latency_cycles;
    let (Some(mean), Some(p50), Some(p90), Some(p99), Some(max)) =
        (latency.mean, latency.p50, latency.p90, latency.p99, latency.max)
    else {
        return String::new();
    };
    let mut text = format!(
        "\nread latency in cycles: mean {mean:.2}, p50 {p50}, p90 {p90}, p99 {p99}, max {max}\n"
    );
    let most = latency.histogram.iter().map(|bucket| bucket.count).max().unwrap_or(1);
    for Bucket { from, to, count: number } in &latency.histogram {
        let range = if from == to { from.to_string() } else { format!("{from}-{to}") };
        let share = *number as f64 / served.reads as f64;
        let bar = bar(*number as f64 / most as f64, BAR);
        let _ = writeln!(text, "{range:>13}  {:>7}  {bar}", percent(share));
    }
    text
}

/// Cells of the longest bar.
const BAR: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_listed_in_runs() {
        let functions: Vec<XorFunction> =
            [1 << 3, 1 << 4, 1 << 5, 1 << 9, 1 << 14 | 1 << 18].map(XorFunction).into();
        assert_eq!(listed(&functions), "bits 3-5, bit 9, 14^18");
    }
}
