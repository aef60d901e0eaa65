//! The contract between the two fidelities: on short windows the flow model, with a service curve
//! measured at bank level, agrees with the bank level. `docs/dram.md` states the error.

mod banks;

use memweir_core::{BytesPerSec, LINE_BYTES, Picos};
use memweir_dram::config::RefreshPolicy;
use memweir_dram::curve::{Curve, Fit, Pattern, Plan};
use memweir_dram::{MemoryConfig, MemorySpec};
use memweir_flow::{Demand, Flow, Machine, Placement, ServiceCurve, Solver};

use banks::Program;

/// Simulated memory cycles at bank level: half a millisecond of DDR4.
const WINDOW: u64 = 600_000;

/// A memory, and its fit for random accesses.
struct Measured {
    config: MemoryConfig,
    fit: Fit,
    /// Simulated memory cycles of programs at bank level.
    window: u64,
}

impl Measured {
    fn of(name: &str) -> Self {
        Self::with(name, RefreshPolicy::AllBank)
    }

    fn with(name: &str, refresh: RefreshPolicy) -> Self {
        let spec = MemorySpec::shipped(name).unwrap();
        let config = MemoryConfig { refresh, ..MemoryConfig::new(spec) };
        let plan = Plan {
            patterns: vec![Pattern::Random],
            requests: 30_000,
            loads: Vec::new(),
            ..Plan::default()
        };
        let lines = plan.tasks().into_iter().map(|task| plan.measure(&config, task).unwrap());
        let curve = Curve { memory: "test".to_owned(), lines: lines.collect() };
        Self { fit: curve.fit(Pattern::Random).unwrap(), config, window: WINDOW }
    }

    fn clock_ns(&self) -> f64 {
        self.config.spec().clock.as_f64() * 1e-3
    }

    /// Returns the bytes per second of each of these programs at bank level.
    fn banks(&self, programs: &[Program]) -> Vec<f64> {
        let lines = banks::lines(&self.config, programs, self.window);
        let seconds = self.window as f64 * self.clock_ns() * 1e-9;
        lines.into_iter().map(|lines| (lines * LINE_BYTES) as f64 / seconds).collect()
    }

    /// Returns the bytes per second of each of these programs in the flow model.
    fn flow(&self, programs: &[Program]) -> Vec<f64> {
        let service = ServiceCurve::measured("test", ("test".to_owned(), self.fit.clone()));
        let mut machine = Machine::uniform("test", programs.len() as u32, service.capacity);
        machine.memories[0].service = service;
        machine.memories[0].read_latency = Picos::from_nanos(40);
        machine.memories[0].write_latency = Picos::from_nanos(40);
        let solver = Solver::new(&machine);
        let demands: Vec<Demand> = programs.iter().map(|program| self.demand(program)).collect();
        let response = |demand: &Demand| solver.response(demand, &Placement::default(), 0);
        let responses: Vec<_> = demands.iter().map(response).collect();
        let stretch = solver.solve(&responses);
        let rate = |demand: &Demand| demand.flows[0].reads.0 + demand.flows[0].writes.0;
        responses.iter().zip(&demands).map(|(r, demand)| rate(demand) * r.speed(&stretch)).collect()
    }

    /// Returns a program's demand without contention: it waits for each read for the fit's unloaded
    /// latency. Posting a write takes it a cycle.
    fn demand(&self, program: &Program) -> Demand {
        let writes = 1.0 / program.reads - 1.0;
        let computes = (program.computes + writes) * self.clock_ns();
        let loops = 1e9 / (computes + self.fit.unloaded_ns);
        let rate = |lines: f64| BytesPerSec(lines * LINE_BYTES as f64 * loops);
        let stall = self.fit.unloaded_ns / (computes + self.fit.unloaded_ns);
        let mut demand = Demand { stall, ..Demand::default() };
        demand.flows[0] = Flow { reads: rate(1.0), writes: rate(writes) };
        demand
    }

