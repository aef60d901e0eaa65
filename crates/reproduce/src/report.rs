//! Results of a reproduction: sections with plots and tables, and the lines of `results.json`.

use std::collections::HashMap;

use memweir_plot::{Figure, Panel};
use serde::{Deserialize, Serialize};

use crate::score::{Agreement, Score};
use crate::source::{FigureData, Item, Kind, Paper, Statement, Suite, Test, Value};

/// One line of `results.json`: a statement of the paper beside memweir's result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Comparison {
    /// The item, `X1` to `X15`, `H1` to `H12`, `B1` to `B13`, `D1` to `D10` or `M1` to `M5`.
    pub item: String,
    /// The figure, table or equation: `9`, `1b`, `table1`.
    pub figure: String,
    /// The compared quantity.
    pub quantity: String,
    /// The paper's value, or its words where it prints none.
    pub paper: Value,
    /// memweir's value; absent where this run gives none.
    pub ours: Option<f64>,
    /// Unit of both; empty for a pure number.
    pub unit: String,
    /// Kind of evidence that a match would be.
    pub kind: Kind,
    /// Input, model or constant that decides the comparison instead of the simulation; for a
    /// repeated one, the place where it is judged.
    pub decided_by: Option<String>,
    /// Ours over the paper's, where both are numbers that are compared; effects are counted from
    /// the value without one.
    pub ratio: Option<f64>,
    /// Lower and upper end of the ratios that agree.
    pub band: Option<[f64; 2]>,
    /// Agreement with the paper; absent where nothing is judged or this run gives no value.
    pub verdict: Option<Agreement>,
    /// Place of the statement in the paper and, if ours disagrees, the reason.
    pub note: String,
}

/// Results of the code of one figure.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Drawings, each with a caption.
    pub plots: Vec<Plot>,
    /// Numbers behind them.
    pub tables: Vec<Table>,
    /// Ours, by the identifiers of the figure's statements.
    pub values: Vec<(&'static str, f64)>,
    /// Statements of which there is one for each row of a table, and ours.
    pub rows: Vec<(Statement, f64)>,
    /// Remarks for the reader.
    pub remarks: Vec<String>,
}

/// One drawing.
#[derive(Clone, Debug)]
pub struct Plot {
    /// Content of the drawing, for those who see it and those who do not.
    pub caption: String,
    /// The drawing.
    pub figure: Figure,
}

impl Plot {
    /// Creates a drawing of these panels, whose texts stand in the figure's file. It has no
    /// heading: the page has one.
    #[must_use]
    pub fn of(panels: impl IntoIterator<Item: Into<Panel>>) -> Self {
        let panels = panels.into_iter().map(Into::into).collect();
        let figure = Figure { title: String::new(), subtitle: String::new(), panels };
        Self { caption: String::new(), figure }
    }

    /// Returns the same with this value of its caption.
    #[must_use]
    pub fn captioned(self, caption: impl Into<String>) -> Self {
        Self { caption: caption.into(), ..self }
    }
}

/// A table with a caption; all cells are text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Content of the table.
    pub caption: String,
    /// Names of the columns.
    pub header: Vec<String>,
    /// The first column names the row; the others are numbers.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// Creates a table of these rows, whose texts stand in the figure's file.
    #[must_use]
    pub fn of(rows: impl IntoIterator<Item = Vec<String>>) -> Self {
        Self::new("", <[&str; 0]>::default(), rows)
    }

    /// Returns the same with this value of its caption.
    #[must_use]
    pub fn captioned(self, caption: impl Into<String>) -> Self {
        Self { caption: caption.into(), ..self }
    }

    /// Returns the same with these names of columns, for which the figure's file has one text.
    #[must_use]
    pub fn columns(self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { header: names.into_iter().map(Into::into).collect(), ..self }
    }

    /// Creates a table with all its texts, for tables of several figures.
    #[must_use]
    pub fn new(
        caption: impl Into<String>,
        header: impl IntoIterator<Item = impl Into<String>>,
        rows: impl IntoIterator<Item = Vec<String>>,
    ) -> Self {
        Self {
            caption: caption.into(),
            header: header.into_iter().map(Into::into).collect(),
            rows: rows.into_iter().collect(),
        }
    }
}

