//! Read-only DataFusion session over a store: an asynchronous core, and its blocking face.
//!
//! # The way of a query
//!
//! | step | what happens | where |
//! |---|---|---|
//! | parse | the text becomes tokens, and these one statement | `statements.rs` |
//! | request | `SHOW` becomes a query of `information_schema`, `DESCRIBE` is answered | `statements.rs` |
//! | dialect | what is not of this SQL, or too large, is refused | `dialect.rs`, `query_size.rs` |
//! | tables | the store is asked for the tables that the statement names, and for their settings | `session_tables.rs`, `setting_queries.rs` |
//! | names | `?` get numbers, columns and subqueries get names | `parameters.rs`, `column_names.rs` |
//! | plan | DataFusion plans the statement; subqueries that depend on an outer row are refused; parameters get types | `dialect.rs`, `parameters.rs` |
//! | values | values take the places of parameters; JSON and vectors get types that every format can hold | `parameters.rs`, `plan_rewrites.rs` |
//! | subqueries | those in place of a value are computed, each by these last steps | `subqueries.rs` |
//! | run | DataFusion optimizes and runs the plan with our rules, here or on a cluster | `state.rs`, `plan_runner.rs` |
//! | rows | batches come from a thread of the session; errors get their place in the text | `query_threads.rs`, `errors.rs` |
//!
//! [`Session::prepare`] and [`Session::result_columns`] end after the values.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, FieldRef, SchemaRef};
use datafusion::catalog::CatalogProviderList;
use datafusion::common::TableReference;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_plan::common::collect;
use datafusion::physical_plan::memory::MemoryStream;
use datafusion::prelude::SessionContext;
use futures::future::ready;

use crate::catalog::{DeclaredTable, StageArtefact, StoreCatalog};
use crate::column_names::name_columns;
use crate::dialect::{check_correlation, check_statement};
use crate::epoch_order::{self, EpochOrderFunction};
use crate::errors::{checked, query_error};
use crate::files::set_file_options;
use crate::information;
use crate::interrupt::{PlannedQuery, StatementInterrupt};
use crate::names::ListedTable;
use crate::parameters::{ParameterValue, bind, number_parameters, parameters, with_parameter_types, with_values};
use crate::plan_rewrites::with_result_types;
use crate::plan_runner::PlanRunner;
use crate::query_options::{QueryLimits, QueryOptions, with_memory};
use crate::query_size::check_size;
use crate::query_threads::{QueryRows, QueryStream, QueryThreads, of_panic, with_deep_stack};
use crate::result_files;
use crate::session_tables::{RunCatalogs, SessionTables, SizedTable};
use crate::setting_queries::{SettingKinds, check_settings};
use crate::state::{FILES, session_state};
use crate::statements::{Request, parse, request, sql_of_mut};
use crate::subqueries::{scalar_subqueries, scalar_value, with_scalar_values};
use crate::table_functions::distinct_calls;
use crate::topk_join_function::{TOPK_JOIN, TopKJoinFunction, named_tables};
use crate::vector_cache::{VectorCache, with_cached_scans};
use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::NamedFile;
use pairloom_store::Store;
use pairloom_store::claim::{StoreLock, lock_for_reading};
use pairloom_store::record::{RunLog, RunRecord};

/// Total bytes of a query's tables below which it runs on one thread: starting threads would take longer than the work,
/// and rows keep the order of the table.
const SINGLE_THREAD_BYTES: u64 = 64 << 20;

/// Read-only SQL session over a store.
pub struct Session {
    context: SessionContext,
    threads: Arc<QueryThreads>,
    tables: Arc<RunCatalogs>,
    interrupt: StatementInterrupt,
    /// Time of a query that a thread waits for.
    time: Option<Duration>,
    /// Processes that run the plans; this one without it.
    runner: Option<Arc<dyn PlanRunner>>,
    /// Store of the tables, from which nothing is removed while a query runs.
    store: Option<Store>,
}

/// Query that has been planned.
enum Planned {
    Query(Box<SessionState>, LogicalPlan),
    /// Rows that need no query.
    Rows(RecordBatch),
}

