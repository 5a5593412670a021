//! Catalog of a session: resolves `stage.table` to the parts of an artefact of one run.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;

use crate::error::{Error, Result};
use crate::sql::names::ListedTable;
use crate::store::key::Key;
use crate::store::record::{RunOutcome, RunRecord};
use crate::store::run_log::RunLog;
use crate::store::{Artefact, Manifest, Presence, Store};
use crate::tables;

/// Schema of the store's own records.
pub(super) const STORE_SCHEMA: &str = "store";
/// Schema of the tables over all runs.
pub(super) const ALL_RUNS_SCHEMA: &str = "all_runs";

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

/// Name, kind and key of a stage.
pub(super) type StageArtefact = (String, String, Key);

/// Stage, name and columns of a table that does not exist yet.
pub(super) type DeclaredTable = (String, String, SchemaRef);

/// Content of a table.
pub(super) enum TableContent {
    /// Paths of the parts in the object store, in order, and their total size in bytes.
    Parts(Vec<String>, u64),
    /// No rows, with these columns.
    Empty(SchemaRef),
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
            let of = resolve_name(declared.iter().map(|(of, _, _)| of.as_str()), stage);
            let found = declared.iter().find(|(name, kind, _)| Some(name.as_str()) == of && names_match(kind, table));
            return Ok(found.map(|(_, _, schema)| TableContent::Empty(schema.clone())));
        }
        let Some((artefact, manifest)) = self.artefact_of(stage)? else { return Ok(None) };
        let Some((name, parts)) = manifest.tables.iter().find(|(name, _)| names_match(name, table)) else {
            return Ok(None);
        };
        if let Presence::Damaged(problem) = artefact.presence()? {
            return Err(Error::data(format!("`{}` is damaged: {problem}", artefact.display_path("")))
                .hint("run the pipeline again to rebuild this table"));
        }
        if parts.is_empty() {
            let known = tables::all().into_iter().find(|table| table.name == name);
            return Ok(known.map(|table| TableContent::Empty(table.schema())));
        }
        let object = |index| artefact.path(&Artefact::part_name(name, index));
        let bytes = parts.iter().map(|part| part.bytes).sum();
        Ok(Some(TableContent::Parts(parts.iter().map(|part| object(part.index)).collect(), bytes)))
    }

    /// Complete artefact of `stage`, with its manifest; `None` if there is no such stage, or if it did not finish. An
    /// exact match of the name wins over one that differs in letter case.
    ///
    /// # Errors
    /// The store cannot be read, or the artefact of a finished run was removed.
    pub(super) fn artefact_of(&self, stage: &str) -> Result<Option<(Artefact, Manifest)>> {
        let Some(store) = self.store() else { return Ok(None) };
        let stages = self.stage_artefacts();
        let name = resolve_name(stages.iter().map(|(name, _, _)| name.as_str()), stage);
        let Some((name, kind, key)) = stages.iter().find(|(of, _, _)| Some(of.as_str()) == name) else {
            return Ok(None);
        };
        let artefact = store.artefact(kind, key);
        if let Some(manifest) = artefact.manifest()? {
            return Ok(Some((artefact, manifest)));
        }
        match self.run() {
            Some(run) if run.outcome == RunOutcome::Finished => {
                Err(Error::data(format!("the result of stage `{name}` of the run `{}` was removed", run.run))
                    .hint(format!("compute it again: {}", run.command_line())))
            }
            _ => Ok(None),
        }
    }

    /// Name, kind and key of each stage; empty for declared tables.
    pub(super) fn stage_artefacts(&self) -> Vec<StageArtefact> {
        match &self.scope {
            CatalogScope::Run(run) => {
                let stages = run.iter().flat_map(|run| &run.stages);
                stages.map(|stage| (stage.name.clone(), stage.kind.clone(), stage.key.clone())).collect()
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
        if let CatalogScope::Declared(declared) = &self.scope {
            let listed = |(stage, table, _): &DeclaredTable| ListedTable {
                schema: stage.clone(),
                table: table.clone(),
                rows: Some(0),
            };
            return Ok(declared.iter().map(listed).collect());
        }
        let Some(store) = self.store() else { return Ok(vec![]) };
        let stages = self.stage_artefacts();
        let manifests = store.manifests_of(stages.iter().map(|(_, kind, key)| (kind.as_str(), key)))?;
        let mut tables = Vec::new();
        for ((stage, ..), manifest) in stages.iter().zip(manifests) {
            // Stages that did not finish have no manifest, and a damaged one has no tables.
            let Some(Ok(manifest)) = manifest else { continue };
            tables.extend(manifest.tables.iter().map(|(table, parts)| ListedTable {
                schema: stage.clone(),
                table: table.clone(),
                rows: Some(parts.iter().map(|part| part.rows).sum()),
            }));
        }
        tables.sort_by(|a, b| (&a.schema, &a.table).cmp(&(&b.schema, &b.table)));
        Ok(tables)
    }
}

/// Name of `names` that an SQL name refers to: an exact match, otherwise the first that differs in letter case only.
fn resolve_name<'n>(names: impl Iterator<Item = &'n str> + Clone, sql: &str) -> Option<&'n str> {
    names.clone().find(|name| *name == sql).or_else(|| names.clone().find(|name| names_match(name, sql)))
}

/// Returns true if an SQL name can refer to `name`, ignoring case: SQL folds unquoted names to lower case.
fn names_match(name: &str, sql: &str) -> bool {
    name.eq_ignore_ascii_case(sql)
}
