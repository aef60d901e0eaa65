//! `platform.toml`: the calibration of one machine's memory bus.
//!
//! The file holds every measured point beside what was derived from them, so that a fit can be
//! checked or done again. Measuring and fitting are in [`crate::calibrate`]. All rates are in
//! bytes per second and count lines in both directions (see [`memweir_linux::hog::Kernel`]).

mod checks;
mod curves;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use memweir_core::cache::CacheHierarchy;
use memweir_core::input::{Document, InputError};
use memweir_core::words::counted;
use memweir_core::{Bytes, BytesPerSec};
use memweir_linux::hog::Kernel;
use memweir_linux::private;
use memweir_policy::{Bus, TargetCurve};
use serde::{Deserialize, Serialize};

pub(crate) use curves::{by_instances, median};

use crate::files;
use checks::{finite_coefficients, key_on_line, known_format, not_negative, positive, rate};

/// Version of the file format that this code writes and reads.
pub const FORMAT: u32 = 1;

/// Saturation threshold over realistic peak: iabw Table 2 sets `T_B` to 35 transactions per
/// microsecond on a bus whose realistic peak is 40 (section 2.1).
pub const SATURATION_SHARE: f64 = 35.0 / 40.0;

/// The largest calibration that is read; a full one of 64 cores has less than a tenth of it.
const LARGEST: Bytes = Bytes(16 << 20);

/// One machine's memory bus, as calibrated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Platform {
    /// Version of the format, [`FORMAT`].
    #[serde(deserialize_with = "known_format")]
    pub format: u32,
    /// Start of the calibration.
    pub date: Timestamp,
    /// Effort of the measurements.
    pub effort: Effort,
    /// The machine that was measured.
    pub machine: Machine,
    /// The highest bandwidth that programs reach, once measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak: Option<Peak>,
    /// The kernel with which the idle table and everything after it was measured.
    #[serde(default)]
    pub kernel: Kernel,
    /// The map from ideal average bandwidth to scheduling target.
    pub target: Target,
    /// Bandwidth of 1 to `cores` unthrottled hogs of each kernel, every repeat.
    #[serde(default)]
    pub streams: Vec<StreamPoint>,
    /// Bandwidth of one hog against its idle loop: the table with which HogSim finds the nops for
    /// a rate (iabw section 2.2).
    #[serde(default)]
    pub idle_table: Vec<IdlePoint>,
    /// One unthrottled hog on every core against hogs alone, every repeat: shows contention between
    /// cores.
    #[serde(default)]
    pub full_load: Vec<HogPoint>,
    /// Two hogs against the demand of both (iabw Fig. 1b).
    #[serde(default)]
    pub hog_curve: Vec<HogPoint>,
    /// Random combinations of bandwidth segments, one per core (iabw Fig. 6).
    #[serde(default)]
    pub combinations: Vec<Combination>,
}

/// Duration of a calibration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    /// About twenty seconds: enough to run with, not to publish.
    Quick,
    /// Several minutes.
    Full,
}

/// Identity of a machine as far as its memory bus is concerned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// The processor's model name.
    pub cpu: String,
    /// Cores that memweir could use.
    pub cores: u32,
    /// Size of the memory that the calibration could use.
    pub memory: Bytes,
    /// The hypervisor, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hypervisor: Option<String>,
    /// The caches, where the system reports them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caches: Option<CacheHierarchy>,
}

/// The realistic peak: the highest stable median over the repeats of any number of hogs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peak {
    /// The peak.
    #[serde(deserialize_with = "positive")]
    pub bandwidth: BytesPerSec,
    /// Saturation threshold `T_B` (iabw section 4.2): [`SATURATION_SHARE`] of the peak.
    #[serde(deserialize_with = "positive")]
    pub saturation: BytesPerSec,
    /// The kernel that reached it.
    pub kernel: Kernel,
    /// Number of its instances that ran.
    pub instances: u32,
}

