//! The table of policies that `--policy` accepts, in the order in which help lists them.
//!
//! To add a policy, write its file below `policies/` and add one row to [`POLICIES`]. Its name and
//! options are then valid wherever a policy is named.

pub mod available_bandwidth;
pub mod hmmsched;
pub mod ideal_average;
pub mod long_job_first;
pub mod max_weight;
pub mod options;
pub mod os;
pub mod peak_bandwidth;
pub mod random;
pub mod round_robin;

use memweir_core::input::Refusal;
use memweir_core::names::choose;

use crate::policy::{Policy, QuantumView};
use crate::scheduler::{CoreUse, SchedulerConfig};

pub use available_bandwidth::AvailableBandwidth;
pub use hmmsched::Hmmsched;
pub use ideal_average::IdealAverage;
pub use long_job_first::LongJobFirst;
pub use max_weight::{MaxWeight, Objective};
pub use options::{Options, PolicyOption};
pub use os::Os;
pub use peak_bandwidth::PeakBandwidth;
pub use random::Random;
pub use round_robin::RoundRobin;

/// Information that a policy decides by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecidesBy {
    /// The run queue and the known lengths of the jobs.
    Queue,
    /// The jobs' bandwidth demands. Without a meter such a policy has nothing to decide by.
    Bandwidth,
    /// The jobs' bandwidth demands by medium. With several media, such a policy has nothing to
    /// decide by unless a meter distinguishes them.
    Media,
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct PolicyEntry {
    /// Name that users write.
    pub name: &'static str,
    /// One line for `--help`.
    pub summary: &'static str,
    /// Source that describes the policy.
    pub reference: &'static str,
    /// Information that the policy decides by.
    pub decides_by: DecidesBy,
    /// Options that may follow the name.
    pub options: &'static [PolicyOption],
    /// Constructor.
    pub build: fn(&SchedulerConfig, &Options) -> Box<dyn Policy>,
}

/// Option of every policy that blocks jobs: [`CoreUse::Auto`].
pub const AUTO_CORES: PolicyOption = PolicyOption::flag(
    "auto-cores",
    "leave cores idle while filling them costs more than it gains",
);

/// Every policy.
pub const POLICIES: &[PolicyEntry] = &[
    PolicyEntry {
        name: "os",
        summary: "block nobody: the operating system schedules",
        reference: "the baseline of iabw section 5",
        decides_by: DecidesBy::Queue,
        options: &[],
        build: |_, _| Box::new(Os),
    },
    PolicyEntry {
        name: "round-robin",
        summary: "the run queue in order, whatever the jobs do to memory",
        reference: "iabw section 3.3",
        decides_by: DecidesBy::Queue,
        options: &[AUTO_CORES],
        build: |_, _| Box::new(RoundRobin),
    },
    PolicyEntry {
        name: "random",
        summary: "any jobs, drawn anew each quantum",
        reference: "a control for the others",
        decides_by: DecidesBy::Queue,
        options: &[AUTO_CORES],
        build: |config, _| Box::new(Random::new(config.seed)),
    },
    PolicyEntry {
        name: "long-job-first",
        summary: "the longest expected time first, to balance the cores at the end",
        reference: "iabw section 5.5",
        decides_by: DecidesBy::Queue,
        options: &[AUTO_CORES],
        build: |_, _| Box::new(LongJobFirst::default()),
    },
    PolicyEntry {
        name: "peak-bandwidth",
        summary: "jobs that together come nearest to the peak bandwidth",
        reference: "iabw eq. (2), the policy of earlier work (PBW)",
        decides_by: DecidesBy::Bandwidth,
        options: &[AUTO_CORES],
        build: |_, _| Box::new(PeakBandwidth::default()),
    },
    PolicyEntry {
        name: "ideal-average",
        summary: "jobs that together come nearest to the workload's ideal average bandwidth",
        reference: "iabw eq. (2), (8)-(11)",
        decides_by: DecidesBy::Bandwidth,
        options: &[AUTO_CORES],
        build: |config, _| Box::new(IdealAverage::new(config.target.clone())),
    },
    PolicyEntry {
        name: "available-bandwidth",
        summary: "the job that comes nearest to what is left of the peak, counting transactions",
        reference: "hmmsched eq. (1)-(5), the baseline that knows no media",
        decides_by: DecidesBy::Bandwidth,
        options: &[AUTO_CORES],
        build: |config, _| Box::new(AvailableBandwidth::new(config)),
    },
    PolicyEntry {
        name: "hmmsched",
        summary: "latency-sensitive jobs first, then jobs that complement each other on DRAM and NVM",
        reference: "hmmsched section V",
        decides_by: DecidesBy::Media,
        options: hmmsched::OPTIONS,
        build: |config, options| Box::new(Hmmsched::new(config, options)),
    },
    PolicyEntry {
        name: "max-weight",
        summary: "the jobs whose speeds beside each other, weighted by the work ahead, sum to the most",
        reference: "Tassiulas and Ephremides 1992; docs/policies.md",
        decides_by: DecidesBy::Bandwidth,
        options: max_weight::OPTIONS,
        build: |config, options| Box::new(MaxWeight::new(config, options)),
    },
];

