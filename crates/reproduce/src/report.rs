//! What a reproduction found: sections with plots and tables, and the lines of `results.json`.

use memweir_plot::{Figure, Panel};
use serde::{Deserialize, Serialize};

use crate::source::{FigureData, Item, Paper, Statement, Suite, Value};

/// One line of `results.json`: a statement of the paper beside what memweir got.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Comparison {
    /// The item, `X1` to `X15`, `H1` to `H12`, `B1` to `B13` or `D1` to `D10`.
    pub item: String,
    /// The figure, table or equation: `9`, `1b`, `table1`.
    pub figure: String,
    /// What is compared.
    pub quantity: String,
    /// The paper's value, or its words where it prints none.
    pub paper: Value,
    /// What memweir got; absent where this run could not tell.
    pub ours: Option<f64>,
    /// Unit of both; empty for a pure number.
    pub unit: String,
    /// Whether ours points in the direction of the paper's; absent where the paper claims none.
    pub direction_agrees: Option<bool>,
    /// Where the paper says so and, if ours disagrees, why.
    pub note: String,
}

/// What the code of one figure found.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Drawings, each with a caption.
    pub plots: Vec<Plot>,
    /// Numbers behind them.
    pub tables: Vec<Table>,
    /// Ours, by the identifiers of the figure's statements.
    pub values: Vec<(&'static str, f64)>,
    /// Comparisons that are not in the figure's file because there is one for each row of a table.
    pub rows: Vec<Comparison>,
    /// What a reader should know besides.
    pub remarks: Vec<String>,
}

/// One drawing.
#[derive(Clone, Debug)]
pub struct Plot {
    /// What it shows, for those who see it and those who do not.
    pub caption: String,
    /// The drawing.
    pub figure: Figure,
}

/// Panels without a heading: the page has one.
#[must_use]
pub fn untitled(panels: Vec<Panel>) -> Figure {
    Figure { title: String::new(), subtitle: String::new(), panels }
}

/// A table with a caption; all cells are text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// What it lists.
    pub caption: String,
    /// Names of the columns.
    pub header: Vec<String>,
    /// The first column names the row; the others are numbers.
    pub rows: Vec<Vec<String>>,
}

/// One figure of the paper, reproduced.
#[derive(Clone, Debug)]
pub struct Section {
    /// What the paper says.
    pub data: FigureData,
    /// The statements beside ours.
    pub comparisons: Vec<Comparison>,
    /// Drawings, tables and remarks.
    pub found: Found,
}

/// How much was run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effort {
    /// Everything that the data files ask for.
    #[default]
    Full,
    /// A subset with fewer repetitions, points and steps.
    Quick,
}

/// A reproduction, as far as it has come.
#[derive(Clone, Debug)]
pub struct Report {
    /// The paper.
    pub paper: Paper,
    /// How much was run.
    pub effort: Effort,
    /// What a quick run leaves out; empty in a full one.
    pub precision: String,
    /// The figures that are done.
    pub sections: Vec<Section>,
    /// Figures that are still to come.
    pub missing: Vec<String>,
}

impl Section {
    /// Sets what was found beside what the paper says.
    ///
    /// # Panics
    /// If the code of the figure names a statement that the figure's file does not have: a mistake
    /// of memweir's own.
    #[must_use]
    pub fn new(data: &FigureData, mut found: Found) -> Self {
        for (id, _) in &found.values {
            assert!(
                data.statements.iter().any(|statement| statement.id == *id),
                "figure {} has no statement `{id}`",
                data.id
            );
        }
        let mut comparisons: Vec<_> = data
            .statements
            .iter()
            .map(|statement| {
                let ours = found.values.iter().find(|(id, _)| *id == statement.id);
                compare(data, statement, ours.map(|(_, value)| *value))
            })
            .collect();
        comparisons.append(&mut found.rows);
        Self { data: data.clone(), comparisons, found }
    }
}

/// One statement beside ours, with the explanation if they disagree.
fn compare(data: &FigureData, statement: &Statement, ours: Option<f64>) -> Comparison {
    let ours = ours.filter(|value| value.is_finite());
    let agrees = statement.agrees.zip(ours).map(|(rule, value)| rule.holds(value));
    let mut note = statement.place.clone();
    if agrees == Some(false)
        && let Some(why) = statement.explanation.as_ref().or(data.explanation.as_ref())
    {
        note = format!("{note}. {why}");
    }
    Comparison {
        item: statement.item.clone(),
        figure: data.id.clone(),
        quantity: statement.quantity.clone(),
        paper: statement.paper.clone(),
        ours,
        unit: statement.unit.clone(),
        direction_agrees: agrees,
        note,
    }
}

