//! Catalog of a session: resolves `stage.table` to the parts of an artefact of one run.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;

use crate::names::ListedTable;
use crate::result_files::merge_schemas;
use crate::stage_table::with_axes;
use pairloom_base::error::{Error, Result};
use pairloom_stage::{Coordinate, has_coordinates, has_same_coordinates, stage_of_instance};
use pairloom_store::key::Key;
use pairloom_store::record::RunLog;
use pairloom_store::record::{RunOutcome, RunRecord, StageRecord};
use pairloom_store::{Artefact, Manifest, Presence, Store};
use pairloom_tables as tables;

/// Schema of the store's own records.
pub const STORE_SCHEMA: &str = "store";
/// Schema of the tables over all runs.
pub const ALL_RUNS_SCHEMA: &str = "all_runs";

/// Catalog that resolves names of stages and tables.
#[derive(Debug)]
pub(super) struct StoreCatalog {
    /// Runs of the store; `None` if the catalog has declared tables only.
    log: Option<Arc<RunLog>>,
    scope: CatalogScope,
}

/// Stages that a catalog knows.
#[derive(Debug)]
pub(super) enum CatalogScope {
    /// Stages of this run; none if it is `None`.
    Run(Option<Box<RunRecord>>),
    /// Exactly these stages.
    Stages(Vec<StageArtefact>),
    /// Tables without rows, to check queries before a run.
    Declared(Vec<DeclaredTable>),
}

/// Stage of a session.
#[derive(Debug, Clone)]
pub struct StageArtefact {
    /// Name, with the coordinates of an instance.
    pub name: String,
    /// Coordinates in the matrix of the pipeline; empty for a stage that is not repeated.
    pub coordinates: Vec<Coordinate>,
    /// Kind of the stage.
    pub kind: String,
    /// Key of its artefact.
    pub key: Key,
}

/// Table that does not exist yet.
#[derive(Debug, Clone)]
pub struct DeclaredTable {
    /// Name of the stage, with the coordinates of an instance.
    pub stage: String,
    /// Coordinates of the stage.
    pub coordinates: Vec<Coordinate>,
    /// Name of the table.
    pub table: String,
    /// Columns.
    pub schema: SchemaRef,
}

/// Content of a table.
pub(super) enum TableContent {
    /// Paths of the parts in the object store, in order, and their total size in bytes.
    Parts(Vec<String>, u64),
    /// No rows, with these columns.
    Empty(SchemaRef),
    /// Tables of the instances of a stage that the matrix repeats, and the number of instances without a result.
    Instances(Vec<InstanceTable>, usize),
}

/// Table of an instance of a stage.
pub(super) struct InstanceTable {
    pub(super) coordinates: Vec<Coordinate>,
    pub(super) manifest: Manifest,
    /// Parts of the table: path in the object store, and size in bytes.
    pub(super) parts: Vec<(String, u64)>,
}

impl StoreCatalog {
    /// Catalog of the stages of one run, over the store of `log`.
    pub(super) fn of_run(log: &Arc<RunLog>, run: Option<&RunRecord>) -> Self {
        Self { log: Some(Arc::clone(log)), scope: CatalogScope::Run(run.cloned().map(Box::new)) }
    }

    /// Catalog of tables without rows, without a store.
    pub(super) fn of_declared(tables: Vec<DeclaredTable>) -> Self {
        Self { log: None, scope: CatalogScope::Declared(tables) }
    }

    /// Catalog of exactly these stages.
    pub(super) fn of_stages(log: &Arc<RunLog>, stages: Vec<StageArtefact>) -> Self {
        Self { log: Some(Arc::clone(log)), scope: CatalogScope::Stages(stages) }
    }

    /// Catalog of the stages of the run `name`, over the same store.
    ///
    /// # Errors
    /// There is no such run, or the store cannot be read.
    pub(super) fn of_other_run(&self, name: &str) -> Result<Self> {
        let Some(log) = &self.log else {
            return Err(Error::usage(format!("SQL: there is no run `{name}` here"))
                .hint("an expectation sees the tables of its own run"));
        };
        let run = log.find(name).map_err(|error| error.context("SQL"))?;
        Ok(Self::of_run(log, Some(run)))
    }

    pub(super) fn store(&self) -> Option<&Store> {
        self.log.as_ref().map(|log| log.store())
    }

    /// Runs of the store; `None` without a store.
    pub(super) fn log(&self) -> Option<&RunLog> {
        self.log.as_deref()
    }

    /// Run whose stages the catalog knows, if they are those of a run.
    pub(super) fn run(&self) -> Option<&RunRecord> {
        match &self.scope {
            CatalogScope::Run(run) => run.as_deref(),
            _ => None,
        }
    }

