//! Queries that run for clients: their number, their rows as Flight messages, and their cancellation.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use arrow_flight::FlightData;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use futures::{Stream, StreamExt, TryStreamExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;

use crate::error::Error;
use crate::flight::prepared::ParameterRows;
use crate::flight::status::status;
use crate::flight::tickets::QueryId;
use crate::sql::{QueryLimits, QueryOptions, QueryStream, Session, StatementInterrupt};

/// Messages of a result.
pub(super) type FlightMessages = Pin<Box<dyn Stream<Item = Result<FlightData, Status>> + Send>>;

/// Queries that run, at most so many at a time.
#[derive(Debug)]
pub(super) struct RunningQueries {
    places: Arc<Semaphore>,
    limits: QueryLimits,
    interrupts: Arc<Interrupts>,
}

/// Interrupts of the queries that were fetched by a ticket.
type Interrupts = Mutex<HashMap<QueryId, StatementInterrupt>>;

impl RunningQueries {
    pub(super) fn new(places: usize, limits: QueryLimits) -> Self {
        Self { places: Arc::new(Semaphore::new(places)), limits, interrupts: Arc::default() }
    }

    /// Runs a query once for each row of values, one after the other. The query ends when the messages are dropped.
    ///
    /// # Errors
    /// The query is wrong.
    pub(super) async fn run(
        &self,
        session: Arc<Session>,
        sql: &str,
        rows: ParameterRows,
        id: Option<QueryId>,
    ) -> Result<FlightMessages, Status> {
        let place = Arc::clone(&self.places).acquire_owned().await;
        let place = place.map_err(|_| Status::unavailable("the server stops"))?;
        let interrupt = StatementInterrupt::default();
        let registration = id.map(|id| Registration::new(&self.interrupts, id, interrupt.clone()));
        let mut query =
            Repeated { session, sql: sql.into(), limits: self.limits, interrupt, rows, next: 0, columns: None };
        let first = query.start().await.map_err(|error| status(&error))?;
        let Some(first) = first else { return Err(Status::invalid_argument("the parameters have no row of values")) };
        let columns = first.schema();
        let state = RunningQuery { current: Some(first), query, _place: place, _registration: registration };
        let batches = futures::stream::try_unfold(state, |mut state| async move {
            let batch = state.next().await.map_err(|error| FlightError::from(status(&error)))?;
            Ok(batch.map(|batch| (batch, state)))
        });
        let messages = FlightDataEncoderBuilder::new().with_schema(columns).build(batches);
        Ok(messages.map_err(Status::from).boxed())
    }

    /// Interrupts the query of an identifier. Returns false if it does not run.
    pub(super) fn cancel(&self, id: &QueryId) -> bool {
        lock(&self.interrupts).get(id).is_some_and(StatementInterrupt::interrupt)
    }
}

/// Query that runs once for each row of values.
struct Repeated {
    session: Arc<Session>,
    sql: Arc<str>,
    limits: QueryLimits,
    interrupt: StatementInterrupt,
    rows: ParameterRows,
    next: usize,
    /// Columns of the first run.
    columns: Option<SchemaRef>,
}

impl Repeated {
    /// Starts the query with the next row; `None` after the last.
    async fn start(&mut self) -> Result<Option<QueryStream>, Error> {
        let Some(values) = self.rows.get(self.next) else { return Ok(None) };
        self.next += 1;
        let options = QueryOptions { parameters: values.clone(), limits: self.limits };
        let stream = self.session.run(&self.sql, options, &self.interrupt).await?;
        let columns = self.columns.get_or_insert_with(|| stream.schema());
        if columns.fields() != stream.schema().fields() {
            let types = |schema: &SchemaRef| {
                let types = schema.fields().iter().map(|field| field.data_type().to_string());
                types.collect::<Vec<_>>().join(", ")
            };
            return Err(Error::usage(format!(
                "SQL: row {} of the parameters gives columns of the types {}, wanted {} as the first row",
                self.next,
                types(&stream.schema()),
                types(columns)
            )));
        }
        Ok(Some(stream))
    }
}

/// Query with the rows that are being sent.
struct RunningQuery {
    /// Rows of the current run; `None` between two runs.
    current: Option<QueryStream>,
    query: Repeated,
    _place: OwnedSemaphorePermit,
    _registration: Option<Registration>,
}

impl RunningQuery {
    async fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
        loop {
            let Some(current) = &mut self.current else { return Ok(None) };
            if let Some(batch) = current.next().await {
                return batch.map(Some);
            }
            // The end of a run resets the interrupt, so it comes before the start of the next one.
            self.current = None;
            self.current = self.query.start().await?;
        }
    }
}

/// Entry of a running query in the list by which it is cancelled.
struct Registration {
    interrupts: Arc<Interrupts>,
    id: QueryId,
}

impl Registration {
    fn new(interrupts: &Arc<Interrupts>, id: QueryId, interrupt: StatementInterrupt) -> Self {
        lock(interrupts).insert(id, interrupt);
        Self { interrupts: Arc::clone(interrupts), id }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        lock(&self.interrupts).remove(&self.id);
    }
}

fn lock(interrupts: &Interrupts) -> MutexGuard<'_, HashMap<QueryId, StatementInterrupt>> {
    interrupts.lock().unwrap_or_else(PoisonError::into_inner)
}
