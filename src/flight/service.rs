//! Commands of Flight SQL.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use arrow::ipc::writer::IpcWriteOptions;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_server::FlightService;
use arrow_flight::sql::metadata::{SqlInfoData, XdbcTypeInfoData};
use arrow_flight::sql::server::{FlightSqlService, PeekableFlightDataStream};
use arrow_flight::sql::{
    ActionCancelQueryRequest, ActionCancelQueryResult, ActionClosePreparedStatementRequest,
    ActionCreatePreparedStatementRequest, ActionCreatePreparedStatementResult, Any, CommandGetCatalogs,
    CommandGetCrossReference, CommandGetDbSchemas, CommandGetExportedKeys, CommandGetImportedKeys,
    CommandGetPrimaryKeys, CommandGetSqlInfo, CommandGetTableTypes, CommandGetTables, CommandGetXdbcTypeInfo,
    CommandPreparedStatementQuery, CommandPreparedStatementUpdate, CommandStatementIngest, CommandStatementQuery,
    CommandStatementUpdate, DoPutPreparedStatementResult, ProstMessageExt, SqlInfo, TicketStatementQuery,
};
use arrow_flight::{
    Action, ActionType, CancelFlightInfoRequest, CancelFlightInfoResult, CancelStatus, FlightDescriptor,
    FlightEndpoint, FlightInfo, HandshakeRequest, HandshakeResponse, IpcMessage, Result as ActionResult, SchemaAsIpc,
    Ticket as FlightTicket,
};
use bytes::Bytes;
use futures::{Stream, StreamExt, TryStreamExt, stream};
use prost::Message;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::{Request, Response, Status, Streaming};

use crate::metadata;
use crate::metadata::{column_types, server_facts};
use crate::prepared::{ParameterRows, PreparedStatements, id_of, parameter_rows};
use crate::protocol::status_of;
use crate::queries::{FlightMessages, QueryId, RunningQueries, Ticket, TicketSeal, sent_columns, wrong_ticket};
use crate::{AccessToken, FlightOptions, Sessions};
use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::random_bytes;
use pairloom_query::{ListedTable, Session};

/// Action that cancels a query by its `FlightInfo`.
const CANCEL_FLIGHT_INFO: &str = "CancelFlightInfo";
/// Action at the end of a client's session.
const CLOSE_SESSION: &str = "CloseSession";
/// Longest text of a query in bytes.
const MAX_QUERY_BYTES: usize = 1 << 20;
/// Clients that send values of parameters at the same time.
const UPLOADS: usize = 4;
/// Message `CloseSessionResult` with the status `CLOSED`, which arrow-flight 59 lacks.
const SESSION_CLOSED: [u8; 2] = [0x08, 0x01];

pub(super) type Answer<T> = Result<Response<T>, Status>;

/// Flight SQL over the session of the latest run.
pub(super) struct FlightSql {
    sessions: Arc<Sessions>,
    statements: PreparedStatements,
    queries: RunningQueries,
    /// Places of clients that send values of parameters.
    uploads: Semaphore,
    /// Time of a query, which planning has as well.
    query_time: Duration,
    seal: TicketSeal,
    /// Header for the answer to a handshake.
    token: Option<MetadataValue<Ascii>>,
    facts: SqlInfoData,
    types: XdbcTypeInfoData,
}

impl FlightSql {
    pub(super) fn new(sessions: Arc<Sessions>, options: &FlightOptions) -> Result<Self> {
        let internal = |error: FlightError| Error::internal(format!("Flight SQL: {error}"));
        Ok(Self {
            sessions,
            statements: PreparedStatements::default(),
            queries: RunningQueries::new(options),
            uploads: Semaphore::new(UPLOADS),
            query_time: options.query_time,
            seal: TicketSeal::new()?,
            token: options.token.as_ref().map(AccessToken::header),
            facts: server_facts(options.query_time).map_err(internal)?,
            types: column_types().map_err(internal)?,
        })
    }

    /// Queries that run.
    pub(super) fn queries(&self) -> RunningQueries {
        self.queries.clone()
    }

    /// Plans within the time of a query.
    async fn planned<T>(&self, planning: impl Future<Output = Result<T>>) -> Result<T, Status> {
        let planned = timeout(self.query_time, planning).await;
        let planned = planned.map_err(|_| {
            let seconds = self.query_time.as_secs_f64();
            Status::resource_exhausted(format!("planning the query took {seconds} s, which is the limit"))
        })?;
        planned.map_err(status_of)
    }

    async fn session(&self) -> Result<Arc<Session>, Status> {
        self.sessions.wait_for_current().await.map_err(status_of)
    }

