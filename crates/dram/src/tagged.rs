//! Data of outstanding requests, found by their tags.

/// Data of outstanding requests. A tag is free again once its request has been completed, so that
/// a request keeps its tag for however long it waits.
#[derive(Clone, Debug)]
pub(crate) struct Tagged<T> {
    known: Vec<T>,
    free: Vec<u32>,
}

impl<T: Copy> Tagged<T> {
    pub(crate) fn new() -> Self {
        Self { known: Vec::new(), free: Vec::new() }
    }

    /// Returns the tag of the request that is [inserted](Self::insert) next.
    pub(crate) fn next_tag(&self) -> u32 {
        self.free.last().copied().unwrap_or(self.known.len() as u32)
    }

    /// Inserts the data of a request that was accepted with the next tag.
    pub(crate) fn insert(&mut self, data: T) {
        match self.free.pop() {
            Some(tag) => self.known[tag as usize] = data,
            None => self.known.push(data),
        }
    }

    /// Removes the data of a completed request.
    pub(crate) fn remove(&mut self, tag: u32) -> T {
        self.free.push(tag);
        self.known[tag as usize]
    }

    /// Returns true if no request is outstanding.
    pub(crate) fn is_empty(&self) -> bool {
        self.free.len() == self.known.len()
    }
}
