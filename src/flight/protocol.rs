//! Calls of Flight, which lead to the commands of Flight SQL, and errors as the statuses of gRPC.

use arrow_flight::flight_service_server::FlightService;
use arrow_flight::sql::{Any, Command};
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo, HandshakeRequest, PollInfo,
    SchemaResult, Ticket,
};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use prost::Message;
use tonic::{Code, Request, Status, Streaming};

use crate::queries::wrong_ticket;
use crate::service::{Answer, FlightSql};
use pairloom_base::error::{Error, ErrorCategory};

/// Actions that arrow-flight lists and this server does not have: it is read-only, and has no plans of Substrait.
const ABSENT_ACTIONS: [&str; 5] =
    ["CreatePreparedSubstraitPlan", "BeginTransaction", "EndTransaction", "BeginSavepoint", "EndSavepoint"];

/// Flight service of this server. It adds to that of arrow-flight the schema of a query without running it, a clear error
/// for a ticket of another server, and the list of the actions that exist.
pub(super) struct FlightProtocol(pub FlightSql);

/// Refusal of a command or action that cannot be read, which arrow-flight 59 gives the debug text of an error of Rust and,
/// for a text that is not UTF-8, the code of a mistake of the server.
fn readable(status: Status, what: &str) -> Status {
    let starts = ["DecodeError", "ParseError(\"Unable to decode", "Unable to unpack"];
    if !starts.iter().any(|start| status.message().starts_with(start)) {
        return status;
    }
    Status::invalid_argument(format!("the {what} cannot be read, expected a message of Flight SQL with texts in UTF-8"))
}

#[tonic::async_trait]
impl FlightService for FlightProtocol {
    type HandshakeStream = <FlightSql as FlightService>::HandshakeStream;
    type ListFlightsStream = <FlightSql as FlightService>::ListFlightsStream;
    type DoGetStream = <FlightSql as FlightService>::DoGetStream;
    type DoPutStream = <FlightSql as FlightService>::DoPutStream;
    type DoExchangeStream = <FlightSql as FlightService>::DoExchangeStream;
    type DoActionStream = <FlightSql as FlightService>::DoActionStream;
    type ListActionsStream = BoxStream<'static, Result<ActionType, Status>>;

    async fn handshake(&self, request: Request<Streaming<HandshakeRequest>>) -> Answer<Self::HandshakeStream> {
        self.0.handshake(request).await
    }

    async fn list_flights(&self, request: Request<Criteria>) -> Answer<Self::ListFlightsStream> {
        self.0.list_flights(request).await
    }

    async fn get_flight_info(&self, request: Request<FlightDescriptor>) -> Answer<FlightInfo> {
        self.0.get_flight_info(request).await.map_err(|status| readable(status, "command"))
    }

    async fn poll_flight_info(&self, request: Request<FlightDescriptor>) -> Answer<PollInfo> {
        self.0.poll_flight_info(request).await
    }

    async fn get_schema(&self, request: Request<FlightDescriptor>) -> Answer<SchemaResult> {
        let info = self.get_flight_info(request).await?;
        Ok(info.map(|info| SchemaResult { schema: info.schema }))
    }

    async fn do_get(&self, request: Request<Ticket>) -> Answer<Self::DoGetStream> {
        let ticket = Any::decode(&*request.get_ref().ticket).map_err(|_| wrong_ticket())?;
        Command::try_from(ticket).map_err(|_| wrong_ticket())?;
        self.0.do_get(request).await
    }

    async fn do_put(&self, request: Request<Streaming<FlightData>>) -> Answer<Self::DoPutStream> {
        self.0.do_put(request).await.map_err(|status| readable(status, "command"))
    }

    async fn do_exchange(&self, request: Request<Streaming<FlightData>>) -> Answer<Self::DoExchangeStream> {
        self.0.do_exchange(request).await
    }

    async fn do_action(&self, request: Request<Action>) -> Answer<Self::DoActionStream> {
        self.0.do_action(request).await.map_err(|status| readable(status, "action"))
    }

    async fn list_actions(&self, request: Request<Empty>) -> Answer<Self::ListActionsStream> {
        let actions = self.0.list_actions(request).await?;
        let exists = |action: &ActionType| !ABSENT_ACTIONS.contains(&action.r#type.as_str());
        Ok(actions.map(|actions| actions.try_filter(move |action| std::future::ready(exists(action))).boxed()))
    }
}

/// Longest message in bytes. Clients limit the size of headers, in which it travels.
const MAX_MESSAGE_BYTES: usize = 3_000;

/// Status of an error, with its hint.
pub(crate) fn status_of(error: Error) -> Status {
    let code = match error.category() {
        ErrorCategory::Usage | ErrorCategory::Expectation => Code::InvalidArgument,
        ErrorCategory::Data => Code::FailedPrecondition,
        // A query has no stages: its memory or its time is exhausted.
        ErrorCategory::Stage => Code::ResourceExhausted,
        ErrorCategory::Interrupted => Code::Cancelled,
        ErrorCategory::Internal => Code::Internal,
    };
    let hint = error.hint_text().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
    let mut message = format!("{error}{hint}");
    if message.len() > MAX_MESSAGE_BYTES {
        message.truncate(message.floor_char_boundary(MAX_MESSAGE_BYTES));
        message.push('…');
    }
    Status::new(code, message)
}
