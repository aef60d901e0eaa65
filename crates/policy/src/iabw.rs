//! Memory requirements of a workload as a whole: iabw section 3.3.

use std::cmp::Reverse;

use memweir_core::{BytesPerSec, Nanos};

/// A job's resource requirements as the ideal average bandwidth needs them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Requirement {
    /// Execution time with all resources granted, `T_j`.
    pub time: Nanos,
    /// Mean bandwidth over that time, over all of its cores, `B_j`.
    pub bandwidth: BytesPerSec,
    /// Cores that it occupies, at least one.
    pub cores: u32,
}

/// Returns the time that the workload would take on `cores` cores with infinite memory bandwidth
/// under round-robin, iabw eq. (9): with the times in increasing order,
///
/// ```text
/// (T_1 + ... + T_(N-C)) / C + T_N
/// ```
///
/// and simply the longest time where there are no more jobs than cores (N <= C).
///
/// Beyond the paper: a job of `c` cores counts as `c` jobs of its length, and a job wider than the
/// machine as one that fills it.
#[must_use]
pub fn ideal_turnaround_time(jobs: &[Requirement], cores: u32) -> Nanos {
    Nanos::from_secs_f64(turnaround_secs(jobs, cores))
}

/// Returns the rate at which the workload's traffic would flow if it took its ideal turnaround
/// time, iabw eq. (10): all of its traffic, the sum of `T_j x B_j` of eq. (8), over eq. (9). Zero
/// for no jobs. It may exceed the peak bandwidth.
#[must_use]
pub fn ideal_average_bandwidth(jobs: &[Requirement], cores: u32) -> BytesPerSec {
    let traffic: f64 = jobs.iter().map(|job| job.time.as_secs_f64() * job.bandwidth.0).sum();
    let turnaround = turnaround_secs(jobs, cores);
    if turnaround > 0.0 { BytesPerSec(traffic / turnaround) } else { BytesPerSec::ZERO }
}

