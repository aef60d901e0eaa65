//! The report as one HTML file that needs nothing else: no network, no script, no other file.
//!
//! It is written as XML that browsers read as HTML, so that a test can hold it against a parser.
//! A string takes everything that is written to it.

use std::fmt::{self, Write as _};

use memweir_core::names::Named;
use memweir_plot::PlotError;

use crate::report::{Comparison, Effort, Plot, Report, Section, Table};
use crate::score::{Agreement, Score};
use crate::source::{Kind, Paper, Source, Value};

const STYLE: &str = include_str!("html/style.css");

/// The whole report.
///
/// # Errors
/// If a drawing cannot be made.
pub fn page(report: &Report) -> Result<String, PlotError> {
    let mut html = String::new();
    let paper = &report.paper;
    let _ = writeln!(
        html,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <title>{name}, reproduced</title>\n<style>\n{STYLE}</style>\n</head>\n<body>",
        name = Text(&paper.name)
    );
    head(&mut html, report);
    contents(&mut html, report);
    for each in &report.sections {
        section(&mut html, each, report.paper.source)?;
    }
    elsewhere(&mut html, report);
    html.push_str("</body>\n</html>\n");
    Ok(html)
}

/// Text with the characters of markup escaped.
struct Text<'a>(&'a str);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|character| match character {
            '&' => f.write_str("&amp;"),
            '<' => f.write_str("&lt;"),
            '>' => f.write_str("&gt;"),
            '"' => f.write_str("&quot;"),
            other => f.write_char(other),
        })
    }
}

/// Text in which names between backticks are set as code.
struct Prose<'a>(&'a str);

impl fmt::Display for Prose<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some((before, code, after)) = coded(rest) {
            write!(f, "{}<code>{}</code>", Text(before), Text(code))?;
            rest = after;
        }
        Text(rest).fmt(f)
    }
}

/// The text before the first name between backticks, the name, and the text behind it.
fn coded(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once('`')?;
    let (code, after) = rest.split_once('`')?;
    Some((before, code, after))
}

fn head(html: &mut String, report: &Report) {
    let paper = &report.paper;
    let score = report.score();
    let text = score.to_string();
    let (lead, rest) = text.split_once(". ").unwrap_or((text.trim_end_matches('.'), ""));
    let _ = writeln!(
        html,
        "<header>\n<h1>{}</h1>\n<p>{}: <cite>{}</cite>, {}.</p>\n\
         <p><strong>{lead}.</strong> {rest}</p>",
        Text(&title(paper)),
        Text(&paper.authors),
        Text(&paper.title),
        Text(&paper.venue)
    );
    kinds(html, &score);
    let _ = writeln!(
        html,
        "<p>Simulated by memweir {} with the policies that also run live.</p>",
        env!("CARGO_PKG_VERSION")
    );
    if report.effort == Effort::Quick {
        let precision = Prose(&report.precision);
        let _ = writeln!(html, "<p class=\"unfinished\">A quick run: {precision}</p>");
    }
    if !report.missing.is_empty() {
        let missing = report.missing.join(", ");
        let _ = writeln!(html, "<p class=\"unfinished\">Not done yet: {}</p>", Text(&missing));
    }
    html.push_str("</header>\n");
}

/// Returns the heading of the page.
fn title(paper: &Paper) -> String {
    match paper.source {
        Source::Paper => format!("{} reproduced", paper.name),
        Source::Goals => paper.title.clone(),
    }
}

