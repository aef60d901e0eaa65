//! Search for the first smallest of many figures, by a scan that the compiler can vectorize.
//!
//! A decision searches a thousand jobs for the best once per free core; sorting them would cost
//! more.

/// Independent running minima of a scan: enough for the compiler to keep vector units busy.
pub(crate) const LANES: usize = 8;

/// Number of figures per block. The scan first finds the block with the smallest key, then searches
/// that block alone for the place.
const BLOCK: usize = 16 * LANES;

/// Pads `figures` to a multiple of [`LANES`], as [`first_smallest`] requires. The padding is never
/// found.
pub(crate) fn fill_lanes(figures: &mut Vec<f64>) {
    figures.resize(figures.len().next_multiple_of(LANES), f64::NAN);
}

/// Returns the first place with the smallest `key`; figures whose key is NaN or infinite are
/// ignored.
pub(crate) fn first_smallest(figures: &[f64], key: impl Fn(f64) -> f64 + Copy) -> Option<usize> {
    let mut best = (f64::INFINITY, 0);
    for (block, figures) in figures.chunks(BLOCK).enumerate() {
        let smallest = smallest_key(figures, key);
        if smallest < best.0 {
            best = (smallest, block * BLOCK);
        }
    }
    let (smallest, start) = best;
    if smallest == f64::INFINITY {
        return None;
    }
    let place = figures[start..].iter().position(|figure| key(*figure) == smallest)?;
    Some(start + place)
}

fn smallest_key(figures: &[f64], key: impl Fn(f64) -> f64) -> f64 {
    let mut lanes = [f64::INFINITY; LANES];
    for chunk in figures.chunks_exact(LANES) {
        for (lane, figure) in lanes.iter_mut().zip(chunk) {
            // Not `f64::min`: its NaN handling costs two more instructions.
            let key = key(*figure);
            *lane = if key < *lane { key } else { *lane };
        }
    }
    lanes.into_iter().fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn finds_what_a_plain_scan_finds(
            figures in prop::collection::vec(prop_oneof![
                3 => (0u32..20).prop_map(f64::from), 1 => Just(f64::NAN),
            ], 0..400),
        ) {
            let mut filled = figures.clone();
            fill_lanes(&mut filled);
            for key in [|figure: f64| figure, |figure: f64| -figure] {
                let keys = figures.iter().copied().map(key).enumerate();
                let plain = keys.filter(|(_, key)| !key.is_nan()).fold(None, |best, (at, key)| {
                    match best {
                        Some((_, least)) if least <= key => best,
                        _ => Some((at, key)),
                    }
                });
                prop_assert_eq!(first_smallest(&filled, key), plain.map(|(at, _)| at));
            }
        }
    }
}
