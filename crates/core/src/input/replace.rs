//! Command-line values that replace values of a file.
//!
//! They are appended to the file's text below a heading of their own, parsed with it, and moved to
//! their places. The position of an erroneous value therefore identifies its option, and the error
//! is reported under the option's name. A value may have several lines.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::document::{Document, Origin, Section, article};
use super::{InputError, Refusal};
use crate::words::counted;

/// The heading; no key of any file of memweir contains a space.
const HEADING: &str = "values of the command line";

/// Path of a value in a file: `machine.cores`, `tasks[2].work_s`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPath(Vec<Step>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// Key of a table.
    Key(String),
    /// Index into an array, from zero.
    Index(usize),
}

/// A value that replaces one of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// Place of the value.
    pub path: KeyPath,
    /// The value as TOML; on several lines if it is a string of several.
    value: String,
    /// Name in refusals: `--sweep cores=8`.
    option: String,
}

impl Replacement {
    /// Creates a replacement of the value at `path`. A `value` that is not TOML (`os`,
    /// `[os,random]`) becomes a string or an array of strings, so that words need no quotes.
    /// Refusals name `option` instead of the file.
    #[must_use]
    pub fn new(path: KeyPath, value: &str, option: impl Into<String>) -> Self {
        Self { path, value: as_toml(value), option: option.into() }
    }

    /// Reads `KEY=VALUE`; refusals of the value name `option` instead of the file.
    ///
    /// # Errors
    /// If there is no key or no value.
    pub fn read(text: &str, option: impl Into<String>) -> Result<Self, Refusal> {
        let (key, Some(value)) = key_and_value(text) else {
            let help = "write `KEY=VALUE`, as in `cores=8`";
            return Err(Refusal::new(format!("`{text}` has no `=`"), help));
        };
        let path = key.parse()?;
        if value.is_empty() {
            return Err(Refusal::plain(format!("`{key}` gets no value")));
        }
        Ok(Self::new(path, value, option))
    }

    /// Returns the same value at the rest of its path after the key `key`; `None` if the path does
    /// not start with the key, or ends there.
    #[must_use]
    pub fn below(&self, key: &str) -> Option<Self> {
        match self.path.0.split_first() {
            Some((Step::Key(first), rest)) if first == key && !rest.is_empty() => {
                Some(Self { path: KeyPath(rest.to_vec()), ..self.clone() })
            }
            _ => None,
        }
    }

    /// Returns the value as TOML.
    #[must_use]
    pub fn value(&self) -> &str {
        &self.value
    }
}

/// Returns `value` unchanged if it is one TOML value on one line; an array of words as an array of
/// strings; else a string.
fn as_toml(value: &str) -> String {
    let value = value.trim();
    let line = format!("v = {value}");
    // Where a comment follows, the value ends before the line does.
    let is_one = !value.contains(['\n', '\r'])
        && DeTable::parse(&line).is_ok_and(|table| {
            let mut values = table.get_ref().values();
            values.next().is_some_and(|one| one.span().end == line.len()) && values.next().is_none()
        });
    if is_one {
        return value.to_owned();
    }
    match value.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(elements) => {
            let elements: Vec<String> = values(elements).into_iter().map(as_toml).collect();
            format!("[{}]", elements.join(", "))
        }
        None => toml::Value::from(value).to_string(),
    }
}

/// Splits `KEY=VALUE`, without the spaces around both; a text without a `=` is a key alone.
#[must_use]
pub fn key_and_value(text: &str) -> (&str, Option<&str>) {
    match text.split_once('=') {
        Some((key, value)) => (key.trim(), Some(value.trim())),
        None => (text.trim(), None),
    }
}

