//! The report of a batch that is over.

use memweir_core::metrics::{self, BandwidthBand};
use memweir_core::{BytesPerSec, Counts, JobId, Medium, MediumId};
use memweir_linux::blocker::LimitUse;
use memweir_linux::{Capabilities, Meter, MeterKind};

use super::ProcessBackend;
use crate::options::Pinning;
use crate::report::{BatchReport, JobReport, MediumReport};
use crate::store::MediumLines;

/// Bands of equal width below the peak in the breakdown of bandwidth, as in iabw Fig. 10.
const BANDS: usize = 10;

impl ProcessBackend<'_> {
    /// Builds the report, except for what the scheduler alone knows. `limits` has the use of each
    /// job's limit, if it has one.
    pub(super) fn report(&self, limits: Vec<Option<LimitUse>>) -> BatchReport {
        let (plan, ledger, meter) = (self.plan, &self.ledger, self.mechanisms.meter.as_deref());
        let bandwidths = ledger.bandwidths();
        let highest = bandwidths.iter().copied().fold(BytesPerSec::ZERO, BytesPerSec::max);
        let rates: Vec<f64> = bandwidths.iter().map(|rate| rate.0).collect();
        let peak = plan.frame.bus.peak;
        let sees = meter.map(Meter::capabilities);
        let job = |(id, limit): (JobId, Option<LimitUse>)| JobReport {
            limit,
            ..self.job_report(id, sees.as_ref())
        };
        BatchReport {
            policy: match plan.pinning {
                Pinning::ByHand => plan.options.policy.clone(),
                _ => plan.policy.clone(),
            },
            meter: meter.map_or("none", |meter| MeterKind::name(meter.kind())).to_owned(),
            mechanism: self.mechanisms.mechanism.clone(),
            cores: plan.cores(),
            quantum_ms: plan.options.quantum.as_millis_f64(),
            turnaround_s: ledger
                .turnaround(self.outcome, self.mechanisms.world.now())
                .as_secs_f64(),
            bandwidth_mean: metrics::mean(&rates),
            bandwidth_std: metrics::std_deviation(&rates),
            quanta: ledger.quanta(),
            bandwidth_breakdown: breakdown(bandwidths, peak.unwrap_or(highest)),
            target: self.target.map(|rate| rate.0),
            peak_bandwidth: peak.map(|rate| rate.0),
            outcome: self.outcome,
            policy_failure: self.policy_failure.get(),
            notices: self.notices.clone(),
            lost: self.recorder.lost().to_vec(),
            jobs: (0..).map(JobId).zip(limits).map(job).collect(),
            media: self.media(sees.as_ref()),
            ..BatchReport::default()
        }
    }

    fn job_report(&self, id: JobId, sees: Option<&Capabilities>) -> JobReport {
        let (job, logs) = (self.job(id), self.logs);
        let arguments = job.command.argv();
        JobReport {
            name: job.name.clone(),
            command: arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
            profile: self.plan.knowledge.jobs[id.index()].source.clone(),
            stdout: Some(logs.stdout_path(&job.name).display().to_string()),
            stderr: Some(logs.stderr_path(&job.name).display().to_string()),
            media: self.lines(&self.ledger.counts(id), sees),
            ..self.ledger.job_report(id, sees)
        }
    }

    /// Returns lines by medium; nothing if the media were not told apart.
    fn lines(&self, counts: &Counts, sees: Option<&Capabilities>) -> Vec<MediumLines> {
        let Some(sees) = sees.filter(|sees| sees.media) else { return Vec::new() };
        let lines = MediumLines::of(counts, &self.plan.options.media).into_iter();
        if sees.writes { lines.collect() } else { lines.map(MediumLines::of_reads).collect() }
    }

    /// Traffic of all jobs by medium; empty if the media were not told apart.
    fn media(&self, sees: Option<&Capabilities>) -> Vec<MediumReport> {
        let media = &self.plan.options.media;
        let jobs = (0..self.plan.batch.jobs.len() as u32).map(JobId);
        let total = jobs.fold(Counts::default(), |sum, job| sum + self.ledger.counts(job));
        let medium = |((id, medium), lines): ((MediumId, &Medium), MediumLines)| MediumReport {
            name: lines.name,
            kind: medium.kind,
            gamma: media.gamma(id),
            delta: media.delta(id),
            memory_reads: lines.reads,
            memory_writes: lines.writes,
        };
        media.iter().zip(self.lines(&total, sees)).map(medium).collect()
    }
}

/// Shares of the quanta per band of bandwidth; empty where nothing was counted.
fn breakdown(bandwidths: &[BytesPerSec], peak: BytesPerSec) -> Vec<BandwidthBand> {
    if bandwidths.is_empty() || peak <= BytesPerSec::ZERO {
        return Vec::new();
    }
    metrics::bandwidth_breakdown(bandwidths, peak, BANDS)
}
