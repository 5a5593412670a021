//! A real S3 server for tests, and a proxy in front of it that makes the trouble that networks and servers make.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pairloom::io::objects::{Location, Objects};

use crate::support::pairloom;

/// Serves on a port that the system chooses, says which, and ends with its standard input, so however the tests end.
const SERVE: &str = r#"
import os, sys, threading
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
from werkzeug.serving import make_server
from moto.server import DomainDispatcherApplication, create_backend_app
server = make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app), threaded=True)
print(server.server_port, flush=True)
server.serve_forever()
"#;

/// The running server.
pub(crate) struct Server {
    _process: Child,
    port: u16,
}

/// The server, the same for all tests; says so where it is not installed.
pub(crate) fn server() -> Option<&'static Server> {
    static SERVER: OnceLock<Option<Server>> = OnceLock::new();
    let server = SERVER.get_or_init(|| {
        let folder = folder()?;
        let mut python = Command::new("python3");
        python.args(["-c", SERVE]).env("PYTHONPATH", folder.join("packages")).env("PYTHONDONTWRITEBYTECODE", "1");
        let mut process = python.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
        let mut line = String::new();
        BufReader::new(process.stdout.take()?).read_line(&mut line).ok()?;
        Some(Server { port: line.trim().parse().ok()?, _process: process })
    });
    if server.is_none() {
        test_data::absent("no S3 server here (`cargo xtask test` installs one)");
    }
    server.as_ref()
}

/// Where `cargo xtask test` has installed it.
fn folder() -> Option<PathBuf> {
    let version = include_str!("../../xtask/src/server.txt").lines().find_map(|line| line.strip_prefix("moto=="))?;
    let usual = || Some(dirs::cache_dir()?.join(format!("pairloom/moto-{version}")));
    let folder = std::env::var_os("PAIRLOOM_S3_SERVER").map(PathBuf::from).or_else(usual)?;
    folder.join("complete").is_file().then_some(folder)
}

/// A bucket of its own for a test, reached directly or through a proxy.
pub(crate) struct Bucket {
    pub(crate) name: String,
    port: u16,
    /// The folder that programs have for their caches.
    pub(crate) cache: tempfile::TempDir,
}

impl Server {
    /// A new bucket of this name.
    pub(crate) fn bucket(&self, name: &str) -> Bucket {
        let request = format!("PUT /{name} HTTP/1.1\r\nHost: s3\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        let answer = exchange(self.port, request.as_bytes()).unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
        Bucket { name: name.to_owned(), port: self.port, cache: tempfile::tempdir().unwrap() }
    }
}

impl Bucket {
    /// The store in the bucket, as it is named on the command line.
    pub(crate) fn url(&self) -> String {
        format!("s3://{}/some/store", self.name)
    }

    /// The same bucket through a proxy.
    pub(crate) fn through(&self, proxy: &Proxy) -> Self {
        Self { name: self.name.clone(), port: proxy.port, cache: tempfile::tempdir().unwrap() }
    }

    /// How to reach the server.
    fn settings(&self) -> [(String, String); 5] {
        [
            ("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", self.port)),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ACCESS_KEY_ID", "somebody".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", SECRET.to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
    }

    /// `pairloom` with this store.
    pub(crate) fn pairloom(&self, command: &str) -> Command {
        let mut program = pairloom();
        program.arg(command).arg("--store").arg(self.url()).envs(self.settings());
        program.env("XDG_CACHE_HOME", self.cache.path());
        program
    }

    /// The objects of the store.
    pub(crate) fn objects(&self) -> Objects {
        let location = Location::parse(self.url().into()).unwrap().join("v1");
        Objects::open(&location, &self.settings()).unwrap()
    }

    /// Locks that no process holds any more, and that nobody has removed.
    pub(crate) fn locks(&self) -> Vec<String> {
        let folder = std::fs::read_dir(self.cache.path().join("pairloom/claims")).unwrap();
        let names = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name != "machine").collect()
    }
}

