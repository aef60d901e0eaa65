//! Wrong usage and wrong input are refused before anything starts; help, completions and manual
//! pages say what the command can do.

use crate::support::{World, refusal, stdout_of};

/// A jobs file whose first job leaves a trace if it is started.
fn refused_file(world: &World, text: &str) -> String {
    let trace = world.path().join("started");
    let first =
        format!("[[jobs]]\nname = \"first\"\ncommand = [\"touch\", \"{}\"]\n", trace.display());
    let (options, jobs) = text.split_once("---\n").unwrap_or(("", text));
    let file = world.file("jobs.toml", &format!("{options}{first}{jobs}"));
    let message = refusal(world.memweir().arg("run").arg(&file), 2);
    assert!(!trace.exists(), "a job was started in spite of: {message}");
    message
}

#[test]
fn wrong_jobs_files_are_refused_with_file_line_and_nearest_choice() {
    // Text before `---` comes before the first job, whose three lines come in between.
    let cases = [
        ("polcy = \"os\"\n---\n", "jobs.toml:1: polcy: unknown key", "did you mean `policy`?"),
        (
            "policy = \"ideal-avg\"\n---\n",
            "jobs.toml:1: policy: unknown policy `ideal-avg`",
            "did you mean `ideal-average`?",
        ),
        (
            "policy = \"hmmsched:alfa=0.3\"\n---\n",
            "jobs.toml:1: policy: bad option `alfa=0.3` of policy `hmmsched`",
            "did you mean `alpha`?",
        ),
        ("cores = \"auto:0\"\n---\n", "jobs.toml:1: cores", "from 1 to"),
        (
            "\nmeter = \"pref\"\n---\n",
            "jobs.toml:2: meter: unknown meter `pref`",
            "did you mean `perf`?",
        ),
        (
            "predictor = \"lst\"\n---\n",
            "jobs.toml:1: predictor: unknown predictor `lst`",
            "did you mean `last`?",
        ),
        ("quantum_ms = -5\n---\n", "jobs.toml:1: quantum_ms", "the shortest is 10 ms"),
        ("quantum_ms = 1e9\n---\n", "jobs.toml:1: quantum_ms", "the longest is 10000 ms"),
        ("cores = 100000\n---\n", "jobs.toml:1: cores", "from 1 to"),
        ("seed = -1\n---\n", "jobs.toml:1: seed", "0 or more"),
        ("[[jobs]]\nname = \"first\"\ncommand = [\"true\"]\n", "jobs.toml:4: ", "`first`"),
        ("[[jobs]]\ncommand = [\"no-such-program\"]\n", "jobs.toml:5: ", "no-such-program"),
        (
            "[[jobs]]\ncomand = [\"true\"]\n",
            "jobs.toml:5: jobs[1].comand: unknown key",
            "`command`",
        ),
        (
            "[[jobs]]\ncommand = [\"true\"]\nexpected_time_s = -3\n",
            "jobs.toml:6: jobs[1].expected_time_s",
            "more than 0",
        ),
        (
            "[[jobs]]\ncommand = [\"true\"]\nexpected_time_s = 1\nread_bandwidth = 1e20\n",
            "jobs.toml:7: jobs[1].read_bandwidth",
            "bytes per second",
        ),
        (
            "[[jobs]]\ncommand = [\"true\"]\ninstances = 0\n",
            "jobs.toml:6: jobs[1].instances",
            "from 1 to",
        ),
        ("[[jobs]]\ncommand = [\"true\"\n", "jobs.toml:", ""),
    ];
    for (text, place, help) in cases {
        let message = refused_file(&World::new(), text);
        assert!(message.contains(place), "{place} is missing in {message}");
        assert!(message.contains(help), "{help} is missing in {message}");
    }
}

