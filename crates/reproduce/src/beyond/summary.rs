//! All families side by side.

use memweir_plot::Bars;

use super::family::{CaseGains, Gains, OURS, TOLERATED, shown};
use crate::report::{Found, Plot, Table};
use crate::source::Statement;
use crate::statistics::{highest, lowest, mean};

/// All cases of all families, each with a title that names its family.
struct Cases<'a>(Vec<(String, &'a CaseGains)>);

/// Draws the mean and the worst gain of each policy over all cases of all families.
pub(super) fn found(families: &[&Gains]) -> Found {
    let cases = families.iter().flat_map(|family| {
        family.cases.iter().map(|case| (format!("{}, {}", family.title, case.name), case))
    });
    let cases = Cases(cases.collect());
    Found {
        plots: vec![Plot::of([cases.bars()])],
        rows: cases.rows(),
        tables: vec![cases.policy_table(), cases.lead_table()],
        ..Found::default()
    }
}

impl Cases<'_> {
    /// Gains of each policy in all cases.
    fn by_policy(&self) -> impl Iterator<Item = (&str, Vec<f64>)> {
        let policies = self.0.first().map_or(&[][..], |(_, case)| &case.policies);
        policies.iter().map(|(name, _)| {
            (name.as_str(), self.0.iter().flat_map(|(_, case)| case.gains(name)).copied().collect())
        })
    }

    /// Points that a policy is below the best policy on each mix of all cases.
    fn behind_best(&self, policy: &str) -> Vec<f64> {
        self.0.iter().flat_map(|(_, case)| case.behind_best(policy)).collect()
    }

    fn bars(&self) -> Bars {
        let set = |value: fn(&[f64]) -> f64| {
            ("", self.by_policy().map(|(_, gains)| value(&gains)).collect())
        };
        let names = self.by_policy().map(|(name, _)| name);
        Bars::of(names, [set(|gains| mean(gains)), set(|gains| lowest(gains))])
    }

    fn policy_table(&self) -> Table {
        let row = |(name, gains): (&str, Vec<f64>)| {
            let slower = gains.iter().filter(|gain| **gain < -TOLERATED).count();
            let behind = self.behind_best(name);
            vec![
                name.to_owned(),
                format!("{:.1}", mean(&gains)),
                format!("{:.1}", lowest(&gains)),
                format!("{slower} of {}", gains.len()),
                format!("{:.1}", mean(&behind)),
                format!("{:.1}", highest(&behind)),
            ]
        };
        Table::of(self.by_policy().map(row))
    }

    /// Gain of our policy in each case, and its least lead over another.
    fn lead_table(&self) -> Table {
        let row = |(title, case): &(String, &CaseGains)| {
            let (behind, other) = case.furthest_behind();
            let ours = case.gains(OURS);
            vec![
                title.clone(),
                format!("{:.1}", mean(ours)),
                format!("{:.1}", lowest(ours)),
                format!("{behind:.1} ({other})"),
            ]
        };
        Table::of(self.0.iter().map(row)).captioned(OURS)
    }

    /// Lines of the report for each policy.
    fn rows(&self) -> Vec<(Statement, f64)> {
        let rows = self.by_policy().flat_map(|(name, gains)| {
            let behind = self.behind_best(name);
            [
                (format!("mean gain of `{name}`"), "%", mean(&gains)),
                (format!("gain of `{name}` on its worst mix"), "%", lowest(&gains)),
                (format!("`{name}` behind the best policy, mean"), "points", mean(&behind)),
                (format!("`{name}` behind the best policy, most"), "points", highest(&behind)),
            ]
        });
        let shown = |(quantity, unit, value): (String, &str, f64)| {
            let (line, value) = shown(quantity, "all families", value);
            (Statement { unit: unit.to_owned(), ..line }, value)
        };
        rows.map(shown).collect()
    }
}
