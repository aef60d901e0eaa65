//! Options of the commands that simulate a scenario.

use memweir_core::input::{InputError, Replacement};
use memweir_study::sweep::{Grid, Sweep};

use crate::failure::refusal_of;
use crate::value::refused;

/// Returns the grid of all combinations of `--sweep`, none of whose keys `--set` may give.
pub(crate) fn grid(sweeps: &[Sweep], set: &[Replacement]) -> Result<Grid, InputError> {
    let fixed = sweeps.iter().find(|sweep| set.iter().any(|set| set.path == sweep.path));
    if let Some(sweep) = fixed {
        let reason = format!("`{}` has values here and another by `--set`", sweep.path);
        return Err(refusal_of("--sweep", reason).help("leave out one"));
    }
    Grid::new(sweeps.to_vec()).map_err(|refusal| refusal.written_in("command line").key("--sweep"))
}

/// Key and value of `--set`.
pub(crate) fn replacement(text: &str) -> Result<Replacement, String> {
    Replacement::read(text, format!("--set {text}")).map_err(refused)
}
