//! Catalog of the store's tables: resolves `stage.table` to the parts of an artefact.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use arrow::datatypes::SchemaRef;

use crate::error::{Error, Result};
use crate::sql::names::{ListedTable, unknown_table_error};
use crate::store::key::Key;
use crate::store::record::{RunRecord, records};
use crate::store::{Artefact, Manifest, Presence, Store};
use crate::tables;

/// Tables of the schema `store`: the store's own records.
pub(super) const STORE_TABLES: [&str; 6] = ["runs", "stages", "expectations", "artefacts", "parts", "warnings"];

/// Catalog that resolves names of stages and tables.
pub(super) struct StoreCatalog {
    /// `None` if the catalog has declared tables only.
    store: Option<Store>,
    /// Artefacts of the stages; `None` if they are looked up in the records of runs.
    fixed_stages: Option<Vec<StageArtefact>>,
    /// Tables without rows, to check queries before a run.
    declared: Option<Vec<DeclaredTable>>,
    /// Cached records of all runs, latest first.
    records: OnceCell<Vec<RunRecord>>,
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
    /// Catalog in which a stage means its artefact in the latest run that completed it.
    pub(super) fn of_runs(store: &Store) -> Self {
        Self { store: Some(store.clone()), fixed_stages: None, declared: None, records: OnceCell::new() }
    }

    /// Catalog of tables without rows, without a store.
    pub(super) fn of_declared(tables: Vec<DeclaredTable>) -> Self {
        Self { store: None, fixed_stages: Some(vec![]), declared: Some(tables), records: OnceCell::new() }
    }

    /// Catalog of exactly these stages.
    pub(super) fn of_stages(store: &Store, stages: Vec<StageArtefact>) -> Self {
        Self { store: Some(store.clone()), fixed_stages: Some(stages), declared: None, records: OnceCell::new() }
    }

    pub(super) fn store(&self) -> Option<&Store> {
        self.store.as_ref()
    }

    /// Records of all runs, latest first.
    pub(super) fn records(&self) -> Result<&[RunRecord]> {
        if self.records.get().is_none() {
            // Only this thread fills the cell.
            let _ = self.records.set(match &self.store {
                Some(store) => records(store)?.collect(),
                None => vec![],
            });
        }
        Ok(self.records.get().map_or(&[], Vec::as_slice))
    }

    /// Content of `stage.table`; `None` if there is no such table.
    ///
    /// # Errors
    /// The artefact is damaged.
    pub(super) fn table(&self, stage: &str, table: &str) -> Result<Option<TableContent>> {
        if let Some(declared) = &self.declared {
            let of = resolve_name(declared.iter().map(|(of, _, _)| of.as_str()), stage);
            let found = declared.iter().find(|(name, kind, _)| Some(name.as_str()) == of && names_match(kind, table));
            return Ok(found.map(|(_, _, schema)| TableContent::Empty(schema.clone())));
        }
        let Some((artefact, manifest, _)) = self.artefact(stage)? else { return Ok(None) };
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

    /// Complete artefact of `stage`, with its manifest.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(super) fn artefact_of(&self, stage: &str) -> Result<Option<(Artefact, Manifest)>> {
        Ok(self.artefact(stage)?.map(|(artefact, manifest, _)| (artefact, manifest)))
    }

    /// Fixed stages of the catalog; `None` if stages are looked up in the records of runs.
    pub(super) fn fixed_stages(&self) -> Option<&[StageArtefact]> {
        self.fixed_stages.as_deref()
    }

    /// Complete artefact of `stage`. An exact match of the name wins over one that differs in letter case.
    fn artefact(&self, stage: &str) -> Result<Option<(Artefact, Manifest, StageArtefact)>> {
        let Some(store) = &self.store else { return Ok(None) };
        let mut near = None;
        // Records are read lazily, latest first, until one has the stage.
        for found in self.lookup()? {
            let exact = found.0 == stage;
            if exact || (near.is_none() && names_match(&found.0, stage)) {
                let artefact = store.artefact(&found.1, &found.2);
                if let Some(manifest) = artefact.manifest()? {
                    if exact {
                        return Ok(Some((artefact, manifest, found)));
                    }
                    near = Some((artefact, manifest, found));
                }
            }
        }
        Ok(near)
    }

    /// Stages in the order of the lookup.
    fn lookup(&self) -> Result<Box<dyn Iterator<Item = StageArtefact> + '_>> {
        if let Some(given) = &self.fixed_stages {
            return Ok(Box::new(given.iter().cloned()));
        }
        let Some(store) = &self.store else { return Ok(Box::new(std::iter::empty())) };
        let stages = |run: RunRecord| run.stages.into_iter().map(|stage| (stage.name, stage.kind, stage.key));
        Ok(Box::new(records(store)?.flat_map(stages)))
    }

    /// Complete stages by name; for each name the first in the order of the lookup.
    pub(super) fn stages(&self) -> Result<BTreeMap<String, (String, Key, Manifest)>> {
        let mut stages = BTreeMap::new();
        for (name, kind, key) in self.lookup()? {
            if !stages.contains_key(&name)
                && let Some(store) = &self.store
                && let Some(manifest) = store.artefact(&kind, &key).manifest()?
            {
                stages.insert(name, (kind, key, manifest));
            }
        }
        Ok(stages)
    }

    /// All tables, by stage and name, without those of the schema `store`. Reads manifests only.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(super) fn tables(&self) -> Result<Vec<ListedTable>> {
        let declared = self.declared.iter().flatten();
        let mut tables: Vec<ListedTable> = declared
            .map(|(stage, table, _)| ListedTable { schema: stage.clone(), table: table.clone(), rows: Some(0) })
            .collect();
        for (stage, (_, _, manifest)) in self.stages()? {
            tables.extend(manifest.tables.iter().map(|(table, parts)| ListedTable {
                schema: stage.clone(),
                table: table.clone(),
                rows: Some(parts.iter().map(|part| part.rows).sum()),
            }));
        }
        Ok(tables)
    }

    /// Error for an unknown table: names the nearest ones.
    pub(super) fn unknown_table_error(&self, name: &str) -> Result<Error> {
        let tables = self.tables()?;
        let is_empty = tables.is_empty() && self.store.is_some();
        let store_tables = STORE_TABLES.iter().map(|table| ListedTable::of_store(table));
        let error = unknown_table_error(name, tables.into_iter().chain(store_tables));
        Ok(match error.hint_text() {
            None if is_empty => error.hint("no run has finished a stage in this store"),
            _ => error,
        })
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
