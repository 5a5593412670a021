//! Functions, settings and messages of operators that all processes of a cluster have.

use std::path::Path;
use std::sync::Arc;

use ballista_core::config::BALLISTA_CLIENT_IO_RETRY_WAIT_TIME_MS;
use ballista_core::extension::SessionConfigExt;
use ballista_core::registry::BallistaFunctionRegistry;
use ballista_core::serde::BallistaPhysicalExtensionCodec;
use datafusion::common::exec_err;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::ScalarUDF;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionConfig;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};

use super::build_option::{check_sender, receiving, sending};
use super::search_tasks::SearchSection;
use super::store_id::StoreRegistry;
use pairloom_query::{ReadOrder, decode_operator, encode_operator, function_state};
use pairloom_store::Store;

/// Largest message between processes, in bytes: a plan with the rows of small tables.
pub(super) const MAX_MESSAGE_BYTES: u32 = 256 << 20;

/// Pause between two tries to fetch rows from an executor, in milliseconds. One that has died does not come back, so a
/// query should not wait for it long.
pub(super) const FETCH_PAUSE: u64 = 500;

/// Settings of a session of a scheduler or an executor.
pub(super) fn session_config() -> SessionConfig {
    receiving(cluster_config(SessionConfig::new_with_ballista()))
}

/// Settings of a session whose plans are sent to a cluster, over the tables of the store with an id.
pub(super) fn client_config(config: SessionConfig, store: &str) -> SessionConfig {
    sending(cluster_config(config), store)
}

fn cluster_config(mut config: SessionConfig) -> SessionConfig {
    // The partitions of a scan would share a queue of files, and one that is idle would read those of others. But a task runs
    // some partitions, and its scan is a copy of its own: it would read the files of all tasks, or those of none if tasks
    // share the copy. DataFusion asks this of executors that run partitions apart.
    config.options_mut().execution.enable_file_stream_work_stealing = false;
    // Our plans are physical already, and have operators that an adaptive planner does not know.
    config
        .with_ballista_physical_extension_codec(Arc::new(PlanCodec::default()))
        .with_ballista_adaptive_query_planner(false)
        .with_ballista_grpc_client_max_message_size(MAX_MESSAGE_BYTES as usize)
        .set_u64(BALLISTA_CLIENT_IO_RETRY_WAIT_TIME_MS, FETCH_PAUSE)
}

/// Session state with the functions of SQL and of searches, for the scheduler.
///
/// # Errors
/// The settings are those of a process of another build.
pub(super) fn scheduler_state(config: SessionConfig) -> Result<SessionState> {
    check_sender(config.options())?;
    let with_functions = function_state()?;
    let mut functions: Vec<Arc<ScalarUDF>> = with_functions.scalar_functions().values().cloned().collect();
    functions.extend([SearchSection::function(None), ReadOrder::function()]);
    let environment = RuntimeEnvBuilder::new()
        .with_object_store_registry(Arc::new(StoreRegistry::new(&Store::empty(Path::new("")))?))
        .build_arc()?;
    let state = SessionStateBuilder::new_from_existing(with_functions)
        .with_config(config)
        .with_runtime_env(environment)
        .with_scalar_functions(functions);
    Ok(state.build())
}

/// Functions of an executor that reads `store`.
pub(super) fn executor_functions(store: &Store) -> Result<BallistaFunctionRegistry> {
    let mut registry = BallistaFunctionRegistry::from(&function_state()?);
    for function in [SearchSection::function(Some(store.clone())), ReadOrder::function()] {
        registry.scalar_functions.insert(function.name().to_owned(), function);
    }
    Ok(registry)
}

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
            _ => exec_err!("got a plan of another program, expected one of this build of Pairloom"),
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
