//! Placement of a program's pages on media (H8), in a notation for users.
//!
//! A [`PlacementSpec`] is the parsed text, with media by name; [`PlacementSpec::resolve`] converts
//! it to a [`Placement`] on the media of a machine. The software PMU applies it to addresses.
//!
//! | text | pages |
//! |---|---|
//! | `pram` | all in the medium `pram` |
//! | `pram=70%` | seven of ten in `pram`, the others in local DRAM, by a hash of the page |
//! | `0x1000-0x9000=pram` | this range of addresses in `pram`; more ranges after commas |
//! | `hot=64MiB` | the hottest 64 MiB in local DRAM, the others in the machine's second medium |
//! | `hot=64MiB,rest=cxl` | the same, with the others in `cxl` |
//! | `hot=64MiB,every=100000` | the same, placed anew after this many memory accesses |

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use crate::counts::Counts;
use crate::input::{Refusal, key_and_value};
use crate::medium::{MAX_MEDIA, Media, MediumId, Traffic};
use crate::names::suggestion;
use crate::units::{Bytes, LINE_BYTES, Lines, PAGE};

#[cfg(test)]
mod tests;

/// Number of address ranges that one placement can have.
pub const MAX_RANGES: usize = 16;

/// Number of pages that a DRAM budget can have: 1 GiB.
pub const MAX_HOT_PAGES: u64 = 1 << 18;

/// Memory accesses between two placements of hot pages, unless the budget requires more: enough
/// that a page's heat is not random.
const SHORTEST_INTERVAL: u64 = 1 << 16;

/// Memory accesses per page of the budget between two placements: one for every line of four times
/// as many pages. Over a shorter interval, a program that loops over more pages than fit would seem
/// to have hot pages, and moving them would gain nothing.
const ACCESSES_PER_PAGE: u64 = 4 * PAGE.0 / LINE_BYTES;

/// A placement as written, with media by name.
#[derive(Clone, Debug, PartialEq)]
pub enum PlacementSpec {
    /// These shares of the pages, in percent, in these media; the rest in local DRAM.
    Share(Vec<(String, f64)>),
    /// These addresses in these media; the rest in local DRAM.
    Ranges(Vec<(Range<u64>, String)>),
    /// The hottest pages in local DRAM.
    Hot {
        /// Size of the local DRAM budget.
        dram: Bytes,
        /// Medium of the other pages; the machine's second medium if absent.
        rest: Option<String>,
        /// Memory accesses between two placements; derived from the budget if absent.
        every: Option<u64>,
    },
}

/// Syntax of placements, for help texts.
pub const FORMS: &str = "write a medium (`pram`), shares (`pram=70%`), ranges (`0x1000-0x9000=pram`) or hot pages \
     (`hot=64MiB`)";

fn refuse<T>(reason: impl Into<String>, help: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::new(reason, help))
}

impl FromStr for PlacementSpec {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        let items: Vec<(&str, Option<&str>)> = text.split(',').map(key_and_value).collect();
        if items.iter().any(|(key, value)| key.is_empty() || *value == Some("")) {
            return refuse(format!("`{text}` is no placement"), FORMS);
        }
        match items.as_slice() {
            [("hot", Some(size)), options @ ..] => hot(size, options),
            [("hot", None)] => refuse("how much DRAM is there for hot pages?", FORMS),
            [(medium, None)] if !medium.starts_with("0x") => {
                Ok(Self::Share(vec![((*medium).to_owned(), 100.0)]))
            }
            [(first, _), ..] if first.starts_with("0x") => {
                items.into_iter().map(range).collect::<Result<_, _>>().and_then(ranges)
            }
            _ => items.into_iter().map(share).collect::<Result<_, _>>().and_then(shares),
        }
    }
}

fn share((medium, value): (&str, Option<&str>)) -> Result<(String, f64), Refusal> {
    let percent = value
        .and_then(|value| value.strip_suffix('%'))
        .and_then(|number| number.trim().parse::<f64>().ok())
        .filter(|percent| (0.0..=100.0).contains(percent));
    match percent {
        Some(percent) => Ok((medium.to_owned(), percent)),
        None => refuse(format!("`{}` is no share of `{medium}`", value.unwrap_or("")), FORMS),
    }
}

