//! Prepared statements of clients, and the values that they send for the parameters.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::ipc::{MessageHeader, root_as_message};
use arrow_flight::FlightData;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::error::FlightError;
use arrow_flight::sql::server::PeekableFlightDataStream;
use bytes::Bytes;
use futures::TryStreamExt;
use tokio::time::{Instant, timeout};
use tonic::Status;

use crate::protocol::status_of;
use crate::queries::QueryId;
use pairloom_base::error::caught;
use pairloom_base::runtime::random_bytes;
use pairloom_query::ParameterValue;

/// Most statements at a time.
const MAX_STATEMENTS: usize = 1_000;
/// Largest total size of the texts of statements and the values that are bound to them.
const MAX_BYTES: usize = 512 << 20;
/// Time after which an unused statement is dropped when another one needs its place.
const IDLE: Duration = Duration::from_mins(10);

/// Statement of a client, with the values that are bound to it.
#[derive(Debug, Clone)]
pub(super) struct PreparedStatement {
    /// Text of the query.
    pub sql: Arc<str>,
    /// A row for each time the query runs.
    pub rows: Arc<ParameterRows>,
    used: Instant,
}

impl PreparedStatement {
    fn bytes(&self) -> usize {
        self.sql.len() + self.rows.bytes
    }
}

/// Statements by their handles, which are random.
#[derive(Debug, Default)]
pub(super) struct PreparedStatements(Mutex<HashMap<QueryId, PreparedStatement>>);

impl PreparedStatements {
    /// Adds a statement. Returns its handle.
    ///
    /// # Errors
    /// There are a thousand statements, or they need more than 512 MiB.
    pub(super) fn add(&self, sql: String) -> Result<Bytes, Status> {
        let handle: QueryId = random_bytes().map_err(status_of)?;
        let rows = Arc::new(ParameterRows::none());
        let statement = PreparedStatement { sql: sql.into(), rows, used: Instant::now() };
        let mut statements = self.without_idle();
        if statements.len() >= MAX_STATEMENTS {
            return Err(Status::resource_exhausted(format!(
                "clients have {MAX_STATEMENTS} prepared statements, which is the most; close some"
            )));
        }
        make_place(&mut statements, statement.bytes())?;
        statements.insert(handle, statement);
        Ok(Bytes::copy_from_slice(&handle))
    }

    /// Statement of a handle.
    ///
    /// # Errors
    /// There is none: it was closed, or dropped after it had not been used.
    pub(super) fn get(&self, handle: &[u8]) -> Result<PreparedStatement, Status> {
        let mut statements = self.lock();
        let statement = id_of(handle).and_then(|id| statements.get_mut(&id)).ok_or_else(unknown)?;
        statement.used = Instant::now();
        Ok(statement.clone())
    }

    /// Binds values to the parameters of a statement. If there is no place for them, other statements with values are
    /// dropped, those that were used longest ago first.
    ///
    /// # Errors
    /// There is no such statement, or the values need more than 512 MiB.
    pub(super) fn bind(&self, handle: &[u8], rows: ParameterRows) -> Result<(), Status> {
        let mut statements = self.without_idle();
        let id = id_of(handle).ok_or_else(unknown)?;
        let mut statement = statements.remove(&id).ok_or_else(unknown)?;
        let before = std::mem::replace(&mut statement.rows, Arc::new(rows));
        statement.used = Instant::now();
        let place = make_place(&mut statements, statement.bytes());
        if place.is_err() {
            statement.rows = before;
        }
        statements.insert(id, statement);
        place
    }

    /// Removes a statement, if it is there.
    pub(super) fn close(&self, handle: &[u8]) {
        if let Some(id) = id_of(handle) {
            self.lock().remove(&id);
        }
    }

