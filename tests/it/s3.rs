//! S3 server for tests (moto), and a proxy that injects network and server faults.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pairloom_storage::objects::{Location, ObjectStorage};

use crate::support::{pairloom, python};

/// Server program. It prints its port, and ends when its standard input is closed, however the tests end.
const SERVE: &str = r#"
import os, sys, threading
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
from werkzeug.serving import make_server
from moto.server import DomainDispatcherApplication, create_backend_app
server = make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app), threaded=True)
print(server.server_port, flush=True)
server.serve_forever()
"#;

/// Running server.
pub(crate) struct S3Server {
    _process: Child,
    port: u16,
}

/// Returns the server, shared by all tests; `None`, after a message, if it is not installed.
pub(crate) fn server() -> Option<&'static S3Server> {
    static SERVER: OnceLock<Option<S3Server>> = OnceLock::new();
    let server = SERVER.get_or_init(|| {
        let mut python = python()?;
        python.args(["-c", SERVE]);
        let mut process = python.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
        let mut line = String::new();
        BufReader::new(process.stdout.take()?).read_line(&mut line).ok()?;
        Some(S3Server { port: line.trim().parse().ok()?, _process: process })
    });
    server.as_ref()
}

/// Bucket of a test, accessed directly or through a proxy.
pub(crate) struct TestBucket {
    pub(crate) name: String,
    port: u16,
    /// Cache folder of the programs.
    pub(crate) cache: tempfile::TempDir,
}

impl S3Server {
    /// Creates a bucket.
    pub(crate) fn bucket(&self, name: &str) -> TestBucket {
        let request = format!("PUT /{name} HTTP/1.1\r\nHost: s3\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        let answer = exchange(self.port, request.as_bytes()).unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
        TestBucket { name: name.to_owned(), port: self.port, cache: tempfile::tempdir().unwrap() }
    }
}

impl TestBucket {
    /// URL of the store in the bucket.
    pub(crate) fn url(&self) -> String {
        format!("s3://{}/some/store", self.name)
    }

    /// The same bucket through a proxy.
    pub(crate) fn via(&self, proxy: &Proxy) -> Self {
        Self { name: self.name.clone(), port: proxy.port, cache: tempfile::tempdir().unwrap() }
    }

    /// Environment variables for access to the server.
    pub(crate) fn settings(&self) -> [(String, String); 5] {
        [
            ("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", self.port)),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ACCESS_KEY_ID", "somebody".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", SECRET.to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
    }

    /// Command `pairloom` with this store.
    pub(crate) fn pairloom(&self, command: &str) -> Command {
        let mut program = pairloom();
        program.arg(command).arg("--store").arg(self.url()).envs(self.settings());
        program.env("XDG_CACHE_HOME", self.cache.path());
        program
    }

    /// Puts a new object, whose key may be one that no client writes.
    pub(crate) fn put(&self, key: &str, content: &[u8]) {
        let mut path = String::new();
        for byte in key.bytes() {
            let _ = write!(path, "%{byte:02X}");
        }
        let head = format!("PUT /{}/{path} HTTP/1.1\r\nHost: s3\r\nContent-Length: {}\r\n", self.name, content.len());
        let request = [head.as_bytes(), b"Connection: close\r\n\r\n", content].concat();
        let answer = exchange(self.port, &request).unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
    }

    /// Objects below a prefix.
    pub(crate) fn objects_at(&self, prefix: &str) -> ObjectStorage {
        let location = Location::parse(format!("s3://{}/{prefix}", self.name).into()).unwrap();
        ObjectStorage::open(&location, &self.settings()).unwrap()
    }

    /// Objects of the store.
    pub(crate) fn objects(&self) -> ObjectStorage {
        let location = Location::parse(self.url().into()).unwrap().join("v1");
        ObjectStorage::open(&location, &self.settings()).unwrap()
    }

    /// Names of the local lock files of claims that were not removed.
    pub(crate) fn locks(&self) -> Vec<String> {
        let folder = std::fs::read_dir(self.cache.path().join("pairloom/claims")).unwrap();
        let names = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name != "machine").collect()
    }
}

/// Secret key, which no message may contain.
pub(crate) const SECRET: &str = "wJalrXUtnFEMI";

/// Action of the proxy on a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProxyAction {
    /// Forwards the request.
    Forward,
    /// Answers `503 SlowDown`.
    SlowDown,
    /// Closes the connection without forwarding the request.
    DropRequest,
    /// Forwards the request, and closes the connection without the response.
    DropResponse,
    /// Closes the connection in the middle of the response.
    TruncateResponse,
    /// Forwards the request after a delay.
    Delay,
    /// Forwards the request without its conditional headers, as if the server ignored them.
    StripConditions,
}

/// Proxy.
pub(crate) struct Proxy {
    port: u16,
    refuses: Arc<AtomicBool>,
    ended: Arc<AtomicBool>,
    counts: Arc<[AtomicUsize; 7]>,
    /// Number of requests without an answer yet.
    unanswered: Arc<AtomicUsize>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
    }
}

