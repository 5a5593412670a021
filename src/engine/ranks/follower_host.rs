//! Stage host of a follower: it reads like that of the engine, and discards everything that is written.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use bytes::Bytes;
use serde_json::Value;

use super::follower_map::FollowerMap;
use super::shared_parts::SharedParts;
use crate::cache::LazyCache;
use crate::earlier_rows::stored_rows;
use crate::inputs::StageInputs;
use crate::ordered_map::MemoryBudget;
use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::{ProcessGroup, Resources};
use pairloom_stage::{FileKeys, MapFn, MapInput, MapSummary, SharedEarlierRows, StageEvent, StageHost, StageLineage};
use pairloom_storage::objects::ObjectStorage;
use pairloom_storage::shard::Shard;
use pairloom_storage::table_shards::TableShards;
use pairloom_store::key::ArtefactIdentity;
use pairloom_store::{Artefact, FileEntry, Store};

/// Stage host of a follower.
pub(super) struct FollowerHost<'e> {
    pub identity: &'e ArtefactIdentity,
    pub store: &'e Store,
    pub artefact: Artefact,
    /// Numbers of parts that rank 0 had committed, by table.
    pub committed: BTreeMap<String, usize>,
    pub budget: MemoryBudget,
    pub inputs: StageInputs,
    /// State from which rank 0 resumed.
    pub state: Option<FileEntry>,
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

    fn store_folder(&self) -> Option<&Path> {
        self.store.objects().folder()
    }

    fn objects(&self, input: &str) -> Result<Option<ObjectStorage>> {
        self.inputs.objects(input, self.store)
    }

    fn lineage(&self) -> Result<StageLineage> {
        let stage = &self.inputs.stage;
        Err(Error::internal(format!("stage `{stage}` calls `lineage`, which is not supported in a process group")))
    }

    fn write(&mut self, _output: &str, _batch: RecordBatch) -> Result<()> {
        self.check_cancelled()
    }

    fn map(&mut self, input: MapInput<'_>, output: &str, size: usize, function: &MapFn<'_>) -> Result<MapSummary> {
        let Some(shared) = SharedParts::of(&self.artefact, output, &self.process_group) else {
            return Err(Error::internal("a follower is in a group of one"));
        };
        let committed = self.committed.get(output).copied().unwrap_or_default();
        let (budget, resources, size) = (self.budget.clone(), &self.resources, size.max(1));
        let map = FollowerMap { shared, committed, size, function, budget, resources };
        let all = match input {
            MapInput::Table(name) => map.map_rows(self.inputs.table_reader(name)?)?,
            MapInput::Range(count) => map.map_range(count).map(|()| count as u64)?,
        };
        // Rank 0 alone knows the rows of all blocks.
        Ok(MapSummary { inputs: all, rows: all, warnings: Vec::new() })
    }

    fn earlier_rows(&mut self, output: &str, not_of_rows: &[&str]) -> Result<SharedEarlierRows> {
        Ok(stored_rows(self.store, self.identity, output, not_of_rows)?.shared())
    }

    fn file_keys(&mut self, input: &str) -> Result<FileKeys> {
        self.inputs.file_keys(input, self.store)
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
        let Some(file) = &self.state else { return Ok(None) };
        self.artefact.read(&file.name, file.bytes, &file.digest).map(Some)
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
