//! The options of `memweir page run`.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use memweir_abi::preload::page::{DirectRead, Slowdown, UnpagedPrograms, WhenFull};
use memweir_core::input::{InputError, Refusal, key_and_value};
use memweir_core::names::{choose, suggestion};
use memweir_core::{Bytes, Nanos};
use memweir_energy::{BusMemory, Reading};
use memweir_page::kernel::KernelRequest;
use memweir_page::live::{Format, Nvm, Request};
use memweir_policy::paging::{LearnsBy, VICTIM_POLICIES, VictimEntry, find};

use crate::failure::{PROGRAM_EXIT_CODES, refusal_of};
use crate::page::energy::{memory, reading};
use crate::value::{duration, refused, size};

/// The media of the energy in the report where none are named: those of drswap.
const MEDIA: &str = "lpddr2-dram,lpddr2-pcm";

/// Options of `memweir page run`.
#[derive(Debug, clap::Args)]
#[command(after_help = after())]
#[command(group = clap::ArgGroup::new("pager").required(true).args(["nvm", "kernel"]))]
pub(crate) struct Args {
    /// Anonymous memory in DRAM that the program, and all that it starts, may have together. Kept
    /// within 5 % as long as the machine lets the helper, which evicts pages, run in time, the NVM
    /// has room, and all of the memory can be paged; a run that exceeds it says by how much and why
    #[arg(long, value_name = "SIZE", value_parser = size)]
    dram: Bytes,
    /// Where evicted pages live: `memfd:SIZE` (DRAM that stands in), `node:N[:SIZE]` (a NUMA node
    /// of slow memory) or `file:PATH[:SIZE]` (like the tmpfs of a directory or file)
    #[arg(long, value_name = "SPEC", value_parser = nvm)]
    pub(super) nvm: Option<Nvm>,
    /// Let the kernel page it, if it can (the patches in kernel/direct-read-swap), to the swap
    /// areas in use or to --swap; --dram then counts files, too
    #[arg(long, conflicts_with_all = ["victims", "delay", "when_full", "unpaged", "timeline",
        "times", "energy"])]
    pub(super) kernel: bool,
    /// A device with a swap area, used for this run alone
    #[arg(long, value_name = "DEVICE", requires = "kernel", conflicts_with = "nvm")]
    pub(super) swap: Option<PathBuf>,
    /// Copy a page to DRAM when it is read, too, for comparison
    #[arg(long)]
    no_direct_read: bool,
    /// Policy that selects the page to evict
    #[arg(long, value_name = "POLICY", default_value = "fifo")]
    #[arg(value_parser = victims)]
    victims: &'static VictimEntry,
    /// A medium so many times slower than DRAM: each page that is read from it or written to it
    /// takes that many times as long (drswap: read=2x,write=12x)
    #[arg(long, value_name = "read=Rx,write=Wx", value_parser = delay)]
    delay: Option<Slowdown>,
    /// Action when there is no room for more pages
    #[arg(long, value_name = "HOW", default_value = "stop")]
    when_full: Full,
    /// Action for programs that cannot be paged, such as static ones
    #[arg(long, value_name = "HOW", default_value = "count")]
    unpaged: Unpaged,
    /// Write what was counted over time, as rows (.csv) or as a figure (.svg)
    #[arg(long, value_name = "FILE")]
    pub(super) timeline: Option<PathBuf>,
    /// Interval between two readings of the counters
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = duration)]
    pub(super) every: Nanos,
    /// Show how long single pages took to be evicted, read and written
    #[arg(long)]
    pub(super) times: bool,
    /// Show an estimate of the energy, for these media: names or files that end in `.toml`
    #[arg(long, value_name = "DRAM,NVM", num_args = 0..=1, default_missing_value = MEDIA)]
    energy: Option<String>,
    /// Reading of the energy equations: `as-printed`, `mended` or `physical`
    #[arg(long, value_name = "NAME", default_value = "physical")]
    #[arg(value_parser = |name: &str| reading(name).map_err(refused))]
    pub(super) reading: (&'static str, Reading),
    /// Show what happens in a line at the foot of the terminal, even where the program writes to it
    #[arg(long)]
    progress: bool,
    /// Write what was counted as JSON (`-`: to standard output, instead of the table)
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub(super) json: Option<PathBuf>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(super) command: Vec<OsString>,
}

/// `--when-full`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Full {
    /// Evict no more; the kernel's limits act
    Stop,
    /// End the largest process
    EndLargest,
}