impl Report {
    /// A report of which nothing is done yet.
    #[must_use]
    pub fn new(suite: &Suite, effort: Effort, figures: &[String]) -> Self {
        Self {
            paper: suite.paper.clone(),
            effort,
            precision: String::new(),
            sections: Vec::new(),
            missing: figures.to_vec(),
        }
    }

    /// Adds a figure that is done.
    pub fn add(&mut self, section: Section) {
        self.missing.retain(|id| *id != section.data.id);
        self.sections.push(section);
    }

    /// The lines of `results.json`, in the order of the report.
    pub fn comparisons(&self) -> impl Iterator<Item = &Comparison> {
        self.sections.iter().flat_map(|section| &section.comparisons)
    }

    /// `results.json`: an array of [`Comparison`]s.
    #[must_use]
    pub fn json(&self) -> String {
        let lines: Vec<_> = self.comparisons().collect();
        // Strings and finite numbers always can be written.
        serde_json::to_string_pretty(&lines).unwrap_or_default() + "\n"
    }

    /// Statements that point in the paper's direction, those that do not, and those without one.
    #[must_use]
    pub fn tally(&self) -> [usize; 3] {
        let mut tally = [0; 3];
        for comparison in self.comparisons() {
            tally[match comparison.direction_agrees {
                Some(true) => 0,
                Some(false) => 1,
                None => 2,
            }] += 1;
        }
        tally
    }

    /// The items of which something, or everything, is not for a simulation.
    pub fn elsewhere(&self) -> impl Iterator<Item = (&Item, &str)> {
        self.paper.items.iter().filter_map(|item| Some((item, item.elsewhere.as_deref()?)))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::source::Rule;

    /// A figure with one statement that demands at least nothing.
    pub(crate) fn data() -> FigureData {
        FigureData {
            id: "9".to_owned(),
            title: "Targets & <bars>".to_owned(),
            place: "section 5.3".to_owned(),
            says: "It gains.".to_owned(),
            method: "Simulated.".to_owned(),
            explanation: Some("The bus is simulated.".to_owned()),
            parameters: toml::Table::new(),
            statements: vec![Statement {
                id: "mean".to_owned(),
                item: "X15".to_owned(),
                quantity: "mean improvement".to_owned(),
                paper: Value::Number(3.1),
                unit: "%".to_owned(),
                place: "section 5.3".to_owned(),
                agrees: Some(Rule { at_least: Some(0.0), at_most: None }),
                explanation: None,
            }],
        }
    }

    fn with(value: Option<f64>) -> Comparison {
        let values = value.map(|value| ("mean", value)).into_iter().collect();
        Section::new(&data(), Found { values, ..Found::default() }).comparisons.remove(0)
    }

    #[test]
    fn a_disagreement_carries_its_explanation() {
        assert_eq!(with(Some(2.0)).direction_agrees, Some(true));
        assert_eq!(with(Some(2.0)).note, "section 5.3");
        let worse = with(Some(-1.0));
        assert_eq!(worse.direction_agrees, Some(false));
        assert_eq!(worse.note, "section 5.3. The bus is simulated.");
    }

    #[test]
    fn what_could_not_be_told_neither_agrees_nor_disagrees() {
        for value in [None, Some(f64::NAN)] {
            let comparison = with(value);
            assert_eq!((comparison.ours, comparison.direction_agrees), (None, None));
        }
    }

    #[test]
    fn json_has_the_documented_fields_and_no_others() {
        let suite = Suite {
            paper: Paper {
                name: "iabw".to_owned(),
                title: String::new(),
                authors: String::new(),
                venue: String::new(),
                items: Vec::new(),
            },
            figures: Vec::new(),
        };
        let mut report = Report::new(&suite, Effort::Full, &["9".to_owned()]);
        report
            .add(Section::new(&data(), Found { values: vec![("mean", 2.5)], ..Found::default() }));
        assert!(report.missing.is_empty());
        assert_eq!(report.tally(), [1, 0, 0]);
        let json: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
        let keys: Vec<&String> = json[0].as_object().unwrap().keys().collect();
        let documented =
            ["direction_agrees", "figure", "item", "note", "ours", "paper", "quantity", "unit"];
        let mut sorted = keys.clone();
        sorted.sort();
        assert_eq!(sorted, documented.iter().collect::<Vec<_>>());
        assert_eq!((&json[0]["paper"], &json[0]["ours"]), (&3.1.into(), &2.5.into()));
    }
}
