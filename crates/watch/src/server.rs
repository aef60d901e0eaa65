//! Serving metrics over HTTP.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tiny_http::{Header, Method, Request, Response, Server};

use crate::metrics::Metrics;

/// Type of the answer, which Prometheus asks for.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A thread that answers `GET /metrics` until it is dropped. The socket closes soon after.
pub struct MetricsServer {
    server: Arc<Server>,
    address: SocketAddr,
}

impl MetricsServer {
    /// Listens at `address`; port 0 takes a free one.
    ///
    /// # Errors
    /// The address cannot be had.
    pub fn start(address: SocketAddr, metrics: Metrics) -> io::Result<Self> {
        let server = Arc::new(Server::http(address).map_err(io::Error::other)?);
        let address = server.server_addr().to_ip().unwrap_or(address);
        let answering = Arc::clone(&server);
        std::thread::Builder::new().name("metrics".to_owned()).spawn(move || {
            // The loop ends when the server is unblocked.
            for request in answering.incoming_requests() {
                // A client that went away is no concern of the others.
                let _ = answer(request, &metrics);
            }
        })?;
        Ok(Self { server, address })
    }

    /// Returns the address at which it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        // Its thread may be answering a client that reads nothing, and ends later.
        self.server.unblock();
    }
}

fn answer(request: Request, metrics: &Metrics) -> io::Result<()> {
    let path = request.url().split('?').next().unwrap_or_default();
    let is_read = matches!(request.method(), Method::Get | Method::Head);
    match (path, is_read) {
        ("/metrics", true) => {
            let text = Response::from_string(metrics.openmetrics());
            match Header::from_bytes("Content-Type", OPENMETRICS) {
                Ok(header) => request.respond(text.with_header(header)),
                Err(()) => request.respond(text),
            }
        }
        ("/metrics", false) => request.respond(Response::empty(405)),
        _ => {
            let text = Response::from_string("memweir: the metrics are at /metrics\n");
            request.respond(text.with_status_code(404))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::time::Duration;

    use super::*;

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
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = MetricsServer::start(any, metrics.clone()).unwrap();
        let address = server.address();
        let answer = ask(address, "GET /metrics");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.contains("application/openmetrics-text; version=1.0.0"), "{answer}");
        assert!(answer.contains("memweir_build_info{version=") && answer.contains("# EOF"));
        assert!(ask(address, "GET /").starts_with("HTTP/1.1 404"));
        assert!(ask(address, "POST /metrics").starts_with("HTTP/1.1 405"));
        assert!(MetricsServer::start(address, metrics).is_err(), "the port is taken");
        drop(server);
        // The library closes the socket from a thread of its own.
        let closed = (0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            TcpStream::connect(address).is_err()
        });
        assert!(closed, "the socket is still open");
    }
}
