//! Queries that run for clients: their number, their time, their rows as Flight messages, and their cancellation.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow_flight::FlightData;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use futures::{Stream, StreamExt, TryStreamExt};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::timeout;
use tonic::Status;

use crate::FlightOptions;
use crate::binding::ParameterRows;
use crate::columns::{sent_columns, with_columns};
use crate::status::status_of;
use crate::tickets::QueryId;
use pairloom_query::{QueryOptions, Session};

/// Messages of a result.
pub(super) type FlightMessages = Pin<Box<dyn Stream<Item = Result<FlightData, Status>> + Send>>;

/// Queries that run, at most so many at a time.
#[derive(Debug)]
pub(super) struct RunningQueries {
    places: Arc<Semaphore>,
    /// Memory of a query in bytes.
    memory: u64,
    /// Time of a query, from its start to the last row that the client takes.
    time: Duration,
    /// Time after which a query ends whose client takes no rows.
    reader_time: Duration,
    cancellable: Arc<Cancellable>,
}

/// Task of each query, and the place for the reason of its end, by the ticket and a number.
type QueriesByTicket = HashMap<(QueryId, u64), (AbortHandle, Arc<OnceLock<Status>>)>;

/// Running queries by the identifiers of their tickets, several of which may be of one ticket.
#[derive(Debug, Default)]
struct Cancellable {
    next: AtomicU64,
    queries: Mutex<QueriesByTicket>,
}

impl RunningQueries {
    pub(super) fn new(options: &FlightOptions) -> Self {
        let places = Arc::new(Semaphore::new(options.queries));
        let (memory, time, reader_time) = (options.query_memory, options.query_time, options.reader_time);
        Self { places, memory, time, reader_time, cancellable: Arc::default() }
    }

    /// Runs a query once for each row of values, one after the other, when there is a place. It ends when the messages
    /// are dropped, when it is cancelled, or when its time is over, as soon as an operator pauses; then its place is
    /// free.
    ///
    /// # Errors
    /// The query is wrong; there was no place within the time of a query.
    pub(super) async fn run(
        &self,
        session: Arc<Session>,
        sql: &str,
        rows: Arc<ParameterRows>,
        id: QueryId,
    ) -> Result<FlightMessages, Status> {
        let (sender, mut receiver) = channel(1);
        let end = Arc::new(OnceLock::new());
        let query = Repeated { session, sql: sql.into(), memory: self.memory, reader_time: self.reader_time, rows };
        let driver = tokio::spawn(drive(query, Arc::clone(&self.places), self.time, sender, Arc::clone(&end)));
        let registration = Registration::new(&self.cancellable, id, driver.abort_handle(), Arc::clone(&end));
        let driver = Driver { task: driver, end, _registration: registration };
        let columns = match receiver.recv().await {
            Some(Sent::Columns(columns)) => columns,
            Some(Sent::Failed(status)) => return Err(status),
            _ => return Err(driver.reason()),
        };
        let batches = futures::stream::try_unfold((driver, receiver), |(driver, mut receiver)| async move {
            match next_batch(&driver, &mut receiver).await {
                Ok(Some(batch)) => Ok(Some((batch, (driver, receiver)))),
                Ok(None) => Ok(None),
                Err(status) => Err(FlightError::from(status)),
            }
        });
        let messages = FlightDataEncoderBuilder::new().with_schema(columns).build(batches);
        Ok(messages.map_err(Status::from).boxed())
    }

    /// Cancels the queries of a ticket. Returns false if none runs or waits.
    pub(super) fn cancel(&self, id: &QueryId) -> bool {
        let queries = lock(&self.cancellable);
        let of_ticket = queries.iter().filter(|((of, _), _)| of == id);
        let mut is_any = false;
        for (_, (task, end)) in of_ticket {
            let _ = end.set(Status::cancelled("the query was cancelled"));
            task.abort();
            is_any = true;
        }
        is_any
    }
}

/// Message of the task that runs a query.
enum Sent {
    Columns(SchemaRef),
    Batch(RecordBatch),
    Failed(Status),
    /// All rows were sent.
    Finished,
}

async fn next_batch(driver: &Driver, receiver: &mut Receiver<Sent>) -> Result<Option<RecordBatch>, Status> {
    match receiver.recv().await {
        Some(Sent::Batch(batch)) => Ok(Some(batch)),
        Some(Sent::Failed(status)) => Err(status),
        Some(Sent::Finished) => Ok(None),
        Some(Sent::Columns(_)) => Err(Status::internal("columns within a result")),
        None => Err(driver.reason()),
    }
}

