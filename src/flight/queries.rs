//! Queries that run for clients: their number, their time, their rows as Flight messages, and their cancellation; and the
//! tickets of queries that the server has planned and that a client then fetches.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow_flight::FlightData;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use bytes::Bytes;
use futures::{Stream, StreamExt, TryStreamExt};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::timeout;
use tonic::Status;

use crate::FlightOptions;
use crate::prepared::ParameterRows;
use crate::protocol::status_of;
use pairloom_base::error::Result;
use pairloom_base::runtime::random_bytes;
use pairloom_query::{QueryOptions, Session};

/// Messages of a result.
pub(super) type FlightMessages = Pin<Box<dyn Stream<Item = Result<FlightData, Status>> + Send>>;

/// Queries that run, at most so many at a time.
#[derive(Debug, Clone)]
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

    /// Ends the query that began last, with this reason. Returns false if none runs or waits.
    pub(super) fn end_last(&self, reason: &Status) -> bool {
        let queries = lock(&self.cancellable);
        // Those that were ended before still give their memory back.
        let running = queries.iter().filter(|(_, (_, end))| end.get().is_none());
        let Some((_, (task, end))) = running.max_by_key(|((_, number), _)| *number) else { return false };
        let _ = end.set(reason.clone());
        task.abort();
        true
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

// A client compares the columns that were announced with those that it gets. Whether a value can be missing is known
// only to the optimiser, so all can be missing here; dictionaries are sent as their values.
/// Columns as they are announced and sent.
pub(super) fn sent_columns(columns: &Schema) -> SchemaRef {
    Arc::new(Schema::new(columns.fields().iter().map(sent_field).collect::<Vec<_>>()))
}

fn sent_field(field: &FieldRef) -> FieldRef {
    Arc::new(Field::new(field.name(), sent_type(field.data_type()), true))
}

fn sent_type(of: &DataType) -> DataType {
    match of {
        DataType::Dictionary(_, values) => sent_type(values),
        DataType::LargeList(item) => DataType::LargeList(sent_field(item)),
        // The width 0 stands for one that is not known before the vectors are read.
        DataType::List(item) | DataType::FixedSizeList(item, 0) => DataType::List(sent_field(item)),
        DataType::FixedSizeList(item, width) => DataType::FixedSizeList(sent_field(item), *width),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(sent_field).collect()),
        other => other.clone(),
    }
}

/// Rows with these columns.
///
/// # Errors
/// A column cannot have the wanted type.
#[expect(clippy::disallowed_methods, reason = "a result may have no column")]
pub(super) fn with_columns(rows: &RecordBatch, columns: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let values = rows.columns().iter().zip(columns.fields()).map(|(values, field)| {
        if values.data_type() == field.data_type() { Ok(Arc::clone(values)) } else { cast(values, field.data_type()) }
    });
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(columns), values.collect::<Result<_, _>>()?, &options)
}

/// Bytes of the seal at the start of a ticket.
const SEAL_BYTES: usize = blake3::OUT_LEN;
/// Bytes of the identifier behind the seal.
const ID_BYTES: usize = 16;

/// Identifier of a planned query.
pub(super) type QueryId = [u8; ID_BYTES];

/// Query of a ticket.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    /// Identifier, by which the query can be cancelled.
    pub id: QueryId,
    /// Text of the query.
    pub sql: String,
}

/// Error for a ticket that this server did not give out.
pub(super) fn wrong_ticket() -> Status {
    Status::unauthenticated("the ticket is not of this server, or the server was started again")
}

/// Seals tickets, so that the server runs only queries that it has planned. It keeps nothing about them.
pub(super) struct TicketSeal {
    key: [u8; blake3::KEY_LEN],
}

impl TicketSeal {
    /// Seal with a key of its own.
    ///
    /// # Errors
    /// The operating system has no random numbers.
    pub(super) fn new() -> Result<Self> {
        Ok(Self { key: random_bytes()? })
    }

    /// Bytes of a ticket: the seal, the identifier, and the text of the query.
    pub(super) fn seal(&self, ticket: &Ticket) -> Bytes {
        let content = [ticket.id.as_slice(), ticket.sql.as_bytes()].concat();
        let seal = blake3::keyed_hash(&self.key, &content);
        [seal.as_bytes(), content.as_slice()].concat().into()
    }

    /// Ticket of these bytes.
    ///
    /// # Errors
    /// They were not sealed by this server.
    pub(super) fn open(&self, bytes: &[u8]) -> Result<Ticket, Status> {
        let (seal, content) = bytes.split_at_checked(SEAL_BYTES).ok_or_else(wrong_ticket)?;
        // Hashes are compared in constant time.
        if blake3::Hash::from_slice(seal).ok() != Some(blake3::keyed_hash(&self.key, content)) {
            return Err(wrong_ticket());
        }
        let (id, sql) = content.split_first_chunk().ok_or_else(wrong_ticket)?;
        let sql = String::from_utf8(sql.to_vec()).map_err(|_| wrong_ticket())?;
        Ok(Ticket { id: *id, sql })
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, AsArray, DictionaryArray, FixedSizeListArray, Int64Array};
    use arrow::datatypes::{Float32Type, Int32Type};

    use super::*;

    #[test]
    fn rows_have_the_announced_columns() {
        let item = Arc::new(Field::new("item", DataType::Float32, false));
        let values = Arc::new(arrow::array::Float32Array::from(vec![1.0, 2.0, 3.0, 4.0]));
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("id", Arc::new(Int64Array::from(vec![1, 2]))),
            ("split", Arc::new(DictionaryArray::<Int32Type>::from_iter(["train", "test"]))),
            ("vector", Arc::new(FixedSizeListArray::new(item, 2, values, None))),
        ];
        let rows = RecordBatch::try_from_iter(columns).unwrap();
        let announced = sent_columns(&rows.schema());
        let sent = with_columns(&rows, &announced).unwrap();
        assert_eq!(sent.schema(), announced);
        assert!(announced.fields().iter().all(|field| field.is_nullable()));
        assert_eq!(announced.field(1).data_type(), &DataType::Utf8);
        assert_eq!(sent.column(1).as_string::<i32>().value(1), "test");
        let vectors = sent.column(2).as_fixed_size_list();
        assert_eq!(vectors.values().as_primitive::<Float32Type>().values(), &[1.0, 2.0, 3.0, 4.0]);
        assert!(matches!(announced.field(2).data_type(), DataType::FixedSizeList(item, 2) if item.is_nullable()));
    }

    #[test]
    fn tickets_open_only_as_they_were_sealed() {
        let seal = TicketSeal::new().unwrap();
        let ticket = Ticket { id: *b"0123456789abcdef", sql: "SELECT 'ä'".to_owned() };
        let sealed = seal.seal(&ticket);
        assert_eq!(seal.open(&sealed).unwrap(), ticket);
        for at in 0..sealed.len() {
            let mut forged = sealed.to_vec();
            forged[at] ^= 1;
            assert!(seal.open(&forged).is_err(), "byte {at}");
            assert!(seal.open(&sealed[..at]).is_err(), "{at} bytes");
        }
        assert!(TicketSeal::new().unwrap().open(&sealed).is_err());
    }
}
