//! A replay as text: what is replayed where, the results, and the latencies.

use std::fmt::Write;

use memweir_core::address_map::{AddressMap, Role, XorFunction};
use memweir_dram::drive::{Bucket, Mode, Report};
use memweir_dram::trace::Trace;
use memweir_dram::{MemoryConfig, Stats};

use crate::failure::Failure;
use crate::render::bars::bar;
use crate::render::text::{count, percent, rate, seconds};

/// Memory, trace and mode, and the address map as the controllers read it.
pub(super) fn head(config: &MemoryConfig, trace: &Trace, mode: Mode) -> Result<String, Failure> {
    let map = config.complete_map().map_err(|refusal| refusal.written_in("command line"))?;
    let names: Vec<&str> = config.ranks.iter().map(|spec| spec.name.as_str()).collect();
    let ranks = match names.as_slice() {
        [name, others @ ..] if others.iter().all(|other| other == name) => {
            format!("{name}, {} per channel", plural(names.len() as u64, "rank"))
        }
        names => format!("ranks {}", names.join(" + ")),
    };
    let mut text = String::new();
    let _ = writeln!(
        text,
        "memory       {ranks}, {}, {}",
        plural(u64::from(config.channels), "channel"),
        config.capacity()
    );
    let _ = writeln!(
        text,
        "controller   {}, {} page, {} refresh, queues of {} reads and {} writes",
        name_of(&memweir_dram::config::Scheduler::ALL, config.scheduler),
        config.page,
        name_of(&memweir_dram::config::RefreshPolicy::ALL, config.refresh),
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
    Ok(text + &address_map(&map) + "\n")
}

fn name_of<T: PartialEq>(all: &[(&'static str, T)], value: T) -> &'static str {
    all.iter().find(|(_, known)| *known == value).map_or("", |(name, _)| name)
}

fn plural(number: u64, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

/// Which address bits choose what, as the controllers read them.
fn address_map(map: &AddressMap) -> String {
    let mut text = format!("address map  {}\n", map.name);
    if let Some(interleave) = map.interleave {
        let _ = writeln!(
            text,
            "  way           blocks of {} round {} channels",
            interleave.granule, interleave.channels
        );
    }
    for (name, role) in Role::ALL {
        let functions: Vec<XorFunction> = map.functions_of(role).collect();
        if !functions.is_empty() {
            let _ = writeln!(text, "  {name:<13} {}", listed(&functions));
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

/// The results.
pub(super) fn report(config: &MemoryConfig, report: &Report, stats: &Stats) -> String {
    let cycles = report.cycles as f64;
    let time = cycles * config.spec().clock.as_f64() * 1e-12;
    let of_requests = |part: u64| {
        format!("{} ({})", count(part), percent(part as f64 / report.requests.max(1) as f64))
    };
    let mut rows = vec![
        (
            "requests",
            format!(
                "{}: {} reads, {} writes",
                count(report.requests),
                count(report.reads),
                count(report.writes)
            ),
        ),
        ("cycles", format!("{} ({:.6} s)", count(report.cycles), time)),
        ("row hits", of_requests(report.row_hits)),
        ("row misses", of_requests(report.row_misses)),
        ("row conflicts", of_requests(report.row_conflicts)),
        ("activates", count(report.activates)),
        ("refreshes", count(report.refreshes)),
        ("bandwidth", rate(report.bandwidth_bytes_per_s)),
        ("bus in use", percent(report.bus_utilisation)),
    ];
    for (name, value) in [("from writes", stats.forwarded), ("merged writes", stats.coalesced)] {
        if value > 0 {
            rows.push((name, count(value)));
        }
    }
    if let (Some(energy), Some(power)) = (&report.energy_pj, report.average_power_mw) {
        let kinds: Vec<String> = energy
            .iter()
            .filter(|(_, pj)| **pj > 0.0)
            .map(|(kind, pj)| format!("{kind} {:.3}", pj * 1e-6))
            .collect();
        rows.push(("power", format!("{power:.1} mW mean")));
        rows.push(("energy in µJ", kinds.join(", ")));
    }
    rows.push((
        "CPU time",
        format!(
            "{}, {} requests/s",
            seconds(report.cpu_s),
            count(report.requests_per_cpu_s as u64)
        ),
    ));
    let mut text = String::new();
    for (name, value) in rows {
        let _ = writeln!(text, "{name:<14} {value}");
    }
    text + &latencies(report)
}

/// Mean, percentiles, and a bar for each range of latencies.
fn latencies(report: &Report) -> String {
    let latency = &report.read_latency_cycles;
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
        let share = *number as f64 / report.reads as f64;
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
