//! Metrics for Prometheus while a command runs: a textfile, an HTTP server, or both.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use memweir_core::BytesPerSec;
use memweir_linux::tell;
use memweir_run::files;
use memweir_run::platform::Platform;
use memweir_watch::{Metrics, MetricsServer};

use crate::failure::Failure;
use crate::output;

/// Time between two writes of the textfile. Prometheus scrapes less often.
const TEXTFILE_INTERVAL: Duration = Duration::from_secs(1);

/// Options of commands that export metrics.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct ExportArgs {
    /// Write metrics for the textfile collector of Prometheus's node_exporter
    #[arg(long, value_name = "FILE.prom", value_parser = textfile, help_heading = "Output")]
    metrics_textfile: Option<PathBuf>,
    /// Serve metrics for Prometheus at http://ADDRESS:PORT/metrics; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", help_heading = "Output")]
    metrics_listen: Option<SocketAddr>,
}

/// The collector reads files with this ending alone.
fn textfile(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match path.extension().is_some_and(|ending| ending == "prom") {
        true => Ok(path),
        false => Err("the textfile collector reads names that end in .prom".to_owned()),
    }
}

impl ExportArgs {
    /// Returns true if metrics were requested.
    pub(crate) fn is_wanted(&self) -> bool {
        self.metrics_textfile.is_some() || self.metrics_listen.is_some()
    }

    /// Starts the requested exports. Signals that the command waits for must be blocked.
    pub(crate) fn start(&self, metrics: &Metrics) -> Result<Export, Failure> {
        let textfile = self.metrics_textfile.as_deref();
        output::writable(textfile)?;
        let server = self.metrics_listen.map(|address| {
            MetricsServer::start(address, metrics.clone()).map_err(|error| {
                Failure::Machine(format!("cannot serve metrics at {address}: {error}"))
            })
        });
        let server = server.transpose()?;
        // Behind the server: an export that is refused leaves no file.
        let textfile = textfile.map(|path| Textfile::start(path, metrics.clone())).transpose()?;
        if let Some(server) = &server {
            tell!("metrics at http://{}/metrics", server.address());
        }
        Ok(Export { _server: server, textfile })
    }
}

/// Exports that run until they are finished or dropped.
pub(crate) struct Export {
    _server: Option<MetricsServer>,
    textfile: Option<Textfile>,
}

impl Export {
    /// Ends the exports of a command that did not do its work, and removes the textfile.
    pub(crate) fn withdraw(self) {
        if let Some(textfile) = self.textfile {
            let path = textfile.path.clone();
            let _ = textfile.finish();
            // A device or pipe stays.
            if path.is_file() {
                let _ = std::fs::remove_file(path);
            }
        }
    }

    /// Ends the exports; the textfile keeps the last values.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        self.textfile.map_or(Ok(()), Textfile::finish)
    }
}

/// A thread that writes the textfile.
struct Textfile {
    path: PathBuf,
    stop: Sender<()>,
    thread: JoinHandle<Result<(), Failure>>,
}

impl Textfile {
    fn start(path: &Path, metrics: Metrics) -> Result<Self, Failure> {
        write(path, &metrics)?;
        let (stop, stopped) = channel();
        let path = path.to_owned();
        let writing = path.clone();
        let thread = std::thread::spawn(move || keep_writing(&writing, &metrics, &stopped));
        Ok(Self { path, stop, thread })
    }

    fn finish(self) -> Result<(), Failure> {
        drop(self.stop);
        let ended = self.thread.join();
        ended.unwrap_or_else(|_| Err(Failure::Fault("the writer of metrics panicked".to_owned())))
    }
}

/// Writes the file until told to stop, and then once more. A full disk may have room later, so only
/// the last write counts.
fn keep_writing(path: &Path, metrics: &Metrics, stopped: &Receiver<()>) -> Result<(), Failure> {
    while stopped.recv_timeout(TEXTFILE_INTERVAL) == Err(RecvTimeoutError::Timeout) {
        let _ = write(path, metrics);
    }
    write(path, metrics)
}

fn write(path: &Path, metrics: &Metrics) -> Result<(), Failure> {
    let text = metrics.prometheus_text();
    files::write_atomically(path, text.as_bytes()).map_err(|error| Failure::write(path, error))
}

/// Returns the peak of the user's calibration; `None` where it has none, or cannot be used.
pub(crate) fn calibrated_peak() -> Option<BytesPerSec> {
    Platform::find(None, &mut Vec::new()).ok().flatten()?.peak()
}
