//! The monitor on a userfaultfd that refuses requests and reports faults as a test says.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::IntoRawFd;

use super::*;

/// Requests of the monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Request {
    Protect(Span),
    Unprotect(Span),
    Unwatch(Span),
    Wake(Span),
}

#[derive(Default)]
struct Fake {
    requests: RefCell<Vec<Request>>,
    /// Errors of the next requests; after them, all succeed.
    refusals: RefCell<VecDeque<i32>>,
    messages: RefCell<VecDeque<Message>>,
}

impl Fake {
    fn refused(&self, request: Request) -> Result<(), Errno> {
        self.requests.borrow_mut().push(request);
        self.refusals.borrow_mut().pop_front().map_or(Ok(()), |errno| Err(Errno(errno)))
    }
}

impl Userfaultfd for Fake {
    fn protect(&self, range: Span) -> Result<(), Errno> {
        self.refused(Request::Protect(range))
    }

    fn unprotect(&self, range: Span) -> Result<(), Errno> {
        self.refused(Request::Unprotect(range))
    }

    fn unwatch(&self, range: Span) -> Result<(), Errno> {
        self.refused(Request::Unwatch(range))
    }

    fn wake(&self, range: Span) {
        self.requests.borrow_mut().push(Request::Wake(range));
    }

    fn read(&self, messages: &mut [Message]) -> usize {
        let mut waiting = self.messages.borrow_mut();
        let count = messages.len().min(waiting.len());
        messages.iter_mut().zip(waiting.drain(..count)).for_each(|(to, from)| *to = from);
        count
    }

    fn file(&self) -> i32 {
        -1
    }
}

fn faulty(refusals: &[i32], messages: &[Message]) -> Monitor<Fake> {
    let uffd = Fake {
        refusals: RefCell::new(refusals.iter().copied().collect()),
        messages: RefCell::new(messages.iter().copied().collect()),
        ..Fake::default()
    };
    Monitor {
        uffd,
        main: -1,
        process: 0,
        entry: 0,
        control: Box::leak(crate::all_zero()),
        space: Box::leak(crate::all_zero()),
        tally: Tally::NONE,
        copies: false,
        tables: Box::leak(crate::all_zero()),
    }
}

fn requests(monitor: &Monitor<Fake>) -> Vec<Request> {
    monitor.uffd.requests.take()
}

fn message(event: u8, flags: u64, page: usize) -> Message {
    let mut message = Message::default();
    (message.event, message.flags, message.address) = (event, flags, (page * PAGE) as u64);
    message
}

fn fork() -> Message {
    let child = File::open("/dev/null").expect("it exists").into_raw_fd();
    message(Message::FORK, child as u64, 0)
}

fn pages(from: usize, to: usize) -> Span {
    Span::new(from * PAGE, to * PAGE)
}

#[test]
fn a_request_is_repeated_until_the_fork_is_noticed() {
    let mut monitor = faulty(&[libc::EAGAIN, libc::EAGAIN], &[fork()]);
    assert!(monitor.protect(pages(0, 2)));
    assert_eq!(requests(&monitor), [Request::Protect(pages(0, 2)); 3]);
    assert!(monitor.children().any() && monitor.children().paused_since().is_some());
}

#[test]
fn memory_in_the_file_stays_watched_when_that_around_it_no_longer_is() {
    let mut monitor = faulty(&[], &[]);
    assert!(monitor.ranges(|ranges| ranges.converted.insert(pages(2, 3))));
    assert_eq!(monitor.unwatch_plain(pages(0, 5)), Ok(()));
    let around = [pages(0, 2), pages(3, 5)].map(Request::Unwatch);
    assert_eq!(requests(&monitor), around);
    assert_eq!(monitor.unwatch_plain(pages(2, 3)), Ok(()));
    assert_eq!(requests(&monitor), []);
}

#[test]
fn a_fork_in_progress_counts_as_a_child() {
    let mut monitor = faulty(&[libc::EAGAIN], &[fork()]);
    assert!(!monitor.children().any() && monitor.is_shared());
    let mut alone = faulty(&[], &[]);
    assert!(!alone.is_shared());
}

