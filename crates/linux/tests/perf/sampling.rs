//! Samples of instruction pointers of real programs.

use memweir_core::{JobId, Media, Nanos};
use memweir_linux::Meter;
use memweir_linux::meter::perf::{PerfMeter, SampleIps};

use crate::child::{Held, run, software_events};

const JOB: JobId = JobId(2);
/// Regions of the program's own code come first, then those of libraries, then the unknown.
const LIBRARIES: usize = 32;
const ELSEWHERE: usize = 63;

fn meter() -> Option<PerfMeter> {
    let meter = PerfMeter::open(Some(&software_events()), &Media::dram_only(), SampleIps::Yes);
    match meter.ok().filter(|meter| meter.capabilities().instruction_pointers) {
        Some(meter) => Some(meter),
        None => {
            memweir_test_support::skip!(Kernel, "no sampling of instruction pointers here");
            None
        }
    }
}

fn samples(meter: &mut PerfMeter) -> Vec<u32> {
    let reading = meter.read(JOB, Nanos::ZERO, Nanos::ZERO).unwrap();
    assert_eq!(reading.instruction_pointers.len(), ELSEWHERE + 1);
    reading.instruction_pointers
}

/// Runs a program to its end and returns its samples.
fn sample(mut held: Held) -> Option<Vec<u32>> {
    let mut meter = meter()?;
    meter.attach(JOB, held.pid()).unwrap();
    assert_eq!(samples(&mut meter).iter().sum::<u32>(), 0, "nothing before exec");
    held.release();
    held.finish();
    let histogram = samples(&mut meter);
    assert_eq!(samples(&mut meter).iter().sum::<u32>(), 0, "each sample is given once");
    assert_eq!(meter.take_notices(), Vec::<String>::new());
    Some(histogram)
}

/// The parts of the samples in the program, in libraries and in unknown code.
fn shares(histogram: &[u32]) -> (f64, f64, f64) {
    let total = f64::from(histogram.iter().sum::<u32>());
    assert!(total > 0.0);
    let share = |part: &[u32]| f64::from(part.iter().sum::<u32>()) / total;
    let (program, others) = histogram.split_at(LIBRARIES);
    let (libraries, elsewhere) = others.split_at(ELSEWHERE - LIBRARIES);
    (share(program), share(libraries), share(elsewhere))
}

/// Manhattan distance of the normalized histograms, as iabw section 4.2 compares phases.
fn distance(a: &[u32], b: &[u32]) -> f64 {
    let total = |histogram: &[u32]| f64::from(histogram.iter().sum::<u32>());
    let (of_a, of_b) = (total(a), total(b));
    a.iter().zip(b).map(|(a, b)| (f64::from(*a) / of_a - f64::from(*b) / of_b).abs()).sum()
}

/// With a sample every millisecond there are this many; with one every million instructions, more.
fn assert_enough(histogram: &[u32], cpu_ms: u32) {
    let total: u32 = histogram.iter().sum();
    assert!(total >= cpu_ms / 2, "{total} samples in {cpu_ms} ms");
}

#[test]
fn a_loop_in_the_program_is_seen_in_the_program() {
    let Some(histogram) = sample(Held::task("spin:300")) else { return };
    assert_enough(&histogram, 300);
    let (program, _, elsewhere) = shares(&histogram);
    assert!(program > 0.7 && elsewhere < 0.1, "{histogram:?}");
}

#[test]
fn a_loop_in_a_library_is_seen_in_the_library() {
    let Some(histogram) = sample(Held::task("spin-in-library:300")) else { return };
    assert_enough(&histogram, 300);
    let (_, libraries, elsewhere) = shares(&histogram);
    assert!(libraries > 0.7 && elsewhere < 0.1, "{histogram:?}");
}

#[test]
fn threads_and_children_are_sampled() {
    let Some(histogram) = sample(Held::task("spin-threads:3:100")) else { return };
    assert_enough(&histogram, 300);
    let task = run("spin:100");
    let script = format!("exec sh -c '{task} & {task} & {task}; wait' \"$0\"");
    let Some(histogram) = sample(Held::shell(&script)) else { return };
    assert_enough(&histogram, 300);
    let (_, _, elsewhere) = shares(&histogram);
    assert!(elsewhere < 0.1, "children know their code: {histogram:?}");
}

#[test]
fn a_thousand_children_are_counted_and_overflow_no_buffer() {
    let Some(mut meter) = meter() else { return };
    let script = "exec sh -c 'i=0; while [ $i -lt 1000 ]; do (:) ; i=$((i+1)); done'";
    let mut held = Held::shell(script);
    meter.attach(JOB, held.pid()).unwrap();
    held.release();
    held.finish();
    let reading = meter.read(JOB, Nanos::ZERO, Nanos::ZERO).unwrap();
    // A child copies at least its stack and a page of the allocator's.
    assert!(reading.counts.reads.0 >= 2 * 1000 * 64, "{:?}", reading.counts);
    assert_eq!(meter.take_notices(), Vec::<String>::new());
}

#[test]
fn children_that_do_not_exec_run_their_parents_code() {
    let work = "(i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done)";
    let script = format!("exec sh -c '{work}; {work}; {work}'");
    let Some(histogram) = sample(Held::shell(&script)) else { return };
    assert_enough(&histogram, 100);
    let (_, _, elsewhere) = shares(&histogram);
    assert!(elsewhere < 0.1, "{histogram:?}");
}

#[test]
fn phases_are_told_apart_and_equal_runs_are_alike() {
    let Some(mut meter) = meter() else { return };
    let mut held = Held::task("phases:200");
    meter.attach(JOB, held.pid()).unwrap();
    held.release();
    held.wait_for_ready();
    let first = samples(&mut meter);
    held.release();
    held.finish();
    let second = samples(&mut meter);
    assert!(distance(&first, &second) > 0.8, "{first:?} {second:?}");
    let Some(again) = sample(Held::task("spin:200")) else { return };
    assert!(distance(&first, &again) < 0.4, "{first:?} {again:?}");
}

#[test]
fn jobs_are_sampled_apart() {
    let Some(mut meter) = meter() else { return };
    let other = JobId(3);
    let (mut quick, mut long) = (Held::task("touch:1"), Held::task("spin:200"));
    meter.attach(JOB, quick.pid()).unwrap();
    meter.attach(other, long.pid()).unwrap();
    for held in [&mut quick, &mut long] {
        held.release();
        held.finish();
    }
    let few: u32 = samples(&mut meter).iter().sum();
    meter.detach(JOB);
    let reading = meter.read(other, Nanos::ZERO, Nanos::ZERO).unwrap();
    let many: u32 = reading.instruction_pointers.iter().sum();
    assert!(many >= 100, "{many}");
    assert!(few < many / 2, "{few} of {many}");
}

#[test]
fn without_sampling_readings_carry_none() {
    let Ok(mut meter) =
        PerfMeter::open(Some(&software_events()), &Media::dram_only(), SampleIps::No)
    else {
        return memweir_test_support::skip!(Kernel, "no perf events here");
    };
    assert!(!meter.capabilities().instruction_pointers);
    let held = Held::task("touch:1");
    meter.attach(JOB, held.pid()).unwrap();
    let reading = meter.read(JOB, Nanos::ZERO, Nanos::ZERO).unwrap();
    assert!(reading.instruction_pointers.is_empty());
}
