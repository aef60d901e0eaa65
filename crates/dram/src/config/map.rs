//! Address maps of memory systems: the built-in layouts, and completion of maps from files.

use memweir_core::LINE_BYTES;
use memweir_core::address_map::{AddressMap, Role, SetFunction, Span, XorFunction};
use memweir_core::input::Refusal;
use memweir_core::words::counted;

use super::{MAX_CHANNELS, MemoryConfig};
use crate::spec::MemorySpec;

/// Order, from the inside out, in which functions without a role get one.
const INWARD_OUT: [Role; 5] =
    [Role::BankGroup, Role::Bank, Role::Rank, Role::SubChannel, Role::Channel];

/// The order in which a memory without an address map of its own takes address bits.
///
/// Both layouts put neighboring lines on different channels and keep a row's lines together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapLayout {
    /// Byte, channel, sub-channel, column, rank, bank group, bank, row, from bit 0: a stream stays
    /// in one bank group and waits `tCCD_L` between its bursts.
    Plain,
    /// Byte, channel, sub-channel, bank group, column, rank, bank, row, from bit 0: a stream visits
    /// the bank groups in turn and waits `tCCD_S`, as controllers for DDR4 and later do.
    Interleaved,
}

memweir_core::named! { pub MapLayout, "layout": Plain = "plain", Interleaved = "interleaved" }

impl MapLayout {
    /// Returns the interleaved layout if the device has bank groups, otherwise the plain one.
    #[must_use]
    pub fn default_for(spec: &MemorySpec) -> Self {
        if spec.organization.bank_groups > 1 { Self::Interleaved } else { Self::Plain }
    }

    /// Builds the address map of `channels` channels with `ranks` ranks of `spec`.
    #[must_use]
    pub fn map(self, spec: &MemorySpec, ranks: u32, channels: u32) -> AddressMap {
        let organization = &spec.organization;
        let mut next = 0;
        let mut take = |count: u32| -> Vec<XorFunction> {
            let bits = next..next + count.next_power_of_two().trailing_zeros();
            next = bits.end;
            bits.map(|bit| XorFunction(1 << bit)).collect()
        };
        let byte = take(LINE_BYTES as u32);
        let mut functions = Vec::new();
        let mut choose = |role, taken: Vec<XorFunction>| {
            functions.extend(taken.into_iter().map(|function| SetFunction { role, function }));
        };
        choose(Role::Channel, take(channels));
        choose(Role::SubChannel, take(organization.sub_channels));
        if self == Self::Interleaved {
            choose(Role::BankGroup, take(organization.bank_groups));
        }
        let column = take(organization.lines_of_row());
        choose(Role::Rank, take(ranks));
        if self == Self::Plain {
            choose(Role::BankGroup, take(organization.bank_groups));
        }
        choose(Role::Bank, take(organization.banks));
        let row = take(organization.rows);
        AddressMap {
            name: self.name().to_owned(),
            source: None,
            offset: 0,
            interleave: None,
            bits: next,
            functions,
            row,
            column: byte.into_iter().chain(column).collect(),
        }
    }
}

impl MemoryConfig {
    /// Returns the same memory with the address map of `layout`.
    #[must_use]
    pub fn with_layout(mut self, layout: MapLayout) -> Self {
        let channels = self.channels.clamp(1, MAX_CHANNELS);
        self.map = layout.map(self.spec(), self.ranks.len() as u32, channels);
        self
    }

    /// Returns the number of functions of each role that the system needs.
    pub(super) fn wanted(&self) -> Result<[(Role, u32); 5], Refusal> {
        let organization = &self.spec().organization;
        let channels = match self.map.interleave {
            None => self.channels,
            Some(interleave) if self.channels.is_multiple_of(interleave.channels) => {
                self.channels / interleave.channels
            }
            Some(interleave) => {
                return Err(Refusal::new(
                    format!(
                        "the map interleaves over {} channels, the memory has {}",
                        interleave.channels, self.channels
                    ),
                    "as many channels, or a multiple",
                ));
            }
        };
        if !channels.is_power_of_two() {
            return Err(Refusal::new(
                format!("no bits choose among {channels} channels"),
                "a power of two, or a map with `interleave`",
            ));
        }
        let bits = |count: u32| count.trailing_zeros();
        Ok([
            (Role::BankGroup, bits(organization.bank_groups)),
            (Role::Bank, bits(organization.banks)),
            (Role::Rank, bits(self.ranks.len() as u32)),
            (Role::SubChannel, bits(organization.sub_channels)),
            (Role::Channel, bits(channels)),
        ])
    }

    /// Returns the map with a role for each function, and with rows and columns. If the map lacks
    /// these, the lowest bits that add information become the column, and the rest the row.
    pub fn complete_map(&self) -> Result<AddressMap, Refusal> {
        let mut map = self.map.clone();
        map.validate()?;
        self.give_roles(&mut map)?;
        let organization = &self.spec().organization;
        let columns = organization.row_bytes().0.trailing_zeros() as usize;
        let rows = organization.rows.trailing_zeros() as usize;
        if !map.is_complete() {
            fill(&mut map, columns, rows);
        }
        let given = [("column", map.column.len(), columns), ("row", map.row.len(), rows)];
        for (what, given, wanted) in given {
            if given != wanted {
                let bits = counted(given as u64, &format!("{what} bit"));
                return Err(Refusal::new(
                    format!("the map `{}` has {bits}, the memory {wanted}", map.name),
                    "a map of this memory, or one that does not speak of rows and columns",
                ));
            }
        }
        Ok(map)
    }

