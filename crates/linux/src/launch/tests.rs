use std::fs;
use std::io::{Read, Seek};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::PermissionsExt;

use super::*;

/// A job of `sh -c script` with its output in a file of its own.
fn shell(script: &str) -> (Launch, File) {
    let output = tempfile::tempfile().unwrap();
    let argv = ["sh", "-c", script].map(OsString::from).to_vec();
    let launch = Launch {
        env: BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())]),
        stdout: output.try_clone().unwrap(),
        stderr: output.try_clone().unwrap(),
        ..Launch::silent("/bin/sh".into(), argv).unwrap()
    };
    (launch, output)
}

fn text(mut file: File) -> String {
    let mut text = String::new();
    file.rewind().unwrap();
    file.read_to_string(&mut text).unwrap();
    text
}

fn run(job: &Launch) -> Exit {
    launch(job, &SpawnTarget::Session).unwrap().exec().unwrap().wait().unwrap()
}

#[test]
fn a_job_gets_its_arguments_environment_directory_and_output() {
    let directory = tempfile::tempdir().unwrap();
    let (mut job, output) = shell("pwd; echo \"$WHO\"; exit 7");
    job.directory = Some(directory.path().to_owned());
    job.env.insert("WHO".into(), "me=you".into());
    let exit = run(&job);
    assert_eq!(exit.ending, Ending::Code(7));
    assert_eq!(text(output), format!("{}\nme=you\n", directory.path().display()));
}

#[test]
fn a_signal_is_told_from_an_exit_code() {
    let (job, _) = shell("kill -TERM $$");
    let exit = run(&job);
    assert_eq!(exit.ending, Ending::Signal(libc::SIGTERM));
    assert_eq!(exit.code(), 128 + 15);
}

#[test]
fn a_job_leads_a_session_and_has_no_files_of_memweirs() {
    // Descriptors without CLOEXEC, as a careless library might leave them.
    let stray = fs::File::open("/dev/null").unwrap();
    // SAFETY: dup makes a descriptor that this test leaves open on purpose.
    let stray = unsafe { libc::dup(stray.as_raw_fd()) };
    assert!(stray > 2);
    let (job, output) = shell("ls /proc/$$/fd; cut -d' ' -f6 /proc/$$/stat; echo $$");
    assert!(run(&job).success());
    let output = text(output);
    let lines: Vec<&str> = output.lines().collect();
    // dash keeps a copy of its script's descriptors above 9 only for files; with -c it has none.
    assert_eq!(lines[..3], ["0", "1", "2"]);
    assert_eq!(lines.len(), 5, "{output}");
    assert_eq!(lines[3], lines[4], "session and process id");
}

#[test]
fn a_job_starts_with_default_signals_whatever_memweir_has() {
    // Rust ignores SIGPIPE, which an exec would hand on.
    let (job, output) = shell("grep -E 'Sig(Blk|Ign)' /proc/self/status");
    assert!(run(&job).success());
    for line in text(output).lines() {
        let mask = u64::from_str_radix(line.split_whitespace().nth(1).unwrap(), 16).unwrap();
        assert_eq!(mask, 0, "{line}");
    }
}

#[test]
fn nothing_of_the_program_runs_before_the_gate_opens() {
    let (job, output) = shell("echo ran");
    let newborn = launch(&job, &SpawnTarget::Session).unwrap();
    let comm = fs::read_to_string(format!("/proc/{}/comm", newborn.pid())).unwrap();
    assert_ne!(comm.trim(), "sh");
    assert_eq!(text(output.try_clone().unwrap()), "");
    newborn.exec().unwrap().wait().unwrap();
    assert_eq!(text(output), "ran\n");
}

#[test]
fn a_newborn_that_is_given_up_is_gone_and_reaped() {
    let (job, output) = shell("echo ran");
    let newborn = launch(&job, &SpawnTarget::Session).unwrap();
    let pid = newborn.pid();
    drop(newborn);
    assert!(!PathBuf::from(format!("/proc/{pid}")).exists());
    assert_eq!(text(output), "");
}

#[test]
fn a_newborn_that_somebody_stops_is_given_up() {
    let (job, output) = shell("echo ran");
    let mut newborn = launch(&job, &SpawnTarget::Session).unwrap();
    newborn.timeout = Duration::from_millis(50);
    newborn.process.as_ref().unwrap().signal(libc::SIGSTOP).unwrap();
    let error = newborn.exec().unwrap_err();
    assert_eq!(error.source.kind(), io::ErrorKind::TimedOut);
    assert!(error.help.unwrap().contains("stopped"));
    assert_eq!(text(output), "");
}

#[test]
fn a_newborn_whose_gate_closes_exits_by_itself() {
    let (job, output) = shell("echo ran");
    let mut newborn = launch(&job, &SpawnTarget::Session).unwrap();
    let mut process = newborn.process.take().unwrap();
    // Drops the newborn, as memweir's death does, while a sibling that was born later is alive.
    let sibling = launch(&job, &SpawnTarget::Session).unwrap();
    drop(newborn);
    assert_eq!(process.wait().unwrap().ending, Ending::Code(0));
    drop(sibling);
    assert_eq!(text(output), "");
}

