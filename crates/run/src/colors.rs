//! Page colors for the jobs of a batch: turns the knowledge of the jobs into a set of colors for
//! each. A [`ColorAssignment`] decides; the pages are delivered elsewhere.

use memweir_core::address_map::ColorSet;
use memweir_core::input::Refusal;
use memweir_policy::colors::{CacheUse, ColorAssignment, ProgramTraits, Supply};

use crate::batch::{Knowledge, Known};
use crate::jobs::{Batch, Job};

/// Traits of each job of a batch, for an assignment policy.
#[must_use]
pub fn traits(batch: &Batch, knowledge: &Knowledge) -> Vec<ProgramTraits> {
    batch.jobs.iter().zip(&knowledge.jobs).map(|(job, known)| traits_of(job, known)).collect()
}

fn traits_of(job: &Job, known: &Known) -> ProgramTraits {
    let total = known.profile.as_ref().map(|profile| profile.total());
    // Declared bandwidths come without instructions.
    let mpki = total
        .filter(|total| total.instructions > 0)
        .map(|total| total.reads.as_f64() * 1000.0 / total.instructions as f64);
    ProgramTraits {
        mpki,
        bandwidth: known.bandwidth,
        demanded_banks: job.demanded_banks,
        ..ProgramTraits::default()
    }
}

/// Colors of each job, in the order of the batch: those that the jobs file gives it, and for the
/// others the policy's choice from the rest.
///
/// # Errors
/// If the jobs file gives a job colors that do not exist, or too few are left for the others.
pub fn plan(
    batch: &Batch,
    knowledge: &Knowledge,
    assignment: ColorAssignment,
    supply: &Supply,
    cache: CacheUse,
) -> Result<Vec<ColorSet>, Refusal> {
    for job in &batch.jobs {
        if let Some(colors) = &job.colors {
            colors.within(supply.colors()).map_err(|refusal| {
                let help = refusal.help.unwrap_or_default();
                Refusal::new(format!("job `{}`: {}", job.name, refusal.reason), help)
            })?;
        }
    }
    let fixed = batch.jobs.iter().filter_map(|job| job.colors.as_ref());
    let taken: ColorSet = fixed.flat_map(ColorSet::iter).collect();
    let free: Vec<ProgramTraits> = batch
        .jobs
        .iter()
        .zip(traits(batch, knowledge))
        .filter(|(job, _)| job.colors.is_none())
        .map(|(_, traits)| traits)
        .collect();
    let mut assigned = assignment.assign(&free, &supply.without(&taken), cache)?.into_iter();
    let colors = |job: &Job| match &job.colors {
        Some(colors) => colors.clone(),
        None => assigned.next().unwrap_or_default(),
    };
    Ok(batch.jobs.iter().map(colors).collect())
}

#[cfg(test)]
mod tests {
    use memweir_core::profile::Profile;
    use memweir_core::{BytesPerSec, Counts, Lines, Nanos};

    use super::*;
    use crate::jobs::Command;

    fn batch(colors: &[Option<&str>]) -> Batch {
        let job = |(number, colors): (usize, &Option<&str>)| Job {
            colors: colors.map(|text| text.parse().unwrap()),
            ..Job::new(format!("job-{number}"), Command::Exec(vec!["true".into()]))
        };
        Batch { jobs: colors.iter().enumerate().map(job).collect() }
    }

    fn knowledge(jobs: usize) -> Knowledge {
        Knowledge { jobs: vec![Known::default(); jobs], notices: Vec::new() }
    }

    fn planned(batch: &Batch, colors: u32) -> Result<Vec<String>, Refusal> {
        let uniform = ColorAssignment::named("uniform").unwrap();
        let supply = Supply::new(colors, 2);
        let sets = plan(batch, &knowledge(batch.jobs.len()), uniform, &supply, CacheUse::Keep)?;
        Ok(sets.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn jobs_that_chose_keep_their_colors_and_the_others_share_the_rest() {
        assert_eq!(planned(&batch(&[None; 4]), 32).unwrap(), ["0-7", "8-15", "16-23", "24-31"]);
        let chosen = batch(&[None, Some("0-1"), None]);
        assert_eq!(planned(&chosen, 8).unwrap(), ["2-4", "0-1", "5-7"]);
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_job() {
        let beyond = planned(&batch(&[None, Some("9")]), 8).unwrap_err();
        assert_eq!(beyond.reason, "job `job-1`: color 9 is outside the map");
        assert!(planned(&batch(&[Some("0-7"), None]), 8).is_err());
    }

    #[test]
    fn a_recording_tells_misses_per_instruction_and_bandwidth() {
        let mut knowledge = knowledge(1);
        let total = Counts::new(2_000_000, Lines(50_000), Lines(10_000));
        knowledge.jobs[0].profile = Some(Profile::steady(Nanos::from_millis(1), total));
        knowledge.jobs[0].bandwidth = Some(BytesPerSec(3e9));
        let traits = traits(&batch(&[None]), &knowledge);
        assert_eq!((traits[0].mpki, traits[0].bandwidth), (Some(25.0), Some(BytesPerSec(3e9))));
    }
}
