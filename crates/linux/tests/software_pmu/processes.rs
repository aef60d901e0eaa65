//! Threads, forks, execs and signals.

use memweir_linux::launch::Ending;

use crate::common::*;

/// A program that spins for about `argv[1]` million iterations of four instructions.
const SPIN: &str = r#"
#include <stdlib.h>
int main(int argc, char **argv) {
    long n = atol(argv[1]) * 1000000;
    __asm__ volatile(
        "1: nop\n nop\n dec %0\n jnz 1b" : "+r"(n));
    return 0;
}
"#;

fn millions(done: &Done) -> f64 {
    done.instructions() as f64 / 1e6
}

/// Checks for `expected` million instructions and at most `extra` more for start-up.
fn counted(done: &Done, expected: f64, extra: f64) {
    done.succeeded();
    let found = millions(done);
    assert!((expected..expected + extra).contains(&found), "{found} M, not {expected} M");
}

fn spin() -> Option<Compiled> {
    compile(SPIN, &[])
}

#[test]
fn every_instruction_of_one_thread_is_counted_once() {
    let Some(spin) = spin() else { return };
    counted(&Job::new(&spin.path, &["5"]).run(), 20.0, 0.5);
}

/// Spins for four times two million iterations at once, and for as many alone before and after.
const FOUR_THREADS: &str = r#"
#include <pthread.h>
#include <sys/mman.h>
static void *spin(void *x) {
    long n = 2000000;
    __asm__ volatile(
        "1: nop\n nop\n dec %0\n jnz 1b" : "+r"(n));
    return x;
}
int main(int count, char **arguments) {
    pthread_t t[4];
    if (count > 1) mmap(0, 4096, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    spin(0);
    for (int i = 0; i < 4; i++) pthread_create(&t[i], 0, spin, 0);
    for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
    spin(0);
    return 0;
}
"#;

#[test]
fn every_instruction_of_four_threads_is_counted_once() {
    let Some(program) = compile(FOUR_THREADS, &["-pthread"]) else { return };
    counted(&Job::new(&program.path, &[]).run(), 48.0, 1.0);
}

/// The emulator then translates for threads before there are any, and retranslates nothing for
/// them.
#[test]
fn every_instruction_of_four_threads_is_counted_once_beside_a_shared_mapping() {
    let Some(program) = compile(FOUR_THREADS, &["-pthread"]) else { return };
    counted(&Job::new(&program.path, &["shared"]).run(), 48.0, 1.0);
}

#[test]
fn threads_that_come_and_go_share_one_address_space() {
    // Each thread reads the same megabyte, which fits the last level: one time from memory.
    let source = r#"
#include <pthread.h>
#include <stdlib.h>
static volatile long *a;
static void *sum(void *x) {
    long s = 0;
    for (long i = 0; i < (1 << 17); i += 8) s += a[i];
    return (void *)s;
}
int main(void) {
    a = calloc(1 << 17, 8);
    for (int i = 0; i < 40; i++) {
        pthread_t t;
        pthread_create(&t, 0, sum, 0);
        pthread_join(t, 0);
    }
    return 0;
}
"#;
    let Some(program) = compile(source, &["-pthread"]) else { return };
    let done = Job::new(&program.path, &[]).run();
    done.succeeded();
    assert!((16_384..40_000).contains(&done.reads()), "{}", done.reads());
}

#[test]
fn a_fork_is_counted_without_the_past_of_its_parent() {
    let source = r#"
#include <sys/wait.h>
#include <unistd.h>
static void spin(long n) {
    __asm__ volatile(
        "1: nop\n nop\n dec %0\n jnz 1b" : "+r"(n));
}
int main(void) {
    spin(2000000);
    for (int i = 0; i < 3; i++) if (!fork()) { spin(1000000); _exit(0); }
    while (wait(0) > 0) ;
    spin(1000000);
    return 0;
}
"#;
    let Some(program) = compile(source, &[]) else { return };
    counted(&Job::new(&program.path, &[]).run(), 24.0, 1.0);
}

#[test]
fn a_fork_from_a_program_with_threads_is_counted() {
    let source = r#"
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
static void *spin(void *x) {
    long n = 1000000;
    __asm__ volatile(
        "1: nop\n nop\n dec %0\n jnz 1b" : "+r"(n));
    return x;
}
int main(void) {
    pthread_t t;
    pthread_create(&t, 0, spin, 0);
    if (!fork()) { spin(0); _exit(0); }
    pthread_join(t, 0);
    wait(0);
    spin(0);
    return 0;
}
"#;
    let Some(program) = compile(source, &["-pthread"]) else { return };
    counted(&Job::new(&program.path, &[]).run(), 12.0, 1.0);
}

#[test]
fn programs_started_in_every_way_are_counted() {
    let Some(spin) = spin() else { return };
    let source = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
int main(int argc, char **argv) {
    char *child[] = {"renamed", "1", 0}, *program = argv[2];
    pid_t pid;
    if (!strcmp(argv[1], "spawn")) { if (posix_spawn(&pid, program, 0, 0, child, environ)) return 2; }
    else if (!strcmp(argv[1], "vfork")) { if (!(pid = vfork())) { execv(program, child); _exit(3); } }
    else if (!strcmp(argv[1], "system")) { char s[500]; strcat(strcpy(s, program), " 1"); return system(s); }
    else if (!strcmp(argv[1], "fexecve")) {
        int fd = open(program, O_RDONLY | O_CLOEXEC);
        if (!(pid = fork())) { fexecve(fd, child, environ); _exit(4); }
    } else if (!strcmp(argv[1], "self")) {
        if (argc > 3) { execv(program, child); return 5; }
        char *again[] = {"x", "self", program, "again", 0};
        execv("/proc/self/exe", again);
        return 6;
    }
    int status;
    waitpid(pid, &status, 0);
    return status ? 1 : 0;
}
"#;
    let Some(parent) = compile(source, &[]) else { return };
    for way in ["spawn", "vfork", "system", "fexecve", "self"] {
        let done = Job::new(&parent.path, &[way, spin.path.to_str().unwrap()]).run();
        eprintln!("{way}: {} M", millions(&done));
        counted(&done, 4.0, 3.0);
        assert!(done.recording.notices.is_empty(), "{:?}", done.recording.notices);
    }
}

#[test]
fn an_exec_that_fails_returns_to_the_program() {
    let source = r#"
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv) {
    char *child[] = {"x", 0};
    execve("/nonexistent", child, 0); printf("%d ", errno == ENOENT);
    execve("/etc/passwd", child, 0); printf("%d ", errno == EACCES);
    execve("/tmp", child, 0); printf("%d ", errno == EACCES);
    execve((char *)(uintptr_t)argc + 7, child, 0); printf("%d ", errno == EFAULT);
    execve(argv[1], child, 0); printf("%d\n", errno == ENOEXEC);
    return 0;
}
"#;
    let Some(program) = compile(source, &[]) else { return };
    let directory = tempfile::tempdir().unwrap();
    let foreign = directory.path().join("vax");
    // The start of a 32-bit ELF program for machine 75, which no host has.
    let head = [&b"\x7fELF\x01\x01\x01"[..], &[0; 9], &[2, 0, 75, 0]].concat();
    std::fs::write(&foreign, head).unwrap();
    std::fs::set_permissions(&foreign, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    let done = Job::new(&program.path, &[foreign.to_str().unwrap()]).run();
    done.succeeded();
    assert_eq!(done.stdout, "1 1 1 1 1\n");
    // No program ran natively.
    assert!(done.recording.notices.is_empty(), "{:?}", done.recording.notices);
}

#[test]
fn names_arguments_environment_and_open_files_survive_exec() {
    if emulator_is_missing() {
        return;
    }
    let script = "exec 5>&1; A='x y' LD_LIBRARY_PATH=/none /bin/sh -c \
                  'echo \"$0|$1|$A|$LD_LIBRARY_PATH\" >&5' 'na me' ''";
    let done = Job::shell(script).run();
    done.succeeded();
    assert_eq!(done.stdout, "na me||x y|/none\n");
}

#[test]
fn scripts_run_under_their_interpreter() {
    if emulator_is_missing() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("script");
    std::fs::write(&script, "#!/bin/sh -e\necho \"$0 $1\"\nfalse\necho never\n").unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = script.to_str().unwrap();
    let expected = format!("{path} one\n");
    let done = Job::new(&script, &["one"]).run();
    assert_eq!((done.stdout, done.recording.status.code()), (expected.clone(), 1));
    let done = Job::shell(&format!("{path} one || echo failed")).run();
    assert_eq!(done.stdout, expected + "failed\n");
}

#[test]
fn pipelines_do_what_they_do_natively() {
    if emulator_is_missing() {
        return;
    }
    for script in [
        "gzip -c /bin/ls | gzip -dc | cksum",
        "seq 1 20000 | sort --parallel=4 -R --random-source=/bin/ls | sort -n | cksum",
        "for i in 1 2 3; do (echo $i; exit $i) || echo $?; done | tr '\\n' ' '",
        "seq 1 50000 | awk '{ s += $1 } END { print s }'",
    ] {
        let native = std::process::Command::new("/bin/sh").args(["-c", script]).output().unwrap();
        let done = Job::shell(script).run();
        done.succeeded();
        assert_eq!(done.stdout, String::from_utf8(native.stdout).unwrap(), "{script}");
        assert!(done.recording.notices.is_empty(), "{script}: {:?}", done.recording.notices);
    }
}

#[test]
fn python_starts_programs_and_finds_itself() {
    if emulator_is_missing() {
        return;
    }
    if !std::path::Path::new("/usr/bin/python3").exists() {
        return memweir_test_support::skip!(Program, "no /usr/bin/python3");
    }
    let script = "import subprocess, sys, os\n\
                  print(subprocess.check_output([sys.executable, '-S', '-c', 'print(6*7)']))\n\
                  print(os.readlink('/proc/self/exe') == os.path.realpath('/usr/bin/python3'))\n\
                  print(subprocess.run(['false']).returncode)\n";
    let done = Job::new("/usr/bin/python3", &["-S", "-c", script]).run();
    done.succeeded();
    assert_eq!(done.stdout, "b'42\\n'\nTrue\n1\n");
}

#[test]
fn signals_end_and_interrupt_as_usual() {
    if emulator_is_missing() {
        return;
    }
    let done = Job::shell("kill -TERM $$").run();
    assert_eq!(done.recording.status.ending, Ending::Signal(15));
    let done = Job::shell("trap 'echo caught' USR1; kill -USR1 $$; echo on").run();
    assert_eq!(done.stdout, "caught\non\n");
}

#[test]
fn a_killed_program_keeps_what_it_had_counted() {
    // The child streams 16 MiB three times and is killed while it spins.
    let source = r#"
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
    int ends[2];
    char byte = 0;
    if (pipe(ends)) return 1;
    pid_t pid = fork();
    if (!pid) {
        long sum = 0, n = 2 << 20;
        volatile long *a = malloc(n * 8);
        for (int t = 0; t < 3; t++) for (long i = 0; i < n; i += 8) sum += a[i];
        if (write(ends[1], &byte, 1) != 1) return 1;
        for (;;) ;
    }
    if (read(ends[0], &byte, 1) != 1) return 1;
    kill(pid, SIGKILL);
    wait(0);
    return 0;
}
"#;
    let Some(program) = compile(source, &[]) else { return };
    let (counts, _) = crate::meter::run_to_the_end(Job::new(&program.path, &[]));
    let lines = 3 * (16 << 20) / 64;
    // At most 64 misses are lost.
    assert!((lines - 64..lines + 30_000).contains(&counts.reads.0), "{counts:?}");
}