/// Returns the names of all policies, in the order of the table.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    POLICIES.iter().map(|entry| entry.name)
}

/// A policy with its options.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Its row of the table.
    pub entry: &'static PolicyEntry,
    /// The options that were given.
    pub options: Options,
}

impl Choice {
    /// Returns the information that the policy decides by: with [`AUTO_CORES`], at least bandwidth.
    #[must_use]
    pub fn decides_by(&self) -> DecidesBy {
        match self.entry.decides_by {
            DecidesBy::Queue if self.options.has(&AUTO_CORES) => DecidesBy::Bandwidth,
            decides_by => decides_by,
        }
    }

    /// Returns the rule for filling the cores: that of [`AUTO_CORES`], or else the configured one.
    pub(crate) fn core_use(&self, config: &SchedulerConfig) -> CoreUse {
        match self.options.has(&AUTO_CORES) {
            true => CoreUse::Auto,
            false => config.core_use,
        }
    }

    /// Builds the policy.
    #[must_use]
    pub fn build(&self, config: &SchedulerConfig) -> Box<dyn Policy> {
        let config = SchedulerConfig { core_use: self.core_use(config), ..config.clone() };
        (self.entry.build)(&config, &self.options)
    }
}

/// Parses a policy: its name, and options separated by colons.
///
/// ```
/// use memweir_policy::policies::{find, hmmsched};
///
/// let choice = find("hmmsched:alpha=0.3:no-classes")?;
/// assert_eq!(choice.entry.name, "hmmsched");
/// assert_eq!(choice.options.number(&hmmsched::ALPHA), Some(0.3));
/// assert_eq!(
///     find("hmmsched:alfa=0.3").unwrap_err().sentence(),
///     "bad option `alfa=0.3` of policy `hmmsched`: did you mean `alpha`? valid: alpha, \
///      no-classes, no-guard, no-order, counts, no-remote, auto-cores"
/// );
/// # Ok::<(), memweir_core::input::Refusal>(())
/// ```
///
/// # Errors
/// If the table has no such policy, the policy no such option, or two objectives; the refusal
/// suggests the nearest name.
pub fn find(given: &str) -> Result<Choice, Refusal> {
    let mut parts = given.split(':');
    let name = parts.next().unwrap_or(given);
    let entry = choose("policy", name, POLICIES.iter().map(|entry| (entry.name, entry)))?;
    let options = Options::read(name, entry.options, parts)?;
    if Objective::given(&options).count() > 1 {
        let help = "leave out one of them";
        return Err(Refusal::new(format!("policy `{given}` has two objectives"), help));
    }
    Ok(Choice { entry, options })
}

/// Adds [`AUTO_CORES`] to a policy that has that option, if `core_use` asks for it. A policy
/// without blocking fills every core.
#[must_use]
pub fn with_core_use(policy: String, core_use: CoreUse) -> String {
    let adds = |choice: Choice| {
        choice.entry.options.contains(&AUTO_CORES) && !choice.options.has(&AUTO_CORES)
    };
    match core_use {
        CoreUse::Auto if find(&policy).is_ok_and(adds) => {
            format!("{policy}:{}", AUTO_CORES.name)
        }
        _ => policy,
    }
}

/// Adds the option for `objective` to a policy that has one. A policy without objectives, and one
/// whose objective is written behind its name, stay as they are.
#[must_use]
pub fn with_objective(policy: String, objective: Objective) -> String {
    let written = |choice: &Choice| Objective::given(&choice.options).next().is_some();
    match (objective.option(), find(&policy)) {
        (Some(option), Ok(choice)) if has_objectives(&policy) && !written(&choice) => {
            format!("{policy}:{}", option.name)
        }
        _ => policy,
    }
}

/// Returns true if a policy can follow another objective than the turnaround.
#[must_use]
pub fn has_objectives(policy: &str) -> bool {
    find(policy).is_ok_and(|choice| choice.entry.options.contains(&max_weight::COMPLETION))
}

