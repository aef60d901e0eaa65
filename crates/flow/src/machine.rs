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
    /// Number of cores; at least one.
    pub cores: u32,
}

/// One memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    /// Name, such as `dram`, `pram` or `dram-1`.
    pub name: String,
    /// Kind of its medium.
    pub kind: MediumKind,
    /// The node that it belongs to.
    pub node: usize,
    /// Latency of a read from a core of that node, unloaded.
    pub read_latency: Picos,
    /// Latency of a write from a core of that node, unloaded.
    pub write_latency: Picos,
    /// Capacity, and growth of latency under load.
    pub service: ServiceCurve,
}

/// The connection between the nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interconnect {
    /// Added to the latency of every access to another node.
    pub latency: Picos,
    /// Bandwidth that it carries in all.
    pub capacity: BytesPerSec,
}

/// A simulated machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// Name of the machine.
    pub name: String,
    /// At least one.
    pub nodes: Vec<Node>,
    /// From one to [`memweir_core::MAX_MEDIA`]; the first is DRAM of node 0.
    pub memories: Vec<Memory>,
    /// Bandwidth that one core draws from unloaded local DRAM when it does nothing else. It
    /// determines the share of time that a program waits for memory where the program's own figure
    /// is not known.
    pub core_peak: BytesPerSec,
    /// The connection between the nodes, if there are several.
    pub interconnect: Option<Interconnect>,
}

impl Machine {
    /// Returns a machine of one node whose only memory is DRAM with the latency of hmmsched Table
    /// I, which is as fast as unloaded until it saturates. One core can draw the memory's whole
    /// capacity.
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

    /// Returns the node of each core, in the order of the cores.
    pub fn core_nodes(&self) -> impl Iterator<Item = usize> {
        let nodes = self.nodes.iter().enumerate();
        nodes.flat_map(|(node, cores)| std::iter::repeat_n(node, cores.cores as usize))
    }

    /// Returns the peak of what policies take for the memory bus: the capacity of all DRAM.
    #[must_use]
    pub fn bus_peak(&self) -> BytesPerSec {
        let drams = self.memories.iter().filter(|memory| memory.kind == MediumKind::Dram);
        drams.map(|memory| memory.service.capacity).sum()
    }

    /// Returns the number of cores of all nodes together.
    #[must_use]
    pub fn cores(&self) -> u32 {
        self.nodes.iter().map(|node| node.cores).sum()
    }
}