/// Columns and parameters of a query.
#[derive(Debug, Clone)]
pub struct PreparedQuery {
    /// Columns of the result. One that depends on a parameter of unknown type has the type of a missing value.
    pub columns: SchemaRef,
    /// Parameters in order, named `$1` and so on. One of unknown type has the type of a missing value.
    pub parameters: Vec<FieldRef>,
}

impl Session {
    /// Opens a session in which `stage.table` means the table of that stage in the last finished run of the store. If that
    /// is not known, since a record cannot be read, a query of such a table is an error.
    ///
    /// # Errors
    /// Threads cannot be started, or the store cannot be read.
    pub fn open(store: &Store) -> Result<Self> {
        let log = Arc::new(RunLog::open(store)?);
        let run = log.last_finished(None).ok().flatten();
        Self::of_run(&log, run)
    }

    /// Opens a session in which `stage.table` means the table of that stage in `run`. Without a run there are only the
    /// tables of the schemas `store` and `all_runs`.
    ///
    /// # Errors
    /// Threads cannot be started.
    pub fn of_run(log: &Arc<RunLog>, run: Option<&RunRecord>) -> Result<Self> {
        Self::with_catalog(StoreCatalog::of_run(log, run))
    }

    /// Opens a session over the tables of exactly these artefacts.
    ///
    /// # Errors
    /// Threads cannot be started.
    pub fn of_stages(store: &Store, stages: impl IntoIterator<Item = StageArtefact>) -> Result<Self> {
        let log = Arc::new(RunLog::open(store)?);
        Self::with_catalog(StoreCatalog::of_stages(&log, stages.into_iter().collect()))
    }

    /// Opens a session over empty tables, to check queries before a run. The tables of the
    /// schema `store` exist too, also empty.
    ///
    /// # Errors
    /// Threads cannot be started.
    pub fn of_empty_tables(tables: impl IntoIterator<Item = DeclaredTable>) -> Result<Self> {
        Self::with_catalog(StoreCatalog::of_declared(tables.into_iter().collect()))
    }

    fn with_catalog(catalog: StoreCatalog) -> Result<Self> {
        let catalog = Arc::new(catalog);
        let threads = Arc::new(QueryThreads::start()?);
        let reader = SessionContext::new_with_state(checked(session_state(catalog.store(), None))?);
        let own = Arc::new(SessionTables::new(Arc::clone(&catalog), reader, Arc::clone(&threads)));
        let tables = Arc::new(RunCatalogs::new(own));
        let catalogs: Arc<dyn CatalogProviderList> = Arc::<RunCatalogs>::clone(&tables);
        let state = checked(session_state(catalog.store(), Some(catalogs)))?;
        let context = SessionContext::new_with_state(state);
        let store = catalog.store().cloned();
        context.register_udtf(
            epoch_order::NAME,
            distinct_calls(epoch_order::NAME, Arc::new(EpochOrderFunction { catalog })),
        );
        context.register_udtf(TOPK_JOIN, Arc::new(TopKJoinFunction { tables: Arc::clone(&tables) }));
        let interrupt = StatementInterrupt::default();
        Ok(Self { context, threads, tables, interrupt, time: None, runner: None, store })
    }

    /// Lets other processes run the plans of queries. They read the tables of stages; tables in memory travel with the
    /// plan.
    #[must_use]
    pub fn with_runner(self, runner: Arc<dyn PlanRunner>) -> Self {
        Self { runner: Some(runner), ..self }
    }

    /// Limits the queries of [`Session::query`].
    ///
    /// # Errors
    /// The folder of temporary files cannot be used.
    pub fn with_limits(self, limits: QueryLimits) -> Result<Self> {
        let context = match limits.memory {
            Some(bytes) => SessionContext::new_with_state(checked(with_memory(self.context.state(), bytes))?),
            None => self.context,
        };
        Ok(Self { context, time: limits.time, ..self })
    }

    /// Caches vectors that queries have read, up to a number of bytes, for the queries that follow. Scans that read all rows of
    /// a table of a stage are cached; the least recently used go first.
    #[must_use]
    pub fn with_vector_cache(self, bytes: usize) -> Self {
        let state = self.context.state();
        let rules = with_cached_scans(state.physical_optimizers(), Arc::new(VectorCache::new(bytes)));
        let state = SessionStateBuilder::new_from_existing(state).with_physical_optimizer_rules(rules);
        Self { context: SessionContext::new_with_state(state.build()), ..self }
    }

