//! `memweir color run --kernel`: the kernel places the pages.

use std::time::Instant;

use memweir_color::CacheColors;
use memweir_color::kernel::{KernelColored, KernelCounts, KernelRequest, KernelShortage};
use memweir_core::address_map::AddressMap;
use memweir_core::input::InputError;
use memweir_linux::foreground::Foreground;
use memweir_linux::tell;
use serde::Serialize;

use super::{Args, OnShortage, Ran};
use crate::failure::{Failure, Outcome, refusal_of};
use crate::shared::coloring::GivenPages;
use crate::{foreground, output};

/// Output of `--json`.
#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    ran: Ran,
    kernel: KernelCounts,
}

/// Returns the reaction of the kernel.
fn shortage(how: OnShortage) -> Result<KernelShortage, InputError> {
    match how {
        OnShortage::Refuse => Ok(KernelShortage::Strict),
        OnShortage::Spill => Ok(KernelShortage::Spill),
        OnShortage::Reclaim => Ok(KernelShortage::Reclaim),
        OnShortage::Wait => {
            Err(refusal_of("--on-shortage", "the kernel lets nobody wait for a color")
                .help("with --kernel choose `refuse`, `spill` or `reclaim`"))
        }
    }
}

/// Runs the program.
pub(super) fn execute(
    args: &Args,
    map: AddressMap,
    cache: Option<CacheColors>,
) -> Result<Outcome, Failure> {
    let shortage = shortage(args.on_shortage)?;
    let request = KernelRequest { map, colors: args.colors.clone(), cache, shortage };
    let colored = KernelColored::prepare(&request)?;
    let warning = super::warn();
    let begun = Instant::now();
    let program =
        Foreground { command: &args.command, environment: &[], group: Some(colored.group()) };
    let status = program.run(foreground::NEVER, || ())?;
    let counts = colored.counts();
    let ran = Ran::new(args, status, begun, GivenPages::from(&counts), warning);
    ran.summarize();
    tell(&counts);
    foreground::tell(&args.command, status);
    if let Some(path) = &args.json {
        output::json(path, &Report { ran, kernel: counts })?;
    }
    Ok(foreground::outcome(status))
}

/// Reports what did not go as requested; all else is in the JSON.
fn tell(counts: &KernelCounts) {
    let told = [
        (counts.color_spill, "pages have other colors because none of these was free"),
        (counts.color_oom, "processes were ended because no page of these colors was free"),
    ];
    for (count, what) in told.into_iter().filter(|(count, _)| *count > 0) {
        tell!("{count} {what}");
    }
}
