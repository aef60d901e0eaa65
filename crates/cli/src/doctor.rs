//! `memweir doctor`: the features of this machine, the reasons for missing ones, and help.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

use memweir_core::names::Named;
use memweir_linux::{Mechanism, MeterKind, Probe};
use memweir_run::doctor::{DoctorOptions, DoctorReport, doctor};

use crate::failure::{Failure, Outcome};
use crate::output;
use crate::shared::profiling::QemuArgs;

/// Options of `memweir doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write the report as JSON (`-`: to standard output instead of the text)
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
    #[command(flatten)]
    qemu: QemuArgs,
    /// The calibration, instead of the one in the XDG data directory
    #[arg(long, value_name = "FILE")]
    platform: Option<PathBuf>,
    /// The profile store, instead of the one in the XDG data directory
    #[arg(long, value_name = "FILE")]
    store: Option<PathBuf>,
}

/// Probes the machine and shows the report.
pub(crate) fn execute(args: &Args) -> Result<Outcome, Failure> {
    output::writable(args.json.as_deref())?;
    let report = doctor(&DoctorOptions {
        qemu: args.qemu.paths(),
        platform: args.platform.clone(),
        store: args.store.clone(),
    });
    output::report(args.json.as_deref(), &report, || text(&report))?;
    Ok(Outcome::Success)
}

fn text(report: &DoctorReport) -> String {
    let mut text =
        format!("memweir {} on {}\n{}\n", report.version, report.kernel, report.machine.name());
    if let Some(caches) = &report.machine.caches {
        let _ = writeln!(
            text,
            "caches: {} L1, {} L2, {} last level",
            caches.l1d.size, caches.l2.size, caches.llc.size
        );
    }
    // Meters and mechanisms stand in the order in which they are tried.
    let meters: Vec<&str> = MeterKind::names().collect();
    let mechanisms: Vec<&str> = Mechanism::names().collect();
    section(&mut text, "Meters", &report.meters, &meters);
    section(&mut text, "Blocking mechanisms", &report.mechanisms, &mechanisms);
    section(&mut text, "Memory media", &report.media, &["cpuless-nodes", "dax", "cxl"]);
    section(&mut text, "Paging", &report.paging, &["userfaultfd", "pagemap-scan"]);
    section(&mut text, "Privileges", &report.privileges, &[]);
    section(&mut text, "Kernel", &report.kernel_features, &[]);
    section(&mut text, "Tools", &report.tools, &[]);
    text += "\nFiles\n";
    probe(&mut text, "calibration", &report.platform, 11);
    probe(&mut text, "profiles", &report.store, 11);
    text
}

/// One table of probes: those in `order` first, then the others.
fn section(text: &mut String, title: &str, probes: &BTreeMap<String, Probe>, order: &[&str]) {
    let place = |name: &str| order.iter().position(|known| *known == name).unwrap_or(order.len());
    let mut names: Vec<&String> = probes.keys().collect();
    names.sort_by_key(|name| place(name));
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let _ = writeln!(text, "\n{title}");
    for name in names {
        probe(text, name, &probes[name], width);
    }
}

fn probe(text: &mut String, name: &str, probe: &Probe, width: usize) {
    let mark = if probe.available { "yes" } else { "no " };
    let _ = writeln!(text, "  {mark}  {name:width$}  {}", probe.reason);
    if let Some(help) = &probe.help {
        let _ = writeln!(text, "       {:width$}  -> {help}", "");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_keeps_the_order_of_trying_and_gives_help() {
        let mut probes = BTreeMap::new();
        probes.insert("declared".to_owned(), Probe::available("always"));
        probes.insert("perf".to_owned(), Probe::missing("no PMU").help("pass one through"));
        let mut text = String::new();
        section(&mut text, "Meters", &probes, &["perf", "declared"]);
        assert_eq!(
            text,
            "\nMeters\n  no   perf      no PMU\n                 -> pass one through\n  yes  declared  always\n"
        );
    }
}
