//! Connections of clients. One without a call that is allowed ends soon.

use std::io::{Error, ErrorKind, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Sleep, sleep};
use tonic::Request;
use tonic::transport::server::{Connected, TlsConnectInfo};

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
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        if let Some(deadline) = &mut self.deadline
            && deadline.as_mut().poll(context).is_ready()
        {
            if !self.mark.0.load(Ordering::Relaxed) {
                return Poll::Ready(Err(Error::new(ErrorKind::TimedOut, "no call came in time")));
            }
            self.deadline = None;
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for ClientConnection {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &[u8]) -> Poll<Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, buffer)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[std::io::IoSlice<'_>],
    ) -> Poll<Result<usize>> {
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
    use std::time::Duration;

    use crate::testing::{Served, TOKEN};

    /// True if the server ends a connection within two seconds.
    fn is_ended(connection: &mut TcpStream) -> bool {
        connection.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
        let mut buffer = [0; 64];
        loop {
            match connection.read(&mut buffer) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
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