impl Proxy {
    /// Starts a proxy. `action` chooses by the method and the number of a request.
    pub(crate) fn new(server: &S3Server, action: impl Fn(&str, usize) -> ProxyAction + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (refuses, ended): (Arc<AtomicBool>, Arc<AtomicBool>) = Default::default();
        let counts: Arc<[AtomicUsize; 7]> = Arc::default();
        let (flag, end, shared, upstream) =
            (Arc::clone(&refuses), Arc::clone(&ended), Arc::clone(&counts), server.port);
        let action = Arc::new(action);
        let requests = Arc::new(AtomicUsize::new(0));
        let unanswered = Arc::new(AtomicUsize::new(0));
        let waiting = Arc::clone(&unanswered);
        let serve = move || {
            let mut listener = Some(listener);
            while !end.load(Ordering::SeqCst) {
                if flag.load(Ordering::SeqCst) {
                    // Without a listener, the operating system refuses connections.
                    listener = None;
                    std::thread::sleep(Duration::from_millis(10));
                    continue;
                }
                let listening = listener.get_or_insert_with(|| TcpListener::bind(("127.0.0.1", port)).unwrap());
                listening.set_nonblocking(true).unwrap();
                let Ok((client, _)) = listening.accept() else {
                    std::thread::sleep(Duration::from_millis(1));
                    continue;
                };
                let (action, counts, requests) = (Arc::clone(&action), Arc::clone(&shared), Arc::clone(&requests));
                let waiting = Arc::clone(&waiting);
                let pass = move || {
                    let has_request = AtomicBool::new(false);
                    // A client may close its connection at any time.
                    let _ = pass_on(client, upstream, |method| {
                        has_request.store(true, Ordering::SeqCst);
                        waiting.fetch_add(1, Ordering::SeqCst);
                        let action = action(method, requests.fetch_add(1, Ordering::SeqCst));
                        counts[action as usize].fetch_add(1, Ordering::SeqCst);
                        action
                    });
                    if has_request.into_inner() {
                        waiting.fetch_sub(1, Ordering::SeqCst);
                    }
                };
                std::thread::Builder::new().name("proxied".to_owned()).spawn(pass).unwrap();
            }
        };
        std::thread::Builder::new().name("proxy".to_owned()).spawn(serve).unwrap();
        Self { port, refuses, ended, counts, unanswered }
    }

    /// Starts or stops refusing connections.
    pub(crate) fn set_refusing(&self, refuse: bool) {
        self.refuses.store(refuse, Ordering::SeqCst);
    }

    /// True if a request has no answer yet.
    pub(crate) fn is_busy(&self) -> bool {
        self.unanswered.load(Ordering::SeqCst) > 0
    }

    /// Number of requests with this action.
    pub(crate) fn count(&self, action: ProxyAction) -> usize {
        self.counts[action as usize].load(Ordering::SeqCst)
    }
}

/// Handles one request of a client, and closes the connection.
fn pass_on(mut client: TcpStream, upstream: u16, action: impl Fn(&str) -> ProxyAction) -> std::io::Result<()> {
    client.set_nonblocking(false)?;
    let mut reader = BufReader::new(client.try_clone()?);
    let mut head: Vec<String> = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        if line == "\r\n" {
            break;
        }
        head.push(line);
    }
    let field = |name: &str| {
        head.iter().find_map(|line| line.split_once(':').filter(|(field, _)| field.eq_ignore_ascii_case(name)))
    };
    let length = field("content-length").map_or(0, |(_, value)| value.trim().parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let action = action(head[0].split(' ').next().unwrap_or_default());
    match action {
        ProxyAction::SlowDown => {
            let body = "<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>";
            let length = body.len();
            write!(client, "HTTP/1.1 503 Slow Down\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}")?;
            return client.shutdown(Shutdown::Both);
        }
        ProxyAction::DropRequest => return client.shutdown(Shutdown::Both),
        ProxyAction::Delay => std::thread::sleep(Duration::from_millis(300)),
        _ => {}
    }
    let dropped = |line: &String| {
        let line = line.to_ascii_lowercase();
        let condition = line.starts_with("if-none-match:") || line.starts_with("if-match:");
        line.starts_with("connection:") || action == ProxyAction::StripConditions && condition
    };
    let mut request: Vec<u8> = head.iter().filter(|line| !dropped(line)).flat_map(|line| line.bytes()).collect();
    request.extend_from_slice(b"Connection: close\r\n\r\n");
    request.extend_from_slice(&body);
    let answer = exchange(upstream, &request)?;
    match action {
        ProxyAction::DropResponse => {}
        ProxyAction::TruncateResponse => client.write_all(&answer[..answer.len() - answer.len().min(20)])?,
        _ => client.write_all(&answer)?,
    }
    client.shutdown(Shutdown::Both)
}

/// Sends one request to the server. Returns the response.
fn exchange(port: u16, request: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut server = TcpStream::connect(("127.0.0.1", port))?;
    server.write_all(request)?;
    let mut answer = Vec::new();
    server.read_to_end(&mut answer)?;
    Ok(answer)
}
