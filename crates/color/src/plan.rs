//! Turns a map and the requested colors into the order for the preload library.

use std::collections::BTreeMap;

use memweir_abi::preload::{Delivery, MAX_POOL_PAGES, MAX_PRELOAD_COLORS, Order, Shortage};
use memweir_core::Bytes;
use memweir_core::address_map::{AddressMap, BASE_PAGE_BITS, ColorSet, Coloring, Span};
use memweir_core::cache::CacheGeometry;
use memweir_core::input::Refusal;
use memweir_core::words::counted;

/// Cache colors that a program may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheColors {
    /// The cache.
    pub cache: CacheGeometry,
    /// Its colors.
    pub colors: ColorSet,
}

/// Request for colors.
#[derive(Clone, Debug)]
pub struct Request {
    /// The map of the machine.
    pub map: AddressMap,
    /// The bank colors.
    pub colors: ColorSet,
    /// Cache colors, if they matter.
    pub cache: Option<CacheColors>,
    /// Reaction when the pool is short.
    pub shortage: Shortage,
    /// Delivery of pages to the program; absent for the best that this kernel can do.
    pub delivery: Option<Delivery>,
    /// Pages to gather before the program starts.
    pub pool_pages: u64,
    /// The most colored pages of a process; zero for no limit.
    pub limit_pages: u64,
}

impl Request {
    /// Returns the order for the preload library. Without a requested delivery it says to move
    /// pages, whatever the kernel can do.
    ///
    /// # Errors
    /// Refuses maps that are not valid or allow one color only, colors outside the map, and bank
    /// and cache colors that no page has both of.
    pub fn order(&self, counters: String) -> Result<Order, Refusal> {
        let (coloring, cache) = together(&self.map, &self.colors, self.cache.as_ref())?;
        if coloring.colors() > MAX_PRELOAD_COLORS {
            return Err(Refusal::new(
                format!(
                    "{} colors are more than the {MAX_PRELOAD_COLORS} that can be told apart",
                    coloring.colors()
                ),
                "leave functions out of the map until fewer colors remain",
            ));
        }
        Ok(Order {
            coloring,
            colors: self.colors.clone(),
            cache,
            shortage: self.shortage,
            delivery: self.delivery.unwrap_or_default(),
            pool_pages: self.pool_pages,
            limit_pages: self.limit_pages,
            counters,
        })
    }

    /// Refuses a pool for which the library has no room, and one that no search can fill with
    /// `available` memory: a search holds half of that, in which all bank colors have equal shares,
    /// and so have all pairs of a bank and a cache color that some pages have.
    ///
    /// # Errors
    /// The largest pool.
    pub(crate) fn pool_fits(&self, order: &Order, available: Bytes) -> Result<(), Refusal> {
        let page = 1 << BASE_PAGE_BITS;
        let pool = Bytes(self.pool_pages.saturating_mul(page));
        let (banks, colors) = (&order.coloring, &order.colors);
        let (share, all) = match &order.cache {
            Some((cache, caches)) => {
                let all = u64::from(banks.colors()) * u64::from(cache.colors());
                let shared = banks.span().intersection(cache.span());
                (meeting(banks, colors, cache, caches), all >> shared.dimension())
            }
            None => (colors.iter().count() as u64, u64::from(banks.colors())),
        };
        let most = available.0 / page / 2 * share / all;
        let help = |most: u64| format!("`--pool {}M` is the most", (most * page) >> 20);
        if self.pool_pages <= most.min(MAX_POOL_PAGES) {
            return Ok(());
        }
        if most >= MAX_POOL_PAGES {
            let largest = Bytes(MAX_POOL_PAGES * page);
            let reason = format!("a pool of {pool} is asked for, and one has at most {largest}");
            return Err(Refusal::new(reason, help(MAX_POOL_PAGES)));
        }
        Err(Refusal::new(
            format!(
                "a pool of {pool} cannot be gathered: of the {available} of memory that are \
                 available, half can be searched, and the colors {} have {} of that",
                self.colors,
                Bytes(most * page),
            ),
            help(most),
        ))
    }
}

