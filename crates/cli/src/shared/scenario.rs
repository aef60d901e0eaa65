//! Options of the commands that simulate a scenario.

use memweir_core::input::Replacement;
use memweir_study::sweep::Sweep;

use crate::value::refused;

/// Keys and values of `--sweep`.
pub(crate) fn sweep(text: &str) -> Result<Sweep, String> {
    text.parse().map_err(refused)
}

/// Key and value of `--set`.
pub(crate) fn replacement(text: &str) -> Result<Replacement, String> {
    Replacement::read(text, format!("--set {text}")).map_err(refused)
}
