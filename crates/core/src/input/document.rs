//! Reads TOML key by key, so that every error is reported with its file, line and key. The callers
//! define the meaning of the keys.
//!
//! ```
//! use memweir_core::input::Document;
//!
//! let document = Document { name: "machine.toml", text: "cores = 4\nquantm_ms = 100\n" };
//! let mut root = document.parse().unwrap();
//! let refusal = root.only(&["cores", "quantum_ms"]).unwrap_err();
//! assert_eq!(
//!     refusal.to_string(),
//!     "machine.toml:2: quantm_ms: unknown key\n  help: did you mean `quantum_ms`?"
//! );
//! assert_eq!(root.require("cores").unwrap().integer(), Ok(4));
//! ```

use std::fmt::Display;
use std::ops::{Range, RangeInclusive};

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::replace::Replaced;
use super::{InputError, Refusal};
use crate::names::{Named, choose, nearest};
use crate::units::{ABSURD_BANDWIDTH, BytesPerSec};

/// The kind of a bandwidth in messages.
const BANDWIDTH: &str = "bandwidth in bytes per second";

/// Formats a number for a message: with an exponent if it has many digits.
#[must_use]
pub fn short(number: f64) -> String {
    match number == 0.0 || (1e-6..1e16).contains(&number.abs()) {
        true => number.to_string(),
        false => format!("{number:e}"),
    }
}

/// A file's name and text.
#[derive(Clone, Copy, Debug)]
pub struct Document<'a> {
    /// Name of the file in messages.
    pub name: &'a str,
    /// Its content.
    pub text: &'a str,
}

/// A table whose keys are taken one by one.
#[derive(Debug)]
pub struct Section<'a> {
    origin: Origin<'a>,
    path: String,
    span: Range<usize>,
    table: DeTable<'a>,
}

/// A value with its place in the document.
#[derive(Debug)]
pub struct Value<'a> {
    origin: Origin<'a>,
    path: String,
    span: Range<usize>,
    value: DeValue<'a>,
}

impl<'a> Document<'a> {
    /// Parses the file and returns its outermost table.
    ///
    /// # Errors
    /// If the text is not valid TOML.
    pub fn parse(self) -> Result<Section<'a>, InputError> {
        let table = self.table()?;
        Ok(Section::new(Origin { document: self, replaced: None }, table))
    }

    /// Deserializes the file, whose keys are the fields of `T`.
    ///
    /// # Errors
    /// If the text is not valid TOML, or a key is missing, unknown or of the wrong type. The
    /// reasons are those of `serde`.
    pub fn deserialize<T: DeserializeOwned>(self) -> Result<T, InputError> {
        toml::from_str(self.text).map_err(|error| self.refusal(&error))
    }

    pub(super) fn table(self) -> Result<Spanned<DeTable<'a>>, InputError> {
        DeTable::parse(self.text).map_err(|error| self.refusal(&error))
    }

    fn refusal(self, error: &toml::de::Error) -> InputError {
        let refusal = InputError::new(self.name, error.message());
        match error.span() {
            Some(span) => refusal.at(self.text, span),
            None => refusal,
        }
    }
}

/// Origin of a value: the file, or a replacement of some of its values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin<'a> {
    pub(super) document: Document<'a>,
    pub(super) replaced: Option<&'a Replaced>,
}

impl Origin<'_> {
    /// Creates a refusal of the text at `span` under the key `path`.
    pub(super) fn refuse(
        self,
        span: &Range<usize>,
        path: &str,
        reason: impl Into<String>,
    ) -> InputError {
        let error = match self.replaced.and_then(|replaced| replaced.option_at(span)) {
            Some(option) => InputError::new(option, reason),
            None => {
                InputError::new(self.document.name, reason).at(self.document.text, span.clone())
            }
        };
        if path.is_empty() { error } else { error.key(path) }
    }
}

impl<'a> Section<'a> {
    /// Creates an outermost table.
    pub(super) fn new(origin: Origin<'a>, table: Spanned<DeTable<'a>>) -> Self {
        Self { origin, path: String::new(), span: table.span(), table: table.into_inner() }
    }

    /// Refuses keys that are not among `known`.
    ///
    /// # Errors
    /// Names the first such key and the nearest known one.
    pub fn only(&self, known: &[&str]) -> Result<(), InputError> {
        let unknown = self
            .table
            .keys()
            .filter(|key| !known.contains(&key.get_ref().as_ref()))
            .min_by_key(|key| key.span().start);
        let Some(key) = unknown else { return Ok(()) };
        let path = join(&self.path, key.get_ref());
        let error = self.origin.refuse(&key.span(), &path, "unknown key");
        Err(error.help(match nearest(key.get_ref(), known.iter().copied()) {
            Some(name) => format!("did you mean `{name}`?"),
            None => format!("valid: {}", known.join(", ")),
        }))
    }