    /// Returns the relative difference of the flow model's bandwidth from the bank level's, for all
    /// programs together and for the one with the largest difference.
    fn difference(&self, what: &str, programs: &[Program]) -> (f64, f64) {
        let (banks, flow) = (self.banks(programs), self.flow(programs));
        let all = flow.iter().sum::<f64>() / banks.iter().sum::<f64>() - 1.0;
        let each = flow.iter().zip(&banks).map(|(flow, banks)| flow / banks - 1.0);
        let worst =
            each.fold(0.0, |worst: f64, one| if one.abs() > worst.abs() { one } else { worst });
        eprintln!("{what}: {:+.1} %, of one {:+.1} %", all * 100.0, worst * 100.0);
        (all, worst)
    }
}

#[test]
fn programs_that_wait_for_reads_get_what_the_banks_give() {
    let cases: [(&str, &[f64]); 2] =
        [("ddr4-2400", &[1.0, 0.9, 0.75, 0.4]), ("ddr3-1333", &[1.0, 0.6])];
    for (name, shares) in cases {
        let memory = Measured::of(name);
        for reads in shares {
            for n in [1, 3, 8, 20, 32] {
                let what = format!("{name}, {:.0} % reads, {n} programs", reads * 100.0);
                let programs = vec![Program { computes: 0.0, reads: *reads }; n];
                let (all, _) = memory.difference(&what, &programs);
                assert!(all.abs() < 0.025, "{what}: {all}");
            }
        }
    }
}

/// Programs that compute between reads meet refreshes like random arrivals: 4.5 % of their reads
/// wait for 175 ns on average, 8 ns per read. A program that only waits meets each refresh with one
/// read, 2 ns per read. Growth is measured with the latter kind; without refreshes the error is
/// smaller. A program that computes for 400 cycles has 1,300 reads in a window, and its computing
/// times alone scatter by 2.4 %.
#[test]
fn programs_that_compute_between_reads_get_what_the_banks_give() {
    for (refresh, bound) in [(RefreshPolicy::AllBank, 0.08), (RefreshPolicy::Off, 0.05)] {
        let memory = Measured::with("ddr4-2400", refresh);
        computing(&memory, bound);
    }
}

fn computing(memory: &Measured, bound: f64) {
    for computes in [50.0, 400.0] {
        for reads in [1.0, 0.67] {
            for n in [1, 8, 48] {
                let what = format!(
                    "{:?}, {computes} cycles, {:.0} % reads, {n} programs",
                    memory.config.refresh,
                    reads * 100.0
                );
                let programs = vec![Program { computes, reads }; n];
                let (all, _) = memory.difference(&what, &programs);
                assert!(all.abs() < bound, "{what}: {all}");
            }
        }
    }
}

#[test]
fn unlike_programs_get_what_the_banks_give() {
    // Two programs have 2,000 reads in half a millisecond: their banks scatter by as much as the
    // bound.
    let memory = Measured { window: 4 * WINDOW, ..Measured::of("ddr4-2400") };
    let program = |computes, reads| Program { computes, reads };
    let mixes = [
        ("readers and writers", [program(0.0, 1.0), program(0.0, 0.5)]),
        ("heavy and light", [program(0.0, 0.75), program(500.0, 1.0)]),
        ("light writers", [program(0.0, 1.0), program(200.0, 0.4)]),
    ];
    for (what, pair) in mixes {
        for n in [2, 16] {
            let what = format!("{what}, {n} programs");
            let programs: Vec<Program> = (0..n).map(|place| pair[place % 2]).collect();
            let (all, worst) = memory.difference(&what, &programs);
            assert!(all.abs() < 0.02 && worst.abs() < 0.15, "{what}: {all} {worst}");
        }
    }
}

#[test]
fn saturated_mixes_carry_what_the_banks_carry() {
    let memory = Measured::of("ddr4-2400");
    for reads in [0.3, 0.67, 0.9] {
        let what = format!("{:.0} % reads, saturated", reads * 100.0);
        let programs = vec![Program { computes: 0.0, reads }; 64];
        let (all, _) = memory.difference(&what, &programs);
        assert!(all.abs() < 0.035, "{what}: {all}");
    }
}
