//! Options of a Flight SQL server.

use std::net::SocketAddr;
use std::time::Duration;

use crate::AccessToken;
use pairloom_base::error::{Error, Result};

/// Options of a Flight SQL server.
#[derive(Debug, Clone)]
pub struct FlightOptions {
    /// Address to listen on. Port 0 means any free port.
    pub address: SocketAddr,
    /// Token that clients need.
    pub token: Option<AccessToken>,
    /// Certificate and key; without them connections are not encrypted.
    pub tls: Option<TlsIdentity>,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_others_reach_need_a_token() {
        let of = |address: &str, token: Option<&str>| FlightOptions {
            address: address.parse().unwrap(),
            token: token.map(|text| AccessToken::new(text).unwrap()),
            tls: None,
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
}
