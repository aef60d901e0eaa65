//! Sweeps: keys of a scenario that take several values in turn, and the grid of all combinations.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use memweir_core::input::{self, KeyPath, Refusal, Replacement};
use serde::{Serialize, Serializer};

/// Limit on the values of one key; a larger range is taken for a wrong step.
const MOST_VALUES: usize = 10_000;
/// Limit on the points of a grid.
const MOST_POINTS: usize = 1_000_000;

/// A key of a scenario and the values that it takes in turn: `quantum_ms=20,50,100`,
/// `cores=1..8`, `mix.iabw=2e9..8e9:0.5e9`, `policies=[os],[ideal-average]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sweep {
    /// The key.
    pub path: KeyPath,
    /// The values as written, at least one.
    pub values: Vec<String>,
}

impl FromStr for Sweep {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        let (key, Some(values)) = input::key_and_value(text) else {
            let help = "write `KEY=VALUE,VALUE,...`";
            return Err(Refusal::new(format!("`{text}` gives no values"), help));
        };
        let path = key.parse()?;
        let mut all: Vec<String> = Vec::new();
        for part in input::values(values) {
            let part = part.trim();
            if part.is_empty() {
                return Err(Refusal::new(
                    format!("a value of `{key}` is empty"),
                    "write `KEY=VALUE,VALUE,...` or `KEY=FROM..TO:STEP`",
                ));
            }
            match Range::read(part) {
                Some(range) => all.extend(range.values()?),
                None => all.push(plain(part)),
            }
            if all.len() > MOST_VALUES {
                break;
            }
        }
        Self::new(path, all)
    }
}

impl Sweep {
    /// Creates the sweep of a key over these values, as they would be written.
    ///
    /// # Errors
    /// If there is no value, a value occurs twice, or there are too many.
    pub fn new(path: KeyPath, values: Vec<String>) -> Result<Self, Refusal> {
        if values.is_empty() {
            return Err(Refusal::new(format!("`{path}` takes no value"), "give at least one"));
        }
        if values.len() > MOST_VALUES {
            return Err(too_many(values.len()));
        }
        let mut before = HashSet::with_capacity(values.len());
        if let Some(twice) = values.iter().find(|value| !before.insert(value.as_str())) {
            let help = "give each value once";
            return Err(Refusal::new(format!("`{path}` takes `{twice}` twice"), help));
        }
        Ok(Self { path, values })
    }
}

impl fmt::Display for Sweep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.path, self.values.join(","))
    }
}

/// Returns a value without the underscores that TOML allows in numbers: reports and tables have
/// numbers as numbers.
fn plain(value: &str) -> String {
    let digits = value.replace('_', "");
    let is_number = value.starts_with(|c: char| "+-.0123456789".contains(c));
    if is_number && digits.parse::<f64>().is_ok() { digits } else { value.to_owned() }
}

fn too_many(count: usize) -> Refusal {
    Refusal::new(
        format!("{count} values of one key are too many"),
        format!("at most {MOST_VALUES}"),
    )
}

/// `FROM..TO:STEP`, both ends included.
struct Range<'a> {
    from: f64,
    to: f64,
    step: f64,
    written: &'a str,
    /// Number of decimal places of the values.
    decimals: usize,
}

impl<'a> Range<'a> {
    /// Parses `text` as a range; `None` if it is not one, such as the path `../x.toml`.
    fn read(text: &'a str) -> Option<Self> {
        let (from, rest) = text.split_once("..")?;
        let (to, step) = rest.split_once(':').unwrap_or((rest, "1"));
        let number = |part: &str| part.trim().parse::<f64>().ok();
        Some(Self {
            from: number(from)?,
            to: number(to)?,
            step: number(step)?,
            written: text,
            decimals: decimals(from).max(decimals(step)),
        })
    }

    fn values(&self) -> Result<Vec<String>, Refusal> {
        let finite = [self.from, self.to, self.step].iter().all(|value| value.is_finite());
        if !finite || self.step <= 0.0 || self.to < self.from {
            let help = "write `FROM..TO:STEP` with FROM below TO and a step of more than 0";
            return Err(Refusal::new(format!("`{}` is no range", self.written), help));
        }
        // A millionth of a step makes up for the rounding of binary fractions.
        let steps = ((self.to - self.from) / self.step + 1e-6).floor();
        if steps >= MOST_VALUES as f64 {
            return Err(too_many(steps.min(1e18) as usize + 1));
        }
        let value = |index: usize| self.from + index as f64 * self.step;
        Ok((0..=steps as usize)
            .map(|index| format!("{:.*}", self.decimals, value(index)))
            .collect())
    }
}