    fn give_roles(&self, map: &mut AddressMap) -> Result<(), Refusal> {
        let wanted = self.wanted()?;
        let has = |map: &AddressMap, role| map.functions_of(role).count() as u32;
        for role in INWARD_OUT {
            let wanted = wanted.iter().find(|(known, _)| *known == role).map_or(0, |(_, n)| *n);
            while has(map, role) < wanted {
                let free = map.functions.iter_mut().find(|f| f.role == Role::Set);
                let Some(function) = free else { break };
                function.role = role;
            }
        }
        for (role, count) in wanted.into_iter().chain([(Role::Set, 0)]) {
            if has(map, role) != count {
                return Err(Refusal::new(
                    format!(
                        "the map `{}` has {} functions for `{}`, the memory needs {count}",
                        map.name,
                        has(map, role),
                        role.name()
                    ),
                    "choose channels, ranks and devices to which the map belongs",
                ));
            }
        }
        Ok(())
    }
}

fn fill(map: &mut AddressMap, columns: usize, rows: usize) {
    let mut span: Span = map.span();
    let mut taken = Vec::new();
    let mut bit = 0;
    while taken.len() < columns + rows && bit < 63 {
        let function = XorFunction(1 << bit);
        if span.add(function) {
            taken.push(function);
        }
        bit += 1;
    }
    map.row = taken.split_off(columns.min(taken.len()));
    map.column = taken;
    map.bits = map.bits.max(bit);
}

#[cfg(test)]
mod tests {
    use memweir_core::Bytes;
    use memweir_core::address_map::Interleave;
    use memweir_core::names::Named;

    use super::*;
    use crate::config::Setting;

    fn config() -> MemoryConfig {
        MemoryConfig::new(MemorySpec::shipped("ddr4-2400").unwrap())
    }

    #[test]
    fn each_layout_is_complete_and_covers_the_memory() {
        for (layout, channels) in MapLayout::ALL.iter().flat_map(|l| [1, 2, 4].map(|c| (*l, c))) {
            let spec = MemorySpec::shipped("ddr4-2400").unwrap();
            let config = MemoryConfig::with_channels(spec, channels).with_layout(layout);
            let map = config.complete_map().unwrap();
            map.validate().unwrap();
            assert_eq!(1u64 << map.bits, config.capacity().0);
        }
    }

    #[test]
    fn neighboring_lines_lie_in_different_bank_groups_where_there_are_some() {
        let bank_group_bits = |config: &MemoryConfig| -> Vec<u64> {
            config.map.functions_of(Role::BankGroup).map(|function| function.0).collect()
        };
        assert_eq!(config().map.name, "interleaved");
        assert_eq!(bank_group_bits(&config()), [1 << 6, 1 << 7]);
        let plain = config().with_layout(MapLayout::Plain);
        assert_eq!(bank_group_bits(&plain), [1 << 13, 1 << 14]);
        let ddr3 = MemoryConfig::new(MemorySpec::shipped("ddr3-1066").unwrap());
        assert_eq!(ddr3.map.name, "plain");
    }

    #[test]
    fn sets_without_roles_are_taken_from_the_bank_group_outward() {
        let mut config = config();
        config.map.functions.iter_mut().for_each(|f| f.role = Role::Set);
        let roles: Vec<Role> =
            config.complete_map().unwrap().functions.iter().map(|f| f.role).collect();
        assert_eq!(roles, [Role::BankGroup, Role::BankGroup, Role::Bank, Role::Bank]);
    }

    #[test]
    fn unknown_rows_and_columns_follow_from_the_organization() {
        let mut config = config();
        let whole = config.map.clone();
        (config.map.row, config.map.column) = (Vec::new(), Vec::new());
        assert_eq!(config.complete_map().unwrap(), whole);
    }

    #[test]
    fn numbers_of_channels_that_cannot_be_are_refused_as_such() {
        for channels in [0, 33, 1 << 31, u32::MAX] {
            let spec = MemorySpec::shipped("ddr5-4800").unwrap();
            let config = MemoryConfig::with_channels(spec, channels).with_layout(MapLayout::Plain);
            let (setting, refusal) = config.check().unwrap_err();
            assert_eq!(setting, Setting::Channels, "{channels}: {refusal:?}");
        }
    }

    #[test]
    fn maps_of_other_memories_are_refused() {
        let mut config = config();
        config.map.functions.pop();
        config.map.row.clear();
        let refusal = config.complete_map().unwrap_err();
        assert!(refusal.reason.contains("1 functions for `bank`"), "{refusal:?}");
        let mut config = self::config();
        config.map.row.pop();
        config.map.bits -= 1;
        let refusal = config.complete_map().unwrap_err();
        assert!(refusal.reason.contains("has 15 row bits, the memory 16"), "{refusal:?}");
        let mut config = self::config();
        config.channels = 3;
        assert!(config.complete_map().unwrap_err().reason.contains("3 channels"));
    }

    /// The functions choose between two channels.
    #[test]
    fn an_interleaving_needs_a_multiple_of_its_channels() {
        let spec = MemorySpec::shipped("ddr4-2400").unwrap();
        let mut config = MemoryConfig::with_channels(spec, 2);
        config.map.interleave = Some(Interleave { channels: 3, granule: Bytes(256) });
        let mut check = |channels| {
            config.channels = channels;
            config.check().map_err(|(setting, refusal)| (setting, refusal.reason))
        };
        assert_eq!(check(6), Ok(()));
        assert!(check(3).unwrap_err().1.contains("1 functions for `channel`"));
        let (setting, reason) = check(4).unwrap_err();
        assert_eq!(setting, Setting::Channels);
        assert_eq!(reason, "the map interleaves over 3 channels, the memory has 4");
    }
}
