use super::*;
use crate::config::MapLayout;
use crate::spec::MemorySpec;

fn config() -> MemoryConfig {
    MemoryConfig::new(MemorySpec::shipped("ddr4-2400").unwrap())
}

fn measured(plan: &Plan) -> Curve {
    let lines = plan.tasks().into_iter().map(|task| plan.measure(&config(), task).unwrap());
    Curve { memory: "a memory".to_owned(), lines: lines.collect() }
}

fn plan() -> Plan {
    Plan {
        read_shares: vec![0.5, 1.0],
        loads: vec![0.02, 0.5, 0.9],
        programs: vec![1, 4, 32],
        requests: 20_000,
        ..Plan::default()
    }
}

#[test]
fn a_memory_carries_what_is_offered_and_takes_longer_the_more_it_is() {
    let curve = measured(&plan());
    assert_eq!(curve.lines.len(), 6);
    for line in &curve.lines {
        let mut last = 0.0;
        for point in &line.points {
            let carried = point.bandwidth.0 / point.offered.0;
            assert!((carried - 1.0).abs() < 0.05, "{line:?}");
            let latency = point.latency_ns.unwrap();
            assert!(latency > last && point.p99_ns.unwrap() >= latency, "{line:?}");
            last = latency;
        }
    }
    // tFAW bounds random reads.
    let random = saturated(&curve, Pattern::Random);
    assert!((0.95..1.0).contains(&(random / bound(6.5))), "{random} GB/s");
}

/// Returns the bandwidth of reads alone in GB/s at which `pattern` saturates the memory.
fn saturated(curve: &Curve, pattern: Pattern) -> f64 {
    let line = curve.lines.iter().find(|l| l.pattern == pattern && l.read_share == 1.0);
    line.unwrap().saturated.as_gb()
}

/// Returns the bandwidth in GB/s of a line every `cycles` cycles of DDR4-2400, less the time of
/// refreshes.
fn bound(cycles: f64) -> f64 {
    64.0 / (cycles * 0.833) * (1.0 - 420.0 / 9360.0)
}

#[test]
fn a_stream_reaches_the_bound_of_tccd_s_only_across_bank_groups() {
    let mut plan = plan();
    (plan.patterns, plan.read_shares) = (vec![Pattern::Streaming], vec![1.0]);
    let streamed = |layout: MapLayout| {
        let config = config().with_layout(layout);
        let lines = plan.tasks().into_iter().map(|task| plan.measure(&config, task).unwrap());
        let curve = Curve { memory: layout.name().to_owned(), lines: lines.collect() };
        saturated(&curve, Pattern::Streaming)
    };
    let (plain, interleaved) = (streamed(MapLayout::Plain), streamed(MapLayout::Interleaved));
    assert!((0.95..1.01).contains(&(interleaved / bound(4.0))), "{interleaved} GB/s");
    // Queued requests of neighboring rows lie in other bank groups, so tCCD_L does not bind alone.
    assert!(plain > bound(6.0) && plain < 0.85 * interleaved, "{plain} GB/s");
}

#[test]
fn an_unloaded_random_read_takes_between_a_closed_bank_and_a_conflict() {
    let mut plan = plan();
    plan.loads = vec![0.001];
    plan.programs = vec![1];
    plan.read_shares = vec![1.0];
    plan.requests = 5000;
    plan.patterns = vec![Pattern::Random];
    let latency = measured(&plan).lines[0].points[0].latency_ns.unwrap();
    assert!((38.0 * 0.833..60.0 * 0.833).contains(&latency), "{latency}");
}

