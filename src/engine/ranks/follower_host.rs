//! Stage host of a follower: it reads like that of the engine, and discards everything that is written.

use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::RecordBatch;
use bytes::Bytes;
use serde_json::Value;

use crate::engine::cache::LazyCache;
use crate::engine::inputs::StageInputs;
use crate::error::{Error, Result};
use crate::io::shard::Shard;
use crate::io::table_shards::TableShards;
use crate::runtime::{ProcessGroup, Resources};
use crate::stage::{MapFn, MapInput, MapSummary, StageEvent, StageHost, StageLineage};
use crate::store::key::ArtefactIdentity;
use crate::store::{Artefact, FileEntry};

/// Stage host of a follower.
pub(super) struct FollowerHost<'e> {
    pub identity: &'e ArtefactIdentity,
    pub inputs: StageInputs,
    /// State from which rank 0 resumed, and the artefact that holds it.
    pub state: Option<(Artefact, FileEntry)>,
    pub cache: &'e LazyCache<'e>,
    pub resources: Resources,
    pub process_group: ProcessGroup,
}

impl FollowerHost<'_> {
    fn check_cancelled(&self) -> Result<()> {
        self.resources.cancel.check()
    }
}

impl StageHost for FollowerHost<'_> {
    fn read_next(&mut self, input: &str) -> Result<Option<RecordBatch>> {
        self.inputs.read_next(input, &mut |_| ())
    }

    fn shards(&mut self, input: &str) -> Result<TableShards> {
        self.inputs.shards(input, self.cache, &mut |_| ())
    }

    fn file(&mut self, input: &str, name: &str) -> Result<Bytes> {
        self.inputs.read_file(input, name, &self.resources.cancel, &mut |_| ())
    }

    fn path(&self, input: &str) -> Result<Option<PathBuf>> {
        self.inputs.path(input)
    }

    fn lineage(&self) -> Result<StageLineage> {
        let stage = &self.inputs.stage;
        Err(Error::internal(format!("stage `{stage}` calls `lineage`, which is not supported in a process group")))
    }

    fn write(&mut self, _output: &str, _batch: RecordBatch) -> Result<()> {
        self.check_cancelled()
    }

    fn map(&mut self, _input: MapInput<'_>, _output: &str, _size: usize, _function: &MapFn<'_>) -> Result<MapSummary> {
        let stage = &self.inputs.stage;
        Err(Error::internal(format!("stage `{stage}` calls `map`, which is not supported in a process group")))
    }

    fn put_file(&mut self, _output: &str, _name: &str, _content: Bytes) -> Result<()> {
        self.check_cancelled()
    }

    fn cached(&mut self, name: &str, settings: &Value) -> Result<Option<Arc<Shard>>> {
        self.cache.get_rows(&self.identity.cache_name(name, settings), &self.resources.cancel)
    }

    fn cache(&mut self, name: &str, settings: &Value, batch: RecordBatch) -> Result<Arc<Shard>> {
        self.cache.insert_rows(&self.identity.cache_name(name, settings), batch, &self.resources.cancel)
    }

    fn saved_state(&mut self) -> Result<Option<Bytes>> {
        let Some((artefact, file)) = &self.state else { return Ok(None) };
        artefact.read(&file.name, file.bytes, &file.digest).map(Some)
    }

    fn save_state(&mut self, _state: Bytes, _last: usize) -> Result<()> {
        self.check_cancelled()
    }

    fn emit(&mut self, _event: StageEvent) {}

    fn resources(&self) -> &Resources {
        &self.resources
    }

    fn wait_for_exclusive(&mut self) -> Result<()> {
        // Rank 0 waits on behalf of all ranks.
        self.check_cancelled()
    }

    fn process_group(&mut self, _world_size: usize) -> Result<ProcessGroup> {
        Ok(self.process_group.clone())
    }
}
