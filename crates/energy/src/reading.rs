//! Interpretations of the places where the equations of drswap section IV cannot be meant as
//! printed.

/// The last background term of eq. (1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefreshTerm {
    /// `P_ACT × t_TOTAL`, as printed: the power of activating, for the whole time.
    Activate,
    /// `P_REF × t_TOTAL`, scaled to the size of the swap area (section V-E).
    Refresh,
}

/// The active states in eq. (13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NvmActive {
    /// `ACT_STBY` twice, as printed.
    StandbyTwice,
    /// `ACT_PDN` and `ACT_STBY`, as in eq. (1).
    BothOnce,
}

/// Write recovery in eq. (3), where nanoseconds are added to cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteRecovery {
    /// 15 *cycles* after each burst, as printed.
    CyclesEachBurst,
    /// 15 ns after each burst.
    NanosEachBurst,
    /// 15 ns after the last burst of a page, as LPDDR2 requires.
    NanosEachPage,
}

/// The background states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Background {
    /// All four for the whole time, as eq. (1) and (13) add them.
    AllAtOnce,
    /// One at a time: active standby while pages are moved, precharge power-down otherwise.
    OneAtATime,
}

/// Growth of power with the size of the swap area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// One device of each kind whatever the size; refresh alone is scaled (section V-E).
    OneDevice,
    /// As many dies as the size needs, each with its background; a part of a die counts as that
    /// part, on both sides.
    Dies,
}

/// The times that direct read shortens (section IV-C).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectReadTimes {
    /// `t_RD` alone, eq. (14); the text leaves `t_ACT` and `t_DQ` as they are.
    ReadAlone,
    /// All times of a page that is not copied.
    All,
}

/// Lines that are read in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InPlace {
    /// They cost nothing, as in eq. (14).
    Free,
    /// Each costs the energy by which reading it from the NVM exceeds reading it from DRAM.
    Charged,
}

/// A way to read the equations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Eq. (1).
    pub refresh: RefreshTerm,
    /// Eq. (13).
    pub nvm_active: NvmActive,
    /// Eq. (3).
    pub write_recovery: WriteRecovery,
    /// Eq. (1), (13).
    pub background: Background,
    /// Section V-E.
    pub capacity: Capacity,
    /// Eq. (14).
    pub direct_read: DirectReadTimes,
    /// Eq. (14).
    pub in_place: InPlace,
}

impl Reading {
    /// Every equation to the letter.
    pub const AS_PRINTED: Self = Self {
        refresh: RefreshTerm::Activate,
        nvm_active: NvmActive::StandbyTwice,
        write_recovery: WriteRecovery::CyclesEachBurst,
        background: Background::AllAtOnce,
        capacity: Capacity::OneDevice,
        direct_read: DirectReadTimes::ReadAlone,
        in_place: InPlace::Free,
    };

    /// The terms of eq. (1), (13) and (14) corrected, and nothing else: the authors must have
    /// computed this, for it gives their claims.
    pub const MENDED: Self = Self {
        refresh: RefreshTerm::Refresh,
        nvm_active: NvmActive::BothOnce,
        direct_read: DirectReadTimes::All,
        ..Self::AS_PRINTED
    };

    /// Units corrected, one background state at a time, capacity by dies, lines read in place
    /// charged.
    pub const PHYSICAL: Self = Self {
        write_recovery: WriteRecovery::NanosEachPage,
        background: Background::OneAtATime,
        capacity: Capacity::Dies,
        in_place: InPlace::Charged,
        ..Self::MENDED
    };
}

/// The readings that have names.
pub const READINGS: [(&str, Reading); 3] = [
    ("as-printed", Reading::AS_PRINTED),
    ("mended", Reading::MENDED),
    ("physical", Reading::PHYSICAL),
];

/// Each point on which the readings differ, changed alone in [`Reading::MENDED`], with a sentence
/// that describes it.
pub const POINTS: [(&str, Reading); 8] = [
    (
        "eq. (1) as printed: P_ACT x t_TOTAL where P_REF must stand",
        Reading { refresh: RefreshTerm::Activate, ..Reading::MENDED },
    ),
    (
        "eq. (13) as printed: ACT_STBY twice, ACT_PDN never",
        Reading { nvm_active: NvmActive::StandbyTwice, ..Reading::MENDED },
    ),
    (
        "eq. (14) as printed: t_ACT and t_DQ count pages that are not copied",
        Reading { direct_read: DirectReadTimes::ReadAlone, ..Reading::MENDED },
    ),
    (
        "eq. (3), unit mended: tWR in nanoseconds, after each burst",
        Reading { write_recovery: WriteRecovery::NanosEachBurst, ..Reading::MENDED },
    ),
    (
        "eq. (3), as LPDDR2 has it: tWR once for each page",
        Reading { write_recovery: WriteRecovery::NanosEachPage, ..Reading::MENDED },
    ),
    (
        "eq. (1), (13): one background state at a time",
        Reading { background: Background::OneAtATime, ..Reading::MENDED },
    ),
    (
        "section V-E: as many dies as the size needs, not one whatever it is",
        Reading { capacity: Capacity::Dies, ..Reading::MENDED },
    ),
    (
        "eq. (14): lines that are read in place are charged",
        Reading { in_place: InPlace::Charged, ..Reading::MENDED },
    ),
];