    fn without_idle(&self) -> MutexGuard<'_, HashMap<QueryId, PreparedStatement>> {
        let mut statements = self.lock();
        statements.retain(|_, statement| statement.used.elapsed() < IDLE);
        statements
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<QueryId, PreparedStatement>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes statements with values, those that were used longest ago first, until `bytes` more fit.
fn make_place(statements: &mut HashMap<QueryId, PreparedStatement>, bytes: usize) -> Result<(), Status> {
    let mut total: usize = statements.values().map(PreparedStatement::bytes).sum();
    while total + bytes > MAX_BYTES {
        let with_values = statements.iter().filter(|(_, statement)| statement.rows.bytes > 0);
        let Some(oldest) = with_values.min_by_key(|(_, statement)| statement.used).map(|(id, _)| *id) else {
            return Err(Status::resource_exhausted(format!(
                "prepared statements and their values need {} MiB, expected at most {} MiB",
                (total + bytes) >> 20,
                MAX_BYTES >> 20
            )));
        };
        total -= statements.remove(&oldest).map_or(0, |statement| statement.bytes());
    }
    Ok(())
}

/// Identifier of a handle.
pub(super) fn id_of(handle: &[u8]) -> Option<QueryId> {
    handle.try_into().ok()
}

fn unknown() -> Status {
    Status::not_found("there is no such prepared statement: it was closed, or dropped because it had not been used")
}

/// Most rows: the query runs once for each.
const MAX_ROWS: usize = 100_000;
/// Largest size of the rows in bytes.
const MAX_ROW_BYTES: usize = 256 << 20;
/// Time for a client to send the rows.
const TIME: Duration = Duration::from_mins(1);

/// Rows of values for the parameters of a statement. Without parameters there is one row of no values.
#[derive(Debug, Clone)]
pub(super) struct ParameterRows {
    pub batches: Vec<RecordBatch>,
    /// Size of the messages that they came in.
    pub bytes: usize,
}

impl ParameterRows {
    /// One row of no values.
    pub(super) fn none() -> Self {
        Self { batches: Vec::new(), bytes: 0 }
    }

    /// Number of rows: how often the query runs.
    pub(super) fn len(&self) -> usize {
        if self.batches.is_empty() { 1 } else { self.batches.iter().map(RecordBatch::num_rows).sum() }
    }

    /// Values of a row.
    ///
    /// # Errors
    /// A value has a type that a query cannot have.
    pub(super) fn row(&self, row: usize) -> Result<Vec<ParameterValue>, Status> {
        let mut at = row;
        for batch in &self.batches {
            if at < batch.num_rows() {
                let values = || -> Result<Vec<_>, _> {
                    batch.columns().iter().map(|column| ParameterValue::try_from_array(column, at)).collect()
                };
                // Arrow panics on some crafted values.
                let values = caught(values).map_err(|_| damaged())?;
                return values.map_err(|error| Status::invalid_argument(format!("the parameters: {error}")));
            }
            at -= batch.num_rows();
        }
        Ok(Vec::new())
    }
}

/// Rows of the values that a client sends, in order.
///
/// # Errors
/// The message is no Arrow IPC stream, or is compressed; there are no rows or too many; they take more than a minute.
pub(super) async fn parameter_rows(sent: PeekableFlightDataStream) -> Result<ParameterRows, Status> {
    let bytes = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&bytes);
    let checked = sent.map_err(FlightError::from).and_then(move |message| {
        let sum = counted.fetch_add(message.data_body.len(), Ordering::Relaxed) + message.data_body.len();
        futures::future::ready(check_message(&message, sum).map(|()| message))
    });
    let batches = FlightRecordBatchStream::new_from_flight_data(checked);
    // Arrow's decoder panics on some crafted messages.
    let mut collected = Box::pin(collect(batches));
    let polled = poll_fn(move |context| match caught(|| collected.as_mut().poll(context)) {
        Ok(polled) => polled.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    });
    let batches = timeout(TIME, polled).await;
    let batches = batches.map_err(|_| Status::deadline_exceeded("the parameters took more than a minute"))?;
    let batches = batches.map_err(|_| damaged())??;
    if batches.iter().all(|batch| batch.num_rows() == 0) {
        return Err(Status::invalid_argument("the parameters have no row of values, expected one or more"));
    }
    Ok(ParameterRows { batches, bytes: bytes.load(Ordering::Relaxed) })
}

/// Refuses messages that are too large, and compressed ones, whose content can be of any size.
fn check_message(message: &FlightData, bytes: usize) -> Result<(), FlightError> {
    if bytes > MAX_ROW_BYTES {
        let text = format!("the parameters have more than {} MiB", MAX_ROW_BYTES >> 20);
        return Err(Status::invalid_argument(text).into());
    }
    let Ok(header) = root_as_message(&message.data_header) else { return Err(damaged().into()) };
    let is_compressed = match header.header_type() {
        MessageHeader::RecordBatch => {
            header.header_as_record_batch().is_some_and(|batch| batch.compression().is_some())
        }
        MessageHeader::DictionaryBatch => header
            .header_as_dictionary_batch()
            .and_then(|batch| batch.data())
            .is_some_and(|batch| batch.compression().is_some()),
        _ => false,
    };
    if is_compressed {
        return Err(Status::invalid_argument("the parameters are compressed, expected them uncompressed").into());
    }
    Ok(())
}

