//! The manual shows what was recorded.

use std::fs;
use std::path::Path;

use memweir_reproduce::live;

fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn the_figure_of_the_first_page_shows_the_recorded_rounds() {
    let drawn = live::figure(&read(live::TURNAROUNDS)).unwrap().to_svg().unwrap();
    let hint = "`cargo run -p memweir-reproduce --example manual` draws it anew";
    assert!(drawn == read(live::FIGURE), "{} is old: {hint}", live::FIGURE);
}
