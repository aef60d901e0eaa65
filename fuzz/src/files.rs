//! Files that describe machines, memories, jobs and what was measured.

use std::path::Path;

use memweir_abi::kernel::image::Image;
use memweir_abi::kernel::stat::StatLine;
use memweir_abi::preload::page::PageCounters;
use memweir_color::kernel::KernelForm;
use memweir_core::PhysAddr;
use memweir_core::address_map::AddressMap;
use memweir_core::medium::data::MediumData;
use memweir_dram::config::MemoryConfig;
use memweir_dram::curve::Fit;
use memweir_dram::spec::MemorySpec;
use memweir_flow::Hardware;
use memweir_flow::workload::catalog::Catalog;
use memweir_linux::cgroup_tree::{Group, GroupState, parse_ids};
use memweir_linux::meter::perf::events::EventFile;
use memweir_map::import::{self, Format};
use memweir_map::published;
use memweir_policy::record::{Record, replay};
use memweir_run::hog::HogPlan;
use memweir_run::jobs::{Batch, JobsFile};
use memweir_run::platform::Platform;
use memweir_run::recording::Recording;
use memweir_run::table::parquet_from;
use memweir_run::{options, segment};
use memweir_swap::area::SwapKind;
use memweir_sweep::manifest::Manifest;
use memweir_watch::{Metrics, Selection};

use crate::Seeds::{Files, Made, Texts};
use crate::{Target, made, text};

/// Where relative paths of fuzzed files lead: nowhere.
pub(crate) const DIRECTORY: &str = "/nonexistent";

pub(crate) static JOBS_FILE: Target = Target::new(
    "jobs-file",
    jobs_file,
    &[
        Files("demo/jobs.toml"),
        Files("experiments/streaming-mix/jobs.toml"),
        Texts(&[
            "policy = \"ideal-average\"\nquantum_ms = 50\ncores = 2\n[[jobs]]\ncommand = \"true\"\ninstances = 3\n\
         [[jobs]]\nname = \"b\"\ncommand = [\"sh\", \"-c\", \"exit 1\"]\nenv = { A = \"1\" }\n",
        ]),
    ],
);

fn jobs_file(data: &[u8]) {
    text(data, |text| {
        let _ = JobsFile::parse("fuzz", text, Path::new(DIRECTORY), 8);
    });
}

pub(crate) static JOBS_LINES: Target = Target::new(
    "jobs-lines",
    jobs_lines,
    &[Texts(&["gzip -9 a\n# comment\n\nxz b\nxz c\n", "./a.out\n./a.out\na.out.1\n"])],
);

fn jobs_lines(data: &[u8]) {
    text(data, |text| {
        if let Ok(batch) = Batch::from_lines("fuzz", text) {
            let repeated = batch.repeated(2);
            let names: std::collections::HashSet<_> =
                repeated.jobs.iter().map(|job| &job.name).collect();
            assert_eq!(names.len(), repeated.jobs.len(), "two jobs share a name");
        }
    });
}

pub(crate) static PLATFORM: Target = Target::new("platform", platform, &[Made(made::platforms)]);

fn platform(data: &[u8]) {
    text(data, |text| {
        if let Ok(platform) = Platform::parse(text, "fuzz") {
            let _ = (platform.target_curve(), platform.to_toml());
        }
        let _ = Hardware::parse("fuzz", text, Path::new(DIRECTORY));
    });
}

pub(crate) static ADDRESS_MAP: Target = Target::new(
    "address-map",
    address_map,
    &[Files("crates/core/data/maps/*.toml"), Files("crates/study/data/bank-machines/*-map.toml")],
);

fn address_map(data: &[u8]) {
    text(data, |text| {
        let Ok(map) = AddressMap::parse("fuzz", text) else { return };
        let _ = map.decode(PhysAddr(0x1234_5678));
        let written = map.to_toml();
        assert_eq!(AddressMap::parse("written", &written), Ok(map.clone()), "{written}");
        let _ = KernelForm::of(&map, None);
    });
}

