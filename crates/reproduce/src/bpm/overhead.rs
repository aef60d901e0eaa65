//! What colored allocation costs the kernel (section 3.4, B13), as far as a simulated one can say.

use memweir_core::Nanos;
use memweir_core::address_map::{BASE_PAGE_BITS, ColorSet};
use memweir_core::input::Refusal;
use memweir_policy::colors::{CacheUse, ColorAssignment, ProgramTraits};
use memweir_sim::bank::os::{FaultCosts, Os, ThreadId, VirtualPage, ZoneId};
use memweir_sim::workload::catalog::{Catalog, Entry};

use super::evaluation::mean;
use super::machine::Kernel;
use super::programs;
use super::rig::Rig;
use super::runs::{ALONE_WORK, Runs, refused};
use crate::report::{Found, Table};
use crate::run::Failed;
use crate::work::Bench;

/// A program that touched all of its memory.
struct Touched {
    /// Share of its run time that the faults take, %.
    share: f64,
    kernel: Nanos,
    faults: u64,
    lists: u64,
    spilled: u64,
}

fn touch_all(rig: &Rig, entry: &Entry, kernel: Kernel) -> Result<Touched, Refusal> {
    let mut os: Os = rig.board.os(kernel);
    os.charge(FaultCosts::default());
    let process = os.spawn();
    if kernel == Kernel::Colored {
        let traits = [ProgramTraits::default(); 4];
        let uniform = ColorAssignment::named("uniform")?;
        let sets: Vec<ColorSet> = uniform.assign(&traits, &rig.board.supply, CacheUse::Balance)?;
        os.allow(process, ZoneId(0), &sets[0])?;
    }
    let pages = (entry.footprint_mib.value * f64::from(1 << 20)) as u64 >> BASE_PAGE_BITS;
    for page in 0..pages {
        let touched = os.touch(process, ThreadId(0), VirtualPage(page));
        touched.map_err(|error| Refusal::new(error.to_string(), "a smaller footprint"))?;
    }
    let stats = &os.stats().processes[0];
    Ok(Touched {
        share: 100.0 * stats.kernel_time.as_f64() / entry.run_time().as_f64(),
        kernel: stats.kernel_time,
        faults: stats.faults,
        lists: stats.lists_searched,
        spilled: stats.spilled,
    })
}

/// Kernel time of faults with and without colors.
pub(super) fn overhead(runs: &Runs, bench: &Bench<'_>) -> Result<Found, Failed> {
    let catalog = Catalog::shipped();
    let names = programs::names();
    let entries: Vec<&Entry> = names.iter().filter_map(|name| catalog.find(name).ok()).collect();
    let rig = &runs.rig;
    let both = bench
        .try_all(ALONE_WORK, &entries, |entry| {
            let kernel = |kernel| touch_all(rig, entry, kernel);
            Ok((kernel(Kernel::Plain)?, kernel(Kernel::Colored)?))
        })
        .map_err(refused)?;
    let shares: Vec<f64> = both.iter().map(|(_, colored)| colored.share).collect();
    let total = |value: &dyn Fn(&Touched) -> u64, colored: bool| -> f64 {
        let of = |(plain, with): &(Touched, Touched)| value(if colored { with } else { plain });
        both.iter().map(of).sum::<u64>() as f64
    };
    let kernel = |colored| total(&|touched| touched.kernel.0, colored);
    let lists = |colored| total(&|t| t.lists, colored) / total(&|t| t.faults, colored);
    let rows = entries.iter().zip(&both).map(|(entry, (plain, colored))| {
        vec![
            entry.name.clone(),
            colored.faults.to_string(),
            format!("{:.3}", plain.share),
            format!("{:.3}", colored.share),
            colored.spilled.to_string(),
        ]
    });
    let header =
        ["program", "faults", "kernel time, plain (%)", "with colors (%)", "spilled pages"];
    Ok(Found {
        tables: vec![Table {
            caption: "Faults of all pages of each program".to_owned(),
            header: header.map(str::to_owned).to_vec(),
            rows: rows.collect(),
        }],
        values: vec![
            ("kernel", mean(&shares)),
            ("more", 100.0 * (kernel(true) / kernel(false) - 1.0)),
            ("lists", lists(true)),
        ],
        remarks: vec![format!(
            "Without colors a fault looks at {:.2} free lists. The paper's kernel time holds \
             everything that the kernel does; ours the first touch of each page only, and none that \
             is given back and taken again.",
            lists(false)
        )],
        ..Found::default()
    })
}
