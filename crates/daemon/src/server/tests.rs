use std::io::{BufRead, BufReader};

use memweir_linux::peer::Credentials;
use memweir_linux::waker::Waker;

use super::guests::MAX_OF_MASTER;
use super::*;
use crate::protocol::{MAX_WAIT_MS, Request, parse_reply, write_request};
use crate::queue::Capacity;
use crate::service::Facts;
use crate::store::Store;

struct Running {
    directory: tempfile::TempDir,
    _server: Server,
}

fn running() -> Running {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(&directory.path().join("queue.sqlite")).unwrap();
    let (owner, waker) = (Credentials::of_this_process().user, Waker::new().unwrap());
    let capacity = Capacity { cores: 1, admit: 1 };
    let service = Service::open(store, capacity, owner, waker, Facts::default()).unwrap();
    let server = Server::bind(&directory.path().join("socket"), owner).unwrap();
    server.start(Arc::new(service)).unwrap();
    Running { directory, _server: server }
}

impl Running {
    fn connect(&self) -> BufReader<UnixStream> {
        BufReader::new(UnixStream::connect(self.directory.path().join("socket")).unwrap())
    }

    /// Checks that the daemon serves others.
    fn serves(&self) {
        let mut stream = self.connect();
        let status = write_request(&Request::Status {});
        assert!(matches!(ask(&mut stream, &status), Some(Reply::Status(_))));
    }
}

fn ask(stream: &mut BufReader<UnixStream>, line: &[u8]) -> Option<Reply> {
    // The daemon may have closed the connection before the end of the line.
    let _ = stream.get_mut().write_all(line);
    let mut reply = Vec::new();
    stream.read_until(b'\n', &mut reply).ok()?;
    parse_reply(&reply).ok()
}

#[test]
fn garbage_is_refused_and_the_connection_goes_on() {
    let daemon = running();
    let mut stream = daemon.connect();
    for garbage in [&b"garbage\n"[..], b"\n", b"\xff\xfe\n", b"{\"version\":9}\n"] {
        assert!(matches!(ask(&mut stream, garbage), Some(Reply::Refused(_))));
    }
    let status = write_request(&Request::Status {});
    assert!(matches!(ask(&mut stream, &status), Some(Reply::Status(_))));
    // Two requests in one write, and one in two.
    stream.get_mut().write_all(&[status.clone(), status.clone()].concat()).unwrap();
    assert!(matches!(ask(&mut stream, b""), Some(Reply::Status(_))));
    assert!(matches!(ask(&mut stream, &status[..10]), Some(Reply::Status(_))));
    assert!(matches!(ask(&mut stream, &status[10..]), Some(Reply::Status(_))));
}

#[test]
fn a_line_that_is_too_long_ends_its_connection() {
    let daemon = running();
    let mut stream = daemon.connect();
    let reply = ask(&mut stream, &vec![b'x'; MAX_LINE + (64 << 10)]);
    // The refusal may be lost with the connection, which has unread data.
    assert!(matches!(reply, Some(Reply::Refused(_)) | None), "{reply:?}");
    assert!(ask(&mut stream, b"\n").is_none());
    daemon.serves();
}

#[test]
fn half_a_line_and_a_client_that_goes_away_harm_nobody() {
    let daemon = running();
    let mut half = daemon.connect();
    half.get_mut().write_all(b"{\"version\":1,").unwrap();
    daemon.serves();
    drop(half);
    let mut gone = daemon.connect();
    let wait = Request::Wait { ids: Vec::new(), timeout_ms: MAX_WAIT_MS };
    gone.get_mut().write_all(&write_request(&wait)).unwrap();
    drop(gone);
    daemon.serves();
}

#[test]
fn one_user_cannot_take_every_connection() {
    let daemon = running();
    let mut crowd: Vec<_> = (0..MAX_OF_MASTER).map(|_| daemon.connect()).collect();
    let status = write_request(&Request::Status {});
    assert!(matches!(ask(&mut crowd[MAX_OF_MASTER - 1], &status), Some(Reply::Status(_))));
    let one_more = ask(&mut daemon.connect(), b"");
    let Some(Reply::Refused(refusal)) = one_more else { panic!("{one_more:?}") };
    assert_eq!(refusal.kind, RefusalKind::Busy);
    drop(crowd);
    // The threads notice one after the other.
    let deadline = Instant::now() + LINE_TIMEOUT;
    while ask(&mut daemon.connect(), &status).is_none_or(|r| matches!(r, Reply::Refused(_))) {
        assert!(Instant::now() < deadline, "no connection was given back");
    }
}

#[test]
fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
    let daemon = running();
    let path = daemon.directory.path().join("socket");
    let error = Server::bind(&path, 0).unwrap_err().to_string();
    assert!(error.contains("another daemon listens there"), "{error}");
    let stale = daemon.directory.path().join("stale");
    drop(UnixListener::bind(&stale).unwrap());
    assert!(stale.exists());
    drop(Server::bind(&stale, 1).unwrap());
    assert!(!stale.exists(), "a server takes its socket with it");
    let file = daemon.directory.path().join("file");
    fs::write(&file, "precious").unwrap();
    let error = Server::bind(&file, 0).unwrap_err().to_string();
    assert!(error.contains("another kind"), "{error}");
    assert_eq!(fs::read(&file).unwrap(), b"precious");
}

#[test]
fn the_socket_of_root_is_open_to_all_and_that_of_a_user_is_not() {
    let directory = tempfile::tempdir().unwrap();
    for (owner, mode) in [(0, 0o666), (1000, 0o600)] {
        let path = directory.path().join(owner.to_string());
        let _server = Server::bind(&path, owner).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode);
    }
}

#[test]
fn of_two_daemons_that_find_a_dead_ones_socket_the_first_keeps_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    drop(UnixListener::bind(&path).unwrap());
    let lock = File::open(directory.path()).unwrap();
    lock.lock().unwrap();
    std::thread::scope(|scope| {
        let second = scope.spawn(|| Server::bind(&path, 0).map(drop));
        // As the first one does while it has the lock.
        fs::remove_file(&path).unwrap();
        let _first = UnixListener::bind(&path).unwrap();
        drop(lock);
        let refusal = second.join().unwrap().unwrap_err().to_string();
        assert!(refusal.contains("another daemon listens"), "{refusal}");
        UnixStream::connect(&path).unwrap();
    });
}
