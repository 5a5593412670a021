//! Server: its options, listening, TLS, connections of clients, and its end. A connection without a call that is allowed ends
//! soon.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use arrow_flight::flight_service_server::FlightServiceServer;
use futures::StreamExt;
use futures::channel::oneshot;
use futures::future::{Either, select};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep};
use tonic::Request;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::server::{Connected, TcpIncoming, TlsConnectInfo};
use tonic::transport::{Identity, Server, ServerTlsConfig};

use crate::authentication::Authentication;
use crate::memory::end_queries_beyond;
use crate::protocol::FlightProtocol;
use crate::queries::RunningQueries;
use crate::service::FlightSql;
use crate::{AccessToken, Sessions};
use pairloom_base::error::{Error, Result, with_causes};

/// Threads that wait for clients. Queries have threads of their own.
const THREADS: usize = 2;
/// Largest message from a client: a batch of the values of parameters.
const MAX_MESSAGE_BYTES: usize = 64 << 20;
/// Calls that a client can have open on one connection.
const MAX_CALLS: u32 = 64;
/// Time between two questions to a client that is silent, and time for its answer. Without one its connection ends.
const KEEP_ALIVE: Duration = Duration::from_mins(1);
/// Time for the handshake of TLS.
const TLS_TIME: Duration = Duration::from_secs(10);
/// Time that running queries have to end after the server was told to stop.
const STOP_TIME: Duration = Duration::from_secs(2);

/// Flight SQL server that listens.
pub struct FlightServer {
    runtime: Runtime,
    incoming: TcpIncoming,
    address: SocketAddr,
    server: Server,
    service: InterceptedService<FlightServiceServer<FlightProtocol>, Authentication>,
    first_call_time: Duration,
    queries: RunningQueries,
    memory: u64,
}

impl FlightServer {
    /// Starts to listen.
    ///
    /// # Errors
    /// The address can be reached by others and there is no token; it is in use; the certificate or the key is wrong.
    pub fn bind(options: FlightOptions, sessions: Arc<Sessions>) -> Result<Self> {
        options.check()?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("flight")
            .enable_all()
            .build()
            .map_err(|error| Error::stage(format!("cannot start threads for the server: {error}")))?;
        let service = FlightSql::new(sessions, &options)?;
        let (queries, memory) = (service.queries(), options.memory);
        let service = FlightServiceServer::new(FlightProtocol(service)).max_decoding_message_size(MAX_MESSAGE_BYTES);
        let service = InterceptedService::new(service, Authentication(options.token));
        let mut server = Server::builder()
            .max_concurrent_streams(MAX_CALLS)
            .http2_keepalive_interval(Some(KEEP_ALIVE))
            .http2_keepalive_timeout(Some(KEEP_ALIVE));
        if let Some(identity) = options.tls {
            let identity = Identity::from_pem(identity.certificate, identity.key);
            let tls = server.tls_config(ServerTlsConfig::new().identity(identity).timeout(TLS_TIME));
            server = tls.map_err(|error| {
                Error::usage(format!("the certificate or its key is wrong: {}", with_causes(&error)))
                    .hint("both are PEM files: `--tls-cert` has the chain of certificates, `--tls-key` the private key")
            })?;
        }
        let context = runtime.enter();
        let incoming = TcpIncoming::bind(options.address).map_err(|error| {
            let error = Error::usage(format!("cannot listen on `{}`: {error}", options.address));
            error.hint("name another address or port; port 0 means any free port")
        })?;
        let incoming = incoming.with_nodelay(Some(true));
        let address = incoming.local_addr();
        let address =
            address.map_err(|error| Error::stage(format!("cannot listen on `{}`: {error}", options.address)))?;
        drop(context);
        Ok(Self { runtime, incoming, address, server, service, first_call_time: FIRST_CALL_TIME, queries, memory })
    }

