//! Cost of colored allocation in the kernel (section 3.4, B13): measured instructions and time of a
//! page fault, and the faults of a simulated kernel.

use memweir_bank::os::{Os, ThreadId, VirtualPage, ZoneId};
use memweir_core::address_map::{BASE_PAGE_BITS, ColorSet};
use memweir_core::input::Refusal;
use memweir_flow::workload::catalog::{Catalog, Entry};
use memweir_policy::colors::{CacheUse, ColorAssignment, ProgramTraits};
use serde::Deserialize;

use super::machine::Kernel;
use super::programs;
use super::rig::Rig;
use super::runs::{ALONE_WORK, Runs, refused};
use crate::report::{Found, Table};
use crate::run::Failed;
use crate::source::FigureData;
use crate::statistics::mean;

/// Measured costs of a page fault.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Costs {
    recycled: Instructions,
    free_lists: Instructions,
    time: Time,
}

/// Instructions of a fault as an emulator counts them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Instructions {
    /// The command that counted them.
    source: String,
    stock: f64,
    colored: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Time {
    /// The command that measured it.
    source: String,
    /// Time of a fault without colors, us.
    fault_us: f64,
    /// Emulated steps that clear the page.
    clearing: f64,
}

impl Costs {
    /// Time of a fault in seconds. With colors it grows in proportion to the emulated steps of a
    /// fault whose page comes from the free lists, as for a program that touches its memory once.
    fn seconds(&self, kernel: Kernel) -> f64 {
        let factor = match kernel {
            Kernel::Plain => 1.0,
            Kernel::Colored => self.free_lists.colored / self.free_lists.stock,
        };
        self.time.fault_us * 1e-6 * factor
    }

    /// Instructions that colors add, as a share of those of a fault without clearing the page, %.
    fn more(&self, counted: &Instructions) -> f64 {
        100.0 * (counted.colored - counted.stock) / (counted.stock - self.time.clearing)
    }
}

/// A program that touched all of its memory.
struct Touched {
    /// Share of its run time that the faults take, %.
    share: f64,
    faults: u64,
    lists: u64,
    spilled: u64,
}

fn touch_all(rig: &Rig, entry: &Entry, kernel: Kernel, costs: &Costs) -> Result<Touched, Refusal> {
    let mut os: Os = rig.board.os(kernel);
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
    let stats = &os.stats()[0];
    Ok(Touched {
        share: 100.0 * stats.faults as f64 * costs.seconds(kernel) / entry.run_time().as_secs_f64(),
        faults: stats.faults,
        lists: stats.lists_searched,
        spilled: stats.spilled,
    })
}

/// Kernel time of faults with and without colors.
pub(super) fn overhead(data: &FigureData, runs: &Runs<'_>) -> Result<Found, Failed> {
    let costs: Costs = data.parameters()?;
    let catalog = Catalog::shipped();
    let names = programs::names();
    let entries: Vec<&Entry> = names.iter().filter_map(|name| catalog.find(name).ok()).collect();
    let rig = runs.rig;
    let both = runs
        .bench
        .try_all(ALONE_WORK, &entries, |entry| {
            let kernel = |kernel| touch_all(rig, entry, kernel, &costs);
            Ok((kernel(Kernel::Plain)?, kernel(Kernel::Colored)?))
        })
        .map_err(refused)?;
    let shares: Vec<f64> = both.iter().map(|(_, colored)| colored.share).collect();
    let total = |value: &dyn Fn(&Touched) -> u64, colored: bool| -> f64 {
        let of = |(plain, with): &(Touched, Touched)| value(if colored { with } else { plain });
        both.iter().map(of).sum::<u64>() as f64
    };
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
    Ok(Found {
        tables: vec![Table::of(rows)],
        values: vec![
            ("kernel", mean(&shares)),
            ("more", costs.more(&costs.recycled)),
            ("more-lists", costs.more(&costs.free_lists)),
            ("lists", lists(true)),
        ],
        remarks: vec![format!(
            "Without colors a fault looks at {:.2} free lists. The instructions are those of `{}` and \
             `{}`, the time of a fault is that of `{}`.",
            lists(false),
            costs.recycled.source,
            costs.free_lists.source,
            costs.time.source,
        )],
        ..Found::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measured_costs_by_hand() {
        let counted = |stock, colored| Instructions { source: String::new(), stock, colored };
        let costs = Costs {
            recycled: counted(6930.0, 7058.0),
            free_lists: counted(7090.0, 7436.0),
            time: Time { source: String::new(), fault_us: 1.4, clearing: 4108.0 },
        };
        // 128 more in 2,822, and 346 in 2,982.
        assert!((costs.more(&costs.recycled) - 4.5358).abs() < 1e-4);
        assert!((costs.more(&costs.free_lists) - 11.6030).abs() < 1e-4);
        // 1.4 us x 7436 / 7090.
        assert!((costs.seconds(Kernel::Plain) - 1.4e-6).abs() < 1e-18);
        assert!((costs.seconds(Kernel::Colored) - 1.46832e-6).abs() < 1e-11);
    }
}
