//! Effective bandwidth (EBW): traffic with different media in one unit, hmmsched section V-A.
//!
//! Meters measure a job's traffic, and policies act on its effective bandwidth; both are elsewhere.
//!
//! # The unit
//!
//! hmmsched eq. (6) and (7) are written as
//!
//! ```text
//! EBW    = EBW_D + EBW_NV
//! EBW_D  = BW_D ~ N_Req x T_D
//! EBW_NV ~ gamma x N_R x T_D  +  delta x N_W x T_D
//! ```
//!
//! and equate a bandwidth with a number of requests times a latency, which is a time. Both readings
//! hold, for they differ by a constant of the machine:
//!
//! * *Bandwidth*: with the requests counted per unit time, `N_Req` is the conventional bandwidth
//!   `BW_D` of eq. (1), and `gamma N_R + delta N_W` is the number of DRAM transactions that would
//!   occupy memory as long ("translate ... into the number of DRAM transactions"). That is what
//!   [`EffectiveBandwidth`] holds, in bytes per second of 64-byte lines, so that it compares with a
//!   demand and with a peak.
//! * *Time*: that rate times `T_D` is time spent in memory accesses per unit time, see
//!   [`EffectiveBandwidth::access_time`]. It exceeds 1 where accesses overlap, and where a job has
//!   several cores.

use std::ops::{Add, AddAssign};

use memweir_core::medium::{Distance, Medium, MediumKind};
use memweir_core::{BytesPerSec, Counts, LINE_BYTES, MAX_MEDIA, Media, MediumId, Nanos, Picos};
use serde::{Deserialize, Serialize};

/// Rate of traffic with one medium.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrafficRate {
    /// Lines read.
    pub reads: BytesPerSec,
    /// Lines written.
    pub writes: BytesPerSec,
}

/// Rates of traffic with each medium, in the order of [`Media`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrafficRates(pub [TrafficRate; MAX_MEDIA]);

impl TrafficRates {
    /// Returns the rates of `counts` over `span`; zero for an empty span.
    #[must_use]
    pub fn of(counts: &Counts, span: Nanos) -> Self {
        Self(MediumId::ALL.map(|medium| {
            let traffic = counts.traffic(medium);
            TrafficRate { reads: traffic.reads.over(span), writes: traffic.writes.over(span) }
        }))
    }

    /// Returns rates with all of `bandwidth` as reads from the local DRAM, for meters that do not
    /// distinguish media or directions.
    #[must_use]
    pub fn local_reads(bandwidth: BytesPerSec) -> Self {
        let mut rates = Self::default();
        rates.0[0].reads = bandwidth;
        rates
    }

    /// Returns the sum over all media and directions: the `BW` of hmmsched eq. (1).
    #[must_use]
    pub fn total(&self) -> BytesPerSec {
        self.0.iter().map(|rate| rate.reads + rate.writes).sum()
    }

    /// Returns rates that sum to `bandwidth`, divided over media and directions in the same
    /// proportion. If the present sum is zero, all of it reads from the local DRAM.
    #[must_use]
    pub fn scaled_to(&self, bandwidth: BytesPerSec) -> Self {
        let total = self.total();
        if total <= BytesPerSec::ZERO {
            return Self::local_reads(bandwidth);
        }
        let factor = bandwidth.0 / total.0;
        Self(
            self.0.map(|rate| TrafficRate {
                reads: rate.reads * factor,
                writes: rate.writes * factor,
            }),
        )
    }
}

/// Effective bandwidth of a job, or of several: bytes per second of DRAM transactions that occupy
/// memory as long as its traffic does. Never negative.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EffectiveBandwidth {
    /// `EBW_D`: traffic with DRAM, local and remote.
    pub dram: BytesPerSec,
    /// `EBW_NV`: traffic with NVM, local and remote.
    pub nvm: BytesPerSec,
}

impl EffectiveBandwidth {
    /// Returns the total EBW, hmmsched eq. (6).
    #[must_use]
    pub fn total(self) -> BytesPerSec {
        self.dram + self.nvm
    }

    /// Returns hmmsched eq. (6) and (7) read as a time: seconds of memory access per second, with a
    /// DRAM access latency `T_D` of `dram_latency`.
    #[must_use]
    pub fn access_time(self, dram_latency: Picos) -> f64 {
        self.total().0 / LINE_BYTES as f64 * dram_latency.as_f64() / 1e12
    }
}