/// Map from ideal average bandwidth to scheduling target, or the reason for its absence (X9).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Target {
    /// Fitted to this machine's combinations.
    Measured {
        /// `c[0] + c[1] x + c[2] x^2` with both bandwidths in GB/s, the form of iabw eq. (11).
        #[serde(deserialize_with = "finite_coefficients")]
        coefficients: [f64; 3],
        /// The smallest demand among the fitted points.
        #[serde(deserialize_with = "rate")]
        from: BytesPerSec,
        /// The largest demand among the fitted points.
        #[serde(deserialize_with = "rate")]
        to: BytesPerSec,
        /// Share of the variance that the fit explains.
        #[serde(deserialize_with = "not_negative")]
        r_squared: f64,
    },
    /// Busy cores do not contend here, or the points do not carry a fit.
    NotMeasurable {
        /// The reason, in one sentence for people.
        reason: String,
    },
}

/// One measurement of unthrottled hogs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamPoint {
    /// Kernel of the hogs.
    pub kernel: Kernel,
    /// Number of hogs that ran at once, each on its own core.
    pub instances: u32,
    /// Bandwidth that they reached together.
    #[serde(deserialize_with = "rate")]
    pub bandwidth: BytesPerSec,
}

/// One measurement of a single throttled hog.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdlePoint {
    /// Nops after each step.
    pub idle: u32,
    /// Bandwidth that it reached alone.
    #[serde(deserialize_with = "rate")]
    pub bandwidth: BytesPerSec,
}

/// Throttled hogs at once against each of them alone: a point of the Hog curve (iabw Fig. 1b).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HogPoint {
    /// Nops after each step.
    pub idle: u32,
    /// Sum of the bandwidths that the hogs reach alone.
    #[serde(deserialize_with = "rate")]
    pub demand: BytesPerSec,
    /// Bandwidth that they reach together.
    #[serde(deserialize_with = "rate")]
    pub achieved: BytesPerSec,
    /// iabw eq. (1); the number of hogs where they do not disturb each other.
    #[serde(deserialize_with = "not_negative")]
    pub weighted_speedup: f64,
}

/// One point of iabw Fig. 6: random segments, one per core, at the same time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Combination {
    /// Sum of the bandwidths that the segments reach alone.
    #[serde(deserialize_with = "rate")]
    pub demand: BytesPerSec,
    /// Bandwidth that they reach together.
    #[serde(deserialize_with = "rate")]
    pub achieved: BytesPerSec,
    /// iabw eq. (1); the number of segments where they do not disturb each other.
    #[serde(deserialize_with = "not_negative")]
    pub weighted_speedup: f64,
    /// Seeds of the segments, from which they can be made again.
    pub seeds: Vec<u32>,
}

/// A `platform.toml` that could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum PlatformError {
    /// The file is not a valid calibration.
    #[error(transparent)]
    Invalid(#[from] InputError),
    /// The operating system refused.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
}

impl Platform {
    /// A calibration that has measured nothing yet.
    #[must_use]
    pub fn new(machine: Machine, effort: Effort) -> Self {
        Self {
            format: FORMAT,
            date: Timestamp::now(),
            effort,
            machine,
            peak: None,
            kernel: Kernel::default(),
            target: Target::NotMeasurable { reason: "the calibration was not finished".to_owned() },
            streams: Vec::new(),
            idle_table: Vec::new(),
            full_load: Vec::new(),
            hog_curve: Vec::new(),
            combinations: Vec::new(),
        }
    }

    /// `platform.toml` in memweir's data directory.
    pub fn default_path() -> io::Result<PathBuf> {
        Ok(files::data_dir()?.join("platform.toml"))
    }

    /// Finds the calibration of this machine: the file at `path`, or the user's if there is one.
    /// Adds a notice if it is of another machine, or if the user's cannot be used.
    ///
    /// # Errors
    /// If the file at `path` cannot be used.
    pub fn find(
        path: Option<&Path>,
        notices: &mut Vec<String>,
    ) -> Result<Option<Self>, PlatformError> {
        let Some(file) = path.map(Path::to_owned).or_else(|| Self::default_path().ok()) else {
            return Ok(None);
        };
        match Self::load(&file) {
            Ok(platform) => {
                notices.extend(platform.notice_for(&Machine::here()));
                Ok(Some(platform))
            }
            Err(error) if path.is_some() => Err(error),
            Err(PlatformError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(None)
            }
            Err(error) => {
                notices.push(format!("this machine's calibration is not used: {error}"));
                Ok(None)
            }
        }
    }

