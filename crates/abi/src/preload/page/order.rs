//! The order to page a program, as text: `key=value` separated by `;`.

use std::fmt;
use std::str::FromStr;

use memweir_core::Bytes;
use memweir_core::input::Refusal;

use crate::preload::fields::Fields;

/// Location of evicted pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NvmPlace {
    /// Shared memory without a file: DRAM that stands in for a slower memory.
    Memfd,
    /// Unnamed files of a tmpfs of their own. Other file systems do not allow write-protection of
    /// pages.
    Tmpfs(TmpfsOptions),
    /// Shared memory on a NUMA node of slow memory.
    Node {
        /// The node's number.
        node: u32,
    },
}

/// Mount options that decide where and how a tmpfs allocates pages; empty for the default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TmpfsOptions {
    /// `huge`: the use of huge pages.
    pub huge: String,
    /// `mpol`: the memory policy.
    pub policy: String,
}

/// Effect of a read of an evicted page (drswap section III-B).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DirectRead {
    /// The page is mapped in place, read-only; a write copies it to DRAM.
    #[default]
    InPlace,
    /// The page is copied to DRAM as for a write.
    Copy,
}

memweir_core::named! { pub DirectRead, "direct read": InPlace = "in-place", Copy = "copy" }

/// Action when the room for evicted pages is exhausted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// No page is evicted until room becomes free; the kernel's limits act.
    #[default]
    Stop,
    /// The same, and the reader of the counters ends the largest process, like a low-memory killer
    /// (drswap section II). The library itself ends no process.
    EndLargest,
}

memweir_core::named! { pub WhenFull, "way": Stop = "stop", EndLargest = "end-largest" }

/// Action when a paged program starts one that cannot be paged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnpagedPrograms {
    /// It runs, and is counted.
    #[default]
    Count,
    /// It is not started (`EACCES`).
    Refuse,
}

memweir_core::named! { pub UnpagedPrograms, "way": Count = "count", Refuse = "refuse" }

/// Slowdown of the emulated medium relative to DRAM (drswap section IV-A: 2 and 12). One leaves the
/// stand-in unchanged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slowdown {
    /// Factor for reads of a page, at least 1.
    pub read: f64,
    /// Factor for writes of a page, at least 1.
    pub write: f64,
}

/// Request to page a program and everything that it starts.
#[derive(Clone, Debug, PartialEq)]
pub struct PageOrder {
    /// Budget of anonymous memory in DRAM for all processes together.
    pub dram: Bytes,
    /// Location of evicted pages.
    pub nvm: NvmPlace,
    /// Room for evicted pages, for all processes together.
    pub nvm_size: Bytes,
    /// Effect of a read of an evicted page.
    pub direct_read: DirectRead,
    /// Name of the policy that chooses victims, of those in `memweir_policy::paging`.
    pub victims: String,
    /// Slowdown to emulate, if the medium is to be slower than its stand-in.
    pub delay: Option<Slowdown>,
    /// Action when the room for evicted pages is exhausted.
    pub when_full: WhenFull,
    /// Action for programs that cannot be paged.
    pub unpaged: UnpagedPrograms,
    /// Path of the file of counters, [`PAGE_COUNTERS_BYTES`](super::PAGE_COUNTERS_BYTES) long and
    /// initially zero; empty if nothing is counted.
    pub counters: String,
}

impl fmt::Display for PageOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dram={};nvm=", self.dram.0)?;
        match &self.nvm {
            NvmPlace::Memfd => f.write_str("memfd")?,
            NvmPlace::Tmpfs(TmpfsOptions { huge, policy }) => write!(f, "tmpfs:{huge}:{policy}")?,
            NvmPlace::Node { node } => write!(f, "node:{node}")?,
        }
        write!(
            f,
            ";size={};direct-read={};victims={};when-full={};unpaged={}",
            self.nvm_size.0, self.direct_read, self.victims, self.when_full, self.unpaged,
        )?;
        if let Some(Slowdown { read, write }) = self.delay {
            write!(f, ";delay={read},{write}")?;
        }
        write!(f, ";counters={}", self.counters)
    }
}

