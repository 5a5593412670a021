//! Threads of a session with their stacks, and the rows of a query that they compute.

use std::pin::pin;
use std::task::Poll;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::runtime::SpawnedTask;
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;
use futures::future::poll_fn;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::task::JoinError;

use crate::errors::query_error;
use crate::interrupt::RunningStatement;
use crate::state::threads;
use pairloom_base::error::{Error, Result, panic_error, panics_of_thread_are_caught};

/// Batches that a query computes ahead of its reader.
const BATCHES_AHEAD: usize = 1;
/// Threads beside those of a query, so that others are planned while it computes.
const SPARE_THREADS: usize = 2;

/// Threads of a session. Dropping them does not wait for an interrupted query.
pub(super) struct QueryThreads {
    handle: Handle,
    runtime: Option<Runtime>,
}

impl QueryThreads {
    /// Starts the threads.
    pub(super) fn start() -> Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads() + SPARE_THREADS)
            .thread_name("sql")
            .on_thread_start(panics_of_thread_are_caught)
            .enable_all()
            .build()
            .map_err(|error| Error::stage(format!("cannot start threads for SQL: {error}")))?;
        Ok(Self { handle: runtime.handle().clone(), runtime: Some(runtime) })
    }

    /// Waits for a result.
    pub(super) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.handle.block_on(work)
    }

    /// Runs work on these threads. Dropping the result ends the work when it next waits.
    pub(super) fn spawn<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> SpawnedTask<T> {
        let _threads = self.handle.enter();
        SpawnedTask::spawn(work)
    }

    /// Computes the rows of the query `sql` on these threads. `guard` is dropped when the computation has ended, which
    /// may be after the rows were dropped.
    pub(super) fn rows(
        &self,
        mut stream: SendableRecordBatchStream,
        sql: &str,
        guard: impl Send + 'static,
    ) -> QueryStream {
        let schema = stream.schema();
        let (sender, batches) = channel(BATCHES_AHEAD);
        let text = sql.to_owned();
        let task = self.spawn(async move {
            let _guard = guard;
            while let Some(batch) = stream.next().await {
                if sender.send(batch.map_err(|error| query_error(&error, &text))).await.is_err() {
                    break;
                }
            }
        });
        QueryStream { schema, batches, task: Some(task) }
    }
}

impl Drop for QueryThreads {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Rows of a query result, computed batch by batch ahead of their reader. Dropping it ends the query.
pub struct QueryStream {
    schema: SchemaRef,
    batches: Receiver<Result<RecordBatch>>,
    /// Computation of the rows, until its end has been seen.
    task: Option<SpawnedTask<()>>,
}

impl QueryStream {
    /// Columns of the result.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Next rows; `None` after the last.
    pub async fn next(&mut self) -> Option<Result<RecordBatch>> {
        if let Some(batch) = self.batches.recv().await {
            return Some(batch);
        }
        // The task has ended: with the last row, or by a panic.
        let task = self.task.take()?;
        task.await.err().map(|error| Err(of_panic(error)))
    }
}

/// Rows of a query result, for a thread that waits for them.
pub struct QueryRows<'s> {
    pub(super) threads: &'s QueryThreads,
    pub(super) stream: QueryStream,
    pub(super) statement: RunningStatement,
}

impl QueryRows<'_> {
    /// Columns of the result.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        self.stream.schema()
    }
}

impl Iterator for QueryRows<'_> {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.threads.block_on(self.statement.run(self.stream.next())) {
            Ok(batch) => batch,
            Err(interrupted) => Some(Err(interrupted)),
        }
    }
}

/// End of the message of the panic of Arrow at texts of more than 2 GiB.
const ARROW_OVERFLOW: &str = "offset overflow";

/// Error of a task that panicked.
pub(super) fn of_panic(error: JoinError) -> Error {
    match error.try_into_panic() {
        Ok(panic) => {
            let error = panic_error(&*panic);
            if error.to_string().ends_with(ARROW_OVERFLOW) {
                // Arrow has no error for it: the offsets of the texts of a batch are 32 bits.
                return Error::stage(
                    "SQL: a step of the query has more than 2 GiB of texts or lists in a batch of its rows",
                )
                .hint("select long texts and lists after the joins, or shorten texts with `left(…, 1000)`");
            }
            error.context("SQL")
        }
        Err(error) => Error::internal(format!("SQL: {error}")),
    }
}

/// Size of the stack. Its pages are only used as deep as the work goes.
const STACK_BYTES: usize = 64 << 20;

/// Runs work that recurses as deep as a query: each step gets a stack that is large enough for the deepest one
/// ([`check_depth`](super::statements::check_depth)), whatever thread it is on.
pub(super) async fn with_deep_stack<T>(work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    poll_fn(move |context| -> Poll<T> { stacker::grow(STACK_BYTES, || work.as_mut().poll(context)) }).await
}
