//! Pure decisions: which jobs share the memory bus in the next quantum.
//!
//! The same [`QuantumScheduler`] decides live, on emulated machines and in simulation, so this
//! crate uses no clock, file or operating system, and all randomness is seeded. The mechanisms that
//! block jobs and count their traffic live in `memweir-linux`.
//!
//! | module | part of iabw |
//! |---|---|
//! | [`quantum_loop`] | the quantum loop, section 4.1, over any machine |
//! | [`scheduler`] | its decisions: section 4.1, steps 2 and 3 |
//! | [`policies`] | the table of policies, sections 3.1 and 5 |
//! | [`fitness`] | the selection of eq. (2) |
//! | [`iabw`] | the ideal average bandwidth, eq. (8)-(10) |
//! | [`target`] | the scheduling bandwidth target from that average, eq. (11) |
//! | [`predictor`] | the bandwidth of the next quantum, section 4.2 |
//!
//! And beyond iabw:
//!
//! | module | contents |
//! |---|---|
//! | [`colors`] | which program may use which banks, bpm section 3 |
//! | [`ebw`] | effective bandwidth on hybrid memory, hmmsched eq. (6), (7) |
//! | [`migration`] | which pages belong into DRAM |
//! | [`paging`] | which page leaves DRAM next, drswap section III |
//! | [`protocol`] | the lines by which a policy in another process is asked |
//! | [`record`] | records of decisions, and their replay |
//! | [`speed`] | the speed of a job beside others |
//!
//! # A policy of your own
//!
//! The scheduler asks a [`Policy`] once per quantum which waiting jobs to run beside the head of
//! the run queue. This one pairs heavy jobs with light ones: it takes the job whose demand is
//! farthest from what is committed.
//!
//! ```
//! use memweir_core::{BytesPerSec, Counts, JobId, Lines, Nanos};
//! use memweir_policy::{
//!     Bus, JobSpec, Observation, Policy, PredictorKind, QuantumScheduler, QuantumView,
//!     SchedulerConfig,
//! };
//!
//! struct Opposites;
//!
//! impl Policy for Opposites {
//!     fn select(&mut self, view: &QuantumView<'_>, chosen: &mut Vec<usize>) {
//!         let mut places: Vec<usize> = (0..view.queue.len()).collect();
//!         places.sort_by(|a, b| {
//!             let distance = |place: usize| view.queue[place].demand.distance(view.committed).0;
//!             distance(*b).total_cmp(&distance(*a))
//!         });
//!         // A policy may name more jobs than there are cores: those that do not fit are skipped.
//!         chosen.extend(places);
//!     }
//! }
//!
//! let config = SchedulerConfig {
//!     policy: "opposites".to_owned(),
//!     cores: 2,
//!     quantum: Nanos::from_millis(100),
//!     ..SchedulerConfig::default()
//! };
//! let mut scheduler = QuantumScheduler::with_policy(config, Box::new(Opposites));
//! for (job, gb) in [20.0, 19.0, 1.0, 2.0].into_iter().enumerate() {
//!     scheduler.admit(JobSpec {
//!         expected_bandwidth: Some(BytesPerSec::from_gb(gb)),
//!         ..JobSpec::new(JobId(job as u32))
//!     });
//! }
//!
//! // Job 0 is the head of the queue, job 2 its opposite.
//! let decision = scheduler.select();
//! assert_eq!(decision.chosen, [JobId(0), JobId(2)]);
//!
//! // A quantum later job 2 has turned out to be heavy, and the others are at the head.
//! let seen = |job, gigabytes: u64| {
//!     let reads = Lines(gigabytes * 1_000_000_000 / 64);
//!     let counts = Counts { reads, ..Counts::default() };
//!     Observation::new(JobId(job), Nanos::from_millis(100), Some(counts))
//! };
//! let summary = scheduler.observe(Nanos::from_millis(100), &[seen(0, 2), seen(2, 1)]);
//! assert_eq!(summary.bandwidth.to_string(), "30.0 GB/s");
//! assert_eq!(scheduler.select().chosen, [JobId(1), JobId(3)]);
//! ```
//!
//! To give it a name that users can choose, add a row to [`policies::POLICIES`].

#![forbid(unsafe_code)]

pub mod colors;
pub mod ebw;
pub mod fitness;
pub mod iabw;
pub mod migration;
pub mod paging;
pub mod policies;
pub mod policy;
pub mod predictor;
pub mod protocol;
pub mod quantum_loop;
pub mod record;
mod scan;
pub mod scheduler;
pub mod speed;
pub mod target;

pub use ebw::{EffectiveBandwidth, TrafficRate, TrafficRates, Translation};
pub use policy::{Batch, Blocking, Candidate, ImpossibleChoice, OnSaturation, Policy, QuantumView};
pub use predictor::{Predictor, PredictorKind};
pub use quantum_loop::{Backend, Conclusion, QuantumLoop};
pub use scheduler::{
    Bus, CoreUse, Decision, Ending, JobSpec, Kind, LineCosts, Observation, QuantumScheduler,
    QuantumSummary, Running, SchedulerConfig,
};
pub use speed::{Contention, Load, SpeedModel};
pub use target::{FitError, TargetCurve};