    /// Content of `stage.table`; `None` if there is no such table.
    ///
    /// # Errors
    /// The artefact is damaged or was removed.
    pub(super) fn table(&self, stage: &str, table: &str) -> Result<Option<TableContent>> {
        if let CatalogScope::Declared(declared) = &self.scope {
            let of = resolve_name(declared.iter().map(|of| of.stage.as_str()), stage);
            if of.is_none() {
                let is_instance = |of: &&DeclaredTable| is_instance_of(&of.stage, &of.coordinates, stage);
                let is_meant = |of: &&DeclaredTable| is_instance(of) && names_match(&of.table, table);
                let instances: Vec<&DeclaredTable> = declared.iter().filter(is_meant).collect();
                let axes = || instances.iter().map(|of| &of.coordinates);
                // Columns of a table depend on settings, in which instances differ.
                let schemas: Vec<SchemaRef> = instances.iter().map(|of| Arc::clone(&of.schema)).collect();
                let merged = merge_schemas(table, &schemas)?;
                return Ok(merged.map(|schema| TableContent::Empty(with_axes(&schema, axes()))));
            }
            let found = declared.iter().find(|name| Some(name.stage.as_str()) == of && names_match(&name.table, table));
            return Ok(found.map(|of| TableContent::Empty(of.schema.clone())));
        }
        let instances = self.instances_of(stage);
        if !instances.is_empty() {
            return self.instance_tables(&instances, table);
        }
        let Some((artefact, manifest)) = self.artefact_of(stage)? else { return Ok(None) };
        let Some((name, parts)) = manifest.tables.iter().find(|(name, _)| names_match(name, table)) else {
            return Ok(None);
        };
        check_presence(&artefact)?;
        if ranks_from_0(&manifest, name) {
            return Err(self.ranks_from_0_error(stage));
        }
        if parts.is_empty() {
            let known = tables::all().into_iter().find(|table| table.name == name);
            return Ok(known.map(|table| TableContent::Empty(table.schema())));
        }
        let object = |index| artefact.path(&Artefact::part_name(name, index));
        let bytes = parts.iter().map(|part| part.bytes).sum();
        Ok(Some(TableContent::Parts(parts.iter().map(|part| object(part.index)).collect(), bytes)))
    }

    /// Instances of `stage`, or those with the coordinates that it names, if the matrix repeats it. None for the name of
    /// one instance.
    pub(super) fn instances_of(&self, stage: &str) -> Vec<StageArtefact> {
        let mut stages = self.stage_artefacts();
        stages.retain(|of| is_instance_of(&of.name, &of.coordinates, stage));
        stages
    }

    /// Tables `table` of the instances of a stage that are complete; `None` if there is none.
    fn instance_tables(&self, instances: &[StageArtefact], table: &str) -> Result<Option<TableContent>> {
        let mut found = Vec::new();
        let mut unfinished = 0;
        for instance in instances {
            let Some((artefact, manifest)) = self.artefact(instance)? else {
                unfinished += 1;
                continue;
            };
            let Some(name) = manifest.tables.keys().find(|name| names_match(name, table)).cloned() else { continue };
            check_presence(&artefact)?;
            if ranks_from_0(&manifest, &name) {
                return Err(self.ranks_from_0_error(&instance.name));
            }
            let path = |index| artefact.path(&Artefact::part_name(&name, index));
            let parts = manifest.tables[&name].iter().map(|part| (path(part.index), part.bytes)).collect();
            found.push(InstanceTable { coordinates: instance.coordinates.clone(), manifest, parts });
        }
        if !found.is_empty() && found.iter().all(|of| of.parts.is_empty()) {
            let known = tables::all().into_iter().find(|known| names_match(known.name, table));
            let axes = || found.iter().map(|of| &of.coordinates);
            return Ok(known.map(|of| TableContent::Empty(with_axes(&of.schema(), axes()))));
        }
        Ok((!found.is_empty()).then_some(TableContent::Instances(found, unfinished)))
    }

    /// Complete artefact of `stage`, with its manifest; `None` if there is no such stage, or if it did not finish. An
    /// exact match of the name wins over one that differs in letter case.
    ///
    /// # Errors
    /// The store cannot be read, or the artefact of a finished run was removed.
    pub(super) fn artefact_of(&self, stage: &str) -> Result<Option<(Artefact, Manifest)>> {
        let stages = self.stage_artefacts();
        let name = resolve_name(stages.iter().map(|of| of.name.as_str()), stage);
        match stages.iter().find(|of| Some(of.name.as_str()) == name) {
            Some(stage) => self.artefact(stage),
            None => Ok(None),
        }
    }

    /// Complete artefact of a stage of the catalog, with its manifest; `None` if the stage did not finish.
    fn artefact(&self, stage: &StageArtefact) -> Result<Option<(Artefact, Manifest)>> {
        let Some(store) = self.store() else { return Ok(None) };
        let StageArtefact { name, kind, key, .. } = stage;
        let artefact = store.artefact(kind, key);
        if let Some(manifest) = artefact.manifest()? {
            return Ok(Some((artefact, manifest)));
        }
        match self.run() {
            Some(run) if run.outcome == RunOutcome::Finished => Err(Error::data(format!(
                "the result of stage `{name}` of the run `{}` was removed or is damaged",
                run.run
            ))
            .hint(format!("compute it again: {}", run.command_line()))),
            _ => Ok(None),
        }
    }