/// Returns the number of decimal places that a number needs.
fn decimals(number: &str) -> usize {
    let number = number.trim();
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let digits = mantissa.split_once('.').map_or(0, |(_, fraction)| fraction.len()) as i64;
    let exponent: i64 = exponent.parse().unwrap_or(0);
    digits.saturating_sub(exponent).clamp(0, 17) as usize
}

/// Every combination of the values of several sweeps, or some of them; the last sweep changes
/// fastest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Shared by the grids of some of the points: a study makes one for each point.
    sweeps: Arc<[Sweep]>,
    /// The same sweeps in the order of their keys, whatever the order in which they are given.
    ordered: Arc<[Ordered]>,
    points: usize,
    /// The combinations that are points, by place; all if absent.
    chosen: Option<Vec<usize>>,
}

/// A sweep whose values are numbered in the order of their text.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Ordered {
    /// Place among the sweeps as given.
    place: usize,
    /// Number of each value.
    numbers: Vec<usize>,
}

impl Ordered {
    fn new(place: usize, sweep: &Sweep) -> Self {
        let mut sorted: Vec<usize> = (0..sweep.values.len()).collect();
        sorted.sort_unstable_by_key(|value| &sweep.values[*value]);
        let mut numbers = vec![0; sorted.len()];
        for (number, value) in sorted.into_iter().enumerate() {
            numbers[value] = number;
        }
        Self { place, numbers }
    }

    /// Returns the index of the value with number 0.
    fn first(&self) -> usize {
        self.numbers.iter().position(|number| *number == 0).unwrap_or(0)
    }
}

impl Default for Grid {
    /// Returns a grid of one point that changes nothing.
    fn default() -> Self {
        Self { sweeps: Arc::default(), ordered: Arc::default(), points: 1, chosen: None }
    }
}

impl Grid {
    /// Creates the grid of these sweeps. Without sweeps it has one point that changes nothing.
    ///
    /// # Errors
    /// If two sweeps have the same key, or there are more than a million points.
    pub fn new(sweeps: Vec<Sweep>) -> Result<Self, Refusal> {
        let mut points = 1usize;
        for (index, sweep) in sweeps.iter().enumerate() {
            if sweeps[..index].iter().any(|other| other.path == sweep.path) {
                let help = "give all of its values to one sweep";
                return Err(Refusal::new(format!("`{}` is swept twice", sweep.path), help));
            }
            points = points.saturating_mul(sweep.values.len());
        }
        if points > MOST_POINTS {
            let reason = format!("{points} combinations are too many");
            return Err(Refusal::new(reason, format!("at most {MOST_POINTS}")));
        }
        let mut ordered: Vec<Ordered> =
            sweeps.iter().enumerate().map(|(place, sweep)| Ordered::new(place, sweep)).collect();
        ordered.sort_by_cached_key(|sweep| sweeps[sweep.place].path.to_string());
        Ok(Self { sweeps: sweeps.into(), ordered: ordered.into(), points, chosen: None })
    }

    /// Returns the grid of these points alone, in this order.
    ///
    /// # Panics
    /// If there is no point of such a number, or none is chosen.
    #[must_use]
    pub fn only(&self, points: &[usize]) -> Self {
        assert!(!points.is_empty(), "a grid has a point");
        self.of(points.iter().map(|point| self.combination(*point)).collect())
    }

    /// Returns the grid of a few points that together take every value of every key: in each, all
    /// keys but one have their first value, in the order of their text.
    #[must_use]
    pub fn star(&self) -> Self {
        // Distance between the places of two combinations that differ in neighboring values.
        let mut steps = vec![1; self.sweeps.len()];
        for place in (1..self.sweeps.len()).rev() {
            steps[place - 1] = steps[place] * self.sweeps[place].values.len();
        }
        let center: usize =
            self.ordered.iter().map(|sweep| sweep.first() * steps[sweep.place]).sum();
        let mut chosen = vec![center];
        for sweep in self.ordered.iter() {
            let step = steps[sweep.place];
            let without = center - sweep.first() * step;
            let others = (0..sweep.numbers.len()).filter(|value| sweep.numbers[*value] > 0);
            chosen.extend(others.map(|value| without + value * step));
        }
        self.of(chosen)
    }

    /// Returns the grid of the combinations at these places.
    fn of(&self, chosen: Vec<usize>) -> Self {
        let (sweeps, ordered) = (Arc::clone(&self.sweeps), Arc::clone(&self.ordered));
        Self { sweeps, ordered, points: chosen.len(), chosen: Some(chosen) }
    }

    /// Returns the number of combinations of all values, which may be more than the points.
    #[must_use]
    pub fn combinations(&self) -> usize {
        self.sweeps.iter().map(|sweep| sweep.values.len()).product()
    }

