//! drswap Table IV: swap-ins of eight groups of applications in 15 minutes.

use memweir_core::Bytes;

/// Groups of applications, in the order of Table III.
pub const CATEGORIES: [&str; 8] =
    ["browser", "news", "multimedia", "social", "gaming", "shopping", "mix1", "mix2"];

/// One cell of Table IV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwapIns {
    /// Without direct read.
    pub without: u64,
    /// With it.
    pub with: u64,
}

const fn cell(without: u64, with: u64) -> SwapIns {
    SwapIns { without, with }
}

/// Swap sizes and, for each, the categories' cells. Swap-outs are not printed in the paper.
pub const TABLE_IV: [(Bytes, [SwapIns; 8]); 3] = [
    (
        Bytes(128 << 20),
        [
            cell(6017, 1771),
            cell(1857, 428),
            cell(3038, 1438),
            cell(4295, 1150),
            cell(2174, 711),
            cell(2382, 864),
            cell(3280, 1145),
            cell(3343, 996),
        ],
    ),
    (
        Bytes(256 << 20),
        [
            cell(5830, 1224),
            cell(2200, 449),
            cell(2172, 807),
            cell(2137, 450),
            cell(1590, 515),
            cell(765, 264),
            cell(2685, 1014),
            cell(2856, 935),
        ],
    ),
    (
        Bytes(512 << 20),
        [
            cell(3172, 1102),
            cell(1945, 342),
            cell(1056, 475),
            cell(2086, 583),
            cell(1795, 592),
            cell(1136, 385),
            cell(1836, 796),
            cell(2166, 673),
        ],
    ),
];

/// Returns the mean over the categories, rounded.
#[must_use]
pub fn average(cells: &[SwapIns; 8]) -> SwapIns {
    let mean =
        |of: fn(&SwapIns) -> u64| (cells.iter().map(of).sum::<u64>() as f64 / 8.0).round() as u64;
    SwapIns { without: mean(|cell| cell.without), with: mean(|cell| cell.with) }
}
