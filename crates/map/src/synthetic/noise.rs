//! Noise of a simulated machine's latencies.

/// Base latency, cost of a row conflict, and disturbances. All figures are in cycles of the clock,
/// for loops of about a hundred rounds, unless stated otherwise.
///
/// The figures of [`Noise::VM`] were measured on a loaded virtual machine (two vCPUs of an AMD
/// EPYC); the others are the same machine with less noise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noise {
    /// Latency of a round without a conflict.
    pub base: f64,
    /// Cost of a row conflict: a precharge and an activation, 35 ns.
    pub conflict: f64,
    /// Resolution of the clock: 10 ns.
    pub quantum: f64,
    /// Standard deviation over addresses of the cost of a single address.
    pub per_address: f64,
    /// Standard deviation between measurements that more rounds do not reduce.
    pub jitter: f64,
    /// Standard deviation between rounds.
    pub jitter_per_round: f64,
    /// Share of conflicts that do not show in the latency.
    pub missed: f64,
    /// Share of measurements with a gross disturbance.
    pub outliers: f64,
    /// Probability that a burst begins with a measurement: some 40 in a row are slow.
    pub bursts: f64,
    /// Mean seconds until the processor moves and the addresses' costs change.
    pub stays_for: f64,
}

impl Noise {
    /// An idle machine.
    pub const QUIET: Self = Self {
        base: 540.0,
        conflict: 91.0,
        quantum: 26.0,
        per_address: 4.0,
        jitter: 2.0,
        jitter_per_round: 40.0,
        missed: 0.002,
        outliers: 0.0005,
        bursts: 0.0,
        stays_for: f64::INFINITY,
    };

    /// A busy server.
    pub const SERVER: Self = Self {
        base: 640.0,
        per_address: 25.0,
        jitter: 4.0,
        jitter_per_round: 110.0,
        missed: 0.02,
        outliers: 0.003,
        bursts: 0.0003,
        stays_for: 60.0,
        ..Self::QUIET
    };

    /// A virtual machine on a loaded host.
    pub const VM: Self = Self {
        base: 850.0,
        per_address: 65.0,
        jitter: 6.0,
        jitter_per_round: 190.0,
        missed: 0.05,
        outliers: 0.01,
        bursts: 0.0012,
        stays_for: 8.0,
        ..Self::QUIET
    };

    /// All kinds and their names.
    pub const ALL: [(&'static str, Self); 3] =
        [("quiet", Self::QUIET), ("server", Self::SERVER), ("vm", Self::VM)];
}
