//! Detects sequences of page faults: memory that is touched page after page gets several pages at
//! once, twice as many each time, so that most accesses do not wait.

use crate::uffd::PAGE;

/// Streams that are tracked at the same time.
const STREAMS: usize = 8;
/// Most pages that are provided at once, all but one of them before they are touched.
pub(super) const AT_ONCE: usize = 16;

/// The page of the next fault in a stream, and the number of pages provided last.
#[derive(Clone, Copy, Default)]
struct Stream {
    next: usize,
    pages: usize,
}

/// The tracked streams. All zero at first.
#[derive(Default)]
#[repr(C)]
pub(super) struct Streams {
    streams: [Stream; STREAMS],
    latest: usize,
}

impl Streams {
    /// Returns the number of pages to provide for a fault at `page`.
    pub(super) fn pages_at(&mut self, page: usize) -> usize {
        let known = self.streams.iter().position(|stream| stream.next == page);
        self.latest = known.unwrap_or((self.latest + 1) % STREAMS);
        let stream = &mut self.streams[self.latest];
        stream.pages = if known.is_some() { (stream.pages * 2).min(AT_ONCE) } else { 1 };
        stream.pages
    }

    /// Records that `count` pages were provided for the last fault, which was at `page`.
    pub(super) fn given(&mut self, page: usize, count: usize) {
        self.streams[self.latest].next = page + count * PAGE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_faults_in_a_row_get_more_and_more() {
        let mut streams = Streams::default();
        let mut fault = |page: usize| {
            let count = streams.pages_at(page * PAGE);
            streams.given(page * PAGE, count);
            count
        };
        // Two threads at the same time, and one that goes backwards.
        let mut next = [1000, 5000];
        for expected in [1, 2, 4, 8, 16, 16] {
            for page in &mut next {
                let count = fault(*page);
                assert_eq!(count, expected);
                *page += count;
            }
            assert_eq!(fault(9000 - expected), 1);
        }
        // A page after a gap begins a new stream.
        assert_eq!(fault(next[0] + 1), 1);
        assert_eq!(fault(next[0] + 2), 2);
    }
}