fn shares(shares: Vec<(String, f64)>) -> Result<PlacementSpec, Refusal> {
    for (number, (medium, _)) in shares.iter().enumerate() {
        if shares[..number].iter().any(|(other, _)| other == medium) {
            return refuse(format!("`{medium}` has two shares"), "name each medium once");
        }
    }
    // Tolerance for the rounding of three thirds.
    if shares.iter().map(|(_, percent)| percent).sum::<f64>() > 100.0 + 1e-6 {
        return refuse("the shares are more than 100 %", "what is left over goes to local DRAM");
    }
    Ok(PlacementSpec::Share(shares))
}

fn range((key, value): (&str, Option<&str>)) -> Result<(Range<u64>, String), Refusal> {
    let address = |text: &str| u64::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok();
    let ends = key.split_once('-').and_then(|(from, to)| Some(address(from)?..address(to)?));
    match (ends.filter(|range| range.start < range.end), value) {
        (Some(range), Some(medium)) => Ok((range, medium.to_owned())),
        _ => refuse(format!("`{key}` is no range of addresses"), FORMS),
    }
}

fn ranges(ranges: Vec<(Range<u64>, String)>) -> Result<PlacementSpec, Refusal> {
    if ranges.len() > MAX_RANGES {
        return refuse(format!("{} ranges", ranges.len()), format!("at most {MAX_RANGES}"));
    }
    for (number, (range, _)) in ranges.iter().enumerate() {
        let meets = |other: &Range<u64>| range.start < other.end && other.start < range.end;
        if ranges[..number].iter().any(|(other, _)| meets(other)) {
            return refuse(
                format!("{:#x}-{:#x} lies in two ranges", range.start, range.end),
                "let ranges not overlap",
            );
        }
    }
    Ok(PlacementSpec::Ranges(ranges))
}

fn hot(size: &str, options: &[(&str, Option<&str>)]) -> Result<PlacementSpec, Refusal> {
    let (mut rest, mut every) = (None, None);
    for (key, value) in options {
        match (*key, value) {
            ("rest", Some(medium)) if rest.is_none() => rest = Some((*medium).to_owned()),
            ("every", Some(number)) if every.is_none() => {
                every = number.parse().ok().filter(|number| *number > 0);
                if every.is_none() {
                    return refuse(
                        format!("`{number}` is no number of accesses"),
                        "a whole number of accesses to memory, 1 or more",
                    );
                }
            }
            _ => {
                return refuse(
                    format!("`{key}` says nothing about hot pages"),
                    suggestion(key, ["rest", "every"]),
                );
            }
        }
    }
    let pages = size_in_bytes(size).filter(|bytes| bytes.is_multiple_of(PAGE.0));
    match pages.map(|bytes| bytes / PAGE.0) {
        Some(pages) if (1..=MAX_HOT_PAGES).contains(&pages) => {
            Ok(PlacementSpec::Hot { dram: Bytes(pages * PAGE.0), rest, every })
        }
        _ => refuse(
            format!("`{size}` of DRAM cannot be had"),
            format!("whole pages, from 4KiB to {}, such as `64MiB`", Bytes(MAX_HOT_PAGES * PAGE.0)),
        ),
    }
}

/// Parses `4096`, `64KiB`, `64MiB` or `1GiB`.
fn size_in_bytes(text: &str) -> Option<u64> {
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30)];
    let (number, shift) = units
        .into_iter()
        .find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, shift)))
        .unwrap_or((text, 0));
    number.trim().parse::<u64>().ok()?.checked_mul(1 << shift)
}

impl fmt::Display for PlacementSpec {
    /// Writes the form that can be parsed again.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut items = Vec::new();
        match self {
            Self::Share(shares) => {
                items.extend(shares.iter().map(|(m, percent)| format!("{m}={percent}%")));
            }
            Self::Ranges(ranges) => {
                items
                    .extend(ranges.iter().map(|(r, m)| format!("{:#x}-{:#x}={m}", r.start, r.end)));
            }
            Self::Hot { dram, rest, every } => {
                items.push(format!("hot={}", dram.0));
                items.extend(rest.iter().map(|medium| format!("rest={medium}")));
                items.extend(every.iter().map(|number| format!("every={number}")));
            }
        }
        f.write_str(&items.join(","))
    }
}

