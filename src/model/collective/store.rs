//! Key-value store over TCP for the rendezvous of ranks and for messages: c10d's `TCPStore`, which `torchrun` also
//! uses.

use std::io::ErrorKind;
use std::net::{Ipv6Addr, TcpListener, ToSocketAddrs};
use std::os::fd::IntoRawFd;
use std::time::Duration;

use az::SaturatingAs;

use super::ffi::RawStore;
use pairloom_base::error::{Error, Result};

/// Client of a key-value store. One of the processes is also the server.
#[derive(Debug)]
pub struct TcpStore {
    pub(super) store: RawStore,
    port: u16,
}

impl TcpStore {
    /// Starts a server and connects to it. The server listens at the address `host`. If this machine lacks that address
    /// and `any_address` is set, it listens at all addresses of this machine: for ranks that know each other by a secret.
    /// Port 0 chooses a free port.
    ///
    /// # Errors
    /// The port is in use, or `host` cannot be resolved or bound.
    pub fn serve(host: &str, port: u16, timeout: Duration, any_address: bool) -> Result<Self> {
        let refused = |error: std::io::Error| Error::stage(format!("cannot listen at `{host}:{port}`: {error}"));
        let listener = match TcpListener::bind((host, port)) {
            Err(error) if error.kind() == ErrorKind::AddrNotAvailable && !any_address => {
                return Err(refused(error).hint(
                    "set `MASTER_ADDR` to an address of this machine, or `PAIRLOOM_RANK_TOKEN` to the same secret on all \
                     ranks: then it listens at all addresses",
                ));
            }
            // `host` may be a name by which only other machines reach this one, such as the name of a service.
            Err(error) if error.kind() == ErrorKind::AddrNotAvailable => {
                TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).or_else(|_| TcpListener::bind(("0.0.0.0", port)))
            }
            bound => bound,
        };
        let listener = listener.map_err(refused)?;
        let at = listener.local_addr().map_err(refused)?;
        let own = if at.ip().is_unspecified() { "localhost".to_owned() } else { at.ip().to_string() };
        let store = RawStore::open(&own, at.port(), Some(listener.into_raw_fd()), milliseconds(timeout))?;
        Ok(Self { store, port: at.port() })
    }

    /// Connects to the server of another process, which may not have started yet.
    ///
    /// # Errors
    /// No server answered within the timeout, or `host` cannot be resolved.
    pub fn connect(host: &str, port: u16, timeout: Duration) -> Result<Self> {
        // c10d would retry a wrong name until the timeout.
        let mut addresses = (host, port)
            .to_socket_addrs()
            .map_err(|error| Error::stage(format!("cannot find the machine `{host}`: {error}")))?;
        if addresses.next().is_none() {
            return Err(Error::stage(format!("machine `{host}` has no address")));
        }
        Ok(Self { store: RawStore::open(host, port, None, milliseconds(timeout))?, port })
    }

    /// Port of the server.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// The server does not answer.
    pub fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        self.store.set(key, value)
    }

    /// Returns the value of a key; `None` if it is not set.
    ///
    /// # Errors
    /// The server does not answer.
    pub fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        self.store.get(key)
    }
}

/// Duration in milliseconds, at least 1, as c10d takes it.
pub(super) fn milliseconds(duration: Duration) -> i64 {
    duration.as_millis().saturating_as::<i64>().max(1)
}
