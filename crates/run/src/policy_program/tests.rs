use memweir_core::JobId;
use memweir_policy::{JobSpec, QuantumScheduler};

use super::*;

/// Runs the jobs of the queue in its order, at most as many as cores are free, with tools that
/// every machine has.
const IN_ORDER: &str = r#"read setup; while read -r view; do
    cores=$(echo "$view" | sed 's/.*"cores":\([0-9]*\),"committed".*/\1/')
    jobs=$(echo "$view" | sed 's/.*"queue":\[//; s/\],"bus".*//' | grep -o '"job":[0-9]*' |
        cut -d: -f2 | head -n "$cores" | paste -sd, -)
    echo "{\"jobs\": [$jobs]}"
done"#;

fn program(command: &str) -> PolicyProgram {
    PolicyProgram { name: "mine".to_owned(), server: Server::Command(command.to_owned()) }
}

fn config() -> SchedulerConfig {
    SchedulerConfig { cores: 3, ..SchedulerConfig::default() }
}

/// Decides five times for seven jobs under this command; returns the chosen jobs, and the failure.
fn decide(command: &str, limit: Duration) -> (Vec<Vec<JobId>>, Option<FailedPolicy>) {
    let failure = PolicyFailure::default();
    let policy = program(command).start(&config(), limit, failure.clone());
    let mut scheduler = QuantumScheduler::with_policy(config(), policy);
    (0..7).for_each(|job| scheduler.admit(JobSpec::new(JobId(job))));
    let decisions = (0..5).map(|_| scheduler.select().chosen).collect();
    (decisions, failure.get())
}

#[test]
fn a_program_decides_as_the_policy_that_it_copies() {
    let mut scheduler = QuantumScheduler::new(config()).expect("round-robin");
    (0..7).for_each(|job| scheduler.admit(JobSpec::new(JobId(job))));
    let expected: Vec<_> = (0..5).map(|_| scheduler.select().chosen).collect();
    assert_eq!(decide(IN_ORDER, DECISION_TIMEOUT), (expected, None));
}

#[test]
fn every_failure_is_named_and_chooses_nothing() {
    let answering = |answer: &str| format!("read setup; read view; echo '{answer}'; sleep 60");
    for (command, quantum, reason) in [
        ("exit 4".to_owned(), 0, "ended before it answered (exit status: 4)"),
        ("no-such-program-of-memweir 2>&-".to_owned(), 0, "(exit status: 127)"),
        ("read setup; sleep 60".to_owned(), 0, "did not answer within 0.3 s"),
        (answering("maybe"), 0, "answered `maybe`; write a line such as"),
        (answering("{\"jobs\": [0]}"), 0, "chose job 0, which is not waiting; waiting: 1, 2, 3"),
        (answering("{\"jobs\": [1, 1]}"), 0, "chose job 1 twice"),
        (answering("{\"jobs\": [1, 2, 3]}"), 0, "chose jobs for 3 cores; 2 are free"),
        (answering("{\"error\": \"no idea\"}"), 0, "gave up: no idea"),
        (answering("{\"jobs\": []}"), 1, "did not answer within 0.3 s"),
        // Two lines at once, of which the second would pass for the next answer.
        (answering("{\"jobs\": []}\n{\"jobs\": []}"), 1, "before it was asked; write one line"),
    ] {
        let (decisions, failed) = decide(&command, Duration::from_millis(300));
        let failed = failed.unwrap_or_else(|| panic!("{command} goes well"));
        assert_eq!((failed.policy.as_str(), failed.quantum), ("mine", Some(quantum)), "{command}");
        assert!(failed.reason.contains(reason), "{command}: {failed}");
        assert!(decisions.iter().all(|chosen| chosen.len() == 1), "the head alone: {decisions:?}");
    }
}

#[test]
fn nobody_listens() {
    let server = Server::Socket("/no/such/socket".into());
    let program = PolicyProgram { name: "mine".to_owned(), server };
    let failure = PolicyFailure::default();
    drop(program.start(&config(), DECISION_TIMEOUT, failure.clone()));
    let said = failure.get().expect("no listener").to_string();
    assert!(
        said.starts_with("policy `mine` failed: it could not be started: No such file"),
        "{said}"
    );
}

#[test]
fn programs_are_commands_or_sockets_with_or_without_a_name() {
    let parse = |text: &str| text.parse::<PolicyProgram>().map(|p| (p.name, p.server));
    let command = |text: &str| Server::Command(text.to_owned());
    let named = |name: &str, server| Ok((name.to_owned(), server));
    assert_eq!(parse("python3 a.py --x=1"), named("program", command("python3 a.py --x=1")));
    assert_eq!(parse("mine=sh -c 'a=b; c'"), named("mine", command("sh -c 'a=b; c'")));
    assert_eq!(parse("m-1.b=unix:/run/s=1"), named("m-1.b", Server::Socket("/run/s=1".into())));
    assert_eq!(parse("unix:/run/s"), named("program", Server::Socket("/run/s".into())));
    for wrong in ["", "mine=", "mine= "] {
        assert!(parse(wrong).unwrap_err().reason.contains("names no program"), "{wrong}");
    }
    let check = |names: [&str; 2]| {
        let of = |name: &str| PolicyProgram { name: name.to_owned(), server: command("true") };
        PolicyProgram::check_all(&names.map(of)).map_err(|refusal| refusal.reason)
    };
    assert_eq!(check(["a", "b"]), Ok(()));
    assert!(check(["a", "os"]).unwrap_err().contains("is the name of a policy of memweir"));
    assert!(check(["pinned", "b"]).unwrap_err().contains("is the name of a policy of memweir"));
    assert!(check(["a", "a"]).unwrap_err().contains("two policies are called `a`"));
}
