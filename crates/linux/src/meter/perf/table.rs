//! Reading TOML tables key by key, so that every refusal names file, line, key and reason.
//!
//! Nothing here knows what an event is.

use std::ops::Range;

use memweir_core::input::InputError;
use memweir_core::names::suggestion;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A text that is being read.
#[derive(Clone, Copy)]
pub(super) struct Document<'a> {
    /// Name of the file, for errors.
    pub(super) file: &'a str,
    /// Its text.
    pub(super) text: &'a str,
}

impl<'a> Document<'a> {
    /// Parses the text as TOML.
    pub(super) fn parse(self) -> Result<Spanned<DeTable<'a>>, InputError> {
        DeTable::parse(self.text).map_err(|error| {
            let refusal = InputError::new(self.file, error.message());
            match error.span() {
                Some(span) => refusal.at(self.text, span),
                None => refusal,
            }
        })
    }

    /// Refuses the value at `span`, which stands under `key`.
    pub(super) fn refuse(
        self,
        span: Range<usize>,
        key: impl Into<String>,
        reason: impl Into<String>,
    ) -> InputError {
        InputError::new(self.file, reason).at(self.text, span).key(key)
    }
}

/// A table, its place in the text and the path of keys that leads to it.
pub(super) struct Table<'a, 'd> {
    document: Document<'a>,
    table: &'d DeTable<'a>,
    span: Range<usize>,
    path: String,
}

impl<'a, 'd> Table<'a, 'd> {
    /// Makes the table of the whole document.
    pub(super) fn root(document: Document<'a>, root: &'d Spanned<DeTable<'a>>) -> Self {
        Self { document, table: root.get_ref(), span: 0..0, path: String::new() }
    }

    /// Returns the path of `key` in this table, as errors name it.
    pub(super) fn key(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// Refuses the value of `key`, or the whole table where the key is missing.
    pub(super) fn refuse(&self, key: &str, reason: impl Into<String>) -> InputError {
        let span = self.table.get(key).map_or(self.span.clone(), Spanned::span);
        self.document.refuse(span, self.key(key), reason)
    }

    /// Refuses a value and offers the valid choices, the nearest first.
    pub(super) fn refuse_choice(&self, key: &str, given: &str, valid: &[&str]) -> InputError {
        self.refuse(key, format!("unknown choice `{given}`"))
            .help(suggestion(given, valid.iter().copied()))
    }

    /// Refuses every key that is not one of `known`.
    pub(super) fn only(&self, known: &[&str]) -> Result<(), InputError> {
        match self.table.keys().find(|key| !known.contains(&key.get_ref().as_ref())) {
            None => Ok(()),
            Some(key) => {
                let name = key.get_ref().as_ref();
                Err(self
                    .document
                    .refuse(key.span(), self.key(name), "unknown key")
                    .help(suggestion(name, known.iter().copied())))
            }
        }
    }

    /// Returns true if the key exists.
    pub(super) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    fn value(&self, key: &str) -> Option<&'d DeValue<'a>> {
        self.table.get(key).map(Spanned::get_ref)
    }

    fn wrong_type(&self, key: &str, expected: &str) -> InputError {
        match self.value(key) {
            None => self.refuse(key, format!("missing; it must be {expected}")),
            Some(value) => {
                self.refuse(key, format!("must be {expected}, not a {}", value.type_str()))
            }
        }
    }

    /// Reads a text that is not empty.
    pub(super) fn text(&self, key: &str) -> Result<&'d str, InputError> {
        match self.value(key).and_then(DeValue::as_str) {
            Some("") => Err(self.refuse(key, "must not be empty")),
            Some(text) => Ok(text),
            None => Err(self.wrong_type(key, "a text")),
        }
    }

    /// Reads a truth value, false where the key is missing.
    pub(super) fn flag(&self, key: &str) -> Result<bool, InputError> {
        match self.value(key) {
            None => Ok(false),
            Some(value) => value.as_bool().ok_or_else(|| self.wrong_type(key, "true or false")),
        }
    }

