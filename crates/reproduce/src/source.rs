//! The data files under `experiments/`: the statements of a paper, their places, and the parameters
//! with which memweir repeats them.
//!
//! The files are compiled in; their content is checked when they are read, so that a wrong key in a
//! changed one is refused with its line.

use std::collections::HashSet;
use std::mem;

use memweir_core::input::{Document, InputError};
use memweir_plot::Panel;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::report::{Plot, Table};

/// A file of a suite: its name below `experiments/`, and its text.
pub type File = (&'static str, &'static str);

/// Compiles in a [`File`].
macro_rules! file {
    ($name:literal) => {
        ($name, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/experiments/", $name)))
    };
}

pub(crate) use file;

/// A paper, and the treatment of each of its items.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// Name of the paper on the command line.
    pub name: String,
    /// Its title.
    pub title: String,
    /// Its authors.
    pub authors: String,
    /// Place of its publication.
    pub venue: String,
    /// Origin of the statements.
    #[serde(default)]
    pub source: Source,
    /// Its items, in the order of their numbers.
    #[serde(rename = "item")]
    pub items: Vec<Item>,
}

/// Origin of the statements with which results are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// A paper prints them.
    #[default]
    Paper,
    /// They are goals of memweir's own.
    Goals,
}

impl Source {
    /// Heading of a column of statements.
    #[must_use]
    pub const fn heading(self) -> &'static str {
        match self {
            Self::Paper => "Paper",
            Self::Goals => "Goal",
        }
    }

    /// Heading of the text of a figure.
    #[must_use]
    pub const fn says(self) -> &'static str {
        match self {
            Self::Paper => "The paper says",
            Self::Goals => "The question",
        }
    }
}

/// One thing that the paper defines, measures or claims, under the number that it has everywhere in
/// memweir.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// `X1` to `X15`, `H1` to `H12`, `B1` to `B13`, `D1` to `D10`; `M1` to `M5` of memweir's own.
    pub id: String,
    /// Description of the item.
    pub what: String,
    /// The figures of this report that show it.
    #[serde(default)]
    pub figures: Vec<String>,
    /// Reason for which a part of it, or all of it, is not for a simulation, and the place of that
    /// part.
    pub elsewhere: Option<String>,
}

/// A figure, table or equation of the paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FigureData {
    /// The file that these are the contents of.
    #[serde(skip)]
    pub file: File,
    /// Name of the figure for `--figure`: `9`, `1b`, `table1`.
    pub id: String,
    /// Content of the figure.
    pub title: String,
    /// Place of the figure in the paper.
    pub place: String,
    /// Statements of the paper, in a few sentences.
    pub says: String,
    /// Method of memweir's own values.
    pub method: String,
    /// Properties that a program was given because this figure speaks of them.
    pub given: Option<String>,
    /// Reason for which ours differs; shown with every statement of the figure that disagrees and
    /// has no explanation of its own.
    pub explanation: Option<String>,
    /// Parameters of the runs, which the figure's own code reads.
    #[serde(default)]
    pub parameters: toml::Table,
    /// Statements that can be compared.
    #[serde(default, rename = "statement")]
    pub statements: Vec<Statement>,
    /// Statements about the rows of a table, each for many rows.
    #[serde(default, rename = "row")]
    pub rows: Vec<RowStatement>,
    /// Texts of the drawings; the last one serves all further drawings.
    #[serde(default, rename = "plot")]
    pub plots: Vec<PlotText>,
    /// Texts of the tables; the last one serves all further tables.
    #[serde(default, rename = "table")]
    pub tables: Vec<TableText>,
}

/// The texts of a drawing. In each of them, `{}` stands for what the figure's code gives.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlotText {
    /// Content of the drawing.
    caption: String,
    /// Of the panels, from top to bottom; the last one serves all further panels.
    #[serde(default, rename = "panel")]
    panels: Vec<PanelText>,
}

/// The texts of a panel.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct PanelText {
    title: String,
    x_label: String,
    y_label: String,
    /// Names in the legend.
    series: Vec<String>,
}

