//! Raw rows of benchmarks: the measurements from which a figure is computed.
//!
//! A benchmark hands them to [`record`], which appends them to the file that [`ROWS`] names.
//! `scripts/performance.py` keeps such a file for each benchmark below `evidence/performance`, and
//! draws the tables of the manual from it. Criterion keeps its measurements itself.

use std::path::Path;

use crate::append;

/// Environment variable that names the file of rows.
pub const ROWS: &str = "MEMWEIR_ROWS";

/// Appends the measurements of a figure to the file of rows, if there is one.
///
/// # Panics
/// If the file cannot be written: the evidence would lack a row.
pub fn record(figure: &str, unit: &str, values: impl IntoIterator<Item = f64>) {
    let Some(file) = std::env::var_os(ROWS) else { return };
    let rows = rows(figure, unit, values);
    append(Path::new(&file), &rows).unwrap_or_else(|error| panic!("{ROWS}={file:?}: {error}"));
}

/// Lines of CSV: figure, unit, and value to four decimals. Names of figures contain no quotes.
fn rows(figure: &str, unit: &str, values: impl IntoIterator<Item = f64>) -> String {
    values.into_iter().map(|value| format!("\"{figure}\",{unit},{value:.4}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_names_figure_unit_and_value() {
        let rows = rows("switch, all", "us", [89.25, 100.0]);
        assert_eq!(rows, "\"switch, all\",us,89.2500\n\"switch, all\",us,100.0000\n");
    }
}
