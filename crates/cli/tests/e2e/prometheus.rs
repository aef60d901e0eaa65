//! Metrics as a real Prometheus reads them, and the queries of the Grafana dashboard.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::support::{World, exists, refusal, send, wait_until};
use crate::watch::SOFTWARE_EVENTS;

const DASHBOARD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/grafana/memweir.json");

/// A calibration with all that metrics show of one.
const PLATFORM: &str = r#"
[peak]
bandwidth = 8e9
saturation = 7e9
kernel = "copy"
instances = 2
[target]
status = "measured"
coefficients = [1.0, 0.5, 0.0]
from = 1e9
to = 1e10
r_squared = 0.9
"#;

/// Two jobs that take turns on one core until they are killed.
const JOBS: &str = r#"
policy = "ideal-average"
meter = "declared"
quantum_ms = 50
cores = 1
[[jobs]]
name = "spin"
command = ["sh", "-c", "while :; do :; done"]
expected_time_s = 100
read_bandwidth = 2e9
write_bandwidth = 1e9
instances = 2
"#;

/// Parts of queries that find nothing on a machine without resctrl and Slurm, where no meter fails.
const MAY_BE_EMPTY: [&str; 3] = ["resctrl", "slurm_jobid!=", "meter_errors"];

/// A Prometheus that scrapes some memweirs.
struct Prometheus {
    child: Child,
    port: u16,
}

impl Prometheus {
    /// Starts it in the directory of `world`.
    fn start(world: &World, targets: &[String]) -> Self {
        // It takes no port 0: choose a free one.
        let free = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = free.local_addr().expect("an address").port();
        drop(free);
        let config = world.file(
            "prometheus.yml",
            &format!(
                "global: {{ scrape_interval: 1s }}\nscrape_configs:\n- job_name: memweir\n  \
                 static_configs: [{{ targets: {targets:?} }}]\n"
            ),
        );
        let checked = Command::new("promtool").arg("check").arg("config").arg(&config).output();
        assert!(checked.expect("promtool").status.success());
        let log = std::fs::File::create(world.path().join("prometheus.log")).expect("a file");
        let child = world
            .surrounded(Command::new("prometheus"))
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .arg("--storage.tsdb.path=tsdb")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("prometheus starts");
        Self { child, port }
    }

    /// The samples that a query finds; `None` before it answers at all.
    fn query(&self, query: &str) -> Option<Vec<Value>> {
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let body =
            get(&format!("127.0.0.1:{}", self.port), &format!("/api/v1/query?query={encoded}"))?;
        // It answers with other text until it is ready.
        let answer: Value = serde_json::from_str(&body).ok()?;
        assert_eq!(answer["status"], "success", "{query}: {answer}");
        answer["data"]["result"].as_array().cloned()
    }

    /// Waits until a query finds something.
    fn wait_for(&self, query: &str) -> Vec<Value> {
        let mut found = Vec::new();
        wait_until(query, || {
            found = self.query(query).unwrap_or_default();
            !found.is_empty()
        });
        found
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The body of an answer.
pub(crate) fn get(address: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned())
}

/// The address that a memweir serves metrics at.
fn address(world: &World) -> String {
    let mut found = String::new();
    wait_until("the address of the metrics is printed", || {
        let text = world.read("stderr");
        let rest = text.split_once("http://").and_then(|(_, rest)| rest.split_once("/metrics"));
        found = rest.map(|(address, _)| address.to_owned()).unwrap_or_default();
        !found.is_empty()
    });
    found
}

fn batch(world: &World) -> Child {
    world.calibrated(PLATFORM);
    world.file("jobs.toml", JOBS);
    let run = ["run", "--platform", "platform.toml", "jobs.toml"];
    let metrics = ["--metrics-listen", "127.0.0.1:0", "--metrics-textfile", "batch.prom"];
    world.start(&[&run[..], &metrics].concat())
}

/// The expressions of the dashboard with its variables replaced.
fn queries() -> Vec<String> {
    let text = std::fs::read_to_string(DASHBOARD).expect("the dashboard");
    let dashboard: Value = serde_json::from_str(&text).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().expect("targets"));
    targets
        .map(|target| target["expr"].as_str().expect("an expression"))
        .map(|expr| expr.replace("$__rate_interval", "10s").replace("$instance", ".*"))
        .collect()
}

