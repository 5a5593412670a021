//! Values that a client sends for the parameters of a statement.

use std::panic::AssertUnwindSafe;

use arrow::array::RecordBatch;
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::error::FlightError;
use arrow_flight::sql::server::PeekableFlightDataStream;
use futures::{FutureExt, TryStreamExt};
use tonic::Status;

use crate::sql::ParameterValue;

/// Most rows: the query runs once for each.
const MAX_ROWS: usize = 100_000;
/// Largest size of the rows in bytes.
const MAX_BYTES: usize = 256 << 20;

/// Rows of the values that a client sends, in order.
///
/// # Errors
/// The message is no Arrow IPC stream; there are no rows or too many.
pub(super) async fn parameter_rows(sent: PeekableFlightDataStream) -> Result<Vec<Vec<ParameterValue>>, Status> {
    let batches = FlightRecordBatchStream::new_from_flight_data(sent.map_err(FlightError::from));
    // Arrow's decoder panics on some crafted messages.
    let batches = AssertUnwindSafe(collect(batches)).catch_unwind().await;
    let batches = batches.map_err(|_| Status::invalid_argument("the values of the parameters are damaged"))??;
    let mut rows = Vec::new();
    for batch in &batches {
        for row in 0..batch.num_rows() {
            let values = batch.columns().iter().map(|column| ParameterValue::try_from_array(column, row));
            let values = values.collect::<Result<Vec<_>, _>>();
            rows.push(
                values.map_err(|error| Status::invalid_argument(format!("the values of the parameters: {error}")))?,
            );
        }
    }
    if rows.is_empty() {
        return Err(Status::invalid_argument("the parameters have no row of values, wanted one or more"));
    }
    Ok(rows)
}

async fn collect(mut batches: FlightRecordBatchStream) -> Result<Vec<RecordBatch>, Status> {
    let (mut found, mut rows, mut bytes) = (Vec::new(), 0, 0);
    loop {
        let batch = batches.try_next().await.map_err(|error| match error {
            FlightError::Tonic(status) => *status,
            other => Status::invalid_argument(format!("the values of the parameters: {other}")),
        })?;
        let Some(batch) = batch else { return Ok(found) };
        rows += batch.num_rows();
        bytes += batch.get_array_memory_size();
        if rows > MAX_ROWS || bytes > MAX_BYTES {
            return Err(Status::invalid_argument(format!(
                "the parameters have {rows} rows or more of {} MiB, wanted at most {MAX_ROWS} rows of {} MiB",
                bytes >> 20,
                MAX_BYTES >> 20
            )));
        }
        found.push(batch);
    }
}
