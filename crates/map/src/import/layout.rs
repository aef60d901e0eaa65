//! TRRespass: its detector's output (one mask per line, the row's last), and the `DRAMLayout` that
//! its hammer suite is compiled with: `{{{0x4080,0x48000}, 2}, row_mask, col_mask}`.

use memweir_core::address_map::XorFunction;
use memweir_core::input::InputError;

use super::{Found, each_bit, mask};

pub(super) fn read(source_name: &str, text: &str) -> Result<Found, InputError> {
    match text.lines().enumerate().find(|(_, line)| line.contains("{{{")) {
        Some((number, line)) => layout(source_name, number + 1, line),
        None => masks(source_name, text),
    }
}

fn masks(source_name: &str, text: &str) -> Result<Found, InputError> {
    let lines = text.lines().enumerate().map(|(number, line)| (number + 1, line.trim()));
    let mut masks = lines
        .filter(|(_, line)| !line.is_empty())
        .map(|(number, line)| mask(source_name, number, line))
        .collect::<Result<Vec<u64>, _>>()?;
    let mut found = Found::default();
    // The detector of rows prints one more mask. It is a long run of consecutive bits, unlike any
    // bank function.
    let is_row = |mask: u64| {
        mask.count_ones() > 8
            && (mask >> mask.trailing_zeros()).trailing_ones() == mask.count_ones()
    };
    if masks.last().is_some_and(|last| is_row(*last)) {
        found.row = masks.pop().map(each_bit).unwrap_or_default();
    }
    for mask in masks {
        found.set(XorFunction(mask));
    }
    Ok(found)
}

fn layout(source_name: &str, number: usize, line: &str) -> Result<Found, InputError> {
    let cut = || {
        InputError::new(source_name, "the layout is cut short")
            .line(number)
            .help("`{{{0x4080,0x48000}, 2}, 0x3ffc0000, 0x1fff}`: functions, their number, row mask, column mask")
    };
    let inner = line.split_once("{{{").ok_or_else(cut)?.1;
    let (functions, rest) = inner.split_once('}').ok_or_else(cut)?;
    let (_, rest) = rest.split_once('}').ok_or_else(cut)?;
    let mut found = Found::default();
    for word in functions.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        found.set(XorFunction(mask(source_name, number, word)?));
    }
    let words = rest.split(['}', ';']).next().unwrap_or_default();
    let mut words = words.split(',').map(str::trim).filter(|word| !word.is_empty());
    let row = words.next().ok_or_else(cut)?;
    found.row = each_bit(mask(source_name, number, row)?);
    if let Some(column) = words.next() {
        found.column = each_bit(column_mask(source_name, number, column)?);
    }
    Ok(found)
}

/// Parses a column mask; the suite's own is written `(1<<13)-1` or `ROW_SIZE-1`, with rows of 8
/// KiB.
fn column_mask(source_name: &str, number: usize, word: &str) -> Result<u64, InputError> {
    match word.replace(' ', "").as_str() {
        "ROW_SIZE-1" | "((1<<13)-1)" | "(1<<13)-1" => Ok(0x1fff),
        word => mask(source_name, number, word),
    }
}
