//! The timeline of a paged program as a figure: memory, and pages that moved.

use memweir_core::Bytes;
use memweir_page::live::{Report, Row};
use memweir_plot::{Chart, Figure, Level, PALETTE, Series, Style};

const MIB: f64 = (1 << 20) as f64;

/// Memory in DRAM and NVM with the budget, and pages per second, from rows `every` seconds apart
/// and at the end.
pub(super) fn timeline(rows: &[Row], report: &Report, every: f64) -> Figure {
    let words = report.command.join(" ");
    Figure {
        title: format!("Paging {}", crate::render::text::shortened(&words, 70)),
        subtitle: format!(
            "{} of DRAM, {} of NVM in {}, {} reads, victims by {}",
            report.dram_bytes,
            report.nvm.size_bytes,
            report.nvm.place,
            report.direct_read,
            report.victims
        ),
        panels: vec![memory(rows, report).into(), moves(rows, report, every).into()],
    }
}

fn memory(rows: &[Row], report: &Report) -> Chart {
    let points = |value: fn(&Row) -> Bytes| -> Vec<(f64, f64)> {
        rows.iter().map(|row| (row.t_s.0, value(row).as_f64() / MIB)).collect()
    };
    let dram = points(|row| row.dram_resident_bytes);
    let nvm = points(|row| row.nvm_used_bytes);
    let mut series = vec![
        Series::new("in DRAM", dram, Style::Steps, PALETTE[0]),
        Series::new("in NVM", nvm, Style::Line, PALETTE[1]),
    ];
    if rows.iter().any(|row| row.dram_unpaged_bytes > Bytes(0)) {
        let unpaged = points(|row| row.dram_unpaged_bytes);
        series.push(Series::new("in DRAM, not paged", unpaged, Style::Steps, PALETTE[2]));
    }
    Chart {
        title: "anonymous memory".to_owned(),
        x_label: "time (s)".to_owned(),
        y_label: "memory (MiB)".to_owned(),
        x_end: Some(report.seconds),
        series,
        levels: vec![Level::new("DRAM allowed", report.dram_bytes.as_f64() / MIB, PALETTE[5])],
        ..Chart::default()
    }
}

fn moves(rows: &[Row], report: &Report, every: f64) -> Chart {
    let rows = whole_intervals(rows, every);
    let rate = |value: fn(&Row) -> u64| per_second(&rows, value);
    Chart {
        title: "pages".to_owned(),
        x_label: "time (s)".to_owned(),
        y_label: "pages per second".to_owned(),
        x_end: Some(report.seconds),
        series: vec![
            Series::new("evicted", rate(|row| row.evictions), Style::Line, PALETTE[1]),
            Series::new("read in place", rate(|row| row.direct_reads), Style::Line, PALETTE[2]),
            Series::new("copied back", rate(|row| row.copies_in), Style::Line, PALETTE[3]),
        ],
        ..Chart::default()
    }
}

/// The rows with the last, partial interval joined to the one before: its few milliseconds hold the
/// counts of a scan of all memory, which would look like a burst of moves.
fn whole_intervals(rows: &[Row], every: f64) -> Vec<Row> {
    let mut rows = rows.to_vec();
    if let [_, .., before, last] = rows[..]
        && last.t_s.0 - before.t_s.0 < every
    {
        rows.remove(rows.len() - 2);
    }
    rows
}

/// Growth of a counter per second, between each row and the next.
fn per_second(rows: &[Row], value: fn(&Row) -> u64) -> Vec<(f64, f64)> {
    let pairs = rows.windows(2).filter(|pair| pair[1].t_s.0 > pair[0].t_s.0);
    pairs
        .map(|pair| {
            let grown = value(&pair[1]).saturating_sub(value(&pair[0])) as f64;
            (pair[1].t_s.0, grown / (pair[1].t_s.0 - pair[0].t_s.0))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use memweir_core::Seconds;

    use super::*;

    #[test]
    fn rates_are_what_was_counted_between_two_rows() {
        let row = |t: f64, evictions| Row { t_s: Seconds(t), evictions, ..Row::default() };
        let rows = [row(0.0, 0), row(0.5, 100), row(0.5, 100), row(1.0, 400)];
        assert_eq!(per_second(&rows, |row| row.evictions), [(0.5, 200.0), (1.0, 600.0)]);
    }

    #[test]
    fn the_partial_last_interval_makes_no_spike() {
        let row = |t: f64, evictions| Row { t_s: Seconds(t), evictions, ..Row::default() };
        // 100 pages in each tenth of a second, and 100 in the last millisecond.
        let rows = [row(0.0, 0), row(0.1, 100), row(0.2, 200), row(0.201, 300)];
        let whole = whole_intervals(&rows, 0.1);
        assert_eq!(whole, [rows[0], rows[1], rows[3]]);
        let rates = per_second(&whole, |row| row.evictions);
        assert!(rates.iter().all(|(_, rate)| *rate < 2000.0), "{rates:?}");
        assert_eq!(whole_intervals(&rows[..3], 0.1), rows[..3], "a whole interval stays");
        assert_eq!(whole_intervals(&rows[2..], 0.1), rows[2..], "there is none before");
    }
}