    /// Computes something that waits for the store, from the session and its tables.
    async fn with_tables<T: Send + 'static>(
        &self,
        compute: impl FnOnce(&Session, &[ListedTable]) -> Result<T, FlightError> + Send + 'static,
    ) -> Result<T, Status> {
        let session = self.session().await?;
        let computed = tokio::task::spawn_blocking(move || {
            let tables = session.tables().map_err(status_of)?;
            compute(&session, &tables)
        });
        let computed = computed.await.map_err(|error| Status::internal(error.to_string()))?;
        computed.map_err(Status::from)
    }

    /// Cancels the query of a `FlightInfo`.
    fn cancel(&self, info: &FlightInfo) -> CancelStatus {
        match self.query_of(info) {
            Some(id) if self.queries.cancel(&id) => CancelStatus::Cancelled,
            _ => CancelStatus::NotCancellable,
        }
    }

    /// Identifier of the query of a `FlightInfo`, if it is one of this server.
    fn query_of(&self, info: &FlightInfo) -> Option<QueryId> {
        let ticket = info.endpoint.first()?.ticket.as_ref()?;
        let message = Any::decode(&*ticket.ticket).ok()?;
        if let Ok(Some(prepared)) = message.unpack::<CommandPreparedStatementQuery>() {
            return id_of(&prepared.prepared_statement_handle);
        }
        let ticket = message.unpack::<TicketStatementQuery>().ok()??;
        self.seal.open(&ticket.statement_handle).ok().map(|ticket| ticket.id)
    }
}

/// Refuses a text that is too long for a query.
fn check_text(sql: &str) -> Result<(), Status> {
    if sql.len() <= MAX_QUERY_BYTES {
        return Ok(());
    }
    Err(Status::invalid_argument(format!("the query has {} bytes, expected at most {MAX_QUERY_BYTES}", sql.len())))
}

/// Error for a request to cancel a query that cannot be read.
fn damaged_cancellation() -> Status {
    Status::invalid_argument("the query to cancel is damaged, expected the `FlightInfo` of its result")
}

/// Error for a command that would write.
fn read_only() -> Status {
    Status::invalid_argument(
        "the store is read-only, expected a query; only `pairloom run` writes to a store. For many rows of values, execute a \
         query once with all of them, not as an update (`executemany`)",
    )
}

/// `FlightInfo` of a result that the client fetches with `ticket`.
fn flight_info(
    ticket: &impl ProstMessageExt,
    columns: &Schema,
    request: Request<FlightDescriptor>,
) -> Answer<FlightInfo> {
    let ticket = FlightTicket::new(ticket.as_any().encode_to_vec());
    let info = FlightInfo::new().try_with_schema(columns).map_err(|error| status_of(error.into()))?;
    Ok(Response::new(
        info.with_endpoint(FlightEndpoint::new().with_ticket(ticket)).with_descriptor(request.into_inner()),
    ))
}

/// Messages of one batch.
fn messages(batch: RecordBatch) -> Response<FlightMessages> {
    let messages = FlightDataEncoderBuilder::new().with_schema(batch.schema()).build(stream::iter([Ok(batch)]));
    Response::new(messages.map_err(Status::from).boxed())
}

/// Schema as a message of Arrow IPC.
fn ipc_message(columns: &Schema) -> Result<Bytes, Status> {
    let message = IpcMessage::try_from(SchemaAsIpc::new(columns, &IpcWriteOptions::default()));
    Ok(message.map_err(|error| status_of(error.into()))?.0)
}

#[tonic::async_trait]
impl FlightSqlService for FlightSql {
    type FlightService = FlightSql;

    // The token has been checked before. The client gets it back as a header that it sends from now on.
    async fn do_handshake(
        &self,
        _: Request<Streaming<HandshakeRequest>>,
    ) -> Answer<Pin<Box<dyn Stream<Item = Result<HandshakeResponse, Status>> + Send>>> {
        let answer = stream::iter([Ok(HandshakeResponse::default())]).boxed();
        let mut response: Response<Pin<Box<dyn Stream<Item = _> + Send>>> = Response::new(answer);
        if let Some(header) = &self.token {
            response.metadata_mut().insert("authorization", header.clone());
        }
        Ok(response)
    }

    async fn get_flight_info_statement(
        &self,
        query: CommandStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        check_text(&query.query)?;
        let session = self.session().await?;
        let columns = self.planned(session.result_columns(&query.query, &[])).await?;
        let id = random_bytes().map_err(status_of)?;
        let statement_handle = self.seal.seal(&Ticket { id, sql: query.query });
        flight_info(&TicketStatementQuery { statement_handle }, &sent_columns(&columns), request)
    }

