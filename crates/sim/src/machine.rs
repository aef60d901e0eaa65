//! The simulated machine: cores on nodes, and memories beside them.

mod check;
mod view;

use memweir_core::medium::MediumKind;
use memweir_core::{BytesPerSec, Picos};

use crate::service::ServiceCurve;
pub use check::Impossible;
pub use view::View;

/// Cores that share the same local memories.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// How many there are; at least one.
    pub cores: u32,
}

/// One memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    /// How people call it: `dram`, `pram`, `dram-1`.
    pub name: String,
    /// What it is made of.
    pub kind: MediumKind,
    /// The node that it belongs to.
    pub node: usize,
    /// Latency of a read from a core of that node, unloaded.
    pub read_latency: Picos,
    /// Latency of a write from a core of that node, unloaded.
    pub write_latency: Picos,
    /// What it can carry.
    pub service: ServiceCurve,
}

/// What joins the nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interconnect {
    /// Added to the latency of every access to another node.
    pub latency: Picos,
    /// What it can carry in all.
    pub capacity: BytesPerSec,
}

/// A simulated machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// How people call it.
    pub name: String,
    /// At least one.
    pub nodes: Vec<Node>,
    /// From one to [`memweir_core::MAX_MEDIA`]; the first is DRAM of node 0.
    pub memories: Vec<Memory>,
    /// What one core draws from unloaded local DRAM when it does nothing else: from this follows
    /// how much of its time a program waits for memory where its own figure is not known.
    pub core_peak: BytesPerSec,
    /// What joins the nodes, if there are several.
    pub interconnect: Option<Interconnect>,
}

impl Machine {
    /// A machine of one node whose only memory is DRAM with the latency of hmmsched Table I that
    /// is as fast as unloaded until it saturates. One core can draw all that the memory carries.
    #[must_use]
    pub fn uniform(name: &str, cores: u32, capacity: BytesPerSec) -> Self {
        let latency = Picos::from_nanos(25);
        let dram = Memory {
            name: "dram".to_owned(),
            kind: MediumKind::Dram,
            node: 0,
            read_latency: latency,
            write_latency: latency,
            service: ServiceCurve::flat(capacity),
        };
        Self {
            name: name.to_owned(),
            nodes: vec![Node { cores }],
            memories: vec![dram],
            core_peak: capacity,
            interconnect: None,
        }
    }

    /// The node of each core, in the order of the cores.
    pub fn core_nodes(&self) -> impl Iterator<Item = usize> {
        let nodes = self.nodes.iter().enumerate();
        nodes.flat_map(|(node, cores)| std::iter::repeat_n(node, cores.cores as usize))
    }

    /// Cores of all nodes together.
    #[must_use]
    pub fn cores(&self) -> u32 {
        self.nodes.iter().map(|node| node.cores).sum()
    }
}
