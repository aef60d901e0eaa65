//! The line-based text files of hogs and segments: comments, numbering, and the first line that
//! identifies a file. Each format interprets the other lines.

use memweir_core::input::InputError;

/// Returns the lines of `text` with their numbers from one, without blank lines and comments, which
/// start with `#`.
pub(crate) fn content(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.trim()))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// Takes the first line, which must be `header`; otherwise the file is refused as being no `what`.
pub(crate) fn expect_header<'a>(
    lines: &mut impl Iterator<Item = (usize, &'a str)>,
    header: &str,
    what: &str,
    source_name: &str,
) -> Result<(), InputError> {
    let first = lines.next();
    if first.is_some_and(|(_, line)| line == header) {
        return Ok(());
    }
    Err(InputError::new(source_name, format!("this is no {what}"))
        .line(first.map_or(1, |(line, _)| line))
        .help(format!("its first line must be `{header}`")))
}
