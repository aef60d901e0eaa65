//! `memweir map kernel`.

use std::path::PathBuf;

use memweir_color::ColorError;
use memweir_color::kernel::KernelForm;
use memweir_core::cache::CacheGeometry;
use memweir_linux::kernel_colors::KernelMap;
use serde::Serialize;

use crate::failure::{Failure, Outcome};
use crate::output;
use crate::shared::map;

/// Options of `memweir map kernel`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The kernel needs the patches in kernel/bank-color. While a map is loaded, control groups take colors in
memory.colors; `memweir color run --kernel` does both for one program.

Examples:
  memweir map kernel map.toml                       what would be loaded
  memweir map kernel map.toml --cache 8M:16 --load  load it, with cache colors")]
pub(crate) struct Args {
    /// A map file, as `memweir map detect` and `memweir map import` write it
    #[arg(value_name = "FILE")]
    map: PathBuf,
    /// The last-level cache whose colors are to be chosen, too
    #[arg(long, value_name = "SIZE:WAYS", value_parser = crate::value::cache)]
    cache: Option<CacheGeometry>,
    /// Load it into the running kernel
    #[arg(long)]
    load: bool,
    /// Write it as JSON (`-`: to standard output instead of the text)
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
}

/// Output of `--json`.
#[derive(Debug, Serialize)]
struct Told {
    lines: Vec<String>,
    loaded: bool,
}

/// Shows the kernel's form of the map, and loads it if that was requested.
pub(crate) fn execute(args: &Args) -> Result<Outcome, Failure> {
    output::check([&args.json], [&*args.map])?;
    let map = map::read(&args.map)?;
    let form = KernelForm::of(&map, args.cache.as_ref())
        .map_err(|refusal| refusal.written_in(&args.map.display().to_string()))?;
    let text = form.to_string();
    if args.load {
        let kernel = KernelMap::here().map_err(ColorError::from)?;
        kernel.load(&text).map_err(ColorError::from)?;
    }
    let told = Told { lines: text.lines().map(str::to_owned).collect(), loaded: args.load };
    output::report(args.json.as_deref(), &told, || text)?;
    Ok(Outcome::Success)
}
