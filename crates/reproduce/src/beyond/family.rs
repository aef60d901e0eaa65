//! One family of mixes under all policies: its runs, its plot, its rows.

use std::cell::OnceCell;
use std::path::Path;
use std::sync::Arc;

use memweir_core::input::{InputError, Refusal, Replacement};
use memweir_core::profile::Profile;
use memweir_core::{Stop, metrics};
use memweir_flow::optimal::SCHEDULES;
use memweir_plot::Bars;
use memweir_study::bank::report::BankPoint;
use memweir_study::bank::study::BankStudy;
use memweir_study::flow::report::{Point, PolicySummary, Run};
use memweir_study::flow::study::Study;
use memweir_study::sweep::{Grid, Sweep};
use memweir_study::{Fidelity, ScenarioText};
use serde::Deserialize;

use crate::report::{Effort, Found, Plot, Table};
use crate::run::{Failed, made_once};
use crate::source::{FigureData, Kind, Rule, Statement, Test, Value};
use crate::statistics::{highest, lowest, mean};
use crate::work::Bench;

/// Policy that the others are compared with.
const BASELINE: &str = "os";

/// Policy that has to reach the goals.
pub(super) const OURS: &str = "max-weight";

/// Loss against another policy, in percent, that is within the noise of start times.
pub(super) const TOLERATED: f64 = 0.5;

/// Share of the gain of the best known schedule, in percent, that our policy has to reach.
const SHARE_OF_KNOWN: f64 = 90.0;

/// Unit that counts as one mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum MixIs {
    /// A point of the sweep; its repetitions are seeds.
    Point,
    /// A repetition, which draws programs of its own.
    Repetition,
}

/// One machine and one state of knowledge in which the mixes run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    /// Schedules that stand beside the policies, except in a quick run: they take the most time.
    #[serde(default)]
    schedules: Vec<String>,
    /// `KEY=VALUE` in place of the scenario's own values.
    #[serde(default)]
    set: Vec<String>,
    /// The case in which more is known of the same mixes.
    known_as: Option<String>,
}

/// Parameters of a family.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameters {
    policies: Vec<String>,
    /// All but its policies.
    scenario: String,
    mix_is: MixIs,
    /// `KEY=VALUE,VALUE,...` as of `memweir sim --sweep`.
    #[serde(default)]
    sweep: Vec<String>,
    /// Repetitions of a quick run.
    quick: u32,
    case: Vec<Case>,
}

/// A family that is checked and ready to run.
pub(super) struct Family {
    title: String,
    mix_is: MixIs,
    cases: Vec<(Case, Mixes)>,
    /// Once it has run.
    gains: OnceCell<Gains>,
}

/// The mixes of a case, each a point or a repetition of a study.
enum Mixes {
    Flow(Box<Study>),
    /// Each a point.
    Bank(BankStudy),
}

/// Gains of all policies on the mixes of a family.
pub(super) struct Gains {
    pub(super) title: String,
    pub(super) cases: Vec<CaseGains>,
}

