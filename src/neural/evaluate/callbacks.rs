//! Callbacks of the retrieval: write tables, read φ, and save the checkpoints of long searches in the shard cache.

use std::sync::Arc;

use arrow::array::{Int32Array, ListArray, RecordBatch};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Schema};

use super::pool::SplitPool;
use super::similarity::SimilarityMatrix;
use pairloom_base::error::{Error, ErrorCategory, Result};
use pairloom_retrieval::{Callbacks, RelevanceGrades};
use pairloom_search::CheckpointStore;
use pairloom_stage::StageContext;
use pairloom_tables as tables;

/// Callbacks that connect the retrieval with the stage.
pub(super) struct StageCallbacks<'k, 'w> {
    cx: &'k mut StageContext<'w>,
    pool: &'k SplitPool,
    /// Inputs of the graded relevance.
    graded_inputs: Vec<String>,
    minimum_cost: u64,
    /// True until an access to the cache fails.
    cache_usable: bool,
}

/// Name of the column of payloads.
const PAYLOAD: &str = "payload";

impl<'k, 'w> StageCallbacks<'k, 'w> {
    /// Callbacks with a [`CheckpointStore::minimum_cost`].
    pub(super) fn new(
        cx: &'k mut StageContext<'w>,
        pool: &'k SplitPool,
        graded: Vec<String>,
        minimum_cost: u64,
    ) -> Self {
        Self { cx, pool, graded_inputs: graded, minimum_cost, cache_usable: true }
    }

    /// Disables the cache after an error, with a warning. Results do not depend on the cache.
    fn disable_cache<T>(&mut self, error: Error) -> Result<Option<T>> {
        if error.category() == ErrorCategory::Interrupted {
            return Err(error);
        }
        if self.cache_usable {
            self.cache_usable = false;
            self.cx
                .warn("cache", format!("checkpoints cannot be saved, so an interrupted run would start anew: {error}"));
        }
        Ok(None)
    }
}

impl Callbacks for StageCallbacks<'_, '_> {
    fn add_rankings(&mut self, rows: RecordBatch) -> Result<()> {
        self.cx.write("rankings", rows)
    }

    fn add_hubs(&mut self, rows: RecordBatch) -> Result<()> {
        self.cx.write("hubs", rows)
    }

    fn progress(&mut self, done: u64, total: u64) {
        self.cx.progress(done, Some(total), "queries");
    }

    fn check_cancelled(&self) -> Result<()> {
        self.cx.check_cancelled()
    }

    fn warn(&mut self, subject: String, message: String) {
        self.cx.warn(subject, message);
    }

    fn checkpoint_store(&mut self) -> Option<&mut dyn CheckpointStore> {
        Some(self)
    }

    fn relevance_grades(&mut self, number: usize) -> Result<Box<dyn RelevanceGrades>> {
        Ok(Box::new(SimilarityMatrix::read(self.cx, &self.graded_inputs[number], self.pool)?))
    }
}

impl CheckpointStore for StageCallbacks<'_, '_> {
    fn load(&mut self, name: &str) -> Result<Option<Vec<i32>>> {
        if !self.cache_usable {
            return Ok(None);
        }
        let shard = match self.cx.cached("search", &name.into()) {
            Ok(shard) => shard,
            // The entry was damaged and has been removed.
            Err(error) if error.category() == ErrorCategory::Data => return Ok(None),
            Err(error) => return self.disable_cache(error),
        };
        // A payload that cannot be read is computed again.
        Ok(shard.and_then(|shard| Some(shard.int32_lists(PAYLOAD).ok()?.row(0).ok()?.to_vec())))
    }

    fn save(&mut self, name: &str, content: Vec<i32>) -> Result<()> {
        if !self.cache_usable {
            return Ok(());
        }
        let item = Arc::new(Field::new("item", DataType::Int32, false));
        let schema = Schema::new(vec![Field::new(PAYLOAD, DataType::List(Arc::clone(&item)), false)]);
        let offsets = OffsetBuffer::from_lengths([content.len()]);
        let payload = ListArray::try_new(item, offsets, Arc::new(Int32Array::from(content)), None)?;
        let batch = tables::batch(&Arc::new(schema), vec![Arc::new(payload)])?;
        match self.cx.cache("search", &name.into(), batch) {
            Ok(_) => Ok(()),
            Err(error) => self.disable_cache::<()>(error).map(|_| ()),
        }
    }

    fn minimum_cost(&self) -> u64 {
        self.minimum_cost
    }
}