/// Splits a list at its commas, except those inside brackets and quotes: `1,[a,b],"c,d"` has three
/// values.
#[must_use]
pub fn values(list: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut depth, mut quote, mut escaped) = (0, 0usize, None, false);
    for (at, c) in list.char_indices() {
        match (quote, c) {
            _ if escaped => escaped = false,
            // Only between these quotes is a backslash more than itself.
            (Some('"'), '\\') => escaped = true,
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth = depth.saturating_sub(1),
            (None, ',') if depth == 0 => {
                parts.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[start..]);
    parts
}

impl FromStr for KeyPath {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        let refuse = || {
            let help =
                "write keys with dots between them, and places in brackets: `tasks[0].work_s`";
            Refusal::new(format!("`{text}` names no key"), help)
        };
        let mut steps = Vec::new();
        for part in text.split('.') {
            let (key, mut rest) = part.split_at(part.find('[').unwrap_or(part.len()));
            let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            if key.is_empty() || !key.chars().all(bare) {
                return Err(refuse());
            }
            steps.push(Step::Key(key.to_owned()));
            while !rest.is_empty() {
                let (index, after) = rest
                    .strip_prefix('[')
                    .and_then(|inside| inside.split_once(']'))
                    .ok_or_else(refuse)?;
                steps.push(Step::Index(index.parse().map_err(|_| refuse())?));
                rest = after;
            }
        }
        Ok(Self(steps))
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", written(&self.0))
    }
}

fn written(steps: &[Step]) -> String {
    let mut text = String::new();
    for step in steps {
        match step {
            Step::Key(key) if text.is_empty() => text.push_str(key),
            Step::Key(key) => text.extend([".", key]),
            Step::Index(index) => text.push_str(&format!("[{index}]")),
        }
    }
    text
}

/// The text of a TOML file with command-line values that replace some of its own.
#[derive(Clone, Debug)]
pub struct Replaced {
    name: String,
    /// The file's own text, then the replacements.
    text: String,
    /// Length of the file's own text.
    own: usize,
    replacements: Vec<Replacement>,
    /// Start of each replacement in the text.
    starts: Vec<usize>,
}

impl Replaced {
    /// Creates the text of the file `document` with these replacements.
    #[must_use]
    pub fn new(document: Document<'_>, replacements: &[Replacement]) -> Self {
        let mut text = format!("{}\n[\"{HEADING}\"]\n", document.text);
        let mut starts = Vec::new();
        for (number, replacement) in replacements.iter().enumerate() {
            starts.push(text.len());
            text.push_str(&format!("{} = {}\n", name_of(number), replacement.value));
        }
        Self {
            name: document.name.to_owned(),
            text,
            own: document.text.len(),
            replacements: replacements.to_vec(),
            starts,
        }
    }

    /// Parses the text and returns the file's outermost table with the replacements in place.
    ///
    /// # Errors
    /// If the file's text is not valid TOML, or a value has no place in it.
    pub fn parse(&self) -> Result<Section<'_>, InputError> {
        // Parse the file alone first: its own errors are not the command line's.
        Document { name: &self.name, text: &self.text[..self.own] }.table()?;
        let document = Document { name: &self.name, text: &self.text };
        let origin = Origin { document, replaced: Some(self) };
        let table = document.table()?;
        let span = 0..self.own;
        Ok(Section::new(origin, Spanned::new(span, self.put_all(origin, table.into_inner())?)))
    }

    /// Returns the option whose value is at `span`; `None` for the file's own text.
    pub(super) fn option_at(&self, span: &Range<usize>) -> Option<&str> {
        let begun = self.starts.partition_point(|start| *start <= span.start);
        Some(&self.replacements[begun.checked_sub(1)?].option)
    }

    /// Moves the replacements at the end of `table` to their places.
    fn put_all<'a>(
        &'a self,
        origin: Origin<'a>,
        mut table: DeTable<'a>,
    ) -> Result<DeTable<'a>, InputError> {
        let Some(DeValue::Table(mut values)) = table.remove(HEADING).map(Spanned::into_inner)
        else {
            return Ok(table);
        };
        for (number, replacement) in self.replacements.iter().enumerate() {
            let Some(value) = values.remove(name_of(number).as_str()) else { continue };
            let span = value.span();
            let mut root = Spanned::new(span.clone(), DeValue::Table(std::mem::take(&mut table)));
            put(&mut root, &replacement.path.0, value, 0).map_err(|(depth, refusal)| {
                let place = written(&replacement.path.0[..depth]);
                refusal.placed(|reason| origin.refuse(&span, &place, reason))
            })?;
            if let DeValue::Table(changed) = root.into_inner() {
                table = changed;
            }
        }
        Ok(table)
    }
}

