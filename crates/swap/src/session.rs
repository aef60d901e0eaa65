//! Applications that take turns in the foreground of one machine (drswap section V-B), and the
//! results.

use std::sync::Arc;

use memweir_core::{Bytes, Nanos, PAGE, Seconds};
use memweir_policy::paging::Page;

use crate::Access;
use crate::app::{App, AppModel};
use crate::area::SwapKind;
use crate::memory::{Counts, Memory, MemoryConfig};
use crate::trace::{PageTrace, Player};

/// Source of an application's references.
#[derive(Clone, Debug)]
pub enum Behavior {
    /// A model of the application.
    Model(AppModel),
    /// A recording, of which each turn executes a part.
    Recorded(Arc<PageTrace>),
}

/// An application of a session.
#[derive(Clone, Debug)]
pub struct AppSpec {
    /// Its name.
    pub name: String,
    /// Source of its references.
    pub behavior: Behavior,
    /// Data read from storage to start it.
    pub size: Bytes,
    /// Time of a switch to it while it is alive, without its faults.
    pub resume: Nanos,
    /// Time of a switch that starts it, without its faults.
    pub launch: Nanos,
    /// Mean number of lines that a reference to a page reads from memory.
    pub lines_per_reference: f64,
}

/// Parameters of a session apart from the kind of swap area.
#[derive(Clone, Debug)]
pub struct SessionSpec {
    /// The applications, in the order of their turns.
    pub apps: Vec<AppSpec>,
    /// DRAM for their anonymous pages.
    pub dram: Bytes,
    /// Size of the swap area.
    pub swap: Bytes,
    /// Number of turns of each application.
    pub rounds: u32,
    /// Length of a turn.
    pub foreground: Nanos,
    /// Victim policy.
    pub victims: Arc<dyn memweir_policy::paging::VictimSource>,
    /// Policy of the low-memory killer.
    pub killer: crate::memory::Killer,
}

/// A switch to an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// Number of the application.
    pub app: usize,
    /// Number of the round, from zero.
    pub round: u32,
    /// Time of its faults.
    pub paging: Nanos,
    /// Total delay, faults included.
    pub delay: Nanos,
}

/// Results of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionOutcome {
    /// Length of the session.
    pub duration: Seconds,
    /// Counters of the session.
    pub counts: Counts,
    /// Counters by application, each over its own turns.
    pub by_app: Vec<Counts>,
    /// All switches.
    pub switches: Vec<Switch>,
    /// Time of the faults while the applications were used, after the switches.
    pub stalled: Nanos,
    /// Lines read in place.
    pub lines_in_place: u64,
    /// Maximum size of the data in the swap area.
    pub most_in_swap: Bytes,
    /// Block I/O: pages of a swap area behind a block device, and data read to start applications.
    pub block_io: Bytes,
}

impl SessionOutcome {
    /// Returns the mean delay of the switches after the first round; `None` if there is only one
    /// round.
    #[must_use]
    pub fn mean_delay(&self) -> Option<Nanos> {
        self.mean(|switch| switch.round > 0)
    }

    /// Returns the mean delay of the switches for which `of` is true.
    pub fn mean(&self, of: impl Fn(&Switch) -> bool) -> Option<Nanos> {
        let delays: Vec<u64> =
            self.switches.iter().filter(|s| of(s)).map(|switch| switch.delay.0).collect();
        (!delays.is_empty()).then(|| Nanos(delays.iter().sum::<u64>() / delays.len() as u64))
    }
}

enum Running {
    Model(Box<App>),
    Recorded(Player),
}

impl Running {
    fn start(behavior: &Behavior, first: Page, rounds: u32, seed: u64) -> Self {
        match behavior {
            Behavior::Model(model) => Self::Model(Box::new(model.start(first, seed))),
            Behavior::Recorded(trace) => {
                Self::Recorded(Player::new(Arc::clone(trace), first, rounds))
            }
        }
    }

    /// Executes the part of a turn that belongs to the switch.
    fn enter(&mut self, is_alive: bool, refer: impl FnMut(Page, Access)) {
        match (self, is_alive) {
            (Self::Model(app), true) => app.resume(refer),
            (Self::Model(app), false) => app.launch(refer),
            (Self::Recorded(_), true) => {}
            (Self::Recorded(player), false) => player.restart(),
        }
    }

    fn use_it(&mut self, refer: impl FnMut(Page, Access)) {
        match self {
            Self::Model(app) => app.use_it(refer),
            Self::Recorded(player) => player.play(refer),
        }
    }
}

impl Behavior {
    /// Returns the number of its pages.
    #[must_use]
    pub fn pages(&self) -> u32 {
        match self {
            Self::Model(model) => model.pages(),
            Self::Recorded(trace) => trace.pages(),
        }
    }
}

impl SessionSpec {
    /// Runs the session on a swap area of this kind. Equal seeds give equal outcomes.
    #[must_use]
    pub fn run(&self, kind: &SwapKind, seed: u64) -> SessionOutcome {
        let sizes: Vec<u32> = self.apps.iter().map(|app| app.behavior.pages()).collect();
        let config = MemoryConfig {
            dram: (self.dram.0 / PAGE.0) as u32,
            swap: (self.swap.0 / PAGE.0) as u32,
            reads: kind.reads,
            victims: Arc::clone(&self.victims),
            killer: self.killer,
        };
        let mut memory = Memory::new(config, &sizes);
        let mut running: Vec<Running> = (0..self.apps.len())
            .map(|app| {
                // Each application draws from a random stream of its own.
                let seed = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(app as u64);
                let first = memory.first_page(app);
                Running::start(&self.apps[app].behavior, first, self.rounds, seed)
            })
            .collect();
        let (mut by_app, mut switches) = (vec![Counts::default(); self.apps.len()], Vec::new());
        let (mut stalled, mut loaded, mut lines_in_place) = (Nanos::ZERO, Bytes::ZERO, 0.0_f64);
        for round in 0..self.rounds {
            for (app, (spec, running)) in self.apps.iter().zip(&mut running).enumerate() {
                let before = memory.counts();
                let is_alive = memory.switch_to(app);
                running.enter(is_alive, |page, access| memory.reference(page, access));
                let entered = memory.counts();
                running.use_it(|page, access| memory.reference(page, access));
                let after = memory.counts();

                let paging = kind.time(&(entered - before));
                let delay = paging + if is_alive { spec.resume } else { spec.launch };
                switches.push(Switch { app, round, paging, delay });
                stalled += kind.time(&(after - entered));
                if !is_alive {
                    loaded += spec.size;
                }
                let own = after - before;
                by_app[app] = by_app[app] + own;
                lines_in_place += own.references_in_place as f64 * spec.lines_per_reference;
            }
        }
        let counts = memory.counts();
        SessionOutcome {
            duration: self.duration(),
            counts,
            by_app,
            switches,
            stalled,
            lines_in_place: lines_in_place.round() as u64,
            most_in_swap: Bytes(u64::from(memory.most_in_swap()) * PAGE.0),
            block_io: loaded + kind.block_io(&counts),
        }
    }

    /// Returns the length of the session.
    #[must_use]
    pub fn duration(&self) -> Seconds {
        let turns = self.apps.len() as f64 * f64::from(self.rounds);
        Seconds(self.foreground.as_secs_f64() * turns)
    }
}
