//! The measurements of a calibration, one function per stage of it.

use std::path::Path;

use memweir_core::{BytesPerSec, Nanos};
use memweir_linux::hog::Kernel;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{Bus, CalibrateError, CalibrateOptions, CalibrateProgress, Stage, hogs_error, verdict};
use crate::hog::{IdleTable, Limit, Load, Measured, Plan};
use crate::platform::{Combination, Effort, HogPoint, IdlePoint, Platform, StreamPoint, Target};
use crate::segment::{self, Segment, Shape};

/// How much an [`Effort`] measures.
#[derive(Clone, Copy, Debug)]
struct Amount {
    window: Nanos,
    peak_repeats: u32,
    full_load_repeats: u32,
    table_repeats: u32,
    curve_repeats: u32,
    segments: u32,
    segment_repeats: u32,
    combinations: u32,
}

impl Amount {
    fn of(effort: Effort) -> Self {
        match effort {
            Effort::Quick => Self {
                window: Nanos::from_millis(60),
                peak_repeats: 5,
                full_load_repeats: 7,
                table_repeats: 3,
                curve_repeats: 2,
                segments: 12,
                segment_repeats: 2,
                combinations: 80,
            },
            Effort::Full => Self {
                window: Nanos::from_millis(250),
                peak_repeats: 9,
                full_load_repeats: 15,
                table_repeats: 5,
                curve_repeats: 5,
                segments: 64,
                segment_repeats: 5,
                combinations: 500,
            },
        }
    }
}

/// Nops of the idle table; the paper goes up to a thousand.
const IDLES: [u32; 18] =
    [0, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096];

/// Nops of the Hog curve, most of them about where two hogs reach the peak.
const CURVE_IDLES: [u32; 12] = [0, 2, 4, 8, 16, 24, 32, 48, 64, 96, 192, 512];

/// The most hogs that are measured alone for a comparison: cores of one machine are alike, and on
/// many the measurements alone would take longer than all others.
const MOST_ALONE: usize = 4;

/// A calibration under way.
pub(super) struct Stages<'a> {
    options: &'a CalibrateOptions,
    amount: Amount,
    bus: &'a mut dyn Bus,
    platform: Platform,
    partial: &'a Path,
    progress: &'a mut dyn FnMut(CalibrateProgress),
    spent: f64,
    expected: f64,
    /// Time that the hogs ran, and CPU time that they got in it.
    ran: Nanos,
    got: Nanos,
}

/// A random segment, ready to be replayed.
struct Prepared {
    seed: u32,
    load: Load,
    alone: Vec<BytesPerSec>,
}

impl<'a> Stages<'a> {
    pub(super) fn new(
        options: &'a CalibrateOptions,
        bus: &'a mut dyn Bus,
        platform: Platform,
        partial: &'a Path,
        progress: &'a mut dyn FnMut(CalibrateProgress),
    ) -> Self {
        let amount = Amount::of(options.effort);
        let expected = expected_seconds(&amount, bus.members());
        Self {
            options,
            amount,
            bus,
            platform,
            partial,
            progress,
            spent: 0.0,
            expected,
            ran: Nanos::ZERO,
            got: Nanos::ZERO,
        }
    }

    pub(super) fn into_platform(self) -> Platform {
        self.platform
    }

    /// Every stage. Conclusions are drawn as soon as their points are there, so that a partial
    /// file has them too.
    pub(super) fn measure_all(&mut self) -> Result<(), CalibrateError> {
        self.peak()?;
        self.platform.kernel = self.options.kernel.unwrap_or(Kernel::Read);
        self.platform.peak = verdict::peak(&self.platform.streams, self.platform.kernel);
        self.full_load()?;
        self.idle_table()?;
        self.hog_curve()?;
        match IdleTable::new(self.platform.kernel, &self.platform.idle_table) {
            Ok(table) => {
                let segments = self.segments(&table)?;
                self.combinations(&segments)?;
                let cpu_share = self.got.as_f64() / self.ran.as_f64().max(1.0);
                self.platform.target = verdict::target(&self.platform, cpu_share);
            }
            Err(error) => self.platform.target = Target::NotMeasurable { reason: error.reason },
        }
        self.keep()
    }