/// `--unpaged`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Unpaged {
    /// Run them, and count their memory
    Count,
    /// Do not start them (EACCES); end those that were started unseen
    Refuse,
}

/// Media of the energy estimate.
pub(super) struct Media {
    pub(super) dram: BusMemory,
    pub(super) nvm: BusMemory,
}

/// The policies for running programs. The others are for the simulator: a running program is not
/// scanned for writes.
fn live_victims() -> impl Iterator<Item = &'static VictimEntry> + Clone {
    VICTIM_POLICIES.iter().filter(|entry| entry.learns_by == LearnsBy::Faults)
}

/// Parses a policy's name. One for the simulator is accepted here, and refused with the reason when
/// the program is prepared.
fn victims(name: &str) -> Result<&'static VictimEntry, String> {
    let valid = live_victims().map(|entry| (entry.name, entry));
    find(name).or_else(|_| choose("victim policy", name, valid)).map_err(refused)
}

fn after() -> String {
    let policies = live_victims().map(|entry| format!("  {:<6} {}", entry.name, entry.summary));
    let policies: Vec<String> = policies.collect();
    format!(
        "Policies:\n{}\n\n\
         Examples:\n  \
         memweir page run --dram 64M --nvm memfd:1G -- python3 job.py\n  \
         memweir page run --dram 64M --nvm memfd:1G --no-direct-read -- python3 job.py\n  \
         memweir page run --dram 2G --nvm node:2 --timeline t.svg --json t.json -- ./server\n  \
         memweir page run --dram 64M --nvm memfd:1G --delay read=2x,write=12x -- sort big\n  \
         memweir page run --dram 64M --kernel --swap /dev/pmem0 -- ./server\n\n\
         {PROGRAM_EXIT_CODES}",
        policies.join("\n")
    )
}

impl Args {
    /// Returns the request to the preload library.
    pub(super) fn request(&self, nvm: &Nvm) -> Request {
        Request {
            dram: self.dram,
            nvm: nvm.clone(),
            direct_read: self.direct_read(),
            victims: self.victims,
            delay: self.delay,
            when_full: self.when_full(),
            unpaged: match self.unpaged {
                Unpaged::Count => UnpagedPrograms::Count,
                Unpaged::Refuse => UnpagedPrograms::Refuse,
            },
        }
    }

    /// Returns the request to the kernel.
    pub(super) fn kernel_request(&self) -> KernelRequest {
        KernelRequest {
            dram: self.dram,
            device: self.swap.clone(),
            direct_read: self.direct_read(),
        }
    }

    fn direct_read(&self) -> DirectRead {
        match self.no_direct_read {
            true => DirectRead::Copy,
            false => DirectRead::InPlace,
        }
    }

    pub(super) fn when_full(&self) -> WhenFull {
        match self.when_full {
            Full::Stop => WhenFull::Stop,
            Full::EndLargest => WhenFull::EndLargest,
        }
    }

    /// Returns the file of the timeline and its format.
    pub(super) fn timeline(&self) -> Result<Option<(&Path, Format)>, InputError> {
        let Some(path) = &self.timeline else { return Ok(None) };
        let format = Format::of(path)
            .map_err(|refusal| refusal.written_in("command line").key("--timeline"))?;
        Ok(Some((path, format)))
    }

    pub(super) fn media(&self) -> Result<Media, InputError> {
        let names = self.energy.as_deref().unwrap_or(MEDIA);
        let Some((dram, nvm)) = names.split_once(',') else {
            let reason = format!("`{names}` names one medium");
            return Err(
                refusal_of("--energy", reason).help("name two, as `lpddr2-dram,lpddr2-pcm`")
            );
        };
        Ok(Media { dram: memory(dram)?, nvm: memory(nvm)? })
    }

    /// Returns true if the estimate of energy is to be shown, not only written.
    pub(super) fn shows_energy(&self) -> bool {
        self.energy.is_some()
    }

    /// Returns true if the progress line would disturb nothing, or was requested nevertheless.
    pub(super) fn shows_progress(&self) -> bool {
        self.progress || !std::io::stdout().is_terminal()
    }
}

const KINDS: [&str; 4] = ["memfd", "file", "node", "dax"];

