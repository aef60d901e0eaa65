//! The values as text: OpenMetrics for a scrape, the older Prometheus format for a textfile.

use memweir_core::names::Named;
use std::collections::BTreeSet;
use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::{Registry, Unit};

use super::{Job, Metrics, Series, State, Values};

type Labels = Vec<(&'static str, String)>;

/// Samples of one metric; counters carry no `_total` here, which the encoder adds.
struct Family {
    name: &'static str,
    unit: Option<Unit>,
    help: &'static str,
    kind: MetricType,
    samples: Vec<(Labels, f64)>,
}

impl Metrics {
    /// Returns the OpenMetrics text.
    #[must_use]
    pub fn openmetrics(&self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self.clone()));
        let mut text = String::new();
        // Writing to a text cannot fail, and the labels are formatted without errors.
        let _ = encode(&mut text, &registry);
        text
    }

    /// Returns the text in the format that the textfile collector of node_exporter reads.
    #[must_use]
    pub fn prometheus_text(&self) -> String {
        prometheus_text(&self.openmetrics())
    }
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let values = self.values();
        values.families().iter().try_for_each(|family| family.encode(&mut encoder))?;
        let Some(switches) = &values.switches else { return Ok(()) };
        let help = "Time from blocking the jobs of a quantum to resuming those of the next";
        let (name, unit) = ("memweir_switch_duration", Some(&Unit::Seconds));
        let descriptor = encoder.encode_descriptor(name, help, unit, Histogram::TYPE)?;
        switches.encode(descriptor)
    }
}

impl Family {
    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        if self.samples.is_empty() {
            return Ok(());
        }
        let mut family =
            encoder.encode_descriptor(self.name, self.help, self.unit.as_ref(), self.kind)?;
        let encode = |value: f64, encoder: MetricEncoder<'_>| match self.kind {
            MetricType::Counter => ConstCounter::new(value).encode(encoder),
            _ => ConstGauge::new(value).encode(encoder),
        };
        if let [(labels, value)] = self.samples.as_slice()
            && labels.is_empty()
        {
            return encode(*value, family);
        }
        let mut samples = self.samples.iter();
        samples.try_for_each(|(labels, value)| encode(*value, family.encode_family(labels)?))
    }
}

/// Rewrites OpenMetrics: there, the name of a counter lacks the `_total` that its samples have, and
/// lines exist that the older format does not know.
fn prometheus_text(openmetrics: &str) -> String {
    let counter = |line: &str| {
        let rest = line.strip_prefix("# TYPE ")?.strip_suffix(" counter")?;
        Some(rest.to_owned())
    };
    let counters: BTreeSet<String> = openmetrics.lines().filter_map(counter).collect();
    let mut text = String::new();
    for line in openmetrics.lines() {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match words.as_slice() {
            ["#", "EOF" | "UNIT", ..] => continue,
            ["#", keyword, name, rest] if counters.contains(*name) => {
                text.push_str(&format!("# {keyword} {name}_total {rest}"));
            }
            _ => text.push_str(line),
        }
        text.push('\n');
    }
    text
}

impl Values {
    fn families(&self) -> Vec<Family> {
        let mut families = self.of_jobs();
        families.extend(self.of_the_bus());
        families.extend(self.of_meters());
        families
    }

    /// Returns the series of jobs.
    fn of_jobs(&self) -> Vec<Family> {
        let seconds = |name, help, value: fn(&Series) -> Option<f64>| Family {
            name,
            unit: Some(Unit::Seconds),
            help,
            kind: MetricType::Counter,
            samples: self
                .jobs
                .iter()
                .filter_map(|(jobid, job)| Some((job.labels(jobid), value(&job.series)?)))
                .collect(),
        };
        vec![
            self.states(),
            self.memory(),
            self.resctrl(),
            seconds("memweir_job_cpu", "CPU time of all processes of the job", |s| s.cpu_s),
            seconds(
                "memweir_job_selected",
                "Length of the quanta in which the job was selected",
                |s| s.selected_s,
            ),
            seconds(
                "memweir_job_blocked",
                "Length of the quanta in which the job was blocked",
                |s| s.blocked_s,
            ),
        ]
    }

