//! Callbacks of an evaluation: rows as they are made, progress, checkpoints, relevance on demand.

use arrow::array::RecordBatch;
use az::SaturatingAs;

use super::label::Label;
use super::ranking::Rankings;
use super::relevance::Grades;
use crate::error::{Error, Result};
use crate::search::{CheckpointStore, Progress};

/// Callbacks of an evaluation. An error of any of them ends it.
#[expect(clippy::missing_errors_doc, reason = "errors are the caller's own")]
pub trait Callbacks {
    /// Takes rows of `rankings`: at most 512, of one protocol, method and direction.
    fn rankings(&mut self, _rows: RecordBatch) -> Result<()> {
        Ok(())
    }

    /// Takes rows of `hubs`: all items of a pool, of one protocol, method and direction.
    fn hubs(&mut self, _rows: RecordBatch) -> Result<()> {
        Ok(())
    }

    /// Takes what a pool found by a method: image to text, text to image.
    fn ranked(&mut self, _method: &Label, _rankings: &[Rankings; 2]) -> Result<()> {
        Ok(())
    }

    /// Is told that `done` of `total` queries are ranked.
    fn progress(&mut self, _done: u64, _total: u64) {}

    /// Says whether to go on; called often.
    fn proceed(&self) -> Result<()> {
        Ok(())
    }

    /// Is told what a person should know of the results.
    fn warn(&mut self, _subject: String, _message: String) {}

    /// Store in which long searches keep their state, so that an evaluation that is run again goes on.
    fn checkpoints(&mut self) -> Option<&mut dyn CheckpointStore> {
        None
    }

    /// φ of the graded relevance of this number. Asked for once all pools are ranked, one after the other.
    fn graded(&mut self, number: usize) -> Result<Box<dyn Grades>> {
        Err(Error::internal(format!("nobody gives φ of relevance {number}")))
    }
}

/// No callbacks.
impl Callbacks for () {}

/// Keeps all rows of the tables that are given out as they are made.
#[derive(Debug, Default)]
pub struct Collect {
    /// Batches of `rankings`.
    pub rankings: Vec<RecordBatch>,
    /// Batches of `hubs`.
    pub hubs: Vec<RecordBatch>,
}

impl Callbacks for Collect {
    fn rankings(&mut self, rows: RecordBatch) -> Result<()> {
        self.rankings.push(rows);
        Ok(())
    }

    fn hubs(&mut self, rows: RecordBatch) -> Result<()> {
        self.hubs.push(rows);
        Ok(())
    }
}

/// Progress of the searches of one method, for the caller.
pub(super) struct MethodProgress<'c> {
    callbacks: &'c mut dyn Callbacks,
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
        self.done + (u128::from(self.left / 2) * u128::from(rows) / u128::from(all.max(1))).saturating_as::<u64>()
    }
}

impl<'c> MethodProgress<'c> {
    /// Tells nobody how far searches are.
    pub(super) fn silent(callbacks: &'c mut dyn Callbacks) -> Self {
        Self { callbacks, bar: None }
    }

    /// `done` of `total` units are done, and passes get on with the next `left` of them.
    pub(super) fn of(callbacks: &'c mut dyn Callbacks, done: u64, left: u64, total: u64) -> Self {
        Self { callbacks, bar: Some(Bar { done, left, total, rows: 0 }) }
    }
}

impl Progress for MethodProgress<'_> {
    fn report(&mut self, done: u64, all: u64) -> Result<()> {
        if let Some(bar) = &mut self.bar {
            self.callbacks.progress(bar.tell(done, all), bar.total);
        }
        self.callbacks.proceed()
    }

    fn checkpoints(&mut self) -> Option<&mut dyn CheckpointStore> {
        self.callbacks.checkpoints()
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
