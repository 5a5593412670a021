//! Listening, TLS, and the end of the server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arrow_flight::flight_service_server::FlightServiceServer;
use futures::StreamExt;
use futures::channel::oneshot;
use futures::future::{Either, select};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Identity, Server, ServerTlsConfig};

use crate::authentication::Authentication;
use crate::connections::{ClientConnection, FIRST_CALL_TIME, MAX_CONNECTIONS};
use crate::protocol::FlightProtocol;
use crate::service::FlightSql;
use crate::{FlightOptions, Sessions};
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
        Ok(Self { runtime, incoming, address, server, service, first_call_time: FIRST_CALL_TIME })
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
        let (stopping, stopped) = oneshot::channel();
        let (places, time) = (Arc::new(Semaphore::new(MAX_CONNECTIONS)), self.first_call_time);
        let incoming = self.incoming.then(move |stream| {
            let places = Arc::clone(&places);
            async move {
                let place = places.acquire_owned().await.map_err(std::io::Error::other)?;
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
            tokio::time::sleep(STOP_TIME).await;
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
