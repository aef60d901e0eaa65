//! Updates the recorded results, and the tables and the figure of the manual that come from them.
//!
//! ```sh
//! cargo run --release -p memweir-reproduce --example manual -- iabw hmmsched bpm drswap
//! ```
//!
//! reproduces these papers in full first. Without a paper it judges the recorded values anew by the
//! rules in `experiments/`.

use std::error::Error;
use std::fs;
use std::path::Path;

use memweir_core::names::Named;
use memweir_reproduce::report::Results;
use memweir_reproduce::{Options, PaperName, Unobserved, live, manual, reproduce};

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let threads = std::thread::available_parallelism()?.get();
    let mut all = Vec::new();
    for &paper in PaperName::ALL {
        let file = root.join(format!("evidence/reproduce/{}.json", paper.name()));
        let results = if wanted.iter().any(|name| name == paper.name()) {
            let options = Options { threads, ..Options::default() };
            reproduce(paper, &options, &Unobserved)?.results()
        } else {
            let recorded: Results = serde_json::from_str(&fs::read_to_string(&file)?)?;
            recorded.judged_by(&paper.suite()?)
        };
        fs::create_dir_all(root.join("evidence/reproduce"))?;
        fs::write(&file, results.json())?;
        all.push(results);
    }
    for page in manual::PAGES {
        let path = root.join(page.0);
        fs::write(&path, manual::filled(page, &fs::read_to_string(&path)?, &all)?)?;
    }
    let turnarounds = fs::read_to_string(root.join(live::TURNAROUNDS))?;
    fs::write(root.join(live::FIGURE), live::figure(&turnarounds)?.to_svg()?)?;
    Ok(())
}
