//! Executor of a cluster, and its folder for the rows that other processes fetch and for temporary files.

use std::cell::Cell;
use std::fs::{DirBuilder, File, TryLockError};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ballista_core::error::BallistaError;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_executor::executor_server::TERMINATING;
use ballista_executor::health::ExecutorHealth;
use datafusion::error::DataFusionError;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use futures::future::{Either, select};
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::functions::{MAX_MESSAGE_BYTES, PlanCodec, executor_functions, session_config};
use super::plan_runner::wait_for_scheduler;
use super::scheduler::check_address;
use super::store_id::{StoreCheck, StoreRegistry};
use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::{ClusterUrl, random_hex};
use pairloom_store::Store;

/// Time for which an executor waits for its scheduler, in seconds.
const CONNECT_SECONDS: u16 = 60;
/// Seconds between two signs of life.
const HEARTBEAT_SECONDS: u64 = 2;
/// Seconds after which rows that nobody fetched are removed, and between two looks for them.
const ROWS_SECONDS: [u64; 2] = [24 * 3600, 600];
/// Pause between two looks if the scheduler has answered.
const PAUSE: Duration = Duration::from_millis(50);

/// Time that a task of another store takes, so that the executor has ended before it gets the task again.
const WRONG_STORE_PAUSE: Duration = Duration::from_secs(5);

/// Options of an executor.
#[derive(Debug, Clone)]
pub struct ExecutorOptions {
    /// Scheduler.
    pub scheduler: ClusterUrl,
    /// Address of the network interface to listen on.
    pub address: IpAddr,
    /// True if the address may be one that other machines reach.
    pub allow_remote: bool,
    /// Name or address under which other processes reach this one; the address that it listens on without it.
    pub external_host: Option<String>,
    /// Ports: for rows, and for tasks. Port 0 means any free port.
    pub ports: [u16; 2],
    /// Threads that run tasks.
    pub threads: usize,
    /// Memory of the sorts, groups and joins of a query on one thread, in bytes.
    pub query_memory: u64,
    /// Folder for the rows that other processes fetch, and for temporary files.
    pub folder: PathBuf,
}

/// Event of an executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecutorEvent {
    /// The scheduler has answered.
    Ready,
    /// The scheduler does not answer any more: the executor waits for another one at the same address.
    LostScheduler,
    /// A first signal came: the executor takes no more tasks, and ends with those it has.
    Stopping,
}

/// Runs an executor until a signal ends it; the second signal ends its tasks too. Before it serves a scheduler the first one
/// ends it at once. Without a scheduler it waits for one
/// for a minute. Calls `report` for each event.
///
/// # Errors
/// The address can be reached by others and that is not allowed; the scheduler does not answer, or has another build; the
/// folder cannot be
/// written; the executor fails.
pub fn run_executor(
    options: &ExecutorOptions,
    store: &Store,
    report: impl Fn(ExecutorEvent) -> Result<()>,
) -> Result<()> {
    check_address(SocketAddr::new(options.address, 0), options.allow_remote)?;
    let folder = ExecutorFolder::create(&options.folder)?;
    let runtime = Builder::new_multi_thread().thread_name("executor").enable_all().build();
    let runtime = runtime.map_err(|error| Error::stage(format!("cannot start threads for the executor: {error}")))?;
    let served = runtime.block_on(async {
        let mut signals = Signals::new()?;
        while serve(options, store, &folder, &mut signals, &report).await? == ExecutorEnd::LostScheduler {
            report(ExecutorEvent::LostScheduler)?;
        }
        Ok(())
    });
    runtime.shutdown_background();
    served
}

/// Way in which an executor ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExecutorEnd {
    Stopped,
    LostScheduler,
}

