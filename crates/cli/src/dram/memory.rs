//! Options of the memory and of its controllers.

use std::path::Path;
use std::str::FromStr;

use memweir_core::input::{InputError, Refusal};
use memweir_core::names::Named;
use memweir_core::{Cycles, PhysAddr};
use memweir_dram::MemoryConfig;
use memweir_dram::config::{MapLayout, PagePolicy, PowerPolicy, Scheduler, Setting};

use super::devices::{DeviceArgs, NvmArgs, Side};
use crate::render::text::counted;
use crate::shared::map;
use crate::value::{named, parsed};

/// The memory and its controllers.
#[derive(Debug, clap::Args)]
pub(super) struct MemoryArgs {
    #[command(flatten)]
    devices: DeviceArgs,
    /// An address map: `interleaved` (neighboring lines in different bank groups), `plain`
    /// (neighboring lines in one bank group), or a file [default: interleaved where the memory has
    /// bank groups]
    #[arg(long, value_name = "NAME|FILE", help_heading = "Memory")]
    map: Option<String>,
    #[command(flatten)]
    nvm: NvmArgs,

    /// In which order requests are served
    #[arg(long, value_name = "NAME", default_value = "fr-fcfs", help_heading = "Controller")]
    #[arg(value_parser = named::<Scheduler>())]
    scheduler: Scheduler,
    /// Cycles after which no younger row-buffer hit goes before a request (`none`: all may)
    #[arg(long, value_name = "CYCLES", value_parser = age_limit, help_heading = "Controller")]
    age_limit: Option<AgeLimit>,
    /// When rows are closed: `open`, `closed`, `closed:ACCESSES`, `adaptive` or `adaptive:CYCLES`
    #[arg(long, value_name = "POLICY", default_value = "open", help_heading = "Controller")]
    #[arg(value_parser = parsed::<PagePolicy>)]
    page: PagePolicy,
    /// Reads, and writes, that a channel holds: `32`, or `READS,WRITES`
    #[arg(long, value_name = "N", default_value = "32", value_parser = queues)]
    #[arg(help_heading = "Controller")]
    queue: (u32, u32),
    /// Shares of the write queue at which draining ends and begins
    #[arg(long, value_name = "LOW,HIGH", default_value = "0.2,0.8", value_parser = watermarks)]
    #[arg(help_heading = "Controller")]
    watermarks: (f64, f64),
    /// Idle cycles before a rank is powered down [default: never]
    #[arg(long, value_name = "CYCLES", help_heading = "Controller")]
    power_down: Option<u64>,
    /// Idle cycles before a rank refreshes itself, where its device can [default: never]
    #[arg(long, value_name = "CYCLES", help_heading = "Controller")]
    self_refresh: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct AgeLimit(Option<Cycles>);

/// One line that describes the measured memory.
pub(super) fn describe(config: &MemoryConfig) -> String {
    let mut names: Vec<&str> = config.ranks.iter().map(|spec| spec.name.as_str()).collect();
    names.dedup();
    format!(
        "{}, {} of {}, {} map, {} page",
        names.join(" + "),
        counted(u64::from(config.channels), "channel"),
        counted(config.ranks.len() as u64, "rank"),
        config.map.name,
        config.page
    )
}

impl MemoryArgs {
    /// The memory systems side by side, checked, each with the address at which it begins: one, or
    /// two with `--nvm`.
    pub(super) fn systems(&self) -> Result<Vec<(PhysAddr, MemoryConfig)>, InputError> {
        let mut first = self.devices.config()?;
        if let Some(given) = &self.map {
            first = with_map(first, given, Side::First)?;
        }
        let self_refresh = self.self_refresh.map(Cycles);
        self.control(&mut first, self_refresh, Side::First)?;
        let mut systems = vec![(PhysAddr(0), first)];
        if let Some((from, mut second)) = self.nvm.config(&systems[0].1)? {
            second.refresh = systems[0].1.refresh;
            // Memories without refresh have no self-refresh.
            let refreshed = second.spec().refresh_interval().is_some();
            self.control(&mut second, self_refresh.filter(|_| refreshed), Side::Second)?;
            systems.push((from, second));
        }
        Ok(systems)
    }

    /// Sets up the controllers of a memory.
    fn control(
        &self,
        config: &mut MemoryConfig,
        self_refresh_after: Option<Cycles>,
        side: Side,
    ) -> Result<(), InputError> {
        config.scheduler = self.scheduler;
        if let Some(AgeLimit(limit)) = self.age_limit {
            config.age_limit = limit;
        }
        config.page = self.page;
        (config.read_queue, config.write_queue) = self.queue;
        (config.low_watermark, config.high_watermark) = self.watermarks;
        config.power =
            PowerPolicy { power_down_after: self.power_down.map(Cycles), self_refresh_after };
        side.check(config)
    }
}

/// The memory with a built-in layout of its address map, or with the map of a file.
pub(super) fn with_map(
    config: MemoryConfig,
    given: &str,
    side: Side,
) -> Result<MemoryConfig, InputError> {
    let path = Path::new(given);
    match MapLayout::named(given) {
        Ok(layout) => Ok(config.with_layout(layout)),
        // A word is a name, unless there is such a file.
        Err(refusal) if !given.contains(['.', '/']) && !path.exists() => {
            let help = format!("{}; or a file with a map", refusal.help.unwrap_or_default());
            let refusal = Refusal::new(refusal.reason, help);
            Err(refusal.written_in("command line").key(side.option(Setting::Map)))
        }
        Err(_) => Ok(MemoryConfig { map: map::read(path)?, ..config }),
    }
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

/// Two values with a comma between them.
fn pair<T: FromStr>(text: &str) -> Option<(T, T)> {
    let (first, second) = text.split_once(',')?;
    Some((first.trim().parse().ok()?, second.trim().parse().ok()?))
}

fn queues(text: &str) -> Result<(u32, u32), String> {
    let alike = || text.trim().parse().ok().map(|size| (size, size));
    let help = "write a number of requests such as `32`, or `READS,WRITES`";
    pair(text).or_else(alike).ok_or_else(|| help.to_owned())
}

fn watermarks(text: &str) -> Result<(f64, f64), String> {
    pair(text).ok_or_else(|| "write two shares from 0 to 1 such as `0.2,0.8`".to_owned())
}
