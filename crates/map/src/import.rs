//! Import of maps in the formats of other tools.
//!
//! Each format has a file of its own below; this one chooses among them and builds a valid map from
//! the result: functions that are sums of others are dropped, and rows and columns are kept only if
//! banks, rows and columns together form a bijection.

mod bits;
mod dramdig;
mod dramsys;
mod layout;
mod palloc;

use memweir_core::address_map::{AddressMap, Role, SetFunction, Span, XorFunction};
use memweir_core::input::InputError;

#[cfg(test)]
mod tests;

/// Fewest address bits of a map.
const FEWEST_BITS: u32 = 7;

/// A format of another tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One function per line, as bit numbers: DRAMA, DRAMA++ (`map.txt`), PALLOC's `xormap`.
    Bits,
    /// Report of DRAMDig.
    DramDig,
    /// TRRespass: masks, one per line, the last of them that of the row; or the `DRAMLayout` of its
    /// hammer suite.
    Trrespass,
    /// Commands for PALLOC: `palloc_mask` and `xor A B`.
    Palloc,
    /// An address mapping of DRAMSys (JSON).
    DramSys,
}

memweir_core::named! {
    pub Format, "format":
    Bits = "bits",
    DramDig = "dramdig",
    Trrespass = "trrespass",
    Palloc = "palloc",
    DramSys = "dramsys",
}

impl Format {
    /// Guesses the format of `text`. Formats with distinctive words come first; the default is a
    /// list of numbers, whose comments may have words of the others.
    #[must_use]
    pub fn guess(text: &str) -> Self {
        let trimmed = text.trim_start();
        let outside_comments =
            |word| text.lines().any(|line| bits::without_comment(line).contains(word));
        if trimmed.starts_with('{') && text.contains("_BIT") {
            Self::DramSys
        } else if text.contains("bank addr funs") {
            Self::DramDig
        } else if text.contains("palloc_mask")
            || outside_comments("palloc")
            || text.lines().any(|line| line.trim_start().starts_with("xor "))
        {
            Self::Palloc
        } else if outside_comments("0x") {
            Self::Trrespass
        } else {
            Self::Bits
        }
    }
}

/// An imported map, with the corrections that made it valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The map; it passes [`AddressMap::validate`].
    pub map: AddressMap,
    /// Omissions, for people.
    pub notes: Vec<String>,
}

/// Result of a format's parser.
#[derive(Debug, Default)]
struct Found {
    functions: Vec<SetFunction>,
    row: Vec<XorFunction>,
    column: Vec<XorFunction>,
}

impl Found {
    fn set(&mut self, function: XorFunction) {
        self.functions.push(SetFunction { role: Role::Set, function });
    }
}

/// Imports `text`, the content of `source_name`, in `format` or else in the guessed one.
///
/// # Errors
/// If the text is not in that format; the error has the line and the reason.
pub fn import(
    source_name: &str,
    text: &str,
    format: Option<Format>,
) -> Result<Imported, InputError> {
    let format = format.unwrap_or_else(|| Format::guess(text));
    let found = match format {
        Format::Bits => bits::read(source_name, text),
        Format::DramDig => dramdig::read(source_name, text),
        Format::Trrespass => layout::read(source_name, text),
        Format::Palloc => palloc::read(source_name, text),
        Format::DramSys => dramsys::read(source_name, text),
    }?;
    if found.functions.is_empty() {
        return Err(InputError::new(source_name, "no function that tells banks apart")
            .help(format!("read as `{}`; `--format` chooses another", format.name())));
    }
    assemble(source_name, found)
}

fn assemble(source_name: &str, found: Found) -> Result<Imported, InputError> {
    let mut notes = Vec::new();
    let mut span = Span::default();
    let listed = found.functions.len();
    let functions: Vec<SetFunction> =
        found.functions.into_iter().filter(|f| span.add(f.function)).collect();
    if functions.len() < listed {
        notes.push(format!(
            "{} of {listed} functions are sums of the others and were left out",
            listed - functions.len()
        ));
    }
    let all =
        functions.iter().map(|f| f.function).chain(found.row.iter().chain(&found.column).copied());
    let bits = (64 - all.fold(0, |used, f| used | f.0).leading_zeros()).max(FEWEST_BITS);
    let mut map = AddressMap {
        name: source_name.to_owned(),
        source: None,
        offset: 0,
        interleave: None,
        bits,
        functions,
        row: found.row,
        column: found.column,
    };
    if let Err(refusal) = map.validate() {
        notes.push(format!("rows and columns were left out: {}", refusal.reason));
        (map.row, map.column) = (Vec::new(), Vec::new());
        map.validate().map_err(|refusal| refusal.written_in(source_name))?;
    }
    Ok(Imported { map, notes })
}

/// Parses a bit number.
fn bit(source_name: &str, line: usize, word: &str) -> Result<u8, InputError> {
    word.parse().ok().filter(|bit| *bit < 63).ok_or_else(|| {
        InputError::new(source_name, format!("`{word}` is no address bit"))
            .line(line)
            .help("numbers from 0 to 62")
    })
}

/// Parses the function of the bits in `words`.
fn function<'a>(
    source_name: &str,
    line: usize,
    words: impl Iterator<Item = &'a str>,
) -> Result<XorFunction, InputError> {
    let mut mask = 0u64;
    for word in words {
        let bit = 1 << bit(source_name, line, word)?;
        if mask & bit != 0 {
            return Err(
                InputError::new(source_name, format!("bit {word} is named twice")).line(line)
            );
        }
        mask |= bit;
    }
    Ok(XorFunction(mask))
}

/// Parses a mask, written `0x4080`.
fn mask(source_name: &str, line: usize, word: &str) -> Result<u64, InputError> {
    let digits = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")).unwrap_or(word);
    u64::from_str_radix(digits, 16).ok().filter(|mask| *mask != 0 && mask >> 63 == 0).ok_or_else(
        || {
            InputError::new(source_name, format!("`{word}` is no mask of address bits"))
                .line(line)
                .help("hexadecimal, at least one bit, none above 62")
        },
    )
}

/// Returns the single bits of `mask` as functions.
fn each_bit(mask: u64) -> Vec<XorFunction> {
    XorFunction(mask).bits().map(|bit| XorFunction(1 << bit)).collect()
}