    /// Lets queries read a file as a table. The file is opened when a query names it.
    ///
    /// # Errors
    /// Another file has the same name.
    pub fn add_file(&self, file: NamedFile) -> Result<()> {
        let state = self.context.state_ref();
        let mut state = state.write();
        set_file_options(&mut state.config_mut().options_mut().optimizer, &file);
        drop(state);
        self.tables.own().add_file(file)
    }

    /// Handle that interrupts a running statement.
    #[must_use]
    pub fn interrupt(&self) -> StatementInterrupt {
        self.interrupt.clone()
    }

    /// All tables that a query can read: of stages, files, the store and the information schema.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn tables(&self) -> Result<Vec<ListedTable>> {
        self.tables.own().listed()
    }

    /// Columns of a table.
    ///
    /// # Errors
    /// There is no such table, or it is damaged.
    pub fn columns(&self, schema: &str, table: &str) -> Result<SchemaRef> {
        self.tables.own().columns(schema, table)
    }

    /// Columns of a listed table. Of a table over all runs, only those that are described are known without reading all
    /// results.
    ///
    /// # Errors
    /// As [`Session::columns`].
    pub fn listed_columns(&self, schema: &str, table: &str) -> Result<SchemaRef> {
        self.tables.own().listed_columns(schema, table)
    }

    /// Names of all functions, in order, without operators.
    #[must_use]
    pub fn functions(&self) -> Vec<String> {
        let state = self.context.state();
        let scalar = state.scalar_functions().keys();
        let others = state.aggregate_functions().keys().chain(state.window_functions().keys());
        let mut names: Vec<String> = scalar.chain(others).chain(state.table_functions().keys()).cloned().collect();
        names.retain(|name| name.starts_with(|first: char| first.is_alphabetic() || first == '_'));
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Plans and starts a query without parameters, within the limits of the session.
    ///
    /// If the tables of the query have less than 64 MiB, it runs on one thread: rows keep the order of the table unless
    /// the query sorts them, and sums are reproducible to the bit. Larger tables are read by several threads in any
    /// order.
    ///
    /// # Errors
    /// The query is not valid SQL, refers to unknown tables or columns, or would write. It was interrupted, or its time is over.
    pub fn query(&self, sql: &str) -> Result<QueryRows<'_>> {
        let hold = self.hold()?;
        let statement = self.interrupt.start(self.time);
        let options = QueryOptions::default();
        let start = Box::pin(statement.watched(self.start(sql, &options)));
        let stream = self.threads.block_on(async {
            match statement.run(start).await? {
                // The planning may have ended since the statement is over.
                Err(error) => statement.run(ready(Err(error))).await?,
                stream => stream,
            }
        })?;
        Ok(QueryRows { threads: &self.threads, stream: self.threads.rows(stream, sql, hold), statement })
    }

    /// As [`Session::query`], without blocking a thread, with the values of parameters and a limit of memory. The query
    /// runs on the threads of the session, and ends when this future or the result is dropped, as soon as an operator
    /// pauses. `guard` is dropped when it has ended.
    ///
    /// # Errors
    /// As [`Session::query`], and the parameters do not fit.
    pub async fn run(
        self: &Arc<Self>,
        sql: &str,
        options: QueryOptions,
        guard: impl Clone + Send + 'static,
    ) -> Result<QueryStream> {
        let guard = (guard, Arc::new(self.hold()?));
        let of_planning = guard.clone();
        let start = |session: Arc<Self>, sql: String| async move {
            let _guard = of_planning;
            session.start(&sql, &options).await
        };
        let stream = self.planned(sql, start).await?;
        Ok(self.threads.rows(stream, sql, guard))
    }

    /// Keeps results from being removed until it is dropped.
    fn hold(&self) -> Result<Option<StoreLock>> {
        self.store.as_ref().map_or(Ok(None), lock_for_reading)
    }

    /// Columns and parameters of a query.
    ///
    /// # Errors
    /// The query is not valid SQL, refers to unknown tables or columns, or would write.
    pub async fn prepare(self: &Arc<Self>, sql: &str) -> Result<PreparedQuery> {
        let planned = self.planned(sql, |session, sql| async move {
            match session.plan(&sql).await? {
                Planned::Rows(batch) => Ok(PreparedQuery { columns: batch.schema(), parameters: vec![] }),
                Planned::Query(state, plan) => {
                    let wrong = |error: DataFusionError| query_error(&error, &sql);
                    let parameters = parameters(&plan).map_err(wrong)?;
                    let values = parameters.iter().map(|field| value_of_type(field.data_type()));
                    let missing: Vec<ParameterValue> = values.collect::<Result<_, _>>().map_err(wrong)?;
                    let columns = async { analyzed_columns(&state, with_values(plan, missing)?) };
                    Ok(PreparedQuery { columns: with_deep_stack(columns).await.map_err(wrong)?, parameters })
                }
            }
        });
        planned.await
    }

    /// Columns of the result of a query with these values of its parameters.
    ///
    /// # Errors
    /// As [`Session::prepare`], and the parameters do not fit.
    pub async fn result_columns(self: &Arc<Self>, sql: &str, values: &[ParameterValue]) -> Result<SchemaRef> {
        let values = values.to_vec();
        let planned = self.planned(sql, |session, sql| async move {
            let (state, plan) = match session.plan(&sql).await? {
                Planned::Rows(batch) => return Ok(batch.schema()),
                Planned::Query(state, plan) => (state, plan),
            };
            let columns = async { analyzed_columns(&state, bind(plan, &values)?) };
            with_deep_stack(columns).await.map_err(|error| query_error(&error, &sql))
        });
        planned.await
    }

    /// Plans on the threads of the session, until this future is dropped. A panic is an error.
    async fn planned<T, F>(self: &Arc<Self>, sql: &str, plan: impl FnOnce(Arc<Self>, String) -> F) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let query = PlannedQuery::default();
        let planned = self.threads.spawn(query.watched(plan(Arc::clone(self), sql.to_owned()))).await;
        planned.map_err(of_panic)?
    }

    /// Plans a query and starts it. Its rows are computed as they are read.
    async fn start(&self, sql: &str, options: &QueryOptions) -> Result<SendableRecordBatchStream> {
        let (state, plan) = match self.plan(sql).await? {
            Planned::Query(state, plan) => (state, plan),
            Planned::Rows(batch) => {
                let schema = batch.schema();
                return Ok(Box::pin(checked(MemoryStream::try_new(vec![batch], schema, None))?));
            }
        };
        let started = async {
            let plan = with_result_types(bind(plan, &options.parameters)?)?;
            let state = options.applied_to(*state)?;
            match &self.runner {
                // The plan that would be sent.
                Some(runner) if matches!(plan, LogicalPlan::Explain(_)) => {
                    let context = SessionContext::new_with_state(runner.state(state));
                    context.execute_logical_plan(plan).await?.execute_stream().await
                }
                _ => self.rows_of_plan(plan, state).await,
            }
        };
        with_deep_stack(started).await.map_err(|error| query_error(&error, sql))
    }

    /// Starts a plan, after its subqueries in place of a value.
    async fn rows_of_plan(
        &self,
        plan: LogicalPlan,
        state: SessionState,
    ) -> datafusion::error::Result<SendableRecordBatchStream> {
        let is_explained = matches!(plan, LogicalPlan::Explain(_) | LogicalPlan::Analyze(_));
        let subqueries = if is_explained { Vec::new() } else { scalar_subqueries(&plan)? };
        let mut values = Vec::new();
        for subquery in subqueries {
            // A second row is an error; a third need not be read.
            let plan = LogicalPlanBuilder::from(LogicalPlan::clone(&subquery.subquery)).limit(0, Some(2))?.build()?;
            let rows = Box::pin(self.rows_of_plan(plan, state.clone())).await?;
            let value = scalar_value(&subquery, &collect(rows).await?)?;
            values.push((subquery, value));
        }
        let plan = if values.is_empty() { plan } else { with_scalar_values(plan, &values)? };
        match &self.runner {
            Some(runner) => {
                runner.check(&plan)?;
                let state = runner.state(state);
                runner.run(state.create_physical_plan(&plan).await?, state.config()).await
            }
            None => SessionContext::new_with_state(state).execute_logical_plan(plan).await?.execute_stream().await,
        }
    }

    /// Plans a query. Its parameters have types, as far as the query implies them.
    async fn plan(&self, sql: &str) -> Result<Planned> {
        with_deep_stack(self.plan_statement(sql)).await
    }

    /// As [`Self::plan`], on a stack that is deep enough.
    async fn plan_statement(&self, sql: &str) -> Result<Planned> {
        let wrong = |error: DataFusionError| query_error(&error, sql);
        let mut state = self.context.state();
        let mut statement = parse(sql)?;
        match request(&statement)? {
            Request::Query => {}
            Request::Rewritten(query) => return Box::pin(self.plan(&query)).await,
            Request::Describe(reference) => {
                let table = self.existing(vec![reference.clone()]).await?.remove(0).0;
                let batch = information::description(&listed_table(&reference), &table.schema())?;
                return Ok(Planned::Rows(batch));
            }
        }
        let mut references = state.resolve_table_references(&statement).map_err(wrong)?;
        references.retain(|reference| {
            !matches!(reference, TableReference::Bare { table } if state.table_functions().contains_key(&**table))
        });
        let parsed = sql_of_mut(&mut statement).ok_or_else(|| Error::internal("SQL: a query without a statement"))?;
        check_size(parsed)?;
        check_statement(parsed, &state, sql)?;
        references.extend(named_tables(parsed));
        let tables = self.existing(references).await?;
        let mut settings = SettingKinds::new();
        for (table, _) in &tables {
            settings.extend(result_files::setting_kinds(&**table));
        }
        check_settings(parsed, &settings, sql)?;
        number_parameters(parsed)?;
        name_columns(parsed);
        if tables.iter().map(|(_, bytes)| bytes).sum::<u64>() < SINGLE_THREAD_BYTES {
            state.config_mut().options_mut().execution.target_partitions = 1;
        }
        let plan = state.statement_to_plan(statement).await.map_err(wrong)?;
        check_correlation(&plan, sql)?;
        Ok(Planned::Query(Box::new(state), with_parameter_types(plan).map_err(wrong)?))
    }

    /// Tables of `references`, with their sizes.
    async fn existing(&self, references: Vec<TableReference>) -> Result<Vec<SizedTable>> {
        let tables = Arc::clone(&self.tables);
        // The store waits for its files or its server.
        let found = tokio::task::spawn_blocking(move || {
            references.iter().map(|reference| tables.existing(reference)).collect::<Result<Vec<_>>>()
        });
        found.await.map_err(|error| Error::internal(format!("SQL: {error}")))?
    }

    /// Returns true if a query has read a table of a stage.
    #[must_use]
    pub fn has_read_stage(&self) -> bool {
        self.tables.own().has_read_stage()
    }

    /// Tables of `all_runs` that queries have read since the last call and that lack results of finished runs, because
    /// these were removed, with the number of removed results.
    #[must_use]
    pub fn take_removed_results(&self) -> BTreeMap<String, usize> {
        self.tables.own().take_removed_results()
    }

    /// Stages that queries have read since the last call and that have instances without a result: the number of these,
    /// and of all.
    #[must_use]
    pub fn take_incomplete_stages(&self) -> BTreeMap<String, (usize, usize)> {
        self.tables.own().take_incomplete_stages()
    }
}

/// Value of a parameter that only its type matters of: a missing one, but 1 for a whole number, since a k or a `LIMIT` is
/// never missing.
fn value_of_type(data_type: &DataType) -> datafusion::error::Result<ParameterValue> {
    match data_type {
        DataType::Int64 => Ok(ParameterValue::Int64(Some(1))),
        other => ParameterValue::try_from(other),
    }
}

/// Columns of the result of a plan without parameters.
fn analyzed_columns(state: &SessionState, plan: LogicalPlan) -> datafusion::error::Result<SchemaRef> {
    let plan = with_result_types(plan)?;
    let plan = state.analyzer().execute_and_check(plan, state.config_options(), |_, _| {})?;
    Ok(Arc::clone(plan.schema().inner()))
}

/// Name of the table of `reference`.
fn listed_table(reference: &TableReference) -> ListedTable {
    let (schema, table) = (reference.schema().unwrap_or(FILES), reference.table());
    // Descriptions are found by the exact name, which is in lower case.
    ListedTable { schema: schema.to_owned(), table: table.to_lowercase(), rows: None }
}
