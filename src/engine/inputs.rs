//! Inputs of a running stage.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::RecordBatch;
use bytes::Bytes;

use crate::engine::cache::LazyCache;
use crate::engine::feed::Feed;
use crate::engine::reader::{TableReader, Waiting};
use crate::error::{Error, Result};
use crate::io::shards::Shards;
use crate::runtime::Cancel;
use crate::store::{Artefact, FileEntry, Part};

/// An input, ready to be read.
pub(super) enum Input {
    /// A table, and the folder that its paths are relative to.
    Table(Box<TableReader>, Option<PathBuf>),
    /// Files: what they are called, where they lie, and the feed that says when they are there.
    Files { name: String, artefact: Artefact, output: String, feed: Arc<Feed> },
    /// A file or folder outside of the store.
    Source(PathBuf),
}

/// The inputs of a stage by name.
pub(super) struct Inputs {
    /// The stage, for messages.
    pub stage: String,
    pub inputs: BTreeMap<String, Input>,
}

impl Inputs {
    /// The cursor of a table input.
    pub fn table(&mut self, input: &str) -> Result<&mut TableReader> {
        match self.inputs.get_mut(input) {
            Some(Input::Table(reader, _)) => Ok(reader),
            _ => Err(Error::internal(format!("stage `{}` declares no table `{input}`", self.stage))),
        }
    }

    /// The next rows of a table; at its end nothing, and the next call begins again.
    pub fn next(&mut self, input: &str, waiting: Waiting<'_>) -> Result<Option<RecordBatch>> {
        let reader = self.table(input)?;
        let next = reader.next(waiting)?;
        if next.is_none() {
            reader.rewind();
        }
        Ok(next)
    }

    /// A table as shards, once its producer has ended.
    pub fn shards(&mut self, input: &str, cache: &LazyCache<'_>, waiting: Waiting<'_>) -> Result<Shards> {
        let reader = self.table(input)?;
        reader.shards(reader.parts(waiting)?, cache)
    }

    /// A file of a files input.
    pub fn file(&self, input: &str, file: &str, cancel: &Cancel, waiting: Waiting<'_>) -> Result<Bytes> {
        let Some(Input::Files { name, artefact, output, feed }) = self.inputs.get(input) else {
            return Err(Error::internal(format!("stage `{}` declares no files `{input}`", self.stage)));
        };
        let files = feed.files(output, cancel, &mut || waiting(name))?;
        let Some(entry) = files.iter().find(|entry| entry.name == file) else {
            let names: Vec<_> = files.iter().map(|entry| format!("`{}`", entry.name)).collect();
            return Err(Error::data(format!("`{name}` has no file `{file}`; it has {}", names.join(", "))));
        };
        artefact.read(&format!("{output}/{file}"), entry.bytes, &entry.digest)
    }

    /// The place of a source, or the folder that paths in a table are relative to.
    pub fn path(&self, input: &str) -> Result<Option<PathBuf>> {
        match self.inputs.get(input) {
            Some(Input::Source(path)) => Ok(Some(path.clone())),
            Some(Input::Table(_, root)) => Ok(root.clone()),
            _ => Err(Error::internal(format!("stage `{}` declares no source and no table `{input}`", self.stage))),
        }
    }

    /// Parts of all tables and files of all files inputs, once their producers have ended.
    pub fn complete(&self, cancel: &Cancel, waiting: Waiting<'_>) -> Result<Complete> {
        let mut complete = Complete::default();
        for (input, port) in &self.inputs {
            match port {
                Input::Table(reader, _) => {
                    complete.parts.insert(input.clone(), reader.parts(waiting)?);
                }
                Input::Files { name, output, feed, .. } => {
                    complete.files.insert(input.clone(), feed.files(output, cancel, &mut || waiting(name))?);
                }
                Input::Source(_) => {}
            }
        }
        Ok(complete)
    }
}

/// Parts and files of complete inputs, by input.
#[derive(Default)]
pub(super) struct Complete {
    /// Parts of tables.
    pub parts: BTreeMap<String, Vec<Part>>,
    /// Files.
    pub files: BTreeMap<String, Vec<FileEntry>>,
}