#[test]
fn the_file_reads_as_it_is_written() {
    let curve = measured(&plan());
    let fit = curve.fit(Pattern::Random).unwrap();
    let shares: Vec<f64> = fit.growth.iter().map(|growth| growth.read_share).collect();
    assert_eq!(shares, [0.5, 1.0]);
    let (memory, read) = Fit::parse("c.toml", &curve.to_toml(&fit)).unwrap();
    assert_eq!(memory, "a memory");
    assert!((read.capacity.0 / fit.capacity.0 - 1.0).abs() < 1e-5);
    assert!((read.write_cost - fit.write_cost).abs() < 1e-3);
    for (read, fitted) in read.growth.iter().zip(&fit.growth) {
        assert_eq!((read.read_share, read.points.len()), (fitted.read_share, fitted.points.len()));
        for (read, fitted) in read.points.iter().flatten().zip(fitted.points.iter().flatten()) {
            assert!((read - fitted).abs() <= 1e-4, "{read} {fitted}");
        }
    }
}

#[test]
fn files_are_refused_with_line_and_key() {
    let text = "curve = 1\nmemory = \"x\"\n[service]\npattern = \"mixt\"\n";
    let error = Fit::parse("c.toml", text).unwrap_err();
    assert_eq!((error.line, error.key.as_deref()), (Some(4), Some("service.pattern")));
    assert!(error.help.unwrap().contains("mixed"));
    assert!(Fit::parse("c.toml", "curve = 3\n").unwrap_err().reason.contains("formats 1 to 2"));
}

/// Returns a line of which a read takes 1 ns per byte, and a write 3.
fn line(read_share: f64, waiting: Vec<Waiting>) -> Line {
    let saturated = BytesPerSec(1e9 / (read_share + 3.0 * (1.0 - read_share)));
    Line { pattern: Pattern::Mixed, read_share, saturated, points: Vec::new(), waiting }
}

#[test]
fn costs_are_those_of_the_lines() {
    let lines = [0.0, 0.5, 1.0].map(|read_share| line(read_share, Vec::new()));
    let fitted = fit::costs(&lines.iter().collect::<Vec<_>>()).unwrap();
    assert!((fitted.0 - 1e-9).abs() < 1e-15 && (fitted.1 - 3e-9).abs() < 1e-15, "{fitted:?}");
}

#[test]
fn programs_that_wait_get_more_together_and_wait_longer_the_more_they_are() {
    let mut plan = plan();
    plan.patterns = vec![Pattern::Random];
    let curve = measured(&plan);
    for line in &curve.lines {
        let [one, four, many] = line.waiting.as_slice() else { panic!("{line:?}") };
        assert!(one.bandwidth < four.bandwidth && four.bandwidth < many.bandwidth, "{line:?}");
        assert!(one.wait_ns < four.wait_ns && four.wait_ns < many.wait_ns, "{line:?}");
        // Little's law, with the reads' share of the bandwidth; a seeded share is close to the
        // nominal one.
        let reads = many.bandwidth.0 * line.read_share / 64.0;
        assert!((32.0 / reads * 1e9 / many.wait_ns - 1.0).abs() < 0.02, "{line:?}");
    }
    // Alone, with all reads: from a closed bank to a conflict, the cycle until the next read, and
    // the share of the time that refreshes take.
    let alone = curve.lines[1].waiting[0].wait_ns * (1.0 - 420.0 / 9360.0);
    assert!((39.0 * 0.833..57.0 * 0.833).contains(&alone), "{alone}");
}

#[test]
fn growth_is_by_what_the_costs_make_of_the_load() {
    // At half a share of reads a byte takes 2 ns.
    let waiting =
        |programs, rate: f64, wait_ns| Waiting { programs, bandwidth: BytesPerSec(rate), wait_ns };
    let half = vec![waiting(1, 1e8, 44.0), waiting(4, 3e8, 60.0), waiting(64, 5e8, 900.0)];
    let reads = vec![waiting(1, 2e8, 40.0), waiting(4, 8e8, 39.0)];
    let lines = vec![line(1.0, reads), line(0.5, half), line(0.0, Vec::new())];
    let fit = Curve { memory: "m".to_owned(), lines }.fit(Pattern::Mixed).unwrap();
    assert_eq!(fit.unloaded_ns, 40.0);
    let close = |growth: &Growth, expected: &[[f64; 2]]| {
        let found = growth.points.iter().flatten();
        growth.points.len() == expected.len()
            && found.zip(expected.iter().flatten()).all(|(a, b)| (a - b).abs() < 1e-9)
    };
    // Points at saturation do not affect the growth below it, and scatter does not lower the
    // growth.
    assert!(close(&fit.growth[0], &[[0.2, 1.1], [0.6, 1.5]]), "{fit:?}");
    assert!(close(&fit.growth[1], &[[0.2, 1.0], [0.8, 1.0]]), "{fit:?}");
}

