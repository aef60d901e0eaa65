//! The memories as a core of each node sees them: media, which meters distinguish by kind and
//! distance.

use memweir_core::medium::{Distance, Media, Medium, MediumId, MediumKind};
use memweir_core::{BytesPerSec, MAX_MEDIA, Picos};
use memweir_policy::LineCosts;

use super::Machine;

/// The medium of each memory, as seen from each node.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    media: Media,
    /// Per node, then per memory.
    medium: Vec<[MediumId; MAX_MEDIA]>,
}

/// Properties that make two memories the same medium to two cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Class {
    distance: Distance,
    kind: MediumKind,
    /// Number among the memories of its kind on its node.
    ordinal: usize,
}

impl View {
    /// Derives the media of a machine that [`Machine::check`] accepts.
    ///
    /// On one node every memory is a medium. On several nodes, the local memories are distinguished
    /// by kind and order, and so are the remote ones; if that makes more than [`MAX_MEDIA`] media,
    /// by kind alone. A medium that stands for several memories has their mean latencies.
    #[must_use]
    pub fn new(machine: &Machine) -> Self {
        let fine = classes(machine, Grain::KindAndOrder);
        let classes =
            if distinct(&fine).len() > MAX_MEDIA { classes(machine, Grain::Kind) } else { fine };
        let order = distinct(&classes);
        let place = |class: &Class| order.iter().position(|other| other == class).unwrap_or(0);
        let medium = classes
            .iter()
            .map(|node| {
                let mut row = [MediumId::LOCAL_DRAM; MAX_MEDIA];
                for (memory, class) in node.iter().enumerate() {
                    row[memory] = MediumId::ALL[place(class)];
                }
                row
            })
            .collect();
        let media = order.iter().map(|class| describe(machine, &classes, *class)).collect();
        let media = Media::new(media).expect("a checked machine has DRAM on its first node");
        Self { media, medium }
    }

    /// Returns the media in the form that a scheduler takes.
    #[must_use]
    pub fn media(&self) -> &Media {
        &self.media
    }

    /// Returns the peak bandwidth of each medium from all nodes together: the sum of its memories'
    /// capacities; for a remote medium, at most the capacity of the interconnect.
    #[must_use]
    pub fn peaks(&self, machine: &Machine) -> [Option<BytesPerSec>; MAX_MEDIA] {
        let mut peaks = [None; MAX_MEDIA];
        for (medium, described) in self.media.iter() {
            let memories = self.memories_of(medium, machine);
            let sum: BytesPerSec = memories.map(|memory| memory.service.capacity).sum();
            let joint = machine.interconnect.filter(|_| described.distance == Distance::Remote);
            peaks[medium.index()] = Some(joint.map_or(sum, |joint| sum.min(joint.capacity)));
        }
        peaks
    }

    /// Returns the costs of lines of each medium: those of the first of its memories.
    #[must_use]
    pub fn line_costs(&self, machine: &Machine) -> [LineCosts; MAX_MEDIA] {
        let mut costs = [LineCosts::default(); MAX_MEDIA];
        for (medium, _) in self.media.iter() {
            if let Some(memory) = self.memories_of(medium, machine).next() {
                let service = &memory.service;
                costs[medium.index()] =
                    LineCosts { read: service.read_cost, write: service.write_cost };
            }
        }
        costs
    }

    /// Returns the memories that are this medium to a core of any node.
    fn memories_of<'a>(
        &'a self,
        medium: MediumId,
        machine: &'a Machine,
    ) -> impl Iterator<Item = &'a super::Memory> {
        let is_it = move |place: usize| self.medium.iter().any(|node| node[place] == medium);
        machine.memories.iter().enumerate().filter(move |(place, _)| is_it(*place)).map(|(_, m)| m)
    }

    /// Returns the medium that a memory is to a core of a node.
    #[must_use]
    pub fn medium(&self, node: usize, memory: usize) -> MediumId {
        self.medium[node][memory]
    }
}

/// Properties that distinguish the memories of one distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grain {
    Kind,
    KindAndOrder,
}

/// Returns the class of each memory, per node.
fn classes(machine: &Machine, grain: Grain) -> Vec<Vec<Class>> {
    let memories = &machine.memories;
    let class = |node: usize, place: usize| {
        let memory = &memories[place];
        let alike = |other: &&super::Memory| (other.node, other.kind) == (memory.node, memory.kind);
        Class {
            distance: if memory.node == node { Distance::Local } else { Distance::Remote },
            kind: memory.kind,
            ordinal: match grain {
                Grain::Kind => 0,
                Grain::KindAndOrder => memories[..place].iter().filter(alike).count(),
            },
        }
    };
    (0..machine.nodes.len())
        .map(|node| (0..memories.len()).map(|place| class(node, place)).collect())
        .collect()
}

/// Returns the distinct classes, first all local ones and then all remote ones, in the order of
/// nodes and memories. Local DRAM leads because it is the first memory.
fn distinct(classes: &[Vec<Class>]) -> Vec<Class> {
    let mut order: Vec<Class> = Vec::new();
    for distance in [Distance::Local, Distance::Remote] {
        for class in classes.iter().flatten().filter(|class| class.distance == distance) {
            if !order.contains(class) {
                order.push(*class);
            }
        }
    }
    order
}

