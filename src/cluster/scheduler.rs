//! Scheduler of a cluster, and the addresses on which its processes may listen.

use std::net::SocketAddr;
use std::sync::Arc;

use ballista_core::error::BallistaError;
use ballista_scheduler::cluster::BallistaCluster;
use ballista_scheduler::config::SchedulerConfig;
use ballista_scheduler::scheduler_process::{create_scheduler, start_grpc_service_with_listener};
use datafusion_proto::protobuf::{LogicalPlanNode, PhysicalPlanNode};
use futures::channel::oneshot;
use futures::future::{Either, select};
use tokio::net::TcpListener;
use tokio::runtime::Builder;

use super::functions::{MAX_MESSAGE_BYTES, PlanCodec, scheduler_state, session_config};
use pairloom_base::error::{Error, Result};
use pairloom_query::error_to_send;

/// Threads of a scheduler, which plans and waits.
const THREADS: usize = 2;

/// Options of a scheduler.
#[derive(Debug, Clone)]
pub struct SchedulerOptions {
    /// Address to listen on. Port 0 means any free port.
    pub address: SocketAddr,
    /// True if the address may be one that other machines reach.
    pub allow_remote: bool,
    /// Seconds after which an executor that is silent counts as dead.
    pub executor_timeout: u64,
}

/// Runs a scheduler until `stop` has a value or its sender is dropped. Calls `listening` with its address, and `refused`
/// with the reason for which a message is refused.
///
/// # Errors
/// The address can be reached by others and that is not allowed, or is in use; the server fails.
pub fn run_scheduler(
    options: &SchedulerOptions,
    listening: impl FnOnce(SocketAddr) -> Result<()>,
    refused: impl Fn(&str) + Send + Sync + 'static,
    stop: oneshot::Receiver<()>,
) -> Result<()> {
    check_address(options.address, options.allow_remote)?;
    let runtime = Builder::new_multi_thread().worker_threads(THREADS).thread_name("scheduler").enable_all().build();
    let runtime = runtime.map_err(|error| Error::stage(format!("cannot start threads for the scheduler: {error}")))?;
    let failed = |error: BallistaError| Error::stage(format!("the scheduler failed: {error}"));
    let served = runtime.block_on(async {
        let listener = TcpListener::bind(options.address).await.map_err(|error| {
            Error::usage(format!("cannot listen on `{}`: {error}", options.address))
                .hint("name another address or port; port 0 means any free port")
        })?;
        let address = listener.local_addr().map_err(|error| Error::stage(format!("the scheduler failed: {error}")))?;
        let config = Arc::new(config(options, address, refused));
        let cluster = BallistaCluster::new_from_config(&config).await.map_err(failed)?;
        let scheduler = create_scheduler::<LogicalPlanNode, PhysicalPlanNode>(cluster, config).await.map_err(failed)?;
        listening(address)?;
        let serves = Box::pin(start_grpc_service_with_listener(listener, scheduler));
        match select(serves, stop).await {
            Either::Left((result, _)) => result.map_err(failed),
            Either::Right(_) => Ok(()),
        }
    });
    runtime.shutdown_background();
    served
}

fn config(
    options: &SchedulerOptions,
    address: SocketAddr,
    refused: impl Fn(&str) + Send + Sync + 'static,
) -> SchedulerConfig {
    let state =
        move |config| scheduler_state(config).inspect_err(|error| refused(&error.message())).map_err(error_to_send);
    SchedulerConfig {
        bind_host: address.ip().to_string(),
        bind_port: address.port(),
        external_host: address.ip().to_string(),
        grpc_server_max_decoding_message_size: MAX_MESSAGE_BYTES,
        grpc_server_max_encoding_message_size: MAX_MESSAGE_BYTES,
        grpc_client_max_message_size: MAX_MESSAGE_BYTES,
        executor_timeout_seconds: options.executor_timeout,
        expire_dead_executor_interval_seconds: (options.executor_timeout / 4).max(1),
        no_executors_grace_period_seconds: 2 * options.executor_timeout,
        override_config_producer: Some(Arc::new(session_config)),
        override_session_builder: Some(Arc::new(state)),
        override_physical_codec: Some(Arc::new(PlanCodec::default())),
        ..SchedulerConfig::default()
    }
}

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