/// Checks the names of policies from outside a table that has the `known` ones.
///
/// # Errors
/// If a name is not a name of a policy, is one of the table, or occurs twice.
pub fn check_names(
    names: &[&str],
    known: &mut dyn Iterator<Item = &'static str>,
) -> Result<(), Refusal> {
    let known: Vec<&str> = known.collect();
    for (place, name) in names.iter().enumerate() {
        if !is_name(name) {
            let help = "letters, digits, `-`, `_` and `.`";
            return Err(Refusal::new(format!("`{name}` is not a name of a policy"), help));
        }
        if known.contains(name) {
            let reason = format!("`{name}` is the name of a policy of memweir");
            return Err(Refusal::new(reason, format!("another name: `my-{name}`")));
        }
        if names[..place].contains(name) {
            let reason = format!("two policies are called `{name}`");
            return Err(Refusal::new(reason, "a name of its own for each"));
        }
    }
    Ok(())
}

/// Returns true if a policy may be called so.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !text.is_empty() && text.chars().all(allowed)
}

/// Chooses, in this order, every job that still fits the free cores.
pub(crate) fn take_what_fits(
    view: &QuantumView<'_>,
    order: impl IntoIterator<Item = usize>,
    chosen: &mut Vec<usize>,
) {
    let mut free = view.cores;
    for place in order {
        if free == 0 {
            break;
        }
        if view.queue[place].cores <= free {
            free -= view.queue[place].cores;
            chosen.push(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_is_an_option_of_the_policies_that_block() {
        let auto = |policy: &str| with_core_use(policy.to_owned(), CoreUse::Auto);
        assert_eq!(auto("ideal-average"), "ideal-average:auto-cores");
        assert_eq!(auto("hmmsched:counts"), "hmmsched:counts:auto-cores");
        assert_eq!(auto("random:auto-cores"), "random:auto-cores");
        assert_eq!(auto("os"), "os");
        assert_eq!(with_core_use("random".to_owned(), CoreUse::All), "random");
    }

    #[test]
    fn with_auto_a_policy_decides_by_bandwidth_at_least() {
        let decides_by = |policy| find(policy).unwrap().decides_by();
        assert_eq!(decides_by("random"), DecidesBy::Queue);
        assert_eq!(decides_by("random:auto-cores"), DecidesBy::Bandwidth);
        assert_eq!(decides_by("hmmsched:auto-cores"), DecidesBy::Media);
    }

    #[test]
    fn options_are_known_in_range_and_given_once() {
        let refused = |policy| find(policy).unwrap_err().sentence();
        assert!(refused("hmmsched:alpha=1.5").contains("write `alpha=` and a number from 0 to 1"));
        assert!(refused("hmmsched:alpha").contains("write `alpha=`"));
        assert!(refused("hmmsched:counts=1").contains("`counts` takes no value"));
        assert!(refused("hmmsched:counts:counts").contains("`counts` is given twice"));
        assert!(refused("hmmsched:counts,no-guard").contains("`hmmsched:counts:no-guard`"));
        assert!(refused("os:counts").contains("`os` takes none"));
        let usages: Vec<_> = hmmsched::OPTIONS.iter().map(PolicyOption::usage).collect();
        assert_eq!(usages[..2], ["alpha=NUMBER", "no-classes"]);
    }

    #[test]
    fn names_from_outside_are_valid_new_and_different() {
        let check = |names: &[&str]| check_names(names, &mut super::names());
        let refused = |names: &[&str]| check(names).unwrap_err().sentence();
        assert!(check(&["mine", "mine-2", "A_1.5"]).is_ok());
        assert!(check(&[]).is_ok());
        assert!(refused(&["mine", ""]).contains("`` is not a name"));
        assert!(refused(&["my policy"]).contains("`my policy` is not a name"));
        assert!(refused(&["random"]).contains("another name: `my-random`"));
        assert!(refused(&["mine", "other", "mine"]).contains("two policies are called `mine`"));
    }

    #[test]
    fn an_objective_is_an_option_of_the_policies_that_have_one() {
        let completion = |policy: &str| with_objective(policy.to_owned(), Objective::Completion);
        assert_eq!(completion("max-weight"), "max-weight:completion");
        assert_eq!(completion("max-weight:auto-cores"), "max-weight:auto-cores:completion");
        assert_eq!(completion("max-weight:slowdown"), "max-weight:slowdown");
        assert_eq!(completion("ideal-average"), "ideal-average");
        assert!(find("max-weight:completion:slowdown").is_err(), "two objectives");
        let turnaround = with_objective("max-weight".to_owned(), Objective::Turnaround);
        assert_eq!(turnaround, "max-weight");
    }
}