#[test]
fn wrong_options_are_refused_with_the_nearest_choice() {
    let cases: [(&[&str], &str); 18] = [
        (&["--policy", "peak-bandwith"], "did you mean `peak-bandwidth`?"),
        (&["--policy", "hmmsched:alpha=2"], "a number from 0 to 1"),
        (&["--policy", "hmmsched:alpha=0.3,no-classes"], "`hmmsched:alpha=0.3:no-classes`"),
        (&["--policy", "os:auto-cores"], "`os` takes none"),
        (&["--predictor", "windw:3"], "window:K"),
        (&["--predictor", "window:0"], "window:1"),
        (&["--meter", "sofware"], "did you mean `software`?"),
        (&["--mechanism", "sigstp"], "did you mean `sigstop`?"),
        (&["--on-exit", "kil"], "did you mean `kill`?"),
        (&["--quantum", "1ms"], "the shortest is 10 ms"),
        (&["--quantum", "100"], "100ms"),
        (&["--cores", "0"], "from 1 to"),
        (&["--cores", "-2"], "from 1 to"),
        (&["--cores", "atuo"], "`auto`"),
        (&["--each", "0"], "100000"),
        (&["--compare", "os,ideal"], "did you mean `ideal-average`?"),
        (&["--compare", "os,hmmsched:no-class"], "did you mean `no-classes`?"),
        (&["--timeline", "x.xls"], "csv"),
    ];
    for (options, help) in cases {
        let world = World::new();
        let trace = world.path().join("started");
        let message =
            refusal(world.memweir().arg("run").args(options).args(["--", "touch"]).arg(&trace), 2);
        assert!(message.contains(help), "{help} is missing in {message}");
        assert!(!trace.exists(), "a job was started in spite of: {message}");
    }
}

#[test]
fn refusals_say_what_would_be_right() {
    let world = World::new();
    world.file("t.txt", "LD 64\n");
    let scenario = "policies = \"os\"\n[[tasks]]\nname = \"a\"\nbandwidth = 1e9\nwork_s = 1\n";
    world.file("s.toml", &format!("machine = \"iabw\"\n{scenario}"));
    let replay = ["dram", "replay", "t.txt", "--memory", "ddr4-2400"];
    let convert = ["dram", "convert", "t.txt"];
    let curve = ["dram", "curve", "--memory", "ddr4-2400"];
    let cases: [(&[&str], &[&str], &str); 25] = [
        (&convert, &["x.bin.gz"], "OUT: `x.bin.gz` would not be compressed"),
        (&convert, &["x.mwt", "--to", "bin"], "names the format memweir, not bin"),
        (&curve, &["--out", "x.json"], "TOML cannot be written as `.json`"),
        (&["dram", "list"], &["--json", "x.csv"], "JSON cannot be written as `.csv`"),
        (
            &replay,
            &["--map", "plian"],
            "--map: unknown layout `plian`\n  help: did you mean `plain`",
        ),
        (&replay, &["--queue", "0"], "--queue: a read queue of 0"),
        (&replay, &["--channels", "3"], "--channels: no bits choose among 3 channels"),
        (&replay, &["--interval", "1us"], "--timeline"),
        (&replay, &["--commands-format", "drampower"], "--commands"),
        (
            &replay,
            &["--page", "open", "--sweep", "page=open,closed", "--out", "d"],
            "--sweep: `page` has values here and another by `--page`",
        ),
        (&replay, &["--sweep", "page=open,closed", "--check"], "leave out `--sweep`"),
        (&replay, &["--shard", "1/2", "--check"], "leave out `--shard` and `--resume`"),
        (&replay, &["--list-points", "--check"], "leave out `--list-points`"),
        (&replay, &["--out", "x.csv"], "--out: is the directory of a sweep"),
        (&["run"], &["--seed", "-1", "--", "true"], "from 0 to 18446744073709551615"),
        (&["sim", "s.toml"], &["--set", "target=4GB/s"], "a number of bytes per second"),
        (&["sim", "s.toml"], &["--set", "quantum_ms=100ms"], "quantum in milliseconds"),
        (&["sim", "s.toml"], &["--set", "policies=os,random"], "`[os,random]`"),
        (&["sim", "s.toml"], &["--svg", "-"], "a plot goes into a file"),
        (
            &["run", "--policy", "os"],
            &["--record", "-", "--", "true"],
            "a record per line goes into",
        ),
        (&["page", "refs", "x.mwt"], &["-"], "this result goes into a file"),
        (&["dram", "replay", "x.mwt"], &["--commands", "-"], "this result goes into a file"),
        (&["reproduce", "iabw"], &["--figure", "99"], "help: valid: "),
        (
            &["emulate", "--machine", "iabw"],
            &["--cores", "auto:99", "--", "true"],
            "99 cores cannot be used",
        ),
        (
            &["emulate", "--machine", "iabw"],
            &["--cores", "atuo", "--", "true"],
            "or `auto`, or `auto:",
        ),
    ];
    for (command, options, said) in cases {
        let message = refusal(world.memweir().args(command).args(options), 2);
        assert!(message.contains(said), "{said} is missing in {message}");
    }
    assert!(!world.has("-"));
    let list = stdout_of(world.memweir().args(["dram", "list"]), 0);
    assert!(!list.contains("see below"), "{list}");
    let said = stdout_of(world.memweir().args(["run", "--policy", "os", "--", "true"]), 0);
    assert!(!said.contains("no meter serves"), "{said}");
}