impl Fields<'_> {
    fn place(&self) -> Result<NvmPlace, Refusal> {
        let wrong = || self.refuse("nvm");
        match self.need("nvm")?.split_once(':') {
            None if self.need("nvm")? == "memfd" => Ok(NvmPlace::Memfd),
            Some(("tmpfs", options)) => {
                let (huge, policy) = options.split_once(':').ok_or_else(wrong)?;
                let (huge, policy) = (huge.to_owned(), policy.to_owned());
                Ok(NvmPlace::Tmpfs(TmpfsOptions { huge, policy }))
            }
            Some(("node", node)) => Ok(NvmPlace::Node { node: node.parse().map_err(|_| wrong())? }),
            _ => Err(wrong()),
        }
    }

    fn delay(&self) -> Result<Option<Slowdown>, Refusal> {
        let Some(text) = self.find("delay") else { return Ok(None) };
        let times = |text: &str| text.parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 1.0);
        let pair = text.split_once(',').and_then(|(r, w)| times(r).zip(times(w)));
        let (read, write) = pair.ok_or_else(|| self.refuse("delay"))?;
        Ok(Some(Slowdown { read, write }))
    }
}

impl FromStr for PageOrder {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        let fields = Fields { text, command: "page run" };
        Ok(Self {
            dram: fields.parse("dram").map(Bytes)?,
            nvm: fields.place()?,
            nvm_size: fields.parse("size").map(Bytes)?,
            direct_read: fields.parse("direct-read")?,
            victims: fields.need("victims")?.to_owned(),
            delay: fields.delay()?,
            when_full: fields.parse("when-full")?,
            unpaged: fields.parse("unpaged")?,
            counters: fields.need("counters")?.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use memweir_core::names::Named;
    use proptest::prelude::*;

    use super::*;

    fn places() -> impl Strategy<Value = NvmPlace> {
        let tmpfs = ("[a-z_]{0,11}", "[a-z]{0,6}=?[a-z]{0,6}:?[0-9,-]{0,9}")
            .prop_map(|(huge, policy)| NvmPlace::Tmpfs(TmpfsOptions { huge, policy }));
        prop_oneof![
            Just(NvmPlace::Memfd),
            tmpfs,
            any::<u32>().prop_map(|node| NvmPlace::Node { node }),
        ]
    }

    proptest! {
        #[test]
        fn orders_read_what_they_write(
            dram: u64,
            nvm in places(),
            size: u64,
            direct_read in prop::sample::select(DirectRead::ALL.to_vec()),
            victims in "[a-z-]{1,10}",
            delay in prop::option::of((1.0..1e6f64, 1.0..1e6f64)),
            when_full in prop::sample::select(WhenFull::ALL.to_vec()),
            unpaged in prop::sample::select(UnpagedPrograms::ALL.to_vec()),
        ) {
            let order = PageOrder {
                dram: Bytes(dram),
                nvm,
                nvm_size: Bytes(size),
                direct_read,
                victims,
                delay: delay.map(|(read, write)| Slowdown { read, write }),
                when_full,
                unpaged,
                counters: "/dev/shm/memweir-page-x".to_owned(),
            };
            prop_assert_eq!(order.to_string().parse::<PageOrder>(), Ok(order));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "(dram|nvm|tmpfs:|node:|=|;|[0-9a-f.]|,|-){0,60}") {
            let _ = text.parse::<PageOrder>();
        }
    }

    #[test]
    fn a_medium_faster_than_dram_is_refused() {
        let text = "dram=1;nvm=memfd;size=1;direct-read=copy;victims=fifo;when-full=stop;\
            unpaged=count;counters=;delay=0.5,12";
        assert!(text.parse::<PageOrder>().unwrap_err().reason.contains("delay"));
        assert!(text.replace("0.5", "2").parse::<PageOrder>().is_ok());
    }
}
