//! Key-value store over TCP for the rendezvous of ranks and for messages: c10d's `TCPStore`, which `torchrun` also uses;
//! and the secret that signs addresses in it.

use std::io::ErrorKind;
use std::net::{Ipv6Addr, TcpListener, ToSocketAddrs};
use std::os::fd::IntoRawFd;
use std::time::Duration;

use az::SaturatingAs;

use super::ffi::RawStore;
use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::random_bytes;

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
    pub fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        self.store.set(key, value)
    }

    /// Returns the value of a key; `None` if it is not set.
    pub fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        self.store.get(key)
    }
}

/// Duration in milliseconds, at least 1, as c10d takes it.
pub(super) fn milliseconds(duration: Duration) -> i64 {
    duration.as_millis().saturating_as::<i64>().max(1)
}

// Secret by which the ranks of a group know each other.
//
// Addresses in the store are signed with it, so a rank connects to ranks only. A process that connects to a rank in the
// place of another is found out before any rows are exchanged: each rank then sends a random number, and each proves to
// the others that it knows the secret and got the same numbers.

/// Key that follows from the token of the ranks.
pub(super) struct RankSecret([u8; blake3::KEY_LEN]);

impl RankSecret {
    pub(super) fn of(token: &str) -> Self {
        Self(blake3::derive_key("pairloom 2026 collectives of ranks", token.as_bytes()))
    }

    pub(super) fn bytes(&self) -> &[u8; blake3::KEY_LEN] {
        &self.0
    }

    /// Checks that all processes of a group know the secret. `gather` gathers bytes of all ranks; `own` is this rank.
    ///
    /// # Errors
    /// A process does not know it, or is lost.
    pub(super) fn check(&self, own: usize, gather: impl Fn(&[u8]) -> Result<Vec<Vec<u8>>>) -> Result<()> {
        let numbers = gather(&random_bytes::<32>()?)?.concat();
        let proof = |rank: usize| keyed_hash(&self.0, &rank.to_le_bytes(), &numbers);
        let proofs = gather(proof(own).as_bytes())?;
        let wrong = proofs
            .iter()
            .enumerate()
            .find(|(rank, got)| !blake3::Hash::from_slice(got).is_ok_and(|got| got == proof(*rank)));
        match wrong {
            None => Ok(()),
            Some((rank, _)) => {
                Err(Error::peer(format!("a process without the token of the ranks took the place of rank {rank}")))
            }
        }
    }
}

/// Signature of a value. It includes the name, so that a value cannot be moved to another name.
pub(super) fn keyed_hash(secret: &[u8; blake3::KEY_LEN], name: &[u8], value: &[u8]) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new_keyed(secret);
    hasher.update(&(name.len() as u64).to_le_bytes()).update(name).update(value);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_process_without_the_secret_is_named() {
        let secret = RankSecret::of("a");
        let other = |token: &str, place: usize, own: &[u8], numbers: &[u8]| {
            // Random numbers first, then the proof over those of both ranks.
            let proof = keyed_hash(RankSecret::of(token).bytes(), &1usize.to_le_bytes(), numbers);
            if place == 0 { vec![own.to_vec(), vec![7; 32]] } else { vec![own.to_vec(), proof.as_bytes().to_vec()] }
        };
        for (token, is_right) in [("a", true), ("b", false)] {
            let (calls, numbers) = (Cell::new(0), Cell::new(vec![]));
            let checked = secret.check(0, |own| {
                let all = other(token, calls.replace(calls.get() + 1), own, &numbers.take());
                numbers.set(all.concat());
                Ok(all)
            });
            match checked {
                Ok(()) => assert!(is_right),
                Err(error) => assert!(!is_right && error.to_string().ends_with("took the place of rank 1"), "{error}"),
            }
        }
    }
}
