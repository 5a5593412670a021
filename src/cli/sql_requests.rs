//! Requests to `pairloom-sql`, which another program starts as a child: their form, the child, and sections of searches on a
//! cluster through it.
//!
//! A request is a line of JSON on stdin, its answer a line of JSON on stdout. The end of stdin cancels a request that runs.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use arrow::datatypes::{Schema, SchemaRef};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::siblings::Sibling;
use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::{ClusterUrl, ErrorMessage};
use pairloom_stage::Coordinate;
use pairloom_store::record::StageRecord;
use pairloom_store::search_tasks::SectionRunner;

/// Only argument of a `pairloom-sql` that answers a request. It is no command of the command line.
pub const ANSWER_REQUEST: &str = "answer-request";

/// Request to `pairloom-sql`. Comments name the type of the answer, beside an [`ErrorMessage`].
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum SqlRequest {
    /// Plan queries against tables without rows: `Vec<Option<ErrorMessage>>`.
    CheckQueries {
        /// Tables of the pipeline.
        tables: Vec<TableDeclaration>,
        /// Queries.
        queries: Vec<String>,
    },
    /// Evaluate queries for single numbers over the results of a run: `Vec<Result<QueryValue, ErrorMessage>>`.
    QueryValues {
        /// Store, as for `--store`.
        store: OsString,
        /// Stages of the run.
        stages: Vec<StageRecord>,
        /// Queries.
        queries: Vec<String>,
    },
    /// Run sections of a search job on a cluster, and wait for them: `()`.
    RunSections {
        /// URL of the scheduler.
        cluster: String,
        /// Store, as for `--store`.
        store: OsString,
        /// Folder of the objects of the job.
        folder: String,
        /// Digest of the job.
        job: String,
        /// Numbers of the sections.
        sections: Vec<usize>,
    },
}

/// Answer to a request, whose value has the type `T`.
pub type SqlAnswer<T> = Result<T, ErrorMessage>;

/// Table that a stage will write.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableDeclaration {
    /// Name of the stage, with the coordinates of an instance.
    pub stage: String,
    /// Coordinates of the stage.
    pub coordinates: Vec<Coordinate>,
    /// Name of the table.
    pub table: String,
    /// Columns.
    #[serde(serialize_with = "schema_to_text", deserialize_with = "schema_of_text")]
    pub schema: SchemaRef,
}

/// Number that a query gives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueryValue {
    /// Name of its column.
    pub column: String,
    /// Bits of the number, since JSON has no NaN.
    bits: u64,
}

impl QueryValue {
    /// A number of the column `column`.
    #[must_use]
    pub fn new(column: String, value: f64) -> Self {
        Self { column, bits: value.to_bits() }
    }

    /// The number.
    #[must_use]
    pub fn value(&self) -> f64 {
        f64::from_bits(self.bits)
    }
}

/// Columns as an Arrow stream without rows, in base64.
fn schema_to_text<S: Serializer>(schema: &Schema, serializer: S) -> Result<S::Ok, S::Error> {
    let mut bytes = Vec::new();
    let written = StreamWriter::try_new(&mut bytes, schema).and_then(|mut writer| writer.finish());
    written.map_err(serde::ser::Error::custom)?;
    serializer.serialize_str(&STANDARD.encode(bytes))
}

fn schema_of_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SchemaRef, D::Error> {
    let text = String::deserialize(deserializer)?;
    let bytes = STANDARD.decode(text).map_err(serde::de::Error::custom)?;
    let reader = StreamReader::try_new(bytes.as_slice(), None).map_err(serde::de::Error::custom)?;
    Ok(reader.schema())
}

/// Pause between two reports while a child works.
const PAUSE: Duration = Duration::from_millis(200);
/// Time for a child to stop after it was cancelled: it has five seconds to cancel a job of a cluster.
const CANCEL_TIME: Duration = Duration::from_secs(7);