macro_rules! map_formats {
    ($($target:ident $name:literal $format:ident $seeds:expr;)*) => {$(
        pub(crate) static $target: Target = Target::new(
            concat!("map-import-", $name),
            |data| text(data, |text| imported(text, Format::$format)),
            $seeds,
        );
    )*};
}

map_formats! {
    MAP_BITS "bits" Bits &[Texts(&["14 18\n15, 19\n# comment\n8 9 12 13\n", "6 13  (Correct: 95%)\r\n[14, 17]\n"])];
    MAP_DRAMDIG "dramdig" DramDig &[Texts(&[
        "reading...\n=== bank addr funs (2): ===\n17, 20,\n7, 14,\n=== row bits: (2) ===\n18, 19,\n\
         === column bits: (3)===\n0, 1, 2,\n",
    ])];
    MAP_TRRESPASS "trrespass" Trrespass &[Texts(&[
        "{{{0x4080,0x48000}, 2}, 0x3ffc0000, ROW_SIZE-1}\n",
        "0x4080\n0x48000\n0x3ffc0000\n",
    ])];
    MAP_PALLOC "palloc" Palloc &[Texts(&[
        "echo 0x0001e000 > /sys/kernel/debug/palloc/palloc_mask\necho xor 13 17 > control\n",
    ])];
    MAP_DRAMSYS "dramsys" DramSys &[Texts(&[
        "{\"addressmapping\":{\"BANK_BIT\":[13,[14,17]],\"ROW_BIT\":[17,18],\"COLUMN_BIT\":[3,4]}}",
    ])];
}

fn imported(text: &str, format: Format) {
    let _ = Format::guess(text);
    let Ok(imported) = import::import("fuzz", text, Some(format)) else { return };
    let written = imported.map.to_toml();
    assert_eq!(AddressMap::parse("fuzz", &written).as_ref(), Ok(&imported.map), "{written}");
}

pub(crate) static PUBLISHED_MAPS: Target = Target::new(
    "published-maps",
    published_maps,
    &[Texts(&["{\"entries\":[{\"id\":\"a\",\"functions\":[[6,13],[14,17]],\"row_bits\":[17,18],\
         \"column_bits\":[3,4],\"phys_to_dram_offset_bytes\":64,\"bits_truncated_at\":30}]}"])],
);

fn published_maps(data: &[u8]) {
    text(data, |text| {
        if let Ok(entries) = published::parse("fuzz", text) {
            let _ = published::choose(entries, None);
        }
    });
}

pub(crate) static KERNEL_MAP: Target = Target::new(
    "kernel-map",
    kernel_map,
    &[Texts(&["offset 0x80000000\nbank 0x2000\nbank 0x44000\ncache 0x1000\n"])],
);

fn kernel_map(data: &[u8]) {
    text(data, |text| {
        if let Ok(form) = text.parse::<KernelForm>() {
            assert_eq!(form.to_string().parse::<KernelForm>(), Ok(form));
        }
    });
}

pub(crate) static MEDIUM: Target = Target::new(
    "medium",
    |data| text(data, |text| drop(MediumData::parse("fuzz", text))),
    &[Files("crates/core/data/media/*.toml")],
);

pub(crate) static ENERGY_MEDIUM: Target = Target::new(
    "energy-medium",
    |data| text(data, |text| drop(memweir_energy::Medium::parse("fuzz", text))),
    &[Files("crates/energy/data/*.toml")],
);

pub(crate) static SWAP_AREA: Target = Target::new(
    "swap-area",
    |data| text(data, |text| drop(SwapKind::parse("fuzz", text))),
    &[Files("crates/swap/data/areas/*.toml")],
);

pub(crate) static CATALOG: Target = Target::new(
    "catalog",
    |data| text(data, |text| drop(Catalog::parse("fuzz", text))),
    &[Files("crates/flow/data/catalog/npb.toml")],
);

