//! Serving metrics over HTTP: one request and one answer for each connection.
//!
//! Whoever may connect can be slow, on purpose too. Each connection has a thread and a time limit
//! of its own, and there is a limit to the number of connections, so that none keeps the others
//! waiting or takes the memory of the process.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::metrics::Metrics;

/// Type of the answer, which Prometheus asks for.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

/// Prometheus gives up after ten seconds by default.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// Connections at a time. Further ones are closed.
const CONNECTIONS: usize = 32;
/// Bytes of a request.
const LONGEST_REQUEST: usize = 8 << 10;

/// A thread that answers `GET /metrics` until it is dropped.
pub struct MetricsServer {
    address: SocketAddr,
    over: Arc<AtomicBool>,
}

impl MetricsServer {
    /// Listens at `address`; port 0 takes a free one.
    ///
    /// # Errors
    /// The address cannot be had.
    pub fn start(address: SocketAddr, metrics: Metrics) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let server = Self { address: listener.local_addr()?, over: Arc::default() };
        let over = Arc::clone(&server.over);
        thread::Builder::new().name("metrics".to_owned()).spawn(move || {
            let open = Arc::new(());
            for stream in listener.incoming() {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(stream) = stream else {
                    // The process has no descriptor left, for example.
                    thread::sleep(Duration::from_millis(10));
                    continue;
                };
                if Arc::strong_count(&open) <= CONNECTIONS {
                    let (metrics, held) = (metrics.clone(), Arc::clone(&open));
                    let answering = move || {
                        // A client that went away is no concern of anybody's.
                        let _ = Connection::new(stream).answer(&metrics);
                        drop(held);
                    };
                    // Without a thread the connection is closed.
                    let _ = thread::Builder::new().spawn(answering);
                }
            }
        })?;
        Ok(server)
    }

    /// Returns the address at which it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // The thread sees it at the next connection, which is this one.
        let _ = TcpStream::connect(self.address);
    }
}

struct Connection {
    stream: TcpStream,
    deadline: Instant,
}

impl Connection {
    fn new(stream: TcpStream) -> Self {
        Self { stream, deadline: Instant::now() + TIME_LIMIT }
    }

    fn answer(mut self, metrics: &Metrics) -> io::Result<()> {
        let request = self.request()?;
        let mut words = request.split(|byte| *byte == b' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let path = target.split(|byte| *byte == b'?').next();
        let (status, kind, text) = match (path, method) {
            (Some(b"/metrics"), b"GET" | b"HEAD") => ("200 OK", OPENMETRICS, metrics.openmetrics()),
            (Some(b"/metrics"), _) => ("405 Method Not Allowed", TEXT, String::new()),
            _ => ("404 Not Found", TEXT, "memweir: the metrics are at /metrics\n".to_owned()),
        };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n",
            text.len()
        );
        self.write(head.as_bytes())?;
        if method == b"HEAD" { Ok(()) } else { self.write(text.as_bytes()) }
    }

    /// Reads the head of a request. A body is not read.
    fn request(&mut self) -> io::Result<Vec<u8>> {
        let mut request = Vec::new();
        while !request.windows(4).any(|end| end == b"\r\n\r\n") {
            let mut bytes = [0; 1024];
            self.stream.set_read_timeout(Some(self.time_left()?))?;
            match self.stream.read(&mut bytes)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read if request.len() + read > LONGEST_REQUEST => {
                    return Err(io::ErrorKind::InvalidData.into());
                }
                read => request.extend_from_slice(&bytes[..read]),
            }
        }
        Ok(request)
    }

    fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.stream.set_write_timeout(Some(self.time_left()?))?;
            bytes = &bytes[self.stream.write(bytes)?..];
        }
        Ok(())
    }

    fn time_left(&self) -> io::Result<Duration> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server at a free port.
    fn serving(metrics: Metrics) -> MetricsServer {
        MetricsServer::start(SocketAddr::from(([127, 0, 0, 1], 0)), metrics).unwrap()
    }

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        let head = format!("{request} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn metrics_are_served_until_the_server_is_dropped() {
        let metrics = Metrics::default();
        let server = serving(metrics.clone());
        let address = server.address();
        let answer = ask(address, "GET /metrics");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.contains("application/openmetrics-text; version=1.0.0"), "{answer}");
        assert!(answer.contains("memweir_build_info{version=") && answer.contains("# EOF"));
        assert!(ask(address, "GET /").starts_with("HTTP/1.1 404"));
        assert!(ask(address, "POST /metrics").starts_with("HTTP/1.1 405"));
        assert!(MetricsServer::start(address, metrics).is_err(), "the port is taken");
        drop(server);
        // A thread of its own closes the socket.
        let closed = (0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            TcpStream::connect(address).is_err()
        });
        assert!(closed, "the socket is still open");
    }

    #[test]
    fn clients_that_say_or_read_nothing_keep_nobody_waiting() {
        let server = serving(Metrics::default());
        let silent = || TcpStream::connect(server.address()).unwrap();
        let held: Vec<_> = (0..CONNECTIONS - 1).map(|_| silent()).collect();
        assert!(ask(server.address(), "GET /metrics").starts_with("HTTP/1.1 200"));
        // The last thread may not have ended yet.
        let full = (0..500).any(|_| {
            let (mut last, mut closed) = (silent(), silent());
            closed.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
            let full = closed.read(&mut [0]).is_ok_and(|read| read == 0);
            let _ = last.write(b"x");
            full
        });
        assert!(full, "there is no limit to the number of connections");
        drop(held);
        let served = (0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            let mut stream = silent();
            let mut answer = String::new();
            stream.write_all(b"HEAD /metrics?x HTTP/1.0\r\n\r\n").is_ok()
                && stream.read_to_string(&mut answer).is_ok()
                && answer.starts_with("HTTP/1.1 200")
        });
        assert!(served, "the places of clients that went away stay taken");
    }

    #[test]
    fn a_request_without_end_is_refused() {
        let server = serving(Metrics::default());
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(TIME_LIMIT / 2)).unwrap();
        let _ = stream.write_all(&[b'x'; 2 * LONGEST_REQUEST]);
        let end = stream.read(&mut [0]).map_err(|error| error.kind());
        assert!(matches!(end, Ok(0) | Err(io::ErrorKind::ConnectionReset)), "{end:?}");
    }
}
