//! Inputs of a running stage.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::RecordBatch;
use bytes::Bytes;

use crate::cache::LazyCache;
use crate::feed::ArtefactFeed;
use crate::reader::{OnWait, TableReader};
use crate::sources;
use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::CancelToken;
use pairloom_stage::FileKeys;
use pairloom_storage::objects::ObjectStorage;
use pairloom_storage::table_shards::TableShards;
use pairloom_store::{Artefact, FileEntry, Part, Store};

/// An opened input.
pub(super) enum OpenInput {
    /// A table, and the folder that paths in it are relative to.
    Table(Box<TableReader>, Option<PathBuf>),
    /// Files: name for messages, artefact and output that hold them, and the feed that announces them.
    Files { name: String, artefact: Artefact, output: String, feed: Arc<ArtefactFeed> },
    /// A file or folder outside of the store.
    Source(PathBuf),
}

/// Opened inputs of a stage, by name.
pub(super) struct StageInputs {
    /// Name of the stage, for messages.
    pub stage: String,
    pub inputs: BTreeMap<String, OpenInput>,
}

impl StageInputs {
    /// Finds the reader of a table input.
    pub fn table_reader(&mut self, input: &str) -> Result<&mut TableReader> {
        match self.inputs.get_mut(input) {
            Some(OpenInput::Table(reader, _)) => Ok(reader),
            _ => Err(Error::internal(format!("stage `{}` declares no table `{input}`", self.stage))),
        }
    }

    /// Reads the next rows of a table; `None` at the end, after which the next call starts again at the first row.
    pub fn read_next(&mut self, input: &str, waiting: OnWait<'_>) -> Result<Option<RecordBatch>> {
        let reader = self.table_reader(input)?;
        let next = reader.read_next(waiting)?;
        if next.is_none() {
            reader.rewind();
        }
        Ok(next)
    }

    /// Waits for the producer of a table and returns the table as shards.
    pub fn shards(&mut self, input: &str, cache: &LazyCache<'_>, waiting: OnWait<'_>) -> Result<TableShards> {
        let reader = self.table_reader(input)?;
        reader.shards(reader.wait_for_parts(waiting)?, cache)
    }

    /// Waits for the producer of a files input and reads one of the files.
    pub fn read_file(&self, input: &str, file: &str, cancel: &CancelToken, waiting: OnWait<'_>) -> Result<Bytes> {
        let Some(OpenInput::Files { name, artefact, output, feed }) = self.inputs.get(input) else {
            return Err(Error::internal(format!("stage `{}` declares no files `{input}`", self.stage)));
        };
        let files = feed.wait_for_files(output, cancel, &mut || waiting(name))?;
        let Some(entry) = files.iter().find(|entry| entry.name == file) else {
            let names: Vec<_> = files.iter().map(|entry| format!("`{}`", entry.name)).collect();
            return Err(Error::data(format!("`{name}` has no file `{file}`; it has {}", names.join(", "))));
        };
        artefact.read(&format!("{output}/{file}"), entry.bytes, &entry.digest)
    }

    /// Path of a source, or folder that paths in a table are relative to.
    pub fn path(&self, input: &str) -> Result<Option<PathBuf>> {
        match self.inputs.get(input) {
            Some(OpenInput::Source(path)) => Ok(Some(path.clone())),
            Some(OpenInput::Table(_, root)) => Ok(root.clone()),
            _ => Err(Error::internal(format!("stage `{}` declares no source and no table `{input}`", self.stage))),
        }
    }

    /// Objects of a source at a URL.
    pub fn objects(&self, input: &str, store: &Store) -> Result<Option<ObjectStorage>> {
        match self.path(input)? {
            Some(path) => store.objects_of_source(&path),
            None => Ok(None),
        }
    }

    /// Keys of the files in the folder that paths in a table are relative to.
    pub fn file_keys(&self, input: &str, store: &Store) -> Result<FileKeys> {
        let root = self.path(input)?;
        root.map_or_else(|| Ok(FileKeys::default()), |root| sources::file_keys(store, &root))
    }

    /// Waits for the producers of all inputs and returns the parts and files of these inputs.
    pub fn wait_until_complete(&self, cancel: &CancelToken, waiting: OnWait<'_>) -> Result<CompleteInputs> {
        let mut complete = CompleteInputs::default();
        for (input, port) in &self.inputs {
            match port {
                OpenInput::Table(reader, _) => {
                    complete.parts.insert(input.clone(), reader.wait_for_parts(waiting)?);
                }
                OpenInput::Files { name, output, feed, .. } => {
                    complete.files.insert(input.clone(), feed.wait_for_files(output, cancel, &mut || waiting(name))?);
                }
                OpenInput::Source(_) => {}
            }
        }
        Ok(complete)
    }
}

/// Parts and files of complete inputs, by input.
#[derive(Default)]
pub(super) struct CompleteInputs {
    /// Parts of table inputs.
    pub parts: BTreeMap<String, Vec<Part>>,
    /// Files of files inputs.
    pub files: BTreeMap<String, Vec<FileEntry>>,
}