    fn peak(&mut self) -> Result<(), CalibrateError> {
        let load = Load::Steady { idle: 0 };
        for _ in 0..self.amount.peak_repeats {
            for instances in instance_counts(self.bus.members()) {
                for kernel in Kernel::ALL {
                    let loads: Vec<_> = (0..instances).map(|member| (member, &load)).collect();
                    let bandwidth = self.together(Stage::Peak, kernel, &loads)?;
                    let instances = instances as u32;
                    self.platform.streams.push(StreamPoint { kernel, instances, bandwidth });
                    self.keep()?;
                }
            }
        }
        Ok(())
    }

    fn full_load(&mut self) -> Result<(), CalibrateError> {
        for _ in 0..self.amount.full_load_repeats {
            let members = self.bus.members();
            let point = self.against_alone(Stage::FullLoad, 0, members)?;
            self.platform.full_load.push(point);
            self.keep()?;
        }
        Ok(())
    }

    fn idle_table(&mut self) -> Result<(), CalibrateError> {
        for _ in 0..self.amount.table_repeats {
            for idle in IDLES {
                let load = Load::Steady { idle };
                let kernel = self.platform.kernel;
                let bandwidth = self.together(Stage::IdleTable, kernel, &[(0, &load)])?;
                self.platform.idle_table.push(IdlePoint { idle, bandwidth });
                self.keep()?;
            }
        }
        Ok(())
    }

    fn hog_curve(&mut self) -> Result<(), CalibrateError> {
        if self.bus.members() < 2 {
            return Ok(());
        }
        for _ in 0..self.amount.curve_repeats {
            for idle in CURVE_IDLES {
                let point = self.against_alone(Stage::HogCurve, idle, 2)?;
                self.platform.hog_curve.push(point);
                self.keep()?;
            }
        }
        Ok(())
    }

    /// Random segments: means from nothing to the fastest that one hog can do, of every
    /// burstiness.
    fn segments(&mut self, table: &IdleTable) -> Result<Vec<Prepared>, CalibrateError> {
        let mut rng = ChaCha8Rng::seed_from_u64(self.options.seed);
        let mut segments: Vec<_> = (0..self.amount.segments)
            .map(|_| {
                let seed = rng.random();
                let plan = Plan::of_segment(&random_segment(seed, table.fastest()), table);
                Prepared { seed, load: Load::Replay(plan), alone: Vec::new() }
            })
            .collect();
        for _ in 0..self.amount.segment_repeats {
            for segment in &mut segments {
                let alone = self.run(
                    Stage::Segments,
                    self.platform.kernel,
                    &[(0, &segment.load)],
                    Limit::Rounds(1),
                )?;
                segment.alone.extend(alone.iter().map(Measured::bandwidth));
            }
        }
        Ok(segments)
    }

    fn combinations(&mut self, segments: &[Prepared]) -> Result<(), CalibrateError> {
        // Another stream of the same seed: how many segments there are must not change the draws.
        let mut rng = ChaCha8Rng::seed_from_u64(self.options.seed);
        rng.set_stream(1);
        for _ in 0..self.amount.combinations {
            let chosen: Vec<_> = (0..self.bus.members())
                .map(|_| &segments[rng.random_range(0..segments.len())])
                .collect();
            let loads: Vec<_> =
                chosen.iter().enumerate().map(|(member, s)| (member, &s.load)).collect();
            let kernel = self.platform.kernel;
            let shared = self.run(Stage::Combinations, kernel, &loads, Limit::Rounds(1))?;
            let alone: Vec<_> = chosen.iter().map(|s| verdict::median(&s.alone)).collect();
            let point = compare(0, &alone, &shared);
            self.platform.combinations.push(Combination {
                demand: point.demand,
                achieved: point.achieved,
                weighted_speedup: point.weighted_speedup,
                seeds: chosen.iter().map(|segment| segment.seed).collect(),
            });
            self.keep()?;
        }
        Ok(())
    }

