//! Values that a client sends for the parameters of a statement.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::ipc::{MessageHeader, root_as_message};
use arrow_flight::FlightData;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::error::FlightError;
use arrow_flight::sql::server::PeekableFlightDataStream;
use futures::{FutureExt, TryStreamExt};
use tokio::time::timeout;
use tonic::Status;

use pairloom_query::ParameterValue;

/// Most rows: the query runs once for each.
const MAX_ROWS: usize = 100_000;
/// Largest size of the rows in bytes.
const MAX_BYTES: usize = 256 << 20;
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
                let values = std::panic::catch_unwind(AssertUnwindSafe(values)).map_err(|_| damaged())?;
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
    let batches = timeout(TIME, AssertUnwindSafe(collect(batches)).catch_unwind()).await;
    let batches = batches.map_err(|_| Status::deadline_exceeded("the parameters took more than a minute"))?;
    let batches = batches.map_err(|_| damaged())??;
    if batches.iter().all(|batch| batch.num_rows() == 0) {
        return Err(Status::invalid_argument("the parameters have no row of values, wanted one or more"));
    }
    Ok(ParameterRows { batches, bytes: bytes.load(Ordering::Relaxed) })
}

/// Refuses messages that are too large, and compressed ones, whose content can be of any size.
fn check_message(message: &FlightData, bytes: usize) -> Result<(), FlightError> {
    if bytes > MAX_BYTES {
        let text = format!("the parameters have more than {} MiB", MAX_BYTES >> 20);
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
        return Err(Status::invalid_argument("the parameters are compressed, wanted them uncompressed").into());
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
                "the parameters have {rows} rows, wanted at most {MAX_ROWS}"
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
        assert!(check_message(&plain, MAX_BYTES + 1).unwrap_err().to_string().contains("more than 256 MiB"));
        let damaged = FlightData { data_header: vec![1, 2, 3].into(), ..FlightData::default() };
        assert!(check_message(&damaged, 1).unwrap_err().to_string().contains("damaged"));
    }
}
