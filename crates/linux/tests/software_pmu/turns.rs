//! Virtual time: threads that run only in turns.

use std::process::Child;
use std::sync::Arc;

use memweir_abi::softpmu::gate::Costs;
use memweir_core::{JobId, Nanos};
use memweir_linux::gate::{CoreCaches, Gate, Standing, ThreadId};
use memweir_linux::meter::software::SoftwareMeter;
use memweir_linux::qemu::QemuPaths;

use crate::common::*;
use crate::meter::start;

/// A turn: 100 us of progress.
const TURN: u64 = 100_000_000_000;

/// 2020-01-01.
const EPOCH: Nanos = Nanos(1_577_836_800_000_000_000);

/// A nanosecond per instruction, ten more per miss of a level.
const COSTS: Costs =
    Costs { instruction: 1_000_000, l1_miss: 10_000_000, l2_miss: 10_000_000, read: 50_000_000 };

/// One emulated core that gives every thread of one job the turn in the order of age.
struct Core {
    gate: Arc<Gate>,
    _meter: SoftwareMeter,
    child: Child,
    now: Nanos,
    /// The thread that had the turn, its progress by then, and its state afterwards.
    trace: Vec<(u64, u64, Standing)>,
}

impl Core {
    fn start(job: Job) -> (Self, std::fs::File) {
        let gate = Arc::new(Gate::new(COSTS, 1, EPOCH).unwrap());
        let mut meter =
            SoftwareMeter::new(caches(), &QemuPaths::default()).unwrap().behind(gate.clone());
        let (launch, output) = job.into_parts();
        let child = start(&mut meter, JobId(0), launch);
        while gate.threads().is_empty() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        (Self { gate, _meter: meter, child, now: Nanos::ZERO, trace: Vec::new() }, output)
    }

    fn turn(&mut self, thread: ThreadId) {
        let before = self.gate.spent(thread).used;
        self.gate.set_time(self.now);
        let standing = self.gate.turn(thread, before + TURN, CoreCaches::Own);
        let used = self.gate.spent(thread).used.max(before);
        self.now += Nanos((used - before) / 1_000_000);
        self.trace.push((thread.birth, used, standing));
    }

    /// Gives turns until no thread of the job is left. Returns its exit code.
    fn run(&mut self) -> Option<i32> {
        loop {
            let mut ran = false;
            let mut next_wake = None;
            for view in self.gate.threads() {
                match self.gate.standing(view.thread) {
                    Standing::Ready => {
                        self.turn(view.thread);
                        ran = true;
                    }
                    Standing::AsleepUntil(time) if time <= self.now => {
                        self.turn(view.thread);
                        ran = true;
                    }
                    Standing::AsleepUntil(time) => {
                        next_wake = Some(next_wake.map_or(time, |next: Nanos| next.min(time)));
                    }
                    Standing::Blocked | Standing::Gone => {}
                }
            }
            if self.gate.threads().is_empty() {
                return self.child.wait().unwrap().code();
            }
            match next_wake {
                Some(time) if !ran => self.now = time,
                None if !ran => std::thread::sleep(std::time::Duration::from_millis(1)),
                _ => {}
            }
        }
    }
}

/// Result of a job.
struct Ran {
    code: Option<i32>,
    output: String,
    trace: Vec<(u64, u64, Standing)>,
    now: Nanos,
}

/// Runs a job in turns.
fn run(job: Job) -> Ran {
    let (mut core, output) = Core::start(job);
    let code = core.run();
    Ran { code, output: text(output), trace: std::mem::take(&mut core.trace), now: core.now }
}

/// Runs a job that `job` makes twice, and checks that nothing differs.
fn run_twice(job: impl Fn() -> Job) -> Ran {
    let (first, second) = (run(job()), run(job()));
    assert_eq!(first.output, second.output);
    for (number, (a, b)) in first.trace.iter().zip(&second.trace).enumerate() {
        assert_eq!(a, b, "turn {number}");
    }
    assert_eq!(first.trace.len(), second.trace.len());
    assert_eq!((first.code, first.now), (second.code, second.now));
    first
}

#[test]
fn a_program_runs_in_turns_and_twice_the_same() {
    let Some(stream) = compile(STREAM, &[]) else { return };
    let Ran { code, trace, now, .. } = run_twice(|| Job::new(&stream.path, &["4", "2"]));
    assert_eq!(code, Some(0));
    assert!(trace.len() > 20, "{}", trace.len());
    assert!(now > Nanos::from_millis(2), "{now:?}");
}

