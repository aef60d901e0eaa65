//! Model of the machine during a detection: a shape, bank functions, and rows once they are found.

use memweir_core::address_map::{AddressMap, Role, SetFunction, Span, XorFunction};
use memweir_core::{LINE_BYTES, PhysAddr};
use rand::RngExt;

use super::probe::Probe;
use super::shape::{Known, Shape, without};
use super::solve::{null_space, shortest};

/// Relation of two addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    /// Different rows of one bank.
    Conflict,
    /// One row of one bank.
    SameRow,
    /// Different banks.
    OtherBank,
}

/// Rows of banks.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    /// Differences of addresses in one row of one bank, from the bit of a line on.
    pub(super) columns: Span,
    /// Functions of the row.
    pub(super) functions: Vec<XorFunction>,
    /// True if every difference that was tried could be measured. Otherwise some columns may be
    /// missing, and a map has neither rows nor columns.
    pub(super) complete: bool,
}

/// A hypothesis about the machine.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) shape: Shape,
    /// Bits of the inner address that functions may use.
    pub(super) known: Known,
    pub(super) banks: Span,
    pub(super) rows: Option<Rows>,
}

/// Distribution from which an address is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Draw {
    /// The whole reach.
    Anywhere,
    /// Near a multiple of some power of two, where a wrong offset shows: a run of its bits is all
    /// zeros or all ones.
    NearEdge,
}

impl Model {
    /// Returns the number of banks over all channels.
    pub(super) fn banks(&self) -> u64 {
        u64::from(self.shape.channels()) << self.banks.dimension()
    }

    /// Returns the predicted relation of two addresses; `None` outside the known bits.
    pub(super) fn relation(&self, a: PhysAddr, b: PhysAddr) -> Option<Relation> {
        let difference = match self.shape.difference(a, b)? {
            Ok(difference) => difference,
            Err(_) => return Some(Relation::OtherBank),
        };
        if difference & self.known.foreign != 0 {
            return None;
        }
        if self.banks.basis().iter().any(|f| f.value(difference) == 1) {
            return Some(Relation::OtherBank);
        }
        let same_row = match &self.rows {
            Some(rows) => !rows.functions.iter().any(|row| row.value(difference) == 1),
            None => difference & self.known.bits == 0,
        };
        Some(if same_row { Relation::SameRow } else { Relation::Conflict })
    }

    /// Returns an address that differs from `base` in the basis functions selected by `pattern`.
    pub(super) fn partner(
        &self,
        probe: &mut Probe<'_>,
        base: PhysAddr,
        pattern: u64,
        draw: Draw,
    ) -> Option<PhysAddr> {
        const ATTEMPTS: usize = 64;
        let (way, of_base) = self.shape.enter(base)?;
        for _ in 0..ATTEMPTS {
            let drawn = self.draw(probe, draw);
            let Some((_, mut inner)) = drawn.and_then(|drawn| self.shape.enter(drawn)) else {
                continue;
            };
            for (i, function) in self.banks.basis().iter().enumerate() {
                if function.value(inner ^ of_base) != pattern >> i & 1 {
                    inner ^= 1 << function.lowest();
                }
            }
            let partner = self.shape.leave(way, inner);
            if probe.reach().contains(partner) && partner != base {
                return Some(partner);
            }
        }
        None
    }

    fn draw(&self, probe: &mut Probe<'_>, draw: Draw) -> Option<PhysAddr> {
        let PhysAddr(address) = probe.anywhere();
        if draw == Draw::Anywhere {
            return Some(PhysAddr(address));
        }
        let top = u64::BITS - self.known.bits.leading_zeros();
        let low = probe.random.random_range(LINE_BYTES.trailing_zeros()..top);
        let high = probe.random.random_range(low..top);
        let run = (2u64 << high) - (1 << low);
        let edge = if probe.random.random() { address | run } else { address & !run };
        Some(PhysAddr(edge)).filter(|edge| probe.reach().contains(*edge))
    }

    /// Returns the address at `inner ^ difference` in the channel of `base`, if it can be measured.
    pub(super) fn beside(
        &self,
        probe: &Probe<'_>,
        base: PhysAddr,
        difference: u64,
    ) -> Option<PhysAddr> {
        let (way, inner) = self.shape.enter(base)?;
        let beside = self.shape.leave(way, inner ^ difference);
        Some(beside).filter(|beside| probe.reach().contains(*beside))
    }

    /// Converts the model to an [`AddressMap`] with the shortest functions; rows and columns are
    /// single bits wherever that suffices.
    pub(super) fn map(&self, name: &str) -> AddressMap {
        let (shape, taken) = self.shape.evened(&self.banks);
        let width = self.known.width();
        // Among addresses that agree in the bits above, the lower bits decide alone.
        let out = |function: XorFunction| {
            let low = XorFunction(function.0 & ((1 << width) - 1));
            let out = taken.iter().try_fold(low, |function, bit| without(function, *bit))?;
            (out.0 != 0).then_some(out)
        };
        let banks: Span = self.banks.basis().iter().filter_map(|f| out(*f)).collect();
        let rows = self.rows.as_ref().filter(|rows| rows.complete);
        let functions = rows.iter().flat_map(|rows| rows.functions.iter());
        let mut told = banks.clone();
        let row: Vec<XorFunction> =
            functions.filter_map(|row| out(*row)).filter(|row| told.add(*row)).collect();
        let bits = width - taken.len() as u32;
        let column = if rows.is_some() { columns(&banks, &row, bits) } else { Vec::new() };
        AddressMap {
            name: name.to_owned(),
            source: Some("memweir map detect".to_owned()),
            offset: shape.offset,
            interleave: shape.interleave,
            bits,
            functions: shortest(&banks)
                .into_iter()
                .map(|function| SetFunction { role: Role::Set, function })
                .collect(),
            row,
            column,
        }
    }
}

impl Rows {
    /// Returns the rows of banks `banks` in which `columns` are all the differences within one row:
    /// single bits, the highest first, while they separate rows; then sums of bits.
    pub(super) fn new(columns: Span, banks: &Span, known: u64) -> Self {
        let constant = null_space(columns.basis().iter().map(|v| v.0), known);
        let constant: Span = constant.into_iter().collect();
        let wanted = constant.dimension() - banks.dimension();
        let mut told = banks.clone();
        let singles = XorFunction(known).bits().map(|bit| XorFunction(1 << bit));
        let singles: Vec<XorFunction> = singles.filter(|f| constant.contains(*f)).collect();
        let all = singles.into_iter().rev().chain(shortest(&constant).into_iter().rev());
        let mut functions: Vec<XorFunction> =
            all.filter(|function| told.add(*function)).take(wanted).collect();
        functions.sort_by_key(|function| u64::BITS - function.0.leading_zeros());
        Self { columns, functions, complete: true }
    }
}

/// Returns the lowest bits that are independent of banks and rows.
fn columns(banks: &Span, row: &[XorFunction], bits: u32) -> Vec<XorFunction> {
    let mut told: Span = banks.basis().iter().chain(row).copied().collect();
    (0..bits).map(|bit| XorFunction(1 << bit)).filter(|bit| told.add(*bit)).collect()
}