/// Sends a request to a child, and returns the value of its answer. Calls `report` often; after an error of it, the request
/// is cancelled.
///
/// # Errors
/// The first error of `report`, or that of the answer; the child is not there or gives no answer.
pub(super) fn ask<T: DeserializeOwned>(
    sibling: Sibling,
    request: &SqlRequest,
    report: &mut dyn FnMut() -> Result<()>,
) -> Result<T> {
    let mut line = serde_json::to_vec(request).map_err(|error| Error::internal(error.to_string()))?;
    line.push(b'\n');
    let mut command = sibling.command()?;
    // In a group of its own, so that Ctrl-C does not end it before it has cancelled what it began.
    command.arg(ANSWER_REQUEST).stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
    let shown = command.get_program().display().to_string();
    let failed = |doing: &str, error: &std::io::Error| Error::stage(format!("cannot {doing} `{shown}`: {error}"));
    let mut running = Running::new(command.spawn().map_err(|error| failed("start", &error))?);
    // A child that has ended already tells more by its answer.
    if let Some(request) = &mut running.request {
        let _ = request.write_all(&line).and_then(|()| request.flush());
    }
    let answered = running.answer().map_err(|error| failed("read", &error))?;
    loop {
        match answered.recv_timeout(PAUSE) {
            Ok(answer) => {
                let answer = answer.map_err(|error| failed("read", &error))?;
                let ended = running.child.wait().map_err(|error| failed("wait for", &error))?;
                let answer = serde_json::from_slice::<SqlAnswer<T>>(&answer);
                let answer =
                    answer.map_err(|_| Error::stage(format!("`{shown}` gave no answer: it ended with {ended}")));
                return answer?.map_err(Error::from);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Error::internal(format!("the thread that reads `{shown}` panicked")));
            }
        }
        if let Err(error) = report() {
            running.cancel();
            let _ = answered.recv_timeout(CANCEL_TIME);
            return Err(error);
        }
    }
}

/// Child that works. Dropping it cancels its request, and kills it if it does not end.
struct Running {
    child: Child,
    /// Open while the child may work.
    request: Option<ChildStdin>,
}

impl Running {
    fn new(mut child: Child) -> Self {
        let request = child.stdin.take();
        Self { child, request }
    }

    /// Starts a thread that reads the answer.
    fn answer(&mut self) -> std::io::Result<Receiver<std::io::Result<Vec<u8>>>> {
        let (sender, receiver) = sync_channel(1);
        let Some(mut out) = self.child.stdout.take() else { return Err(std::io::ErrorKind::BrokenPipe.into()) };
        std::thread::Builder::new().name("answer".to_owned()).spawn(move || {
            let mut answer = Vec::new();
            let read = out.read_to_end(&mut answer).map(|_| answer);
            // Nobody waits any more.
            let _ = sender.send(read);
        })?;
        Ok(receiver)
    }

    fn cancel(&mut self) {
        self.request = None;
    }
}

#[expect(clippy::disallowed_methods, reason = "a child is given some time to end")]
fn now() -> Instant {
    Instant::now()
}

impl Drop for Running {
    fn drop(&mut self) {
        self.cancel();
        let end = now() + CANCEL_TIME;
        while let Ok(None) = self.child.try_wait() {
            if now() > end {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Runner of sections on a cluster whose executors read the store of the run.
#[derive(Debug)]
pub(super) struct ClusterSections {
    /// URL of the scheduler.
    pub(super) cluster: ClusterUrl,
    /// Store, as for `--store`.
    pub(super) store: OsString,
}

impl SectionRunner for ClusterSections {
    fn run_sections(
        &self,
        folder: &str,
        job: &str,
        sections: &[usize],
        report: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let request = SqlRequest::RunSections {
            cluster: self.cluster.to_string(),
            store: self.store.clone(),
            folder: folder.to_owned(),
            job: job.to_owned(),
            sections: sections.to_vec(),
        };
        ask(Sibling::SqlServer, &request, report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pairloom_tables as tables;

    #[test]
    fn columns_and_numbers_survive_the_way() {
        for table in tables::all() {
            let declared = TableDeclaration {
                stage: "test@seed=3".to_owned(),
                coordinates: vec![Coordinate { axis: "seed".to_owned(), value: 3.into() }],
                table: table.name.to_owned(),
                schema: table.schema(),
            };
            let text = serde_json::to_string(&declared).unwrap();
            let back: TableDeclaration = serde_json::from_str(&text).unwrap();
            assert_eq!((back.schema, back.coordinates), (table.schema(), declared.coordinates), "{}", table.name);
        }
        for value in [0.1 + 0.2, f64::NAN, f64::INFINITY, -0.0] {
            let text = serde_json::to_string(&QueryValue::new("rsum".to_owned(), value)).unwrap();
            let back: QueryValue = serde_json::from_str(&text).unwrap();
            assert_eq!((back.value().to_bits(), back.column.as_str()), (value.to_bits(), "rsum"));
        }
    }
}