/// Serves one scheduler until a signal comes, or the scheduler does not answer any more.
async fn serve(
    options: &ExecutorOptions,
    store: &Store,
    folder: &ExecutorFolder,
    signals: &mut Signals,
    report: &impl Fn(ExecutorEvent) -> Result<()>,
) -> Result<ExecutorEnd> {
    let failed = |error: BallistaError| {
        Error::stage(format!("the executor failed: {error}")).hint(format!(
            "the scheduler must run at {}; start it with `pairloom cluster scheduler`",
            options.scheduler
        ))
    };
    let health = ExecutorHealth::new();
    let store_check = Arc::new(StoreCheck::new(store));
    let config = Arc::new(config(options, store, folder, health.clone(), Arc::clone(&store_check))?);
    // Without a scheduler there are no tasks, so the first signal ends the process.
    let wait = wait_for_scheduler(&options.scheduler, Duration::from_secs(CONNECT_SECONDS.into()));
    match select(pin!(signals.next()), pin!(wait)).await {
        Either::Left(_) => return Ok(ExecutorEnd::Stopped),
        Either::Right((found, _)) => found?,
    }
    // The end of the service for a lost scheduler has set it, and an executor whose signs of life say so gets no tasks.
    TERMINATING.store(false, Ordering::Release);
    let serves = Box::pin(start_executor_process(config));
    let is_ready = Box::pin(async {
        while !health.is_ready() {
            tokio::time::sleep(PAUSE).await;
        }
    });
    let serves = match select(pin!(signals.next()), select(serves, is_ready)).await {
        Either::Left(_) => return Ok(ExecutorEnd::Stopped),
        Either::Right((Either::Left((result, _)), _)) => {
            return store_check.result().and(result.map(|()| ExecutorEnd::Stopped).map_err(failed));
        }
        Either::Right((Either::Right(((), serves)), _)) => serves,
    };
    report(ExecutorEvent::Ready)?;
    let has_stopped = Cell::new(false);
    let is_stopped = Box::pin(async {
        signals.next().await;
        has_stopped.set(true);
        report(ExecutorEvent::Stopping)?;
        signals.next().await;
        Ok(())
    });
    let serves = Box::pin(async {
        match select(serves, pin!(store_check.is_wrong())).await {
            Either::Left((result, _)) => store_check.result().and(result.map_err(failed)),
            Either::Right((wrong, _)) => Err(wrong),
        }
    });
    // The signal is seen before the end that it causes.
    match select(is_stopped, serves).await {
        Either::Left((stopped, _)) => stopped.and(Err(Error::interrupted())),
        Either::Right((result, _)) => {
            result?;
            Ok(if has_stopped.get() { ExecutorEnd::Stopped } else { ExecutorEnd::LostScheduler })
        }
    }
}

/// Signals that end a process, beside Ballista's own listeners.
struct Signals([Signal; 2]);

impl Signals {
    fn new() -> Result<Self> {
        let listen =
            |kind| signal(kind).map_err(|error| Error::internal(format!("cannot install a signal handler: {error}")));
        Ok(Self([listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?]))
    }

    async fn next(&mut self) {
        let [interrupt, terminate] = &mut self.0;
        select(pin!(interrupt.recv()), pin!(terminate.recv())).await;
    }
}

fn config(
    options: &ExecutorOptions,
    store: &Store,
    folder: &ExecutorFolder,
    health: ExecutorHealth,
    store_check: Arc<StoreCheck>,
) -> Result<ExecutorProcessConfig> {
    let external = |error: DataFusionError| Error::internal(error.to_string());
    let registry = Arc::new(StoreRegistry::new(store).map_err(external)?);
    let [port, grpc_port] = free_ports(options)?;
    let work_dir = folder.path.display().to_string();
    let temporary = folder.path.clone();
    Ok(ExecutorProcessConfig {
        bind_host: options.address.to_string(),
        external_host: Some(options.external_host.clone().unwrap_or_else(|| options.address.to_string())),
        port,
        grpc_port,
        scheduler_host: options.scheduler.host.clone(),
        scheduler_port: options.scheduler.port,
        scheduler_connect_timeout_seconds: CONNECT_SECONDS,
        vcores: options.threads,
        work_dir: Some(work_dir),
        job_data_ttl_seconds: ROWS_SECONDS[0],
        job_data_clean_up_interval_seconds: ROWS_SECONDS[1],
        grpc_max_decoding_message_size: MAX_MESSAGE_BYTES,
        grpc_max_encoding_message_size: MAX_MESSAGE_BYTES,
        executor_heartbeat_interval_seconds: HEARTBEAT_SECONDS,
        memory_pool_size: Some(options.query_memory.saturating_mul(options.threads as u64)),
        override_function_registry: Some(Arc::new(executor_functions(store).map_err(external)?)),
        override_runtime_producer: Some(Arc::new(move |config| {
            store_check.check(config.options()).inspect_err(|_| std::thread::sleep(WRONG_STORE_PAUSE))?;
            RuntimeEnvBuilder::new()
                .with_object_store_registry(Arc::<StoreRegistry>::clone(&registry))
                .with_temp_file_path(temporary.clone())
                .build_arc()
        })),
        override_config_producer: Some(Arc::new(session_config)),
        override_physical_codec: Some(Arc::new(PlanCodec::default())),
        health,
        ..ExecutorProcessConfig::default()
    })
}

