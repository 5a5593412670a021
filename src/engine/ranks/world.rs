//! The world of a stage on a rank other than 0: it reads as everywhere, and what it writes goes nowhere.

use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::RecordBatch;
use bytes::Bytes;
use serde_json::Value;

use crate::engine::cache::LazyCache;
use crate::engine::inputs::Inputs;
use crate::error::{Error, Result};
use crate::io::shard::Shard;
use crate::io::shards::Shards;
use crate::runtime::{Ranks, Resources};
use crate::stage::{MapFn, Over, StageEvent, World};
use crate::store::key::Identity;
use crate::store::{Artefact, FileEntry};

/// The world of a stage on a rank other than 0.
pub(super) struct FollowerWorld<'e> {
    pub identity: &'e Identity,
    pub inputs: Inputs,
    /// The state that rank 0 began with, and whose it is.
    pub state: Option<(Artefact, FileEntry)>,
    pub cache: &'e LazyCache<'e>,
    pub resources: Resources,
    pub ranks: Ranks,
}

impl FollowerWorld<'_> {
    fn proceed(&self) -> Result<()> {
        self.resources.cancel.proceed()
    }
}

impl World for FollowerWorld<'_> {
    fn next(&mut self, input: &str) -> Result<Option<RecordBatch>> {
        self.inputs.next(input, &mut |_| ())
    }

    fn shards(&mut self, input: &str) -> Result<Shards> {
        self.inputs.shards(input, self.cache, &mut |_| ())
    }

    fn file(&mut self, input: &str, name: &str) -> Result<Bytes> {
        self.inputs.file(input, name, &self.resources.cancel, &mut |_| ())
    }

    fn path(&self, input: &str) -> Result<Option<PathBuf>> {
        self.inputs.path(input)
    }

    fn write(&mut self, _output: &str, _batch: RecordBatch) -> Result<()> {
        self.proceed()
    }

    fn map(&mut self, _over: Over<'_>, _output: &str, _size: usize, _function: &MapFn<'_>) -> Result<()> {
        let stage = &self.inputs.stage;
        Err(Error::internal(format!("stage `{stage}` calls `map`, which does nothing between ranks")))
    }

    fn put_file(&mut self, _output: &str, _name: &str, _content: Bytes) -> Result<()> {
        self.proceed()
    }

    fn kept(&mut self, name: &str, settings: &Value) -> Result<Option<Arc<Shard>>> {
        self.cache.kept(&self.identity.kept_name(name, settings), &self.resources.cancel)
    }

    fn keep(&mut self, name: &str, settings: &Value, batch: RecordBatch) -> Result<Arc<Shard>> {
        self.cache.keep(&self.identity.kept_name(name, settings), batch, &self.resources.cancel)
    }

    fn state(&mut self) -> Result<Option<Bytes>> {
        let Some((artefact, file)) = &self.state else { return Ok(None) };
        artefact.read(&file.name, file.bytes, &file.digest).map(Some)
    }

    fn save(&mut self, _state: Bytes, _last: usize) -> Result<()> {
        self.proceed()
    }

    fn emit(&mut self, _event: StageEvent) {}

    fn resources(&self) -> &Resources {
        &self.resources
    }

    fn turn(&mut self) -> Result<()> {
        // Rank 0 waits for it.
        self.proceed()
    }

    fn ranks(&mut self, _wanted: usize) -> Result<Ranks> {
        Ok(self.ranks.clone())
    }
}
