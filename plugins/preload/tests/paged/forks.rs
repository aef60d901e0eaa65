//! Programs that fork and start others while their pages are evicted.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use super::calls::PAGE;

/// Children that live at the same time: more than the program may have files.
pub(crate) const AT_ONCE: usize = 60;
/// Programs that are started in each of two ways.
pub(crate) const PROGRAMS: usize = 20;
const ROUNDS: u64 = 12;
const WORDS: usize = PAGE / 8;
/// Pages that are written; there is not room for all.
const PAGES: usize = 5000;

fn value(page: usize, round: u64) -> u64 {
    (page as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ round
}

fn write(memory: &mut [u64], round: u64) {
    memory.chunks_exact_mut(WORDS).enumerate().for_each(|(page, words)| {
        words[page % WORDS] = value(page, round);
    });
}

fn has(memory: &[u64], round: u64) -> bool {
    let mut pages = memory.chunks_exact(WORDS).enumerate();
    pages.all(|(page, words)| words[page % WORDS] == value(page, round))
}

fn wait_for(child: i32) -> i32 {
    let mut status = 0;
    // SAFETY: the kernel writes the status.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    status
}

/// Forks a child that ends with zero if `work` returns true, by libc or by the system call alone.
fn fork(by_libc: bool, work: impl FnOnce() -> bool) -> i32 {
    // SAFETY: the child does only work that needs no other thread, and ends.
    unsafe {
        let child = if by_libc {
            libc::fork()
        } else {
            libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) as i32
        };
        if child == 0 {
            libc::_exit(i32::from(!work()));
        }
        assert!(child > 0);
        child
    }
}

/// Children and grandchildren check that their memory is as it was when they were forked.
pub(crate) fn snapshots() {
    let mut memory = vec![0u64; PAGES * WORDS];
    for round in 0..ROUNDS {
        write(&mut memory, round);
        let child = fork(round % 2 == 0, || {
            std::thread::sleep(std::time::Duration::from_millis(10));
            let grandchild = fork(true, || {
                std::thread::sleep(std::time::Duration::from_millis(10));
                has(&memory, round)
            });
            // Memory that the child writes and drops is its own.
            let mut copy = vec![1u64; 200 * WORDS];
            write(&mut copy, 99);
            has(&memory, round) && has(&copy, 99) && wait_for(grandchild) == 0 && drops(&mut memory)
        });
        write(&mut memory, round + 100);
        assert!(has(&memory, round + 100));
        assert_eq!(wait_for(child), 0, "the child of round {round}");
        assert!(has(&memory, round + 100), "the parent in round {round}");
    }
}

/// The child drops part of its memory, which must be zero in the child alone.
fn drops(memory: &mut [u64]) -> bool {
    let start = (memory.as_ptr() as usize).next_multiple_of(PAGE);
    let length = 300 * PAGE;
    // SAFETY: the memory is this process's, and only the following code uses it.
    unsafe {
        let dropped = libc::madvise(start as *mut libc::c_void, length, libc::MADV_DONTNEED);
        let words = std::slice::from_raw_parts(start as *const u64, length / 8);
        dropped == 0 && words.iter().all(|word| std::ptr::read_volatile(word) == 0)
    }
}

/// A child that has no free descriptor drops part of its memory.
pub(crate) fn blind_child() {
    let mut memory = vec![0u64; PAGES * WORDS];
    write(&mut memory, 1);
    let few = libc::rlimit { rlim_cur: 64, rlim_max: 64 };
    // SAFETY: limits this process, and copies a descriptor.
    unsafe {
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const few), 0);
        while libc::dup(0) >= 0 {}
    }
    assert_eq!(wait_for(fork(true, || drops(&mut memory))), 0);
    assert!(has(&memory, 1));
}

