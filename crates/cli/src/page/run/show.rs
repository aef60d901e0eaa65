//! What a person sees of a paged program: a line while it runs, a table when it has ended.

use std::fmt::Write;

use memweir_core::preload::page::PageProcess;
use memweir_core::{Bytes, Joules};
use memweir_page::live::{Histogram, Report, Row};

use crate::render::bars::bar;
use crate::render::text::{Align, count, percent, seconds};

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

/// What is told when a process is ended.
pub(super) fn ended(process: &PageProcess) -> String {
    format!(
        "memweir: ended process {}, the largest with {} in DRAM and {} in NVM: there is no room for \
         more pages (--when-full end-largest)",
        process.process, process.resident, process.nvm
    )
}

/// What did not go as asked.
pub(super) fn warnings(report: &Report) -> Vec<String> {
    let counted = |name: &str| report.counters.get(name).copied().unwrap_or(0);
    let mut warnings = Vec::new();
    if counted("processes") == 0 {
        warnings.push(
            "the program did not load the preload library, or could not be paged; it ran as ever"
                .to_owned(),
        );
    }
    let told = [
        ("unpaged", "processes could not be paged and ran as ever"),
        ("failures", "errors of the kernel left memory as it was"),
        ("nvm_full", "times nothing could be evicted because the NVM was full; name a larger one"),
    ];
    for (name, what) in told {
        if counted(name) > 0 {
            warnings.push(format!("{} {what}", counted(name)));
        }
    }
    let allowed = report.dram_bytes.0 / 20;
    if report.dram_overshoot_bytes.0 > allowed {
        let over = report.dram_overshoot_bytes;
        let (skipped, forks) = (counted("skipped"), counted("fork_pauses"));
        let waited = counted("fork_pause_ns") as f64 / 1e9;
        // What took less than that did not let so much come.
        let matters = 0.01 * report.seconds;
        let why = if skipped > 0 {
            format!(": {skipped} times a page was locked or pinned")
        } else if waited > matters {
            format!(": eviction waited for {forks} forked processes, {} in all", seconds(waited))
        } else {
            String::new()
        };
        warnings.push(format!("DRAM was {over} above the budget of {}{why}", report.dram_bytes));
    }
    warnings
}

/// The table when the program has ended.
pub(super) fn table(report: &Report) -> String {
    let mut text = format!(
        "{} with {} of DRAM, {} of NVM in {} ({} reads, victims by {})\n\n",
        seconds(report.seconds),
        report.dram_bytes,
        report.nvm.size_bytes,
        report.nvm.place,
        report.direct_read,
        report.victims,
    );
    let columns = [("pages and memory", Align::Left), ("", Align::Right), ("", Align::Left)];
    text += &crate::render::text::table(&columns, rows(report));
    text.push('\n');
    for (name, histogram) in &report.times {
        text += &times(name, histogram);
    }
    text + &energy(report)
}

fn rows(report: &Report) -> Vec<Vec<String>> {
    let row = |name: &str, value: String, more: String| vec![name.to_owned(), value, more];
    let pages = |pages: u64| Bytes(pages * memweir_page::energy::PAGE.0).to_string();
    let over = report.dram_overshoot_bytes;
    let overshoot = match over.0 {
        0 => "within the budget".to_owned(),
        _ => format!("{} above the budget", percent(over.as_f64() / report.dram_bytes.as_f64())),
    };
    let around = match report.mapped_around {
        0 => String::new(),
        more => format!("{} more were mapped along with them", count(more)),
    };
    let room = report.nvm_peak_bytes.as_f64() / report.nvm.size_bytes.as_f64();
    vec![
        row("pages evicted", count(report.evictions), pages(report.evictions)),
        row("read in place", count(report.direct_reads), around),
        row("copied back", count(report.copies_in), pages(report.copies_in)),
        row("copies avoided", count(report.copies_avoided), pages(report.copies_avoided)),
        row(
            "DRAM relieved of",
            report.dram_relieved_bytes.to_string(),
            "mean over the run".to_owned(),
        ),
        row("DRAM, last look", report.dram_resident_bytes.to_string(), String::new()),
        row("DRAM at most", report.dram_peak_bytes.to_string(), overshoot),
        row("NVM, last look", report.nvm_used_bytes.to_string(), String::new()),
        row("NVM at most", report.nvm_peak_bytes.to_string(), format!("{} of it", percent(room))),
    ]
}

/// A histogram, one line for each power of two.
fn times(name: &str, histogram: &Histogram) -> String {
    let what = match name {
        "direct_read" => "reading a page in place, the fault",
        "upgrade" => "writing to a page that was mapped in place, the fault",
        "copy" => "copying a page back on any access",
        "eviction" => "evicting a page, in a batch",
        other => other,
    };
    let below = histogram.median_below_ns.map(nanos).unwrap_or_default();
    let mut text = format!("\n{what}: half of {} below {below}\n", count(histogram.count));
    let most = histogram.buckets.iter().map(|bucket| bucket.count).max().unwrap_or(1);
    for bucket in &histogram.buckets {
        let drawn = bar(bucket.count as f64 / most as f64, BAR);
        let end = nanos(bucket.to_ns);
        let told = writeln!(text, "  below {end:>8}  {:>12}  {drawn}", count(bucket.count));
        told.unwrap_or_else(|_| unreachable!("a string takes every line"));
    }
    text
}

/// A power of two of nanoseconds with the unit that reads best.
fn nanos(value: u64) -> String {
    match value {
        u64::MAX => "any".to_owned(),
        0..10_000 => format!("{value} ns"),
        10_000..10_000_000 => format!("{:.0} µs", value as f64 / 1e3),
        10_000_000..10_000_000_000 => format!("{:.0} ms", value as f64 / 1e6),
        _ => format!("{:.0} s", value as f64 / 1e9),
    }
}

fn energy(report: &Report) -> String {
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