#[test]
fn a_shell_script_with_children_and_a_pipe_runs_twice_the_same() {
    if emulator_is_missing() {
        return;
    }
    let script = "i=0; while [ $i -lt 3 ]; do /bin/echo $i; i=$((i+1)); done | \
                  (read a; read b; echo $b $a); seq 1 20000 | tail -n 1; (exit 3); echo $?";
    let Ran { code, output, .. } = run_twice(|| Job::shell(script));
    assert_eq!((code, output.as_str()), (Some(0), "1 0\n20000\n3\n"));
}

#[test]
fn a_sleep_takes_virtual_time_and_next_to_no_other() {
    if emulator_is_missing() {
        return;
    }
    let began = std::time::Instant::now();
    let Ran { code, output, now, .. } =
        run_twice(|| Job::shell("sleep 1000; date +%s; sleep 0.5; date +%s.%N | cut -c1-12"));
    assert_eq!(code, Some(0));
    assert_eq!(output, "1577837800\n1577837800.5\n");
    assert!((1_000_500..1_000_700).contains(&(now.0 / 1_000_000)), "{now:?}");
    assert!(began.elapsed().as_secs() < 500);
}

const THREADS: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static long sum;
static int turn;
static void *work(void *argument) {
    long me = (long)argument;
    volatile long local = 0;
    for (int round = 0; round < 20; round++) {
        for (long i = 0; i < 20000; i++) local += i ^ me;
        pthread_mutex_lock(&lock);
        while (turn % 4 != me) pthread_cond_wait(&turned, &lock);
        turn++;
        sum = sum * 31 + local;
        pthread_cond_broadcast(&turned);
        pthread_mutex_unlock(&lock);
        __atomic_fetch_add(&sum, me, __ATOMIC_SEQ_CST);
    }
    return 0;
}
int main(int count, char **arguments) {
    for (int again = 0; again < 3; again++) {
        pthread_t threads[4];
        for (long i = 0; i < 4; i++) pthread_create(&threads[i], 0, work, (void *)i);
        if (count > 1 && again == 1) {
            volatile long spin = 0;
            for (long i = 0; i < 50000; i++) spin += i;
            exit(5);
        }
        for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    }
    printf("%ld\n", sum);
    return 0;
}
"#;

#[test]
fn threads_take_turns_and_do_twice_the_same() {
    let Some(program) = compile(THREADS, &["-pthread"]) else { return };
    let Ran { code, output, .. } = run_twice(|| Job::new(&program.path, &[]));
    assert_eq!(code, Some(0));
    assert!(!output.is_empty());
}