/// The kernel gives a child no memory to replace what it drops. The child is told, rather than
/// given what was evicted.
pub(crate) fn child_without_room() {
    let mut memory = vec![0u64; PAGES * WORDS];
    // The second time, all that is not in the file yet goes there.
    [0, 1].into_iter().for_each(|round| write(&mut memory, round));
    let least = libc::rlimit { rlim_cur: PAGE as u64, rlim_max: PAGE as u64 };
    let start = (memory.as_ptr() as usize).next_multiple_of(PAGE) as *mut libc::c_void;
    // SAFETY: limits the child, and drops memory of the child.
    let child = fork(true, || unsafe {
        let limited = libc::setrlimit(libc::RLIMIT_DATA, &raw const least) == 0;
        limited && libc::madvise(start, 300 * PAGE, libc::MADV_DONTNEED) == -1
    });
    assert_eq!(wait_for(child), 0);
    assert!(has(&memory, 1));
}

/// Waits for children of any kind, and finds none; then traces a program, which starts none.
pub(crate) fn no_children() {
    // SAFETY: waits for nothing.
    let none = || unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::__WALL | libc::WNOHANG) };
    assert_eq!((none(), std::io::Error::last_os_error().raw_os_error()), (-1, Some(libc::ECHILD)));
    let program = [c"/bin/true".as_ptr(), std::ptr::null()];
    // SAFETY: the arguments end with a null pointer; the child asks to be traced.
    let child = fork(true, || unsafe {
        libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
        libc::execv(program[0], program.as_ptr());
        false
    });
    let follow = libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_TRACEFORK | libc::PTRACE_O_TRACEVFORK;
    let mut status = wait_for(child);
    // SAFETY: the child is stopped.
    unsafe { libc::ptrace(libc::PTRACE_SETOPTIONS, child, 0, follow) };
    while libc::WIFSTOPPED(status) {
        assert_eq!(status >> 16, 0, "another process would be traced");
        // SAFETY: as before.
        unsafe { libc::ptrace(libc::PTRACE_CONT, child, 0, 0) };
        status = wait_for(child);
    }
    assert_eq!(status, 0);
}

/// Starts [`children_at_once`] with low limits of files.
pub(crate) fn start_with_limits() {
    let limit = |resource, rlim_cur, rlim_max| {
        let limit = libc::rlimit { rlim_cur, rlim_max };
        // SAFETY: limits the calling process.
        assert_eq!(unsafe { libc::setrlimit(resource, &raw const limit) }, 0);
    };
    let mut program = super::program("children-at-once");
    // SAFETY: the child makes system calls only.
    unsafe {
        program.pre_exec(move || {
            limit(libc::RLIMIT_NOFILE, 32, 32);
            limit(libc::RLIMIT_FSIZE, 1 << 20, libc::RLIM_INFINITY);
            limit(libc::RLIMIT_CPU, 1000, libc::RLIM_INFINITY);
            Ok(())
        });
    }
    assert!(program.status().expect("this program").success());
}

/// Returns the limits of this program's helper, in the words of the kernel.
fn limits_of_helper() -> String {
    let read = |process: &str, file| std::fs::read(format!("/proc/{process}/{file}"));
    // It has this program's memory, where its environment is.
    let own = read("self", "environ").expect("an environment");
    let is_helper = |process: &String| {
        read(process, "comm").is_ok_and(|name| name == b"memweir-page\n")
            && read(process, "environ").is_ok_and(|environment| environment == own)
    };
    let processes = std::fs::read_dir("/proc").expect("processes").flatten();
    let mut names = processes.filter_map(|entry| entry.file_name().into_string().ok());
    let helper = names.find(is_helper).expect("a helper");
    String::from_utf8(read(&helper, "limits").expect("limits")).expect("text")
}

/// Forks children that all live until the last one does.
pub(crate) fn children_at_once() {
    let limits = limits_of_helper();
    let of_time = limits.lines().find(|line| line.starts_with("Max cpu time"));
    let of_time: Vec<&str> = of_time.expect("a limit").split_whitespace().skip(3).collect();
    assert_eq!(of_time[..2], ["unlimited"; 2]);
    let mut memory = vec![0u64; PAGES * WORDS];
    write(&mut memory, 1);
    let mut ends = [0; 2];
    // SAFETY: a pipe; each end is closed once in each process.
    unsafe {
        assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
        let children = [(); AT_ONCE].map(|()| {
            fork(true, || {
                libc::close(ends[1]);
                let ended = libc::read(ends[0], [0u8].as_mut_ptr().cast(), 1) == 0;
                ended && has(&memory, 1)
            })
        });
        libc::close(ends[1]);
        children.into_iter().for_each(|child| assert_eq!(wait_for(child), 0));
    }
}

