//! The table of a watch.

use memweir_watch::Row;

use super::text::{Table, counted, known, rate, shortened};

/// Longest name in the table.
const NAME_ROOM: usize = 40;

/// Lines above the rows.
pub(crate) const HEAD_LINES: usize = 4;

/// Draws the rows of one interval, under the number of `subjects` that are watched.
pub(crate) fn table(rows: &[Row], subjects: usize) -> String {
    let bytes = |row: &Row, bytes: Option<u64>| {
        known(bytes.map(|bytes| bytes as f64), |bytes| rate(bytes / row.span_s))
    };
    let table = Table::of(rows)
        .left("name", |row| shortened(&row.name, NAME_ROOM))
        .left("kind", |row| row.kind)
        .left("state", |row| row.state.name())
        .right("cores", |row| known(row.cpu_s, |s| format!("{:.2}", s / row.span_s)))
        .right("read", |row| bytes(row, row.read_bytes))
        .right("written", |row| bytes(row, row.write_bytes))
        .right("memory traffic", |row| known(row.bandwidth, rate));
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
            slurm_jobid: None,
            state: State::Running,
            cpu_s: Some(3.0),
            instructions: None,
            read_bytes: Some(4_000_000_000),
            write_bytes: None,
            bandwidth: Some(2e9),
            cpu_total_s: None,
            total: None,
            domains: Vec::new(),
        }
    }

    #[test]
    fn figures_are_per_second_and_dashes_stand_for_what_is_not_measured() {
        let idle = Row { cpu_s: None, read_bytes: None, bandwidth: None, ..row("b.service") };
        let text = table(&[row("a.service"), idle], 2);
        let lines: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["2", "subjects"]);
        let expected = ["a.service", "unit", "running", "1.50", "2.0", "GB/s", "-", "2.0", "GB/s"];
        assert_eq!(lines[HEAD_LINES], expected);
        assert_eq!(lines[HEAD_LINES + 1], ["b.service", "unit", "running", "-", "-", "-", "-"]);
    }
}
