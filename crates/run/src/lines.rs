//! The line-based text files of hogs and segments: comments, numbering, and the two lines that
//! begin a file. Each format interprets the other lines.

use memweir_core::input::InputError;

/// The first two lines of the files of a format: one that identifies it, and a key with a value.
pub(crate) struct Head {
    /// The first line.
    pub(crate) header: &'static str,
    /// Such a file in refusals: `segment file`.
    pub(crate) file: &'static str,
    /// The key.
    pub(crate) key: &'static str,
    /// Its value in refusals: `a whole number`.
    pub(crate) value: &'static str,
}

impl Head {
    /// Takes the two lines, and returns the number of the second one and the value in it.
    ///
    /// # Errors
    /// If one of them is missing or another; the error has the line.
    pub(crate) fn take<'a>(
        &self,
        lines: &mut impl Iterator<Item = (usize, &'a str)>,
        source_name: &str,
    ) -> Result<(usize, &'a str), InputError> {
        let refuse = |line: usize, reason: String| InputError::new(source_name, reason).line(line);
        let (first, header) = lines.next().unwrap_or((1, ""));
        if header != self.header {
            let help = format!("its first line must be `{}`", self.header);
            return Err(refuse(first, format!("this is no {}", self.file)).help(help));
        }
        let (second, line) = lines.next().unwrap_or((first + 1, ""));
        let value = line.strip_prefix(self.key).and_then(|rest| rest.strip_prefix(' '));
        let missing = || refuse(second, format!("`{}` and {} must follow", self.key, self.value));
        Ok((second, value.ok_or_else(missing)?.trim()))
    }
}

/// Returns the lines of `text` with their numbers from one, without blank lines and comments, which
/// start with `#`.
pub(crate) fn content(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.trim()))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}
