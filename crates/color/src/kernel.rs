//! Colors by a kernel that colors pages itself (`kernel/bank-color`): the kernel's form of a map,
//! and a program that runs in a control group with colors. Nothing is preloaded.

mod form;

use std::time::Duration;

use memweir_core::address_map::{AddressMap, ColorSet};
use memweir_core::input::Refusal;
use memweir_linux::kernel_colors::KernelMap;
use memweir_linux::memory_group::MemoryGroup;
use serde::Serialize;

pub use form::KernelForm;

use crate::plan::{CacheColors, together};
use crate::{ColorError, machine};

/// Tries to restore the previous map, and the pause after each: half a second in all.
const RESTORE_TRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(10);

/// Reaction of the kernel if no page of the colors is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelShortage {
    /// Takes a page of another color.
    Spill,
    /// Reclaims memory of the group that has the colors, and spills if that does not help.
    Reclaim,
    /// Reclaims, and ends a process of the group if that does not help.
    Strict,
}

memweir_core::named! {
    KernelShortage, "shortage":
    Spill = "spill",
    Reclaim = "reclaim",
    Strict = "strict",
}

/// Request to the kernel.
#[derive(Clone, Debug)]
pub struct KernelRequest {
    /// The map of the machine.
    pub map: AddressMap,
    /// The bank colors.
    pub colors: ColorSet,
    /// Cache colors, if they matter.
    pub cache: Option<CacheColors>,
    /// Reaction when they are used up.
    pub shortage: KernelShortage,
}

impl KernelRequest {
    /// Returns the form that the kernel must have loaded.
    fn form(&self) -> Result<KernelForm, Refusal> {
        let (banks, cache) = together(&self.map, &self.colors, self.cache.as_ref())?;
        KernelForm::of_colorings(&banks, cache.as_ref().map(|(coloring, _)| coloring))
    }

    /// Returns the setting of the group: `bank=0-3 cache=0 shortage=spill`.
    fn setting(&self) -> String {
        let cache = self.cache.as_ref().map_or(String::new(), |c| format!(" cache={}", c.colors));
        format!("bank={}{cache} shortage={}", self.colors, self.shortage.name())
    }
}

/// Pages that the kernel counted for a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KernelCounts {
    /// Given in the colors.
    pub color_alloc: u64,
    /// Given in others.
    pub color_spill: u64,
    /// Rounds of reclaim for a page of the colors.
    pub color_reclaim: u64,
    /// Processes that were ended because no such page was left.
    pub color_oom: u64,
}

/// A program's group. Keep it until the program has ended.
pub struct KernelColored {
    // Dropped in this order: a map can be removed once no group is colored by it.
    group: MemoryGroup,
    _map: Loaded,
}

impl KernelColored {
    /// Loads the map, if another one is not in use, and makes the group.
    ///
    /// # Errors
    /// Refuses invalid requests, and kernels that cannot serve them.
    pub fn prepare(request: &KernelRequest) -> Result<Self, ColorError> {
        let form = request.form()?;
        let mut map = Loaded::load(KernelMap::here()?, &form)?;
        let group = MemoryGroup::create("color")?;
        group.set("memory.colors", &request.setting()).map_err(|error| {
            machine(format!("memory.colors: {error}"), "choose colors that the group's parent has")
        })?;
        map.confirm(&form)?;
        Ok(Self { group, _map: map })
    }

    /// The group in which the program must start.
    #[must_use]
    pub fn group(&self) -> &MemoryGroup {
        &self.group
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn counts(&self) -> KernelCounts {
        let counters = self.group.counters("memory.stat").unwrap_or_default();
        let count = |name: &str| counters.get(name).copied().unwrap_or(0);
        KernelCounts {
            color_alloc: count("color_alloc"),
            color_spill: count("color_spill"),
            color_reclaim: count("color_reclaim"),
            color_oom: count("color_oom"),
        }
    }
}

/// A map that was loaded for a program; the previous one is loaded again at the end.
#[derive(Debug)]
struct Loaded {
    map: KernelMap,
    /// The previous map, and the one that replaced it; absent if there is nothing to restore.
    replaced: Option<(String, KernelForm)>,
}

impl Loaded {
    fn load(map: KernelMap, form: &KernelForm) -> Result<Self, ColorError> {
        let before = in_use(&map)?;
        if serves(&before, form) {
            return Ok(Self { map, replaced: None });
        }
        map.load(&form.to_string())?;
        Ok(Self { map, replaced: Some((before, form.clone())) })
    }

