use super::*;

/// Gives `test` an empty page, which is larger than the stack of a test.
fn with_page(test: impl FnOnce(&GatePage) + Send + 'static) {
    let on_large_stack = move || {
        let threads: Vec<ThreadRecord> = (0..THREADS).map(|_| ThreadRecord::default()).collect();
        let threads: Box<[ThreadRecord; THREADS]> = threads.into_boxed_slice().try_into().unwrap();
        test(&GatePage { header: GateHeader::default(), threads: *threads });
    };
    let thread = std::thread::Builder::new().stack_size(64 << 20).spawn(on_large_stack).unwrap();
    thread.join().unwrap();
}

#[test]
fn a_record_is_given_out_once_and_again_when_it_is_free() {
    with_page(|page| {
        assert_eq!((page.claim(0), page.claim(1)), (Some(0), Some(1)));
        assert_eq!(page.used().len(), 2);
        assert_eq!(page.threads[1].job.load(Relaxed), 1);
        page.threads[0].used.store(7, Relaxed);
        page.threads[0].state.store(ThreadState::Free as u32, Relaxed);
        assert_eq!(page.claim(2), Some(0));
        assert_eq!(page.threads[0].used.load(Relaxed), 0);
        assert_eq!(page.threads[0].birth.load(Relaxed), 2, "younger than the second");
    });
}

#[test]
fn no_more_threads_than_there_are_records() {
    with_page(|page| {
        assert_eq!((0..THREADS).filter_map(|_| page.claim(0)).count(), THREADS);
        assert_eq!(page.claim(0), None);
    });
}

#[test]
fn a_system_call_is_not_taken_for_the_next_one() {
    let record = ThreadRecord::default();
    record.state.store(ThreadState::Running as u32, Relaxed);
    assert!(record.begin_call(7));
    let word = record.state.load(Relaxed);
    assert_eq!(record.state(), ThreadState::InCall);
    assert!(!record.begin_call(8), "it is in one");
    assert!(record.change(ThreadState::InCall, ThreadState::Running));
    assert!(record.begin_call(8));
    assert!(!record.change_word(word, ThreadState::Blocked));
    assert!(record.change_word(record.state.load(Relaxed), ThreadState::Blocked));
}

#[test]
fn states_and_numbers_agree() {
    for number in 0..=9 {
        assert_eq!(ThreadState::of(number) as u32, number);
    }
    assert_eq!(ThreadState::of(99), ThreadState::Free);
}

#[test]
fn costs_are_read_as_they_were_written() {
    let header = GateHeader::default();
    let costs = Costs { instruction: 1, l1_miss: 2, l2_miss: 3, read: 4 };
    header.set_costs(costs);
    assert_eq!(header.costs(), costs);
}

#[test]
fn whatever_closes_the_writing_end_of_a_pipe_wakes_its_reader() {
    let (close, dup2, dup3, close_range) = (3, 33, 292, 436);
    assert!([close, dup2, dup3, close_range].into_iter().all(wakes_others));
    let getpid = 39;
    assert!(!wakes_others(getpid));
}

#[test]
fn whatever_sends_a_signal_wakes_its_receiver() {
    let (kill, tkill, tgkill) = (62, 200, 234);
    let (sigqueueinfo, tgsigqueueinfo, pidfd_send_signal) = (129, 297, 424);
    let calls = [kill, tkill, tgkill, sigqueueinfo, tgsigqueueinfo, pidfd_send_signal];
    assert!(calls.into_iter().all(wakes_others));
}

#[test]
fn whatever_opens_a_named_pipe_may_wait_for_its_other_end() {
    let (open, creat, openat, openat2) = (2, 85, 257, 437);
    for call in [open, creat, openat, openat2] {
        assert_eq!(blocking(call), Blocking::Perhaps, "{call}");
    }
}
