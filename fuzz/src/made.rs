//! Seeds in formats that have a writer.

use memweir_core::profile::Profile;
use memweir_core::{Bytes, BytesPerSec, Counts, Direction, JobId, Lines, Media, Nanos};
use memweir_linux::hog::Kernel;
use memweir_policy::record::{self, RecordingScheduler};
use memweir_policy::scheduler::{JobSpec, Observation, QuantumScheduler, SchedulerConfig};
use memweir_run::platform::{Effort, HogPoint, Machine, Peak, Platform, Target};
use memweir_run::recording::Recording;
use memweir_run::table::{Cell, Column, Kind, parquet};
use memweir_trace as trace;
use memweir_trace::{Access, AddressSpace, Format, ThreadId, Writer};

pub(crate) fn platforms() -> Vec<Vec<u8>> {
    let machine = Machine {
        cpu: "A Processor".to_owned(),
        cores: 2,
        memory: Bytes(8 << 30),
        hypervisor: None,
        caches: None,
    };
    let mut platform = Platform::new(machine, Effort::Quick);
    let bandwidth = BytesPerSec::from_gb(44.0);
    let saturation = BytesPerSec::from_gb(38.5);
    platform.peak = Some(Peak { bandwidth, saturation, kernel: Kernel::Read, instances: 2 });
    platform.target = Target::Measured {
        coefficients: [-1.5, 1.25, -0.011],
        from: BytesPerSec::from_gb(1.0),
        to: BytesPerSec::from_gb(60.0),
        r_squared: 0.97,
    };
    platform.hog_curve = vec![HogPoint {
        idle: 16,
        demand: bandwidth,
        achieved: saturation,
        weighted_speedup: 1.98,
    }];
    vec![platform.to_toml().into_bytes()]
}

/// A short batch of two jobs.
pub(crate) fn decisions() -> Vec<Vec<u8>> {
    let config = SchedulerConfig {
        policy: "ideal-average".to_owned(),
        cores: 1,
        ..SchedulerConfig::default()
    };
    let header = record::Header::new(config.clone(), vec!["a".to_owned(), "b".to_owned()]);
    let scheduler = QuantumScheduler::new(config).expect("a policy that exists");
    let mut scheduler = RecordingScheduler::recording(scheduler);
    for job in 0..2 {
        let expected_bandwidth = Some(BytesPerSec::from_gb(1.0));
        let (job, expected_time) = (JobId(job), Some(Nanos::from_millis(700)));
        scheduler.admit(JobSpec { expected_time, expected_bandwidth, ..JobSpec::new(job) });
    }
    let elapsed = Nanos::from_millis(100);
    for quantum in 0..3 {
        let chosen = scheduler.select().chosen;
        let counts = Counts::new(1000, Lines(quantum * 100), Lines(7));
        let observation = |job: &JobId| Observation::new(*job, elapsed, Some(counts));
        let observations: Vec<Observation> = chosen.iter().map(observation).collect();
        scheduler.observe(elapsed, &observations);
    }
    scheduler.retire(JobId(0));
    let calls = scheduler.take_calls();
    let calls: String = calls.iter().zip(1..).map(|(call, number)| call.line(number)).collect();
    let end = record::end_line(calls.lines().count() as u64);
    vec![(header.line() + &calls + &end).into_bytes()]
}

pub(crate) fn recordings() -> Vec<Vec<u8>> {
    let recording = Recording {
        command: vec!["true".to_owned()],
        meter: "software".to_owned(),
        machine: "A Processor".to_owned(),
        date: Default::default(),
        media: Media::dram_only(),
        profile: Profile {
            interval: Nanos::MILLI,
            intervals: (0..3).map(|n| Counts::new(n, Lines(2 * n), Lines(n))).collect(),
            cpu_time: Nanos(2_500_000),
            wall_time: Nanos(3_000_000),
        },
    };
    vec![recording.to_bytes()]
}

/// A table with a column of each kind.
pub(crate) fn rows() -> Vec<Vec<u8>> {
    let columns = [("point", Kind::String), ("seed", Kind::Integer), ("s", Kind::Float)]
        .map(|(name, kind)| Column { name: name.to_owned(), kind });
    let rows = [vec!["5d".into(), 7u64.into(), 1.5.into()], vec![Cell::Empty; 3]];
    vec![parquet(&columns, &rows).expect("memory takes all")]
}

/// A trace of two threads in `format`, as far as that can tell threads.
pub(crate) fn trace(format: Format) -> Vec<Vec<u8>> {
    let header = trace::Header {
        name: "seed".to_owned(),
        addresses: AddressSpace::Virtual,
        ..trace::Header::default()
    };
    let mut writer = Writer::start(Vec::new(), format, &header).expect("memory takes all");
    for number in 0..40 {
        let thread = ThreadId { process: 0, thread: number % 2 };
        let direction = if number % 5 == 0 { Direction::Write } else { Direction::Read };
        let address = 0x1000 + 64 * u64::from(number * number);
        // Formats with instruction gaps alone have write-backs.
        let gap = if direction == Direction::Write { 0 } else { 10 };
        // A format that cannot say this much has a shorter seed.
        if writer.push(&Access { address, gap, thread, direction }).is_err() {
            break;
        }
    }
    vec![writer.finish().expect("memory takes all").0]
}
