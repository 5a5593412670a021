//! Threads of a session, and the rows of a query that they compute.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::task::JoinHandle;

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

    /// Computes the rows of the query `sql` on another thread, so that a query that never pauses can be interrupted.
    pub(super) fn rows(
        &self,
        mut stream: SendableRecordBatchStream,
        statement: RunningStatement,
        sql: &str,
    ) -> QueryRows<'_> {
        let schema = stream.schema();
        let (sender, batches) = channel(BATCHES_AHEAD);
        let task = self.handle.spawn(async move {
            while let Some(batch) = stream.next().await {
                if sender.send(batch).await.is_err() {
                    break;
                }
            }
        });
        QueryRows { threads: self, schema, batches, task: Some(task), statement, sql: sql.to_owned() }
    }
}

impl Drop for QueryThreads {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Rows of a query result, computed lazily, batch by batch.
pub struct QueryRows<'s> {
    threads: &'s QueryThreads,
    schema: SchemaRef,
    batches: Receiver<Result<RecordBatch, DataFusionError>>,
    /// Computation of the rows, until its end has been seen.
    task: Option<JoinHandle<()>>,
    statement: RunningStatement,
    sql: String,
}

impl QueryRows<'_> {
    /// Columns of the result.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

impl Iterator for QueryRows<'_> {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = match self.threads.block_on(self.statement.run(self.batches.recv())) {
            Ok(batch) => batch,
            Err(interrupted) => return Some(Err(interrupted)),
        };
        if let Some(batch) = batch {
            return Some(batch.map_err(|error| query_error(&error, &self.sql)));
        }
        // The task has ended: with the last row, or by a panic.
        let has_panicked = self.task.take().is_some_and(|task| self.threads.block_on(task).is_err());
        has_panicked.then(|| Err(Error::internal("SQL: a thread of the query panicked")))
    }
}

impl Drop for QueryRows<'_> {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}
