//! Published maps: a JSON file of entries, each the map of one machine according to its source.
//!
//! Entries follow their sources, which may give less than a map: functions without rows, or one
//! slice of the address. [`Machine`](crate::synthetic::Machine) adds the functions that a simulated
//! machine needs beyond that.

use memweir_core::address_map::{AddressMap, Role, SetFunction, Span, XorFunction};
use memweir_core::input::{InputError, Refusal};
use memweir_core::names::suggestion;
use serde::Deserialize;

/// The collection that ships with memweir: 42 entries, with their sources.
pub const SHIPPED: &str = include_str!("../data/published_maps.json");

/// Number of address bits of an entry without rows and without a truncation bit: 4 GiB.
const PLAIN_BITS: u32 = 32;

/// Fewest address bits of a map, and the highest bit of an address.
const FEWEST_BITS: u32 = 7;
const HIGHEST_BIT: u32 = 62;

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// Name in the collection.
    pub id: String,
    /// The map. `bits` is one more than the highest bit that the source covers, if given, or uses;
    /// 32 at least for sources that give banks alone. A row function in the span of the banks and
    /// higher row functions is dropped: the same rows are distinguished without it.
    pub map: AddressMap,
}

#[derive(Deserialize)]
struct File {
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    id: String,
    #[serde(default)]
    cpu: Option<String>,
    #[serde(default)]
    memory: Option<String>,
    #[serde(default)]
    source: Option<String>,
    functions: Vec<Vec<u8>>,
    #[serde(default)]
    row_bits: Option<Vec<u8>>,
    #[serde(default)]
    row_functions: Option<Vec<Vec<u8>>>,
    #[serde(default)]
    column_bits: Option<Vec<u8>>,
    #[serde(default)]
    phys_to_dram_offset_bytes: Option<u64>,
    #[serde(default)]
    bits_truncated_at: Option<u32>,
}

/// Parses a collection; `name` is its name in messages.
///
/// # Errors
/// If it is not JSON in this schema, or an entry is invalid.
pub fn parse(name: &str, text: &str) -> Result<Vec<Published>, InputError> {
    let file: File = serde_json::from_str(text)
        .map_err(|error| InputError::new(name, error.to_string()).line(error.line()))?;
    let entries = file.entries.into_iter().enumerate();
    entries
        .map(|(i, entry)| {
            let id = entry.id.clone();
            read(entry)
                .map_err(|refusal| refusal.written_in(name).key(format!("entries[{i}] ({id})")))
        })
        .collect()
}

/// Returns the entry called `id`, or the only one if `id` is absent.
///
/// # Errors
/// If there is no such entry, or if `id` is absent and there is none or more than one; the error
/// lists the choices.
pub fn choose(entries: Vec<Published>, id: Option<&str>) -> Result<Published, Refusal> {
    let ids: Vec<String> = entries.iter().map(|entry| entry.id.clone()).collect();
    let names = || ids.iter().map(String::as_str);
    let Some(id) = id else {
        let mut entries = entries;
        return match (entries.pop(), entries.is_empty()) {
            (Some(only), true) => Ok(only),
            (None, _) => Err(Refusal::new("there is no map in it", "a file with an entry")),
            _ => Err(Refusal::new(
                format!("{} maps are in it and none is named", ids.len()),
                format!("add #ID, one of: {}", names().collect::<Vec<_>>().join(", ")),
            )),
        };
    };
    entries.into_iter().find(|entry| entry.id == id).ok_or_else(|| {
        Refusal::new(format!("no map `{id}` is in it"), suggestion(id, names().collect::<Vec<_>>()))
    })
}

