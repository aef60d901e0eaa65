//! Options of a policy, as they stand behind its name: `hmmsched:alpha=0.3:no-classes`.
//!
//! Colons separate them, so that policies with options can stand in lists with commas. Which
//! options a policy has, the table of policies says.

use memweir_core::names::suggestion;

use super::UnknownPolicy;

/// An option that a policy may be given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PolicyOption {
    /// What the user writes.
    pub name: &'static str,
    /// What stands behind the name.
    pub form: Form,
    /// One line for `--help`.
    pub summary: &'static str,
}

/// How an option is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Form {
    /// The name alone.
    Flag,
    /// `name=NUMBER`, with a number in these bounds.
    Number {
        /// The smallest.
        from: f64,
        /// The largest.
        to: f64,
    },
}

impl PolicyOption {
    /// An option without a value.
    #[must_use]
    pub const fn flag(name: &'static str, summary: &'static str) -> Self {
        Self { name, form: Form::Flag, summary }
    }

    /// An option with a number between `from` and `to`, these included.
    #[must_use]
    pub const fn number(name: &'static str, from: f64, to: f64, summary: &'static str) -> Self {
        Self { name, form: Form::Number { from, to }, summary }
    }

    /// How it is written: `no-classes`, `alpha=NUMBER`.
    #[must_use]
    pub fn usage(&self) -> String {
        match self.form {
            Form::Flag => self.name.to_owned(),
            Form::Number { .. } => format!("{}=NUMBER", self.name),
        }
    }

    /// Reads what stands behind the `=`, if there is one; says what to write instead.
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
    /// Whether this option was given.
    #[must_use]
    pub fn has(&self, option: &PolicyOption) -> bool {
        self.number(option).is_some()
    }

    /// The number that this option was given.
    #[must_use]
    pub fn number(&self, option: &PolicyOption) -> Option<f64> {
        self.0.iter().find(|(name, _)| *name == option.name).map(|(_, value)| *value)
    }

    /// Reads the options `given` to `policy`, which has those of `table`.
    pub(super) fn read<'a>(
        policy: &str,
        table: &[PolicyOption],
        given: impl Iterator<Item = &'a str>,
    ) -> Result<Self, UnknownPolicy> {
        let mut options = Self::default();
        for text in given {
            let (name, value) = match text.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (text, None),
            };
            let refuse = |help| UnknownPolicy {
                reason: format!("bad option `{text}` of policy `{policy}`"),
                help,
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

/// What to write instead of an option that does not exist.
fn no_such_option(policy: &str, table: &[PolicyOption], name: &str) -> String {
    if table.is_empty() {
        return format!("`{policy}` takes none");
    }
    suggestion(name, table.iter().map(|option| option.name))
}
