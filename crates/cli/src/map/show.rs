//! `memweir map show`.

use std::path::PathBuf;

use memweir_core::Bytes;
use memweir_core::address_map::{AddressMap, Interleave, XorFunction};
use memweir_core::cache::CacheGeometry;
use memweir_map::view::{self, PageView};
use serde::Serialize;

use crate::failure::{Failure, Outcome};
use crate::output;
use crate::render::map as render;
use crate::shared::map;

/// Options of `memweir map show`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A map file, as `memweir map detect` and `memweir map import` write it, or an entry of a JSON
    /// collection: `FILE#ID`
    #[arg(value_name = "FILE")]
    map: PathBuf,
    /// A last-level cache of so many bytes and ways, to compare its colors with those of the banks
    #[arg(long, value_name = "SIZE:WAYS", value_parser = crate::value::cache)]
    cache: Option<CacheGeometry>,
    /// Write the picture as SVG
    #[arg(long, value_name = "FILE.svg", value_parser = crate::value::svg)]
    svg: Option<PathBuf>,
    /// Write what is shown as JSON (`-`: to standard output instead of the text)
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
}

/// Shows the map.
pub(crate) fn execute(args: &Args) -> Result<Outcome, Failure> {
    output::check([&args.json, &args.svg], [&*args.map])?;
    let map = map::read(&args.map)?;
    let view = |page: &Bytes| view::page_view(&map, *page, args.cache.as_ref());
    let pages: Vec<PageView> = view::PAGES.iter().map(view).collect();
    let svg = args.svg.as_ref();
    let figure = svg.map_or(Ok(()), |path| output::figure(path, &render::figure(&map)));
    let shown = output::report(args.json.as_deref(), &Shown::new(&map, pages.clone()), || {
        render::show(&map, &pages)
    });
    output::both(figure, shown)?;
    Ok(Outcome::Success)
}

/// A map in JSON.
#[derive(Debug, Serialize)]
struct Shown<'a> {
    name: &'a str,
    source: Option<&'a str>,
    bits: u32,
    offset: u64,
    interleave: Option<Interleave>,
    banks: u64,
    functions: Vec<Function>,
    row: Vec<Vec<u8>>,
    column: Vec<Vec<u8>>,
    complete: bool,
    pages: Vec<PageView>,
}

#[derive(Debug, Serialize)]
struct Function {
    role: &'static str,
    bits: Vec<u8>,
}

impl<'a> Shown<'a> {
    fn new(map: &'a AddressMap, pages: Vec<PageView>) -> Self {
        let bits = |function: &XorFunction| function.bits().collect::<Vec<u8>>();
        Self {
            name: &map.name,
            source: map.source.as_deref(),
            bits: map.bits,
            offset: map.offset,
            interleave: map.interleave,
            banks: view::banks(map),
            functions: map
                .functions
                .iter()
                .map(|f| Function { role: f.role.name(), bits: bits(&f.function) })
                .collect(),
            row: map.row.iter().map(bits).collect(),
            column: map.column.iter().map(bits).collect(),
            complete: map.is_complete(),
            pages,
        }
    }
}
