//! An address map as text and as a figure: bits as columns, functions as rows.

use std::fmt::Write;

use memweir_core::address_map::{AddressMap, BASE_PAGE_BITS, Role, SetFunction, XorFunction};
use memweir_core::names::Named;
use memweir_map::view::{self, CacheView, PageView};
use memweir_plot::{Figure, Grid, GridRow, Panel};

use super::text::Table;

/// The whole text of `memweir map show`.
pub(crate) fn show(map: &AddressMap, pages: &[PageView]) -> String {
    let mut text = format!("{}\n", map.name);
    let mut line = |part: &str, value: String| {
        let _ = writeln!(text, "  {part:<12} {value}");
    };
    if let Some(source) = &map.source {
        line("source", source.clone());
    }
    line("address", format!("bits 0 to {}", map.bits - 1));
    if map.offset != 0 {
        line("offset", format!("{:#x} is taken off an address first", map.offset));
    }
    if let Some(interleave) = map.interleave {
        line(
            "interleaving",
            format!("{} channels by turns, {} each", interleave.channels, interleave.granule),
        );
    }
    line("banks", format!("{} over all channels and ranks", view::banks(map)));
    if !map.is_complete() {
        line("unknown", "rows or columns".to_owned());
    }
    format!("{text}\n{}\n\n{}\n{}\n", functions(map), picture(map), page_table(pages))
}

/// Functions with their roles, in the order of the map.
pub(crate) fn functions(map: &AddressMap) -> Table<(usize, &SetFunction)> {
    Table::of(map.functions.iter().enumerate())
        .right("function", |(number, _)| *number)
        .left("chooses", |(_, set)| set.role.name())
        .left("bits", |(_, set)| set.function)
        .right("mask", |(_, set)| format!("{:#x}", set.function.0))
}

fn page_table(pages: &[PageView]) -> Table<&PageView> {
    let table = Table::of(pages)
        .right("page", |page| page.page)
        .right("banks it touches", |page| page.banks_touched)
        .right("bank colors", |page| page.colors);
    if pages.iter().all(|page| page.cache.is_none()) {
        return table;
    }
    let cache = |figure: fn(&CacheView) -> u32| {
        move |page: &&PageView| {
            page.cache.as_ref().map(figure).map_or(String::new(), |n| n.to_string())
        }
    };
    table
        .right("cache colors", cache(|cache| cache.colors))
        .right("in common", cache(|cache| cache.common))
        .right("banks apart in one cache color", cache(|cache| cache.banks_apart))
}

/// One row of the picture.
struct Line {
    label: String,
    mask: u64,
}

/// A row for each function of banks; rows and columns of single bits share one row each.
fn lines(map: &AddressMap) -> Vec<Line> {
    let mut lines = Vec::new();
    for &role in Role::ALL {
        for (number, function) in map.functions_of(role).enumerate() {
            lines.push(Line { label: format!("{} {number}", role.name()), mask: function.0 });
        }
    }
    for (name, functions) in [("row", &map.row), ("column", &map.column)] {
        let single = |f: &XorFunction| f.0.is_power_of_two();
        let together = functions.iter().filter(|f| single(f)).fold(0, |mask, f| mask | f.0);
        if together != 0 {
            lines.push(Line { label: name.to_owned(), mask: together });
        }
        for (number, function) in functions.iter().enumerate().filter(|(_, f)| !single(f)) {
            lines.push(Line { label: format!("{name} {number}"), mask: function.0 });
        }
    }
    lines
}

/// Bits as columns, the highest to the left; `│` is the border of a 4 KiB page.
fn picture(map: &AddressMap) -> String {
    let lines = lines(map);
    let width = lines.iter().map(|line| line.label.len()).max().unwrap_or(0).max(3);
    let bits = (0..map.bits).rev();
    let cells = |cell: &dyn Fn(u32) -> String| {
        bits.clone().fold(String::new(), |row, bit| {
            let border = if bit + 1 == BASE_PAGE_BITS { " │" } else { "" };
            format!("{row}{border}{:>3}", cell(bit))
        })
    };
    let mut text = format!("{:<width$} {}\n", "bit", cells(&|bit| bit.to_string()));
    for line in &lines {
        let dot = |bit: u32| if line.mask >> bit & 1 == 1 { "●" } else { "·" }.to_owned();
        text.push_str(&format!("{:<width$} {}\n", line.label, cells(&dot)));
    }
    text
}

/// The picture as a figure.
pub(crate) fn figure(map: &AddressMap) -> Figure {
    let bits: Vec<u32> = (0..map.bits).rev().collect();
    let row = |line: Line| GridRow {
        cells: bits.iter().map(|bit| (line.mask >> bit & 1) as f64).collect(),
        label: line.label,
    };
    let grid = Grid {
        title: "which address bits choose what".to_owned(),
        columns: bits.iter().map(u32::to_string).collect(),
        rows: lines(map).into_iter().map(row).collect(),
        border: bits.iter().position(|bit| *bit < BASE_PAGE_BITS),
    };
    Figure {
        title: map.name.clone(),
        subtitle: "the line is the border of a 4 KiB page: functions to its left alone color pages"
            .to_owned(),
        panels: vec![Panel::Grid(grid)],
    }
}
