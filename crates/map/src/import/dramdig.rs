//! DRAMDig's report: headings between `===`, lists of bits below them. The text before the first
//! heading is progress output.

use memweir_core::input::InputError;

use super::{Found, each_bit, function};

#[derive(Clone, Copy)]
enum Part {
    Progress,
    Functions,
    Row,
    Column,
}

pub(super) fn read(source_name: &str, text: &str) -> Result<Found, InputError> {
    let mut found = Found::default();
    let mut part = Part::Progress;
    for (number, line) in text.lines().enumerate() {
        if line.contains("===") {
            part = heading(line);
            continue;
        }
        let words = line.split([' ', ',', '\t', '\r']).filter(|word| !word.is_empty());
        if matches!(part, Part::Progress) || words.clone().next().is_none() {
            continue;
        }
        let function = function(source_name, number + 1, words)?;
        match part {
            Part::Functions => found.set(function),
            Part::Row => found.row.extend(each_bit(function.0)),
            _ => found.column.extend(each_bit(function.0)),
        }
    }
    Ok(found)
}

fn heading(line: &str) -> Part {
    if line.contains("bank addr funs") {
        Part::Functions
    } else if line.contains("row bits") {
        Part::Row
    } else if line.contains("column bits") {
        Part::Column
    } else {
        Part::Progress
    }
}