    /// Reads an integer that fits `T`.
    pub(super) fn integer<T: TryFrom<u64>>(&self, key: &str) -> Result<T, InputError> {
        let value = self
            .value(key)
            .filter(|value| value.is_integer())
            .ok_or_else(|| self.wrong_type(key, "an integer"))?;
        integer(value).ok_or_else(|| self.refuse(key, "negative or too large"))
    }

    /// Reads a number, with or without a fraction; `default` where the key is missing.
    pub(super) fn number(&self, key: &str, default: f64) -> Result<f64, InputError> {
        let text = match self.value(key) {
            None => return Ok(default),
            Some(DeValue::Float(float)) => float.as_str().to_owned(),
            Some(value) => match integer::<u64>(value) {
                Some(integer) => integer.to_string(),
                None => return Err(self.wrong_type(key, "a number")),
            },
        };
        text.parse().map_err(|_| self.wrong_type(key, "a number"))
    }

    /// Returns the items of an array, none where the key is missing.
    pub(super) fn items(&self, key: &str) -> Result<&'d [Spanned<DeValue<'a>>], InputError> {
        match self.value(key) {
            None => Ok(&[]),
            Some(DeValue::Array(array)) => Ok(array.as_ref()),
            Some(_) => Err(self.wrong_type(key, "an array")),
        }
    }

    /// Reads a list of texts, empty where the key is missing.
    pub(super) fn texts(&self, key: &str) -> Result<Vec<String>, InputError> {
        let item = |value: &Spanned<DeValue<'a>>| match value.get_ref().as_str() {
            Some(text) if !text.is_empty() => Ok(text.to_owned()),
            _ => Err(self.document.refuse(value.span(), self.key(key), "must hold texts only")),
        };
        self.items(key)?.iter().map(item).collect()
    }

    /// Reads a list of tables, at least one.
    pub(super) fn tables(&self, key: &str) -> Result<Vec<Self>, InputError> {
        let items = self.items(key)?;
        if items.is_empty() {
            return Err(self.refuse(key, "missing; at least one is needed"));
        }
        let table = |(index, item): (usize, &'d Spanned<DeValue<'a>>)| {
            let path = format!("{}[{index}]", self.key(key));
            match item.get_ref().as_table() {
                Some(table) => Ok(Self { document: self.document, table, span: item.span(), path }),
                None => Err(self.document.refuse(item.span(), path, "must be a table")),
            }
        };
        items.iter().enumerate().map(table).collect()
    }

    /// Reads a list of numbers and of ranges written `"0x30-0x4f"`, at least one.
    pub(super) fn ranges(&self, key: &str) -> Result<Vec<(u32, u32)>, InputError> {
        let items = self.items(key)?;
        if items.is_empty() {
            return Err(self.refuse(key, "missing; at least one number or range is needed"));
        }
        let range = |item: &Spanned<DeValue<'a>>| {
            let value = item.get_ref();
            let read = match value.as_str() {
                Some(text) => range(text),
                None => integer(value).map(|number| (number, number)),
            };
            read.filter(|(first, last)| first <= last).ok_or_else(|| {
                self.document.refuse(
                    item.span(),
                    self.key(key),
                    "must hold numbers and ranges such as \"0x30-0x4f\"",
                )
            })
        };
        items.iter().map(range).collect()
    }
}

fn integer<T: TryFrom<u64>>(value: &DeValue<'_>) -> Option<T> {
    let integer = value.as_integer()?;
    let number = u64::from_str_radix(integer.as_str(), integer.radix()).ok()?;
    T::try_from(number).ok()
}

fn range(text: &str) -> Option<(u32, u32)> {
    let number = |text: &str| match text.trim().strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => text.trim().parse().ok(),
    };
    let (first, last) = text.split_once('-')?;
    Some((number(first)?, number(last)?))
}