#[test]
fn wrong_input_files_are_wrong_input_in_every_command() {
    let world = World::new();
    for name in ["letter.toml", "letter"] {
        world.file(name, "dear all, dear all, dear all, dear all, dear all\n");
    }
    world.file("rates", "memweir-segment 1\n");
    world.file("mix.toml", "machine = \"iabw\"\npolicies = \"os\"\n");
    world.file("page.toml", "group = \"Grp. 1\"\n");
    world.file("jobs.toml", "[[jobs]]\ncommand = [\"true\"]\n");
    std::fs::write(world.path().join("latin"), b"true\nsort \xff\n").expect("a list");
    let cases: [(&[&str], &str); 16] = [
        (&["run", "--platform", "letter.toml", "--", "true"], "letter.toml:1: "),
        (&["run", "--store", "letter", "--", "true"], "letter: no profile store"),
        (&["run", "--store", "absent", "--", "true"], "absent: cannot be read"),
        (
            &["run", "--profile-first", "--store", "letter", "--", "true"],
            "letter: no profile store",
        ),
        (&["run", "--from-file", "latin"], "latin:2: is not UTF-8"),
        (&["run", "mix.toml"], "this file is for `memweir sim`"),
        (&["page", "sim", "mix.toml"], "this file is for `memweir sim`"),
        (&["sim", "page.toml"], "this file is for `memweir page sim`"),
        (&["sim", "jobs.toml"], "this file is for `memweir run`"),
        (&["profile", "--store", "letter", "--", "true"], "letter: no profile store"),
        (&["fit", "--platform", "letter.toml", "--", "true"], "letter.toml:1: "),
        (&["store", "--store", "letter", "list"], "letter: no profile store"),
        (&["store", "--store", "absent", "list"], "absent: cannot be read"),
        (&["calibrate", "--check", "--platform", "letter.toml"], "letter.toml:1: "),
        (&["hogsim", "--synthetic", "1GB/s", "--platform", "letter.toml"], "letter.toml:1: "),
        (&["daemon", "--platform", "letter.toml", "--state", "s"], "letter.toml:1: "),
    ];
    for (arguments, said) in cases {
        let message = refusal(world.memweir().args(arguments), 2);
        assert!(message.contains(said), "{arguments:?}: {said} is missing in {message}");
    }
    assert!(!world.has("absent"));
}