    /// Error for rankings of an earlier build.
    fn ranks_from_0_error(&self, stage: &str) -> Error {
        let error = Error::data(format!(
            "the rankings of stage `{stage}` are of an earlier build: their ranks begin at 0, expected at 1"
        ));
        match self.run() {
            Some(run) => error.hint(format!("compute them again: {}", run.command_line())),
            None => error.hint("run the pipeline again"),
        }
    }

    /// Name, kind and key of each stage; empty for declared tables.
    pub(super) fn stage_artefacts(&self) -> Vec<StageArtefact> {
        match &self.scope {
            CatalogScope::Run(run) => {
                let stages = run.iter().flat_map(|run| &run.stages);
                stages.map(StageArtefact::from).collect()
            }
            CatalogScope::Stages(stages) => stages.clone(),
            CatalogScope::Declared(_) => vec![],
        }
    }

    /// Tables of all stages, by stage and name. Reads manifests only.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(super) fn tables(&self) -> Result<Vec<ListedTable>> {
        // Instances of a stage are one table.
        let mut tables: BTreeMap<(&str, String), u64> = BTreeMap::new();
        if let CatalogScope::Declared(declared) = &self.scope {
            tables.extend(declared.iter().map(|of| ((listed_stage(&of.stage, &of.coordinates), of.table.clone()), 0)));
        }
        let stages = self.stage_artefacts();
        let kinds_and_keys = stages.iter().map(|of| (of.kind.as_str(), &of.key));
        let manifests = self.store().map(|store| store.manifests_of(kinds_and_keys)).transpose()?.unwrap_or_default();
        for (stage, manifest) in stages.iter().zip(manifests) {
            // Stages that did not finish have no manifest, and a damaged one has no tables.
            let Some(Ok(manifest)) = manifest else { continue };
            for (table, parts) in manifest.tables {
                let schema = listed_stage(&stage.name, &stage.coordinates);
                *tables.entry((schema, table)).or_default() += parts.iter().map(|part| part.rows).sum::<u64>();
            }
        }
        let listed = tables.into_iter();
        let listed = listed.map(|((schema, table), rows)| (schema.to_owned(), table, Some(rows)));
        Ok(listed.map(|(schema, table, rows)| ListedTable { schema, table, rows }).collect())
    }
}

impl From<&StageRecord> for StageArtefact {
    fn from(stage: &StageRecord) -> Self {
        let StageRecord { name, coordinates, kind, key, .. } = stage.clone();
        Self { name, coordinates, kind, key }
    }
}

/// Returns true if the instance `name` is one of several that SQL calls `stage`: `test` or `test@row=1.1` of
/// `test@row=1.1,seed=3`.
fn is_instance_of(name: &str, coordinates: &[Coordinate], stage: &str) -> bool {
    !coordinates.is_empty()
        && names_match(stage_of_instance(name), stage_of_instance(stage))
        && has_coordinates(name, stage)
        && !has_same_coordinates(name, stage)
}

/// Name of a stage in a list of tables: that of the stage whose instance it is.
fn listed_stage<'n>(name: &'n str, coordinates: &[Coordinate]) -> &'n str {
    if coordinates.is_empty() { name } else { stage_of_instance(name) }
}

/// True for rows of the table `rankings` of an `evaluate` whose ranks begin at 0.
pub(super) fn ranks_from_0(manifest: &Manifest, table: &str) -> bool {
    let identity = &manifest.identity;
    table == "rankings"
        && identity.kind == "evaluate"
        && identity.version < tables::rankings::RANKS_FROM_1
        && manifest.tables.get(table).is_some_and(|parts| !parts.is_empty())
}

/// Refuses an artefact that is damaged.
fn check_presence(artefact: &Artefact) -> Result<()> {
    match artefact.presence()? {
        Presence::Damaged(problem) => {
            Err(Error::data(format!("`{}` is damaged: {problem}", artefact.display_path("")))
                .hint("run the pipeline again to rebuild this table"))
        }
        _ => Ok(()),
    }
}

/// Name of `names` that an SQL name refers to: an exact match, otherwise the first that differs in letter case or in the
/// order of the coordinates only.
fn resolve_name<'n>(mut names: impl Iterator<Item = &'n str> + Clone, sql: &str) -> Option<&'n str> {
    let is_same =
        |name: &&str| names_match(stage_of_instance(name), stage_of_instance(sql)) && has_same_coordinates(name, sql);
    names.clone().find(|name| *name == sql).or_else(|| names.find(is_same))
}

/// Returns true if an SQL name can refer to `name`, ignoring case: SQL folds unquoted names to lower case.
fn names_match(name: &str, sql: &str) -> bool {
    name.eq_ignore_ascii_case(sql)
}
