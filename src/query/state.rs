//! DataFusion's session state: its settings, functions and planners, and the object store of the tables.

use std::num::NonZeroUsize;
use std::sync::{Arc, OnceLock};

use datafusion::catalog::CatalogProviderList;
use datafusion::error::Result;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::execution::{FunctionRegistry, SessionStateDefaults};
use datafusion::logical_expr::AggregateUDF;
use datafusion::optimizer::{Analyzer, AnalyzerRule, Optimizer, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::prelude::SessionConfig;

use crate::column_names::with_projection_names;
use crate::files::FileScans;
use crate::interrupt::{CooperativeOperators, PlanningPause, with_pauses};
use crate::pass_through::{LargeConstants, NestedLoopJoinInputs};
use crate::planners::{IntegerOperators, NamedArguments, VectorOperators};
use crate::rank_of_positive::RankOfPositive;
use crate::sort_measures::SortMeasures;
use crate::table_functions::with_distinct_calls;
use crate::topk_join::{LateralTopK, SessionPlanner};
use crate::unmoved_filters::{physical_rules, with_unmoved_filters};
use crate::value_sizes::limit_values;
use crate::vectors::register_vector_functions;
use pairloom_base::runtime::build;
use pairloom_store::Store;

/// URL under which the objects of the store are registered in DataFusion. Processes of a cluster must have one build.
///
/// It is not the URL of the folder or bucket: each process finds the store by its own settings, with its own credentials, so
/// a plan that another process reads cannot choose what is opened.
pub fn store_url() -> &'static str {
    static URL: OnceLock<String> = OnceLock::new();
    URL.get_or_init(|| format!("pairloom://store-{}/", build()))
}
/// Name of the catalog, which a query may write before the schema.
pub const CATALOG: &str = "pairloom";
/// Schema of the files that are read by name. A name without a schema means a table of this one.
pub const FILES: &str = "files";

/// Threads of a session.
pub(super) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// Session state with all functions and without tables. Functions of functions (`x -> x + 1`) are not of this SQL.
///
/// # Errors
/// Two functions have one name.
pub fn function_state() -> Result<SessionState> {
    session_state(None, None)
}

/// Session state over the objects of `store`. Without catalogs it only reads files.
pub(super) fn session_state(
    store: Option<&Store>,
    catalogs: Option<Arc<dyn CatalogProviderList>>,
) -> Result<SessionState> {
    let mut config = SessionConfig::new()
        .with_target_partitions(threads())
        .with_collect_statistics(false)
        .with_create_default_catalog_and_schema(false)
        .with_default_catalog_and_schema(CATALOG, FILES);
    let options = config.options_mut();
    options.execution.parquet.schema_force_view_types = false;
    // With a `LIMIT`, it loses groups that have a NaN, as those whose values are missing:
    // <https://github.com/apache/datafusion/issues/22190>.
    options.optimizer.enable_topk_aggregation = false;
    // Vectors are read only of the rows that satisfy a condition.
    options.execution.parquet.pushdown_filters = true;
    options.execution.parquet.reorder_filters = true;
    // A vector without a measure is no nearest one, in either order.
    "nulls_last".clone_into(&mut options.sql_parser.default_null_ordering);
    // Errors have the place in the query.
    options.sql_parser.collect_spans = true;
    let mut planners = SessionStateDefaults::default_expr_planners();
    planners.insert(0, Arc::new(VectorOperators));
    planners.insert(1, Arc::new(IntegerOperators));
    planners.insert(2, Arc::new(NamedArguments));
    let mut rules: Vec<Arc<dyn AnalyzerRule + Send + Sync>> = Analyzer::new().rules;
    rules.insert(0, Arc::new(LateralTopK));
    rules.insert(1, Arc::new(SortMeasures));
    let rewrites = with_unmoved_filters(with_projection_names(Optimizer::new().rules));
    let pause: Arc<dyn OptimizerRule + Send + Sync> = Arc::new(PlanningPause);
    let physical_pause: Arc<dyn PhysicalOptimizerRule + Send + Sync> = Arc::new(PlanningPause);
    let mut state = SessionStateBuilder::new()
        .with_config(config)
        .with_expr_planners(planners)
        .with_analyzer_rules(rules)
        .with_optimizer_rules(with_pauses(rewrites, &pause))
        .with_query_planner(Arc::new(SessionPlanner))
        .with_physical_optimizer_rules(with_pauses(physical_rules(), &physical_pause))
        .with_physical_optimizer_rule(Arc::new(NestedLoopJoinInputs))
        .with_physical_optimizer_rule(Arc::new(LargeConstants))
        .with_physical_optimizer_rule(Arc::new(CooperativeOperators))
        .with_physical_optimizer_rule(Arc::new(FileScans))
        .with_scalar_functions(SessionStateDefaults::default_scalar_functions())
        .with_aggregate_functions(SessionStateDefaults::default_aggregate_functions())
        .with_window_functions(SessionStateDefaults::default_window_functions())
        .with_table_function_list(with_distinct_calls(SessionStateDefaults::default_table_functions()));
    if let Some(catalogs) = catalogs {
        state = state.with_catalog_list(catalogs);
    }
    if let Some(store) = store {
        let mount = ObjectStoreUrl::parse(store_url())?;
        state = state.with_object_store(mount.as_ref(), store.verified_objects());
    }
    let mut state = state.build();
    datafusion_functions_json::register_all(&mut state)?;
    register_vector_functions(&mut state)?;
    limit_values(&mut state)?;
    state.register_udaf(Arc::new(AggregateUDF::new_from_impl(RankOfPositive::new())))?;
    Ok(state)
}