#[test]
fn exec_failures_come_back_with_errno_and_help() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str, mode: u32| {
        let path = directory.path().join(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    };
    let cases = [
        (directory.path().join("missing"), libc::ENOENT, "does not exist"),
        (file("locked", "#!/bin/sh\n", 0o644), libc::EACCES, "chmod +x"),
        (
            file("orphan", "#!/no/such/interpreter -x\n", 0o755),
            libc::ENOENT,
            "/no/such/interpreter",
        ),
        (file("plain", "echo hello\n", 0o755), libc::ENOEXEC, "#!/bin/sh"),
        (file("empty", "", 0o755), libc::ENOEXEC, "is empty"),
    ];
    for (program, errno, hint) in cases {
        let (mut job, _) = shell("");
        job.program = program.clone();
        let error = launch(&job, &SpawnTarget::Session).unwrap().exec().unwrap_err();
        assert_eq!(error.source.raw_os_error(), Some(errno), "{error}");
        assert!(error.help.as_deref().unwrap_or("").contains(hint), "{error}: {:?}", error.help);
        assert!(error.to_string().contains(program.to_str().unwrap()), "{error}");
    }
}

#[test]
fn a_bad_directory_or_cpu_is_reported_before_exec() {
    let (mut job, _) = shell("");
    job.directory = Some("/no/such/directory".into());
    let error = launch(&job, &SpawnTarget::Session).unwrap_err();
    assert_eq!(error.source.raw_os_error(), Some(libc::ENOENT));
    assert!(error.what.contains("/no/such/directory"));

    let (mut job, _) = shell("");
    job.cpus = vec![100_000];
    let error = launch(&job, &SpawnTarget::Session).unwrap_err();
    assert!(error.what.contains("100000"), "{error}");
}

#[test]
fn a_group_that_is_none_is_reported_before_exec() {
    // Neither the kernel nor the child itself can put a process into an ordinary directory.
    let directory = tempfile::tempdir().unwrap();
    let (job, output) = shell("echo ran");
    let v2 = SpawnTarget::CgroupV2(File::open(directory.path()).unwrap().into());
    for place in [v2, SpawnTarget::CgroupV1(directory.path().to_owned())] {
        let error = launch(&job, &place).unwrap_err();
        assert_eq!(error.source.raw_os_error(), Some(libc::ENOENT), "{error}");
        assert!(error.what.contains("into its cgroup"), "{error}");
    }
    assert_eq!(text(output), "");
}

#[test]
fn a_job_runs_on_its_cpus() {
    let allowed = crate::topology::allowed_cpus().unwrap();
    let last = *allowed.last().unwrap();
    let (mut job, output) = shell("grep Cpus_allowed_list /proc/self/status");
    job.cpus = vec![last];
    assert!(run(&job).success());
    assert_eq!(text(output).split_whitespace().last().unwrap(), last.to_string());
}

#[test]
fn a_nul_byte_is_refused() {
    let (mut job, _) = shell("");
    job.argv.push("a\0b".into());
    assert!(launch(&job, &SpawnTarget::Session).unwrap_err().to_string().contains("NUL"));
}

#[test]
fn the_end_is_visible_through_poll_and_remembered() {
    let (job, _) = shell("exit 3");
    let mut process = launch(&job, &SpawnTarget::Session).unwrap().exec().unwrap();
    let mut fds = [nix::poll::PollFd::new(process.as_fd(), nix::poll::PollFlags::POLLIN)];
    nix::poll::poll(&mut fds, nix::poll::PollTimeout::NONE).unwrap();
    let first = process.try_wait().unwrap().unwrap();
    assert_eq!(first.ending, Ending::Code(3));
    assert_eq!(process.try_wait().unwrap(), Some(first));
    process.signal(libc::SIGKILL).unwrap();
}

#[test]
fn launches_from_many_threads_do_not_disturb_each_other() {
    let threads: Vec<_> = (0..8)
        .map(|n| {
            std::thread::spawn(move || {
                for _ in 0..10 {
                    let (job, output) = shell(&format!("echo {n}; exit {n}"));
                    assert_eq!(run(&job).code(), n);
                    assert_eq!(text(output), format!("{n}\n"));
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn programs_are_found_as_a_shell_finds_them() {
    let directory = tempfile::tempdir().unwrap();
    let (first, second) = (directory.path().join("a"), directory.path().join("b"));
    for (at, name, mode) in [(&first, "frob", 0o644), (&second, "frob", 0o755)] {
        fs::create_dir_all(at).unwrap();
        fs::write(at.join(name), "").unwrap();
        fs::set_permissions(at.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let path = std::env::join_paths([&first, &second]).unwrap();
    // The first match may not be executed, so the search goes on.
    assert_eq!(resolve_program("frob".as_ref(), &path).unwrap(), second.join("frob"));

    let error = resolve_program("forb".as_ref(), &path).unwrap_err();
    assert_eq!(error.help.as_deref(), Some("did you mean `frob`?"));
    let error = resolve_program("frob".as_ref(), first.as_os_str()).unwrap_err();
    assert!(error.reason.contains("may not be executed"), "{error}");
    let error = resolve_program(first.as_os_str(), &path).unwrap_err();
    assert!(error.reason.contains("is a directory"), "{error}");
    let missing = second.join("frbo");
    let error = resolve_program(missing.as_os_str(), &path).unwrap_err();
    assert!(error.reason.contains("does not exist"), "{error}");
    assert!(error.help.unwrap().contains("b/frob"));
    assert!(resolve_program("".as_ref(), &path).is_err());
    assert!(resolve_program("/dev/null".as_ref(), &path).is_err());
}

#[test]
fn a_lack_of_open_files_is_no_fault_of_the_program() {
    let help = |code| LaunchError::new("making a process", io::Error::from_raw_os_error(code)).help;
    assert!(help(libc::EMFILE).is_some_and(|help| help.contains("ulimit -Hn")));
    assert_eq!((help(libc::ENFILE).is_some(), help(libc::EACCES)), (true, None));
}
