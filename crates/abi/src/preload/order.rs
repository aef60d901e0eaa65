//! The order to place a program's pages, as text: `key=value` separated by `;`.

use std::fmt;
use std::str::FromStr;

use super::Delivery;
use super::fields::Fields;
use memweir_core::address_map::{ColorSet, Coloring, Span, XorFunction};
use memweir_core::input::Refusal;

/// Action when no page of the requested colors can be found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shortage {
    /// The access is refused, which ends the program.
    Refuse,
    /// A page of another color is given.
    #[default]
    Spill,
    /// The access waits until a page is found.
    Wait,
}

memweir_core::named! {
    pub Shortage, "shortage":
    Refuse = "refuse",
    Spill = "spill",
    Wait = "wait",
}

/// Highest number of pages that the library gathers before the program starts: 16 GiB.
pub const MAX_POOL_PAGES: u64 = 1 << 22;

/// Request for pages of certain colors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// Coloring by banks.
    pub coloring: Coloring,
    /// Bank colors that the program may use.
    pub colors: ColorSet,
    /// Coloring by cache sets, and the cache colors that the program may use, if they matter.
    pub cache: Option<(Coloring, ColorSet)>,
    /// Action when the pool is short.
    pub shortage: Shortage,
    /// Delivery of pages to the program.
    pub delivery: Delivery,
    /// Pages gathered before the program starts, at most [`MAX_POOL_PAGES`].
    pub pool_pages: u64,
    /// Highest number of pages of the requested colors that a process may have; zero for no limit.
    pub limit_pages: u64,
    /// Path of the file of counters; empty if nothing is counted.
    pub counters: String,
}

fn masks(coloring: &Coloring) -> String {
    let masks: Vec<String> = coloring.span().basis().iter().map(|f| format!("{:x}", f.0)).collect();
    masks.join(",")
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "offset={:x};bank={};colors={};shortage={};delivery={};pool={};limit={}",
            self.coloring.offset(),
            masks(&self.coloring),
            self.colors,
            self.shortage,
            self.delivery,
            self.pool_pages,
            self.limit_pages,
        )?;
        if let Some((coloring, colors)) = &self.cache {
            write!(f, ";cache={};cache-colors={colors}", masks(coloring))?;
        }
        write!(f, ";counters={}", self.counters)
    }
}

impl FromStr for Order {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        let fields = Fields { text, command: "color run" };
        let offset = u64::from_str_radix(fields.need("offset")?, 16);
        let offset = offset.map_err(|_| fields.refuse("offset"))?;
        let coloring = |key: &str, offset: u64| {
            let functions = fields.need(key)?.split(',').filter(|mask| !mask.is_empty());
            let functions = functions.map(|mask| u64::from_str_radix(mask, 16).map(XorFunction));
            let span: Span = functions.collect::<Result<_, _>>().map_err(|_| fields.refuse(key))?;
            Ok::<_, Refusal>(Coloring::of_span(&span, 12, offset))
        };
        Ok(Self {
            coloring: coloring("bank", offset)?,
            colors: fields.need("colors")?.parse()?,
            cache: match fields.find("cache-colors") {
                Some(colors) => Some((coloring("cache", 0)?, colors.parse()?)),
                None => None,
            },
            shortage: fields.parse("shortage")?,
            delivery: fields.parse("delivery")?,
            pool_pages: fields.parse("pool")?,
            limit_pages: fields.parse("limit")?,
            counters: fields.need("counters")?.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use memweir_core::address_map::Color;
    use memweir_core::names::Named;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn orders_read_what_they_write(
            bank in prop::collection::vec(any::<u64>(), 1..8),
            colors in prop::collection::btree_set(0u32..64, 1..20),
            cache in prop::option::of(prop::collection::vec(any::<u64>(), 1..8)),
            shortage in prop::sample::select(Shortage::ALL.to_vec()),
            delivery in prop::sample::select(Delivery::ALL.to_vec()),
            offset: u64,
            pool_pages: u64,
            limit_pages: u64,
        ) {
            let of = |masks: &[u64], offset| {
                Coloring::of_span(&Span::new(masks.iter().copied().map(XorFunction)), 12, offset)
            };
            let colors: ColorSet = colors.into_iter().map(Color).collect();
            let order = Order {
                coloring: of(&bank, offset),
                cache: cache.map(|masks| (of(&masks, 0), colors.clone())),
                colors,
                shortage,
                delivery,
                pool_pages,
                limit_pages,
                counters: "/run/memweir/x".to_owned(),
            };
            prop_assert_eq!(order.to_string().parse::<Order>(), Ok(order));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "(offset|bank|colors|shortage|delivery|move|=|;|[0-9a-f]|,|-){0,60}") {
            let _ = text.parse::<Order>();
        }
    }
}