/// Parses a place for evicted pages: `memfd:1G`.
fn nvm(text: &str) -> Result<Nvm, String> {
    let help = "write `memfd:SIZE`, `node:N[:SIZE]` or `file:PATH[:SIZE]`";
    let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
    if !KINDS.contains(&kind) {
        let kinds = suggestion(kind, KINDS);
        return Err(format!("`{kind}` is no place for pages: {kinds}; {help}"));
    }
    if rest.is_empty() {
        return Err(format!("`{text}` is not complete: {help}"));
    }
    match kind {
        "memfd" => Ok(Nvm::Memfd(size(rest)?)),
        "dax" => Ok(Nvm::Device(device(rest))),
        "node" => {
            let (number, amount) = match rest.split_once(':') {
                Some((number, amount)) => (number, Some(size(amount)?)),
                None => (rest, None),
            };
            let number = number.parse().map_err(|_| format!("`{number}` is no node: {help}"))?;
            Ok(Nvm::Node { number, size: amount })
        }
        _ => {
            // A path may have colons of its own: only what reads as a size is one.
            let parts = rest.rsplit_once(':').and_then(|(path, end)| Some((path, size(end).ok()?)));
            let (path, amount) = parts.map_or((rest, None), |(path, amount)| (path, Some(amount)));
            Ok(Nvm::File { path: path.into(), size: amount })
        }
    }
}

/// `dax0.0` and `/dev/dax0.0` are the same.
fn device(text: &str) -> PathBuf {
    if text.contains('/') { text.into() } else { Path::new("/dev").join(text) }
}

/// Parses a slower medium: `read=2x,write=12x`; a direction that is not named is as fast as DRAM.
fn delay(text: &str) -> Result<Slowdown, String> {
    let refuse = |what: String| Refusal::new(what, "write `read=2x,write=12x`, each at least 1");
    let mut slowdown = Slowdown { read: 1.0, write: 1.0 };
    for part in text.split(',') {
        let (what, Some(times)) = key_and_value(part) else {
            return Err(refused(refuse(format!("`{part}` has no `=`"))));
        };
        let number: f64 = times
            .strip_suffix('x')
            .unwrap_or(times)
            .parse()
            .ok()
            .filter(|number| (1.0..=1e6).contains(number))
            .ok_or_else(|| refused(refuse(format!("`{times}` is no slowdown"))))?;
        match what {
            "read" => slowdown.read = number,
            "write" => slowdown.write = number,
            other => return Err(refused(refuse(format!("`{other}` is neither read nor write")))),
        }
    }
    Ok(slowdown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_kind_what_and_size() {
        const GIB: Bytes = Bytes(1 << 30);
        assert_eq!(nvm("memfd:1G"), Ok(Nvm::Memfd(GIB)));
        assert_eq!(nvm("node:2"), Ok(Nvm::Node { number: 2, size: None }));
        assert_eq!(nvm("node:2:1G"), Ok(Nvm::Node { number: 2, size: Some(GIB) }));
        let file = |path: &str, size| Ok(Nvm::File { path: path.into(), size });
        assert_eq!(nvm("file:/mnt/x:1G"), file("/mnt/x", Some(GIB)));
        assert_eq!(nvm("file:/mnt/a:b"), file("/mnt/a:b", None));
        assert_eq!(nvm("dax:dax0.0"), Ok(Nvm::Device("/dev/dax0.0".into())));
        for (wrong, told) in [
            ("memfd", "not complete"),
            ("memfd:", "not complete"),
            ("memfd:big", "not a size"),
            ("mem:1G", "did you mean `memfd`"),
            ("node:two", "`two` is no node"),
            ("node:1:0", "more than nothing"),
        ] {
            assert!(nvm(wrong).unwrap_err().contains(told), "{wrong}: {}", nvm(wrong).unwrap_err());
        }
    }

    #[test]
    fn only_policies_for_running_programs_are_offered() {
        let refused = victims("lru").unwrap_err();
        assert!(refused.contains("clock") && !refused.contains("scan"), "{refused}");
        assert_eq!(victims("clock").unwrap().name, "clock");
    }

    #[test]
    fn slowdowns_are_at_least_one() {
        assert_eq!(delay("read=2x,write=12x"), Ok(Slowdown { read: 2.0, write: 12.0 }));
        assert_eq!(delay("write=3"), Ok(Slowdown { read: 1.0, write: 3.0 }));
        for wrong in ["", "read", "read=0.5x", "read=-2x", "write=NaN", "erase=2x", "read=2x,"] {
            assert!(delay(wrong).unwrap_err().contains("at least 1"), "{wrong}");
        }
    }
}