impl PlacementSpec {
    /// Resolves the placement on a machine with these media.
    ///
    /// # Errors
    /// If the machine has no medium of a given name, or no medium other than the local DRAM for the
    /// pages that are not hot.
    pub fn resolve(&self, media: &Media) -> Result<Placement, Refusal> {
        let find = |name: &str| match media.find(name) {
            Some(id) => Ok(id),
            None => {
                let names: Vec<&str> = media.iter().map(|(_, m)| m.name.as_str()).collect();
                refuse(format!("there is no medium `{name}`"), suggestion(name, names))
            }
        };
        Ok(match self {
            Self::Share(shares) => {
                let mut by_medium = [0.0; MAX_MEDIA];
                for (name, percent) in shares {
                    by_medium[find(name)?.index()] += percent / 100.0;
                }
                let elsewhere: f64 = by_medium[1..].iter().sum();
                by_medium[0] = (1.0 - elsewhere).max(0.0);
                Placement::Share(by_medium)
            }
            Self::Ranges(ranges) => {
                let resolve = |(addresses, name): &(Range<u64>, String)| {
                    Ok(AddressRange {
                        from: addresses.start,
                        to: addresses.end,
                        medium: find(name)?,
                    })
                };
                Placement::Ranges(ranges.iter().map(resolve).collect::<Result<_, _>>()?)
            }
            Self::Hot { dram, rest, every } => {
                let second = media.iter().nth(1).map(|(id, _)| id);
                let rest = match (rest, second) {
                    (Some(name), _) => find(name)?,
                    (None, Some(second)) => second,
                    (None, None) => MediumId::LOCAL_DRAM,
                };
                if rest == MediumId::LOCAL_DRAM {
                    return refuse(
                        "pages that are not hot have no medium to be in but local DRAM",
                        "name media with a second one, such as `pram`",
                    );
                }
                let pages = dram.0 / PAGE.0;
                let interval = every.unwrap_or(SHORTEST_INTERVAL.max(ACCESSES_PER_PAGE * pages));
                Placement::Hot(HotPages { pages, rest, interval })
            }
        })
    }
}

/// A range of addresses in one medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    /// First address.
    pub from: u64,
    /// The address after the last one.
    pub to: u64,
    /// Medium of the range.
    pub medium: MediumId,
}

/// Placement of a job's hottest pages in local DRAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HotPages {
    /// Budget in pages; from one to [`MAX_HOT_PAGES`].
    pub pages: u64,
    /// Medium of the other pages.
    pub rest: MediumId,
    /// Memory accesses of the job between two placements; one or more.
    pub interval: u64,
}

/// Placement of a program's pages on media.
#[derive(Clone, Debug, PartialEq)]
pub enum Placement {
    /// Shares of the pages by medium, which add up to one.
    Share([f64; MAX_MEDIA]),
    /// Ranges that do not overlap; everything else lies in local DRAM.
    Ranges(Vec<AddressRange>),
    /// The hottest pages in local DRAM.
    Hot(HotPages),
}

impl Default for Placement {
    /// Everything in local DRAM.
    fn default() -> Self {
        let mut shares = [0.0; MAX_MEDIA];
        shares[MediumId::LOCAL_DRAM.index()] = 1.0;
        Self::Share(shares)
    }
}

impl Placement {
    /// Returns true if everything lies in local DRAM.
    #[must_use]
    pub fn is_local(&self) -> bool {
        match self {
            Self::Share(shares) => shares[1..].iter().all(|share| *share == 0.0),
            Self::Ranges(ranges) => ranges.iter().all(|r| r.medium == MediumId::LOCAL_DRAM),
            Self::Hot(_) => false,
        }
    }

    /// Returns the division over media of traffic with unknown addresses: the shares of a placement
    /// by share; `None` if the division depends on the addresses.
    #[must_use]
    pub fn shares(&self) -> Option<[f64; MAX_MEDIA]> {
        match self {
            Self::Share(shares) => Some(*shares),
            _ if self.is_local() => Self::default().shares(),
            Self::Ranges(_) | Self::Hot(_) => None,
        }
    }
}

/// Returns the same counts with their traffic divided among media by `shares`, both directions
/// alike. The remainder of rounding stays in local DRAM, so that the number of lines is preserved.
#[must_use]
pub fn divide(counts: &Counts, shares: &[f64; MAX_MEDIA]) -> Counts {
    let part = |lines: Lines, share: f64| Lines((lines.as_f64() * share).round() as u64);
    let mut left = Traffic { reads: counts.reads, writes: counts.writes };
    let mut traffic = [Traffic::default(); MAX_MEDIA];
    for (place, share) in traffic.iter_mut().zip(shares).skip(1) {
        *place = Traffic {
            reads: Lines(part(counts.reads, *share).0.min(left.reads.0)),
            writes: Lines(part(counts.writes, *share).0.min(left.writes.0)),
        };
        left = left.since(place);
    }
    traffic[0] = left;
    Counts::by_medium(counts.instructions, traffic)
}
