//! Errors of a query that other processes compute.
//!
//! Ballista passes the errors of executors on as text, which Rust quotes and escapes once or several times. So an executor
//! writes an error of this program, with its category and its hint, as JSON in hexadecimal digits, which no quoting changes.

use std::sync::Arc;

use arrow::error::ArrowError;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};
use futures::TryStreamExt;

use crate::errors::sql_error;
use crate::pass_through::{PassThroughExec, ReadInput};
use pairloom_base::error::Error;
use pairloom_base::runtime::ErrorMessage;

/// Text before the digits.
const MARK: &str = "pairloom-error-";

/// Error with the text of an error, unless Ballista has to see it: it repeats tasks that could not read.
#[must_use]
pub fn error_to_send(error: DataFusionError) -> DataFusionError {
    let is_of_ballista = match error.find_root() {
        DataFusionError::IoError(_) => true,
        DataFusionError::External(inner) => !inner.is::<Error>() && !inner.is::<ArrowError>(),
        _ => false,
    };
    // An operator below may have sent it.
    if is_of_ballista || matches!(error.find_root(), DataFusionError::Execution(text) if text.starts_with(MARK)) {
        return error;
    }
    match serde_json::to_vec(&ErrorMessage::from(&sql_error(&error))) {
        Ok(json) => {
            let digits: String = json.iter().map(|byte| format!("{byte:02x}")).collect();
            DataFusionError::Execution(format!("{MARK}{digits}"))
        }
        Err(_) => error,
    }
}

/// Error that a text has; `None` for another text.
#[must_use]
pub fn sent_error(text: &str) -> Option<Error> {
    let (_, digits) = text.split_once(MARK)?;
    let digits = digits.split(|c: char| !c.is_ascii_hexdigit()).next()?;
    let byte = |at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    let json: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(byte).collect();
    serde_json::from_slice::<ErrorMessage>(&json?).ok().map(Error::from)
}

/// Operator with the rows of its input, whose errors are those [to send](error_to_send).
pub(super) type SentErrorsExec = PassThroughExec<SentErrors>;

/// Reader of errors to send.
#[derive(Debug)]
pub(super) struct SentErrors;

/// Returns the operator over `input`.
pub(super) fn sent_errors(input: Arc<dyn ExecutionPlan>) -> SentErrorsExec {
    PassThroughExec::new(input, SentErrors)
}

impl ReadInput for SentErrors {
    const NAME: &'static str = "SentErrorsExec";

    fn of_other(&self, _: &Arc<dyn ExecutionPlan>) -> Self {
        Self
    }

    fn read(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let rows = input.execute(partition, context).map_err(error_to_send)?;
        Ok(Box::pin(RecordBatchStreamAdapter::new(input.schema(), rows.map_err(error_to_send))))
    }
}

/// Plan whose errors can be sent, at its end and below the operators at which Ballista cuts it into tasks.
///
/// # Errors
/// An operator cannot have another input.
pub fn with_sent_errors(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = plan.transform_up(|node| {
        let is_cut = node.downcast_ref::<RepartitionExec>().is_some()
            || node.downcast_ref::<CoalescePartitionsExec>().is_some()
            || node.downcast_ref::<SortPreservingMergeExec>().is_some();
        if !is_cut {
            return Ok(Transformed::no(node));
        }
        let sent = |input: &Arc<dyn ExecutionPlan>| Arc::new(sent_errors(Arc::clone(input))) as Arc<dyn ExecutionPlan>;
        let inputs = node.children().into_iter().map(sent).collect();
        Ok(Transformed::yes(
            Arc::clone(&node)
                .replace_children(inputs, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))?,
        ))
    });
    Ok(Arc::new(sent_errors(plan.data()?)))
}

#[cfg(test)]
mod tests {
    use datafusion::execution::SessionStateBuilder;
    use datafusion::physical_plan::{collect, displayable};
    use datafusion::prelude::{SessionConfig, SessionContext};

    use super::*;
    use crate::state::session_state;
    use pairloom_base::error::ErrorCategory;

    #[test]
    fn errors_of_this_program_keep_their_category_and_hint() {
        for hint in [Some("say \"again\", hint: Ā none"), None] {
            let mut own = Error::data("section 3, hint: Some(\"x\"),\nis damaged");
            if let Some(hint) = hint {
                own = own.hint(hint);
            }
            let sent = error_to_send(DataFusionError::Shared(Arc::new(DataFusionError::External(Box::new(own)))));
            let text = format!("Job failed: {:?}", format!("{:?}", DataFusionError::Shared(Arc::new(sent))));
            let got = sent_error(&text).unwrap();
            assert_eq!(got.to_string(), "section 3, hint: Some(\"x\"),\nis damaged");
            assert_eq!((got.category(), got.hint_text()), (ErrorCategory::Data, hint));
        }
        let io = error_to_send(DataFusionError::IoError(std::io::Error::other("gone")));
        assert!(matches!(io, DataFusionError::IoError(_)));
        for text in
            ["", "Task failed due to executor lost", "pairloom-error-", "pairloom-error-7b7", "pairloom-error-zz"]
        {
            assert!(sent_error(text).is_none(), "{text}");
        }
    }

    #[tokio::test]
    async fn errors_of_all_tasks_are_sent() {
        let state = SessionStateBuilder::new_from_existing(session_state(None, None).unwrap());
        let config = SessionConfig::new().with_target_partitions(2);
        let context = SessionContext::new_with_state(state.with_config(config).build());
        // A division by zero in the first task, and in the last.
        for sql in [
            "SELECT value % 2 AS k, count(*) FROM range(0, 10) WHERE 1 / (value - 5) < 9 GROUP BY k",
            "SELECT 1 / (count(*) - 10) FROM range(0, 10)",
        ] {
            let plan = context.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
            let plan = with_sent_errors(plan).unwrap();
            let shown = displayable(plan.as_ref()).indent(false).to_string();
            let cuts = ["RepartitionExec", "CoalescePartitionsExec", "SortPreservingMergeExec"];
            let cuts: usize = cuts.iter().map(|name| shown.matches(name).count()).sum();
            assert!(cuts > 0 && shown.matches("SentErrorsExec").count() == cuts + 1, "{shown}");
            let text = format!("{:?}", collect(plan, context.task_ctx()).await.unwrap_err());
            let error = sent_error(&text).unwrap();
            assert_eq!((error.category(), error.to_string().as_str()), (ErrorCategory::Usage, "SQL: division by zero"));
        }
    }
}
