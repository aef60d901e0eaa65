//! The table in the manual's page on workloads equals the shipped catalog.

use std::fmt::Write as _;

use memweir_flow::Hardware;
use memweir_flow::workload::catalog::{Catalog, Figure};
use memweir_flow::workload::mix::iabw::to_paper;

const PAGE: &str = include_str!("../../../docs/workloads.md");

fn cell(figure: &Figure) -> String {
    let mark = if figure.is_estimated() { "\\*" } else { "" };
    format!("{}{mark}", figure.value)
}

fn table() -> String {
    let hardware = Hardware::shipped("iabw").expect("shipped");
    let mut table = "\
        | program | MPKI | written | overlap | run time, s | MiB | BTR | stall |\n\
        |---|---:|---:|---:|---:|---:|---:|---:|\n"
        .to_owned();
    for entry in Catalog::shipped().iter() {
        let figures = [
            &entry.mpki,
            &entry.write_share,
            &entry.overlap,
            &entry.run_time_s,
            &entry.footprint_mib,
        ]
        .map(cell)
        .join(" | ");
        let bandwidth = to_paper(entry.bandwidth(&hardware));
        let stall = 100.0 * entry.stall(&hardware);
        writeln!(table, "| {} | {figures} | {bandwidth:.1} | {stall:.0} % |", entry.name)
            .expect("a string takes everything");
    }
    table
}

#[test]
fn the_page_has_the_table_of_the_catalog() {
    let (_, rest) = PAGE.split_once("<!-- catalog -->\n").expect("the table's place");
    let (shown, _) = rest.split_once("<!-- /catalog -->").expect("the table's end");
    let table = table();
    assert!(shown == table, "the page shows another catalog; its table should be:\n{table}");
}
