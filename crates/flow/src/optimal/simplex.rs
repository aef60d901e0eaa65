//! The least time in which a mix of sets does given work, by the simplex method.
//!
//! A column is a set that can run, and its progress per time in each row of the work. Columns are
//! not listed beforehand: at given prices of the rows, the caller returns the set that is worth
//! the most per time (column generation).

/// Progress of a set per time: rows, each at most once, and rates.
pub(super) type Rates = Vec<(usize, f64)>;

/// Most steps; a small multiple of the number of rows is needed.
const MOST_STEPS: usize = 1_000;
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

/// Returns the mix of least time that does `work`, positive in each row. `start` has a set for
/// each row, and together they can do the work; `best` returns the set of the highest worth at
/// given prices.
pub(super) fn mix(
    start: Vec<Rates>,
    work: &[f64],
    mut best: impl FnMut(&[f64]) -> Option<Rates>,
) -> Mix {
    let mut basis = start;
    let mut prices = vec![0.0; work.len()];
    for _ in 0..MOST_STEPS {
        let columns: Vec<Vec<f64>> = basis.iter().map(|set| dense(set, work.len())).collect();
        // Prices at which each set of the basis is worth its time, 1.
        let Some(found) = solve(columns.clone(), vec![1.0; work.len()]) else { break };
        prices = found;
        let Some(entering) = best(&prices) else { break };
        if worth(&entering, &prices) <= 1.0 + TOLERANCE {
            break;
        }
        let rows = transposed(&columns);
        let direction = solve(rows.clone(), dense(&entering, work.len()));
        let (Some(direction), Some(times)) = (direction, solve(rows, work.to_vec())) else { break };
        let ratio = |place: &usize| times[*place] / direction[*place];
        let leaving = (0..basis.len())
            .filter(|place| direction[*place] > TOLERANCE)
            .min_by(|a, b| ratio(a).total_cmp(&ratio(b)));
        let Some(leaving) = leaving else { break };
        basis[leaving] = entering;
    }
    let rows = transposed(&basis.iter().map(|set| dense(set, work.len())).collect::<Vec<_>>());
    let times = solve(rows, work.to_vec()).unwrap_or_default();
    Mix { prices, sets: basis.into_iter().zip(times).collect() }
}

fn dense(rates: &Rates, kinds: usize) -> Vec<f64> {
    let mut column = vec![0.0; kinds];
    for (kind, rate) in rates {
        column[*kind] = *rate;
    }
    column
}

fn transposed(columns: &[Vec<f64>]) -> Vec<Vec<f64>> {
    (0..columns.len()).map(|row| columns.iter().map(|column| column[row]).collect()).collect()
}

/// Solves a small system of linear equations by elimination; `None` if it is singular.
fn solve(mut rows: Vec<Vec<f64>>, mut right: Vec<f64>) -> Option<Vec<f64>> {
    let size = right.len();
    for column in 0..size {
        let pivot = (column..size)
            .max_by(|a, b| rows[*a][column].abs().total_cmp(&rows[*b][column].abs()))?;
        if rows[pivot][column].abs() < 1e-12 {
            return None;
        }
        rows.swap(column, pivot);
        right.swap(column, pivot);
        let (taken, value) = (rows[column].clone(), right[column]);
        for (number, (row, right)) in rows.iter_mut().zip(&mut right).enumerate() {
            let factor = row[column] / taken[column];
            if number != column {
                for (place, pivot) in row.iter_mut().zip(&taken) {
                    *place -= factor * pivot;
                }
                *right -= factor * value;
            }
        }
    }
    Some((0..size).map(|row| right[row] / rows[row][row]).collect())
}