/// Gains in one case.
pub(super) struct CaseGains {
    pub(super) name: String,
    /// Items that ask for no loss to the operating system, and to any other policy.
    items: [&'static str; 2],
    /// Gain over the operating system in percent, of each policy but that, on each mix.
    pub(super) policies: Vec<(String, Vec<f64>)>,
    /// Share of the possible gain of each policy, where a bound is known.
    shares: Vec<Option<f64>>,
    /// Gain on each mix of the best schedule that is known, one of [`SCHEDULES`] or that of a
    /// policy, in this case or in one in which more is known; empty where there is neither.
    best_known: Vec<f64>,
    /// Share of that gain in percent that our policy has to reach: all that a policy can know is
    /// known.
    goal: Option<f64>,
}

/// No recording is compiled in.
fn no_recording(_: &Path) -> Result<Arc<Profile>, Refusal> {
    Err(Refusal::new("no recording is compiled in", "name a program of the catalog"))
}

impl Family {
    /// Reads a family and checks its scenario in each case.
    pub(super) fn read(data: &FigureData, effort: Effort) -> Result<Self, InputError> {
        let parameters: Parameters = data.parameters()?;
        let name = format!("experiments/beyond/{}.toml", data.id);
        let text = ScenarioText::new(&name, &parameters.scenario, Path::new(""));
        let refused = |refusal: Refusal| refusal.written_in(&name);
        let sweeps = parameters.sweep.iter().map(|sweep| sweep.parse().map_err(refused));
        let sweeps = sweeps.collect::<Result<Vec<Sweep>, _>>()?;
        let fidelity = text.fidelity(&[])?;
        let quick = (effort == Effort::Quick).then_some(parameters.quick);
        let repetitions = quick
            .filter(|_| fidelity == Fidelity::Flow)
            .map(|count| format!("repetitions={count}"));
        let study = |case: &Case| {
            let schedules = if quick.is_some() { &[] } else { &case.schedules[..] };
            let policies = [&parameters.policies, schedules].concat();
            let policies = format!("policies={policies:?}");
            let set = [&policies].into_iter().chain(&case.set).chain(&repetitions);
            let set = set.map(|set| Replacement::read(set, set).map_err(refused));
            let set = set.collect::<Result<Vec<_>, _>>()?;
            let grid = Grid::new(sweeps.clone()).map_err(refused)?;
            let mixes = match (fidelity, quick) {
                (Fidelity::Flow, _) => {
                    Mixes::Flow(Study::read(&text, &set, grid, &no_recording)?.into())
                }
                (Fidelity::Bank, None) => Mixes::Bank(BankStudy::read(&text, &set, grid)?),
                (Fidelity::Bank, Some(count)) => {
                    let points: Vec<usize> = (0..grid.len().min(count as usize)).collect();
                    Mixes::Bank(BankStudy::read(&text, &set, grid.only(&points))?)
                }
            };
            Ok((case.clone(), mixes))
        };
        let cases =
            parameters.case.iter().map(study).collect::<Result<Vec<(Case, _)>, InputError>>()?;
        for (case, _) in &cases {
            if let Some(known) = &case.known_as {
                let exists = cases.iter().any(|(other, _)| other.name == *known);
                let reason = format!("no case is called `{known}`");
                exists
                    .then_some(())
                    .ok_or_else(|| InputError::new(&name, reason).key("known_as"))?;
            }
        }
        let (title, mix_is) = (data.title.clone(), parameters.mix_is);
        Ok(Self { title, mix_is, cases, gains: OnceCell::new() })
    }

    /// Number of runs, for the progress display.
    pub(super) fn work(&self) -> u64 {
        let runs = |mixes: &Mixes| match mixes {
            Mixes::Flow(study) => study.runs(),
            Mixes::Bank(study) => study.runs(),
        };
        self.cases.iter().map(|(_, mixes)| runs(mixes) as u64).sum()
    }

    /// Returns the gains of all policies; the family runs once.
    pub(super) fn gains(&self, bench: &Bench<'_>) -> Result<&Gains, Failed> {
        made_once(&self.gains, || self.run(bench))
    }

    /// Runs every mix under every policy in every case.
    fn run(&self, bench: &Bench<'_>) -> Result<Gains, Failed> {
        let case = |(case, mixes): &(Case, Mixes)| match mixes {
            Mixes::Flow(study) => {
                let report = study.run(&Stop::default(), bench.threads(), |_| bench.advance(1))?;
                Ok(CaseGains::of(&case.name, self.mix_is, &report.points))
            }
            Mixes::Bank(study) => {
                let report = study.run(&Stop::default(), bench.threads(), |_| bench.advance(1))?;
                Ok(CaseGains::of_banks(&case.name, &report.points))
            }
        };
        let mut cases: Vec<CaseGains> =
            self.cases.iter().map(case).collect::<Result<_, Failed>>()?;
        for (place, (case, _)) in self.cases.iter().enumerate() {
            let known = cases.iter().find(|other| Some(&other.name) == case.known_as.as_ref());
            if let Some(known) = known.map(CaseGains::best) {
                cases[place].add_schedules(&known);
            }
        }
        Ok(Gains { title: self.title.clone(), cases })
    }
}

impl CaseGains {
    fn of(name: &str, mix_is: MixIs, points: &[Point]) -> Self {
        let summaries = points.first().map_or(&[][..], |point| &point.policies);
        let names = summaries.iter().map(|summary| &summary.policy);
        let gains = |policy: &String| {
            let on_point = |point: &Point| match mix_is {
                MixIs::Point => vec![summary(point, policy, |summary| summary.gain)],
                MixIs::Repetition => gains_by_repetition(&point.runs, policy),
            };
            points.iter().flat_map(on_point).map(|gain| 100.0 * gain).collect()
        };
        let gains = names.map(|policy| (policy.clone(), gains(policy))).collect();
        let mut case = Self::from_gains(name, ["M2", "M3"], gains);
        let share = |(policy, _): &(String, Vec<f64>)| {
            let shares = points.iter().map(|point| {
                point.policies.iter().find(|s| s.policy == *policy)?.share_of_possible
            });
            metrics::mean(&shares.collect::<Option<Vec<f64>>>()?)
        };
        case.shares = case.policies.iter().map(share).collect();
        case
    }