/// Ports of an executor, free ones in place of 0.
fn free_ports(options: &ExecutorOptions) -> Result<[u16; 2]> {
    let failed = |port: u16, error: std::io::Error| {
        Error::usage(format!("cannot listen on `{}`: {error}", SocketAddr::new(options.address, port)))
            .hint("name another address or port; port 0 means any free port")
    };
    let listen = |port: u16| {
        let listener = TcpListener::bind((options.address, port));
        let bound = listener.and_then(|listener| Ok((listener.local_addr()?.port(), listener)));
        bound.map_err(|error| failed(port, error))
    };
    // Both are held until both are known. They are free for a moment before the server listens.
    let [(rows, _rows), (tasks, _tasks)] = [listen(options.ports[0])?, listen(options.ports[1])?];
    Ok([rows, tasks])
}

/// Start of the name of an executor's folder. Sixteen hexadecimal digits follow.
const PREFIX: &str = "pairloom-executor-";

/// Folder of this process, which is removed at its end. It is locked (`flock`) while the process lives; a later executor
/// removes the folder of one that was killed.
#[derive(Debug)]
pub(super) struct ExecutorFolder {
    pub(super) path: PathBuf,
    /// Holds the lock.
    _folder: File,
}

impl ExecutorFolder {
    /// Makes a folder in `parent`, which is made too, and removes the folders there whose executors were killed.
    ///
    /// # Errors
    /// A folder cannot be made.
    pub(super) fn create(parent: &Path) -> Result<Self> {
        std::fs::create_dir_all(parent).map_err(|error| Error::io("make the folder", parent, &error))?;
        loop {
            let path = parent.join(format!("{PREFIX}{}", random_hex::<8>()?));
            let failed = |error: std::io::Error| Error::io("make the folder", &path, &error);
            DirBuilder::new().mode(0o700).create(&path).map_err(failed)?;
            // Before it is locked, another executor may take it for an abandoned one. Then a new one is made.
            let folder = match File::open(&path) {
                Ok(folder) => folder,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(failed(error)),
            };
            if matches!(folder.try_lock(), Err(TryLockError::WouldBlock)) || !path.is_dir() {
                continue;
            }
            let made = Self { path, _folder: folder };
            made.remove_abandoned(parent);
            return Ok(made);
        }
    }

    /// Removes other folders of this user that nobody holds. On a disk without locks none counts as abandoned.
    fn remove_abandoned(&self, parent: &Path) {
        let (Ok(own), Ok(entries)) = (std::fs::metadata(&self.path), std::fs::read_dir(parent)) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let is_executor = name
                .to_str()
                .and_then(|name| name.strip_prefix(PREFIX))
                .is_some_and(|digits| digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
            // Metadata of an entry do not follow links.
            let is_ours = entry.metadata().is_ok_and(|folder| folder.is_dir() && folder.uid() == own.uid());
            if !is_executor || !is_ours || entry.path() == self.path {
                continue;
            }
            if let Ok(folder) = File::open(entry.path())
                && folder.try_lock().is_ok()
            {
                // What cannot be removed only takes up space.
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
    }
}

impl Drop for ExecutorFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn folders_of_killed_executors_are_removed_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        let within = |name: &str| parent.path().join(name);
        let other = tempfile::tempdir().unwrap();
        std::fs::write(other.path().join("kept"), "rows").unwrap();
        let kept = [
            "pairloom-executor-0123",
            "pairloom-executor-0123456789abcdeg",
            "other",
            "pairloom-executor-ffffffffffffffff",
        ];
        for name in &kept[..3] {
            std::fs::create_dir(within(name)).unwrap();
        }
        symlink(other.path(), within(kept[3])).unwrap();

        let alive = ExecutorFolder::create(parent.path()).unwrap();
        std::fs::write(alive.path.join("rows"), "rows").unwrap();
        // Its lock ends with the process, as after `kill -9`.
        let killed = within("pairloom-executor-0123456789abcdef");
        std::fs::create_dir(&killed).unwrap();
        std::fs::write(killed.join("rows"), "rows").unwrap();

        let next = ExecutorFolder::create(parent.path()).unwrap();
        assert!(!killed.exists());
        assert!(alive.path.join("rows").exists() && next.path.exists());
        for name in kept {
            assert!(within(name).symlink_metadata().is_ok(), "{name}");
        }
        assert!(other.path().join("kept").exists());

        let paths = [alive.path.clone(), next.path.clone()];
        drop((alive, next));
        assert!(!paths[0].exists() && !paths[1].exists());
    }
}
