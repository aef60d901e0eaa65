//! The forked children whose memory maps slots of this process.

use crate::sys;
use crate::uffd::Uffd;

/// Children that are tracked at most. With more, eviction stops for good.
const CHILDREN: usize = 1024;

/// The userfaultfds of the children's memory, in the order of the forks. All zero means that there
/// are none.
///
/// As long as there is [any](Self::any), no slot may change: a child maps the slots that its parent
/// mapped when it was forked. The pause of evictions begins with the first child, and ends when
/// [`end_pause`](Self::end_pause) finds none. A child beyond the last place stays forever.
#[repr(C)]
pub(in crate::page::pager) struct Children {
    used: usize,
    /// Number of them, from the first, that were released already.
    settled: usize,
    files: [i32; CHILDREN],
    /// Number of children that can be tracked.
    room: usize,
    too_many: bool,
    paused: bool,
    /// Start of the pause in microseconds, if there is one.
    since: u64,
}

impl Children {
    /// Returns true if a child maps slots.
    pub(in crate::page::pager) const fn any(&self) -> bool {
        self.used > 0 || self.too_many
    }

    /// Allows for so many children, as far as there is room.
    pub(super) fn make_room(&mut self, children: usize) {
        self.room = children.min(CHILDREN);
    }

    /// Adds the child that was forked at `now`, and takes over its descriptor.
    pub(super) fn adopt(&mut self, file: i32, now: u64) {
        if self.used < self.room {
            self.files[self.used] = file;
            self.used += 1;
        } else {
            // A fork waits until there is a free descriptor for its child.
            sys::close(file);
            self.too_many = true;
        }
        if !self.paused {
            (self.paused, self.since) = (true, now);
        }
    }

    /// Returns their descriptors, those of the first children first.
    pub(super) fn files(&self) -> &[i32] {
        &self.files[..self.used]
    }

    /// Returns the child at a place in the order of the forks.
    pub(super) fn get(&self, at: usize) -> Option<Uffd> {
        self.files().get(at).copied().map(Uffd)
    }

    /// Returns the first child that was not returned yet: its memory has to be released.
    pub(super) fn next_new(&mut self) -> Option<Uffd> {
        let child = self.get(self.settled)?;
        self.settled += 1;
        Some(child)
    }

    /// Removes a child whose memory is gone, and closes its descriptor.
    pub(super) fn remove(&mut self, at: usize) {
        sys::close(self.files[at]);
        self.files.copy_within(at + 1..self.used, at);
        self.used -= 1;
        self.settled -= usize::from(at < self.settled);
    }

    /// Returns the start of the pause.
    pub(in crate::page::pager) fn paused_since(&self) -> Option<u64> {
        self.paused.then_some(self.since)
    }

    /// Ends the pause if there is no child; returns its start.
    pub(super) fn end_pause(&mut self) -> Option<u64> {
        let since = self.paused_since().filter(|_| !self.any());
        self.paused &= since.is_none();
        since
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::IntoRawFd;

    use super::*;

    fn none() -> Box<Children> {
        let mut children = crate::all_zero::<Children>();
        children.make_room(CHILDREN);
        children
    }

    fn descriptor() -> i32 {
        File::open("/dev/null").expect("it exists").into_raw_fd()
    }

    fn number(child: Option<Uffd>) -> Option<i32> {
        child.map(|child| child.0)
    }

    #[test]
    fn the_pause_lasts_from_the_first_child_to_the_last() {
        let mut children = none();
        assert_eq!(
            (children.any(), children.paused_since(), children.end_pause()),
            (false, None, None)
        );
        children.adopt(descriptor(), 100);
        children.adopt(descriptor(), 200);
        assert!(children.any());
        children.remove(0);
        assert_eq!((children.end_pause(), children.paused_since()), (None, Some(100)));
        children.remove(0);
        assert_eq!(children.paused_since(), Some(100), "until it is ended");
        assert_eq!((children.end_pause(), children.paused_since()), (Some(100), None));
        children.adopt(descriptor(), 300);
        assert_eq!(children.paused_since(), Some(300));
        children.remove(0);
    }

    #[test]
    fn each_child_is_new_once() {
        let mut children = none();
        let files = [descriptor(), descriptor(), descriptor()];
        files[..2].iter().for_each(|file| children.adopt(*file, 1));
        assert_eq!(number(children.next_new()), Some(files[0]));
        children.adopt(files[2], 2);
        assert_eq!(children.files(), files);
        assert_eq!(number(children.next_new()), Some(files[1]));
        children.remove(1);
        assert_eq!(
            [0, 1, 2].map(|at| number(children.get(at))),
            [Some(files[0]), Some(files[2]), None]
        );
        children.remove(0);
        assert_eq!(number(children.next_new()), Some(files[2]), "however many went before it");
        while children.any() {
            children.remove(0);
        }
        assert_eq!(number(children.next_new()), None);
    }

    #[test]
    fn with_too_many_children_no_slot_changes_any_more() {
        let mut children = none();
        children.make_room(3);
        (0..3).for_each(|_| children.adopt(descriptor(), 1));
        let last = descriptor();
        children.adopt(last, 1);
        assert_eq!(children.files().len(), 3);
        // SAFETY: asks for flags.
        assert_eq!(unsafe { libc::fcntl(last, libc::F_GETFD) }, -1, "nobody uses it");
        while children.get(0).is_some() {
            children.remove(0);
        }
        assert!(children.any());
        assert_eq!((children.end_pause(), children.paused_since()), (None, Some(1)));
    }
}