    /// Reads `path`. At the [default path](Self::default_path), which no user names, the file has
    /// to be one of this user.
    ///
    /// # Errors
    /// [`PlatformError::Io`] with `NotFound` where nothing was calibrated yet, and
    /// [`PlatformError::Invalid`] with line, key and reason where the file is no calibration.
    pub fn load(path: &Path) -> Result<Self, PlatformError> {
        let text = if Self::default_path().is_ok_and(|default| default == path) {
            private::read(path, LARGEST)
                .and_then(|bytes| String::from_utf8(bytes).map_err(io::Error::other))
        } else {
            fs::read_to_string(path)
        };
        let text = text.map_err(|source| PlatformError::Io { path: path.to_owned(), source })?;
        Ok(Self::parse(&text, &path.display().to_string())?)
    }

    /// Reads the text of a `platform.toml`; `source_name` stands in messages.
    pub fn parse(text: &str, source_name: &str) -> Result<Self, InputError> {
        Document { name: source_name, text }.deserialize().map_err(|refusal| {
            let refusal = refusal.help("`memweir calibrate` writes a new one");
            match refusal.line.and_then(|line| key_on_line(text, line)) {
                Some(key) => refusal.key(key),
                None => refusal,
            }
        })
    }

    /// Writes `path`: a reader sees the old file or this one, never a part.
    pub fn save(&self, path: &Path) -> Result<(), PlatformError> {
        files::write_atomically(path, self.to_toml().as_bytes())
            .map_err(|source| PlatformError::Io { path: path.to_owned(), source })
    }

    /// The text of the file.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let body = toml::to_string(self).expect("every field of a platform has a form in TOML");
        format!(
            "# Written by `memweir calibrate`. Rates are in bytes per second and count 64-byte\n\
             # lines in both directions; sizes are in bytes.\n{body}"
        )
    }

    /// Realistic peak bandwidth.
    #[must_use]
    pub fn peak(&self) -> Option<BytesPerSec> {
        self.peak.map(|peak| peak.bandwidth)
    }

    /// The memory bus, as far as it was measured.
    #[must_use]
    pub fn bus(&self) -> Bus {
        let Some(peak) = self.peak else { return Bus::default() };
        let core = curves::of_core(self, &peak);
        let loss = core.and_then(|core| curves::loss(&self.hog_curve, peak.bandwidth, core));
        Bus { peak: Some(peak.bandwidth), saturation: Some(peak.saturation), core, loss }
    }

    /// The map from ideal average bandwidth to scheduling target, where it was measured.
    #[must_use]
    pub fn target_curve(&self) -> Option<TargetCurve> {
        let Target::Measured { coefficients, from, to, r_squared } = self.target else {
            return None;
        };
        let [constant, linear, quadratic] = coefficients;
        Some(TargetCurve {
            quadratic,
            linear,
            constant,
            iabw_min: from,
            iabw_max: to,
            r_squared: Some(r_squared),
        })
    }

    /// Returns a notice for the user if these figures come from another machine than `machine`.
    #[must_use]
    pub fn notice_for(&self, machine: &Machine) -> Option<String> {
        let differences = self.machine.differences(machine);
        (!differences.is_empty()).then(|| {
            format!(
                "the calibration of {} is from another machine ({}); `memweir calibrate` measures \
                 this one",
                self.date.strftime("%F"),
                differences.join(", ")
            )
        })
    }
}

impl Machine {
    fn differences(&self, here: &Self) -> Vec<String> {
        let mut differences = Vec::new();
        if self.cpu != here.cpu {
            differences.push(format!("{} there, {} here", self.cpu, here.cpu));
        }
        if self.cores != here.cores {
            let there = counted(self.cores.into(), "core");
            differences.push(format!("{there} there, {} here", here.cores));
        }
        if self.hypervisor != here.hypervisor {
            let name = |machine: &Self| {
                machine.hypervisor.clone().unwrap_or_else(|| "no hypervisor".to_owned())
            };
            differences.push(format!("{} there, {} here", name(self), name(here)));
        }
        let llc = |machine: &Self| machine.caches.map(|caches| caches.llc.size);
        if let (Some(there), Some(here)) = (llc(self), llc(here))
            && there != here
        {
            differences.push(format!("a last-level cache of {there} there, {here} here"));
        }
        differences
    }
}

#[cfg(test)]
mod tests;
