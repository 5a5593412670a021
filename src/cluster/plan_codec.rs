//! Messages for the operators of plans that DataFusion does not know.

use std::sync::Arc;

use ballista_core::serde::BallistaPhysicalExtensionCodec;
use datafusion::common::exec_err;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};

use pairloom_query::{decode_operator, encode_operator};

/// First bytes of messages: of Ballista's operators, and of ours.
const OF_BALLISTA: u8 = 0;
const OF_PAIRLOOM: u8 = 1;

/// Codec of the operators of Ballista and of ours. Functions travel by their names.
#[derive(Debug, Default)]
pub(super) struct PlanCodec {
    ballista: BallistaPhysicalExtensionCodec,
}

impl PhysicalExtensionCodec for PlanCodec {
    fn try_decode(
        &self,
        message: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        context: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match message.split_first() {
            Some((&OF_BALLISTA, message)) => self.ballista.try_decode(message, inputs, context, converter),
            Some((&OF_PAIRLOOM, message)) => decode_operator(message, inputs, context, self, converter),
            _ => exec_err!("got a plan of another program, wanted one of this build of Pairloom"),
        }
    }

    fn try_encode(
        &self,
        operator: Arc<dyn ExecutionPlan>,
        message: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        if let Some(own) = encode_operator(&operator, self, converter)? {
            message.push(OF_PAIRLOOM);
            message.extend(own);
            return Ok(());
        }
        message.push(OF_BALLISTA);
        self.ballista.try_encode(operator, message, converter)
    }
}
