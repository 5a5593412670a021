//! Server over a small store, and clients of it, for tests.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, AsArray, ListArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::Float64Type;
use arrow_flight::FlightInfo;
use arrow_flight::error::FlightError;
use arrow_flight::sql::client::{FlightSqlServiceClient, PreparedStatement};
use futures::TryStreamExt;
use futures::channel::oneshot;
use tokio::runtime::Runtime;
use tonic::Code;
use tonic::transport::Channel;

use super::{AccessToken, FlightOptions, FlightServer, Sessions};
use pairloom_base::error::Result;
use pairloom_query::testing::put_two_runs;
use pairloom_store::Store;

pub(super) type Client = FlightSqlServiceClient<Channel>;

pub(super) const TOKEN: &str = "0123456789abcdef";

/// Server over the store of `sql::testing`, and a runtime for its clients.
pub(super) struct Served {
    pub runtime: Runtime,
    pub store: Store,
    pub uri: String,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<Result<()>>>,
    _folder: tempfile::TempDir,
}

impl Served {
    pub(super) fn start(token: Option<&str>, query_memory: u64, seconds: u64) -> Self {
        Self::of_server(token, [u64::MAX, query_memory], [seconds, 60], |server| server)
    }

    /// Server that ends queries whose clients take no rows for a second.
    pub(super) fn with_short_reader_time() -> Self {
        Self::of_server(None, [u64::MAX, 1 << 30], [300, 1], |server| server)
    }

    /// Server whose process has this limit of memory.
    pub(super) fn with_memory(bytes: u64) -> Self {
        Self::of_server(None, [bytes, 1 << 30], [300, 60], |server| server)
    }

    /// Server with another time until the first call of a connection.
    pub(super) fn with_first_call_time(token: Option<&str>, time: Duration) -> Self {
        Self::of_server(token, [u64::MAX, 1 << 30], [300, 60], |server| server.with_first_call_time(time))
    }

    fn of_server(
        token: Option<&str>,
        [memory, query_memory]: [u64; 2],
        [query_seconds, reader_seconds]: [u64; 2],
        change: impl FnOnce(FlightServer) -> FlightServer,
    ) -> Self {
        let folder = tempfile::Builder::new().prefix("a store [1] 100% ").tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        put_two_runs(&store);
        let options = FlightOptions {
            address: "127.0.0.1:0".parse().unwrap(),
            token: token.map(|token| AccessToken::new(token).unwrap()),
            tls: None,
            memory,
            query_memory,
            query_time: Duration::from_secs(query_seconds),
            reader_time: Duration::from_secs(reader_seconds),
            queries: 2,
        };
        let choose = Box::new(|log: &pairloom_store::record::RunLog| log.last_finished(None).map(Option::<&_>::cloned));
        let sessions = Arc::new(Sessions::new(store.clone(), choose, vec![]));
        let server = change(FlightServer::bind(options, sessions).unwrap());
        let uri = format!("http://{}", server.address());
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().spawn(move || server.serve(stopped)).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { runtime, store, uri, stop: Some(stop), thread: Some(thread), _folder: folder }
    }

    pub(super) fn without_limits() -> Self {
        Self::start(None, 1 << 30, 300)
    }

    pub(super) fn client(&self) -> Client {
        let channel = Channel::from_shared(self.uri.clone()).unwrap();
        Client::new(self.runtime.block_on(channel.connect()).unwrap())
    }

    pub(super) fn rows(&self, client: &mut Client, sql: &str) -> Result<RecordBatch, FlightError> {
        self.runtime.block_on(async {
            let info = client.execute(sql.to_owned(), None).await?;
            fetch(client, &info).await
        })
    }

    pub(super) fn prepare(&self, client: &mut Client, sql: &str) -> PreparedStatement<Channel> {
        self.runtime.block_on(client.prepare(sql.to_owned(), None)).unwrap()
    }

    /// Rows of a prepared statement with these values.
    pub(super) fn bound(
        &self,
        client: &mut Client,
        statement: &mut PreparedStatement<Channel>,
        values: Vec<ArrayRef>,
    ) -> Result<RecordBatch, FlightError> {
        // ADBC names the columns by their numbers.
        let columns = values.into_iter().enumerate().map(|(at, values)| (at.to_string(), values));
        statement.set_parameters(RecordBatch::try_from_iter(columns).unwrap()).unwrap();
        self.runtime.block_on(async {
            let info = statement.execute().await?;
            fetch(client, &info).await
        })
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.stop.take());
        let ended = self.thread.take().unwrap().join();
        if !std::thread::panicking() {
            ended.unwrap().unwrap();
        }
    }
}

pub(super) async fn fetch(client: &mut Client, info: &FlightInfo) -> Result<RecordBatch, FlightError> {
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let rows = client.do_get(ticket).await?;
    let batches: Vec<RecordBatch> = rows.try_collect().await?;
    let columns = info.clone().try_decode_schema()?;
    // The columns are as announced.
    assert!(batches.iter().all(|batch| batch.schema().fields() == columns.fields()));
    Ok(concat_batches(&Arc::new(columns), &batches)?)
}

/// Code and message of a refusal.
pub(super) fn refusal<T: std::fmt::Debug>(result: Result<T, FlightError>) -> (Code, String) {
    match result.unwrap_err() {
        FlightError::Tonic(status) => (status.code(), status.message().to_owned()),
        other => panic!("{other}"),
    }
}

pub(super) fn texts(column: &ArrayRef) -> Vec<&str> {
    column.as_string::<i32>().iter().flatten().collect()
}

/// A list of f64, as a client of Python sends it.
pub(super) fn list(values: &[f64]) -> ArrayRef {
    Arc::new(ListArray::from_iter_primitive::<Float64Type, _, _>([Some(values.iter().copied().map(Some))]))
}