    async fn do_get_statement(&self, ticket: TicketStatementQuery, _: Request<FlightTicket>) -> Answer<FlightMessages> {
        let Ticket { id, sql } = self.seal.open(&ticket.statement_handle)?;
        let session = self.session().await?;
        let messages = self.queries.run(session, &sql, Arc::new(ParameterRows::none()), id).await?;
        Ok(Response::new(messages))
    }

    async fn do_get_fallback(&self, _: Request<FlightTicket>, _: Any) -> Answer<<Self as FlightService>::DoGetStream> {
        Err(wrong_ticket())
    }

    async fn do_action_create_prepared_statement(
        &self,
        statement: ActionCreatePreparedStatementRequest,
        _: Request<Action>,
    ) -> Result<ActionCreatePreparedStatementResult, Status> {
        check_text(&statement.query)?;
        let session = self.session().await?;
        let prepared = self.planned(session.prepare(&statement.query)).await?;
        Ok(ActionCreatePreparedStatementResult {
            prepared_statement_handle: self.statements.add(statement.query)?,
            dataset_schema: ipc_message(&sent_columns(&prepared.columns))?,
            parameter_schema: ipc_message(&Schema::new(prepared.parameters))?,
        })
    }

    async fn do_put_prepared_statement_query(
        &self,
        statement: CommandPreparedStatementQuery,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<DoPutPreparedStatementResult, Status> {
        let handle = statement.prepared_statement_handle;
        self.statements.get(&handle)?;
        let _upload = self.uploads.acquire().await.map_err(|_| Status::unavailable("the server stops"))?;
        let rows = parameter_rows(request.into_inner()).await?;
        self.statements.bind(&handle, rows)?;
        Ok(DoPutPreparedStatementResult { prepared_statement_handle: Some(handle) })
    }

    async fn get_flight_info_prepared_statement(
        &self,
        statement: CommandPreparedStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        let prepared = self.statements.get(&statement.prepared_statement_handle)?;
        let session = self.session().await?;
        let values = prepared.rows.row(0)?;
        let columns = self.planned(session.result_columns(&prepared.sql, &values)).await?;
        flight_info(&statement, &sent_columns(&columns), request)
    }

    async fn do_get_prepared_statement(
        &self,
        statement: CommandPreparedStatementQuery,
        _: Request<FlightTicket>,
    ) -> Answer<FlightMessages> {
        let handle = statement.prepared_statement_handle;
        let prepared = self.statements.get(&handle)?;
        let session = self.session().await?;
        let id = id_of(&handle).ok_or_else(|| Status::internal("a handle of another form"))?;
        let messages = self.queries.run(session, &prepared.sql, prepared.rows, id).await?;
        Ok(Response::new(messages))
    }

    async fn do_put_statement_update(
        &self,
        _: CommandStatementUpdate,
        _: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        Err(read_only())
    }

    async fn do_put_statement_ingest(
        &self,
        _: CommandStatementIngest,
        _: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        Err(read_only())
    }

    async fn do_put_prepared_statement_update(
        &self,
        _: CommandPreparedStatementUpdate,
        _: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        Err(read_only())
    }

    async fn do_action_close_prepared_statement(
        &self,
        statement: ActionClosePreparedStatementRequest,
        _: Request<Action>,
    ) -> Result<(), Status> {
        self.statements.close(&statement.prepared_statement_handle);
        Ok(())
    }

    async fn do_action_cancel_query(
        &self,
        query: ActionCancelQueryRequest,
        _: Request<Action>,
    ) -> Result<ActionCancelQueryResult, Status> {
        let info = FlightInfo::decode(query.info);
        let info = info.map_err(|_| damaged_cancellation())?;
        Ok(ActionCancelQueryResult { result: self.cancel(&info) as i32 })
    }

    async fn do_action_fallback(&self, request: Request<Action>) -> Answer<<Self as FlightService>::DoActionStream> {
        let action = request.into_inner();
        let body = match action.r#type.as_str() {
            CANCEL_FLIGHT_INFO => {
                let request = CancelFlightInfoRequest::decode(action.body);
                let request = request.map_err(|_| damaged_cancellation())?;
                let status = request.info.map_or(CancelStatus::NotCancellable, |info| self.cancel(&info));
                CancelFlightInfoResult::new(status).encode_to_vec()
            }
            CLOSE_SESSION => SESSION_CLOSED.to_vec(),
            other => return Err(Status::unimplemented(format!("there is no action `{other}`"))),
        };
        Ok(Response::new(stream::iter([Ok(ActionResult { body: body.into() })]).boxed()))
    }

