//! Number of rows that a run would compute, and of those that it would copy from earlier results, without a look at any
//! item.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;

use crate::earlier_rows::stored_rows;
use crate::sources::{self, SourceContent};
use pairloom_base::error::Result;
use pairloom_stage::plan::{Plan, PlanNode};
use pairloom_stage::{CopiedRows, FileKeys, InputOrigin, OutputKind, RowKey, Stage, TableRef, input};
use pairloom_store::key::ArtefactIdentity;
use pairloom_store::{Artefact, Manifest, Store};

/// Knowledge before a run of the rows that it would compute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NewRows {
    /// Their number.
    Counted(RowCount),
    /// The stage that writes the items would run first.
    AfterRun {
        /// Name of the stage.
        stage: String,
    },
}

/// Number of rows that a run would compute, and of those that it would copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowCount {
    /// Rows that no earlier result has.
    pub new: u64,
    /// Rows that earlier results have.
    pub known: u64,
    /// Things that were counted in place of rows, which are among them: the stage that says which have rows would run, too.
    pub counted: Option<&'static str>,
}

impl NewRows {
    /// Number of the rows, if it is known.
    #[must_use]
    pub fn count(&self) -> Option<RowCount> {
        match self {
            Self::Counted(count) => Some(*count),
            Self::AfterRun { .. } => None,
        }
    }
}

impl fmt::Display for NewRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Counted(RowCount { new: 0, known: 0, counted }) => match counted {
                Some(things) => write!(f, "there are no rows: there are no {things}"),
                None => f.write_str("there are no rows"),
            },
            Self::Counted(RowCount { new, known, counted: Some(things) }) => {
                let all = new + known;
                write!(f, "at most {new} rows are new: earlier results have those of {known} of {all} {things}")
            }
            Self::Counted(RowCount { new: 0, known, counted: None }) => {
                write!(f, "no rows are new: earlier results have all {known}")
            }
            Self::Counted(RowCount { new, known: 0, counted: None }) => {
                write!(f, "all {new} rows are new: earlier results have none of them")
            }
            Self::Counted(RowCount { new, known, counted: None }) => {
                write!(f, "{new} of {} rows are new: earlier results have the others", new + known)
            }
            Self::AfterRun { stage } => write!(
                f,
                "how many rows are new is unknown until `{stage}` has run: those that earlier results have are copied"
            ),
        }
    }
}

/// Counts the rows of a stage that is not complete. `contents` are the sources of the plan so far, and `producer` finds the
/// artefact of a table, with its manifest if it is complete. `None` if no earlier result has rows that the stage may copy.
pub(super) fn count_new_rows<S: Stage>(
    node: &PlanNode<S>,
    identity: &ArtefactIdentity,
    plan: &Plan<S>,
    store: &Store,
    contents: &HashMap<PathBuf, SourceContent>,
    producer: impl Fn(&TableRef) -> Option<(Artefact, Option<Manifest>)>,
) -> Result<Option<NewRows>> {
    let Some(CopiedRows { input: name, output, key_columns, not_of_rows }) = node.stage.copied_rows() else {
        return Ok(None);
    };
    let rows = stored_rows(store, identity, output, not_of_rows)?;
    if rows.is_empty() {
        return Ok(None);
    }
    let count = |keys: &mut dyn Iterator<Item = Option<RowKey>>, counted| {
        let mut count = RowCount { new: 0, known: 0, counted };
        for key in keys {
            let is_known = key.is_some_and(|key| rows.has(key));
            *if is_known { &mut count.known } else { &mut count.new } += 1;
        }
        Some(NewRows::Counted(count))
    };
    let from = match input(&node.stage.inputs(), name)?.origin.clone() {
        InputOrigin::Table { from, .. } => from,
        InputOrigin::Source(source) => {
            let objects = contents.get(source.path()).and_then(|content| content.files.as_ref());
            return Ok(objects.and_then(|objects| {
                count(&mut objects.iter().map(|(_, key)| Some(*key)), Some("objects in the bucket"))
            }));
        }
        InputOrigin::Files { .. } => return Ok(None),
    };
    let Some((artefact, manifest)) = producer(&from) else { return Ok(None) };
    let root = root_of(plan, &from);
    let content = root.as_ref().and_then(|root| contents.get(root));
    let files = match content {
        Some(SourceContent { files: Some(files), .. }) => FileKeys::new(files.iter().copied()),
        Some(SourceContent { files: None, .. }) => {
            root.as_ref().map_or_else(|| Ok(FileKeys::default()), |root| sources::file_keys(store, root))?
        }
        None => FileKeys::default(),
    };
    let Some(manifest) = manifest else {
        return Ok(match content {
            Some(_) => count(&mut files.contents().map(Some), Some("files in the folder")),
            None => Some(NewRows::AfterRun { stage: from.stage().to_owned() }),
        });
    };
    let parts = manifest.tables.get(from.table()).map_or(&[][..], Vec::as_slice);
    let mut keys = Vec::new();
    artefact.read_columns((from.table(), parts), key_columns, |batch| {
        keys.extend(node.stage.item_keys(&batch, &files)?);
        Ok(())
    })?;
    Ok(count(&mut keys.into_iter(), None))
}

/// Folder that paths in a table are relative to.
fn root_of<S: Stage>(plan: &Plan<S>, table: &TableRef) -> Option<PathBuf> {
    let node = plan.stages().iter().find(|node| node.name == table.stage())?;
    let output = node.stage.outputs().into_iter().find(|output| output.name == table.table())?;
    let OutputKind::Table { root: Some(root), .. } = output.kind else { return None };
    match node.stage.inputs().into_iter().find(|input| input.name == root)?.origin {
        InputOrigin::Source(source) => Some(source.path().to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_sentences_for_none_some_and_all() {
        let text = |new, known, counted| NewRows::Counted(RowCount { new, known, counted }).to_string();
        assert_eq!(text(0, 0, None), "there are no rows");
        assert_eq!(text(0, 6, None), "no rows are new: earlier results have all 6");
        assert_eq!(text(6, 0, None), "all 6 rows are new: earlier results have none of them");
        assert_eq!(text(2, 4, None), "2 of 6 rows are new: earlier results have the others");
        let files = Some("files in the folder");
        assert_eq!(text(0, 0, files), "there are no rows: there are no files in the folder");
        let wanted = "at most 0 rows are new: earlier results have those of 6 of 6 files in the folder";
        assert_eq!(text(0, 6, files), wanted);
    }
}