/// The bank colors of single pages.
///
/// # Errors
/// Refuses maps that are not valid or allow one color only.
pub(crate) fn strict(map: &AddressMap) -> Result<Coloring, Refusal> {
    map.validate()?;
    let coloring = map.coloring(BASE_PAGE_BITS);
    if coloring.colors() == 1 {
        return Err(Refusal::new(
            format!("the map `{}` allows one color only for pages of 4 KiB", map.name),
            "every page reaches every bank, so nothing can be kept apart; `memweir map show` tells why",
        ));
    }
    Ok(coloring)
}

/// Returns the colorings of banks and cache to which these colors belong.
///
/// # Errors
/// Refuses what [`strict`] refuses, colors outside the map or the cache, and bank and cache colors
/// that no page has both of.
pub(crate) fn together(
    map: &AddressMap,
    colors: &ColorSet,
    cache: Option<&CacheColors>,
) -> Result<(Coloring, Option<(Coloring, ColorSet)>), Refusal> {
    let coloring = strict(map)?;
    colors.within(coloring.colors())?;
    let cache = cache.map(CacheColors::coloring).transpose()?;
    if let Some((cache_coloring, cache_colors)) = &cache {
        meet(&coloring, colors, cache_coloring, cache_colors)?;
    }
    Ok((coloring, cache))
}

impl CacheColors {
    fn coloring(&self) -> Result<(Coloring, ColorSet), Refusal> {
        let coloring = Coloring::of_cache(&self.cache, BASE_PAGE_BITS);
        if coloring.colors() == 1 || coloring.colors() > MAX_PRELOAD_COLORS {
            return Err(Refusal::new(
                format!(
                    "a cache with {} cannot be divided by them",
                    counted(coloring.colors().into(), "page color")
                ),
                "leave --cache-colors out",
            ));
        }
        self.colors.within(coloring.colors()).map_err(|refusal| {
            Refusal::new(
                refusal.reason.replace("the map", "the cache"),
                format!("the cache has colors 0 to {}", coloring.colors() - 1),
            )
        })?;
        Ok((coloring, self.colors.clone()))
    }
}

/// Refuses sets of bank and cache colors that exclude each other.
fn meet(
    bank: &Coloring,
    banks: &ColorSet,
    cache: &Coloring,
    caches: &ColorSet,
) -> Result<(), Refusal> {
    if meeting(bank, banks, cache, caches) > 0 {
        return Ok(());
    }
    Err(Refusal::new(
        format!("no page has one of the bank colors {banks} and one of the cache colors {caches}"),
        format!(
            "{} functions of the address decide both; choose cache colors that agree in them",
            bank.span().intersection(cache.span()).dimension()
        ),
    ))
}

/// Returns the number of pairs of these bank and cache colors that some pages have: where the spans
/// overlap (bpm Fig. 3), a bank color fixes bits of the cache color.
fn meeting(bank: &Coloring, banks: &ColorSet, cache: &Coloring, caches: &ColorSet) -> u64 {
    let shared: Span = bank.span().intersection(cache.span());
    // A color as the value of each shared function: a sum of the coloring's own functions.
    let part = |coloring: &Coloring, color: u32| -> u64 {
        let value = |function: u64| {
            let mut rest = function;
            let mut value = 0;
            for (i, own) in coloring.span().basis().iter().enumerate() {
                if rest >> own.lowest() & 1 == 1 {
                    rest ^= own.0;
                    value ^= u64::from(color >> i & 1);
                }
            }
            value
        };
        shared.basis().iter().enumerate().map(|(i, f)| value(f.0) << i).sum()
    };
    let mut banks_of = BTreeMap::<u64, u64>::new();
    banks.iter().for_each(|color| *banks_of.entry(part(bank, color.0)).or_default() += 1);
    caches.iter().filter_map(|color| banks_of.get(&part(cache, color.0))).sum()
}

#[cfg(test)]
mod tests {
    use memweir_core::address_map::{Role, SetFunction, XorFunction};

