//! The direction of memory accesses.

/// Direction of an access to memory, or of the request for one line that follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The requester waits for the data.
    Read,
    /// Posted: the data is buffered and written when it suits.
    Write,
}