fn read(entry: Entry) -> Result<Published, Refusal> {
    let lists = [Some(&entry.functions), entry.row_functions.as_ref()];
    let columns = entry.column_bits.iter().chain(&entry.row_bits);
    let used = lists.into_iter().flatten().flatten().chain(columns).flatten().copied();
    let highest = used.map(u32::from).max().unwrap_or(0);
    let rows_told = entry.row_bits.is_some() || entry.row_functions.is_some();
    let highest = highest.max(entry.bits_truncated_at.unwrap_or(0));
    if highest > HIGHEST_BIT {
        return Err(Refusal::new(
            format!("bit {highest} is not in the address"),
            format!("bits 0 to {HIGHEST_BIT}"),
        ));
    }
    let bits = match entry.bits_truncated_at.is_some() || rows_told {
        true => (highest + 1).max(FEWEST_BITS),
        false => (highest + 1).max(PLAIN_BITS),
    };
    let set = |list: &Vec<u8>| Ok(SetFunction { role: Role::Set, function: function(list)? });
    let functions = entry.functions.iter().map(set).collect::<Result<Vec<_>, Refusal>>()?;
    let row = rows(&entry, &functions)?;
    let column = entry.column_bits.unwrap_or_default().into_iter().map(|bit| 1 << bit);
    let title = [entry.cpu, entry.memory].into_iter().flatten().collect::<Vec<_>>().join(", ");
    let map = AddressMap {
        name: if title.is_empty() { entry.id.clone() } else { title },
        source: entry.source,
        offset: entry.phys_to_dram_offset_bytes.unwrap_or(0),
        interleave: None,
        bits,
        functions,
        row,
        column: column.map(XorFunction).collect(),
    };
    map.validate()?;
    Ok(Published { id: entry.id, map })
}

fn function(bits: &[u8]) -> Result<XorFunction, Refusal> {
    match XorFunction::of_bits(bits) {
        XorFunction(0) => {
            Err(Refusal::new("a function of no bits tells nothing apart", "at least one bit"))
        }
        function => Ok(function),
    }
}

/// Returns the row functions, without those in the span of banks and higher rows.
fn rows(entry: &Entry, functions: &[SetFunction]) -> Result<Vec<XorFunction>, Refusal> {
    let lists: Vec<&[u8]> = match (&entry.row_functions, &entry.row_bits) {
        (Some(lists), _) => lists.iter().map(Vec::as_slice).collect(),
        (None, Some(bits)) => bits.chunks(1).collect(),
        (None, None) => Vec::new(),
    };
    let mut told: Span = functions.iter().map(|f| f.function).collect();
    let mut rows = Vec::new();
    for list in lists.into_iter().rev() {
        let row = function(list)?;
        if told.add(row) {
            rows.insert(0, row);
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_read() {
        let entries = parse("published_maps.json", SHIPPED).unwrap();
        assert_eq!(entries.len(), 42);
        let spans: Vec<Span> = entries.iter().map(|entry| entry.map.span()).collect();
        let different = (0..42).filter(|i| !spans[..*i].contains(&spans[*i])).count();
        assert_eq!(different, 25);
    }

    #[test]
    fn entries_are_chosen_by_id() {
        let entries = || parse("published_maps.json", SHIPPED).unwrap();
        let zen = choose(entries(), Some("zenhammer-amd_zen_3-1r4bg4b-samsung")).unwrap();
        assert_eq!((zen.map.bits, zen.map.offset), (28, 768 << 20));
        assert_eq!(choose(entries(), Some("bpm-i7-860")).unwrap().map.offset, 0);
        let unnamed = choose(entries(), None).unwrap_err();
        assert!(unnamed.help.unwrap().contains("bpm-i7-860"));
        let misspelt = choose(entries(), Some("bpm-i7-680")).unwrap_err();
        assert!(misspelt.help.unwrap().starts_with("did you mean `bpm-i7-860`"));
    }

    #[test]
    fn a_row_that_banks_and_other_rows_tell_is_left_out() {
        let entries = parse("published_maps.json", SHIPPED).unwrap();
        let skylake = choose(entries, Some("drama-skylake-2ch-2r")).unwrap().map;
        assert_eq!(skylake.row.first(), Some(&XorFunction(1 << 19)));
        assert_eq!(skylake.row.len(), 14);
    }

    #[test]
    fn impossible_entries_are_refused_with_their_id() {
        let refused = |functions: &str| {
            let text = format!(r#"{{"entries": [{{"id": "x", "functions": {functions}}}]}}"#);
            parse("m.json", &text).unwrap_err().to_string()
        };
        assert!(refused("[[6, 99]]").contains("entries[0] (x): bit 99"));
        assert!(refused("[[6], [6]]").contains("is a sum of the functions before it"));
        assert!(refused("[[]]").contains("no bits"));
        assert!(refused("[[6]").starts_with("m.json:1: "));
    }
}