    use super::*;

    fn request(colors: &str) -> Request {
        let text = include_str!("../../core/data/maps/i7-860.toml");
        Request {
            map: AddressMap::parse("i7-860.toml", text).unwrap(),
            colors: colors.parse().unwrap(),
            cache: None,
            shortage: Shortage::Spill,
            delivery: None,
            pool_pages: 0,
            limit_pages: 0,
        }
    }

    #[test]
    fn refuses_what_the_map_does_not_have() {
        assert_eq!(request("0-31").order(String::new()).unwrap().coloring.colors(), 32);
        let refusal = request("32").order(String::new()).unwrap_err();
        assert_eq!(refusal.reason, "color 32 is outside the map");
        let mut one = request("0");
        one.map.functions.clear();
        assert!(one.order(String::new()).unwrap_err().reason.contains("allows one color only"));
        let mut many = request("0");
        let set = |bit: u32| XorFunction(1 << bit);
        many.map.functions =
            (13..26).map(|bit| SetFunction { role: Role::Bank, function: set(bit) }).collect();
        (many.map.row, many.map.column) = (Vec::new(), Vec::new());
        let refusal = many.order(String::new()).unwrap_err();
        assert!(refusal.reason.contains("that can be told apart"), "{refusal:?}");
        let mut twice = request("0");
        twice.map.functions.push(twice.map.functions[0]);
        assert!(twice.order(String::new()).is_err());
    }

    #[test]
    fn a_pool_that_memory_cannot_have_is_refused_with_the_most() {
        let fits = |pool_pages, colors| {
            let request = Request { pool_pages, ..request(colors) };
            let order = request.order(String::new()).unwrap();
            request.pool_fits(&order, Bytes(8 << 30)).map_err(|refusal| refusal.help)
        };
        // A quarter of the colors, in half of 8 GiB.
        assert_eq!(fits(1 << 18, "0-7"), Ok(()));
        assert_eq!(fits((1 << 18) + 1, "0-7"), Err(Some("`--pool 1024M` is the most".into())));
        assert_eq!(fits(1 << 20, "0-31"), Ok(()));
        // One of 32 bank and one of 128 cache colors, which agree in three bits: a part in 512.
        let with_cache = |pool_pages| {
            let cache = CacheGeometry::new(Bytes(8 << 20), 16);
            let cache = Some(CacheColors { cache, colors: "0".parse().unwrap() });
            let request = Request { pool_pages, cache, ..request("0") };
            let order = request.order(String::new()).unwrap();
            request.pool_fits(&order, Bytes(8 << 30)).map_err(|refusal| refusal.help)
        };
        assert_eq!(with_cache(2048), Ok(()));
        assert_eq!(with_cache(2049), Err(Some("`--pool 8M` is the most".into())));
    }

    #[test]
    fn a_pool_without_room_in_the_library_is_refused() {
        let fits = |pool_pages| {
            let request = Request { pool_pages, ..request("0-31") };
            let order = request.order(String::new()).unwrap();
            request.pool_fits(&order, Bytes(64 << 30))
        };
        assert_eq!(fits(1 << 22), Ok(()));
        let refusal = fits((1 << 22) + 1).unwrap_err();
        assert!(refusal.reason.ends_with("one has at most 16 GiB"), "{refusal:?}");
        assert_eq!(refusal.help.as_deref(), Some("`--pool 16384M` is the most"));
    }

    #[test]
    fn bank_colors_fix_a_part_of_the_cache_color() {
        let cache = |colors: &str| {
            let cache = CacheGeometry::new(Bytes(8 << 20), 16);
            Some(CacheColors { cache, colors: colors.parse().unwrap() })
        };
        // Bank color 0 has zeros in bits 13 to 15, which are bits 1 to 3 of the cache color.
        let fits = |colors: &str| {
            Request { cache: cache(colors), ..request("0") }.order(String::new()).is_ok()
        };
        assert!(fits("0"));
        assert!(fits("16"));
        assert!(!fits("2") && !fits("4") && !fits("8"));
    }
}