    /// `members` hogs at once, and each of them alone just before.
    fn against_alone(
        &mut self,
        stage: Stage,
        idle: u32,
        members: usize,
    ) -> Result<HogPoint, CalibrateError> {
        let (load, kernel) = (Load::Steady { idle }, self.platform.kernel);
        let mut measured_alone = Vec::new();
        for member in 0..members.min(MOST_ALONE) {
            measured_alone.push(self.together(stage, kernel, &[(member, &load)])?);
        }
        let loads: Vec<_> = (0..members).map(|member| (member, &load)).collect();
        let limit = Limit::Time(self.amount.window);
        let shared = self.run(stage, kernel, &loads, limit)?;
        let alone: Vec<_> = measured_alone.iter().copied().cycle().take(members).collect();
        Ok(compare(idle, &alone, &shared))
    }

    /// What these loads reach together in one window.
    fn together(
        &mut self,
        stage: Stage,
        kernel: Kernel,
        loads: &[(usize, &Load)],
    ) -> Result<BytesPerSec, CalibrateError> {
        let limit = Limit::Time(self.amount.window);
        let measured = self.run(stage, kernel, loads, limit)?;
        Ok(measured.iter().map(Measured::bandwidth).sum())
    }

    fn run(
        &mut self,
        stage: Stage,
        kernel: Kernel,
        loads: &[(usize, &Load)],
        limit: Limit,
    ) -> Result<Vec<Measured>, CalibrateError> {
        let measured = self
            .bus
            .run(kernel, loads, limit)
            .map_err(|source| hogs_error(self.options, source))?;
        self.spent += match limit {
            Limit::Time(time) => time.as_secs_f64(),
            Limit::Work(_) | Limit::Rounds(_) => SEGMENT_SECONDS,
        };
        for one in &measured {
            self.ran += one.elapsed;
            self.got += one.cpu_time;
        }
        (self.progress)(CalibrateProgress {
            stage,
            done: (self.spent / self.expected).min(1.0),
            bandwidth: measured.iter().map(Measured::bandwidth).sum(),
        });
        Ok(measured)
    }

    fn keep(&self) -> Result<(), CalibrateError> {
        Ok(self.platform.save(self.partial)?)
    }
}

/// How long a segment takes alone; in combinations up to as many times longer as there are hogs.
const SEGMENT_SECONDS: f64 = 0.1;

/// 1, 2, 4, ... and all.
fn instance_counts(members: usize) -> Vec<usize> {
    let mut counts: Vec<_> =
        std::iter::successors(Some(1), |n| Some(n * 2)).take_while(|n| *n < members).collect();
    counts.push(members);
    counts
}

/// The time that all measurements are to take: what progress is told in.
fn expected_seconds(amount: &Amount, members: usize) -> f64 {
    let alone = members.min(MOST_ALONE) as f64;
    let peak = instance_counts(members).len() * Kernel::ALL.len();
    let windows = f64::from(amount.peak_repeats) * peak as f64
        + f64::from(amount.full_load_repeats) * (alone + 1.0)
        + f64::from(amount.table_repeats) * IDLES.len() as f64
        + if members < 2 {
            0.0
        } else {
            f64::from(amount.curve_repeats) * 3.0 * CURVE_IDLES.len() as f64
        };
    windows * amount.window.as_secs_f64()
        + SEGMENT_SECONDS
            * f64::from(amount.segment_repeats * amount.segments + amount.combinations)
}

/// Hogs that reach `alone` by themselves and `shared` at once. For a steady rate, the ratio of
/// rates is the ratio of run times of iabw eq. (1).
fn compare(idle: u32, alone: &[BytesPerSec], shared: &[Measured]) -> HogPoint {
    let speedups = alone
        .iter()
        .zip(shared)
        .map(|(alone, shared)| if alone.0 > 0.0 { shared.bandwidth().0 / alone.0 } else { 1.0 });
    HogPoint {
        idle,
        demand: alone.iter().copied().sum(),
        achieved: shared.iter().map(Measured::bandwidth).sum(),
        weighted_speedup: speedups.sum(),
    }
}

/// The segment of a seed on a machine where one hog reaches `fastest`.
pub(super) fn random_segment(seed: u32, fastest: BytesPerSec) -> Segment {
    let mut rng = ChaCha8Rng::seed_from_u64(u64::from(seed));
    let shape = Shape {
        mean: fastest * rng.random_range(0.05..1.0),
        burstiness: rng.random_range(0.0..1.0),
        ceiling: fastest,
    };
    segment::synthetic(&shape, u64::from(seed))
}
