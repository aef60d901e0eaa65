//! Programs with unusual memory, and one that serves others.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::Signal;

use super::{compile, deliveries, inside, placing, same};
use crate::support::{MEMWEIR, World, send, wait_until};

#[test]
fn a_program_may_answer_page_faults_of_its_own() {
    let Some(world) = placing(&[]) else { return };
    let program = compile(&world, include_str!("uffd.c"), "uffd", &["-pthread"]);
    let Some(program) = program else { return };
    said_by(&world, &program, "no userfaultfd");
    same(&world, &[&program]);
}

#[test]
fn the_kernel_may_hold_pages_of_a_program() {
    let Some(world) = placing(&[]) else { return };
    let Some(program) = compile(&world, include_str!("uring.c"), "uring", &[]) else { return };
    said_by(&world, &program, "no ");
    same(&world, &[&program]);
    let counted_unseen = || {
        same(&world, &[&program, "unseen"]);
        let report = world.json("run.json");
        ["busy", "unmoved_us"].map(|counter| report["counters"][counter].as_u64().expect("a count"))
    };
    // Pages that are found before the kernel holds them are in their colors in time.
    let mut some_were_busy = false;
    for _ in 0..5 {
        let [busy, unmoved] = counted_unseen();
        if unmoved > 0 {
            return;
        }
        some_were_busy |= busy > 0;
    }
    assert!(!some_were_busy, "no page that was held for long was counted");
    memweir_test_support::skip!(Elusive, "no page was held that should have been exchanged");
}

#[test]
fn a_program_may_move_several_mappings_at_once() {
    let Some(world) = placing(&[]) else { return };
    let program = compile(&world, include_str!("mremap.c"), "mremap", &[]);
    let Some(program) = program else { return };
    same(&world, &[&program]);
}

