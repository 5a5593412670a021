//! Requests to `pairloom-sql`, which another program starts as a child. A request is a line of JSON on stdin, its answer a
//! line of JSON on stdout. The end of stdin cancels a request that runs.

use std::ffi::OsString;

use arrow::datatypes::{Schema, SchemaRef};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use pairloom_base::runtime::ErrorMessage;
use pairloom_stage::Coordinate;
use pairloom_store::record::StageRecord;

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