#[test]
fn options_that_would_have_no_effect_are_refused() {
    let world = World::new();
    let refused = |arguments: &[&str]| refusal(world.memweir().args(arguments), 2);
    for command in [&["run"][..], &["emulate", "--machine", "iabw"]] {
        for option in [["--repeat", "3"], ["--confidence", "0.9"], ["--results", "r"]] {
            for other in [&["--policy", "os"][..], &["--record", "d"], &[]] {
                let message = refused(&[command, other, &option, &["--", "true"]].concat());
                assert!(message.contains(option[0]), "{message}");
                assert!(message.contains("--compare"), "{message}");
            }
        }
    }
    let paging = ["page", "run", "--dram", "1M", "--nvm", "memfd:1G", "--swap", "x", "--", "true"];
    for (arguments, option) in [
        (&paging[..], "--swap"),
        (&["run", "--caches", "x", "--", "true"], "--caches"),
        (&["run", "--plugin", "x", "--", "true"], "--plugin"),
        (&["run", "--policy", "pinned", "--pin", "--", "true"], "--pin"),
        (&["run", "--map", "x", "--", "true"], "--map: no job has `colors`"),
        (&["daemon", "--events", "x", "--meter", "resctrl"], "events: resctrl counts without"),
        (&["run", "--caches", "x", "--meter", "perf", "--", "true"], "--caches"),
        (&["replay", "x", "--policy", "os", "--policy-timeout", "1s"], "--policy-timeout"),
        (&["hogsim", "x", "--seed", "3"], "--seed"),
        (&["hogsim", "x", "--burstiness", "0.1"], "--burstiness"),
        (&["top", "--watch", "--follow"], "--follow"),
        (&["fit", "--measure", "--store", "s", "--", "true"], "--store"),
        (&["reproduce", "iabw", "--list", "--shard", "1/2"], "--shard"),
    ] {
        let message = refused(arguments);
        assert!(message.contains(option), "{message}");
    }
}

#[test]
fn wrong_numbers_are_refused_in_words() {
    let world = World::new();
    let told = |arguments: &[&str], code| refusal(world.memweir().args(arguments), code);
    for (arguments, code, said) in [
        (&["color", "audit", "abc"][..], 2, "write a whole number"),
        (&["color", "audit", "--watch", "x", "1"], 2, "`x` is no interval"),
        (&["color", "audit", "--watch", "0", "1"], 2, "0.01 to 86400"),
        (&["color", "audit", "4000000"], 2, "there is no process 4000000"),
        (&["hogsim", "--synthetic", "1GB/s", "--burstiness", "x"], 2, "a number such as 0.5"),
        (&["hog", "--array", "16X"], 2, "`16X` is not a size: write"),
        (&["hog", "--array", "100000T"], 3, "no memory for two arrays of"),
        (&["store", "show", "zzz"], 2, "memweir: command line: no entry has a key"),
        (&["fit", "--", "true"], 2, "memweir: fit: "),
    ] {
        let message = told(arguments, code);
        assert!(message.contains(said), "{said} is missing in {message}");
        assert!(!message.contains("invalid digit") && !message.contains("float"), "{message}");
    }
}

#[test]
fn colors_outside_the_map_are_refused_with_the_file_and_the_job() {
    let world = World::new();
    world.file("map.toml", crate::colors::MAP);
    let jobs = "[[jobs]]\nname = \"a\"\ncommand = [\"true\"]\ncolors = \"32\"\n";
    world.file("jobs.toml", jobs);
    let mut run = world.memweir();
    let message = refusal(run.args(["run", "--map", "map.toml", "jobs.toml"]), 2);
    let place = "jobs.toml: job `a`: colors: color 32 is outside the map";
    assert!(message.contains(place), "{message}");
}

