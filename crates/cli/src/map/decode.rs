//! `memweir map decode`.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::PathBuf;

use memweir_core::PhysAddr;
use memweir_core::address_map::{AddressMap, BASE_PAGE_BITS, Coloring, Role};
use memweir_core::input::{InputError, Refusal};
use memweir_core::names::Named;
use serde::Serialize;

use crate::failure::{Failure, Outcome};
use crate::output;
use crate::render::text::Table;
use crate::shared::map;
use crate::value;

/// Options of `memweir map decode`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A map file
    #[arg(value_name = "FILE")]
    map: PathBuf,
    /// Physical byte addresses, hexadecimal with `0x` or decimal (`-`: one per line from standard
    /// input)
    #[arg(value_name = "ADDR", required = true)]
    addresses: Vec<String>,
    /// Write the places as JSON (`-`: to standard output instead of the table)
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
}

/// Decodes the addresses.
pub(crate) fn execute(args: &Args) -> Result<Outcome, Failure> {
    output::check([&args.json], [&*args.map])?;
    let map = map::read(&args.map)?;
    let coloring = map.coloring(BASE_PAGE_BITS);
    let addresses = addresses(&map, &args.addresses)?;
    let places: Vec<Place> =
        addresses.into_iter().map(|address| Place::new(&map, &coloring, address)).collect();
    let report = BTreeMap::from([("places", &places)]);
    output::report(args.json.as_deref(), &report, || render(&map, &places))?;
    Ok(Outcome::Success)
}

fn addresses(map: &AddressMap, given: &[String]) -> Result<Vec<PhysAddr>, InputError> {
    if given != ["-"] {
        let one = |text| address(map, text).map_err(|wrong| wrong.written_in("command line"));
        return given.iter().map(String::as_str).map(one).collect();
    }
    let mut addresses = Vec::new();
    for (number, line) in std::io::stdin().lock().lines().enumerate() {
        let line = line.map_err(|error| InputError::new("standard input", error.to_string()))?;
        if !line.trim().is_empty() {
            let placed = |wrong: Refusal| wrong.written_in("standard input").line(number + 1);
            addresses.push(address(map, line.trim()).map_err(placed)?);
        }
    }
    Ok(addresses)
}

/// An address of which the map says something.
fn address(map: &AddressMap, text: &str) -> Result<PhysAddr, Refusal> {
    let address = value::address(text)
        .map_err(|wrong| Refusal::new(wrong, "hexadecimal with `0x`, or decimal"))?;
    map.covers(address)?;
    Ok(address)
}

/// Location of one address.
#[derive(Debug, Serialize)]
struct Place {
    address: String,
    /// Channel of an interleaving that does not go by address bits.
    #[serde(skip_serializing_if = "Option::is_none")]
    way: Option<u32>,
    /// By role, of those that the map has.
    #[serde(flatten)]
    roles: BTreeMap<&'static str, u32>,
    /// The bank among all: bit `i` is the value of the map's `i`th function.
    set: u64,
    row: Option<u64>,
    column: Option<u64>,
    color: u32,
}

impl Place {
    fn new(map: &AddressMap, coloring: &Coloring, address: PhysAddr) -> Self {
        let location = map.decode(address);
        let roles = roles(map).map(|(name, role)| (name, map.value_of(role, address))).collect();
        Self {
            address: address.to_string(),
            way: map.interleave.map(|_| location.way),
            roles,
            set: location.set,
            row: (!map.row.is_empty()).then_some(location.row),
            column: (!map.column.is_empty()).then_some(location.column),
            color: coloring.color_of(address).0,
        }
    }
}

/// The roles that functions of the map are known to have.
fn roles(map: &AddressMap) -> impl Iterator<Item = (&'static str, Role)> {
    let known = |role: Role| role != Role::Set && map.functions.iter().any(|f| f.role == role);
    Role::ALL.iter().filter(move |role| known(**role)).map(|role| (role.name(), *role))
}

fn render(map: &AddressMap, places: &[Place]) -> String {
    let known = |value: Option<u64>| value.map_or("?".to_owned(), |value| value.to_string());
    let mut table = Table::of(places).right("address", |place| &*place.address);
    if map.interleave.is_some() {
        table = table.right("channel of the interleaving", |place| known(place.way.map(u64::from)));
    }
    for (name, _) in roles(map) {
        table = table.right(name, |place| place.roles[name]);
    }
    let table = table
        .right("set", |place| place.set)
        .right("row", |place| known(place.row))
        .right("column", |place| known(place.column))
        .right("color", |place| place.color);
    format!("{table}\n")
}
