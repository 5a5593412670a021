//! Callbacks of an evaluation: rows of tables, progress, checkpoints, relevance on demand.

use arrow::array::RecordBatch;
use az::SaturatingAs;

use super::collection::RelevanceGrades;
use super::ranking::MethodLabel;
use super::ranking::Rankings;
use pairloom_base::error::{Error, Result};
use pairloom_search::{CheckpointStore, SearchProgress};

/// Callbacks of an evaluation. An error of any callback ends the evaluation.
#[expect(clippy::missing_errors_doc, reason = "errors are the caller's own")]
pub trait Callbacks {
    /// Takes rows of `rankings`: at most 512, of one protocol, method and direction.
    fn add_rankings(&mut self, _rows: RecordBatch) -> Result<()> {
        Ok(())
    }

    /// Takes rows of `hubs`: all items of a pool, of one protocol, method and direction.
    fn add_hubs(&mut self, _rows: RecordBatch) -> Result<()> {
        Ok(())
    }

    /// Takes the rankings of a pool by a method: image to text, text to image.
    fn add_pool(&mut self, _method: &MethodLabel, _rankings: &[Rankings; 2]) -> Result<()> {
        Ok(())
    }

    /// Reports progress: `done` of `total` queries are ranked.
    fn progress(&mut self, _done: u64, _total: u64) {}

    /// Returns an error if the evaluation is cancelled; called often.
    fn check_cancelled(&self) -> Result<()> {
        Ok(())
    }

    /// Takes a warning about the results.
    fn warn(&mut self, _subject: String, _message: String) {}

    /// Store for the checkpoints of long searches, so that an interrupted evaluation can be resumed.
    fn checkpoint_store(&mut self) -> Option<&mut dyn CheckpointStore> {
        None
    }

    /// Returns the grades φ of graded relevance number `number`. Called once for each graded relevance, in order, after
    /// all pools are ranked.
    fn relevance_grades(&mut self, number: usize) -> Result<Box<dyn RelevanceGrades>> {
        Err(Error::internal(format!("no callback provides φ of relevance {number}")))
    }
}

/// No callbacks.
impl Callbacks for () {}

/// Callbacks that collect the rows of all tables in memory.
#[derive(Debug, Default)]
pub struct CollectedTables {
    /// Batches of `rankings`.
    pub rankings: Vec<RecordBatch>,
    /// Batches of `hubs`.
    pub hubs: Vec<RecordBatch>,
}

impl Callbacks for CollectedTables {
    fn add_rankings(&mut self, rows: RecordBatch) -> Result<()> {
        self.rankings.push(rows);
        Ok(())
    }

    fn add_hubs(&mut self, rows: RecordBatch) -> Result<()> {
        self.hubs.push(rows);
        Ok(())
    }
}

/// Progress of the searches of one method, reported to the callbacks.
pub(super) struct MethodProgress<'c> {
    callbacks: &'c mut dyn Callbacks,
    units: Option<ProgressUnits>,
}

/// Progress units of the passes of a method. Each pass gets half of the remaining units, because the number of passes
/// is not known in advance.
#[derive(Debug, Clone, Copy)]
struct ProgressUnits {
    done: u64,
    remaining: u64,
    total: u64,
    /// Rows of the current pass that are done.
    rows: u64,
}

impl ProgressUnits {
    /// Returns the units that are done when `rows` of `all` rows of the current pass are done. A new pass begins when
    /// `rows` is less than in the last call.
    fn advance(&mut self, rows: u64, all: u64) -> u64 {
        if rows < self.rows {
            self.done += self.remaining / 2;
            self.remaining -= self.remaining / 2;
        }
        self.rows = rows;
        self.done + (u128::from(self.remaining / 2) * u128::from(rows) / u128::from(all.max(1))).saturating_as::<u64>()
    }
}

impl<'c> MethodProgress<'c> {
    /// Progress that is not reported; only cancellation is checked.
    pub(super) fn silent(callbacks: &'c mut dyn Callbacks) -> Self {
        Self { callbacks, units: None }
    }

    /// Progress of passes that share `remaining` of `total` units, when `done` units are done already.
    pub(super) fn of(callbacks: &'c mut dyn Callbacks, done: u64, remaining: u64, total: u64) -> Self {
        Self { callbacks, units: Some(ProgressUnits { done, remaining, total, rows: 0 }) }
    }
}

impl SearchProgress for MethodProgress<'_> {
    fn report(&mut self, done: u64, all: u64) -> Result<()> {
        if let Some(units) = &mut self.units {
            self.callbacks.progress(units.advance(done, all), units.total);
        }
        self.callbacks.check_cancelled()
    }

    fn checkpoint_store(&mut self) -> Option<&mut dyn CheckpointStore> {
        self.callbacks.checkpoint_store()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pass_gets_half_of_the_remaining_units() {
        let mut units = ProgressUnits { done: 100, remaining: 80, total: 200, rows: 0 };
        let done = [(0, 10), (5, 10), (10, 10), (0, 4), (4, 4), (1, 2)].map(|(rows, all)| units.advance(rows, all));
        assert_eq!(done, [100, 120, 140, 140, 160, 165]);
    }
}
