//! The shortest of some runs of `max-weight`, each told other lengths of its jobs: a schedule that
//! is known where planning one takes too long.
//!
//! The weights of max-weight are the lengths of the jobs that are left, and which weights are best
//! shows only in hindsight: a job that ended well before the others had more of the machine than
//! it needed. So each run corrects the lengths that it was told, each times the time at which its
//! job ended over that of the last, and the next run is told these.

use memweir_core::Nanos;

/// Name under which scenarios ask for this schedule, beside those of policies.
pub const HINDSIGHT: &str = "hindsight";

/// Policy of the runs.
pub const POLICY: &str = "max-weight";

/// Number of runs: from about here on, corrections repeat themselves.
const RUNS: u32 = 12;

/// Returns the factors on the lengths of the jobs with which a batch is shortest. `run` runs it
/// with the factors that it is called with, and returns the time from the first arrival to the end
/// of each job.
///
/// # Errors
/// The first error of a run.
pub fn shortest<E>(
    jobs: usize,
    mut run: impl FnMut(&[f64]) -> Result<Vec<Nanos>, E>,
) -> Result<Vec<f64>, E> {
    let mut factors = vec![1.0; jobs];
    let mut best = (Nanos(u64::MAX), factors.clone());
    for _ in 0..RUNS {
        let ends = run(&factors)?;
        let last = ends.iter().copied().max().unwrap_or_default();
        let correct = |(factor, end): (&f64, &Nanos)| factor * end.as_f64() / last.as_f64();
        let corrected = factors.iter().zip(&ends).map(correct).collect();
        let told = std::mem::replace(&mut factors, corrected);
        if last < best.0 {
            best = (last, told);
        }
    }
    Ok(best.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_ends_early_counts_as_shorter() {
        let mut told = Vec::new();
        let ends = |factors: &[f64]| {
            told.push(factors.to_vec());
            // The first job ends at half of the time, which is shorter once it counts little.
            let seconds = if factors[0] < 0.5 { [3, 6] } else { [4, 8] };
            Ok::<_, ()>(seconds.map(|s| Nanos::from_millis(s * 1000)).to_vec())
        };
        // The runs that are told all and half of the first job end at 8 s, the others at 6 s.
        assert_eq!(shortest(2, ends), Ok(vec![0.25, 1.0]));
        assert_eq!(told[..4], [[1.0, 1.0], [0.5, 1.0], [0.25, 1.0], [0.125, 1.0]]);
        assert_eq!(told.len(), RUNS as usize);
        assert_eq!(shortest(1, |_| Err("stopped")), Err("stopped"));
    }
}
