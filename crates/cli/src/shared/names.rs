//! The policies and predictors with one line each, from the tables that the scheduler uses.

use memweir_policy::policies::{AUTO_CORES, POLICIES, PolicyEntry, PolicyOption};
use memweir_run::options::PINNED;

/// Name and purpose of every policy.
pub(crate) fn policies() -> Vec<(&'static str, String)> {
    let pinned = "block nobody; each job bound to the `cpus` of the jobs file".to_owned();
    let about = |entry: &PolicyEntry| format!("{} ({})", entry.summary, entry.reference);
    POLICIES.iter().map(|entry| (entry.name, about(entry))).chain([(PINNED, pinned)]).collect()
}

/// Form and purpose of every option of a policy, with the policies that have it.
pub(crate) fn policy_options() -> Vec<(String, &'static str)> {
    let mut rows: Vec<(PolicyOption, String)> = Vec::new();
    for entry in POLICIES {
        for option in entry.options.iter().filter(|option| **option != AUTO_CORES) {
            rows.push((*option, format!("{}:{}", entry.name, option.usage())));
        }
    }
    rows.push((AUTO_CORES, format!("NAME:{}", AUTO_CORES.usage())));
    rows.into_iter().map(|(option, form)| (form, option.summary)).collect()
}

/// Form and purpose of every predictor.
pub(crate) fn predictors() -> impl Iterator<Item = (&'static str, &'static str)> {
    memweir_policy::predictor::names().map(|form| (form, predictor(form)))
}

/// Returns the name of a predictor without its parameter.
pub(crate) fn predictor_name(form: &str) -> &str {
    form.split([':', '[']).next().unwrap_or(form)
}

fn predictor(form: &str) -> &'static str {
    match predictor_name(form) {
        "last" => "as in the last quantum",
        "window" => "the mean of the last K quanta",
        "phase" => "phases by instruction pointers, a Markov chain between them (iabw section 4.2)",
        "profile" => "what the job's recorded profile does next",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn help_lists_the_options_of_policies() {
        let rows = super::policy_options();
        for form in ["hmmsched:alpha=NUMBER", "hmmsched:no-classes", "NAME:auto-cores"] {
            assert_eq!(rows.iter().filter(|(listed, _)| listed == form).count(), 1, "{form}");
        }
        for (form, about) in rows {
            assert!(!about.is_empty(), "{form} has no line");
            let written = form.replace("NUMBER", "0.5").replace("NAME", "random");
            assert!(memweir_policy::policies::find(&written).is_ok(), "{written}");
        }
    }

    #[test]
    fn help_explains_every_policy_and_predictor_that_can_be_named() {
        let names: Vec<&str> = super::policies().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, memweir_run::options::policy_names());
        for (form, about) in super::predictors() {
            assert!(!about.is_empty(), "{form} has no line");
        }
    }
}