/// Computes iabw eq. (9). The formula needs no complete order, only the `C` longest jobs apart.
fn turnaround_secs(jobs: &[Requirement], cores: u32) -> f64 {
    let cores = cores.max(1);
    let mut times: Vec<(Nanos, u32)> =
        jobs.iter().map(|job| (job.time, job.cores.clamp(1, cores))).collect();
    let Some(longest) = times.iter().map(|(time, _)| *time).max() else { return 0.0 };
    let apart = times.len().saturating_sub(cores as usize);
    if apart > 0 {
        times.select_nth_unstable_by_key(apart, |(time, _)| *time);
    }
    // `longer` has at least as many lanes as the longest ones that the sum leaves out, because
    // every job has at least one lane.
    let (shorter, longer) = times.split_at_mut(apart);
    longer.sort_unstable_by_key(|(time, _)| Reverse(*time));
    let core_seconds = |(time, lanes): &(Nanos, u32)| time.as_secs_f64() * f64::from(*lanes);
    let mut sum: f64 = shorter.iter().map(core_seconds).sum();
    let mut left_out = cores;
    for (time, lanes) in longer {
        let out = left_out.min(*lanes);
        left_out -= out;
        sum += time.as_secs_f64() * f64::from(*lanes - out);
    }
    sum / f64::from(cores) + longest.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn job(seconds: u64, gb: f64) -> Requirement {
        Requirement {
            time: Nanos::from_millis(1000 * seconds),
            bandwidth: BytesPerSec::from_gb(gb),
            cores: 1,
        }
    }

    fn seconds(value: f64) -> Nanos {
        Nanos::from_secs_f64(value)
    }

    /// Simulates round-robin with quanta that tend to zero: every remaining job gets an equal share
    /// of the cores, at most one each. This is the derivation of iabw eq. (9), step by step.
    fn processor_sharing(mut times: Vec<f64>, cores: f64) -> f64 {
        times.sort_by(f64::total_cmp);
        let (mut now, mut done) = (0.0, 0.0);
        for (index, time) in times.iter().enumerate() {
            let left = (times.len() - index) as f64;
            now += (time - done) * (left / cores).max(1.0);
            done = *time;
        }
        now
    }

    #[test]
    fn the_papers_derivation_for_eight_jobs_on_four_cores() {
        let times = [3, 5, 8, 9, 11, 14, 18, 20];
        let jobs: Vec<_> = times.iter().map(|time| job(*time, 1.0)).collect();
        // Term by term as in the text: T1 8/4 + (T2-T1) 7/4 + (T3-T2) 6/4 + (T4-T3) 5/4 +
        // (T5-T4) 4/4 + T8-T5 = 6 + 3.5 + 4.5 + 1.25 + 2 + 9.
        let terms = 6.0 + 3.5 + 4.5 + 1.25 + 2.0 + 9.0;
        assert_eq!(ideal_turnaround_time(&jobs, 4), seconds(terms));
        // And eq. (9) itself: (3 + 5 + 8 + 9) / 4 + 20.
        assert_eq!(ideal_turnaround_time(&jobs, 4), seconds(26.25));
    }

    #[test]
    fn the_average_by_hand() {
        // 10 s x 2 GB/s + 20 s x 3 GB/s + 30 s x 0 = 80 GB; on 2 cores 10/2 + 30 = 35 s.
        let jobs = [job(30, 0.0), job(10, 2.0), job(20, 3.0)];
        assert_eq!(ideal_turnaround_time(&jobs, 2), seconds(35.0));
        let average = ideal_average_bandwidth(&jobs, 2);
        assert!((average.as_gb() - 80.0 / 35.0).abs() < 1e-9, "{average}");
    }

    #[test]
    fn four_streaming_and_four_cpu_bound_jobs_ask_for_one_streaming_job() {
        let jobs: Vec<_> = (0..8).map(|i| job(10, if i < 4 { 20.0 } else { 0.0 })).collect();
        // 4 x 10 s x 20 GB/s over 6 x 10 / 2 + 10 = 40 s.
        assert_eq!(ideal_average_bandwidth(&jobs, 2), BytesPerSec::from_gb(20.0));
    }

    #[test]
    fn no_more_jobs_than_cores_take_as_long_as_the_longest() {
        assert_eq!(ideal_turnaround_time(&[job(4, 1.0), job(9, 1.0)], 2), seconds(9.0));
        assert_eq!(ideal_turnaround_time(&[job(4, 1.0)], 64), seconds(4.0));
        assert_eq!(ideal_turnaround_time(&[], 4), Nanos::ZERO);
        assert_eq!(ideal_average_bandwidth(&[], 4), BytesPerSec::ZERO);
    }

    #[test]
    fn a_job_of_several_cores_counts_as_several_jobs() {
        let wide = Requirement { cores: 2, ..job(6, 4.0) };
        // Lanes 2 4 6 6 on two cores: (2 + 4) / 2 + 6.
        assert_eq!(ideal_turnaround_time(&[wide, job(2, 0.0), job(4, 0.0)], 2), seconds(9.0));
        // Lanes 6 6 8 on two cores: the two longest are the 8 and one of the 6: 6 / 2 + 8.
        assert_eq!(ideal_turnaround_time(&[wide, job(8, 0.0)], 2), seconds(11.0));
        let wider = Requirement { cores: 99, ..wide };
        assert_eq!(ideal_turnaround_time(&[wider], 2), seconds(6.0));
        // Its bandwidth is that of all its cores: not multiplied.
        assert_eq!(ideal_average_bandwidth(&[wider], 2), BytesPerSec::from_gb(4.0));
    }

    proptest! {
        #[test]
        fn eq_9_is_round_robin(
            times in prop::collection::vec(1u64..500, 1..40), cores in 1u32..12,
        ) {
            let jobs: Vec<_> = times.iter().map(|time| job(*time, 1.0)).collect();
            let times = times.iter().map(|time| *time as f64).collect();
            let simulated = processor_sharing(times, cores.into());
            let formula = ideal_turnaround_time(&jobs, cores).as_secs_f64();
            prop_assert!((formula - simulated).abs() < 1e-6, "{formula} against {simulated}");
        }

        #[test]
        fn wide_jobs_are_as_many_narrow_ones(
            jobs in prop::collection::vec((1u64..500, 1u32..6), 1..20), cores in 1u32..8,
        ) {
            let wide: Vec<_> = jobs.iter()
                .map(|(time, width)| Requirement { cores: *width, ..job(*time, 1.0) })
                .collect();
            let narrow: Vec<_> = jobs.iter()
                .flat_map(|(time, width)| vec![job(*time, 1.0); (*width).min(cores) as usize])
                .collect();
            let time = |jobs: &[_]| ideal_turnaround_time(jobs, cores);
            prop_assert_eq!(time(&wide), time(&narrow));
        }
    }
}