/// Memory, and the number of writes to it.
struct Shared<'a> {
    memory: &'a mut [u64],
    round: u64,
}

/// Checks the parent's memory, and writes to it.
extern "C" fn write_for_parent(shared: *mut libc::c_void) -> i32 {
    // SAFETY: the parent passes it, and waits.
    let shared = unsafe { &mut *shared.cast::<Shared>() };
    let whole = has(shared.memory, shared.round);
    write(shared.memory, shared.round + 100);
    i32::from(!whole)
}

/// Children that share the memory while their parent waits, as `vfork` and `posix_spawn` make them.
pub(crate) fn vforks() {
    let mut memory = vec![0u64; PAGES * WORDS];
    let mut stack = vec![0u128; 1 << 12];
    for round in 0..ROUNDS {
        write(&mut memory, round);
        let mut shared = Shared { memory: &mut memory, round };
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        let end = stack.as_mut_ptr_range().end;
        // SAFETY: the child has a stack of its own, and this thread waits until it has ended.
        let child =
            unsafe { libc::clone(write_for_parent, end.cast(), flags, (&raw mut shared).cast()) };
        assert!(child > 0);
        assert_eq!(wait_for(child), 0, "the child of round {round}");
        assert!(has(&memory, round + 100), "the parent in round {round}");
    }
}

/// Starts programs in both ways while other threads write.
pub(crate) fn programs() {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut memory = vec![0u64; PAGES * WORDS];
                let mut round = 0;
                while !stop.load(Ordering::Relaxed) {
                    write(&mut memory, round);
                    assert!(has(&memory, round));
                    round += 1;
                }
            });
        }
        for number in 0..PROGRAMS * 2 {
            let mut command = Command::new("/bin/echo");
            command.arg(number.to_string());
            if number % 2 == 0 {
                // SAFETY: does nothing, and makes the child by fork rather than vfork.
                unsafe { command.pre_exec(|| Ok(())) };
            }
            let output = command.output().expect("/bin/echo");
            assert_eq!(output.stdout, format!("{number}\n").into_bytes());
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// Forks while other threads allocate memory, for which they hold a lock of malloc that the fork
/// needs.
pub(crate) fn fork_while_allocating() {
    let mut memory = vec![0u64; PAGES * WORDS];
    write(&mut memory, 1);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    // Mappings of their own, and parts of one that grows and shrinks.
                    let sizes = [400_000, 60_000, 1_000_000, 100_000];
                    let blocks = sizes.map(|bytes| vec![1u8; bytes]);
                    assert!(blocks.iter().all(|block| block[block.len() - 1] == 1));
                }
            });
        }
        for round in 0..ROUNDS * 10 {
            let child = fork(true, || {
                let mut copy = vec![1u64; 100 * WORDS];
                write(&mut copy, round);
                has(&memory, 1) && has(&copy, round)
            });
            assert_eq!(wait_for(child), 0, "the child of round {round}");
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(has(&memory, 1));
}

/// Children that stay for a while; nothing is evicted meanwhile, and no thread waits forever.
pub(crate) fn fill_while_forking() {
    let mut memory = vec![0u64; PAGES * WORDS];
    write(&mut memory, 1);
    let child = fork(true, || {
        std::thread::sleep(std::time::Duration::from_millis(300));
        has(&memory, 1)
    });
    let mut more = vec![0u64; PAGES * WORDS];
    write(&mut more, 2);
    write(&mut memory, 3);
    assert!(has(&more, 2) && has(&memory, 3));
    assert_eq!(wait_for(child), 0);
    write(&mut more, 4);
    assert!(has(&more, 4) && has(&memory, 3));
}