    /// Returns the number of a point's combination, counted from zero. It does not depend on the
    /// order in which keys and values are given.
    #[must_use]
    pub fn number(&self, point: usize) -> usize {
        let values = self.indices(point);
        self.ordered.iter().fold(0, |number, sweep| {
            number * sweep.numbers.len() + sweep.numbers[values[sweep.place]]
        })
    }

    /// Returns the place of a point's combination among all of them.
    fn combination(&self, point: usize) -> usize {
        assert!(point < self.points, "point {point} of {}", self.points);
        self.chosen.as_ref().map_or(point, |chosen| chosen[point])
    }

    /// Returns the sweeps in the given order.
    #[must_use]
    pub fn sweeps(&self) -> &[Sweep] {
        &self.sweeps
    }

    /// Returns the number of points; at least one.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "there is always a point")]
    pub fn len(&self) -> usize {
        self.points
    }

    /// Returns the value of each sweep at a point.
    #[must_use]
    pub fn values(&self, point: usize) -> Vec<&str> {
        let values = self.indices(point).into_iter();
        self.sweeps.iter().zip(values).map(|(sweep, at)| sweep.values[at].as_str()).collect()
    }

    /// Returns the index of the value of each sweep at a point.
    fn indices(&self, point: usize) -> Vec<usize> {
        let mut rest = self.combination(point);
        let mut indices = vec![0; self.sweeps.len()];
        for (index, sweep) in indices.iter_mut().zip(self.sweeps.iter()).rev() {
            *index = rest % sweep.values.len();
            rest /= sweep.values.len();
        }
        indices
    }

    /// Returns the swept keys and their values at a point.
    #[must_use]
    pub fn at(&self, point: usize) -> Vec<(String, String)> {
        let keys = self.sweeps.iter().map(|sweep| sweep.path.to_string());
        keys.zip(self.values(point).into_iter().map(str::to_owned)).collect()
    }

    /// Returns the swept keys and their values at a point in one line.
    #[must_use]
    pub fn place(&self, point: usize) -> String {
        let values: Vec<String> =
            self.at(point).into_iter().map(|(key, value)| format!("{key}={value}")).collect();
        values.join(" ")
    }

    /// Returns the replacements of the scenario's values at a point.
    #[must_use]
    pub fn replacements(&self, point: usize) -> Vec<Replacement> {
        let replacement = |(sweep, value): (&Sweep, &str)| {
            Replacement::new(sweep.path.clone(), value, format!("--sweep {}={value}", sweep.path))
        };
        self.sweeps.iter().zip(self.values(point)).map(replacement).collect()
    }
}

