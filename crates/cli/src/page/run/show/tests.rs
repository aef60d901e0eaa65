use memweir_abi::preload::page::PagedState;
use memweir_energy::Estimate;
use memweir_linux::preload::UnreachedProgram;
use memweir_page::live::{Bucket, NvmReport, Outcome, UnpagedProgram, UnpagedReport};

use super::*;

fn report() -> Report {
    let energy = Estimate {
        dram: "DRAM".to_owned(),
        nvm: "PCM".to_owned(),
        reading: "physical",
        dram_backed_j: Joules(2.0),
        nvm_copying_j: Joules(0.5),
        nvm_j: Joules(0.25),
        direct_read_saved_j: Joules(0.25),
        break_even_lines: 73.4,
    };
    let buckets = vec![
        Bucket { from_ns: 1024, to_ns: 2048, count: 3 },
        Bucket { from_ns: 65_536, to_ns: 131_072, count: 1 },
    ];
    let histogram =
        Histogram { count: 4, median_below_ns: Some(2048), p99_below_ns: Some(131_072), buckets };
    Report {
        command: vec!["sort".to_owned(), "big".to_owned()],
        dram_bytes: Bytes(64 << 20),
        nvm: NvmReport { place: "node:2".to_owned(), size_bytes: Bytes(1 << 30) },
        direct_read: "in-place",
        victims: "fifo".to_owned(),
        delay: None,
        when_full: "stop",
        seconds: 12.345,
        outcome: Outcome::default(),
        evictions: 12_345,
        direct_reads: 777,
        mapped_around: 511,
        copies_in: 256,
        copies_avoided: 512,
        dram_relieved_bytes: Bytes(48 << 20),
        dram_resident_bytes: Bytes(63 << 20),
        dram_peak_bytes: Bytes(66 << 20),
        dram_overshoot_bytes: Bytes(2 << 20),
        dram_overshoot_causes: Vec::new(),
        shared_peak_bytes: Bytes(3 << 20),
        unpaged: UnpagedReport::default(),
        nvm_used_bytes: Bytes(32 << 20),
        nvm_peak_bytes: Bytes(256 << 20),
        ended_processes: Vec::new(),
        uncounted_processes: Vec::new(),
        times: [("direct_read", histogram)].into_iter().collect(),
        energy,
        counters: [("processes", 1)].into_iter().collect(),
    }
}

#[test]
fn the_table_has_every_figure() {
    let told = table(&report());
    assert!(!told.contains("below") && !told.contains("energy"), "only where asked for:\n{told}");
    let told = told + &times(&report()) + &energy(&report());
    for part in [
        "12.35 s with 64 MiB of DRAM, 1 GiB of NVM in node:2 (in-place reads, victims by fifo)",
        "12,345",
        "511 more were mapped along with them",
        "48.2 MiB",
        "3.1 % above the budget",
        "25.0 % of it",
        "mean over the run",
        "half of 4 below 2048 ns",
        "below   131 us             1  ████████",
        "saved 250 mJ (12.500 % of DRAM's)",
        "until 73 of its lines",
    ] {
        assert!(told.contains(part), "`{part}` is missing in:\n{told}");
    }
}

#[test]
fn what_did_not_go_as_asked_is_told() {
    let mut report = report();
    assert_eq!(warnings(&report), Vec::<String>::new(), "3 % above the budget are within bounds");
    report.dram_overshoot_bytes = Bytes(16 << 20);
    assert!(warnings(&report)[0].ends_with("64 MiB: nothing that is counted explains it"));
    report.counters = [("skipped", 9), ("nvm_full", 2), ("latest_wake_ns", 12_000_000)].into();
    report.dram_overshoot_causes = vec![Cause::NvmFull, Cause::PinnedPages, Cause::LateHelper];
    let told = warnings(&report);
    assert!(told[0].contains("ran as ever"), "{told:?}");
    assert!(told[1].contains("the NVM of 1 GiB was full"), "{told:?}");
    assert!(told[2].contains("16 MiB above the budget of 64 MiB: the NVM was full; 9 times"));
    assert!(told[2].contains("for up to 12 ms at a time"), "{told:?}");
    report.shared_peak_bytes = Bytes(100 << 20);
    report.uncounted_processes = vec![7, 8];
    let told = warnings(&report);
    assert!(told[2].contains("at least 100 MiB of shared memory were"), "{told:?}");
    assert!(told[3].starts_with("the helper of processes 7, 8 ended before it"), "{told:?}");
}

#[test]
fn programs_that_were_not_paged_are_named() {
    let mut report = report();
    report.dram_overshoot_bytes = Bytes(0);
    let program = |ended| UnpagedProgram {
        ran: UnreachedProgram {
            program: "/bin/server".to_owned(),
            processes: 1,
            dram_peak_bytes: Bytes(410 << 20),
        },
        ended,
    };
    report.unpaged = UnpagedReport { processes: 1, refused: 0, programs: vec![program(0)] };
    let told = warnings(&report);
    let expected = "1 process that cannot be paged, such as static programs, ran without being \
                    paged (/bin/server: 410 MiB in DRAM at most)";
    assert_eq!(told, [expected]);
    let told = table(&report);
    assert!(told.contains("within the budget, where paged") && told.contains("410 MiB"), "{told}");
    report.unpaged = UnpagedReport { processes: 1, refused: 3, programs: vec![program(1)] };
    let told = warnings(&report);
    assert!(told[0].contains("got SIGKILL (--unpaged refuse)"), "{told:?}");
    assert!(told[1].starts_with("refused 3 starts"), "{told:?}");
}

#[test]
fn the_line_says_what_is_where() {
    let row = Row {
        t_s: memweir_core::Seconds(2.5),
        evictions: 1000,
        direct_reads: 20,
        copies_in: 3,
        copies_avoided: 17,
        dram_resident_bytes: Bytes(64 << 20),
        nvm_used_bytes: Bytes(1 << 20),
        dram_unpaged_bytes: Bytes(0),
    };
    let expected =
        "2.50 s: 64 MiB in DRAM, 1 MiB in NVM; 1,000 evicted, 20 read in place, 3 copied back";
    assert_eq!(line(&row), expected);
    let process = PageProcess {
        process: 42,
        resident: Bytes(4096),
        nvm: Bytes(8192),
        state: PagedState::Full,
    };
    assert!(ended(&process).contains("ended process 42, the largest with 4 KiB in DRAM and 8 KiB"));
}
