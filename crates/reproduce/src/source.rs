//! The data files under `experiments/`: what a paper states, where it states it, and the parameters
//! with which memweir repeats it.
//!
//! The files are compiled in; what they say is checked when they are read, so that a wrong key in a
//! changed one is refused with its line.

use std::collections::HashSet;

use memweir_core::input::InputError;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A file of a suite: its name below `experiments/`, and its text.
pub type File = (&'static str, &'static str);

/// A paper: what it is, and what becomes of each of its items.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// What the command calls it.
    pub name: String,
    /// Its title.
    pub title: String,
    /// Its authors.
    pub authors: String,
    /// Where it was published.
    pub venue: String,
    /// Its items, in the order of their numbers.
    #[serde(rename = "item")]
    pub items: Vec<Item>,
}

/// One thing that the paper defines, measures or claims, under the number that it has everywhere in
/// memweir.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// `X1` to `X15`, `H1` to `H12`, `B1` to `B13`, `D1` to `D10`.
    pub id: String,
    /// What it is.
    pub what: String,
    /// The figures of this report that show it.
    #[serde(default)]
    pub figures: Vec<String>,
    /// Why a part of it, or all of it, is not for a simulation, and where it is.
    pub elsewhere: Option<String>,
}

/// A figure, table or equation of the paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FigureData {
    /// What `--figure` calls it: `9`, `1b`, `table1`.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// Where in the paper it is.
    pub place: String,
    /// What the paper says, in a few sentences.
    pub says: String,
    /// How memweir got its own.
    pub method: String,
    /// Why ours differs; shown with every statement of the figure that disagrees and has no
    /// explanation of its own.
    pub explanation: Option<String>,
    /// Parameters of the runs, which the figure's own code reads.
    #[serde(default)]
    pub parameters: toml::Table,
    /// What can be compared.
    #[serde(default, rename = "statement")]
    pub statements: Vec<Statement>,
}

/// One comparable statement of the paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// How the figure's code calls it.
    pub id: String,
    /// The item that it belongs to.
    pub item: String,
    /// What is compared.
    pub quantity: String,
    /// The paper's value, or what its text says where it prints none.
    pub paper: Value,
    /// Unit of both values; empty for a pure number.
    pub unit: String,
    /// Where the paper says so.
    pub place: String,
    /// When ours points in the same direction; absent where the paper claims none.
    pub agrees: Option<Rule>,
    /// Why ours points elsewhere, if it does.
    pub explanation: Option<String>,
}

/// A value as the paper gives it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A printed number.
    Number(f64),
    /// A statement in words.
    Words(String),
}

/// The range in which ours agrees with the direction of the paper's statement.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Lower end, which belongs to the range.
    pub at_least: Option<f64>,
    /// Upper end, which belongs to the range.
    pub at_most: Option<f64>,
}

impl Rule {
    /// Whether `value` lies in the range.
    #[must_use]
    pub fn holds(&self, value: f64) -> bool {
        self.at_least.is_none_or(|low| value >= low)
            && self.at_most.is_none_or(|high| value <= high)
    }
}

/// Everything that is known of a paper before anything runs.
#[derive(Clone, Debug)]
pub struct Suite {
    /// The paper and its items.
    pub paper: Paper,
    /// Its figures, in the order of the report.
    pub figures: Vec<FigureData>,
}

impl Suite {
    /// Reads a paper and its figures.
    ///
    /// # Errors
    /// If a file is not what it should be, two figures or two statements of one figure share a
    /// name, or something names a figure or an item that does not exist.
    pub fn read(paper: File, figures: &[File]) -> Result<Self, InputError> {
        let figures = figures.iter().copied().map(parse).collect::<Result<_, _>>()?;
        let suite = Self { paper: parse(paper)?, figures };
        suite.check(paper.0)?;
        Ok(suite)
    }

    fn check(&self, name: &str) -> Result<(), InputError> {
        let refuse = |reason: String| Err(InputError::new(name, reason));
        let mut ids = HashSet::new();
        for figure in &self.figures {
            if !ids.insert(figure.id.as_str()) {
                return refuse(format!("two figures are called `{}`", figure.id));
            }
            let mut statements = HashSet::new();
            for statement in &figure.statements {
                if !statements.insert(statement.id.as_str()) {
                    return refuse(format!("figure {}: two `{}`", figure.id, statement.id));
                }
                if !self.paper.items.iter().any(|item| item.id == statement.item) {
                    return refuse(format!("figure {}: no item `{}`", figure.id, statement.item));
                }
            }
        }
        for item in &self.paper.items {
            if let Some(unknown) = item.figures.iter().find(|id| !ids.contains(id.as_str())) {
                return refuse(format!("item {}: there is no figure `{unknown}`", item.id));
            }
            if item.figures.is_empty() && item.elsewhere.is_none() {
                return refuse(format!("item {} is neither shown nor elsewhere", item.id));
            }
        }
        Ok(())
    }
}

