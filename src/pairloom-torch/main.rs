//! Program `pairloom-torch`: the command line of `pairloom` with libtorch linked, which stages with tensors need.

use std::time::Duration;

use pairloom_base::error::Result;
use pairloom_cli::{Program, TorchFunctions, main as cli};
use pairloom_engine::ranks::{RendezvousBackend, RendezvousStore};
use pairloom_model::collective::TcpStore;
use pairloom_model::device::to_tch;
use pairloom_neural::run_stage;

fn main() -> std::process::ExitCode {
    let check_device = |device| to_tch(device).map(drop);
    let torch = TorchFunctions { run_stage, check_device, rendezvous: &TorchRendezvous };
    cli(&Program { build: env!("PAIRLOOM_BUILD"), torch: Some(torch), sql: None })
}

/// Rendezvous of ranks by libtorch's `TCPStore`.
#[derive(Debug)]
struct TorchRendezvous;

impl RendezvousBackend for TorchRendezvous {
    fn serve(
        &self,
        host: &str,
        port: u16,
        timeout: Duration,
        any_address: bool,
    ) -> Result<(Box<dyn RendezvousStore>, u16)> {
        let store = TcpStore::serve(host, port, timeout, any_address)?;
        let port = store.port();
        Ok((Box::new(TorchStore(store)), port))
    }

    fn connect(&self, host: &str, port: u16, timeout: Duration) -> Result<Box<dyn RendezvousStore>> {
        Ok(Box::new(TorchStore(TcpStore::connect(host, port, timeout)?)))
    }
}

/// Connection to the store of a rendezvous.
struct TorchStore(TcpStore);

impl RendezvousStore for TorchStore {
    fn put(&self, key: &str, value: &[u8]) -> Result<()> {
        self.0.set(key, value)
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        self.0.get(key)
    }
}
