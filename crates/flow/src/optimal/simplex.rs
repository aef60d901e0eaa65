//! The least time in which a mix of sets does given work, by the simplex method.
//!
//! A column is a set that can run, and its progress per time in each row of the work. Columns are
//! not listed beforehand: at given prices of the rows, the caller returns the set that is worth
//! the most per time (column generation).

/// Progress of a set per time: rows, each at most once, and rates.
pub(super) type Rates = Vec<(usize, f64)>;

/// Most steps, and most for each row where there are many; a small multiple of the rows is needed.
const MOST_STEPS: usize = 1_000;
const MOST_STEPS_PER_ROW: usize = 20;
/// A set counts as worth no more than its time if the excess is less than this.
const TOLERANCE: f64 = 1e-9;

/// Times of sets that together do the work.
#[derive(Clone, Debug, Default)]
pub(super) struct Mix {
    /// Prices per progress at which no set was found to be worth more than its time.
    pub(super) prices: Vec<f64>,
    /// Sets and their times, in the unit of work over rates; as many as there are rows.
    pub(super) sets: Vec<(Rates, f64)>,
}

/// Returns a set's worth per time.
pub(super) fn worth(rates: &Rates, prices: &[f64]) -> f64 {
    rates.iter().map(|(row, rate)| rate * prices[*row]).sum()
}

/// Returns the set of the highest worth per time.
pub(super) fn worthiest(sets: &[Rates], prices: &[f64]) -> Option<Rates> {
    sets.iter().max_by(|a, b| worth(a, prices).total_cmp(&worth(b, prices))).cloned()
}

/// Returns the mix of least time that does `work`, positive in each row. `alone` has, for each row,
/// the rate of the set that makes progress in it alone; `best` returns the set of the highest worth
/// at given prices.
pub(super) fn mix(
    alone: &[f64],
    work: &[f64],
    mut best: impl FnMut(&[f64]) -> Option<Rates>,
) -> Mix {
    let mut basis = Basis::alone(alone);
    let mut prices = basis.prices();
    for _ in 0..MOST_STEPS.max(MOST_STEPS_PER_ROW * work.len()) {
        let Some(entering) = best(&prices) else { break };
        if worth(&entering, &prices) <= 1.0 + TOLERANCE {
            break;
        }
        let (replaced, times) = (basis.replaced_by(&entering), basis.times(work));
        let ratio = |place: &usize| times[*place] / replaced[*place];
        let leaving = (0..times.len())
            .filter(|place| replaced[*place] > TOLERANCE)
            .min_by(|a, b| ratio(a).total_cmp(&ratio(b)));
        let Some(leaving) = leaving else { break };
        basis.exchange(leaving, entering, &replaced);
        prices = basis.prices();
    }
    let times = basis.times(work);
    Mix { prices, sets: basis.sets.into_iter().zip(times).collect() }
}

/// As many sets as there are rows, and the inverse of the matrix of their rates.
struct Basis {
    sets: Vec<Rates>,
    /// By set, then by row: the time of the set that a unit of work in the row takes.
    inverse: Vec<Vec<f64>>,
}

impl Basis {
    /// Creates a basis of sets that make progress in one row each.
    fn alone(rates: &[f64]) -> Self {
        let time = |(row, rate): (usize, &f64)| {
            let mut times = vec![0.0; rates.len()];
            times[row] = 1.0 / rate;
            times
        };
        let sets = rates.iter().enumerate().map(|(row, rate)| vec![(row, *rate)]).collect();
        Self { sets, inverse: rates.iter().enumerate().map(time).collect() }
    }

    /// Returns the prices at which each set is worth its time, 1.
    fn prices(&self) -> Vec<f64> {
        let mut prices = vec![0.0; self.sets.len()];
        for times in &self.inverse {
            prices.iter_mut().zip(times).for_each(|(price, time)| *price += time);
        }
        prices
    }

    /// Returns the times of the sets that together do this work.
    fn times(&self, work: &[f64]) -> Vec<f64> {
        let time = |times: &Vec<f64>| times.iter().zip(work).map(|(time, work)| time * work).sum();
        self.inverse.iter().map(time).collect()
    }

    /// Returns the times of the sets that another one does the work of per time.
    fn replaced_by(&self, other: &Rates) -> Vec<f64> {
        let time = |times: &Vec<f64>| other.iter().map(|(row, rate)| times[*row] * rate).sum();
        self.inverse.iter().map(time).collect()
    }

    /// Puts a set, which does per time what the others do in `replaced`, in the place of another.
    fn exchange(&mut self, leaving: usize, entering: Rates, replaced: &[f64]) {
        let pivot: Vec<f64> =
            self.inverse[leaving].iter().map(|time| time / replaced[leaving]).collect();
        for (times, factor) in self.inverse.iter_mut().zip(replaced) {
            times.iter_mut().zip(&pivot).for_each(|(time, pivot)| *time -= factor * pivot);
        }
        (self.inverse[leaving], self.sets[leaving]) = (pivot, entering);
    }
}
