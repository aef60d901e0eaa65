//! The text form of an order: `key=value` separated by `;`.

use std::str::FromStr;

use memweir_core::input::Refusal;

/// The values of an order by their keys.
pub(super) struct Fields<'a> {
    pub(super) text: &'a str,
    /// The command that gives such orders: `color run`.
    pub(super) command: &'static str,
}

impl<'a> Fields<'a> {
    pub(super) fn refuse(&self, key: &str) -> Refusal {
        let command = self.command;
        Refusal::new(
            format!("`{key}` is missing or wrong in the order to the preload library"),
            format!("start the program through `memweir {command}` of the same version"),
        )
    }

    pub(super) fn find(&self, key: &str) -> Option<&'a str> {
        let mut values = self.text.split(';').filter_map(|part| part.split_once('='));
        values.find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    pub(super) fn need(&self, key: &str) -> Result<&'a str, Refusal> {
        self.find(key).ok_or_else(|| self.refuse(key))
    }

    pub(super) fn parse<T: FromStr>(&self, key: &str) -> Result<T, Refusal> {
        self.need(key)?.parse().map_err(|_| self.refuse(key))
    }
}
