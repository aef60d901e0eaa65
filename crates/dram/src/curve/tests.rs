use super::*;
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
    // The bounds of the timing: tFAW for random reads, tCCD_L for a stream in one bank group.
    let saturated = |pattern| {
        let line = curve.lines.iter().find(|l| l.pattern == pattern && l.read_share == 1.0);
        line.unwrap().saturated.as_gb()
    };
    let bound = |cycles: f64| 64.0 / (cycles * 0.833) * (1.0 - 420.0 / 9360.0);
    assert!(
        saturated(Pattern::Random) < bound(6.5) && saturated(Pattern::Random) > 0.95 * bound(6.5)
    );
    assert!(saturated(Pattern::Streaming) < bound(4.0));
}

#[test]
fn an_unloaded_random_read_takes_between_a_closed_bank_and_a_conflict() {
    let mut plan = plan();
    plan.loads = vec![0.001];
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
    assert!(fit.growth.len() == 3 && fit.growth[2][1] > 1.2, "{fit:?}");
    let (memory, read) = Fit::parse("c.toml", &curve.to_toml(&fit)).unwrap();
    assert_eq!(memory, "a memory");
    assert!((read.capacity.0 / fit.capacity.0 - 1.0).abs() < 1e-5);
    assert!((read.write_cost - fit.write_cost).abs() < 1e-3);
    assert_eq!(read.growth.len(), fit.growth.len());
}

#[test]
fn files_are_refused_with_line_and_key() {
    let text = "curve = 1\nmemory = \"x\"\n[service]\npattern = \"mixt\"\n";
    let error = Fit::parse("c.toml", text).unwrap_err();
    assert_eq!((error.line, error.key.as_deref()), (Some(4), Some("service.pattern")));
    assert!(error.help.unwrap().contains("mixed"));
    assert!(Fit::parse("c.toml", "curve = 2\n").unwrap_err().reason.contains("format 1"));
}

#[test]
fn costs_are_those_of_the_lines() {
    let line = |read_share: f64| {
        // A read takes 1 ns per byte, a write 3.
        let saturated = BytesPerSec(1e9 / (read_share + 3.0 * (1.0 - read_share)));
        Line { pattern: Pattern::Mixed, read_share, saturated, points: Vec::new() }
    };
    let lines = [line(0.0), line(0.5), line(1.0)];
    let fitted = fit::costs(&lines.iter().collect::<Vec<_>>()).unwrap();
    assert!((fitted.0 - 1e-9).abs() < 1e-15 && (fitted.1 - 3e-9).abs() < 1e-15, "{fitted:?}");
}
