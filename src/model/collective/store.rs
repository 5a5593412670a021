//! A store of keys over TCP, where ranks find each other and leave messages: c10d's `TCPStore`, as `torchrun` runs it.

use std::io::ErrorKind;
use std::net::{Ipv6Addr, TcpListener, ToSocketAddrs};
use std::os::fd::IntoRawFd;
use std::time::Duration;

use az::SaturatingAs;

use super::ffi::Store;
use crate::error::{Error, Result};

/// A client of a store of keys, and in one process its server.
#[derive(Debug)]
pub struct KeyStore {
    pub(super) store: Store,
    port: u16,
}

impl KeyStore {
    /// Opens a store for others: at `host` alone if that is an address of this machine, else at all of its addresses. Port 0
    /// takes any that is free.
    ///
    /// # Errors
    /// The port is taken, or `host` is no name of a machine.
    pub fn serve(host: &str, port: u16, patience: Duration) -> Result<Self> {
        let refused = |error: std::io::Error| Error::stage(format!("cannot listen at `{host}:{port}`: {error}"));
        let listener = match TcpListener::bind((host, port)) {
            // A name that stands for this machine where others are, such as that of a service.
            Err(error) if error.kind() == ErrorKind::AddrNotAvailable => {
                TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).or_else(|_| TcpListener::bind(("0.0.0.0", port)))
            }
            bound => bound,
        };
        let listener = listener.map_err(refused)?;
        let at = listener.local_addr().map_err(refused)?;
        let own = if at.ip().is_unspecified() { "localhost".to_owned() } else { at.ip().to_string() };
        let store = Store::open(&own, at.port(), Some(listener.into_raw_fd()), milliseconds(patience))?;
        Ok(Self { store, port: at.port() })
    }

    /// Connects to the store of another process, which may not be there yet.
    ///
    /// # Errors
    /// Nobody answered for as long as `patience`, or `host` is no name of a machine.
    pub fn connect(host: &str, port: u16, patience: Duration) -> Result<Self> {
        // c10d would try a wrong name until its time is over.
        let mut places = (host, port)
            .to_socket_addrs()
            .map_err(|error| Error::stage(format!("cannot find the machine `{host}`: {error}")))?;
        if places.next().is_none() {
            return Err(Error::stage(format!("machine `{host}` has no address")));
        }
        Ok(Self { store: Store::open(host, port, None, milliseconds(patience))?, port })
    }

    /// Where the server listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Puts a value at a key.
    ///
    /// # Errors
    /// The server is gone.
    pub fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        self.store.set(key, value)
    }

    /// The value at a key, if there is one.
    ///
    /// # Errors
    /// The server is gone.
    pub fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        self.store.get(key)
    }
}

/// A duration as c10d counts it.
pub(super) fn milliseconds(duration: Duration) -> i64 {
    duration.as_millis().saturating_as::<i64>().max(1)
}