/// Reads the file `name` by `read`, to which it hands the replacements of the file's values. Where
/// they make the file's own text wrong, the refusal names the first that does.
///
/// # Errors
/// Those of `read`.
pub fn read_replacing<T>(
    name: &str,
    replacements: &[Replacement],
    read: impl Fn(&[Replacement]) -> Result<T, InputError>,
) -> Result<T, InputError> {
    read(replacements).map_err(|refused| {
        let accepted = |count: &usize| read(&replacements[..*count]).is_ok();
        match (0..replacements.len()).take_while(accepted).last() {
            Some(count) if refused.source_name == name => {
                let option = replacements[count].option.clone();
                InputError { source_name: option, line: None, ..refused }
            }
            _ => refused,
        }
    })
}

fn name_of(number: usize) -> String {
    format!("v{number}")
}

/// Puts `value` at `path`, whose first `depth` steps lead to `into`, creating tables on the way; an
/// error has the depth of the failing step and the refusal.
fn put<'a>(
    into: &mut Spanned<DeValue<'a>>,
    path: &'a [Step],
    value: Spanned<DeValue<'a>>,
    depth: usize,
) -> Result<(), (usize, Refusal)> {
    let Some(step) = path.get(depth) else {
        *into = value;
        return Ok(());
    };
    let kind = article(into.get_ref().type_str());
    let (reason, elements) = match (step, into.get_mut()) {
        (Step::Key(key), DeValue::Table(table)) => {
            let span = value.span();
            let empty = Spanned::new(span.clone(), DeValue::Table(DeTable::new()));
            let key = Spanned::new(span, Cow::Borrowed(key.as_str()));
            return put(table.entry(key).or_insert(empty), path, value, depth + 1);
        }
        (Step::Index(index), DeValue::Array(array)) => {
            let count = array.len();
            if let Some(element) = array.get_mut(*index) {
                return put(element, path, value, depth + 1);
            }
            let elements = counted(count as u64, "element");
            (format!("has {elements}, counted from 0; none is [{index}]"), count)
        }
        (Step::Key(key), other) => {
            let elements = other.as_array().map_or(0, |array| array.len());
            (format!("is {kind} in the file and has no key `{key}`"), elements)
        }
        (Step::Index(index), _) => {
            (format!("is {kind} in the file and has no element [{index}]"), 0)
        }
    };
    Err((depth, in_array(reason, path, depth, elements)))
}

/// Returns the refusal of a path whose first `depth` steps lead to an array of this many elements,
/// or to something that has none. It suggests the nearest path into one of them.
fn in_array(reason: String, path: &[Step], depth: usize, elements: usize) -> Refusal {
    let Some(last) = elements.checked_sub(1) else { return Refusal::plain(reason) };
    // `tasks.0.work_s` means `tasks[0].work_s`, and `tasks.work_s` is that of any element.
    let (wanted, behind) = match &path[depth] {
        Step::Index(index) => (*index, depth + 1),
        Step::Key(key) => key.parse().map_or((0, depth), |index| (index, depth + 1)),
    };
    let steps = [&path[..depth], &[Step::Index(wanted.min(last))], &path[behind..]].concat();
    Refusal::new(reason, format!("the nearest key is `{}`", written(&steps)))
}

#[cfg(test)]
mod tests;