    fn states(&self) -> Family {
        let jobs = |state| {
            let queued = if state == State::Waiting { self.queued } else { 0 };
            self.jobs.values().filter(|job| job.series.state == state).count() + queued
        };
        Family {
            name: "memweir_jobs",
            unit: None,
            help: "Jobs or watched subjects by state; those that ended count for five minutes",
            kind: MetricType::Gauge,
            samples: State::ALL
                .iter()
                .map(|state| (vec![("state", state.to_string())], jobs(*state) as f64))
                .collect(),
        }
    }

    fn memory(&self) -> Family {
        let meter = self.meter.map(|meter| meter.kind.name()).unwrap_or_default();
        let samples = self.jobs.iter().flat_map(|(jobid, job)| {
            job.series.memory.iter().map(move |((direction, medium), bytes)| {
                let mut labels = job.labels(jobid);
                labels.push(("direction", direction.name().to_owned()));
                labels.push(("medium", medium.clone()));
                labels.push(("meter", meter.to_owned()));
                (labels, *bytes)
            })
        });
        Family {
            name: "memweir_job_memory",
            unit: Some(Unit::Bytes),
            help: "Bytes that the job moved between the last-level cache and memory",
            kind: MetricType::Counter,
            samples: samples.collect(),
        }
    }

    fn resctrl(&self) -> Family {
        let samples = self.jobs.iter().flat_map(|(jobid, job)| {
            job.series.resctrl.iter().map(move |((domain, scope), bytes)| {
                let labels = vec![
                    ("jobid", jobid.clone()),
                    ("domain", domain.to_string()),
                    ("scope", scope.name().to_owned()),
                ];
                (labels, *bytes as f64)
            })
        });
        Family {
            name: "memweir_job_resctrl",
            unit: Some(Unit::Bytes),
            help: "Bytes in both directions by L3 domain; scope local is the domain's own memory",
            kind: MetricType::Counter,
            samples: samples.collect(),
        }
    }

    /// Returns the series of the memory bus and of decisions.
    fn of_the_bus(&self) -> Vec<Family> {
        let rate = |name, help, value: Option<memweir_core::BytesPerSec>| Family {
            name,
            unit: Some(Unit::Other("bytes_per_second".to_owned())),
            help,
            kind: MetricType::Gauge,
            samples: value.into_iter().map(|rate| (Labels::new(), rate.0)).collect(),
        };
        let quanta = self.quanta.iter().map(|(saturated, quanta)| {
            (vec![("saturated", saturated.to_string())], *quanta as f64)
        });
        vec![
            rate("memweir_target", "Bandwidth that the policy aims at", self.target),
            rate("memweir_peak", "Highest bandwidth that this machine sustains", self.peak),
            Family {
                name: "memweir_quanta",
                unit: None,
                help: "Quanta by saturation of the memory bus",
                kind: MetricType::Counter,
                samples: quanta.collect(),
            },
        ]
    }

    /// Returns the series of memweir and of its meters.
    fn of_meters(&self) -> Vec<Family> {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let meter = self.meter.iter().map(|meter| {
            let kind = meter.kind.name().to_owned();
            (vec![("meter", kind), ("blind_to", meter.blind_to())], 1.0)
        });
        let errors = self.errors.iter().map(|((meter, reason), errors)| {
            let labels = vec![("meter", meter.name().to_owned()), ("reason", (*reason).to_owned())];
            (labels, *errors as f64)
        });
        vec![
            Family {
                name: "memweir_meter_info",
                unit: None,
                help: "The meter in use and what it does not count",
                kind: MetricType::Gauge,
                samples: meter.collect(),
            },
            Family {
                name: "memweir_meter_errors",
                unit: None,
                help: "Jobs that the meter could not take, and readings that failed",
                kind: MetricType::Counter,
                samples: errors.collect(),
            },
            Family {
                name: "memweir_build_info",
                unit: None,
                help: "Version of memweir",
                kind: MetricType::Gauge,
                samples: vec![(vec![("version", version)], 1.0)],
            },
        ]
    }
}

impl Job {
    fn labels(&self, jobid: &str) -> Labels {
        let mut labels = vec![("jobid", jobid.to_owned()), ("name", self.series.name.clone())];
        labels.extend(self.series.slurm_jobid.clone().map(|slurm| ("slurm_jobid", slurm)));
        labels
    }
}
