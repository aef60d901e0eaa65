//! The measurements of a calibration, one function per stage of it.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use memweir_core::names::Named;
use memweir_core::{BytesPerSec, Nanos};
use memweir_linux::hog::Kernel;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{
    Bus, CalibrateError, CalibrateOptions, CalibrateProgress, Disturbance, Stage, hogs_error,
    verdict,
};
use crate::hog::{HogPlan, IdleTable, Limit, Load, Measured};
use crate::platform::{
    Combination, Effort, HogPoint, IdlePoint, Platform, StreamPoint, Target, median,
};
use crate::segment::{self, Segment, Shape};

/// Numbers of measurements of an [`Effort`].
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

/// Most hogs that are measured alone for a comparison: cores of one machine are alike, and on many
/// cores the measurements alone would take longer than all others.
const MOST_ALONE: usize = 4;

/// Repeats of a disturbed measurement: on a machine with work of its own, a few tries find a moment
/// of rest.
const REPEATS: u32 = 20;

/// A calibration in progress.
pub(super) struct Stages<'a> {
    options: &'a CalibrateOptions,
    amount: Amount,
    bus: &'a mut dyn Bus,
    platform: Platform,
    partial: &'a Path,
    progress: &'a mut dyn FnMut(CalibrateProgress),
    stop: &'a AtomicBool,
    spent: f64,
    expected: f64,
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
        stop: &'a AtomicBool,
    ) -> Self {
        let amount = Amount::of(options.effort);
        let expected = expected_seconds(&amount, bus.members());
        Self { options, amount, bus, platform, partial, progress, stop, spent: 0.0, expected }
    }

    pub(super) fn into_platform(self) -> Platform {
        self.platform
    }

    /// Runs every stage. Conclusions are drawn as soon as their points are measured, so that a
    /// partial file has them too.
    pub(super) fn measure_all(&mut self) -> Result<(), CalibrateError> {
        self.peak()?;
        self.platform.kernel = self.options.kernel.unwrap_or(Kernel::Read);
        self.platform.peak = verdict::peak(&self.platform.streams, self.platform.kernel);
        self.full_load()?;
        self.idle_table()?;
        self.hog_curve()?;
        match IdleTable::new(self.platform.kernel, &self.platform.idle_table) {
            Ok(table) => {
                let mut segments = self.segments(&table)?;
                self.combinations(&mut segments)?;
                self.platform.target = verdict::target(&self.platform);
            }
            Err(error) => self.platform.target = Target::NotMeasurable { reason: error.reason },
        }
        self.keep()
    }

    /// Measures so many unthrottled hogs at once, for each of `counts`; returns the medians.
    pub(super) fn remeasure(
        &mut self,
        kernel: Kernel,
        counts: &[u32],
    ) -> Result<Vec<BytesPerSec>, CalibrateError> {
        let windows = self.amount.peak_repeats * counts.len() as u32;
        self.expected = f64::from(windows) * self.amount.window.as_secs_f64();
        let mut rates = vec![Vec::new(); counts.len()];
        for _ in 0..self.amount.peak_repeats {
            for (count, rates) in counts.iter().zip(&mut rates) {
                rates.push(self.unthrottled(kernel, *count as usize)?);
            }
        }
        Ok(rates.iter().map(|rates| median(rates)).collect())
    }

    fn peak(&mut self) -> Result<(), CalibrateError> {
        for _ in 0..self.amount.peak_repeats {
            for instances in instance_counts(self.bus.members()) {
                for &kernel in Kernel::ALL {
                    let bandwidth = self.unthrottled(kernel, instances)?;
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

    /// Measures random segments alone: means from zero to the fastest rate of one hog, of every
    /// burstiness.
    fn segments(&mut self, table: &IdleTable) -> Result<Vec<Prepared>, CalibrateError> {
        let mut rng = ChaCha8Rng::seed_from_u64(self.options.seed);
        let mut segments: Vec<_> = (0..self.amount.segments)
            .map(|_| {
                let seed = rng.random();
                let plan = HogPlan::of_segment(&random_segment(seed, table.fastest()), table);
                Prepared { seed, load: Load::Replay(plan), alone: Vec::new() }
            })
            .collect();
        for _ in 0..self.amount.segment_repeats {
            for segment in &mut segments {
                self.alone(segment)?;
            }
        }
        Ok(segments)
    }

    /// Measures a segment alone once more.
    fn alone(&mut self, segment: &mut Prepared) -> Result<(), CalibrateError> {
        let (kernel, loads) = (self.platform.kernel, [(0, &segment.load)]);
        let alone = self.run(Stage::Segments, kernel, &loads, Limit::Rounds(1))?;
        segment.alone.extend(alone.iter().map(Measured::bandwidth));
        Ok(())
    }

    fn combinations(&mut self, segments: &mut [Prepared]) -> Result<(), CalibrateError> {
        // Another stream of the same seed: the number of segments must not change the draws.
        let mut rng = ChaCha8Rng::seed_from_u64(self.options.seed);
        rng.set_stream(1);
        for _ in 0..self.amount.combinations {
            let chosen: Vec<_> =
                (0..self.bus.members()).map(|_| rng.random_range(0..segments.len())).collect();
            let point = self.undisturbed(chosen.len(), |stages, attempt| {
                if attempt > 0 {
                    // The segments alone may have been measured too slow.
                    chosen.iter().try_for_each(|index| stages.alone(&mut segments[*index]))?;
                }
                stages.combination(&chosen, segments)
            })?;
            self.platform.combinations.push(Combination {
                demand: point.demand,
                achieved: point.achieved,
                weighted_speedup: point.weighted_speedup,
                seeds: chosen.iter().map(|index| segments[*index].seed).collect(),
            });
            self.keep()?;
        }
        Ok(())
    }

    /// Runs the chosen segments at once.
    fn combination(
        &mut self,
        chosen: &[usize],
        segments: &[Prepared],
    ) -> Result<HogPoint, CalibrateError> {
        let chosen = || chosen.iter().map(|index| &segments[*index]);
        let loads: Vec<_> = chosen().enumerate().map(|(member, s)| (member, &s.load)).collect();
        let kernel = self.platform.kernel;
        let shared = self.run(Stage::Combinations, kernel, &loads, Limit::Rounds(1))?;
        let alone: Vec<_> = chosen().map(|s| median(&s.alone)).collect();
        Ok(compare(0, &alone, &shared))
    }

    /// Repeats a comparison of `hogs` hogs while its outcome is impossible, and passes it the
    /// number of earlier attempts. Fails after [`REPEATS`] repeats.
    fn undisturbed(
        &mut self,
        hogs: usize,
        mut compare: impl FnMut(&mut Self, u32) -> Result<HogPoint, CalibrateError>,
    ) -> Result<HogPoint, CalibrateError> {
        let mut attempt = 0;
        loop {
            let point = compare(self, attempt)?;
            match verdict::impossible(&point, hogs, self.platform.peak()) {
                None => return Ok(point),
                Some(disturbance) if attempt == REPEATS => {
                    return Err(CalibrateError::Disturbed(disturbance));
                }
                Some(_) => attempt += 1,
            }
        }
    }

    /// Runs `members` hogs at once, and up to [`MOST_ALONE`] of them alone just before.
    fn against_alone(
        &mut self,
        stage: Stage,
        idle: u32,
        members: usize,
    ) -> Result<HogPoint, CalibrateError> {
        let (load, kernel) = (Load::Steady { idle }, self.platform.kernel);
        let loads: Vec<_> = (0..members).map(|member| (member, &load)).collect();
        let limit = Limit::Time(self.amount.window);
        self.undisturbed(members, |stages, _| {
            let mut alone = Vec::new();
            for load in &loads[..members.min(MOST_ALONE)] {
                alone.push(stages.together(stage, kernel, &[*load])?);
            }
            let shared = stages.run(stage, kernel, &loads, limit)?;
            let alone: Vec<_> = alone.iter().copied().cycle().take(members).collect();
            Ok(compare(idle, &alone, &shared))
        })
    }

    /// Bandwidth that so many hogs reach together at their fastest.
    fn unthrottled(
        &mut self,
        kernel: Kernel,
        instances: usize,
    ) -> Result<BytesPerSec, CalibrateError> {
        let load = Load::Steady { idle: 0 };
        let loads: Vec<_> = (0..instances).map(|member| (member, &load)).collect();
        self.together(Stage::Peak, kernel, &loads)
    }

    /// Bandwidth that these loads reach together in one window.
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
        let measured = self.run_with_own_cpus(kernel, loads, limit)?;
        self.spent += match limit {
            Limit::Time(time) => time.as_secs_f64(),
            Limit::Work(_) | Limit::Rounds(_) => SEGMENT_SECONDS,
        };
        (self.progress)(CalibrateProgress {
            stage,
            done: (self.spent / self.expected).min(1.0),
            bandwidth: measured.iter().map(Measured::bandwidth).sum(),
        });
        Ok(measured)
    }

    /// Runs the loads until each has had its CPU nearly all the time: CPU time lost to other
    /// programs would pass for contention on the bus.
    fn run_with_own_cpus(
        &mut self,
        kernel: Kernel,
        loads: &[(usize, &Load)],
        limit: Limit,
    ) -> Result<Vec<Measured>, CalibrateError> {
        let mut best = 0.0_f64;
        for _ in 0..=REPEATS {
            if self.stop.load(Ordering::Relaxed) {
                return Err(CalibrateError::Interrupted);
            }
            let measured = self
                .bus
                .run(kernel, loads, limit)
                .map_err(|source| hogs_error(self.options, source))?;
            let share = verdict::cpu_share(&measured);
            if share >= verdict::OWN_CPU {
                return Ok(measured);
            }
            best = best.max(share);
        }
        Err(CalibrateError::Disturbed(Disturbance::CpuShare(best)))
    }

    fn keep(&self) -> Result<(), CalibrateError> {
        Ok(self.platform.save(self.partial)?)
    }
}

/// Seconds that a segment takes alone; in combinations up to as many times longer as there are
/// hogs.
const SEGMENT_SECONDS: f64 = 0.1;

/// 1, 2, 4, ... and all.
fn instance_counts(members: usize) -> Vec<usize> {
    let mut counts: Vec<_> =
        std::iter::successors(Some(1), |n| Some(n * 2)).take_while(|n| *n < members).collect();
    counts.push(members);
    counts
}

/// Expected seconds of all measurements, the scale of the progress.
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
