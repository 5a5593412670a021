//! Threads of a session, and the rows of a query that they compute.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use crate::error::{Error, Result};
use crate::sql::errors::query_error;
use crate::sql::interrupt::RunningStatement;
use crate::sql::state::threads;

/// Batches that a query computes ahead of its reader.
const BATCHES_AHEAD: usize = 1;

/// Threads of a session. Dropping them does not wait for an interrupted query.
pub(super) struct QueryThreads {
    handle: Handle,
    runtime: Option<Runtime>,
}

impl QueryThreads {
    /// Starts the threads.
    pub(super) fn start() -> Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads())
            .thread_name("sql")
            .enable_time()
            .build()
            .map_err(|error| Error::stage(format!("cannot start threads for SQL: {error}")))?;
        Ok(Self { handle: runtime.handle().clone(), runtime: Some(runtime) })
    }

    /// Waits for a result.
    pub(super) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.handle.block_on(work)
    }

    /// Runs work on these threads.
    pub(super) fn spawn<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        self.handle.spawn(work)
    }

    /// Computes the rows of the query `sql` on these threads, so that a query that never pauses can be interrupted.
    pub(super) fn rows(
        &self,
        mut stream: SendableRecordBatchStream,
        statement: RunningStatement,
        deadline: Option<QueryDeadline>,
        sql: &str,
    ) -> QueryStream {
        let schema = stream.schema();
        let (sender, batches) = channel(BATCHES_AHEAD);
        let text = sql.to_owned();
        let task = self.spawn(async move {
            while let Some(batch) = stream.next().await {
                if sender.send(batch.map_err(|error| query_error(&error, &text))).await.is_err() {
                    break;
                }
            }
        });
        QueryStream { schema, batches, task: Some(task), statement, deadline }
    }
}

impl Drop for QueryThreads {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// End of the time of a query.
#[derive(Debug, Clone, Copy)]
pub(super) struct QueryDeadline {
    /// Time that the query has in all.
    pub limit: std::time::Duration,
    /// End of that time.
    pub end: Instant,
}

impl QueryDeadline {
    /// Waits for `work`, until the time is over.
    pub(super) async fn run<T>(this: Option<Self>, work: impl Future<Output = T>) -> Result<T> {
        let Some(Self { limit, end }) = this else { return Ok(work.await) };
        timeout_at(end, work)
            .await
            .map_err(|_| Error::stage(format!("SQL: the query ran for {} s, which is the limit", limit.as_secs_f64())))
    }
}

/// Rows of a query result, computed batch by batch ahead of their reader. Dropping it ends the query.
pub struct QueryStream {
    schema: SchemaRef,
    batches: Receiver<Result<RecordBatch>>,
    /// Computation of the rows, until its end has been seen.
    task: Option<JoinHandle<()>>,
    statement: RunningStatement,
    deadline: Option<QueryDeadline>,
}

impl QueryStream {
    /// Columns of the result.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Next rows; `None` after the last.
    pub async fn next(&mut self) -> Option<Result<RecordBatch>> {
        let batch = self.statement.run(QueryDeadline::run(self.deadline, self.batches.recv())).await;
        match batch.flatten() {
            Ok(Some(batch)) => Some(batch),
            Err(ended) => Some(Err(ended)),
            Ok(None) => {
                // The task has ended: with the last row, or by a panic.
                let ended = match self.task.take() {
                    Some(task) => task.await,
                    None => Ok(()),
                };
                ended.is_err().then(|| Err(Error::internal("SQL: a thread of the query panicked")))
            }
        }
    }
}

impl Drop for QueryStream {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// Rows of a query result, for a thread that waits for them.
pub struct QueryRows<'s> {
    pub(super) threads: &'s QueryThreads,
    pub(super) stream: QueryStream,
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
        self.threads.block_on(self.stream.next())
    }
}