    /// The same server with another time until the first call of a connection.
    #[cfg(test)]
    pub(super) fn with_first_call_time(self, first_call_time: Duration) -> Self {
        Self { first_call_time, ..self }
    }

    /// Address of the server.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves clients until `stop` has a value or its sender is dropped. Queries that still run then have two seconds.
    ///
    /// # Errors
    /// The socket fails.
    pub fn serve(mut self, stop: oneshot::Receiver<()>) -> Result<()> {
        self.runtime.spawn(end_queries_beyond(self.memory, self.queries));
        let (stopping, stopped) = oneshot::channel();
        let (places, time) = (Arc::new(Semaphore::new(MAX_CONNECTIONS)), self.first_call_time);
        let incoming = self.incoming.then(move |stream| {
            let places = Arc::clone(&places);
            async move {
                let place = places.acquire_owned().await.map_err(io::Error::other)?;
                stream.map(|stream| ClientConnection::new(stream, place, time))
            }
        });
        let served = self.server.add_service(self.service).serve_with_incoming_shutdown(incoming, async move {
            // An error means that the sender was dropped.
            let _ = stop.await;
            let _ = stopping.send(());
        });
        let deadline = async {
            let _ = stopped.await;
            sleep(STOP_TIME).await;
        };
        let ended = self.runtime.block_on(async {
            match select(Box::pin(served), Box::pin(deadline)).await {
                Either::Left((result, _)) => result,
                Either::Right(_) => Ok(()),
            }
        });
        self.runtime.shutdown_background();
        ended.map_err(|error| Error::stage(format!("the server failed: {}", with_causes(&error))))
    }
}

/// Options of a Flight SQL server.
#[derive(Debug, Clone)]
pub struct FlightOptions {
    /// Address to listen on. Port 0 means any free port.
    pub address: SocketAddr,
    /// Token that clients need.
    pub token: Option<AccessToken>,
    /// Certificate and key; without them connections are not encrypted.
    pub tls: Option<TlsIdentity>,
    /// Memory of the process in bytes, beyond which the query ends that began last.
    pub memory: u64,
    /// Memory of each query in bytes.
    pub query_memory: u64,
    /// Time of each query.
    pub query_time: Duration,
    /// Time after which a query ends whose client takes no rows.
    pub reader_time: Duration,
    /// Queries that run at the same time; others wait.
    pub queries: usize,
}

/// Certificate of a server and its private key, both in PEM.
#[derive(Clone)]
pub struct TlsIdentity {
    /// Chain of certificates, that of the server first.
    pub certificate: Vec<u8>,
    /// Private key.
    pub key: Vec<u8>,
}

impl std::fmt::Debug for TlsIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TlsIdentity(…)")
    }
}

impl FlightOptions {
    /// Refuses an address that others can reach, if there is no token.
    ///
    /// # Errors
    /// The address is not a loopback address, and there is no token.
    pub fn check(&self) -> Result<()> {
        if self.token.is_none() && !self.address.ip().is_loopback() {
            return Err(Error::usage(format!(
                "`{}` can be reached from other machines, and there is no token",
                self.address
            ))
            .hint("name a file with a token: `--token-file FILE`; or listen on 127.0.0.1"));
        }
        Ok(())
    }

    /// Warning about tokens and results that others can read, if there is one.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let is_open = self.tls.is_none() && !self.address.ip().is_loopback();
        is_open.then(|| {
            "the token and all results travel without encryption: `--tls-cert` and `--tls-key` turn it on".to_owned()
        })
    }
}

/// Time until the first call that is allowed. A connection needs none of TLS, HTTP/2 or a token to stay until then.
pub(super) const FIRST_CALL_TIME: Duration = Duration::from_secs(30);

/// Connections at a time. Further ones wait until one ends.
pub(super) const MAX_CONNECTIONS: usize = 1_024;

/// Mark of a connection, which is set by its first call that is allowed.
#[derive(Debug, Clone, Default)]
pub(super) struct CallMark(Arc<AtomicBool>);