impl PlotText {
    pub(crate) fn write_into(&self, plot: &mut Plot) {
        let write = |text: &mut String, template: &String| {
            if !template.is_empty() {
                *text = template.replace("{}", text);
            }
        };
        write(&mut plot.caption, &self.caption);
        for (number, panel) in plot.figure.panels.iter_mut().enumerate() {
            let Some(text) = self.panels.get(number).or(self.panels.last()) else { continue };
            let (title, x_label, y_label, names): (_, _, _, Vec<&mut String>) = match panel {
                Panel::Chart(chart) => {
                    let names = chart.series.iter_mut().map(|series| &mut series.name);
                    (&mut chart.title, &mut chart.x_label, &mut chart.y_label, names.collect())
                }
                Panel::Bars(bars) => {
                    let names = bars.sets.iter_mut().map(|set| &mut set.name);
                    (&mut bars.title, &mut bars.x_label, &mut bars.y_label, names.collect())
                }
                Panel::Lanes(_) | Panel::Grid(_) => continue,
            };
            write(title, &text.title);
            write(x_label, &text.x_label);
            write(y_label, &text.y_label);
            names.into_iter().zip(&text.series).for_each(|(name, text)| write(name, text));
        }
    }
}

/// The texts of a table.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableText {
    /// Content of the table; `{}` stands for what the figure's code gives.
    caption: String,
    /// Names of the columns. One with `{}` stands for a column for each name that the code gives.
    header: Vec<String>,
}

impl TableText {
    pub(crate) fn write_into(&self, table: &mut Table) {
        table.caption = self.caption.replace("{}", &table.caption);
        let given = mem::take(&mut table.header);
        let columns = |text: &String| match text.contains("{}") {
            true => given.iter().map(|name| text.replace("{}", name)).collect(),
            false => vec![text.clone()],
        };
        table.header = self.header.iter().flat_map(columns).collect();
    }
}

/// One comparable statement of the paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "Written")]
pub struct Statement {
    /// Name of the statement in the figure's code.
    pub id: String,
    /// The item that it belongs to.
    pub item: String,
    /// The compared quantity.
    pub quantity: String,
    /// The paper's value, or its words where it prints none.
    pub paper: Value,
    /// Unit of both values; empty for a pure number.
    pub unit: String,
    /// Place of the statement in the paper.
    pub place: String,
    /// Kind of evidence that a match would be.
    pub kind: Kind,
    /// Input, model or constant that decides the comparison instead of the simulation; for a
    /// repeated one, the place where it is judged.
    pub decided_by: Option<String>,
    /// Test of ours; absent where nothing is judged.
    pub test: Option<Test>,
    /// Reason for which ours does not pass, if it does not.
    pub explanation: Option<String>,
}

/// Evidence that a match with the paper carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The size of an effect or of a level that the paper prints: [`Band`].
    Magnitude,
    /// The sign or the order that the paper states: [`Rule`].
    Direction,
    /// None: our workload or device was made to match.
    Input,
    /// None: the model can give nothing else.
    Construction,
    /// None: a constant that we chose decides it.
    Assumed,
    /// None: another comparison judges the same claim.
    Repeated,
    /// None: the paper claims nothing here.
    Unclaimed,
}

memweir_core::named! {
    pub Kind, "kind":
    Magnitude = "magnitude",
    Direction = "direction",
    Input = "input",
    Construction = "construction",
    Assumed = "assumed",
    Repeated = "repeated",
    Unclaimed = "unclaimed",
}

impl Kind {
    /// One sentence that explains it to a reader.
    #[must_use]
    pub fn meaning(self) -> String {
        match self {
            Self::Magnitude => format!(
                "The paper prints the size. Ours agrees within a factor of {} if it is an effect, \
                 {} if it is a level. The ratio of effects is that of their distances from the \
                 value without one, such as 1 x.",
                Band::Effect.factor(),
                Band::Level.factor(),
            ),
            Self::Direction => "The paper states a sign, an order or a bound.".to_owned(),
            Self::Input => "Our workload or device was made to match: no evidence.".to_owned(),
            Self::Construction => "The model can give nothing else: no evidence.".to_owned(),
            Self::Assumed => "A constant that we chose decides it: no evidence.".to_owned(),
            Self::Repeated => "Another comparison judges the same claim.".to_owned(),
            Self::Unclaimed => "The paper claims nothing here.".to_owned(),
        }
    }