/// What no message may show.
pub(crate) const SECRET: &str = "wJalrXUtnFEMI";

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It passes.
    Pass,
    /// The server is asked too much: `503 SlowDown`.
    SlowDown,
    /// The connection ends before the request reaches the server.
    Lost,
    /// The request reaches the server, and the connection ends before the answer.
    Unanswered,
    /// The connection ends in the middle of the answer.
    Cut,
    /// It passes late.
    Late,
    /// It passes without its conditions, as with a server that does not know them.
    Unconditional,
}

/// A proxy.
pub(crate) struct Proxy {
    port: u16,
    refuses: Arc<AtomicBool>,
    ended: Arc<AtomicBool>,
    counts: Arc<[AtomicUsize; 7]>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
    }
}

impl Proxy {
    /// A proxy in front of the server; `fate` decides by the method and the number of a request.
    pub(crate) fn new(server: &Server, fate: impl Fn(&str, usize) -> Fate + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (refuses, ended): (Arc<AtomicBool>, Arc<AtomicBool>) = Default::default();
        let counts: Arc<[AtomicUsize; 7]> = Arc::default();
        let (flag, end, shared, upstream) =
            (Arc::clone(&refuses), Arc::clone(&ended), Arc::clone(&counts), server.port);
        let fate = Arc::new(fate);
        let requests = Arc::new(AtomicUsize::new(0));
        let serve = move || {
            let mut listener = Some(listener);
            while !end.load(Ordering::SeqCst) {
                if flag.load(Ordering::SeqCst) {
                    // Without a listener the system refuses connections.
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
                let (fate, counts, requests) = (Arc::clone(&fate), Arc::clone(&shared), Arc::clone(&requests));
                let pass = move || {
                    // A client that goes away is none of our business.
                    let _ = pass_on(client, upstream, |method| {
                        let fate = fate(method, requests.fetch_add(1, Ordering::SeqCst));
                        counts[fate as usize].fetch_add(1, Ordering::SeqCst);
                        fate
                    });
                };
                std::thread::Builder::new().name("proxied".to_owned()).spawn(pass).unwrap();
            }
        };
        std::thread::Builder::new().name("proxy".to_owned()).spawn(serve).unwrap();
        Self { port, refuses, ended, counts }
    }

    /// From now on connections are refused, or accepted again.
    pub(crate) fn refuse(&self, refuse: bool) {
        self.refuses.store(refuse, Ordering::SeqCst);
    }

    /// Requests that met this fate.
    pub(crate) fn count(&self, fate: Fate) -> usize {
        self.counts[fate as usize].load(Ordering::SeqCst)
    }
}

/// Serves one request of a client, and closes the connection.
fn pass_on(mut client: TcpStream, upstream: u16, fate: impl Fn(&str) -> Fate) -> std::io::Result<()> {
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
    let fate = fate(head[0].split(' ').next().unwrap_or_default());
    match fate {
        Fate::SlowDown => {
            let body = "<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>";
            let length = body.len();
            write!(client, "HTTP/1.1 503 Slow Down\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}")?;
            return client.shutdown(Shutdown::Both);
        }
        Fate::Lost => return client.shutdown(Shutdown::Both),
        Fate::Late => std::thread::sleep(Duration::from_millis(300)),
        _ => {}
    }
    let dropped = |line: &String| {
        let line = line.to_ascii_lowercase();
        let condition = line.starts_with("if-none-match:") || line.starts_with("if-match:");
        line.starts_with("connection:") || fate == Fate::Unconditional && condition
    };
    let mut request: Vec<u8> = head.iter().filter(|line| !dropped(line)).flat_map(|line| line.bytes()).collect();
    request.extend_from_slice(b"Connection: close\r\n\r\n");
    request.extend_from_slice(&body);
    let answer = exchange(upstream, &request)?;
    match fate {
        Fate::Unanswered => {}
        Fate::Cut => client.write_all(&answer[..answer.len() - answer.len().min(20)])?,
        _ => client.write_all(&answer)?,
    }
    client.shutdown(Shutdown::Both)
}

/// The answer of the server to one request.
fn exchange(port: u16, request: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut server = TcpStream::connect(("127.0.0.1", port))?;
    server.write_all(request)?;
    let mut answer = Vec::new();
    server.read_to_end(&mut answer)?;
    Ok(answer)
}
