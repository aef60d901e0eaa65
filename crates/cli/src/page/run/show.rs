//! Output of a paged program for people: a line while it runs, a table when it has ended.

use std::fmt::Write;

use memweir_abi::preload::page::PageProcess;
use memweir_core::words::plural;
use memweir_core::{Bytes, Joules, PAGE};
use memweir_page::live::{Cause, Histogram, Report, Row};

use crate::foreground;
use crate::render::bars::bar;
use crate::render::text::{self, Table, count, percent, seconds, time};

/// Cells of the longest bar of a histogram.
const BAR: usize = 24;

/// The line at the foot of the terminal.
pub(super) fn line(row: &Row) -> String {
    format!(
        "{}: {} in DRAM, {} in NVM; {} evicted, {} read in place, {} copied back",
        seconds(row.t_s.0),
        row.dram_resident_bytes,
        row.nvm_used_bytes,
        count(row.evictions),
        count(row.direct_reads),
        count(row.copies_in),
    )
}

/// Message about a process that was ended.
pub(super) fn ended(process: &PageProcess) -> String {
    format!(
        "memweir: ended process {}, the largest with {} in DRAM and {} in NVM: there is no room for \
         more pages (--when-full end-largest)",
        process.process, process.resident, process.nvm
    )
}

/// Warnings about what did not go as requested.
pub(super) fn warnings(report: &Report) -> Vec<String> {
    let counted = |name: &str| report.counters.get(name).copied().unwrap_or(0);
    let mut warnings = Vec::new();
    if counted("processes") == 0 {
        warnings.push(
            "the program did not load the preload library, or could not be paged; it ran as ever"
                .to_owned(),
        );
    }
    let unpaged = &report.unpaged;
    if unpaged.processes > 0 {
        warnings.push(unpaged_programs(report));
    }
    if unpaged.refused > 0 {
        warnings.push(format!(
            "refused {} of a program that cannot be paged (--unpaged refuse)",
            text::counted(unpaged.refused, "start")
        ));
    }
    if counted("failures") > 0 {
        let errors = text::counted(counted("failures"), "error");
        warnings.push(format!("{errors} of the kernel left memory as it was"));
    }
    if counted("nvm_full") > 0 {
        warnings.push(format!(
            "the NVM of {} was full, and pages had to stay in DRAM; name a larger one",
            report.nvm.size_bytes
        ));
    }
    if report.shared_peak_bytes.0 > report.dram_bytes.0 / 20 {
        let shared = report.shared_peak_bytes;
        warnings.push(format!("at least {shared} of shared memory were neither paged nor counted"));
    }
    if !report.uncounted_processes.is_empty() {
        let processes: Vec<String> =
            report.uncounted_processes.iter().map(u32::to_string).collect();
        warnings.push(format!(
            "the helper of {} {} ended before it; memory stayed where it was, and is in no figure \
             from then on",
            plural(processes.len() as u64, "process"),
            processes.join(", ")
        ));
    }
    if report.dram_overshoot_bytes.0 > report.dram_bytes.0 / 20 {
        let causes: Vec<String> =
            report.dram_overshoot_causes.iter().map(|cause| because(*cause, report)).collect();
        let why = match causes.is_empty() {
            true => "nothing that is counted explains it".to_owned(),
            false => causes.join("; "),
        };
        let (over, budget) = (report.dram_overshoot_bytes, report.dram_bytes);
        warnings.push(format!("DRAM was {over} above the budget of {budget}: {why}"));
    }
    warnings
}

/// The programs that were not paged, and their memory as far as it was seen.
fn unpaged_programs(report: &Report) -> String {
    let unpaged = &report.unpaged;
    let seen = foreground::memory_of(unpaged.programs.iter().map(|program| &program.ran));
    let ended: u64 = unpaged.programs.iter().map(|program| program.ended).sum();
    let end = match ended {
        0 => "ran without being paged",
        _ => "started unseen and got SIGKILL (--unpaged refuse)",
    };
    let processes = text::counted(unpaged.processes, "process");
    format!("{processes} that cannot be paged, such as static programs, {end}{seen}")
}

/// A cause as a clause.
fn because(cause: Cause, report: &Report) -> String {
    let counted = |name: &str| report.counters.get(name).copied().unwrap_or(0);
    let spent = |name: &str| time(counted(name) as f64, 0);
    match cause {
        Cause::UnpagedPrograms => "programs that cannot be paged had it".to_owned(),
        Cause::NvmFull => "the NVM was full".to_owned(),
        Cause::UnpageableMemory => format!(
            "up to {} of address space had to stay, because the program locked it or asked for \
             what only memory without a file has (MADV_WIPEONFORK, MADV_MERGEABLE, MADV_DONTDUMP)",
            Bytes(counted("unpageable_bytes"))
        ),
        Cause::UnseenMemory => format!(
            "up to {} were stacks or static variables of libraries, or were mapped by system \
             calls of the program's own (Go)",
            Bytes(counted("unseen_bytes"))
        ),
        Cause::PinnedPages => {
            format!("{} a page was locked or pinned", text::counted(counted("skipped"), "time"))
        }
        Cause::ForkedChildren => format!(
            "eviction waited for {}, {} in all",
            text::counted(counted("fork_pauses"), "forked process"),
            spent("fork_pause_ns")
        ),
        Cause::LateHelper => format!(
            "the machine kept the helper from its processor for up to {} at a time, {} in all",
            spent("latest_wake_ns"),
            spent("run_delay_ns")
        ),
    }
}