    /// Returns true if there is a value for `key` that has not been taken yet.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// Takes the value of `key`, if the file has one.
    pub fn take(&mut self, key: &str) -> Option<Value<'a>> {
        let value = self.table.remove(key)?;
        Some(Value::new(self.origin, join(&self.path, key), value))
    }

    /// Takes the value of `key`, which is required.
    ///
    /// # Errors
    /// If it is missing.
    pub fn require(&mut self, key: &str) -> Result<Value<'a>, InputError> {
        self.take(key).ok_or_else(|| self.refuse(format!("`{key}` is missing")))
    }

    /// Takes the value of `key` and converts it by `read`, if there is one.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn map<T>(
        &mut self,
        key: &str,
        read: impl FnOnce(Value<'a>) -> Result<T, InputError>,
    ) -> Result<Option<T>, InputError> {
        self.take(key).map(read).transpose()
    }

    /// Converts the result of a check; a refusal gets the place of this table.
    ///
    /// # Errors
    /// That refusal.
    pub fn checked<T>(&self, result: Result<T, Refusal>) -> Result<T, InputError> {
        result.map_err(|refusal| refusal.placed(|reason| self.refuse(reason)))
    }

    /// Creates a refusal of the value of `key`, if there is one that has not been taken yet.
    #[must_use]
    pub fn refuse_value(&self, key: &str, reason: impl Into<String>) -> Option<InputError> {
        let value = self.table.get(key)?;
        Some(self.origin.refuse(&value.span(), &join(&self.path, key), reason))
    }

    /// Creates a refusal of this table.
    #[must_use]
    pub fn refuse(&self, reason: impl Into<String>) -> InputError {
        self.origin.refuse(&self.span, &self.path, reason)
    }
}

impl<'a> Value<'a> {
    fn new(origin: Origin<'a>, path: String, value: Spanned<DeValue<'a>>) -> Self {
        let span = value.span();
        Self { origin, path, span, value: value.into_inner() }
    }

    /// Creates a refusal of this value.
    #[must_use]
    pub fn refuse(&self, reason: impl Into<String>) -> InputError {
        self.origin.refuse(&self.span, &self.path, reason)
    }

    /// Converts the result of a check; a refusal gets the place of this value.
    ///
    /// # Errors
    /// That refusal.
    pub fn checked<T>(&self, result: Result<T, Refusal>) -> Result<T, InputError> {
        result.map_err(|refusal| refusal.placed(|reason| self.refuse(reason)))
    }

