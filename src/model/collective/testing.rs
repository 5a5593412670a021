//! Helpers for tests of several ranks, which are threads of this process.

use std::time::Duration;

use tch::Device;

use super::{CollectiveGroup, TcpStore};
use pairloom_base::runtime::{CancelToken, ProcessGroup, Rendezvous};

/// Address of the stores of tests.
pub(super) const HOST: &str = "127.0.0.1";

/// Process group of a test, for one of its ranks.
pub(super) fn test_process_group(store: &TcpStore, rank: usize, world_size: usize, timeout: Duration) -> ProcessGroup {
    let (host, prefix, token) = (HOST.to_owned(), "test".to_owned(), Some("secret of the test".to_owned()));
    let rendezvous = Rendezvous { host, port: store.port(), prefix, timeout, token, nccl_host_id: None };
    ProcessGroup { rank, world_size, local_rank: rank, rendezvous: Some(rendezvous) }
}

/// Runs `work` on each of `world_size` ranks, and returns their results.
pub(crate) fn on_ranks<T: Send>(world_size: usize, work: impl Fn(CollectiveGroup) -> T + Sync) -> Vec<T> {
    let store = TcpStore::serve(HOST, 0, Duration::from_secs(10), false).unwrap();
    let join = |rank| {
        let group = test_process_group(&store, rank, world_size, Duration::from_secs(10));
        CollectiveGroup::join(&group, Device::Cpu, &CancelToken::new()).unwrap()
    };
    std::thread::scope(|scope| {
        let (join, work) = (&join, &work);
        let threads: Vec<_> = (0..world_size).map(|rank| scope.spawn(move || work(join(rank)))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}