/// Returns a row of a table: its name, and values with this number of decimals.
pub(crate) fn row(
    name: impl Into<String>,
    decimals: usize,
    values: impl IntoIterator<Item = f64>,
) -> Vec<String> {
    let cells = values.into_iter().map(|value| format!("{value:.decimals$}"));
    std::iter::once(name.into()).chain(cells).collect()
}

/// Returns `milc` of `433.milc`.
pub(crate) fn short(program: &str) -> &str {
    program.split_once('.').map_or(program, |(_, name)| name)
}

/// One figure of the paper, reproduced.
#[derive(Clone, Debug)]
pub struct Section {
    /// Statements of the paper.
    pub data: FigureData,
    /// The statements beside ours.
    pub comparisons: Vec<Comparison>,
    /// Drawings, tables and remarks.
    pub found: Found,
}

/// Effort of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effort {
    /// Everything that the data files ask for.
    #[default]
    Full,
    /// A subset with fewer repetitions, points and steps.
    Quick,
}

impl Effort {
    /// Returns the value for a full run, or that for a quick one.
    pub(crate) fn pick<T>(self, full: T, quick: T) -> T {
        match self {
            Self::Full => full,
            Self::Quick => quick,
        }
    }

    /// Returns the repetitions of a run, of which a full one has this many.
    pub(crate) fn repetitions(self, full: u64) -> u64 {
        self.pick(full, 1)
    }
}

/// A reproduction, as far as it has come.
#[derive(Clone, Debug)]
pub struct Report {
    /// The paper.
    pub paper: Paper,
    /// Effort of the run.
    pub effort: Effort,
    /// Parts that a quick run leaves out; empty in a full one.
    pub precision: String,
    /// The figures that are done.
    pub sections: Vec<Section>,
    /// Figures that are still to come.
    pub missing: Vec<String>,
}

impl Section {
    /// Compares the results of a figure with the statements of the paper.
    ///
    /// # Panics
    /// If the code of the figure names a statement, or draws or tabulates something, that the
    /// figure's file does not have: a mistake of memweir's own.
    #[must_use]
    pub fn new(data: &FigureData, mut found: Found) -> Self {
        for (number, plot) in found.plots.iter_mut().enumerate() {
            if let Some(text) = data.plots.get(number).or(data.plots.last()) {
                text.write_into(plot);
            }
            assert!(!plot.caption.is_empty(), "figure {} has no plot {number}", data.id);
        }
        for (number, table) in found.tables.iter_mut().enumerate() {
            if let Some(text) = data.tables.get(number).or(data.tables.last()) {
                text.write_into(table);
            }
            assert!(
                !table.caption.is_empty()
                    && table.rows.iter().all(|row| row.len() == table.header.len()),
                "figure {} has no texts of table {number}",
                data.id
            );
        }
        for (id, _) in &found.values {
            assert!(
                data.statements.iter().any(|statement| statement.id == *id),
                "figure {} has no statement `{id}`",
                data.id
            );
        }
        let rows = found.rows.iter().map(|(row, ours)| Comparison::new(data, row, Some(*ours)));
        let comparisons = data
            .statements
            .iter()
            .map(|statement| {
                let ours = found.values.iter().find(|(id, _)| *id == statement.id);
                Comparison::new(data, statement, ours.map(|(_, value)| *value))
            })
            .chain(rows)
            .collect();
        Self { data: data.clone(), comparisons, found }
    }
}

impl Comparison {
    /// Judges one statement, and explains it if ours disagrees.
    #[must_use]
    pub fn new(data: &FigureData, statement: &Statement, ours: Option<f64>) -> Self {
        let ours = ours.filter(|value| value.is_finite());
        let verdict = ours.and_then(|ours| Agreement::of(statement, ours));
        let scale = match statement.test {
            Some(Test::Ratio(scale)) => Some(scale),
            _ => None,
        };
        let mut note = statement.place.clone();
        if verdict.is_some_and(Agreement::misses)
            && let Some(why) = statement.explanation.as_ref().or(data.explanation.as_ref())
        {
            note = format!("{note}. {why}");
        }
        Self {
            item: statement.item.clone(),
            figure: data.id.clone(),
            quantity: statement.quantity.clone(),
            paper: statement.paper.clone(),
            ours,
            unit: statement.unit.clone(),
            kind: statement.kind,
            decided_by: statement.decided_by.clone(),
            ratio: scale.zip(ours).map(|(scale, ours)| scale.ratio(ours)),
            band: scale.map(|scale| scale.band.ends()),
            verdict,
            note,
        }
    }
}

