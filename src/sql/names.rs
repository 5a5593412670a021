//! What `stage.table` stands for.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use arrow::datatypes::SchemaRef;

use crate::error::{Error, Result, TruncatedList};
use crate::store::key::Key;
use crate::store::record::{RunRecord, records};
use crate::store::{Artefact, Manifest, Presence, Store};
use crate::tables;

/// Tables of the schema `store`, in which a store tells of itself.
pub(super) const SYSTEM_TABLES: [&str; 6] = ["runs", "stages", "expectations", "artefacts", "parts", "warnings"];

/// Which artefact the name of a stage stands for.
pub(super) struct Names {
    /// None where only columns are asked for.
    store: Option<Store>,
    /// Artefacts by stage, where they are given and not looked up in the records of runs.
    given: Option<Vec<Stage>>,
    /// Columns of (stage, table), where there are no rows yet and the columns are all that is asked for.
    declared: Option<Vec<Declared>>,
    /// Records of all runs, the latest first, once somebody needs all of them.
    records: OnceCell<Vec<RunRecord>>,
}

/// (name, kind, key) of a stage.
pub(super) type Stage = (String, String, Key);

/// (stage, table, columns) of a table that is yet to be made.
pub(super) type Declared = (String, String, SchemaRef);

/// What a table is made of.
pub(super) enum Found {
    /// Paths in the store underneath, in order, and the size of all in bytes.
    Parts(Vec<String>, u64),
    /// No rows; these would be its columns.
    Empty(SchemaRef),
}

impl Names {
    /// Every name stands for what the latest run that has it complete made.
    pub(super) fn of_runs(store: &Store) -> Self {
        Self { store: Some(store.clone()), given: None, declared: None, records: OnceCell::new() }
    }

    /// These tables, without rows, and no store.
    pub(super) fn declared(tables: Vec<Declared>) -> Self {
        Self { store: None, given: Some(vec![]), declared: Some(tables), records: OnceCell::new() }
    }

    /// The names of these stages.
    pub(super) fn of_stages(store: &Store, stages: Vec<Stage>) -> Self {
        Self { store: Some(store.clone()), given: Some(stages), declared: None, records: OnceCell::new() }
    }

    pub(super) fn store(&self) -> Option<&Store> {
        self.store.as_ref()
    }

    /// Records of all runs, the latest first.
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

    /// The parts of `stage.table`, if there is such a table.
    ///
    /// # Errors
    /// It is damaged.
    pub(super) fn table(&self, stage: &str, table: &str) -> Result<Option<Found>> {
        if let Some(declared) = &self.declared {
            let of = meant(declared.iter().map(|(of, _, _)| of.as_str()), stage);
            let found = declared.iter().find(|(name, kind, _)| Some(name.as_str()) == of && same(kind, table));
            return Ok(found.map(|(_, _, schema)| Found::Empty(schema.clone())));
        }
        let Some((artefact, manifest, _)) = self.artefact(stage)? else { return Ok(None) };
        let Some((name, parts)) = manifest.tables.iter().find(|(name, _)| same(name, table)) else { return Ok(None) };
        if let Presence::Damaged(problem) = artefact.presence()? {
            return Err(Error::data(format!("`{}` is damaged: {problem}", artefact.place("")))
                .hint("run the pipeline again: it builds this table anew"));
        }
        if parts.is_empty() {
            let known = tables::all().into_iter().find(|table| table.name == name);
            return Ok(known.map(|table| Found::Empty(table.schema())));
        }
        let object = |index| artefact.path(&Artefact::part_name(name, index));
        let bytes = parts.iter().map(|part| part.bytes).sum();
        Ok(Some(Found::Parts(parts.iter().map(|part| object(part.index)).collect(), bytes)))
    }

    /// The complete artefact that `stage` stands for, with its manifest.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(super) fn artefact_of(&self, stage: &str) -> Result<Option<(Artefact, Manifest)>> {
        Ok(self.artefact(stage)?.map(|(artefact, manifest, _)| (artefact, manifest)))
    }

    /// The stages that are given, if they are.
    pub(super) fn given(&self) -> Option<&[Stage]> {
        self.given.as_deref()
    }

    /// The complete artefact that `stage` stands for.
    fn artefact(&self, stage: &str) -> Result<Option<(Artefact, Manifest, Stage)>> {
        let Some(store) = &self.store else { return Ok(None) };
        let mut near = None;
        // Records are read one by one, the latest first, until one has the stage.
        for found in self.lookup()? {
            let exact = found.0 == stage;
            if exact || (near.is_none() && same(&found.0, stage)) {
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

    /// Stages in the order in which they are looked at.
    fn lookup(&self) -> Result<Box<dyn Iterator<Item = Stage> + '_>> {
        if let Some(given) = &self.given {
            return Ok(Box::new(given.iter().cloned()));
        }
        let Some(store) = &self.store else { return Ok(Box::new(std::iter::empty())) };
        let stages = |run: RunRecord| run.stages.into_iter().map(|stage| (stage.name, stage.kind, stage.key));
        Ok(Box::new(records(store)?.flat_map(stages)))
    }

    /// The stage that stands for each name, by name.
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

    /// The error of a name that stands for nothing: what there is, and what was probably meant.
    pub(super) fn unknown(&self, name: &str) -> Result<Error> {
        let mut valid: BTreeSet<String> = BTreeSet::new();
        for (stage, (_, _, manifest)) in self.stages()? {
            valid.extend(manifest.tables.keys().map(|table| format!("{}.{}", quoted(&stage), quoted(table))));
        }
        let declared = self.declared.iter().flatten();
        valid.extend(declared.map(|(stage, table, _)| format!("{}.{}", quoted(stage), quoted(table))));
        let system: Vec<String> = SYSTEM_TABLES.iter().map(|table| format!("store.{table}")).collect();
        let all = valid.iter().map(String::as_str).chain(system.iter().map(String::as_str));
        let near = all
            .map(|valid| {
                let last = valid.rsplit('.').next().unwrap_or(valid);
                // `summary` for `test.summary` is the commonest slip.
                (strsim::damerau_levenshtein(name, valid).min(1 + 4 * strsim::damerau_levenshtein(name, last)), valid)
            })
            .min()
            .filter(|(distance, _)| *distance <= 2 + name.len() / 4)
            .map(|(_, valid)| format!("did you mean `{valid}`?"));
        let mut there: Vec<String> =
            (!valid.is_empty()).then(|| TruncatedList::from_iter(&valid).join(", ")).into_iter().collect();
        there.extend(system.iter().cloned());
        let error = Error::usage(format!("SQL: there is no table `{name}`; there are {}", there.join(", ")));
        Ok(match near {
            Some(hint) => error.hint(hint),
            None if valid.is_empty() && self.store.is_some() => error.hint("no run has finished a stage in this store"),
            None => error,
        })
    }
}

/// The one of `names` that an SQL name means: itself, or else the first that differs in letter case alone.
fn meant<'n>(names: impl Iterator<Item = &'n str> + Clone, sql: &str) -> Option<&'n str> {
    names.clone().find(|name| *name == sql).or_else(|| names.clone().find(|name| same(name, sql)))
}

/// Whether an SQL name means `name`: SQL lowers names that are not in quotes.
fn same(name: &str, sql: &str) -> bool {
    name.eq_ignore_ascii_case(sql)
}

/// A name as SQL wants it.
fn quoted(name: &str) -> String {
    let plain = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if plain && !name.starts_with(|c: char| c.is_ascii_digit()) { name.to_owned() } else { format!("\"{name}\"") }
}