/// Otherwise the stack of a program that has given up root could not grow.
#[test]
fn locked_memory_has_no_limit_but_the_hard_one() {
    let Some(world) = placing(&[]) else { return };
    let script = "ulimit -S -l 64; exec \"$0\" color run --map map.toml --colors 0-3 -- \
                  sh -c 'ulimit -S -l; ulimit -H -l'";
    let mut shell = Command::new("sh");
    let output = shell.args(["-c", script, MEMWEIR]).current_dir(world.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let (soft, hard) = said.trim().split_once('\n').expect("two limits");
    assert_eq!(soft, hard);
}

/// Asserts the output of a python program in colors. A request without an answer would make it wait
/// until the command times out.
fn assert_said(script: &str, expected: &str) {
    let Some(world) = placing(&["python3"]) else { return };
    let mut run = world.memweir();
    run.args(["color", "run", "--map", "map.toml", "--colors", "0-3", "--", "python3", "-c"]);
    let output = run.arg(script).output().expect("memweir runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}

#[test]
fn a_child_whose_helper_has_not_started_drops_memory() {
    let script = "import mmap, os\n\
        m = mmap.mmap(-1, 1 << 20, flags=mmap.MAP_PRIVATE); m[:] = b'x' * len(m)\n\
        for i in range(5):\n\
        \x20   child = os.fork()\n\
        \x20   if child == 0: m.madvise(mmap.MADV_DONTNEED); os._exit(m[0])\n\
        \x20   print(os.waitpid(child, 0)[1], m[0])";
    assert_said(script, &"0 120\n".repeat(5));
}

#[test]
fn a_program_goes_on_without_its_helper() {
    // The helper maps the same memory.
    let script = "import glob, mmap, os\n\
        first = lambda process: open(process + '/maps').readline().split()[0]\n\
        for process in glob.glob('/proc/[0-9]*'):\n\
        \x20   try: helps = open(process + '/comm').read() == 'memweir-color\\n' \\\n\
        \x20       and first(process) == first('/proc/self')\n\
        \x20   except (OSError, IndexError): continue\n\
        \x20   if helps: os.kill(int(process[6:]), 9); print('killed')\n\
        m = mmap.mmap(-1, 1 << 20, flags=mmap.MAP_PRIVATE); m[:] = b'x' * len(m)\n\
        m.resize(1 << 21); print(m[0], m[1 << 20])";
    assert_said(script, "killed\n120 0\n");
}

/// Reports a skip if this machine does not let the program do what it is here for.
fn said_by(world: &World, program: &str, refused: &str) {
    let output = Command::new(program).current_dir(world.path()).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout);
    if said.starts_with(refused) {
        memweir_test_support::skip!(Kernel, "{program} says `{}`", said.trim());
    }
}

/// A redis server, ended when dropped.
struct Redis<'a> {
    world: &'a World,
    server: Child,
}

impl<'a> Redis<'a> {
    fn start(world: &'a World, before: &[&str]) -> Self {
        let arguments = ["redis-server", "--port", "0", "--unixsocket", "socket"];
        let command: Vec<&str> = before.iter().copied().chain(arguments).collect();
        let server = Command::new(command[0])
            .args(&command[1..])
            .args(["--save", "", "--dir", "."])
            .current_dir(world.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("the server starts");
        let redis = Self { world, server };
        wait_until("the server answers", || redis.says(&["ping"]) == "PONG");
        redis
    }

    fn says(&self, command: &[&str]) -> String {
        let mut client = Command::new("redis-cli");
        client.args(["-s", "socket"]).args(command).current_dir(self.world.path());
        let output = client.output().expect("the client starts");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn field(&self, section: &str, key: &str) -> String {
        let info = self.says(&["info", section]);
        let value = info.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        value.unwrap_or_else(|| panic!("{key} in {info}")).trim().to_owned()
    }

    /// Fills it, reads and writes with many clients while it saves twice, and returns the values of
    /// the first keys.
    fn work(&self) -> String {
        let fill = "for i = 1, 20000 do redis.call('set', 'k' .. i, string.rep(i, 20)) end";
        assert_eq!(self.says(&["eval", fill, "0"]), "");
        for _ in 0..2 {
            let mut load = Command::new("redis-benchmark");
            load.args([
                "-s", "socket", "-q", "-n", "20000", "-c", "20", "-r", "10000", "-d", "200",
            ]);
            load.args(["-t", "set,get,lpush,lpop,hset,zadd"]).current_dir(self.world.path());
            let mut load = load.stdout(Stdio::null()).spawn().expect("the load starts");
            self.says(&["bgsave"]);
            assert!(load.wait().expect("the load ends").success());
            wait_until("it has saved", || {
                self.field("persistence", "rdb_bgsave_in_progress") == "0"
            });
            assert_eq!(self.field("persistence", "rdb_last_bgsave_status"), "ok");
        }
        let sum = "local h = '' for i = 1, 20000 do h = redis.sha1hex(h .. redis.call('get', 'k' .. i)) end return h";
        self.says(&["eval", sum, "0"])
    }
}

impl Drop for Redis<'_> {
    fn drop(&mut self) {
        if matches!(self.server.try_wait(), Ok(None)) {
            send(&self.server, Signal::SIGTERM);
        }
        let _ = self.server.wait();
    }
}

#[test]
fn a_server_under_load_stays_inside() {
    let Some(world) = placing(&["redis-server", "redis-benchmark"]) else { return };
    let plain = Redis::start(&world, &[]).work();
    for way in deliveries() {
        std::fs::remove_file(world.path().join("dump.rdb")).expect("the server has saved");
        serves_inside(&world, way, &plain);
    }
}

fn serves_inside(world: &World, way: &str, plain: &str) {
    let colored = ["color", "run", "--map", "map.toml", "--colors", "8-11", "--json", "run.json"];
    let before: Vec<&str> =
        [MEMWEIR].into_iter().chain(colored).chain(["--delivery", way, "--"]).collect();
    let redis = Redis::start(world, &before);
    assert_eq!(redis.work(), plain);
    let pid = redis.field("server", "process_id");
    assert!(Path::new(&format!("/proc/{pid}")).exists());
    let audit = inside(world, &pid);
    assert_eq!(audit["asked"], "8-11");
    assert!(audit["own"]["pages"].as_u64().unwrap() > 2000, "{audit}");
    drop(redis);
    let report = world.json("run.json");
    for none in ["spilled", "waited", "refused", "failed"] {
        assert_eq!(report["counters"][none], 0, "{none}: {report}");
    }
    assert!(report["counters"]["forks"].as_u64().unwrap() >= 2, "{report}");
}

/// Copies that a fork made and another one marked as shared before they could be moved.
#[test]
fn pages_that_two_forks_touched_are_inside_in_the_end() {
    let Some(world) = placing(&["python3"]) else { return };
    let script = "import os, sys, time\n\
        x = bytearray(b'1') * (8 << 20)\n\
        first = os.fork()\n\
        if not first: time.sleep(600)\n\
        for at in range(0, len(x), 4096): x[at] = 50\n\
        second = os.fork()\n\
        if not second: os._exit(0)\n\
        os.waitpid(second, 0); os.kill(first, 9); os.waitpid(first, 0)\n\
        open('p', 'w').write(str(os.getpid())); os.rename('p', 'pid'); sys.stdin.read()\n\
        print(x.count(b'1'), x.count(b'2'))";
    for way in deliveries() {
        let mut run = Command::new(MEMWEIR)
            .args(["color", "run", "--map", "map.toml", "--colors", "0-3", "--delivery", way, "--"])
            .args(["python3", "-c", script])
            .current_dir(world.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("memweir starts");
        wait_until("the children are gone", || world.has("pid"));
        inside(&world, &world.read("pid"));
        drop(run.stdin.take());
        let output = run.wait_with_output().expect("memweir ends");
        assert_eq!(output.stdout, b"8386560 2048\n");
        std::fs::remove_file(world.path().join("pid")).expect("its file");
    }
}