    /// Returns the string, if the value is one.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        self.value.as_str()
    }

    /// Returns the string that this value must be.
    ///
    /// # Errors
    /// If it is something else.
    pub fn string(&self) -> Result<&str, InputError> {
        self.text().ok_or_else(|| self.expected("a string"))
    }

    /// Returns the name that this value must be, one of `names`; `what` is its kind in messages:
    /// `policy`.
    ///
    /// # Errors
    /// If it is not a string or not one of the names; the error suggests the nearest.
    pub fn one_of<'n>(&self, what: &str, names: &[&'n str]) -> Result<&'n str, InputError> {
        self.choose(what, names.iter().map(|name| (*name, *name)))
    }

    /// Returns the one of `values` whose name this value must be; `what` is its kind in messages.
    ///
    /// # Errors
    /// If it is not a string or not one of the names; the error suggests the nearest.
    pub fn choose<'n, T>(
        &self,
        what: &str,
        values: impl IntoIterator<Item = (&'n str, T)> + Clone,
    ) -> Result<T, InputError> {
        self.checked(choose(what, self.string()?, values))
    }

    /// Returns the choice whose name this value must be.
    ///
    /// # Errors
    /// If it is not a string or not one of the names; the error suggests the nearest.
    pub fn named<T: Named>(&self) -> Result<T, InputError> {
        self.checked(T::named(self.string()?))
    }

    /// Returns the boolean that this value must be.
    ///
    /// # Errors
    /// If it is something else.
    pub fn boolean(&self) -> Result<bool, InputError> {
        self.value.as_bool().ok_or_else(|| self.expected("`true` or `false`"))
    }

    /// Returns the integer that this value must be.
    ///
    /// # Errors
    /// If it is something else or does not fit.
    pub fn integer(&self) -> Result<i64, InputError> {
        let integer = self.value.as_integer().ok_or_else(|| self.expected("a whole number"))?;
        i64::from_str_radix(integer.as_str(), integer.radix())
            .map_err(|_| self.refuse(format!("{integer} is out of range")))
    }

    /// Returns the whole number that this value must be, from `range.start()` to `range.end()`.
    ///
    /// # Errors
    /// If it is something else or out of range.
    pub fn whole_in<T>(&self, range: RangeInclusive<T>) -> Result<T, InputError>
    where
        T: TryFrom<i64> + PartialOrd + Display,
    {
        let number = self.integer()?;
        if let Some(whole) = T::try_from(number).ok().filter(|whole| range.contains(whole)) {
            return Ok(whole);
        }
        let (least, most) = range.into_inner();
        let valid = match T::try_from(i64::MAX) {
            Ok(largest) if most >= largest => format!("{least} or more"),
            _ => format!("from {least} to {most}"),
        };
        let error = self.refuse(format!("{number} is out of range"));
        Err(error.help(format!("a whole number, {valid}")))
    }

    /// Returns the seed of random numbers that this value must be.
    ///
    /// # Errors
    /// If it is no whole number, or negative.
    pub fn seed(&self) -> Result<u64, InputError> {
        self.whole_in(0..=u64::MAX)
    }

    /// Returns the number that this value must be, whole or not.
    ///
    /// # Errors
    /// If it is something else.
    pub fn number(&self) -> Result<f64, InputError> {
        if let Some(float) = self.value.as_float() {
            return float
                .as_str()
                .parse()
                .map_err(|_| self.refuse(format!("{} is no number", float.as_str())));
        }
        match self.value.as_integer() {
            Some(_) => self.integer().map(|integer| integer as f64),
            None => Err(self.expected("a number")),
        }
    }

    /// Returns the number that this value must be, from `range.start()` to `range.end()`; `what` is
    /// its kind in messages: `a share`.
    ///
    /// # Errors
    /// If it is not a number or out of range.
    pub fn number_in(&self, range: RangeInclusive<f64>, what: &str) -> Result<f64, InputError> {
        let valid =
            || format!("a number from {} to {}", short(*range.start()), short(*range.end()));
        if self.text().is_some() {
            return Err(self.expected("a number").help(format!("write the {what} as {}", valid())));
        }
        let number = self.number()?;
        // NaN is in no range.
        match range.contains(&number) {
            true => Ok(number),
            false => Err(self.refuse(format!("{} is no {what}", short(number))).help(valid())),
        }
    }

    /// Returns the bandwidth in bytes per second that this value must be, at most
    /// [`ABSURD_BANDWIDTH`].
    ///
    /// # Errors
    /// If it is not a number or out of range.
    pub fn bandwidth(&self) -> Result<BytesPerSec, InputError> {
        self.number_in(0.0..=ABSURD_BANDWIDTH, BANDWIDTH).map(BytesPerSec)
    }

    /// Returns the bandwidth of a memory or a link that this value must be: 1 B/s or more.
    ///
    /// # Errors
    /// If it is not a number or out of range.
    pub fn capacity(&self) -> Result<BytesPerSec, InputError> {
        self.number_in(1.0..=ABSURD_BANDWIDTH, BANDWIDTH).map(BytesPerSec)
    }

    /// Returns the elements of the array that this value must be; `what` is its name in messages.
    ///
    /// # Errors
    /// If it is something else.
    pub fn array(&self, what: &str) -> Result<Vec<Value<'a>>, InputError> {
        let array = self.value.as_array().ok_or_else(|| self.expected(what))?;
        let element = |(index, value): (usize, &Spanned<DeValue<'a>>)| {
            Value::new(self.origin, format!("{}[{index}]", self.path), value.clone())
        };
        Ok(array.iter().enumerate().map(element).collect())
    }

    /// Returns the entries of the table that this value must be.
    ///
    /// # Errors
    /// If it is something else.
    pub fn entries(&self) -> Result<Vec<(String, Value<'a>)>, InputError> {
        let table = self.value.as_table().ok_or_else(|| self.expected("a table"))?;
        let entry = |(key, value): (&Spanned<std::borrow::Cow<'a, str>>, &Spanned<DeValue<'a>>)| {
            let name = key.get_ref().to_string();
            let path = join(&self.path, &name);
            (name, Value::new(self.origin, path, value.clone()))
        };
        Ok(table.iter().map(entry).collect())
    }

    /// Returns true if this is a table.
    #[must_use]
    pub fn is_table(&self) -> bool {
        self.value.as_table().is_some()
    }

    /// Returns true if this is an array.
    #[must_use]
    pub fn is_array(&self) -> bool {
        self.value.as_array().is_some()
    }

    /// Converts the value to the table that it must be, to take its keys one by one.
    ///
    /// # Errors
    /// If it is something else.
    pub fn section(self) -> Result<Section<'a>, InputError> {
        match self.value {
            DeValue::Table(table) => {
                Ok(Section { origin: self.origin, path: self.path, span: self.span, table })
            }
            _ => Err(self.expected("a table")),
        }
    }

    /// Returns the tables of the array that this value must be.
    ///
    /// # Errors
    /// If it or one of its elements is something else.
    pub fn sections(self) -> Result<Vec<Section<'a>>, InputError> {
        self.array("an array of tables")?.into_iter().map(Value::section).collect()
    }

    /// Creates a refusal of the value's type; `what` is the expected type.
    #[must_use]
    pub fn expected(&self, what: &str) -> InputError {
        self.refuse(format!("must be {what}, not {}", article(self.value.type_str())))
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

pub(super) fn article(kind: &str) -> String {
    let article = if kind.starts_with(['a', 'i']) { "an" } else { "a" };
    format!("{article} {kind}")
}