/// Writes the kinds of comparisons, and the number of each verdict.
fn kinds(html: &mut String, score: &Score) {
    html.push_str(
        "<div class=\"table\"><table>\n<thead><tr><th>Kind</th><th class=\"number\">Agree</th>\
         <th class=\"number\">Sign alone</th><th class=\"number\">Differ</th>\
         <th class=\"number\">Match, no evidence</th><th class=\"number\">Not judged</th>\
         <th>Meaning</th></tr></thead>\n<tbody>\n",
    );
    for &kind in Kind::ALL {
        let tally = score.kind(kind);
        let _ = write!(html, "<tr><td>{}</td>", kind.name());
        let counts = [tally.agree, tally.sign_alone, tally.differ, tally.no_evidence, tally.open];
        for count in counts {
            let _ = write!(html, "<td class=\"number\">{count}</td>");
        }
        let _ = writeln!(html, "<td class=\"note\">{}</td></tr>", Text(&kind.meaning()));
    }
    html.push_str("</tbody>\n</table></div>\n");
}

fn contents(html: &mut String, report: &Report) {
    html.push_str("<nav>\n<h2>Contents</h2>\n<ol>\n");
    for section in &report.sections {
        let _ = writeln!(
            html,
            "<li><a href=\"#figure-{}\">{}</a> <span class=\"tally\">{}</span></li>",
            Text(&section.data.id),
            Prose(&format!("{}: {}", label(&section.data.id), section.data.title)),
            tally(&Score::of(section.comparisons.iter()))
        );
    }
    html.push_str("<li><a href=\"#elsewhere\">Not by this engine</a></li>\n</ol>\n</nav>\n");
}

/// Number of the judged comparisons of a section that agree, in words.
fn tally(score: &Score) -> String {
    match score.judged() {
        0 => String::new(),
        judged => format!("{} of {judged} agree", score.agree()),
    }
}

/// `Figure 9`, but `Table 1` and `Equation 7`.
#[must_use]
pub fn label(id: &str) -> String {
    if let Some(number) = id.strip_prefix("table") {
        format!("Table {number}")
    } else if let Some(number) = id.strip_prefix("eq") {
        format!("Equation ({number})")
    } else if id.starts_with(|first: char| first.is_ascii_digit()) {
        format!("Figure {id}")
    } else {
        let mut letters = id.chars();
        letters
            .next()
            .map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
    }
}

fn section(html: &mut String, section: &Section, source: Source) -> Result<(), PlotError> {
    let data = &section.data;
    let _ = writeln!(
        html,
        "<section id=\"figure-{}\">\n<h2>{}</h2>\n<dl>\n<dt>{}</dt><dd>{} \
         <span class=\"soft\">({})</span></dd>\n<dt>Here</dt><dd>{}</dd>",
        Text(&data.id),
        Prose(&format!("{}: {}", label(&data.id), data.title)),
        source.says(),
        Prose(&data.says),
        Text(&data.place),
        Prose(&data.method)
    );
    if let Some(given) = &data.given {
        let _ = writeln!(html, "<dt>Made to match</dt><dd>{}</dd>", Prose(given));
    }
    html.push_str("</dl>\n");
    for plot in &section.found.plots {
        draw(html, plot)?;
    }
    let explanation = data.explanation.as_deref();
    comparisons(html, &section.comparisons, explanation, source);
    explain(html, section, explanation);
    for remark in &section.found.remarks {
        let _ = writeln!(html, "<p>{}</p>", Prose(remark));
    }
    for each in &section.found.tables {
        table(html, each);
    }
    html.push_str("</section>\n");
    Ok(())
}

fn draw(html: &mut String, plot: &Plot) -> Result<(), PlotError> {
    let svg = plot.figure.to_svg()?;
    // Inside HTML the name space is known, and the size is that of the page.
    let svg = svg.replacen(" xmlns=\"http://www.w3.org/2000/svg\"", "", 1);
    let label = plot.caption.replace('`', "");
    let opening = format!("<svg role=\"img\" aria-label=\"{}\" ", Text(&label));
    let svg = svg.replacen("<svg ", &opening, 1);
    let caption = Prose(&plot.caption);
    let _ = writeln!(html, "<figure>\n{svg}<figcaption>{caption}</figcaption>\n</figure>");
    Ok(())
}