/// `results.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Results {
    /// The `version` of memweir and, of a command, its `arguments`; the version alone in files of
    /// earlier versions.
    pub memweir: serde_json::Value,
    /// Numbers of comparisons that agree, by kind.
    pub score: Score,
    /// The paper, as the command calls it.
    pub paper: String,
    /// Effort of the run.
    pub effort: Effort,
    /// Requested figures that are not done.
    pub missing: Vec<String>,
    /// The comparisons, in the order of the report.
    pub comparisons: Vec<Comparison>,
}

impl Results {
    /// The same values, judged by the rules of `suite`. The comparisons of a figure are its
    /// statements in their order; those after them, the rows of its tables, stay as they are.
    #[must_use]
    pub fn judged_by(&self, suite: &Suite) -> Self {
        let mut place: HashMap<&str, usize> = HashMap::new();
        let mut judged = |line: &Comparison| {
            let figure = suite.figures.iter().find(|figure| figure.id == line.figure)?;
            let place = place.entry(&figure.id).or_default();
            let statement = figure.statements.get(*place)?;
            *place += 1;
            Some(Comparison::new(figure, statement, line.ours))
        };
        let comparisons: Vec<Comparison> = self
            .comparisons
            .iter()
            .map(|line| judged(line).unwrap_or_else(|| line.clone()))
            .collect();
        Self { score: Score::of(comparisons.iter()), comparisons, ..self.clone() }
    }

