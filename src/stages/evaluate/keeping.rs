//! What searches of this stage keep: their sections, in the cache of shards.

use std::sync::Arc;

use arrow::array::{Int32Array, ListArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Schema};

use crate::error::{Error, Kind, Result};
use crate::search::{Keeper, Watcher};
use crate::stage::Cx;
use crate::tables;

/// Watches searches for a stage: they end when it is cancelled, and go on where they were when it runs again.
pub(super) struct Keeping<'k, 'w> {
    cx: &'k mut Cx<'w>,
    worth: u64,
    /// Whether the cache takes things.
    takes: bool,
}

/// The column of words.
const WORDS: &str = "words";

impl<'k, 'w> Keeping<'k, 'w> {
    /// `worth`: as [`Keeper::worth`].
    pub(super) fn new(cx: &'k mut Cx<'w>, worth: u64) -> Self {
        Self { cx, worth, takes: true }
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

impl Watcher for Keeping<'_, '_> {
    fn tell(&mut self, _done: u64, _all: u64) -> Result<()> {
        self.cx.proceed()
    }

    fn keeper(&mut self) -> Option<&mut dyn Keeper> {
        Some(self)
    }
}

impl Keeper for Keeping<'_, '_> {
    fn kept(&mut self, name: &str) -> Result<Option<Vec<i32>>> {
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
        Ok(shard.and_then(|shard| Some(shard.numbers(WORDS).ok()?.row(0).ok()?.to_vec())))
    }

    fn keep(&mut self, name: &str, content: Vec<i32>) -> Result<()> {
        if !self.takes {
            return Ok(());
        }
        let item = Arc::new(Field::new("item", DataType::Int32, false));
        let schema = Schema::new(vec![Field::new(WORDS, DataType::List(Arc::clone(&item)), false)]);
        let offsets = OffsetBuffer::from_lengths([content.len()]);
        let words = ListArray::try_new(item, offsets, Arc::new(Int32Array::from(content)), None)?;
        let batch = tables::batch(&Arc::new(schema), vec![Arc::new(words)])?;
        match self.cx.keep("search", &name.into(), batch) {
            Ok(_) => Ok(()),
            Err(error) => self.without::<()>(error).map(|_| ()),
        }
    }

    fn worth(&self) -> u64 {
        self.worth
    }
}