    async fn list_custom_actions(&self) -> Option<Vec<Result<ActionType, Status>>> {
        let action = |name: &str, description: &str| {
            Ok(ActionType { r#type: name.to_owned(), description: description.to_owned() })
        };
        Some(vec![
            action(CANCEL_FLIGHT_INFO, "Cancels a query by its FlightInfo"),
            action(CLOSE_SESSION, "Ends the session of a client; prepared statements are closed one by one"),
        ])
    }

    async fn get_flight_info_catalogs(
        &self,
        command: CommandGetCatalogs,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        flight_info(&command, &command.into_builder().schema(), request)
    }

    async fn do_get_catalogs(&self, command: CommandGetCatalogs, _: Request<FlightTicket>) -> Answer<FlightMessages> {
        Ok(messages(metadata::catalogs(command).map_err(Status::from)?))
    }

    async fn get_flight_info_schemas(
        &self,
        command: CommandGetDbSchemas,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        flight_info(&command, &command.clone().into_builder().schema(), request)
    }

    async fn do_get_schemas(&self, command: CommandGetDbSchemas, _: Request<FlightTicket>) -> Answer<FlightMessages> {
        Ok(messages(self.with_tables(move |_, tables| metadata::schemas(command, tables)).await?))
    }

    async fn get_flight_info_tables(
        &self,
        command: CommandGetTables,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        flight_info(&command, &metadata::table_columns(command.clone()), request)
    }

    async fn do_get_tables(&self, command: CommandGetTables, _: Request<FlightTicket>) -> Answer<FlightMessages> {
        Ok(messages(self.with_tables(move |session, tables| metadata::tables(command, session, tables)).await?))
    }

    async fn get_flight_info_table_types(
        &self,
        command: CommandGetTableTypes,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        flight_info(&command, &command.into_builder().schema(), request)
    }

    async fn do_get_table_types(
        &self,
        command: CommandGetTableTypes,
        _: Request<FlightTicket>,
    ) -> Answer<FlightMessages> {
        Ok(messages(metadata::table_types(command).map_err(Status::from)?))
    }

    async fn get_flight_info_sql_info(
        &self,
        command: CommandGetSqlInfo,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        flight_info(&command, &self.facts.schema(), request)
    }

    async fn do_get_sql_info(&self, command: CommandGetSqlInfo, _: Request<FlightTicket>) -> Answer<FlightMessages> {
        Ok(messages(command.into_builder(&self.facts).build().map_err(Status::from)?))
    }

    async fn get_flight_info_xdbc_type_info(
        &self,
        command: CommandGetXdbcTypeInfo,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        flight_info(&command, &self.types.schema(), request)
    }

    async fn do_get_xdbc_type_info(
        &self,
        command: CommandGetXdbcTypeInfo,
        _: Request<FlightTicket>,
    ) -> Answer<FlightMessages> {
        Ok(messages(command.into_builder(&self.types).build().map_err(Status::from)?))
    }

    async fn get_flight_info_primary_keys(
        &self,
        command: CommandGetPrimaryKeys,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        flight_info(&command, &metadata::no_primary_keys().schema(), request)
    }

    async fn do_get_primary_keys(&self, _: CommandGetPrimaryKeys, _: Request<FlightTicket>) -> Answer<FlightMessages> {
        Ok(messages(metadata::no_primary_keys()))
    }

    async fn get_flight_info_exported_keys(
        &self,
        command: CommandGetExportedKeys,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        flight_info(&command, &metadata::no_foreign_keys().schema(), request)
    }

    async fn do_get_exported_keys(
        &self,
        _: CommandGetExportedKeys,
        _: Request<FlightTicket>,
    ) -> Answer<FlightMessages> {
        Ok(messages(metadata::no_foreign_keys()))
    }

    async fn get_flight_info_imported_keys(
        &self,
        command: CommandGetImportedKeys,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        flight_info(&command, &metadata::no_foreign_keys().schema(), request)
    }

    async fn do_get_imported_keys(
        &self,
        _: CommandGetImportedKeys,
        _: Request<FlightTicket>,
    ) -> Answer<FlightMessages> {
        Ok(messages(metadata::no_foreign_keys()))
    }

    async fn get_flight_info_cross_reference(
        &self,
        command: CommandGetCrossReference,
        request: Request<FlightDescriptor>,
    ) -> Answer<FlightInfo> {
        flight_info(&command, &metadata::no_foreign_keys().schema(), request)
    }

    async fn do_get_cross_reference(
        &self,
        _: CommandGetCrossReference,
        _: Request<FlightTicket>,
    ) -> Answer<FlightMessages> {
        Ok(messages(metadata::no_foreign_keys()))
    }

    // The facts are made once, when the server starts.
    async fn register_sql_info(&self, _: i32, _: &SqlInfo) {}
}