    /// The file's text.
    #[must_use]
    pub fn json(&self) -> String {
        // Strings and finite numbers can always be written.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}

impl Report {
    /// A report without any finished figure.
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

    /// Numbers of comparisons that agree, by kind.
    #[must_use]
    pub fn score(&self) -> Score {
        Score::of(self.comparisons())
    }

    /// The content of `results.json`.
    #[must_use]
    pub fn results(&self) -> Results {
        Results {
            memweir: serde_json::json!({ "version": env!("CARGO_PKG_VERSION") }),
            score: self.score(),
            paper: self.paper.name.clone(),
            effort: self.effort,
            missing: self.missing.clone(),
            comparisons: self.comparisons().cloned().collect(),
        }
    }

    /// `results.json` as text.
    #[must_use]
    pub fn json(&self) -> String {
        self.results().json()
    }

    /// The items of which a part, or everything, is not for a simulation, with the reason.
    pub fn elsewhere(&self) -> impl Iterator<Item = (&Item, &str)> {
        self.paper.items.iter().filter_map(|item| Some((item, item.elsewhere.as_deref()?)))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::source::{Band, Rule, Scale, Source};

    /// A figure with one statement, whose effect is 3.1.
    pub(crate) fn data() -> FigureData {
        let scale = Scale { band: Band::Effect, from: 0.0, paper: 3.1 };
        FigureData {
            file: ("figure.toml", ""),
            id: "9".to_owned(),
            title: "Targets & <bars>".to_owned(),
            place: "section 5.3".to_owned(),
            says: "It gains.".to_owned(),
            method: "Simulated with `os`.".to_owned(),
            given: Some("433.milc fluctuates as section 2.2 says.".to_owned()),
            explanation: Some("The bus is simulated.".to_owned()),
            parameters: toml::Table::new(),
            statements: vec![statement(Kind::Magnitude, Some(Test::Ratio(scale)))],
            rows: Vec::new(),
            plots: Vec::new(),
            tables: Vec::new(),
        }
    }

    /// The statement with another kind and test.
    pub(crate) fn statement(kind: Kind, test: Option<Test>) -> Statement {
        Statement {
            id: "mean".to_owned(),
            item: "X15".to_owned(),
            quantity: "mean improvement".to_owned(),
            paper: Value::Number(3.1),
            unit: "%".to_owned(),
            place: "section 5.3".to_owned(),
            kind,
            decided_by: None,
            test,
            explanation: None,
        }
    }

    fn paper() -> Paper {
        Paper {
            name: "iabw".to_owned(),
            title: String::new(),
            authors: String::new(),
            venue: String::new(),
            source: Source::default(),
            items: Vec::new(),
        }
    }

    fn with(value: Option<f64>) -> Comparison {
        let values = value.map(|value| ("mean", value)).into_iter().collect();
        Section::new(&data(), Found { values, ..Found::default() }).comparisons.remove(0)
    }

    #[test]
    fn a_disagreement_carries_its_explanation() {
        // 3.1 / 1.5 is 2.07.
        assert_eq!(with(Some(2.1)).verdict, Some(Agreement::Agrees));
        assert_eq!(with(Some(2.1)).note, "section 5.3");
        for (ours, verdict) in [(2.0, Agreement::SignAlone), (-1.0, Agreement::Differs)] {
            let worse = with(Some(ours));
            assert_eq!(worse.verdict, Some(verdict));
            assert_eq!(worse.note, "section 5.3. The bus is simulated.");
        }
    }

    #[test]
    fn what_could_not_be_told_neither_agrees_nor_disagrees() {
        for value in [None, Some(f64::NAN)] {
            let comparison = with(value);
            assert_eq!((comparison.ours, comparison.ratio, comparison.verdict), (None, None, None));
        }
    }

    /// Two statements of one figure may share their words: "the same, best".
    #[test]
    fn recorded_values_are_judged_anew_in_their_order() {
        let mut figure = data();
        let rule = Rule { at_least: Some(0.0), at_most: None };
        figure.statements.push(statement(Kind::Direction, Some(Test::Range(rule))));
        let suite = Suite { paper: paper(), figures: vec![figure] };
        let old = statement(Kind::Unclaimed, None);
        let line = |ours| Comparison::new(&suite.figures[0], &old, Some(ours));
        let recorded = Results {
            score: Score::default(),
            paper: "iabw".to_owned(),
            memweir: serde_json::Value::Null,
            effort: Effort::Full,
            missing: Vec::new(),
            comparisons: vec![line(3.0), line(-1.0), line(7.0)],
        };
        let judged = recorded.judged_by(&suite).comparisons;
        let kinds = [Kind::Magnitude, Kind::Direction, Kind::Unclaimed];
        assert_eq!([judged[0].kind, judged[1].kind, judged[2].kind], kinds);
        assert_eq!(judged[0].verdict, Some(Agreement::Agrees));
        assert_eq!((judged[1].ours, judged[1].verdict), (Some(-1.0), Some(Agreement::Differs)));
    }

    #[test]
    fn a_range_is_no_ratio() {
        let rule = Rule { at_least: Some(0.0), at_most: None };
        let statement = statement(Kind::Direction, Some(Test::Range(rule)));
        let judged = Comparison::new(&data(), &statement, Some(0.5));
        assert_eq!((judged.ratio, judged.band), (None, None));
        assert_eq!(judged.verdict, Some(Agreement::Agrees));
    }

    #[test]
    fn json_has_the_documented_fields() {
        let suite = Suite { paper: paper(), figures: Vec::new() };
        let mut report = Report::new(&suite, Effort::Full, &["9".to_owned()]);
        report
            .add(Section::new(&data(), Found { values: vec![("mean", 2.5)], ..Found::default() }));
        assert!(report.missing.is_empty());
        let text = report.json();
        assert!(text.starts_with("{\n  \"memweir\": {\n    \"version\""), "{text}");
        assert_eq!(serde_json::from_str::<Results>(&text).unwrap(), report.results());
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        let line = json["comparisons"][0].as_object().unwrap();
        let mut keys: Vec<&String> = line.keys().collect();
        keys.sort();
        let documented = [
            "band",
            "decided_by",
            "figure",
            "item",
            "kind",
            "note",
            "ours",
            "paper",
            "quantity",
            "ratio",
            "unit",
            "verdict",
        ];
        assert_eq!(keys, documented.iter().collect::<Vec<_>>());
        assert_eq!((&line["paper"], &line["ours"]), (&3.1.into(), &2.5.into()));
        assert_eq!((&line["kind"], &line["verdict"]), (&"magnitude".into(), &"agrees".into()));
    }
}