    /// Returns true if a match counts as agreement.
    #[must_use]
    pub const fn is_evidence(self) -> bool {
        matches!(self, Self::Magnitude | Self::Direction)
    }
}

/// Test that ours has to pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Test {
    /// Ours lies in a range.
    Range(Rule),
    /// Ours over the paper's lies in a band.
    Ratio(Scale),
}

/// Scale for the comparison of ours with a number of the paper.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// Band within which the two agree.
    pub band: Band,
    /// The value that both have without any effect.
    pub from: f64,
    /// The paper's value.
    pub paper: f64,
}

/// Band of the ratio ours / paper. There is one for effects and one for levels, so that no
/// comparison has a band of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Band {
    /// A gain, a loss or a difference: a factor of 1.5 either way. The papers' own samples of one
    /// effect are that far apart: iabw gains 3.4 % on SPEC and 4.9 % on NPB, bpm 4.1 % with four
    /// programs and 5.3 % with eight, and direct read spares 50 to 75 % by group in drswap.
    Effect,
    /// A rate, a time or a share: a factor of 1.1 either way. iabw's two measurements of its peak
    /// (38.2 and 40) are 5 % apart, and it calls 24 of 38.2, or of 40, "about 2/3": 6 and 11 %.
    Level,
}

impl Band {
    /// The largest factor between ours and the paper's.
    #[must_use]
    pub const fn factor(self) -> f64 {
        match self {
            Self::Effect => 1.5,
            Self::Level => 1.1,
        }
    }

    /// Lower and upper end of the ratio ours / paper.
    #[must_use]
    pub const fn ends(self) -> [f64; 2] {
        [1.0 / self.factor(), self.factor()]
    }
}

impl Scale {
    /// Ours over the paper's, both counted from the value without an effect.
    #[must_use]
    pub fn ratio(&self, ours: f64) -> f64 {
        (ours - self.from) / (self.paper - self.from)
    }

    /// Returns true if the ratio lies in the band, whose ends belong to it.
    #[must_use]
    pub fn holds(&self, ours: f64) -> bool {
        let [low, high] = self.band.ends();
        (low..=high).contains(&self.ratio(ours))
    }

    /// Returns true if ours is an effect in the paper's direction. A level has no direction.
    #[must_use]
    pub fn has_sign(&self, ours: f64) -> bool {
        self.band == Band::Effect && self.ratio(ours) > 0.0
    }
}

/// A statement about any row of a table. In its quantity, `{}` stands for the name of the row.
#[derive(Clone, Debug, Deserialize)]
pub struct RowStatement(Written);

impl RowStatement {
    /// Returns the statement about one row, with the paper's value of it if it is not that of all.
    ///
    /// # Errors
    /// If the file has no value, test or kind that fit each other.
    fn about(&self, name: &str, paper: Option<f64>) -> Result<Statement, String> {
        let quantity = self.0.quantity.replace("{}", name);
        let paper = paper.map(Value::Number).or(self.0.paper.clone());
        Written { quantity, paper, ..self.0.clone() }.try_into()
    }
}

/// A statement as it is in its file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    id: String,
    item: String,
    quantity: String,
    paper: Option<Value>,
    unit: String,
    place: String,
    kind: Kind,
    decided_by: Option<String>,
    agrees: Option<Rule>,
    band: Option<Band>,
    from: Option<f64>,
    explanation: Option<String>,
}

impl TryFrom<Written> for Statement {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let test = written.test()?;
        let name = written.kind.name();
        let decided = !matches!(written.kind, Kind::Magnitude | Kind::Direction | Kind::Unclaimed);
        if decided != written.decided_by.is_some() {
            let wants = if decided { "needs" } else { "takes no" };
            return Err(format!("`decided_by`: kind `{name}` {wants} `decided_by`"));
        }
        let fits = match written.kind {
            Kind::Magnitude => matches!(test, Some(Test::Ratio(_))),
            Kind::Direction => matches!(test, Some(Test::Range(_))),
            Kind::Input | Kind::Construction | Kind::Assumed => true,
            Kind::Repeated | Kind::Unclaimed => test.is_none(),
        };
        if !fits {
            let wants = match written.kind {
                Kind::Magnitude => "needs `band` and no `agrees`",
                Kind::Direction => "needs `agrees` and no `band`",
                _ => "takes neither `agrees` nor `band`",
            };
            return Err(format!("`kind`: `{name}` {wants}"));
        }
        Ok(Self {
            id: written.id,
            item: written.item,
            quantity: written.quantity,
            paper: written.paper.ok_or("missing field `paper`")?,
            unit: written.unit,
            place: written.place,
            kind: written.kind,
            decided_by: written.decided_by,
            test,
            explanation: written.explanation,
        })
    }
}