    fn of_banks(name: &str, points: &[BankPoint]) -> Self {
        let runs = points.first().map_or(&[][..], |point| &point.policies);
        let gains = |place: usize| {
            let on_point = |point: &BankPoint| point.policies[place].gain.unwrap_or(0.0);
            points.iter().map(on_point).map(|gain| 100.0 * gain).collect()
        };
        let gains = runs
            .iter()
            .enumerate()
            .map(|(place, run)| (run.policy.clone(), gains(place)))
            .collect();
        Self::from_gains(name, ["M4"; 2], gains)
    }

    /// The gains of the policies and [`SCHEDULES`] of a case; the baseline has none.
    fn from_gains(name: &str, items: [&'static str; 2], gains: Vec<(String, Vec<f64>)>) -> Self {
        let is_schedule = |(name, _): &(String, _)| SCHEDULES.contains(&name.as_str());
        let (schedules, policies): (Vec<_>, Vec<_>) =
            gains.into_iter().filter(|(name, _)| name != BASELINE).partition(is_schedule);
        let shares = vec![None; policies.len()];
        let goal = (!schedules.is_empty()).then_some(SHARE_OF_KNOWN);
        let name = name.to_owned();
        let mut case = Self { name, items, policies, shares, best_known: Vec::new(), goal };
        schedules.iter().for_each(|(_, gains)| case.add_schedules(gains));
        case
    }

    /// Adds schedules with these gains to those that are known.
    fn add_schedules(&mut self, gains: &[f64]) {
        let best = self.best();
        self.best_known = best.iter().zip(gains).map(|(best, gain)| best.max(*gain)).collect();
    }

    /// Gain on each mix of the best policy, or of the best schedule that is known where it is
    /// better.
    fn best(&self) -> Vec<f64> {
        let all = self.policies.iter().map(|(_, gains)| gains).chain([&self.best_known]);
        let best = |mix: usize| {
            let gains = all.clone().filter_map(|gains| gains.get(mix));
            gains.copied().fold(0.0, f64::max)
        };
        (0..self.policies.first().map_or(0, |(_, gains)| gains.len())).map(best).collect()
    }

    /// Gains of a policy on the mixes.
    pub(super) fn gains(&self, policy: &str) -> &[f64] {
        let found = self.policies.iter().find(|(name, _)| name == policy);
        found.map_or(&[], |(_, gains)| gains)
    }

    /// Share in percent of the time that the best known schedules save on the mixes together, which
    /// a policy with these gains saves; `None` where none is known, or saves no more than noise.
    fn share_of_known(&self, gains: &[f64]) -> Option<f64> {
        let saved = |gain: &f64| 1.0 - 1.0 / (1.0 + gain / 100.0);
        let known: f64 = self.best_known.iter().map(saved).sum();
        let least = TOLERATED / 100.0 * gains.len() as f64;
        (known > least).then(|| 100.0 * gains.iter().map(saved).sum::<f64>() / known)
    }

    /// Points that the gain of a policy is below that of the best policy on each mix, the operating
    /// system included.
    pub(super) fn behind_best(&self, policy: &str) -> Vec<f64> {
        let best =
            |mix: usize| self.policies.iter().map(|(_, gains)| gains[mix]).fold(0.0, f64::max);
        self.gains(policy).iter().enumerate().map(|(mix, gain)| best(mix) - gain).collect()
    }

    /// Lowest difference between the gains of our policy and those of another on a mix.
    pub(super) fn behind(&self, other: &str) -> f64 {
        let pairs = self.gains(OURS).iter().zip(self.gains(other));
        lowest(pairs.map(|(ours, theirs)| ours - theirs))
    }

    /// Lowest such difference over all policies, the operating system included, and the policy.
    pub(super) fn furthest_behind(&self) -> (f64, &str) {
        let others = self.policies.iter().map(|(name, _)| name.as_str()).filter(|n| *n != OURS);
        let os = (lowest(self.gains(OURS)), BASELINE);
        others
            .map(|name| (self.behind(name), name))
            .fold(os, |lowest, other| if other.0 < lowest.0 { other } else { lowest })
    }
}

fn summary(point: &Point, policy: &str, value: impl Fn(&PolicySummary) -> f64) -> f64 {
    point.policies.iter().find(|summary| summary.policy == policy).map_or(f64::NAN, value)
}

fn gains_by_repetition(runs: &[Run], policy: &str) -> Vec<f64> {
    let of = |name: &str| -> Vec<&Run> { runs.iter().filter(|run| run.policy == name).collect() };
    let pairs = of(BASELINE).into_iter().zip(of(policy));
    pairs.map(|(os, own)| os.turnaround_s / own.turnaround_s - 1.0).collect()
}

/// Draws the gains of a family and judges the goals.
pub(super) fn found(data: &FigureData, gains: &Gains) -> Found {
    let names: Vec<&str> = gains.cases.first().map_or_else(Vec::new, |case| {
        case.policies.iter().map(|(name, _)| name.as_str()).collect()
    });
    let of = |name: &str| gains.cases.iter().map(|case| mean(case.gains(name))).collect();
    let sets = names.iter().map(|name| (*name, of(name)));
    let bars = Bars {
        title: "mean gain in throughput over os".to_owned(),
        y_label: "gain (%)".to_owned(),
        ..Bars::of(gains.cases.iter().map(|case| &case.name), sets)
    };
    let caption = format!("{}: mean over the mixes of each policy's gain over `os`.", data.title);
    Found {
        plots: vec![Plot::of([bars]).captioned(caption)],
        tables: gains.cases.iter().map(table).collect(),
        rows: gains.cases.iter().flat_map(goals).collect(),
        ..Found::default()
    }
}

fn table(case: &CaseGains) -> Table {
    let header = [
        "policy",
        "mean gain (%)",
        "worst",
        "best",
        "mixes slower",
        "behind best policy (points)",
        "at most",
        "of best known (%)",
        "of possible (%)",
    ];
    let row = |((name, gains), share): (&(String, Vec<f64>), &Option<f64>)| {
        let behind = case.behind_best(name);
        let slower = gains.iter().filter(|gain| **gain < -TOLERATED).count();
        let percent = |share: Option<f64>| match share {
            Some(share) if share >= 0.0 => format!("{share:.0}"),
            _ => "–".to_owned(),
        };
        vec![
            name.clone(),
            format!("{:.2}", mean(gains)),
            format!("{:.2}", lowest(gains)),
            format!("{:.2}", highest(gains)),
            format!("{slower} of {}", gains.len()),
            format!("{:.2}", mean(&behind)),
            format!("{:.2}", highest(&behind)),
            percent(case.share_of_known(gains)),
            percent(share.map(|share| 100.0 * share)),
        ]
    };
    let rows = case.policies.iter().zip(&case.shares).map(row);
    Table::new(format!("Gain over `os`, {}", case.name), header, rows)
}

/// Returns a value without a goal.
pub(super) fn shown(quantity: String, place: &str, value: f64) -> (Statement, f64) {
    (statement("M1", quantity, place, None), value)
}

fn statement(item: &str, quantity: String, place: &str, at_least: Option<f64>) -> Statement {
    let words = at_least.map_or_else(|| "none".to_owned(), |low| format!("at least {low}"));
    Statement {
        id: String::new(),
        item: item.to_owned(),
        quantity,
        paper: Value::Words(words),
        unit: "%".to_owned(),
        place: place.to_owned(),
        kind: if at_least.is_some() { Kind::Direction } else { Kind::Unclaimed },
        decided_by: None,
        test: at_least.map(|low| Test::Range(Rule { at_least: Some(low), at_most: None })),
        explanation: None,
    }
}

/// Returns the goals of a case, and the values that are to reach them.
fn goals(case: &CaseGains) -> Vec<(Statement, f64)> {
    let name = &case.name;
    let (behind, other) = case.furthest_behind();
    let worst = format!("{name}: `{OURS}` over `os`, worst mix");
    let lead = format!("{name}: `{OURS}` over the best other policy, worst mix (`{other}`)");
    let goal = |item, quantity| statement(item, quantity, name, Some(-TOLERATED));
    let means = case.policies.iter().map(|(policy, gains)| {
        shown(format!("{name}: mean gain of `{policy}`"), name, mean(gains))
    });
    let known = case.share_of_known(case.gains(OURS)).map(|share| {
        let quantity = format!("{name}: gain of `{OURS}` over that of the best known schedules");
        (statement("M5", quantity, name, case.goal), share)
    });
    let best_known = (!case.best_known.is_empty()).then(|| {
        let quantity = format!("{name}: mean gain of the best known schedules");
        shown(quantity, name, mean(&case.best_known))
    });
    let [no_loss, no_lag] = case.items;
    [(goal(no_loss, worst), lowest(case.gains(OURS))), (goal(no_lag, lead), behind)]
        .into_iter()
        .chain(known)
        .chain(means)
        .chain(best_known)
        .collect()
}
