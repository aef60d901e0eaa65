//! Job numbers on the command line: `3`, or `3-7` for a range.

use memweir_core::JobId;

/// Parses a job number, or a range of them with both ends included.
pub(crate) fn range(text: &str) -> Result<(JobId, JobId), String> {
    let number = |part: &str| {
        let help = "write the number of a job, such as `3`, or a range, such as `3-7`";
        part.parse().map(JobId).map_err(|_| format!("`{text}` is no job: {help}"))
    };
    let (first, last) = match text.split_once('-') {
        Some((first, last)) => (number(first)?, number(last)?),
        None => (number(text)?, number(text)?),
    };
    if first > last {
        return Err(format!("`{text}` is empty: write `{last}-{first}`"));
    }
    Ok((first, last))
}

/// A range as it is written.
pub(crate) fn shown(first: JobId, last: JobId) -> String {
    if first == last { first.to_string() } else { format!("{first}-{last}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_ranges_are_read_and_written() {
        assert_eq!(range("3"), Ok((JobId(3), JobId(3))));
        assert_eq!(range("3-7"), Ok((JobId(3), JobId(7))));
        assert_eq!(shown(JobId(3), JobId(7)), "3-7");
        for wrong in ["", "-", "3-", "-7", "7-3", "x", "4294967296", "1-2-3"] {
            assert!(range(wrong).is_err(), "{wrong}");
        }
    }
}
