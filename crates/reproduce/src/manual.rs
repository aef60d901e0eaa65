//! Tables of the manual, generated from recorded results.
//!
//! A page marks the place of a table with `<!-- reproduce NAME -->` and `<!-- /reproduce -->`.

use std::fmt::Write as _;

use crate::html::number;
use crate::report::{Comparison, Results};
use crate::score::Agreement;
use crate::source::{Kind, Value};

/// A page of the manual, and the source of its tables by their names.
pub type Page = (&'static str, fn(&[Results], &str) -> Option<String>);

/// The pages that contain generated tables.
pub const PAGES: [Page; 5] = [
    ("README.md", table),
    ("docs/beyond.md", table),
    ("docs/reproduce.md", table),
    ("docs/bpm.md", table),
    ("docs/drswap.md", table),
];

/// Figures whose comparisons no page lists: Table 1 has 35 that were drawn to match, and the page
/// about bpm explains the causes in prose.
const UNLISTED: [&str; 2] = ["table1 iabw", "causes bpm"];

/// Figure of `beyond` over all families.
const SUMMARY: &str = "summary";

/// The text of this name: the table `score` and its short form `summary`, the table `PAPER`, the
/// sentences `PAPER-score`, or of `beyond` the tables `gains` and `goals` and the one by policy.
fn table(results: &[Results], name: &str) -> Option<String> {
    let paper = |name: &str| results.iter().find(|results| results.paper == name);
    match (name, name.strip_suffix("-score")) {
        ("gains", _) => paper("beyond").map(gains),
        ("policies", _) => paper("beyond").map(policies),
        ("goals", _) => paper("beyond").map(goals),
        ("score", _) => Some(scores(results)),
        ("summary", _) => Some(summary(results)),
        (_, Some(name)) => paper(name).map(|results| wrapped(&results.score.to_string())),
        _ => paper(name).map(comparisons),
    }
}

/// A paragraph in lines of at most 100 columns.
fn wrapped(text: &str) -> String {
    let (mut lines, mut column) = (String::new(), 0);
    for word in text.split(' ') {
        let width = word.chars().count();
        if column > 0 && column + 1 + width > 100 {
            (lines, column) = (lines + "\n", 0);
        } else if column > 0 {
            (lines, column) = (lines + " ", column + 1);
        }
        lines.push_str(word);
        column += width;
    }
    lines + "\n"
}

/// The page with every marked table filled in.
///
/// # Errors
/// If a mark has no end or names no table.
pub fn filled(page: Page, text: &str, results: &[Results]) -> Result<String, String> {
    const START: &str = "<!-- reproduce ";
    const END: &str = "<!-- /reproduce -->";
    let (mut rest, mut filled) = (text, String::new());
    while let Some((before, from)) = rest.split_once(START) {
        let unended = || format!("{}: a mark `{START}...` has no `{END}`", page.0);
        let (name, after) = from.split_once(" -->\n").ok_or_else(unended)?;
        let (_, after) = after.split_once(END).ok_or_else(unended)?;
        let table = (page.1)(results, name)
            .ok_or_else(|| format!("{}: there is no table `{name}`", page.0))?;
        let _ = write!(filled, "{before}{START}{name} -->\n{table}{END}");
        rest = after;
    }
    Ok(filled + rest)
}

/// Number of the judged comparisons of each paper that agree.
fn summary(results: &[Results]) -> String {
    let papers = results.iter().filter(|results| results.paper != "beyond");
    let line = |Results { paper, score, .. }: &Results| {
        format!("{paper} {} of {}", score.agree(), score.judged())
    };
    let lines: Vec<String> = papers.map(line).collect();
    format!("Judged comparisons that agree: {}.\n", lines.join(", "))
}

/// The score of each paper in a row.
fn scores(results: &[Results]) -> String {
    let mut text =
        "| paper | agree | magnitudes | sign alone | directions | misses of other kinds \
                    | matches without evidence | repeated | unclaimed |\n\
                    |---|---:|---:|---:|---:|---:|---:|---:|---:|\n"
            .to_owned();
    for Results { paper, score, .. } in results.iter().filter(|of| of.paper != "beyond") {
        let [magnitude, direction] =
            [Kind::Magnitude, Kind::Direction].map(|kind| score.kind(kind));
        let of = |agree: usize, misses: usize| format!("{agree} of {}", agree + misses);
        let _ = writeln!(
            text,
            "| {paper} | **{} of {}** | {} | {} | {} | {} | {} | {} | {} |",
            score.agree(),
            score.judged(),
            of(magnitude.agree, magnitude.misses()),
            magnitude.sign_alone,
            of(direction.agree, direction.misses()),
            score.weak_misses(),
            score.no_evidence(),
            score.kind(Kind::Repeated).all(),
            score.kind(Kind::Unclaimed).all(),
        );
    }
    text
}

/// The policy in the name of a mean gain, and the text before it.
fn mean_gain(line: &Comparison) -> Option<(&str, &str)> {
    let (before, policy) = line.quantity.split_once("mean gain of `")?;
    Some((policy.strip_suffix('`')?, before.trim_end_matches([':', ' '])))
}

/// A value with one decimal; one that rounds to zero has no sign.
fn tenths(line: &Comparison) -> String {
    line.ours.map_or_else(
        || "–".to_owned(),
        |value| format!("{:.1}", (value * 10.0).round() / 10.0 + 0.0),
    )
}

/// Gains of each policy over all families, and how far the best policy of each mix leads it.
fn policies(results: &Results) -> String {
    let mut text =
        "| policy | mean gain over `os` (%) | on its worst mix (%) | behind the best policy \
                    of each mix (points) | at most |\n|---|---:|---:|---:|---:|\n"
            .to_owned();
    let all: Vec<&Comparison> =
        results.comparisons.iter().filter(|l| l.figure == SUMMARY).collect();
    for line in &all {
        let Some((policy, _)) = mean_gain(line) else { continue };
        let of = |quantity: String| {
            let found = all.iter().find(|other| other.quantity == quantity);
            found.map_or_else(String::new, |line| tenths(line))
        };
        let _ = writeln!(
            text,
            "| `{policy}` | {} | {} | {} | {} |",
            tenths(line),
            of(format!("gain of `{policy}` on its worst mix")),
            of(format!("`{policy}` behind the best policy, mean")),
            of(format!("`{policy}` behind the best policy, most")),
        );
    }
    text
}

/// Mean gains of all policies and of the best known schedules by family and case.
fn gains(results: &Results) -> String {
    let lines = || {
        let families = results.comparisons.iter().filter(|line| line.figure != SUMMARY);
        families.filter_map(|line| Some((line, mean_gain(line)?)))
    };
    let mut columns: Vec<&str> = Vec::new();
    let mut rows: Vec<(&str, &str, Vec<String>)> = Vec::new();
    for (line, (policy, case)) in lines() {
        if !columns.contains(&policy) {
            columns.push(policy);
        }
        let cell = tenths(line);
        match rows.last_mut() {
            Some((figure, last, cells)) if (*figure, *last) == (&*line.figure, case) => {
                cells.push(cell);
            }
            _ => rows.push((&line.figure, case, vec![cell])),
        }
    }
    let head: Vec<String> = columns.iter().map(|policy| format!("`{policy}`")).collect();
    let mut text = format!("| mixes | case | {} | best known |\n|---|---|", head.join(" | "));
    text.push_str(&"---:|".repeat(columns.len() + 1));
    text.push('\n');
    for (figure, case, cells) in rows {
        let quantity = format!("{case}: mean gain of the best known schedules");
        let is_known = |line: &&Comparison| line.figure == figure && line.quantity == quantity;
        let known = results.comparisons.iter().find(is_known);
        let known = known.map_or_else(|| "–".to_owned(), tenths);
        let _ = writeln!(text, "| {figure} | {case} | {} | {known} |", cells.join(" | "));
    }
    text
}

/// The judged goals.
fn goals(results: &Results) -> String {
    let mut text =
        "| mixes | quantity | goal (%) | here (%) | verdict |\n|---|---|---|---:|---|\n".to_owned();
    for line in results.comparisons.iter().filter(|line| line.verdict.is_some()) {
        let Value::Words(goal) = &line.paper else { continue };
        let ours = tenths(line);
        let verdict =
            if line.verdict == Some(Agreement::Agrees) { "reached" } else { "**missed**" };
        let _ =
            writeln!(text, "| {} | {} | {goal} | {ours} | {verdict} |", line.figure, line.quantity);
    }
    text
}

/// The comparisons of a paper, without those that no page lists.
fn comparisons(results: &Results) -> String {
    let mut text = "| figure | quantity | paper | here | unit | ratio | kind | verdict |\n\
                    |---|---|---|---|---|---|---|---|\n"
        .to_owned();
    let listed = |line: &&Comparison| {
        !UNLISTED.contains(&format!("{} {}", line.figure, results.paper).as_str())
    };
    for line in results.comparisons.iter().filter(listed) {
        let paper = match &line.paper {
            Value::Number(value) => number(*value),
            Value::Words(words) => words.clone(),
        };
        let _ = writeln!(
            text,
            "| {} | {} | {paper} | {} | {} | {} | {} | {} |",
            line.figure,
            line.quantity,
            line.ours.map_or_else(|| "–".to_owned(), number),
            line.unit,
            line.ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}")),
            line.kind.name(),
            match line.verdict {
                Some(Agreement::Agrees) => "agrees",
                Some(Agreement::SignAlone) => "**sign alone**",
                Some(Agreement::Differs) => "**differs**",
                Some(Agreement::NoEvidence) => "matches",
                None => "",
            },
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_at_a_hundred_columns() {
        let word = "a".repeat(49);
        // 49 + 1 + 49 is 99, and 49 + 1 + 50 is 100.
        assert_eq!(wrapped(&format!("{word} {word} b")), format!("{word} {word}\nb\n"));
        assert_eq!(wrapped(&format!("{word} {word}b c")), format!("{word} {word}b\nc\n"));
    }

    #[test]
    fn a_page_is_filled_between_its_marks() {
        let page: Page = ("page.md", |_, name| (name == "it").then(|| "new\n".to_owned()));
        let text = "a\n<!-- reproduce it -->\nold\n<!-- /reproduce -->\nb\n";
        let filled = |text: &str| filled(page, text, &[]);
        assert_eq!(filled(text).unwrap(), text.replace("old", "new"));
        assert!(filled("<!-- reproduce it -->\nold").unwrap_err().contains("has no"));
        assert!(filled(&text.replace(" it ", " that ")).unwrap_err().contains("`that`"));
    }
}