#[test]
fn what_the_kernel_does_not_protect_is_open() {
    let mut monitor = faulty(&[libc::EFAULT], &[]);
    assert!(!monitor.protect(pages(0, 2)));
    assert!(monitor.protection().is_open(0));
    monitor.uffd.refusals.borrow_mut().push_back(libc::ENOENT);
    requests(&monitor);
    monitor.stall(pages(0, 2));
    assert!(!monitor.protection().any_stalled() && monitor.protection().is_open(0));
    let before_the_refusal = Request::Unprotect(pages(0, 2));
    assert_eq!(requests(&monitor), [Request::Protect(pages(0, 2)), before_the_refusal]);
}

#[test]
fn writers_go_on_beside_what_was_replaced_and_in_its_place() {
    let mut monitor = faulty(&[], &[]);
    monitor.stall(pages(0, 3));
    requests(&monitor);
    // The first page is no longer in the file.
    monitor.uffd.refusals.borrow_mut().extend([libc::ENOENT, libc::ENOENT, libc::ENOENT]);
    monitor.release();
    let expected = [
        Request::Unprotect(pages(0, 3)),
        Request::Unprotect(pages(0, 2)),
        Request::Unprotect(pages(0, 1)),
        Request::Wake(pages(0, 1)),
        Request::Unprotect(pages(1, 2)),
        Request::Unprotect(pages(2, 3)),
    ];
    assert_eq!(requests(&monitor), expected);
    assert!(!monitor.protection().any_stalled());
}

#[test]
fn pages_that_have_moved_stay_protected_where_writers_are_held() {
    let mut monitor = faulty(&[], &[]);
    monitor.stall(pages(2, 4));
    assert!(monitor.protect(pages(0, 6)));
    requests(&monitor);
    monitor.unprotect_all();
    let open = [pages(0, 2), pages(4, 6)].map(Request::Unprotect);
    assert_eq!(requests(&monitor), open);
    assert!(monitor.protection().is_stalled(2 * PAGE) && monitor.protection().is_open(0));
    monitor.release();
    assert_eq!(requests(&monitor), [Request::Unprotect(pages(2, 4))]);
    assert!(!monitor.protection().any_stalled());
}

#[test]
fn late_writers_are_woken_where_nothing_is_protected() {
    let late = [1, 3].map(|page| message(Message::FAULT, Message::FLAG_PROTECTED, page));
    let mut monitor = faulty(&[], &late);
    assert!(monitor.protect(pages(3, 4)));
    requests(&monitor);
    monitor.drain();
    assert_eq!(requests(&monitor), [Request::Wake(pages(1, 2))]);
    monitor.replaced(pages(3, 4));
    assert_eq!(requests(&monitor), [Request::Wake(pages(3, 4))]);
    assert!(monitor.protection().is_open(3 * PAGE));
}

#[test]
fn faults_wait_until_they_are_answered() {
    let missing = [5, 6, 7].map(|page| message(Message::FAULT, 0, page));
    let mut monitor = faulty(&[], &missing[..2]);
    assert!(!monitor.has_waiters());
    monitor.drain();
    assert_eq!(monitor.next_fault(), Some(5 * PAGE));
    monitor.answer_later(5 * PAGE);
    monitor.uffd.messages.borrow_mut().push_back(missing[2]);
    monitor.drain();
    let rest = [monitor.next_fault(), monitor.next_fault(), monitor.next_fault()];
    assert_eq!(rest, [Some(6 * PAGE), Some(7 * PAGE), None], "also one that comes meanwhile");
    assert!(monitor.has_waiters());
    assert_eq!([monitor.next_fault(), monitor.next_fault()], [Some(5 * PAGE), None]);
    assert!(!monitor.has_waiters());
}

#[test]
fn threads_without_room_fault_again_and_keep_no_fork_waiting() {
    let faults = (0..PENDING + 2).map(|page| message(Message::FAULT, 0, page));
    let mut monitor = faulty(&[libc::EAGAIN], &faults.chain([fork()]).collect::<Vec<_>>());
    assert!(monitor.is_shared());
    requests(&monitor);
    assert!((0..PENDING).all(|page| monitor.next_fault() == Some(page * PAGE)));
    assert_eq!(requests(&monitor), []);
    assert_eq!(monitor.next_fault(), None);
    assert_eq!(requests(&monitor), [Request::Wake(pages(PENDING, PENDING + 2))]);
    assert_eq!((monitor.next_fault(), requests(&monitor)), (None, vec![]), "once");
}
