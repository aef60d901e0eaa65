//! Bars and sparklines of block characters.

/// Eighths of a cell, from empty to full height.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Eighths of a cell, from one eighth to seven, growing to the right.
const WIDTHS: [char; 7] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// A line of at most `width` cells whose heights follow `values`, the highest being full. Each
/// cell shows the mean of the values that fall into it.
pub(crate) fn sparkline(values: &[f64], width: usize) -> String {
    let cells = width.min(values.len());
    let means: Vec<f64> = (0..cells)
        .map(|cell| {
            let from = cell * values.len() / cells;
            let to = ((cell + 1) * values.len() / cells).max(from + 1);
            values[from..to].iter().sum::<f64>() / (to - from) as f64
        })
        .collect();
    let top = means.iter().copied().fold(0.0, f64::max);
    means
        .into_iter()
        .map(|mean| {
            let share = if top > 0.0 { mean / top } else { 0.0 };
            HEIGHTS[((share * 8.0).ceil() as usize).clamp(1, 8) - 1]
        })
        .collect()
}

/// A bar of `share` (0 to 1) of `width` cells. Any share above zero shows.
pub(crate) fn bar(share: f64, width: usize) -> String {
    let eighths = (share.clamp(0.0, 1.0) * width as f64 * 8.0).round() as usize;
    let eighths = if share > 0.0 { eighths.max(1) } else { 0 };
    let mut bar = "█".repeat(eighths / 8);
    if eighths % 8 > 0 {
        bar.push(WIDTHS[eighths % 8 - 1]);
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparkline_is_as_high_as_its_values() {
        assert_eq!(sparkline(&[0.0, 4.0, 8.0], 10), "▁▄█");
        assert_eq!(sparkline(&[0.0, 2.0, 8.0, 8.0], 2), "▁█");
        assert_eq!(sparkline(&[], 10), "");
        assert_eq!(sparkline(&[0.0, 0.0], 10), "▁▁");
    }

    #[test]
    fn a_bar_is_as_long_as_its_share() {
        assert_eq!(bar(0.5, 4), "██");
        assert_eq!(bar(0.0, 4), "");
        assert_eq!(bar(0.001, 4), "▏");
        assert_eq!(bar(0.375, 1), "▍");
        assert_eq!(bar(7.0, 3), "███");
    }
}
