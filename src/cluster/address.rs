//! Addresses of the processes of a cluster.

use std::net::SocketAddr;

use pairloom_base::error::{Error, Result};

/// Refuses an address that other machines reach, unless that is allowed.
///
/// # Errors
/// The address is no loopback address, and `allow_remote` is false.
pub fn check_address(address: SocketAddr, allow_remote: bool) -> Result<()> {
    if allow_remote || address.ip().is_loopback() {
        return Ok(());
    }
    let message = format!(
        "`{address}` can be reached from other machines, and the ports of a cluster have no authentication: whoever \
         reaches them can read the store and use the executors"
    );
    Err(Error::usage(message)
        .hint("listen on 127.0.0.1; or, in a network that only trusted machines reach, add `--allow-remote`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_others_reach_need_permission() {
        let check = |address: &str, allow| check_address(address.parse().unwrap(), allow);
        assert!(check("127.0.0.1:0", false).is_ok() && check("[::1]:0", false).is_ok());
        assert!(check("0.0.0.0:0", false).is_err() && check("192.168.0.1:9", false).is_err());
        assert!(check("0.0.0.0:0", true).is_ok());
    }
}