/// Serializes keys and values as one object, numbers as numbers.
pub(crate) fn as_object<S: Serializer>(
    at: &[(String, String)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    #[serde(untagged)]
    enum Value<'a> {
        Whole(i64),
        Number(f64),
        Text(&'a str),
    }
    serializer.collect_map(at.iter().map(|(key, value)| {
        let number = || value.parse().ok().filter(|number: &f64| number.is_finite());
        let value = match (value.parse(), number()) {
            (Ok(whole), _) => Value::Whole(whole),
            (_, Some(number)) => Value::Number(number),
            _ => Value::Text(value),
        };
        (key, value)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn values(text: &str) -> Vec<String> {
        text.parse::<Sweep>().unwrap_or_else(|error| panic!("{text}: {error}")).values
    }

    #[test]
    fn lists_and_ranges_are_read() {
        assert_eq!(
            values("a=1,b, \"c,d\" ,[os,random],{x=1,y=2}"),
            ["1", "b", "\"c,d\"", "[os,random]", "{x=1,y=2}"]
        );
        assert_eq!(values("a=10..60:25,7"), ["10", "35", "60", "7"]);
        assert_eq!(values("a=1_000,-2_0.5,a_1"), ["1000", "-20.5", "a_1"]);
        assert_eq!(values("a=1..4"), ["1", "2", "3", "4"]);
        assert_eq!(values("a=0.1..0.35:0.1"), ["0.1", "0.2", "0.3"]);
        assert_eq!(values("a=-1..1:0.5"), ["-1.0", "-0.5", "0.0", "0.5", "1.0"]);
        assert_eq!(values("a=2e9..3e9:0.5e9"), ["2000000000", "2500000000", "3000000000"]);
        assert_eq!(values("machine=../a.toml,b..c"), ["../a.toml", "b..c"]);
    }

    #[test]
    fn what_is_no_sweep_is_refused() {
        for (text, said) in [
            ("a", "gives no values"),
            ("=1", "names no key"),
            ("a=", "is empty"),
            ("a=1,,2", "is empty"),
            ("a=5..1", "is no range"),
            ("a=1..5:0", "is no range"),
            ("a=1..5:-1", "is no range"),
            ("a=1..inf", "is no range"),
            ("a=0..1:1e-9", "1000000001 values of one key are too many"),
            ("a=1,2,1", "takes `1` twice"),
        ] {
            let refused = text.parse::<Sweep>().expect_err(text).to_string();
            assert!(refused.contains(said), "{refused} and not {said}");
        }
    }

    #[test]
    fn a_grid_has_every_combination_in_order() {
        let sweep = |text: &str| text.parse::<Sweep>().expect("a sweep");
        let grid = Grid::new(vec![sweep("a=1,2"), sweep("b.c=x,y,z")]).expect("a grid");
        let points: Vec<String> = (0..grid.len()).map(|at| grid.values(at).concat()).collect();
        assert_eq!(points, ["1x", "1y", "1z", "2x", "2y", "2z"]);
        let changed = grid.replacements(5);
        assert_eq!((changed[1].path.to_string().as_str(), changed[1].value()), ("b.c", "\"z\""));

        assert_eq!(Grid::new(vec![]).expect("a grid").len(), 1);
        assert!(Grid::new(vec![sweep("a=1"), sweep("a=2")]).is_err());
        assert!(Grid::new(["a", "b", "c"].map(|k| sweep(&format!("{k}=1..1000"))).into()).is_err());
    }

    #[test]
    fn some_points_of_a_grid_are_a_grid() {
        let sweep = |text: &str| text.parse::<Sweep>().expect("a sweep");
        let grid = Grid::new(vec![sweep("a=1,2"), sweep("b=x,y,z")]).expect("a grid");
        let some = grid.only(&[5, 0, 2]);
        assert_eq!((some.len(), some.sweeps()), (3, grid.sweeps()));
        assert!(std::ptr::eq(some.sweeps(), grid.sweeps()), "values are not copied");
        assert_eq!(
            (0..3).map(|at| some.at(at)).collect::<Vec<_>>(),
            [5, 0, 2].map(|at| grid.at(at))
        );
        assert_eq!(some.only(&[1]).at(0), grid.at(0));
        assert_eq!((some.combinations(), some.number(0)), (6, grid.number(5)));
    }

    #[test]
    fn numbers_do_not_depend_on_the_order_of_keys_and_values() {
        let grid = |sweeps: &[&str]| {
            let sweeps = sweeps.iter().map(|text| text.parse::<Sweep>().expect("a sweep"));
            Grid::new(sweeps.collect()).expect("a grid")
        };
        let numbers = |grid: &Grid| -> Vec<usize> {
            let mut points: Vec<usize> = (0..grid.len()).collect();
            points.sort_by_key(|point| {
                let mut at = grid.at(*point);
                at.sort();
                at
            });
            points.into_iter().map(|point| grid.number(point)).collect()
        };
        let (first, second) = (grid(&["a=10,9,8", "b=x,y"]), grid(&["b=y,x", "a=8,10,9"]));
        assert_eq!(numbers(&first), [0, 1, 2, 3, 4, 5]);
        assert_eq!(numbers(&second), numbers(&first));

        let star = |grid: &Grid| {
            let star = grid.star();
            let mut at: Vec<String> = (0..star.len())
                .map(|point| {
                    let mut at = star.at(point);
                    at.sort();
                    at.into_iter().map(|(_, value)| value).collect::<Vec<_>>().join(" ")
                })
                .collect();
            at.sort();
            at
        };
        assert_eq!(star(&first), ["10 x", "10 y", "8 x", "9 x"]);
        assert_eq!(star(&second), star(&first));
        assert_eq!(Grid::default().star().len(), 1);
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd(text in "\\PC{0,40}|[a-c=.,:0-9\\[\\]{}\"'-]{0,20}") {
            if let Ok(sweep) = text.parse::<Sweep>() {
                prop_assert!(!sweep.values.is_empty() && sweep.values.len() <= MOST_VALUES);
                let grid = Grid::new(vec![sweep.clone()]).expect("a grid");
                prop_assert_eq!(grid.len(), sweep.values.len());
                prop_assert_eq!(grid.replacements(grid.len() - 1).len(), 1);
            }
        }

        #[test]
        fn a_range_keeps_to_its_ends(from in -1000i32..1000, steps in 0u32..200, step in 1u32..50) {
            let to = from + (steps * step) as i32;
            let all = values(&format!("k={from}..{to}:{step}"));
            prop_assert_eq!(all.len() as u32, steps + 1);
            prop_assert_eq!(&all[0], &from.to_string());
            prop_assert_eq!(&all[all.len() - 1], &to.to_string());
        }
    }
}