/// Task that runs a query, which ends with this value.
struct Driver {
    task: JoinHandle<()>,
    /// Reason why the task ended before the query.
    end: Arc<OnceLock<Status>>,
    _registration: Registration,
}

impl Driver {
    /// Reason for a result that ends without its end.
    fn reason(&self) -> Status {
        self.end.get().cloned().unwrap_or_else(|| Status::internal("the query ended early"))
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Runs a query within its time. A client that does not take the rows does not hold the place for longer.
async fn drive(
    query: Repeated,
    places: Arc<Semaphore>,
    time: Duration,
    sender: Sender<Sent>,
    end: Arc<OnceLock<Status>>,
) {
    let seconds = time.as_secs_f64();
    let Ok(Ok(place)) = timeout(time, places.acquire_owned()).await else {
        let busy = format!("the server is busy: there was no place for the query within {seconds} s");
        let _ = end.set(Status::resource_exhausted(busy));
        return;
    };
    let limit = match timeout(time, send_rows(&query, Arc::new(place), &sender)).await {
        Ok(Ok(())) => return,
        Ok(Err(Unread)) => {
            format!("the client took no rows for {} s, which is the limit", query.reader_time.as_secs_f64())
        }
        Err(_) => format!("the query took {seconds} s, which is the limit"),
    };
    let _ = end.set(Status::resource_exhausted(limit));
}

/// Query that runs once for each row of values.
struct Repeated {
    session: Arc<Session>,
    sql: Arc<str>,
    memory: u64,
    reader_time: Duration,
    rows: Arc<ParameterRows>,
}

/// End of a query whose client takes no rows.
struct Unread;

/// Sends all rows of a query, until the client has gone.
async fn send_rows(
    query: &Repeated,
    place: Arc<impl Send + Sync + 'static>,
    sender: &Sender<Sent>,
) -> Result<(), Unread> {
    let mut is_unread = false;
    let sent = async {
        let mut columns = None;
        for row in 0..query.rows.len() {
            let options = QueryOptions { parameters: query.rows.row(row)?, memory: Some(query.memory) };
            let mut result = query.session.run(&query.sql, options, Arc::clone(&place)).await.map_err(status_of)?;
            let columns = match &columns {
                Some(columns) => Arc::clone(columns),
                None => {
                    let first = sent_columns(&result.schema());
                    columns = Some(Arc::clone(&first));
                    if sender.send(Sent::Columns(Arc::clone(&first))).await.is_err() {
                        return Ok(());
                    }
                    first
                }
            };
            while let Some(batch) = result.next().await {
                let batch = with_columns(&batch.map_err(status_of)?, &columns).map_err(|error| {
                    let row = row + 1;
                    Status::invalid_argument(format!("row {row} of the parameters gives other columns: {error}"))
                })?;
                match timeout(query.reader_time, sender.send(Sent::Batch(batch))).await {
                    Ok(Ok(())) => {}
                    Ok(Err(_)) => return Ok(()),
                    Err(_) => {
                        is_unread = true;
                        return Ok(());
                    }
                }
            }
        }
        Ok::<(), Status>(())
    };
    let last = match sent.await {
        Ok(()) => Sent::Finished,
        Err(status) => Sent::Failed(status),
    };
    if is_unread {
        return Err(Unread);
    }
    // The client may have gone.
    let _ = sender.send(last).await;
    Ok(())
}

/// Entry of a query in the list by which it is cancelled.
struct Registration {
    cancellable: Arc<Cancellable>,
    key: (QueryId, u64),
}

impl Registration {
    fn new(cancellable: &Arc<Cancellable>, id: QueryId, task: AbortHandle, end: Arc<OnceLock<Status>>) -> Self {
        let key = (id, cancellable.next.fetch_add(1, Ordering::Relaxed));
        lock(cancellable).insert(key, (task, end));
        Self { cancellable: Arc::clone(cancellable), key }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        lock(&self.cancellable).remove(&self.key);
    }
}

fn lock(cancellable: &Cancellable) -> MutexGuard<'_, QueriesByTicket> {
    cancellable.queries.lock().unwrap_or_else(PoisonError::into_inner)
}
