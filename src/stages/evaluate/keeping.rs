//! What watches the searches of this stage: it keeps their sections, in the cache of shards, and tells how far they are.

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
    bar: Option<Bar>,
}

/// Units of progress that the passes of a method get: each half of what is left, for nobody knows how many will come.
#[derive(Debug, Clone, Copy)]
struct Bar {
    done: u64,
    left: u64,
    total: u64,
    /// Rows of the pass so far.
    rows: u64,
}

impl Bar {
    /// So many rows of `all` of a pass are done: the units that are.
    fn tell(&mut self, rows: u64, all: u64) -> u64 {
        if rows < self.rows {
            self.done += self.left / 2;
            self.left -= self.left / 2;
        }
        self.rows = rows;
        self.done + u64::try_from(u128::from(self.left / 2) * u128::from(rows) / u128::from(all.max(1))).unwrap_or(0)
    }
}

/// The column of words.
const WORDS: &str = "words";

impl<'k, 'w> Keeping<'k, 'w> {
    /// `worth`: as [`Keeper::worth`].
    pub(super) fn new(cx: &'k mut Cx<'w>, worth: u64) -> Self {
        Self { cx, worth, takes: true, bar: None }
    }

    /// Tells that `done` of `total` units of the stage are done, and passes get on with the next `left` of them.
    pub(super) fn telling(self, done: u64, left: u64, total: u64) -> Self {
        Self { bar: Some(Bar { done, left, total, rows: 0 }), ..self }
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
    fn tell(&mut self, done: u64, all: u64) -> Result<()> {
        if let Some(bar) = &mut self.bar {
            self.cx.progress(bar.tell(done, all), Some(bar.total));
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pass_gets_half_of_what_is_left() {
        let mut bar = Bar { done: 100, left: 80, total: 200, rows: 0 };
        let told = [(0, 10), (5, 10), (10, 10), (0, 4), (4, 4), (1, 2)].map(|(rows, all)| bar.tell(rows, all));
        assert_eq!(told, [100, 120, 140, 140, 160, 165]);
    }
}