impl Written {
    fn test(&self) -> Result<Option<Test>, String> {
        if self.from.is_some() && self.band != Some(Band::Effect) {
            return Err("`from`: only the band `effect` is counted from a value".to_owned());
        }
        match (self.agrees, self.band) {
            (Some(_), Some(_)) => Err("`band`: a statement has `agrees` or `band`".to_owned()),
            (None, None) => Ok(None),
            (Some(Rule { at_least: None, at_most: None }), None) => {
                Err("`agrees`: a range needs `at_least` or `at_most`".to_owned())
            }
            (Some(rule), None) => Ok(Some(Test::Range(rule))),
            (None, Some(band)) => {
                let from = self.from.unwrap_or(0.0);
                match self.paper {
                    Some(Value::Number(paper)) if paper != from => {
                        Ok(Some(Test::Ratio(Scale { band, from, paper })))
                    }
                    _ => Err("`band`: the paper prints no number to compare with".to_owned()),
                }
            }
        }
    }
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
    /// Returns true if `value` lies in the range.
    #[must_use]
    pub fn holds(&self, value: f64) -> bool {
        self.at_least.is_none_or(|low| value >= low)
            && self.at_most.is_none_or(|high| value <= high)
    }
}

/// Content of a paper's data files.
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
    /// If a file is invalid, two figures or two statements of one figure share a name, or something
    /// names a figure or an item that does not exist.
    pub fn read(paper: File, figures: &[File]) -> Result<Self, InputError> {
        let figure = |file: &File| Ok(FigureData { file: *file, ..parse(*file)? });
        let figures = figures.iter().map(figure).collect::<Result<_, _>>()?;
        let suite = Self { paper: parse(paper)?, figures };
        suite.check(paper.0)?;
        Ok(suite)
    }

    /// Returns the figure with this identifier.
    ///
    /// # Errors
    /// If the paper has none.
    pub fn figure(&self, id: &str) -> Result<&FigureData, InputError> {
        let found = self.figures.iter().find(|figure| figure.id == id);
        found.ok_or_else(|| InputError::new(&self.paper.name, format!("no figure `{id}`")))
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
            }
            for row in &figure.rows {
                // It differs from any value that effects are counted from, as the paper's must.
                if let Err(reason) = row.about("", Some(f64::NAN)) {
                    return refuse(format!("figure {}: row `{}`: {reason}", figure.id, row.0.id));
                }
            }
            let rows = figure.rows.iter().map(|RowStatement(row)| &row.item);
            let named = figure.statements.iter().map(|statement| &statement.item).chain(rows);
            for name in named {
                if !self.paper.items.iter().any(|item| item.id == *name) {
                    return refuse(format!("figure {}: no item `{name}`", figure.id));
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
    /// Returns a statement about one row of a table, with the paper's value of it if the file has
    /// none.
    ///
    /// # Panics
    /// If the file has no such statement: a mistake of memweir's own.
    pub(crate) fn row(&self, id: &str, name: &str, paper: Option<f64>) -> Statement {
        let found = self.rows.iter().find(|RowStatement(row)| row.id == id);
        let statement = found.map(|row| row.about(name, paper));
        match statement {
            Some(Ok(statement)) => statement,
            wrong => panic!("figure {}: row `{id}`: {wrong:?}", self.id),
        }
    }

    /// The parameters as the type that the figure's code needs.
    ///
    /// # Errors
    /// If one is missing, unknown, or of the wrong type; with its line.
    pub fn parameters<T: DeserializeOwned>(&self) -> Result<T, InputError> {
        #[derive(Deserialize)]
        struct Parameters<T> {
            parameters: T,
        }
        parse::<Parameters<T>>(self.file).map(|figure| figure.parameters)
    }
}

/// Reads the text of a data file.
///
/// # Errors
/// If it is no TOML, or a key is missing, unknown, or of the wrong type; with its line.
pub fn parse<T: DeserializeOwned>((name, text): File) -> Result<T, InputError> {
    Document { name, text }.deserialize().map_err(keyed)
}

/// Names the key in a refusal, where the message of the parser or of [`Written`] does.
fn keyed(refusal: InputError) -> InputError {
    let named = ["missing field `", "unknown field `", "`"]
        .iter()
        .find_map(|start| refusal.reason.strip_prefix(start)?.split_once('`'));
    let Some((key, rest)) = named.map(|(key, rest)| (key.to_owned(), rest.to_owned())) else {
        return refusal;
    };
    match refusal.reason.starts_with('`') {
        true => InputError { reason: rest.trim_start_matches(": ").to_owned(), ..refusal }.key(key),
        false => refusal.key(key),
    }
}

#[cfg(test)]
mod tests {
    use memweir_plot::Bars;

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
    fn the_texts_of_a_drawing_frame_what_the_code_gives() {
        let plot = "[[plot]]\ncaption = 'Mix {}.'\n[[plot.panel]]\ntitle = 'mix {}'\n\
                    y_label = '%'\nseries = ['with', 'without']\n";
        let suite = read(&format!("{PAPER}item = []\n"), &[&format!("{FIGURE}{plot}")]).unwrap();
        let data = &suite.figures[0];
        let bars = |title: &str| {
            let sets = ["", ""].map(|name| (name, vec![1.0]));
            Bars { title: title.to_owned(), ..Bars::of(["x"], sets) }
        };
        let mut drawn = Plot::of([bars("a"), bars("b")]).captioned("3");
        data.plots[0].write_into(&mut drawn);
        assert_eq!(drawn.caption, "Mix 3.");
        for (panel, title) in drawn.figure.panels.iter().zip(["mix a", "mix b"]) {
            let Panel::Bars(bars) = panel else { panic!("bars") };
            let names: Vec<&str> = bars.sets.iter().map(|set| set.name.as_str()).collect();
            assert_eq!((bars.title.as_str(), bars.y_label.as_str()), (title, "%"));
            assert_eq!((bars.x_label.as_str(), names), ("", vec!["with", "without"]));
        }
    }

    #[test]
    fn the_texts_of_a_table_frame_what_the_code_gives() {
        let table =
            "[[table]]\ncaption = 'Times, {}.'\nheader = ['mix', '{} (s)', 'OS', '{} sd']\n";
        let suite = read(&format!("{PAPER}item = []\n"), &[&format!("{FIGURE}{table}")]).unwrap();
        let mut table = Table::of([]).captioned("2 GiB").columns(["a", "b"]);
        suite.figures[0].tables[0].write_into(&mut table);
        assert_eq!(table.caption, "Times, 2 GiB.");
        assert_eq!(table.header, ["mix", "a (s)", "b (s)", "OS", "a sd", "b sd"]);
    }

    /// The statement of a figure, with the keys under test at its end.
    fn statement(keys: &str) -> Result<Suite, InputError> {
        let item = format!("{PAPER}[[item]]\nid = 'X1'\nwhat = 'w'\nfigures = ['1']\n");
        let statement = "[[statement]]\nid = 'a'\nitem = 'X1'\nquantity = 'q'\n\
                         unit = ''\nplace = 'p'\n";
        read(&item, &[&format!("{FIGURE}{statement}{keys}")])
    }

    #[test]
    fn a_comparison_without_a_kind_is_refused_with_file_line_and_key() {
        let error = statement("paper = 1.0\nagrees = { at_least = 0.0 }\n").unwrap_err();
        assert_eq!((error.source_name.as_str(), error.line), ("figure.toml", Some(6)));
        assert_eq!(error.key.as_deref(), Some("kind"), "{error}");
        let unknown = statement("paper = 1.0\nkind = 'sign'\n").unwrap_err();
        assert_eq!(unknown.line, Some(13), "{unknown}");
        assert!(unknown.reason.contains("`magnitude`, `direction`"), "{unknown}");
    }

    #[test]
    fn a_kind_wants_its_own_keys() {
        let rule = "agrees = { at_least = 0.0 }\n";
        for (keys, key) in [
            ("paper = 1.0\nkind = 'magnitude'\n".to_owned(), "kind"),
            (format!("paper = 1.0\nkind = 'magnitude'\n{rule}"), "kind"),
            ("paper = 'words'\nkind = 'magnitude'\nband = 'effect'\n".to_owned(), "band"),
            ("paper = 0.0\nkind = 'magnitude'\nband = 'effect'\n".to_owned(), "band"),
            ("paper = 2.0\nkind = 'magnitude'\nband = 'level'\nfrom = 1.0\n".to_owned(), "from"),
            ("paper = 1.0\nkind = 'direction'\nband = 'effect'\n".to_owned(), "kind"),
            ("paper = 1.0\nkind = 'direction'\nagrees = {}\n".to_owned(), "agrees"),
            (format!("paper = 1.0\nkind = 'direction'\n{rule}band = 'effect'\n"), "band"),
            (format!("paper = 1.0\nkind = 'direction'\n{rule}decided_by = 'us'\n"), "decided_by"),
            ("paper = 1.0\nkind = 'assumed'\n".to_owned(), "decided_by"),
            (format!("paper = 1.0\nkind = 'unclaimed'\n{rule}"), "kind"),
        ] {
            let error = statement(&keys).expect_err(&keys);
            assert_eq!(error.key.as_deref(), Some(key), "{keys}{error}");
            assert_eq!(error.line, Some(6), "{error}");
        }
        let effect = "paper = 92\nkind = 'magnitude'\nband = 'effect'\nfrom = 100\n";
        let suite = statement(effect).unwrap();
        let scale = Scale { band: Band::Effect, from: 100.0, paper: 92.0 };
        assert_eq!(suite.figures[0].statements[0].test, Some(Test::Ratio(scale)));
        assert!(statement("paper = 1.0\nkind = 'input'\ndecided_by = 'us'\n").is_ok());
    }

    #[test]
    fn a_statement_about_rows_takes_their_name_and_the_papers_value() {
        let item = format!("{PAPER}[[item]]\nid = 'X1'\nwhat = 'w'\nfigures = ['1']\n");
        let row = "[[row]]\nid = 'a'\nitem = 'X1'\nquantity = 'gain of {}'\nunit = '%'\n\
                   place = 'p'\nkind = 'input'\nband = 'level'\n";
        let refused = read(&item, &[&format!("{FIGURE}{row}")]).unwrap_err();
        assert!(
            refused.reason.contains("row `a`") && refused.reason.contains("needs `decided_by`")
        );
        let suite = read(&item, &[&format!("{FIGURE}{row}decided_by = 'us'\n")]).unwrap();
        let statement = suite.figures[0].row("a", "milc", Some(7.0));
        assert_eq!(
            (statement.quantity.as_str(), &statement.paper),
            ("gain of milc", &Value::Number(7.0))
        );
        let scale = Scale { band: Band::Level, from: 0.0, paper: 7.0 };
        assert_eq!(statement.test, Some(Test::Ratio(scale)));
        let effect = row.replace("'input'\nband = 'level'", "'magnitude'\nband = 'effect'");
        assert!(read(&item, &[&format!("{FIGURE}{effect}from = 1.0\n")]).is_ok());
    }

    #[test]
    fn names_that_lead_nowhere_are_refused() {
        let item = |rest: &str| format!("{PAPER}[[item]]\nid = 'X1'\nwhat = 'w'\n{rest}");
        let reason = |paper: &str, figures: &[&str]| read(paper, figures).unwrap_err().reason;
        assert!(reason(&item("figures = ['2']"), &[FIGURE]).contains("no figure `2`"));
        assert!(reason(&item(""), &[FIGURE]).contains("neither shown nor elsewhere"));
        assert!(reason(&item("figures = ['1']"), &[FIGURE, FIGURE]).contains("two figures"));
        let statement = "[[statement]]\nid = 'a'\nitem = 'X9'\nquantity = 'q'\npaper = 1.0\n\
                         unit = ''\nplace = 'p'\nkind = 'unclaimed'\n";
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
        assert_eq!((error.source_name.as_str(), error.line), ("figure.toml", Some(7)));
        assert_eq!(error.key.as_deref(), Some("pionts"), "{error}");
    }
}