/// The emulator retranslates nothing for the threads of such a process, whose blocks were made
/// while it had one thread.
#[test]
fn threads_that_share_a_mapping_take_turns_of_their_own() {
    let source = r#"
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
static volatile long tables[2][1 << 15];
static void *sum(void *table) {
    long sum = 0;
    for (int round = 0; round < 40; round++)
        for (long i = 0; i < 1 << 15; i += 8) sum += ((volatile long *)table)[i];
    return (void *)sum;
}
int main(void) {
    mmap(0, 4096, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    tables[0][8] = 1;
    tables[1][8] = 2;
    sum((void *)tables[0]);
    pthread_t thread;
    void *other;
    pthread_create(&thread, 0, sum, (void *)tables[1]);
    long own = (long)sum((void *)tables[0]);
    pthread_join(thread, &other);
    printf("%ld %ld\n", own, (long)other);
    return 0;
}
"#;
    let Some(program) = compile(source, &["-pthread"]) else { return };
    let began = std::time::Instant::now();
    let Ran { code, output, trace, .. } = run_twice(|| Job::new(&program.path, &[]));
    assert_eq!((code, output.as_str()), (Some(0), "40 80\n"));
    let turns_of = |birth: u64| trace.iter().filter(|turn| turn.0 == birth).count();
    assert!(turns_of(0) > turns_of(1) && turns_of(1) > 10, "{} {}", turns_of(0), turns_of(1));
    // A turn that was given to the wrong thread is noticed after a second.
    assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
}

#[test]
fn a_process_ends_although_its_threads_wait_for_their_turn() {
    let Some(program) = compile(THREADS, &["-pthread"]) else { return };
    let Ran { code, .. } = run(Job::new(&program.path, &["exit"]));
    assert_eq!(code, Some(5));
}

#[test]
fn a_process_with_waiting_threads_forks_and_executes() {
    let source = THREADS.replace(
        "exit(5);",
        "fflush(stdout); system(\"echo child\"); execlp(\"echo\", \"echo\", \"executed\", (char *)0);",
    );
    let source = format!("#include <unistd.h>\n{source}");
    let Some(program) = compile(&source, &["-pthread"]) else { return };
    let Ran { code, output, .. } = run(Job::new(&program.path, &["fork"]));
    assert_eq!((code, output.as_str()), (Some(0), "child\nexecuted\n"));
}

#[test]
fn a_program_that_is_killed_or_crashes_gives_its_turn_back() {
    if emulator_is_missing() {
        return;
    }
    let Ran { code, output, .. } =
        run(Job::shell("sh -c 'kill -9 $$'; echo $?; sh -c 'kill -SEGV $$'; echo $?"));
    assert_eq!((code, output.as_str()), (Some(0), "137\n139\n"));
}

#[test]
fn random_bytes_come_from_the_seed() {
    let source = r#"
#include <stdio.h>
#include <sys/auxv.h>
#include <sys/random.h>
int main(void) {
    unsigned long a, b;
    getrandom(&a, sizeof a, 0);
    getrandom(&b, sizeof b, 0);
    printf("%lx %lx %lx %d\n", a, b, *(unsigned long *)getauxval(AT_RANDOM), a != b);
    return 0;
}
"#;
    let Some(program) = compile(source, &[]) else { return };
    let Ran { output, .. } = run_twice(|| Job::new(&program.path, &[]));
    assert!(output.ends_with(" 1\n"), "{output}");
}

#[test]
fn a_wait_with_a_deadline_ends_when_another_thread_ends_it() {
    let source = r#"
#include <pthread.h>
#include <stdio.h>
#include <time.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct timespec deadline;
static int done;
static void *work(void *argument) {
    struct timespec second = {1, 0};
    nanosleep(&second, 0);
    pthread_mutex_lock(&lock);
    printf("%ld\n", (long)deadline.tv_sec);
    done = 1;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
    return argument;
}
int main(void) {
    pthread_t worker;
    int timed_out = 0;
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += 600;
    pthread_create(&worker, 0, work, 0);
    pthread_mutex_lock(&lock);
    while (!done && !timed_out) timed_out = pthread_cond_timedwait(&changed, &lock, &deadline);
    printf("%d\n", timed_out);
    pthread_mutex_unlock(&lock);
    pthread_join(worker, 0);
    return 0;
}
"#;
    let Some(program) = compile(source, &["-pthread"]) else { return };
    let Ran { code, output, .. } = run(Job::new(&program.path, &[]));
    // 2020-01-01 and ten minutes, as the program has set it.
    assert_eq!((code, output.as_str()), (Some(0), "1577837400\n0\n"));
}

/// Natively the handler ends each sleep, which then goes on for what is left of it.
#[test]
fn a_sleep_that_a_signal_interrupts_takes_no_longer() {
    let source = r#"
#include <pthread.h>
#include <signal.h>
#include <time.h>
static pthread_t sleeper;
static volatile int handled;
static void handle(int number) { handled += number == SIGUSR1; }
static void *work(void *argument) {
    struct timespec second = {1, 0};
    for (int i = 0; i < 3; i++) {
        nanosleep(&second, 0);
        pthread_kill(sleeper, SIGUSR1);
    }
    return argument;
}
int main(void) {
    pthread_t worker;
    struct timespec length = {5, 0};
    signal(SIGUSR1, handle);
    sleeper = pthread_self();
    pthread_create(&worker, 0, work, 0);
    while (nanosleep(&length, &length));
    return handled;
}
"#;
    let Some(program) = compile(source, &["-pthread"]) else { return };
    let Ran { code, now, .. } = run(Job::new(&program.path, &[]));
    assert_eq!(code, Some(3));
    assert!((5_000..5_100).contains(&(now.0 / 1_000_000)), "{now:?}");
}

#[test]
fn without_a_coordinator_threads_run_freely() {
    if emulator_is_missing() {
        return;
    }
    let (mut core, output) = Core::start(Job::shell("sleep 0.1; sleep 0 & wait; echo $((6 * 7))"));
    for _ in 0..10 {
        let threads = core.gate.threads();
        core.turn(threads[0].thread);
    }
    core.gate.abandon();
    assert_eq!(core.child.wait().unwrap().code(), Some(0));
    assert_eq!(text(output), "42\n");
}