impl FigureData {
    /// The parameters as the type that the figure's code wants.
    ///
    /// # Errors
    /// If one is missing, unknown, or of the wrong type.
    pub fn parameters<T: DeserializeOwned>(&self) -> Result<T, InputError> {
        self.parameters.clone().try_into().map_err(|error: toml::de::Error| {
            InputError::new(format!("figure {}", self.id), error.message()).key("parameters")
        })
    }
}

/// Reads the text of a data file.
///
/// # Errors
/// If it is no TOML, or a key is missing, unknown, or of the wrong type; with its line.
pub fn parse<T: DeserializeOwned>((name, text): File) -> Result<T, InputError> {
    toml::from_str(text).map_err(|error| {
        let refused = InputError::new(name, error.message());
        match error.span() {
            Some(span) => refused.at(text, span),
            None => refused,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAPER: &str = "name = 'p'\ntitle = 't'\nauthors = 'a'\nvenue = 'v'\n";
    const FIGURE: &str = "id = '1'\ntitle = 't'\nplace = 'p'\nsays = 's'\nmethod = 'm'\n";

    fn read(paper: &str, figures: &[&str]) -> Result<Suite, InputError> {
        let leak = |text: &str| -> &'static str { text.to_owned().leak() };
        let figures: Vec<File> = figures.iter().map(|text| ("figure.toml", leak(text))).collect();
        Suite::read(("paper.toml", leak(paper)), &figures)
    }

    #[test]
    fn a_rule_is_a_range_with_its_ends() {
        let rule = Rule { at_least: Some(0.0), at_most: Some(2.0) };
        assert!(rule.holds(0.0) && rule.holds(2.0) && !rule.holds(-0.1) && !rule.holds(2.1));
        assert!(Rule { at_least: None, at_most: None }.holds(f64::NEG_INFINITY));
        assert!(!rule.holds(f64::NAN));
    }

    #[test]
    fn a_wrong_key_is_refused_with_its_line() {
        let item = format!("{PAPER}[[item]]\nid = 'X1'\nwhat = 'w'\nfigure = ['1']\n");
        let error = read(&item, &[FIGURE]).unwrap_err();
        assert_eq!((error.source_name.as_str(), error.line), ("paper.toml", Some(8)));
        assert!(error.reason.contains("figure"), "{error}");
    }

    #[test]
    fn names_that_lead_nowhere_are_refused() {
        let item = |rest: &str| format!("{PAPER}[[item]]\nid = 'X1'\nwhat = 'w'\n{rest}");
        let reason = |paper: &str, figures: &[&str]| read(paper, figures).unwrap_err().reason;
        assert!(reason(&item("figures = ['2']"), &[FIGURE]).contains("no figure `2`"));
        assert!(reason(&item(""), &[FIGURE]).contains("neither shown nor elsewhere"));
        assert!(reason(&item("figures = ['1']"), &[FIGURE, FIGURE]).contains("two figures"));
        let statement = "[[statement]]\nid = 'a'\nitem = 'X9'\nquantity = 'q'\npaper = 1.0\n\
                         unit = ''\nplace = 'p'\n";
        let figure = format!("{FIGURE}{statement}");
        assert!(reason(&item("figures = ['1']"), &[&figure]).contains("no item `X9`"));
        assert!(read(&item("figures = ['1']"), &[FIGURE]).is_ok());
    }

    #[test]
    fn parameters_are_checked_like_everything_else() {
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Points {
            #[expect(dead_code, reason = "only its presence is tested")]
            points: usize,
        }
        let item = format!("{PAPER}[[item]]\nid = 'X1'\nwhat = 'w'\nfigures = ['1']\n");
        let suite = read(&item, &[&format!("{FIGURE}[parameters]\npionts = 3\n")]).unwrap();
        let error = suite.figures[0].parameters::<Points>().unwrap_err();
        assert!(error.to_string().contains("pionts"), "{error}");
    }
}
