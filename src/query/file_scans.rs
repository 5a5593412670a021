//! Scans of users' files, in which errors of the format and panics of a library are errors of the file.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{Stream, StreamExt};

use crate::condition_message::ConditionMessage;
use crate::pass_through::{PassThroughExec, ReadInput};
use pairloom_base::error::{Error, panic_error};

/// Optimizer rule that puts [`FileScan`] over the scans of files that are not in the store.
#[derive(Debug)]
pub(super) struct FileScans;

impl PhysicalOptimizerRule for FileScans {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let Some(name) = file_name(&node) else { return Ok(Transformed::no(node)) };
            Ok(Transformed::yes(Arc::new(PassThroughExec::new(node, FileScan { name })) as Arc<dyn ExecutionPlan>))
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "file_scans"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Name of the file that an operator scans; `None` for other operators, and for files of the store.
fn file_name(node: &Arc<dyn ExecutionPlan>) -> Option<String> {
    let config = node.downcast_ref::<DataSourceExec>()?.data_source().downcast_ref::<FileScanConfig>()?;
    if !config.object_store_url.as_str().starts_with("file:") {
        return None;
    }
    let path = config.file_groups.iter().flat_map(FileGroup::iter).map(PartitionedFile::path).next()?;
    path.filename().map(str::to_owned)
}

/// Scan of a user's file.
#[derive(Debug)]
struct FileScan {
    name: String,
}

impl ReadInput for FileScan {
    const NAME: &'static str = "FileScanExec";

    fn of_other(&self, _: &Arc<dyn ExecutionPlan>) -> Self {
        Self { name: self.name.clone() }
    }

    fn read(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let rows = caught(input.execute(partition, context)?, self.name.clone());
        Ok(Box::pin(RecordBatchStreamAdapter::new(input.schema(), rows)))
    }
}

/// Rows of the file `name`. Errors of its format and panics of its reader are errors of the file.
fn caught(
    rows: impl Stream<Item = Result<RecordBatch>> + Send,
    name: String,
) -> impl Stream<Item = Result<RecordBatch>> + Send {
    let damaged = move |message: &str| {
        let error = Error::data(format!("`{name}` cannot be read: {message}"));
        DataFusionError::External(error.hint("the file is damaged: copy it or create it again").into())
    };
    AssertUnwindSafe(rows).catch_unwind().map(move |batch| match batch {
        Ok(Err(error)) if is_format_error(error.find_root()) => {
            Err(damaged(&error.find_root().strip_backtrace().replace('\n', " ")))
        }
        Ok(batch) => batch,
        Err(panic) => Err(damaged(&panic_error(&*panic).to_string())),
    })
}

fn is_format_error(error: &DataFusionError) -> bool {
    match error {
        // The condition is one of the query.
        DataFusionError::ParquetError(_) => !ConditionMessage::is_one(&error.strip_backtrace()),
        DataFusionError::ArrowError(error, _) => {
            use ArrowError::{CsvError, JsonError, ParquetError, ParseError};
            matches!(**error, ParquetError(_) | JsonError(_) | CsvError(_) | ParseError(_))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;
    use futures::stream;

    use super::*;
    use crate::errors::sql_error;
    use crate::testing::scores;
    use pairloom_base::error::ErrorCategory;

    #[test]
    fn a_panic_of_a_reader_is_an_error_of_the_file() {
        let batch = scores(&[("nns", 1.0)]);
        let rows = stream::iter(0..3).map(move |at| if at < 2 { Ok(batch.clone()) } else { panic!("page {at}") });
        let read: Vec<_> = block_on(caught(rows, "a.parquet".to_owned()).collect());
        let [Ok(_), Ok(_), Err(error)] = &read[..] else { panic!("two batches and an error") };
        let error = sql_error(error);
        assert_eq!(error.category(), ErrorCategory::Data);
        assert_eq!(error.to_string(), "`a.parquet` cannot be read: panicked: page 2");

        let wrong = ArrowError::JsonError("line 7".to_owned());
        let rows = stream::iter([Err(DataFusionError::ArrowError(Box::new(wrong), None))]);
        let read: Vec<_> = block_on(caught(rows, "a.jsonl".to_owned()).collect());
        let error = sql_error(read[0].as_ref().unwrap_err());
        assert_eq!(error.category(), ErrorCategory::Data);
        assert!(error.to_string().starts_with("`a.jsonl` cannot be read: ") && error.to_string().ends_with("line 7"));
    }
}
