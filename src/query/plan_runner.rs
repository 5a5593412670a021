//! Execution of a session's plans by other processes, and the messages of this crate's operators for them.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use az::SaturatingAs;
use datafusion::common::exec_err;
use datafusion::error::Result;
use datafusion::execution::session_state::SessionState;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionConfig;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};

use super::pass_through::{ReadOnceExec, SmallBatchesExec, read_once, small_batches};
use super::sent_errors::{SentErrorsExec, sent_errors};
use super::topk_join::{decode_join, encode_join};

/// Runner of a session's plans in other processes.
#[async_trait]
pub trait PlanRunner: Debug + Send + Sync {
    /// Refuses a query that these processes cannot run as it is meant.
    ///
    /// # Errors
    /// The query has such a part.
    fn check(&self, plan: &LogicalPlan) -> Result<()>;

    /// Session state that makes plans for these processes.
    fn state(&self, state: SessionState) -> SessionState;

    /// Runs a plan that such a state with these settings has made.
    ///
    /// # Errors
    /// The processes cannot be reached, or the plan fails.
    async fn run(&self, plan: Arc<dyn ExecutionPlan>, config: &SessionConfig) -> Result<SendableRecordBatchStream>;
}

/// First bytes of messages, one for each operator.
const TOP_K_JOIN: u8 = 0;
const READ_ONCE: u8 = 1;
const SMALL_BATCHES: u8 = 2;
const SENT_ERRORS: u8 = 3;

/// Message of an operator of this crate; `None` for another operator.
///
/// # Errors
/// An expression has no message.
pub fn encode_operator(
    operator: &Arc<dyn ExecutionPlan>,
    codec: &dyn PhysicalExtensionCodec,
    converter: &dyn PhysicalProtoConverterExtension,
) -> Result<Option<Vec<u8>>> {
    if operator.downcast_ref::<ReadOnceExec>().is_some() {
        return Ok(Some(vec![READ_ONCE]));
    }
    if let Some(operator) = operator.downcast_ref::<SmallBatchesExec>() {
        let rows: u64 = operator.reader().rows.saturating_as();
        return Ok(Some([vec![SMALL_BATCHES], rows.to_le_bytes().to_vec()].concat()));
    }
    if operator.downcast_ref::<SentErrorsExec>().is_some() {
        return Ok(Some(vec![SENT_ERRORS]));
    }
    let join = encode_join(operator, codec, converter)?;
    Ok(join.map(|message| [vec![TOP_K_JOIN], message].concat()))
}

/// Operator of a message.
///
/// # Errors
/// The message is damaged, or of another version.
pub fn decode_operator(
    message: &[u8],
    inputs: &[Arc<dyn ExecutionPlan>],
    context: &TaskContext,
    codec: &dyn PhysicalExtensionCodec,
    converter: &dyn PhysicalProtoConverterExtension,
) -> Result<Arc<dyn ExecutionPlan>> {
    match (message.split_first(), inputs) {
        (Some((&TOP_K_JOIN, message)), _) => decode_join(message, inputs, context, codec, converter),
        (Some((&READ_ONCE, [])), [input]) => Ok(Arc::new(read_once(Arc::clone(input)))),
        (Some((&SENT_ERRORS, [])), [input]) => Ok(Arc::new(sent_errors(Arc::clone(input)))),
        (Some((&SMALL_BATCHES, rows)), [input]) if rows.len() == size_of::<u64>() => {
            let rows = rows.iter().rev().fold(0_u64, |rows, &byte| rows << 8 | u64::from(byte));
            Ok(Arc::new(small_batches(Arc::clone(input), rows.max(1).saturating_as())))
        }
        _ => exec_err!("got a message of no operator, expected one of this version of Pairloom"),
    }
}
