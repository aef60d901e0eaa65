//! Words that depend on a number, for messages to people.

use std::borrow::Cow;

/// Returns `noun` for this number of things: in the plural unless there is one.
#[must_use]
pub fn plural(number: u64, noun: &str) -> Cow<'_, str> {
    match number {
        1 => Cow::Borrowed(noun),
        _ if noun.ends_with('s') => Cow::Owned(format!("{noun}es")),
        _ => Cow::Owned(format!("{noun}s")),
    }
}

/// Returns a number of things: `1 core`, `2 cores`.
#[must_use]
pub fn counted(number: u64, noun: &str) -> String {
    format!("{number} {}", plural(number, noun))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_alone_is_singular() {
        assert_eq!([0, 1, 2].map(|number| plural(number, "core")), ["cores", "core", "cores"]);
        assert_eq!(counted(2, "process"), "2 processes");
    }
}