/// The table when the program has ended.
pub(super) fn table(report: &Report) -> String {
    let table = Table::of(rows(report))
        .left("pages and memory", |(name, _, _)| *name)
        .right("", |(_, value, _)| value.clone())
        .left("", |(_, _, more)| more.clone());
    format!(
        "{} with {} of DRAM, {} of NVM in {} ({} reads, victims by {})\n\n{table}\n",
        seconds(report.seconds),
        report.dram_bytes,
        report.nvm.size_bytes,
        report.nvm.place,
        report.direct_read,
        report.victims,
    )
}

/// The times of single pages, one histogram after the other.
pub(super) fn times(report: &Report) -> String {
    report.times.iter().map(|(name, histogram)| histogram_of(name, histogram)).collect()
}

fn rows(report: &Report) -> Vec<(&'static str, String, String)> {
    let pages = |pages: u64| Bytes(pages * PAGE.0).to_string();
    let over = report.dram_overshoot_bytes;
    let overshoot = match over.0 {
        0 if report.unpaged.processes > 0 => "within the budget, where paged".to_owned(),
        0 => "within the budget".to_owned(),
        _ => format!("{} above the budget", percent(over.as_f64() / report.dram_bytes.as_f64())),
    };
    let around = match report.mapped_around {
        0 => String::new(),
        more => format!("{} more were mapped along with them", count(more)),
    };
    let room = report.nvm_peak_bytes.as_f64() / report.nvm.size_bytes.as_f64();
    let unpaged = report.unpaged.dram_peak();
    let mut rows = vec![
        ("pages evicted", count(report.evictions), pages(report.evictions)),
        ("read in place", count(report.direct_reads), around),
        ("copied back", count(report.copies_in), pages(report.copies_in)),
        ("copies avoided", count(report.copies_avoided), pages(report.copies_avoided)),
        (
            "DRAM relieved of",
            report.dram_relieved_bytes.to_string(),
            "mean over the run".to_owned(),
        ),
        ("DRAM, last look", report.dram_resident_bytes.to_string(), String::new()),
        ("DRAM at most", report.dram_peak_bytes.to_string(), overshoot),
        ("NVM, last look", report.nvm_used_bytes.to_string(), String::new()),
        ("NVM at most", report.nvm_peak_bytes.to_string(), format!("{} of it", percent(room))),
    ];
    if unpaged > Bytes(0) {
        let programs = text::counted(report.unpaged.processes, "process");
        rows.push(("DRAM, not paged, at most", unpaged.to_string(), programs));
    }
    rows
}

/// A histogram, one line for each power of two.
fn histogram_of(name: &str, histogram: &Histogram) -> String {
    let what = match name {
        "direct_read" => "reading a page in place, the fault",
        "upgrade" => "writing to a page that was mapped in place, the fault",
        "copy" => "copying a page back on any access",
        "eviction" => "evicting a page, in a batch",
        other => other,
    };
    let below = histogram.median_below_ns.map(bound).unwrap_or_default();
    let mut text = format!("\n{what}: half of {} below {below}\n", count(histogram.count));
    let most = histogram.buckets.iter().map(|bucket| bucket.count).max().unwrap_or(1);
    for bucket in &histogram.buckets {
        let drawn = bar(bucket.count as f64 / most as f64, BAR);
        let end = bound(bucket.to_ns);
        let _ = writeln!(text, "  below {end:>8}  {:>12}  {drawn}", count(bucket.count));
    }
    text
}

/// The end of a range of times; `any` for the last, which has none.
fn bound(nanos: u64) -> String {
    if nanos == u64::MAX { "any".to_owned() } else { time(nanos as f64, 0) }
}

/// The estimate of energy.
pub(super) fn energy(report: &Report) -> String {
    let energy = &report.energy;
    let Joules(saved) = energy.direct_read_saved_j;
    let share = if energy.dram_backed_j.0 > 0.0 { saved / energy.dram_backed_j.0 } else { 0.0 };
    format!(
        "\nenergy of such a swap area, estimated ({} and {}, equations read `{}`):\n  \
         {} of DRAM, {} of NVM with all pages copied, {} with direct read,\n  \
         which saved {} ({:.3} % of DRAM's). A page read in place pays until {:.0} of its lines were \
         missed in the caches.\n",
        energy.dram,
        energy.nvm,
        energy.reading,
        energy.dram_backed_j,
        energy.nvm_copying_j,
        energy.nvm_j,
        energy.direct_read_saved_j,
        share * 100.0,
        energy.break_even_lines,
    )
}

#[cfg(test)]
mod tests;
