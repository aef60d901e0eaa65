//! Lists of bit numbers, one function per line: `14 18` or `14, 18`. DRAMA adds `(Correct: 98%)` to
//! a line; `#` begins a comment.

use memweir_core::input::InputError;

use super::{Found, function};

pub(super) fn read(source_name: &str, text: &str) -> Result<Found, InputError> {
    let mut found = Found::default();
    for (number, line) in text.lines().enumerate() {
        let words = without_comment(line).split([' ', ',', '\t', '\r', '[', ']']);
        let mut words = words.filter(|word| !word.is_empty()).peekable();
        if words.peek().is_some() {
            found.set(function(source_name, number + 1, words)?);
        }
    }
    Ok(found)
}

/// Returns the part of a line that lists bits.
pub(super) fn without_comment(line: &str) -> &str {
    line.split(['#', '(']).next().unwrap_or_default()
}