impl CallMark {
    /// Marks the connection of a request.
    pub(super) fn set_for<T>(request: &Request<T>) {
        let extensions = request.extensions();
        let mark =
            extensions.get::<Self>().or_else(|| extensions.get::<TlsConnectInfo<Self>>().map(TlsConnectInfo::get_ref));
        if let Some(mark) = mark {
            mark.0.store(true, Ordering::Relaxed);
        }
    }
}

/// Connection of a client.
pub(super) struct ClientConnection {
    stream: TcpStream,
    mark: CallMark,
    /// End of the time for a first call.
    deadline: Option<Pin<Box<Sleep>>>,
    _place: OwnedSemaphorePermit,
}

impl ClientConnection {
    /// Connection that ends without a call within `time`. It has a place until it ends.
    pub(super) fn new(stream: TcpStream, place: OwnedSemaphorePermit, time: Duration) -> Self {
        Self { stream, mark: CallMark::default(), deadline: Some(Box::pin(sleep(time))), _place: place }
    }
}

impl Connected for ClientConnection {
    type ConnectInfo = CallMark;

    fn connect_info(&self) -> CallMark {
        self.mark.clone()
    }
}

impl AsyncRead for ClientConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(deadline) = &mut self.deadline
            && deadline.as_mut().poll(context).is_ready()
        {
            if !self.mark.0.load(Ordering::Relaxed) {
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "no call came in time")));
            }
            self.deadline = None;
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for ClientConnection {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, buffer)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::*;
    use crate::testing::{Served, TOKEN};

    #[test]
    fn addresses_that_others_reach_need_a_token() {
        let of = |address: &str, token: Option<&str>| FlightOptions {
            address: address.parse().unwrap(),
            token: token.map(|text| AccessToken::new(text).unwrap()),
            tls: None,
            memory: u64::MAX,
            query_memory: 1,
            query_time: Duration::from_secs(1),
            reader_time: Duration::from_secs(1),
            queries: 1,
        };
        let token = Some("0123456789abcdef");
        for loopback in ["127.0.0.1:0", "127.3.2.1:9", "[::1]:0"] {
            assert!(of(loopback, None).check().is_ok() && of(loopback, None).warning().is_none(), "{loopback}");
        }
        for open in ["0.0.0.0:0", "[::]:0", "192.168.0.1:9", "[::ffff:127.0.0.1]:0"] {
            assert!(of(open, None).check().is_err(), "{open}");
            assert!(of(open, token).check().is_ok() && of(open, token).warning().is_some(), "{open}");
        }
    }

    /// True if the server ends a connection within two seconds.
    fn is_ended(connection: &mut TcpStream) -> bool {
        connection.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        let mut buffer = [0; 64];
        loop {
            match connection.read(&mut buffer) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) => return error.kind() == io::ErrorKind::ConnectionReset,
            }
        }
    }

    #[test]
    fn connections_without_an_allowed_call_end_and_others_stay() {
        let served = Served::with_first_call_time(Some(TOKEN), Duration::from_millis(500));
        let address = served.uri.trim_start_matches("http://").to_owned();
        let connect = || TcpStream::connect(&address).unwrap();
        let mut client = served.client();
        client.set_token(TOKEN.to_owned());
        assert_eq!(served.rows(&mut client, "SELECT 1 AS one").unwrap().num_rows(), 1);
        let (mut silent, mut half) = (connect(), connect());
        half.write_all(b"PRI * HTTP/2.0\r\n").unwrap();
        let mut greeted = connect();
        // HTTP/2 has begun, and no call follows.
        greeted.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
        for (name, connection) in [("silent", &mut silent), ("half", &mut half), ("greeted", &mut greeted)] {
            assert!(is_ended(connection), "{name}");
        }
        std::thread::sleep(Duration::from_millis(600));
        assert_eq!(served.rows(&mut client, "SELECT 1 AS one").unwrap().num_rows(), 1, "the client that called stays");
    }
}
