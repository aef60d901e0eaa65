//! Options that say what memory there is and how its controllers behave.

use std::path::PathBuf;
use std::sync::Arc;

use memweir_core::Cycles;
use memweir_core::input::{InputError, Refusal};
use memweir_core::names::suggestion;
use memweir_dram::config::{PagePolicy, PowerPolicy, RefreshPolicy, Scheduler};
use memweir_dram::{MemoryConfig, MemorySpec};

use crate::value::refused;

/// The memory and its controllers.
#[derive(Debug, clap::Args)]
pub(super) struct MemoryArgs {
    /// A shipped memory (see `memweir dram list`) or a device file; `A+B` puts devices into the
    /// ranks of a channel
    #[arg(long, value_name = "NAME|FILE.toml", help_heading = "Memory")]
    pub(super) memory: String,
    /// Channels
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Memory")]
    channels: u32,
    /// Ranks of each channel [default: the device file's]
    #[arg(long, value_name = "N", help_heading = "Memory")]
    ranks: Option<u32>,
    /// An address map [default: byte, channel, column, rank, bank group, bank, row, from bit 0]
    #[arg(long, value_name = "FILE", help_heading = "Memory")]
    map: Option<PathBuf>,

    /// In which order requests are served: fr-fcfs, fr-fcfs-hit, per-bank, fcfs
    #[arg(long, value_name = "NAME", default_value = "fr-fcfs", value_parser = scheduler)]
    #[arg(help_heading = "Controller")]
    scheduler: Scheduler,
    /// Cycles after which a request goes before all others (`none`: never)
    #[arg(long, value_name = "CYCLES", value_parser = age_limit, help_heading = "Controller")]
    age_limit: Option<AgeLimit>,
    /// When rows are closed: `open`, `closed`, `closed:ACCESSES`, `adaptive` or `adaptive:CYCLES`
    #[arg(long, value_name = "POLICY", default_value = "open", help_heading = "Controller")]
    #[arg(value_parser = |text: &str| text.parse::<PagePolicy>().map_err(refused))]
    page: PagePolicy,
    /// How DRAM is refreshed: all-bank, staggered, per-bank, off
    #[arg(long, value_name = "NAME", default_value = "all-bank", value_parser = refresh)]
    #[arg(help_heading = "Controller")]
    refresh: RefreshPolicy,
    /// Reads, and writes, that a channel holds: `32`, or `READS,WRITES`
    #[arg(long, value_name = "N", default_value = "32", value_parser = queues)]
    #[arg(help_heading = "Controller")]
    queue: Queues,
    /// Shares of the write queue at which draining ends and begins
    #[arg(long, value_name = "LOW,HIGH", default_value = "0.2,0.8", value_parser = watermarks)]
    #[arg(help_heading = "Controller")]
    watermarks: Watermarks,
    /// Idle cycles before a rank is powered down [default: never]
    #[arg(long, value_name = "CYCLES", help_heading = "Controller")]
    power_down: Option<u64>,
    /// Idle cycles before a rank refreshes itself [default: never]
    #[arg(long, value_name = "CYCLES", help_heading = "Controller")]
    self_refresh: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct AgeLimit(Option<Cycles>);

#[derive(Clone, Copy, Debug)]
struct Queues {
    reads: u32,
    writes: u32,
}

#[derive(Clone, Copy, Debug)]
struct Watermarks {
    low: f64,
    high: f64,
}

impl MemoryArgs {
    /// One line that says what was measured.
    pub(super) fn describe(&self, config: &MemoryConfig) -> String {
        let mut names: Vec<&str> = config.ranks.iter().map(|spec| spec.name.as_str()).collect();
        names.dedup();
        format!(
            "{}, {} channels of {} ranks, {} page",
            names.join(" + "),
            config.channels,
            config.ranks.len(),
            config.page
        )
    }