#[test]
fn jobs_are_named_in_exactly_one_way() {
    let world = World::new();
    let file = world.file("list", "true\n");
    let message = refusal(world.memweir().arg("run"), 2);
    assert!(message.contains("there are no jobs"), "{message}");
    let message =
        refusal(world.memweir().args(["run", "--from-file"]).arg(&file).args(["--", "true"]), 2);
    assert!(message.contains("more than one way"), "{message}");
    let message = refusal(world.memweir().args(["run", "absent.toml"]), 2);
    assert!(message.contains("absent.toml") && !message.contains("--from-file"), "{message}");
    for unlike in ["gzip", "list"] {
        let message = refusal(world.memweir().args(["run", unlike]), 2);
        assert!(message.contains("a command follows `--`"), "{message}");
    }
    let message = refusal(world.memweir().args(["run", "--", "no-such-program"]), 2);
    assert!(message.contains("no-such-program"), "{message}");
    let message = refusal(world.memweir().args(["run", "--", "true", ":::", ":::", "true"]), 2);
    assert!(message.contains("command 2 is empty"), "{message}");
}

#[test]
fn results_that_cannot_be_written_are_refused_before_the_batch() {
    let world = World::new();
    let trace = world.path().join("started");
    for (option, file) in [("--json", "absent/x.json"), ("--plot", "absent/x.svg")] {
        let run = ["run", option, file, "--", "touch"];
        let message = refusal(world.memweir().args(run).arg(&trace), 4);
        assert!(message.contains(file), "{message}");
        assert!(!trace.exists());
    }
}

#[test]
fn plots_are_svg_and_options_of_commands_stand_behind_dashes() {
    let world = World::new();
    let message = refusal(world.memweir().args(["run", "--plot", "x.png", "--", "true"]), 2);
    assert!(message.contains("a plot cannot be written as `.png`; valid: svg"), "{message}");
    let message = refusal(world.memweir().args(["run", "--policy", "os", "gzip", "-k", "a"]), 2);
    assert!(message.contains("use '-- CMD -k'"), "{message}");
}

#[test]
fn help_teaches_policies_meters_and_exit_codes() {
    let text = stdout_of(World::new().memweir().args(["run", "--help"]), 0);
    for needle in [
        "ideal-average",
        "peak-bandwidth",
        "hmmsched:alpha=NUMBER",
        "NAME:auto-cores",
        "long-job-first",
        "window:K",
        "phase",
        "resctrl",
        "cgroup.freeze",
        "Exit codes:",
        "130",
        ":::",
        "--profile-first",
    ] {
        assert!(text.contains(needle), "{needle} is missing in\n{text}");
    }
    for command in [["dram", "replay"], ["map", "detect"], ["store", "list"]] {
        let text = stdout_of(World::new().memweir().args(command).arg("--help"), 0);
        assert!(text.contains("Exit codes:"), "{text}");
    }
}

#[test]
fn every_shell_gets_completions_that_know_the_options() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = stdout_of(World::new().memweir().args(["completions", shell]), 0);
        assert!(script.contains("profile-first"), "{shell}");
        if ["bash", "zsh", "fish"].contains(&shell) {
            for value in ["long-job-first", "hmmsched", "cgroup-v2", "resctrl", "slowdown"] {
                assert!(script.contains(value), "{shell} does not offer {value}");
            }
        }
        assert!(!script.contains("guardian"), "{shell} offers what is hidden");
    }
    let message = refusal(World::new().memweir().args(["completions", "bsh"]), 2);
    assert!(message.contains("bash"), "{message}");
}

#[test]
fn there_is_a_manual_page_per_command() {
    let world = World::new();
    world.memweir().args(["man", "pages"]).assert().success();
    for page in ["memweir.1", "memweir-run.1", "memweir-profile.1", "memweir-doctor.1"] {
        assert!(world.read(&format!("pages/{page}")).contains(".TH"), "{page}");
    }
    assert!(!world.has("pages/memweir-guardian.1") && !world.has("pages/memweir-help.1"));
    let page = world.read("pages/memweir-page-run.1");
    let synopsis = page.split(".SH SYNOPSIS").nth(1).and_then(|rest| rest.split(".SH").next());
    let synopsis = synopsis.expect("a synopsis").replace("\\-", "-");
    for part in ["--dram <SIZE>", "--nvm <SPEC>", "<CMD>"] {
        assert!(synopsis.contains(part), "`{part}` is missing: {synopsis}");
    }
}
