//! Messages of this crate's operators, for other processes.

use std::sync::Arc;

use datafusion::common::exec_err;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};

use super::read_once::{ReadOnceExec, read_once};
use super::small_batches::{SmallBatchesExec, small_batches};
use super::topk_join::{decode_join, encode_join};

/// First bytes of messages, one for each operator.
const TOP_K_JOIN: u8 = 0;
const READ_ONCE: u8 = 1;
const SMALL_BATCHES: u8 = 2;

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
    if operator.downcast_ref::<SmallBatchesExec>().is_some() {
        return Ok(Some(vec![SMALL_BATCHES]));
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
        (Some((&SMALL_BATCHES, [])), [input]) => Ok(Arc::new(small_batches(Arc::clone(input)))),
        _ => exec_err!("got a message of no operator, wanted one of this version of Pairloom"),
    }
}
