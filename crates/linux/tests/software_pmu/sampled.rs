//! Sampled recordings against full ones.

use memweir_abi::softpmu::Sampling;
use memweir_linux::record::Origin;
use memweir_linux::softpmu::CountingPlan;

use crate::common::*;

fn sampled(sampling: Sampling) -> CountingPlan {
    CountingPlan { sampling, ..plan() }
}

/// Streams and spins in turn, so that bursts see one or the other.
const PHASES: &str = r"
#include <pthread.h>
#include <stdlib.h>
static void *work(void *x) {
    long n = 1 << 20, sum = 0;
    volatile long *a = malloc(n * 8);
    for (int phase = 0; phase < 20; phase++) {
        for (long t = 0; t < 16; t++) for (long i = 0; i < n; i += 8) sum += a[i];
        for (volatile long i = 0; i < 2000000; i++) ;
    }
    return 0;
}
int main(int argc, char **argv) {
    pthread_t t;
    if (argc > 1) { pthread_create(&t, 0, work, 0); pthread_join(t, 0); }
    work(0);
    return 0;
}
";

#[test]
fn a_quarter_of_the_program_tells_its_traffic() {
    let Some(program) = compile(PHASES, &["-pthread"]) else { return };
    for arguments in [&[][..], &["threads"]] {
        let full = Job::new(&program.path, arguments).record(&sampled(Sampling::All));
        let quarter = Job::new(&program.path, arguments).record(&sampled(Sampling::Share(0.25)));
        full.succeeded();
        quarter.succeeded();
        let recording = &quarter.recording;
        assert!((0.15..0.4).contains(&recording.sampled_share), "{}", recording.sampled_share);
        let of = |origin| recording.chunks.iter().filter(|c| c.origin == origin).count();
        assert!(of(Origin::Simulated) > 0 && of(Origin::Extrapolated) > of(Origin::Simulated));
        let instructions = quarter.instructions() as f64 / full.instructions() as f64;
        assert!((instructions - 1.0).abs() < 0.01, "{instructions}");
        let reads = quarter.reads() as f64 / full.reads() as f64;
        eprintln!("{arguments:?}: reads {reads:.3}, error {:?}", recording.sampling_error);
        assert!((0.8..1.25).contains(&reads), "{reads}");
        assert!(recording.sampling_error.is_some());
    }
}

/// Forks in fast-forward, after the code of the children has been translated.
const FORKS: &str = r#"
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static __attribute__((noinline)) void stream(char *from, long lines, int times) {
    while (times-- > 0) {
        char *at = from;
        long n = lines;
        __asm__ volatile(
            "1: movq (%1), %%rax\n add $64, %1\n dec %0\n jnz 1b"
            : "+r"(n), "+r"(at) : : "rax", "memory", "cc");
    }
}
int main(void) {
    char *memory = calloc(1 << 20, 64);
    long n = 2700000;
    __asm__ volatile("1: nop\n nop\n dec %0\n jnz 1b" : "+r"(n) : : "cc");
    stream(memory, 1000, 1);
    for (int child = 0; child < 3; child++) {
        if (!fork()) { stream(memory, 1 << 20, 10); _exit(0); }
        wait(0);
    }
    return 0;
}
"#;

#[test]
fn children_that_are_forked_in_fast_forward_tell_their_traffic() {
    let Some(program) = compile(FORKS, &[]) else { return };
    // Each child reads ten million lines by forty million instructions. The parent forks after
    // eleven million: the first eight are a burst, and eleven at least are skipped.
    let done = Job::new(&program.path, &[]).record(&sampled(Sampling::Share(0.25)));
    done.succeeded();
    let reads = done.reads() as f64 / 31_457_280.0;
    assert!((0.8..1.25).contains(&reads), "{reads}");
}