    /// Confirms that the map is still in use, once a group is colored: from then on the kernel
    /// keeps it. Another one, by which the kernel has taken the group's colors, stays.
    fn confirm(&mut self, form: &KernelForm) -> Result<(), ColorError> {
        if serves(&in_use(&self.map)?, form) {
            return Ok(());
        }
        self.replaced = None;
        let help = "use the same map, or start one after the other";
        Err(machine("another program has loaded another map meanwhile", help))
    }
}

/// Returns the map that the kernel has.
fn in_use(map: &KernelMap) -> Result<String, ColorError> {
    map.text().map_err(|error| machine(format!("the kernel's map: {error}"), "run as root"))
}

fn serves(text: &str, form: &KernelForm) -> bool {
    text.parse().is_ok_and(|loaded: KernelForm| loaded.serves(form))
}

impl Drop for Loaded {
    fn drop(&mut self) {
        let Some((before, ours)) = &self.replaced else { return };
        let is_ours = || {
            in_use(&self.map)
                .is_ok_and(|text| text.parse().is_ok_and(|form: KernelForm| form == *ours))
        };
        // The kernel releases a removed group some time later. If another program uses the map by
        // now, or has loaded one of its own, that map stays.
        for _ in 0..RESTORE_TRIES {
            if !is_ours() || self.map.load(before.trim()).is_ok() {
                return;
            }
            std::thread::sleep(PAUSE);
        }
    }
}

#[cfg(test)]
mod tests {
    use memweir_core::Bytes;
    use memweir_core::cache::CacheGeometry;

    use super::*;

    fn request(colors: &str) -> KernelRequest {
        let text = include_str!("../../core/data/maps/i7-860.toml");
        KernelRequest {
            map: AddressMap::parse("i7-860.toml", text).unwrap(),
            colors: colors.parse().unwrap(),
            cache: None,
            shortage: KernelShortage::Reclaim,
        }
    }

    #[test]
    fn a_group_is_told_its_colors() {
        assert_eq!(request("0-3,8").setting(), "bank=0-3,8 shortage=reclaim");
        let cache = CacheGeometry::new(Bytes(8 << 20), 16);
        let cached = KernelRequest {
            cache: Some(CacheColors { cache, colors: "0,1".parse().unwrap() }),
            shortage: KernelShortage::Strict,
            ..request("0-31")
        };
        assert_eq!(cached.setting(), "bank=0-31 cache=0-1 shortage=strict");
    }

    #[test]
    fn colors_outside_the_map_are_refused() {
        let refusal = request("0-32").form().unwrap_err();
        assert!(refusal.reason.contains("color 32 is outside the map"), "{refusal:?}");
    }

    #[test]
    fn a_map_is_loaded_once_and_what_was_there_comes_back() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("map");
        std::fs::write(&file, "").unwrap();
        let text = || std::fs::read_to_string(&file).unwrap();
        let map = || KernelMap::at(file.clone()).unwrap();
        let form = request("0").form().unwrap();
        let first = Loaded::load(map(), &form).unwrap();
        assert_eq!(text(), form.to_string());
        let second = Loaded::load(map(), &form).unwrap();
        drop(second);
        assert_eq!(text(), form.to_string(), "the second found the map there");
        drop(first);
        assert_eq!(text(), "\n");
    }

    #[test]
    fn a_map_that_was_loaded_after_the_group_is_gone_stays() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("map");
        std::fs::write(&file, "").unwrap();
        let form = request("0").form().unwrap();
        let map = Loaded::load(KernelMap::at(file.clone()).unwrap(), &form).unwrap();
        std::fs::write(&file, "bank 0x40\n").unwrap();
        drop(map);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "bank 0x40\n");
    }

    #[test]
    fn a_map_that_another_program_has_loaded_meanwhile_is_refused_and_stays() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("map");
        std::fs::write(&file, "").unwrap();
        let form = request("0").form().unwrap();
        let mut map = Loaded::load(KernelMap::at(file.clone()).unwrap(), &form).unwrap();
        assert!(map.confirm(&form).is_ok());
        std::fs::write(&file, "bank 0x40\n").unwrap();
        let refusal = map.confirm(&form).unwrap_err().to_string();
        assert!(refusal.contains("another map meanwhile"), "{refusal}");
        drop(map);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "bank 0x40\n");
    }
}