#[test]
fn prometheus_reads_the_metrics_and_answers_every_query_of_the_dashboard() {
    if !exists("prometheus") || !exists("promtool") {
        return;
    }
    let (world, watching) = (World::new(), World::new());
    let mut batch = batch(&world);
    let watch = ["watch", "--interval", "500ms", "--metrics-listen", "127.0.0.1:0"];
    let mut watch = watching.start(&[&watch[..], &["--events", SOFTWARE_EVENTS]].concat());
    let targets = [address(&world), address(&watching)];
    let prometheus = Prometheus::start(&world, &targets);
    for query in queries() {
        match MAY_BE_EMPTY.iter().any(|part| query.contains(part)) {
            true => wait_until(&query, || prometheus.query(&query).is_some()),
            false => drop(prometheus.wait_for(&query)),
        }
    }
    assert_eq!(prometheus.wait_for("up == 1").len(), 2);
    let blocked = prometheus.wait_for("memweir_job_blocked_seconds_total > 0");
    let name = blocked[0]["metric"]["name"].as_str().expect("a name");
    assert!(name.starts_with("spin"), "{name}");
    assert_eq!(blocked[0]["metric"]["job"], "memweir", "Prometheus's own label");
    // Declared 2 GB/s and 1 GB/s while a job runs, and one runs at a time.
    let read =
        "sum(rate(memweir_job_memory_bytes_total{direction=\"read\",meter=\"declared\"}[10s]))";
    let write = read.replace("read", "write");
    let ratio = prometheus.wait_for(&format!("{read} / {write}"));
    let ratio: f64 = ratio[0]["value"][1].as_str().expect("a value").parse().expect("a number");
    assert!((ratio - 2.0).abs() < 0.1, "{ratio}");
    assert_eq!(prometheus.wait_for("memweir_peak_bytes_per_second")[0]["value"][1], "8000000000");
    send(&batch, Signal::SIGTERM);
    send(&watch, Signal::SIGTERM);
    assert_eq!(batch.wait().expect("a child").code(), Some(130));
    assert_eq!(watch.wait().expect("a child").code(), Some(0));
}

#[test]
fn promtool_accepts_the_textfile_of_a_batch() {
    let Some(world) = World::with(&["promtool"]) else { return };
    let mut batch = batch(&world);
    wait_until("the textfile has the traffic", || {
        world.has("batch.prom")
            && world.read("batch.prom").contains("memweir_job_memory_bytes_total")
    });
    send(&batch, Signal::SIGTERM);
    batch.wait().expect("a child");
    let text = world.read("batch.prom");
    assert!(text.contains("memweir_jobs{state=\"ended\"} 2"), "{text}");
    assert!(!text.contains("{job=") && !text.contains(",job="), "{text}");
    assert_accepted(&world, "batch.prom");
}

/// Asserts that promtool has nothing to say about a textfile.
pub(crate) fn assert_accepted(world: &World, textfile: &str) {
    let file = std::fs::File::open(world.path().join(textfile)).expect("a file");
    let mut promtool = Command::new("promtool");
    let checked = promtool.args(["check", "metrics"]).stdin(file).output().expect("promtool");
    let told = String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success() && told.is_empty(), "{told}");
}

#[test]
fn exports_that_cannot_be_are_refused() {
    let world = World::new();
    let taken = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let watch = |arguments: &[&str], code| {
        refusal(world.memweir().args(["watch", "--for", "1s"]).args(arguments), code)
    };
    let both = ["--metrics-listen", &address, "--record", "x.parquet"];
    assert!(watch(&both, 3).contains(&address));
    assert!(!world.has("x.parquet.partial.csv"));
    let both = ["--metrics-listen", &address, "--metrics-textfile", "x.prom"];
    assert!(watch(&both, 3).contains(&address));
    assert!(!world.has("x.prom"));
    let both = ["--metrics-textfile", "x.prom", "--record", "/proc/x.parquet"];
    assert!(watch(&both, 4).contains("/proc/x.parquet"));
    assert!(!world.has("x.prom"));
    assert!(watch(&["--metrics-listen", "9900"], 2).contains("--metrics-listen"));
    assert!(watch(&["--metrics-textfile", "x.txt"], 2).contains(".prom"));
    assert!(watch(&["--metrics-textfile", "/proc/x.prom"], 4).contains("/proc/x.prom"));
}

#[test]
fn a_batch_that_is_refused_leaves_no_metrics() {
    let world = World::new();
    world.file("jobs.toml", JOBS);
    let arguments = ["run", "--metrics-textfile", "x.prom", "--platform", "none.toml", "jobs.toml"];
    refusal(world.memweir().args(arguments), 2);
    assert!(!world.has("x.prom"));
}

#[test]
fn a_comparison_that_cannot_go_on_leaves_the_metrics_of_its_runs() {
    let world = World::new();
    world.calibrated(PLATFORM);
    let compare = ["run", "--compare", "os,round-robin", "--platform", "platform.toml"];
    let lost = ["--metrics-textfile", "x.prom", "--", "rm", "platform.toml"];
    world.memweir().args(compare).args(lost).assert().code(2);
    assert!(world.read("x.prom").contains("memweir_job_cpu_seconds_total"), "one run was made");
}
