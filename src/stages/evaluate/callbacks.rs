//! Callbacks of the retrieval: tables are written, φ is read, and long searches keep their sections in the cache of shards.

use std::sync::Arc;

use arrow::array::{Int32Array, ListArray, RecordBatch};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Schema};

use super::pool::Pool;
use super::similarity::Similarity;
use crate::error::{Error, Kind, Result};
use crate::retrieval::{Callbacks, Grades};
use crate::search::CheckpointStore;
use crate::stage::Cx;
use crate::tables;

/// Gives the retrieval what the stage has, and its tables to the stage.
pub(super) struct StageCallbacks<'k, 'w> {
    cx: &'k mut Cx<'w>,
    pool: &'k Pool,
    /// Inputs of the graded relevance.
    graded: Vec<String>,
    minimum_cost: u64,
    /// True if the cache takes things.
    takes: bool,
}

/// The column of payloads.
const PAYLOAD: &str = "payload";

impl<'k, 'w> StageCallbacks<'k, 'w> {
    /// `minimum_cost`: as [`CheckpointStore::minimum_cost`].
    pub(super) fn new(cx: &'k mut Cx<'w>, pool: &'k Pool, graded: Vec<String>, minimum_cost: u64) -> Self {
        Self { cx, pool, graded, minimum_cost, takes: true }
    }

    /// Nothing, with a warning, of a cache that does not do its work: results do not depend on it.
    fn without<T>(&mut self, error: Error) -> Result<Option<T>> {
        if error.kind() == Kind::Interrupted {
            return Err(error);
        }
        if self.takes {
            self.takes = false;
            self.cx.warn("cache", format!("what was found cannot be kept for a run that goes on: {error}"));
        }
        Ok(None)
    }
}

impl Callbacks for StageCallbacks<'_, '_> {
    fn rankings(&mut self, rows: RecordBatch) -> Result<()> {
        self.cx.write("rankings", rows)
    }

    fn hubs(&mut self, rows: RecordBatch) -> Result<()> {
        self.cx.write("hubs", rows)
    }

    fn progress(&mut self, done: u64, total: u64) {
        self.cx.progress(done, Some(total));
    }

    fn proceed(&self) -> Result<()> {
        self.cx.proceed()
    }

    fn warn(&mut self, subject: String, message: String) {
        self.cx.warn(subject, message);
    }

    fn checkpoints(&mut self) -> Option<&mut dyn CheckpointStore> {
        Some(self)
    }

    fn graded(&mut self, number: usize) -> Result<Box<dyn Grades>> {
        Ok(Box::new(Similarity::read(self.cx, &self.graded[number], self.pool)?))
    }
}

impl CheckpointStore for StageCallbacks<'_, '_> {
    fn load(&mut self, name: &str) -> Result<Option<Vec<i32>>> {
        if !self.takes {
            return Ok(None);
        }
        let shard = match self.cx.kept("search", &name.into()) {
            Ok(shard) => shard,
            // It is damaged, and removed by now.
            Err(error) if error.kind() == Kind::Data => return Ok(None),
            Err(error) => return self.without(error),
        };
        // What cannot be read is computed again.
        Ok(shard.and_then(|shard| Some(shard.numbers(PAYLOAD).ok()?.row(0).ok()?.to_vec())))
    }

    fn save(&mut self, name: &str, content: Vec<i32>) -> Result<()> {
        if !self.takes {
            return Ok(());
        }
        let item = Arc::new(Field::new("item", DataType::Int32, false));
        let schema = Schema::new(vec![Field::new(PAYLOAD, DataType::List(Arc::clone(&item)), false)]);
        let offsets = OffsetBuffer::from_lengths([content.len()]);
        let payload = ListArray::try_new(item, offsets, Arc::new(Int32Array::from(content)), None)?;
        let batch = tables::batch(&Arc::new(schema), vec![Arc::new(payload)])?;
        match self.cx.keep("search", &name.into(), batch) {
            Ok(_) => Ok(()),
            Err(error) => self.without::<()>(error).map(|_| ()),
        }
    }

    fn minimum_cost(&self) -> u64 {
        self.minimum_cost
    }
}