impl Add for EffectiveBandwidth {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self { dram: self.dram + other.dram, nvm: self.nvm + other.nvm }
    }
}

impl AddAssign for EffectiveBandwidth {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// Rule that translates traffic into DRAM transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Translation {
    /// Weighs by the latencies of each medium; those of a remote medium include the link.
    #[default]
    Latency,
    /// Treats every medium as local: a remote medium weighs as the local one of its kind, and as
    /// local DRAM where the machine has none.
    LatencyOfLocal,
    /// Does not translate: every transaction counts as one, as in hmmsched eq. (1).
    Counts,
}

/// Weights of a transaction with each medium in DRAM transactions: `gamma` and `delta` of hmmsched
/// Table III, for every medium of a machine.
///
/// ```
/// use memweir_core::medium::{Distance, MediumKind};
/// use memweir_core::{BytesPerSec, Media, Medium, Picos};
/// use memweir_policy::ebw::{TrafficRate, TrafficRates, Translation, Weights};
///
/// // DRAM 25/25 ns and PRAM 67.5/215 ns: gamma 2.7, delta 8.6.
/// let dram = Media::dram_only().iter().map(|(_, medium)| medium.clone()).next().unwrap();
/// let latencies = [Picos(67_500), Picos(215_000)];
/// let pram = Medium::new("pram", MediumKind::Nvm, Distance::Local, latencies);
/// let weights = Weights::new(&Media::new(vec![dram, pram])?, Translation::Latency);
///
/// let rate = |reads, writes| {
///     TrafficRate { reads: BytesPerSec(reads), writes: BytesPerSec(writes) }
/// };
/// let traffic = TrafficRates([rate(5.0, 3.0), rate(10.0, 1.0), rate(0.0, 0.0), rate(0.0, 0.0)]);
/// let ebw = weights.effective_bandwidth(&traffic);
/// assert_eq!(ebw.dram, BytesPerSec(8.0));
/// assert_eq!(ebw.nvm, BytesPerSec(2.7 * 10.0 + 8.6));
/// # Ok::<(), memweir_core::medium::MediaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights([Weight; MAX_MEDIA]);

/// Weight of one medium.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Weight {
    kind: MediumKind,
    gamma: f64,
    delta: f64,
}

impl Weight {
    /// Weight of DRAM, and of media that the machine does not have.
    const ONE: Self = Self { kind: MediumKind::Dram, gamma: 1.0, delta: 1.0 };
}

impl Weights {
    /// Returns the weights on a machine with these media.
    #[must_use]
    pub fn new(media: &Media, translation: Translation) -> Self {
        Self(MediumId::ALL.map(|id| match media.get(id) {
            Some(medium) => weight(media, id, medium, translation),
            None => Weight::ONE,
        }))
    }

    /// Returns the effective bandwidth of this traffic, hmmsched eq. (6) and (7).
    #[must_use]
    pub fn effective_bandwidth(&self, traffic: &TrafficRates) -> EffectiveBandwidth {
        let mut ebw = EffectiveBandwidth::default();
        for (weight, rate) in self.0.iter().zip(&traffic.0) {
            let effective = rate.reads * weight.gamma + rate.writes * weight.delta;
            match weight.kind {
                MediumKind::Dram => ebw.dram += effective,
                MediumKind::Nvm => ebw.nvm += effective,
            }
        }
        ebw
    }
}

fn weight(media: &Media, id: MediumId, medium: &Medium, translation: Translation) -> Weight {
    let like = |id| (media.gamma(id), media.delta(id));
    let (gamma, delta) = match (translation, medium.distance) {
        (Translation::Counts, _) => (1.0, 1.0),
        // Eq. (6) counts requests to DRAM whatever their direction.
        (_, Distance::Local) if medium.kind == MediumKind::Dram => (1.0, 1.0),
        (Translation::LatencyOfLocal, Distance::Remote) => media
            .iter()
            .find(|(_, local)| local.distance == Distance::Local && local.kind == medium.kind)
            .filter(|(_, local)| local.kind == MediumKind::Nvm)
            .map_or((1.0, 1.0), |(local, _)| like(local)),
        _ => like(id),
    };
    Weight { kind: medium.kind, gamma, delta }
}

#[cfg(test)]
mod tests;
