use std::os::unix::net::UnixListener;

use nix::sys::signal::raise;

use super::*;
use crate::signals::block_end_signals;

const SOON: Duration = Duration::from_secs(20);

fn peer(command: &str) -> LinePeer {
    LinePeer::start(command).expect("a shell")
}

#[test]
fn lines_are_answered_one_by_one() {
    let mut echo = peer("read first; while read line; do echo \"$first $line\"; done");
    echo.tell("hello\n", SOON).expect("it reads");
    for line in ["one", "two"] {
        assert!(!echo.has_spoken());
        let answer = echo.ask(&format!("{line}\n"), SOON).expect("it answers");
        assert_eq!(answer, format!("hello {line}"));
    }
}

#[test]
fn a_listening_process_is_asked_the_same_way() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("socket");
    assert!(LinePeer::connect(&path).is_err());
    let listener = UnixListener::bind(&path).expect("a socket");
    let server = std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a connection");
        let mut lines = BufReader::new(&stream).lines();
        let line = lines.next().expect("a line").expect("text");
        (&stream).write_all(format!("re: {line}\n").as_bytes()).expect("it listens");
        lines.count()
    });
    let mut peer = LinePeer::connect(&path).expect("a listener");
    assert_eq!(peer.ask("hello\n", SOON).expect("it answers"), "re: hello");
    drop(peer);
    assert_eq!(server.join().expect("no panic"), 0, "its input has ended");
}

#[test]
fn the_dead_the_silent_and_the_endless_are_told_apart() {
    let said = |command: &str, limit| {
        let mut peer = peer(command);
        peer.ask("well?\n", limit).expect_err("no answer").to_string()
    };
    assert_eq!(said("exit 3", SOON), "ended before it answered (exit status: 3)");
    assert_eq!(said("kill -9 $$", SOON), "ended before it answered (signal: 9 (SIGKILL))");
    assert_eq!(said("read line; exec >&- <&-; sleep 5", SOON), "ended before it answered");
    assert_eq!(said("sleep 60", Duration::from_millis(50)), "did not answer within 0.05 s");
    let drips = "while sleep 0.02; do printf x; done";
    assert_eq!(said(drips, Duration::from_millis(100)), "did not answer within 0.1 s");
    assert_eq!(
        said("yes | tr -d '\\n'", SOON),
        "answered more than 1048576 bytes without a newline"
    );
}

#[test]
fn the_last_words_of_a_process_are_heard() {
    let mut peer = peer("echo farewell");
    peer.status().expect("it ends");
    assert!(peer.has_spoken());
    assert_eq!(peer.ask("well?\n", SOON).expect("it has spoken"), "farewell");
}

#[test]
fn a_pending_end_signal_ends_a_wait_and_stays_pending() {
    memweir_test_support::heed_signals();
    let asking = || {
        block_end_signals().expect("a mask");
        let (mut silent, mut deaf, mut quick) =
            (peer("sleep 60"), peer("sleep 60"), peer("echo 1"));
        quick.status().expect("it ends");
        // To this thread alone.
        raise(Signal::SIGHUP).expect("a signal");
        for _ in 0..2 {
            let error = silent.ask("well?\n", SOON).expect_err("no answer");
            assert!(matches!(error, AskError::Interrupted), "{error}");
        }
        let line = "x".repeat(1 << 22) + "\n";
        let error = deaf.tell(&line, SOON).expect_err("no reader");
        assert!(matches!(error, AskError::Interrupted), "{error}");
        assert_eq!(quick.ask("well?\n", SOON).expect("it has spoken"), "1");
        let taken = end_signals().wait();
        assert_eq!(taken, Ok(Signal::SIGHUP));
    };
    std::thread::spawn(asking).join().expect("no panic");
}

#[test]
fn a_line_that_is_not_taken_times_out() {
    let mut peer = peer("sleep 60");
    let line = "x".repeat(1 << 22) + "\n";
    let error = peer.ask(&line, Duration::from_millis(50)).expect_err("no reader");
    assert!(matches!(error, AskError::TimedOut(_)), "{error}");
}

#[test]
fn nothing_of_a_program_is_left() {
    let mut deaf = peer("echo $$; trap '' HUP TERM; sleep 60 & wait");
    let group: i32 = deaf.ask("\n", SOON).expect("its number").parse().expect("a number");
    drop(deaf);
    let left = || killpg(Pid::from_raw(group), None::<Signal>).is_ok();
    // The shell's child is reaped by init.
    let began = Instant::now();
    while left() && began.elapsed() < SOON {
        std::thread::sleep(POLL);
    }
    assert!(!left());
}