    /// The memory system, checked.
    pub(super) fn config(&self) -> Result<MemoryConfig, InputError> {
        let specs = specs(&self.memory)?;
        let on_command_line = |refusal: Refusal| refusal.written_in("command line");
        let mut config = match specs.as_slice() {
            [spec] => {
                let ranks = self.ranks.unwrap_or(spec.organization.ranks) as usize;
                if ranks == 0 {
                    let refusal = Refusal::new("no ranks", "at least one");
                    return Err(on_command_line(refusal).key("--ranks"));
                }
                MemoryConfig::of_ranks(vec![Arc::clone(spec); ranks], self.channels.max(1))
            }
            specs => {
                if self.ranks.is_some_and(|ranks| ranks as usize != specs.len()) {
                    let refusal = Refusal::new(
                        format!("{} devices are named, one for each rank", specs.len()),
                        "leave `--ranks` out",
                    );
                    return Err(on_command_line(refusal).key("--ranks"));
                }
                MemoryConfig::of_ranks(specs.to_vec(), self.channels.max(1))
            }
        };
        config.channels = self.channels;
        if let Some(path) = &self.map {
            config.map = crate::map::read(path)?;
        }
        config.scheduler = self.scheduler;
        if let Some(AgeLimit(limit)) = self.age_limit {
            config.age_limit = limit;
        }
        config.page = self.page;
        config.refresh = self.refresh;
        (config.read_queue, config.write_queue) = (self.queue.reads, self.queue.writes);
        (config.low_watermark, config.high_watermark) = (self.watermarks.low, self.watermarks.high);
        config.power = PowerPolicy {
            power_down_after: self.power_down.map(Cycles),
            self_refresh_after: self.self_refresh.map(Cycles),
        };
        config.validate().map_err(on_command_line)?;
        Ok(config)
    }
}

/// The devices of `A+B`, each a shipped name or a file.
fn specs(list: &str) -> Result<Vec<Arc<MemorySpec>>, InputError> {
    list.split('+').map(|one| spec(one).map(Arc::new)).collect()
}

/// A shipped memory, or that of a file.
pub(super) fn spec(name: &str) -> Result<MemorySpec, InputError> {
    if !name.ends_with(".toml") {
        let shipped = MemorySpec::shipped(name);
        return shipped.map_err(|refusal| refusal.written_in("command line").key("--memory"));
    }
    let text =
        std::fs::read_to_string(name).map_err(|error| InputError::new(name, error.to_string()))?;
    MemorySpec::parse(name, &text)
}

fn named<T: Copy>(what: &str, all: &[(&'static str, T)], text: &str) -> Result<T, String> {
    let found = all.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        format!("unknown {what} `{text}`: {}", suggestion(text, names.iter().copied()))
    })
}

fn scheduler(text: &str) -> Result<Scheduler, String> {
    named("scheduler", &Scheduler::ALL, text)
}

fn refresh(text: &str) -> Result<RefreshPolicy, String> {
    named("refresh policy", &RefreshPolicy::ALL, text)
}

fn age_limit(text: &str) -> Result<AgeLimit, String> {
    match text {
        "none" => Ok(AgeLimit(None)),
        cycles => match cycles.parse() {
            Ok(cycles) => Ok(AgeLimit(Some(Cycles(cycles)))),
            Err(_) => Err("write a number of cycles, or `none`".to_owned()),
        },
    }
}

fn queues(text: &str) -> Result<Queues, String> {
    let (reads, writes) = text.split_once(',').unwrap_or((text, text));
    match (reads.trim().parse(), writes.trim().parse()) {
        (Ok(reads), Ok(writes)) => Ok(Queues { reads, writes }),
        _ => Err("write a number of requests such as `32`, or `READS,WRITES`".to_owned()),
    }
}

fn watermarks(text: &str) -> Result<Watermarks, String> {
    let shares = text.split_once(',').map(|(low, high)| (low.trim().parse(), high.trim().parse()));
    match shares {
        Some((Ok(low), Ok(high))) => Ok(Watermarks { low, high }),
        _ => Err("write two shares from 0 to 1 such as `0.2,0.8`".to_owned()),
    }
}
