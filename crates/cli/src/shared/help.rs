//! Tables in the help of commands.

use std::fmt::Write;

/// Appends a titled table of names and what they stand for.
pub(crate) fn section(text: &mut String, title: &str, rows: &[(String, String)]) {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let _ = writeln!(text, "{title}:");
    for (name, about) in rows {
        let _ = writeln!(text, "  {name:width$}  {about}");
    }
    text.push('\n');
}