pub(crate) static CACHES: Target = Target::new(
    "caches",
    |data| text(data, |text| drop(options::parse_caches("fuzz", text))),
    &[Files("experiments/drswap/programs/caches.toml")],
);

pub(crate) static MACHINE: Target =
    Target::new("machine", machine, &[Files("crates/flow/data/machines/*.toml")]);

fn machine(data: &[u8]) {
    text(data, |text| drop(Hardware::parse("fuzz", text, Path::new(DIRECTORY))));
}

pub(crate) static DEVICE: Target = Target::new(
    "device",
    device,
    &[Files("crates/dram/data/*.toml"), Files("crates/dram/tests/devices/*.toml")],
);

fn device(data: &[u8]) {
    text(data, |text| {
        if let Ok(spec) = MemorySpec::parse("fuzz", text) {
            let _ = MemoryConfig::new(spec).validate();
        }
    });
}

pub(crate) static SERVICE_CURVE: Target = Target::new(
    "service-curve",
    |data| text(data, |text| drop(Fit::parse("fuzz", text))),
    &[Texts(&[
        "curve = 2\nmemory = \"ddr4-2400\"\n[service]\npattern = \"random\"\ncapacity = 1e10\nwrite_cost = 1.2\n\
           unloaded_read_ns = 50.0\nerror = 0.02\ngrowth = [{ read_share = 1.0, points = [[0.0, 1.0], [0.5, 2.0]] }]\n",
        "curve = 1\nmemory = \"m\"\n[service]\npattern = \"stream\"\ncapacity = 1e10\nwrite_cost = 1.2\n\
           unloaded_read_ns = 50.0\nerror = 0.02\ngrowth = [[0.0, 1.0], [0.5, 2.0]]\n",
    ])],
);

pub(crate) static EVENTS: Target = Target::new(
    "events",
    |data| text(data, |text| drop(EventFile::parse("fuzz", text))),
    &[Files("crates/linux/events/*.toml"), Files("crates/linux/tests/data/software-*.toml")],
);

pub(crate) static SEGMENT: Target = Target::new(
    "segment",
    bandwidth_segment,
    &[Texts(&["memweir-segment 1\ninterval_ns 1000000\n1e9\n0\n2.5e9\n"])],
);

fn bandwidth_segment(data: &[u8]) {
    text(data, |text| {
        if let Ok(read) = segment::parse(text, "fuzz") {
            let written = segment::to_text(&read);
            assert_eq!(segment::parse(&written, "written").as_ref(), Ok(&read), "{written}");
        }
    });
}

pub(crate) static HOGSIM: Target =
    Target::new("hogsim", hogsim, &[Texts(&["memweir-hogsim 1\nkernel copy\n100 0\n50 200\n"])]);

fn hogsim(data: &[u8]) {
    text(data, |text| {
        if let Ok(plan) = HogPlan::parse(text, "fuzz") {
            let _ = (plan.steps(), plan.demand());
            let written = plan.to_text();
            assert_eq!(HogPlan::parse(&written, "written").as_ref(), Ok(&plan), "{written}");
        }
    });
}

pub(crate) static DECISIONS: Target = Target::new("decisions", decisions, &[Made(made::decisions)]);

fn decisions(data: &[u8]) {
    if let Ok(record) = Record::parse("fuzz", &String::from_utf8_lossy(data)) {
        let _ = replay(&record, None);
        let _ = replay(&record, Some("ideal-average"));
    }
}

pub(crate) static RECORDING: Target = Target {
    catches_panics: true,
    ..Target::new("recording", recording, &[Made(made::recordings)])
};

fn recording(data: &[u8]) {
    let _ = Recording::from_bytes(data.to_vec(), "fuzz");
}