const FIRST_FORMAT: &str = "curve = 1\nmemory = \"x\"\n[service]\npattern = \"mixed\"\n\
    capacity = 1e10\nread_cost = 1.0\nwrite_cost = 1.2\ngrowth = [[0.1, 1.0], [0.9, 2.5]]\n\
    unloaded_read_ns = 40\nerror = 0.01\n";

#[test]
fn files_of_the_first_format_are_read() {
    let (_, fit) = Fit::parse("c.toml", FIRST_FORMAT).unwrap();
    assert_eq!(fit.growth, [Growth { read_share: 1.0, points: vec![[0.1, 1.0], [0.9, 2.5]] }]);
    let descending = FIRST_FORMAT.replace("0.9, 2.5", "0.05, 2.5");
    let error = Fit::parse("c.toml", &descending).unwrap_err();
    assert!(error.reason.contains("both ascending"), "{error}");
}

/// The capacity is that of reads, so that their cost is the unit.
#[test]
fn another_cost_of_reads_is_refused() {
    let costly = FIRST_FORMAT.replace("read_cost = 1.0", "read_cost = 3.0");
    let error = Fit::parse("c.toml", &costly).unwrap_err();
    assert_eq!((error.line, error.key.as_deref()), (Some(6), Some("service.read_cost")));
    assert!(error.reason.starts_with("3 is not 1"), "{error}");
    for same in ["read_cost = 1\n", ""] {
        assert!(Fit::parse("c.toml", &FIRST_FORMAT.replace("read_cost = 1.0\n", same)).is_ok());
    }
}

#[test]
fn shares_of_reads_must_ascend() {
    let curve = measured(&Plan { requests: 2000, patterns: vec![Pattern::Mixed], ..plan() });
    let text = curve.to_toml(&curve.fit(Pattern::Mixed).unwrap());
    let turned = text.replacen("read_share = 0.5", "read_share = 1.0", 1);
    let error = Fit::parse("c.toml", &turned).unwrap_err();
    assert_eq!(error.key.as_deref(), Some("service.growth[1].read_share"), "{error}");
}

/// Random reads, nine in ten to DRAM: each memory has the latency that it has alone at that load,
/// and a memory without requests has none.
#[test]
fn media_side_by_side_have_latencies_of_their_own() {
    let nvm = MemoryConfig::new(MemorySpec::shipped("nvm-2400").unwrap());
    let from = memweir_core::PhysAddr(config().capacity().0);
    let plan = Plan { loads: vec![0.02], requests: 20_000, ..plan() };
    let task = Task { pattern: Pattern::Random, read_share: 1.0 };
    let point = |share| {
        let site = Site::of(config()).beside(from, nvm.clone(), share);
        plan.measure_on(&site, task).unwrap().points.remove(0)
    };
    let alone =
        |config: &MemoryConfig| plan.measure(config, task).unwrap().points[0].latency_ns.unwrap();
    let both = point(0.1);
    let latency = |part: usize| both.parts[part].latency_ns.unwrap();
    assert!((latency(0) / alone(&config()) - 1.0).abs() < 0.05, "{both:?}");
    assert!((latency(1) / alone(&nvm) - 1.0).abs() < 0.05, "{both:?}");
    let sum: f64 = both.parts.iter().map(|part| part.bandwidth.0).sum();
    assert!((sum / both.bandwidth.0 - 1.0).abs() < 1e-9);
    assert_eq!(point(0.0).parts[1].latency_ns, None);
}