fn damaged() -> Status {
    Status::invalid_argument("the values of the parameters are damaged")
}

async fn collect(mut batches: FlightRecordBatchStream) -> Result<Vec<RecordBatch>, Status> {
    let (mut found, mut rows) = (Vec::new(), 0);
    loop {
        let batch = batches.try_next().await.map_err(|error| match error {
            FlightError::Tonic(status) => *status,
            other => Status::invalid_argument(format!("the values of the parameters: {other}")),
        })?;
        let Some(batch) = batch else { return Ok(found) };
        rows += batch.num_rows();
        if rows > MAX_ROWS {
            return Err(Status::invalid_argument(format!(
                "the parameters have {rows} rows, expected at most {MAX_ROWS}"
            )));
        }
        found.push(batch);
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array};
    use arrow::ipc::CompressionType;
    use arrow::ipc::writer::IpcWriteOptions;
    use arrow_flight::encode::FlightDataEncoderBuilder;
    use futures::executor::block_on;

    use super::*;

    fn values(bytes: usize) -> ParameterRows {
        ParameterRows { bytes, ..ParameterRows::none() }
    }

    #[test]
    fn statements_are_known_until_they_are_closed() {
        let statements = PreparedStatements::default();
        let [one, other] = ["SELECT 1", "SELECT 2"].map(|sql| statements.add(sql.to_owned()).unwrap());
        assert_ne!(one, other);
        statements.bind(&one, values(3)).unwrap();
        assert_eq!([&one, &other].map(|of| statements.get(of).unwrap().rows.bytes), [3, 0]);
        statements.close(&one);
        assert!(statements.get(&one).is_err() && statements.bind(&one, values(0)).is_err());
        assert_eq!(&*statements.get(&other).unwrap().sql, "SELECT 2");
        assert!(statements.get(b"short").is_err());
    }

    #[test]
    fn there_is_a_limit_of_statements_and_of_values() {
        let statements = PreparedStatements::default();
        let handles: Vec<Bytes> = (0..MAX_STATEMENTS).map(|_| statements.add(String::new()).unwrap()).collect();
        assert_eq!(statements.add(String::new()).unwrap_err().code(), tonic::Code::ResourceExhausted);
        statements.close(&handles[0]);
        assert!(statements.add(String::new()).is_ok());
        // The values that were used longest ago make place.
        for handle in &handles[1..4] {
            statements.bind(handle, values(MAX_BYTES / 2 - 1_000)).unwrap();
        }
        assert!(statements.get(&handles[1]).is_err() && statements.get(&handles[3]).is_ok());
        assert!(statements.bind(&handles[5], values(MAX_BYTES + 1)).is_err());
        assert_eq!(statements.get(&handles[5]).unwrap().rows.bytes, 0);
    }

    fn messages(compression: Option<CompressionType>) -> Vec<FlightData> {
        let values: ArrayRef = Arc::new(Int64Array::from(vec![0; 1_000]));
        let batch = RecordBatch::try_from_iter([("0", values)]).unwrap();
        let options = IpcWriteOptions::default().try_with_compression(compression).unwrap();
        let messages = FlightDataEncoderBuilder::new().with_options(options).build(futures::stream::iter([Ok(batch)]));
        block_on(messages.try_collect()).unwrap()
    }

    /// A compressed body can claim to be 4 TiB long, and can be so: it is refused before it is read.
    #[test]
    fn compressed_and_large_messages_are_refused() {
        assert!(messages(None).iter().all(|message| check_message(message, 1).is_ok()));
        for compression in [CompressionType::LZ4_FRAME, CompressionType::ZSTD] {
            let of_rows = messages(Some(compression)).pop().unwrap();
            let error = check_message(&of_rows, 1).unwrap_err().to_string();
            assert!(error.contains("the parameters are compressed"), "{error}");
        }
        let plain = messages(None).pop().unwrap();
        assert!(check_message(&plain, MAX_ROW_BYTES + 1).unwrap_err().to_string().contains("more than 256 MiB"));
        let damaged = FlightData { data_header: vec![1, 2, 3].into(), ..FlightData::default() };
        assert!(check_message(&damaged, 1).unwrap_err().to_string().contains("damaged"));
    }
}
