//! Options of a policy, which follow its name: `hmmsched:alpha=0.3:no-classes`.
//!
//! Colons separate them, so that policies with options can appear in comma-separated lists. The
//! table of policies defines the options of each policy.

use memweir_core::input::{Refusal, key_and_value};
use memweir_core::names::suggestion;

/// An option that a policy may be given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PolicyOption {
    /// Name that users write.
    pub name: &'static str,
    /// Syntax after the name.
    pub form: Form,
    /// One line for `--help`.
    pub summary: &'static str,
}

/// Syntax of an option.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Form {
    /// The name alone.
    Flag,
    /// `name=NUMBER`, with a number within these bounds.
    Number {
        /// Smallest valid number.
        from: f64,
        /// Largest valid number.
        to: f64,
    },
}

impl PolicyOption {
    /// Creates an option without a value.
    #[must_use]
    pub const fn flag(name: &'static str, summary: &'static str) -> Self {
        Self { name, form: Form::Flag, summary }
    }

    /// Creates an option with a number from `from` to `to`, inclusive.
    #[must_use]
    pub const fn number(name: &'static str, from: f64, to: f64, summary: &'static str) -> Self {
        Self { name, form: Form::Number { from, to }, summary }
    }

    /// Returns the syntax for help texts: `no-classes`, `alpha=NUMBER`.
    #[must_use]
    pub fn usage(&self) -> String {
        match self.form {
            Form::Flag => self.name.to_owned(),
            Form::Number { .. } => format!("{}=NUMBER", self.name),
        }
    }

    /// Parses the text after the `=`, if there is one; the error says what to write instead.
    fn value(&self, given: Option<&str>) -> Result<f64, String> {
        match (self.form, given) {
            (Form::Flag, None) => Ok(1.0),
            (Form::Flag, Some(_)) => Err(format!("`{}` takes no value", self.name)),
            (Form::Number { from, to }, given) => given
                .and_then(|number| number.parse().ok())
                .filter(|number: &f64| (from..=to).contains(number))
                .ok_or_else(|| format!("write `{}=` and a number from {from} to {to}", self.name)),
        }
    }
}

/// The options that were given.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options(Vec<(&'static str, f64)>);

impl Options {
    /// Returns true if this option was given.
    #[must_use]
    pub fn has(&self, option: &PolicyOption) -> bool {
        self.number(option).is_some()
    }

    /// Returns the number given for this option.
    #[must_use]
    pub fn number(&self, option: &PolicyOption) -> Option<f64> {
        self.0.iter().find(|(name, _)| *name == option.name).map(|(_, value)| *value)
    }

    /// Parses the options `given` to `policy`, whose valid options are those of `table`.
    pub(super) fn read<'a>(
        policy: &str,
        table: &[PolicyOption],
        given: impl Iterator<Item = &'a str>,
    ) -> Result<Self, Refusal> {
        let mut options = Self::default();
        for text in given {
            let (name, value) = key_and_value(text);
            let refuse = |help: String| {
                Refusal::new(format!("bad option `{text}` of policy `{policy}`"), help)
            };
            if text.contains(',') {
                let separated = text.replace(',', ":");
                return Err(refuse(format!("separate options by colons, `{policy}:{separated}`")));
            }
            let option = table
                .iter()
                .find(|option| option.name == name)
                .ok_or_else(|| refuse(no_such_option(policy, table, name)))?;
            if options.has(option) {
                return Err(refuse(format!("`{name}` is given twice")));
            }
            options.0.push((option.name, option.value(value).map_err(refuse)?));
        }
        Ok(options)
    }
}

/// Returns the help for an option that does not exist.
fn no_such_option(policy: &str, table: &[PolicyOption], name: &str) -> String {
    if table.is_empty() {
        return format!("`{policy}` takes none");
    }
    suggestion(name, table.iter().map(|option| option.name))
}