/// Writes the table of a section. An explanation that the whole section shares stands below it,
/// once.
fn comparisons(
    html: &mut String,
    comparisons: &[Comparison],
    explanation: Option<&str>,
    source: Source,
) {
    if comparisons.is_empty() {
        return;
    }
    let heading = source.heading();
    let _ = writeln!(
        html,
        "<div class=\"table\"><table>\n<thead><tr><th>Item</th><th>Quantity</th>\
         <th class=\"number\">{heading}</th><th class=\"number\">Here</th><th>Unit</th>\
         <th class=\"number\">Ratio</th><th>Kind</th><th>Verdict</th><th>Note</th>\
         </tr></thead>\n<tbody>"
    );
    for line in comparisons {
        let paper = match &line.paper {
            Value::Number(value) => format!("<td class=\"number\">{}</td>", number(*value)),
            Value::Words(words) => format!("<td>{}</td>", Prose(words)),
        };
        let ours = line.ours.map_or_else(|| "–".to_owned(), number);
        let ratio = line.ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"));
        let _ = writeln!(
            html,
            "<tr><td>{}</td><td>{}</td>{paper}<td class=\"number\">{ours}</td><td>{}</td>\
             <td class=\"number\">{ratio}</td><td>{}</td>{}<td class=\"note\">{}{}</td></tr>",
            Text(&line.item),
            Prose(&line.quantity),
            Text(&line.unit),
            line.kind.name(),
            verdict(line.verdict),
            Prose(own_note(line, explanation)),
            decided(line)
        );
    }
    html.push_str("</tbody>\n</table></div>\n");
}

/// The cell of a verdict.
fn verdict(verdict: Option<Agreement>) -> &'static str {
    match verdict {
        Some(Agreement::Agrees) => "<td class=\"yes\">✓ agrees</td>",
        Some(Agreement::SignAlone) => "<td class=\"no\">✗ sign alone</td>",
        Some(Agreement::Differs) => "<td class=\"no\">✗ differs</td>",
        Some(Agreement::NoEvidence) => "<td class=\"soft\">matches</td>",
        None => "<td class=\"soft\">–</td>",
    }
}

/// The input, model or constant that decides a comparison, in its note.
fn decided(line: &Comparison) -> String {
    let Some(by) = &line.decided_by else { return String::new() };
    let verb = if line.kind == Kind::Repeated { "Judged as" } else { "Decided by" };
    format!("<br/>{verb}: {}", Prose(by))
}

/// The note without the explanation that the whole section shares.
fn own_note<'a>(line: &'a Comparison, explanation: Option<&str>) -> &'a str {
    let shared = explanation.and_then(|why| line.note.strip_suffix(why));
    shared.map_or(line.note.as_str(), |own| own.trim_end_matches([' ', '.']))
}

/// The explanation of a section in which something disagrees.
fn explain(html: &mut String, section: &Section, explanation: Option<&str>) {
    let Some(why) = explanation else { return };
    if section.comparisons.iter().any(|line| line.note.ends_with(why)) {
        let _ = writeln!(html, "<p><strong>Why it differs.</strong> {}</p>", Prose(why));
    }
}

/// A number with as many digits as mean something.
#[must_use]
pub fn number(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 1000.0 => 0,
        size if size >= 100.0 => 1,
        size if size >= 1.0 || size == 0.0 => 2,
        size if size >= 0.1 => 3,
        _ => 4,
    };
    let text = format!("{value:.decimals$}");
    // A number that rounds to zero has no sign.
    match text.strip_prefix('-') {
        Some(digits) if digits.chars().all(|c| matches!(c, '0' | '.')) => digits.to_owned(),
        Some(digits) => format!("\u{2212}{digits}"),
        None => text,
    }
}