/// Files of sweeps in shards, which other machines have written.
pub(crate) static SWEEP_MANIFEST: Target = Target::new(
    "sweep-manifest",
    sweep_manifest,
    &[Texts(&[
        r#"{"format":1,"version":"0.1.0","command":"sim","scenario":"00","name":"s.toml","text":"",
            "set":{"seed":"3"},"sweep":[["cores",["1","2"]]],
            "columns":[{"name":"point","kind":"text"},{"name":"cores","kind":"number"}],
            "points":[{"key":"01","seed":3,"at":{"cores":"1"}},{"key":"02","seed":null,"at":{}}]}"#,
    ])],
);

fn sweep_manifest(data: &[u8]) {
    text(data, |text| {
        if let Ok(manifest) = Manifest::parse(text, "fuzz") {
            let written = serde_json::to_string(&manifest).expect("texts and numbers");
            assert_eq!(Manifest::parse(&written, "fuzz").expect("what was written"), manifest);
        }
    });
}

pub(crate) static SWEEP_ROWS: Target =
    Target { catches_panics: true, ..Target::new("sweep-rows", sweep_rows, &[Made(made::rows)]) };

fn sweep_rows(data: &[u8]) {
    if let Ok((columns, rows)) = parquet_from(data.to_vec(), "fuzz", |_| true) {
        assert!(rows.iter().all(|row| row.len() == columns.len()), "a cell for each column");
    }
}

/// Input from programs that memweir does not trust: the line of `/proc/PID/stat` with a name
/// that the program chose, the head of its file, and the counters that it may write to.
pub(crate) static CGROUPS: Target = Target::new(
    "cgroups",
    cgroups,
    &[Texts(&[
        "usage_usec 1500\nuser_usec 9\n---\npopulated 1\nfrozen 0\n---\n12\n0\n---\nnginx\n---\n\
         system.slice\nsystem.slice/nginx.service\nslurmstepd.scope/job_1/step_0\ndocker/a\"b",
    ])],
);

/// The files of a group, a pattern, and the paths of groups.
fn cgroups(data: &[u8]) {
    text(data, |text| {
        let parts: Vec<&str> = text.splitn(5, "---\n").collect();
        let [stat, events, threads, pattern, paths] = parts.as_slice() else { return };
        let _ = GroupState::parse(stat, events);
        assert!(parse_ids(threads).all(|thread| thread > 0), "{threads}");
        let mut groups: Vec<Group> =
            paths.lines().zip(0..).map(|(path, id)| Group { path: path.into(), id }).collect();
        groups.sort();
        let metrics = Metrics::default();
        for (_, subject) in Selection::default().choose(&groups) {
            metrics.update(&subject.jobid, |series| {
                series.name = subject.name;
                series.cpu_s = Some(1.0);
            });
        }
        let samples = |line: &&str| line.starts_with("memweir_job_cpu_seconds_total{");
        let exported = metrics.prometheus_text();
        let all = exported.lines().filter(samples).all(|line| line.ends_with("\"} 1.0"));
        assert!(all, "a name breaks its line: {exported}");
        let top = Path::new("/sys/fs/cgroup");
        let cgroup = Selection::default().cgroup(pattern, top);
        for selection in [cgroup, Selection::default().unit(pattern)].into_iter().flatten() {
            assert!(selection.choose(&groups).len() <= groups.len());
        }
    });
}

pub(crate) static PROCESS: Target = Target::new(
    "process",
    process,
    &[Texts(&[
        "1 (a b) S 0 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 99 1 1\n",
        "\u{7f}ELF\u{2}\u{1}\u{1}\0\0\0\0\0\0\0\0\0\u{2}\0>\0",
        "#!/bin/sh -e\n",
    ])],
);

fn process(data: &[u8]) {
    if let Some(line) = StatLine::of(data) {
        let _ = (line.start(), line.number::<u32>(4), line.field(usize::MAX));
    }
    let _ = Image::of(data);
    let counters = PageCounters::of(data);
    let _ = (counters.copies_in(), counters.copies_avoided(), counters.relieved());
    let _ = counters.processes().count();
}
