//! The table of a watch.

use memweir_watch::Row;

use super::text::{Table, counted, known, rate, shortened};

/// Longest name in the table, and in one of a narrow terminal.
const NAME_ROOM: (usize, usize) = (40, 10);

/// Columns of the terminal that cores, traffic and gaps take.
const FIGURES: usize = 28;

/// Draws the rows of one interval in `width` columns, under the number of `subjects` that are
/// watched.
pub(crate) fn table(rows: &[Row], subjects: usize, width: usize) -> String {
    let bytes = |row: &Row, bytes: Option<u64>| {
        known(bytes.map(|bytes| bytes as f64), |bytes| rate(bytes / row.span_s))
    };
    let (most, least) = NAME_ROOM;
    let room = width.saturating_sub(FIGURES).clamp(least, most);
    let table = Table::of(rows)
        .left("name", |row| shortened(&row.name, room))
        .left("kind", |row| row.kind)
        .expendable(2)
        .left("state", |row| row.state.name())
        .expendable(1)
        .right("cores", |row| known(row.cpu_s, |s| format!("{:.2}", s / row.span_s)))
        .right("read", |row| bytes(row, row.read_bytes))
        .expendable(3)
        .right("written", |row| bytes(row, row.write_bytes))
        .expendable(3)
        .right("memory traffic", |row| known(row.bandwidth, rate))
        .within(Some(width));
    format!("{}\n\n{table}\n", counted(subjects as u64, "subject"))
}

#[cfg(test)]
mod tests {
    use memweir_watch::{Kind, State};

    use super::*;

    fn row(name: &str) -> Row {
        Row {
            t_s: 4.0,
            span_s: 2.0,
            jobid: format!("/{name}"),
            name: name.to_owned(),
            kind: Kind::Unit,
            state: State::Running,
            cpu_s: Some(3.0),
            read_bytes: Some(4_000_000_000),
            bandwidth: Some(2e9),
            ..Row::default()
        }
    }

    #[test]
    fn figures_are_per_second_and_dashes_stand_for_what_is_not_measured() {
        let idle = Row { cpu_s: None, read_bytes: None, bandwidth: None, ..row("b.service") };
        let text = table(&[row("a.service"), idle], 2, 80);
        let lines: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["2", "subjects"]);
        let expected = ["a.service", "unit", "running", "1.50", "2.0", "GB/s", "-", "2.0", "GB/s"];
        assert_eq!(lines[4], expected);
        assert_eq!(lines[5], ["b.service", "unit", "running", "-", "-", "-", "-"]);
    }

    #[test]
    fn names_of_any_length_leave_the_traffic_in_narrow_terminals() {
        for width in [40, 80] {
            let text = table(&[row(&"long-".repeat(20))], 1, width);
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
            assert!(text.contains("memory traffic") && text.contains("2.0 GB/s"), "{text}");
        }
    }
}
