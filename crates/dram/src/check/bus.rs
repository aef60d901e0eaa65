//! The two buses that the ranks of a channel share.

use memweir_core::Direction;

use crate::command::Command;

use super::limits::Limits;
use super::rule::{Report, Rule};

/// Number of bursts that can be in flight. Successive column commands keep their minimum distance,
/// and the burst of a command is on the bus after a few such distances.
const ON_THEIR_WAY: usize = 8;

/// State of the buses, as far as it can affect the next command.
#[derive(Clone, Debug, Default)]
pub(super) struct Buses {
    last: Option<Command>,
    /// The last command on the command bus, and the cycle in which the bus is free again.
    issued: Option<(Command, u64)>,
    bursts: [Option<Burst>; ON_THEIR_WAY],
    next: usize,
}

#[derive(Clone, Copy, Debug)]
struct Burst {
    command: Command,
    start: u64,
    end: u64,
}

impl Buses {
    /// Returns true if `command` is not earlier than the previous one; reports a violation
    /// otherwise.
    pub(super) fn check_order(&mut self, report: &mut Report, command: &Command) -> bool {
        if let Some(last) = &self.last
            && command.at < last.at
        {
            report.state(Rule::Order, Some(last), command);
            return false;
        }
        self.last = Some(*command);
        true
    }

    pub(super) fn check(&mut self, report: &mut Report, limits: &Limits, command: &Command) {
        let cycles = limits.command_cycles(command.kind);
        if cycles > 0 {
            if let Some((issued, free)) = &self.issued {
                report.distance(Rule::CommandBus, Some(issued), free - issued.at.0, command);
            }
            self.issued = Some((*command, command.at.0 + cycles));
        }
        self.check_data(report, limits, command);
    }

    fn check_data(&mut self, report: &mut Report, limits: &Limits, command: &Command) {
        let latency = match command.kind.direction() {
            Some(Direction::Read) => limits.read_latency,
            Some(Direction::Write) => limits.write_latency,
            None => return,
        };
        let is_write = |command: &Command| command.kind.direction() == Some(Direction::Write);
        let start = command.at.0 + latency;
        let burst = Burst { command: *command, start, end: start + limits.burst };
        for earlier in self.bursts.iter().flatten() {
            // The controller drives the bus for writes to any rank.
            let changes_driver = earlier.command.to.rank != command.to.rank
                && !(is_write(&earlier.command) && is_write(command));
            let gap = if changes_driver { limits.rank_switch } else { 0 };
            if burst.start < earlier.end + gap && earlier.start < burst.end + gap {
                let overlap = burst.start < earlier.end && earlier.start < burst.end;
                let rule = if overlap { Rule::DataBus } else { Rule::TRtrs };
                let required =
                    (earlier.end + gap + command.at.0 - start).saturating_sub(earlier.command.at.0);
                report.distance(rule, Some(&earlier.command), required, command);
            }
        }
        self.bursts[self.next] = Some(burst);
        self.next = (self.next + 1) % ON_THEIR_WAY;
    }
}
