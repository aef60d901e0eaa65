//! Tables in the help of commands.

use std::fmt::{Display, Write};

/// Appends a titled table of names and what they stand for.
pub(crate) fn section<N: ToString, A: Display>(
    text: &mut String,
    title: &str,
    rows: impl IntoIterator<Item = (N, A)>,
) {
    let rows: Vec<_> = rows.into_iter().map(|(name, about)| (name.to_string(), about)).collect();
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let _ = writeln!(text, "{title}:");
    for (name, about) in rows {
        let _ = writeln!(text, "  {name:width$}  {about}");
    }
    text.push('\n');
}