fn describe(machine: &Machine, classes: &[Vec<Class>], class: Class) -> Medium {
    let members: Vec<usize> = (0..machine.memories.len())
        .filter(|memory| classes.iter().any(|node| node[*memory] == class))
        .collect();
    let mean = |latency: fn(&super::Memory) -> Picos| {
        let sum: u64 = members.iter().map(|memory| latency(&machine.memories[*memory]).0).sum();
        let way = machine.interconnect.map_or(0, |joint| joint.latency.0);
        let way = if class.distance == Distance::Remote { way } else { 0 };
        Picos(sum / members.len() as u64 + way)
    };
    Medium {
        name: name(machine, class, &members),
        kind: class.kind,
        distance: class.distance,
        read_latency: mean(|memory| memory.read_latency),
        write_latency: mean(|memory| memory.write_latency),
    }
}

/// Returns the name of a medium: that of its only memory on a machine of one node, else kind and
/// distance.
fn name(machine: &Machine, class: Class, members: &[usize]) -> String {
    if machine.nodes.len() == 1 {
        return machine.memories[members[0]].name.clone();
    }
    let far = if class.distance == Distance::Remote { "remote-" } else { "" };
    let number = if class.ordinal > 0 { format!("-{}", class.ordinal + 1) } else { String::new() };
    format!("{far}{}{number}", class.kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Interconnect, Memory, Node};
    use crate::service::ServiceCurve;

    fn memory(name: &str, kind: MediumKind, node: usize, nanos: u64) -> Memory {
        Memory {
            name: name.to_owned(),
            kind,
            node,
            read_latency: Picos::from_nanos(nanos),
            write_latency: Picos::from_nanos(2 * nanos),
            service: ServiceCurve::flat(BytesPerSec::from_gb(10.0)),
        }
    }

    fn two_nodes(memories: Vec<Memory>) -> Machine {
        let interconnect =
            Interconnect { latency: Picos::from_nanos(15), capacity: BytesPerSec::from_gb(20.0) };
        Machine {
            nodes: vec![Node { cores: 2 }, Node { cores: 2 }],
            memories,
            interconnect: Some(interconnect),
            ..Machine::uniform("two", 1, BytesPerSec::from_gb(10.0))
        }
    }

    fn names(view: &View) -> Vec<String> {
        view.media().iter().map(|(_, medium)| medium.name.clone()).collect()
    }

    #[test]
    fn the_bus_is_all_dram() {
        let machine = two_nodes(vec![
            memory("dram-0", MediumKind::Dram, 0, 25),
            memory("pram-0", MediumKind::Nvm, 0, 60),
            memory("dram-1", MediumKind::Dram, 1, 25),
        ]);
        assert_eq!(machine.bus_peak(), BytesPerSec::from_gb(20.0));
    }

    #[test]
    fn on_one_node_every_memory_is_a_medium() {
        let mut machine = Machine::uniform("one", 2, BytesPerSec::from_gb(10.0));
        machine.memories.push(memory("pram", MediumKind::Nvm, 0, 60));
        machine.memories.push(memory("cxl", MediumKind::Nvm, 0, 80));
        let view = View::new(&machine);
        assert_eq!(names(&view), ["dram", "pram", "cxl"]);
        assert_eq!((0..3).map(|m| view.medium(0, m).index()).collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn the_same_memory_is_near_to_one_node_and_far_from_the_other() {
        let machine = two_nodes(vec![
            memory("dram-0", MediumKind::Dram, 0, 25),
            memory("pram-0", MediumKind::Nvm, 0, 60),
            memory("dram-1", MediumKind::Dram, 1, 25),
            memory("pram-1", MediumKind::Nvm, 1, 80),
        ]);
        assert_eq!(machine.check(), Ok(()));
        let view = View::new(&machine);
        assert_eq!(names(&view), ["dram", "nvm", "remote-dram", "remote-nvm"]);
        let seen = |node| (0..4).map(|m| view.medium(node, m).index()).collect::<Vec<_>>();
        assert_eq!((seen(0), seen(1)), (vec![0, 1, 2, 3], vec![2, 3, 0, 1]));
        let remote = view.media().get(MediumId::ALL[3]).expect("four media");
        // The mean of 60 and 80, plus 15 for the interconnect.
        assert_eq!(remote.read_latency, Picos::from_nanos(85));
        // Two memories of 10 GB/s each; the interconnect carries 20.
        let peaks = view.peaks(&machine).map(|peak| peak.map(BytesPerSec::as_gb));
        assert_eq!(peaks, [Some(20.0); 4]);
        let mut slow_machine = machine.clone();
        for place in [1, 3] {
            let service = &mut slow_machine.memories[place].service;
            (service.read_cost, service.write_cost) = (2.7, 8.6);
        }
        let [fast, slow] = [LineCosts::default(), LineCosts { read: 2.7, write: 8.6 }];
        assert_eq!(view.line_costs(&machine), [fast; 4]);
        assert_eq!(View::new(&slow_machine).line_costs(&slow_machine), [fast, slow, fast, slow]);
    }

    #[test]
    fn too_many_media_are_told_apart_by_kind_alone() {
        let machine = two_nodes(vec![
            memory("dram-0", MediumKind::Dram, 0, 25),
            memory("stt", MediumKind::Nvm, 0, 30),
            memory("pram", MediumKind::Nvm, 0, 60),
            memory("dram-1", MediumKind::Dram, 1, 25),
        ]);
        let view = View::new(&machine);
        assert_eq!(names(&view), ["dram", "nvm", "remote-dram", "remote-nvm"]);
        let seen = |node| (0..4).map(|m| view.medium(node, m).index()).collect::<Vec<_>>();
        assert_eq!((seen(0), seen(1)), (vec![0, 1, 1, 2], vec![2, 3, 3, 0]));
    }
}