fn table(html: &mut String, table: &Table) {
    let _ = write!(
        html,
        "<details><summary>{}</summary>\n<div class=\"table\"><table>\n<thead><tr>",
        Prose(&table.caption)
    );
    let class = |column: usize| if column == 0 { "" } else { " class=\"number\"" };
    for (column, name) in table.header.iter().enumerate() {
        let _ = write!(html, "<th{}>{}</th>", class(column), Prose(name));
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for row in &table.rows {
        html.push_str("<tr>");
        for (column, cell) in row.iter().enumerate() {
            let _ = write!(html, "<td{}>{}</td>", class(column), Prose(cell));
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody>\n</table></div></details>\n");
}

fn elsewhere(html: &mut String, report: &Report) {
    html.push_str("<section id=\"elsewhere\">\n<h2>Not by this engine</h2>\n<dl>\n");
    for (item, reason) in report.elsewhere() {
        let _ = writeln!(
            html,
            "<dt>{}</dt><dd>{}: {}</dd>",
            Text(&item.id),
            Prose(&item.what),
            Prose(reason)
        );
    }
    html.push_str("</dl>\n</section>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_mean_something() {
        let texts = [3.1419, -9.8, 38.25, 412.06, 12345.6, 0.0118, -0.0118, 0.0, -0.000_01, 0.63]
            .map(number);
        let expected = [
            "3.14",
            "−9.80",
            "38.25",
            "412.1",
            "12346",
            "0.0118",
            "−0.0118",
            "0.00",
            "0.0000",
            "0.630",
        ];
        assert_eq!(texts, expected);
    }

    #[test]
    fn labels_are_those_of_the_paper() {
        assert_eq!(
            ["9", "1b", "table1", "eq7", "rsd"].map(label),
            ["Figure 9", "Figure 1b", "Table 1", "Equation (7)", "Rsd"]
        );
    }

    #[test]
    fn an_explanation_that_figures_share_stands_once() {
        let data = crate::report::tests::data();
        let values = vec![("mean", -1.0)];
        let found = Section::new(&data, crate::report::Found { values, ..Default::default() });
        let mut page = String::new();
        section(&mut page, &found, Source::Paper).unwrap();
        assert_eq!(page.matches("The bus is simulated.").count(), 1, "{page}");
        assert!(page.contains("<td class=\"note\">section 5.3</td>"), "{page}");
        assert!(found.comparisons[0].note.ends_with("The bus is simulated."));
    }

    #[test]
    fn the_page_leads_with_the_score_and_shows_what_was_given() {
        let data = crate::report::tests::data();
        let values = vec![("mean", 1.0)];
        let found = Section::new(&data, crate::report::Found { values, ..Default::default() });
        let mut page = String::new();
        section(&mut page, &found, Source::Paper).unwrap();
        assert!(page.contains("<dt>Made to match</dt><dd>433.milc fluctuates"), "{page}");
        assert!(
            page.contains("0.32</td><td>magnitude</td><td class=\"no\">✗ sign alone"),
            "{page}"
        );
    }

    #[test]
    fn a_score_of_one_sentence_ends_with_one_period() {
        let data = crate::report::tests::data();
        let values = vec![("mean", 3.0)];
        let found = Section::new(&data, crate::report::Found { values, ..Default::default() });
        let suite = crate::PaperName::Iabw.suite().unwrap();
        let mut report = Report::new(&suite, Effort::Full, &[]);
        report.add(found);
        let mut page = String::new();
        head(&mut page, &report);
        assert!(page.contains("and 0 of 0 directions.</strong>"), "{page}");
    }

    #[test]
    fn names_between_backticks_are_code() {
        assert_eq!(
            Prose("`a<b` and `c`, `open").to_string(),
            "<code>a&lt;b</code> and <code>c</code>, `open"
        );
    }

    #[test]
    fn markup_in_texts_is_text() {
        assert_eq!(Text("a < b & \"c\"").to_string(), "a &lt; b &amp; &quot;c&quot;");
    }
}
