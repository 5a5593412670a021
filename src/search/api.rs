//! A search: what can be asked of a source of scores.

use super::answer::Answer;
use super::checkpoint::Progress;
use super::matching::{Greedy, Matched, match_greedily};
use super::question::{Ask, Positives};
use super::scan::{Forced, Scan, find, map_rows, rank_corrected, stripes};
use super::scores::{Scores, Scoring, Side, VectorScores, Vectors};
use super::sinkhorn::{Potentials, sinkhorn};
use crate::error::Result;
use crate::kernels::hubness::method::Correction;

/// Search in all scores of a source, by some threads.
#[derive(Debug)]
pub struct Search<'s> {
    scores: Source<'s>,
    threads: usize,
    /// How it is done where a test wants it so.
    pub(super) forced: Forced,
}

#[derive(Debug)]
enum Source<'s> {
    Borrowed(&'s dyn Scores),
    Owned(Box<dyn Scores + 's>),
}

impl<'s> Search<'s> {
    /// A search in `scores`, which are looked at on `threads` threads.
    #[must_use]
    pub fn new(scores: &'s dyn Scores, threads: usize) -> Self {
        Self { scores: Source::Borrowed(scores), threads: threads.max(1), forced: Forced::default() }
    }

    /// A search in scores of its own.
    #[must_use]
    pub fn owning(scores: Box<dyn Scores + 's>, threads: usize) -> Self {
        Self { scores: Source::Owned(scores), threads: threads.max(1), forced: Forced::default() }
    }

    /// A search in the scores of `rows` with `columns`, computed on the processor.
    ///
    /// # Errors
    /// The widths differ.
    pub fn of_vectors(
        rows: &'s Vectors<'s>,
        columns: &'s Vectors<'s>,
        scoring: Scoring,
        threads: usize,
    ) -> Result<Self> {
        Ok(Self::owning(Box::new(VectorScores::new(rows, columns, scoring, threads)?), threads))
    }

    /// The scores.
    #[must_use]
    pub fn scores(&self) -> &dyn Scores {
        match &self.scores {
            Source::Borrowed(scores) => *scores,
            Source::Owned(scores) => &**scores,
        }
    }

    fn scan(&self) -> Scan<'_> {
        Scan { scores: self.scores(), threads: self.threads, forced: self.forced }
    }

    /// Questions of rows to columns and of columns to rows, in one pass.
    ///
    /// Where `progress` has a [`CheckpointStore`](super::CheckpointStore), a pass of more than
    /// [`MINIMUM_COST`](super::MINIMUM_COST) multiply-adds is cut into sections of rows, 64 at most. When a section is done, what
    /// its rows found is saved, and what all columns have found so far. A search that asks the same of the same scores goes on
    /// after the last section that was saved, and finds what it would have found, bit for bit.
    ///
    /// # Errors
    /// The question cannot be asked (a positive that is no item, lists of another length than the side, a correction that
    /// is not finite, a negative β), the first error of `progress`, which is told between blocks of rows, or the first one of
    /// the source.
    ///
    /// # Cost
    /// An approximate score of each pair, coarse where the source has that and no statistic is a sum over all scores, and then
    /// fine. Memory beside that of the source: for each thread a block of rows, and of every column 40 bytes, 8 bytes for each
    /// of `k + max(k, 32)` candidates, and 12 or 16 for each sum. Where sections are saved, of every column 16·k bytes more, and
    /// while it is saved 12 for each of the k best, 12 if there are ranks, and 12 or 16 for each sum, twice.
    ///
    /// Pairs in doubt cost an exact score each, but of duplicate vectors once: where all are equal, a search takes some four
    /// times as long as others.
    pub fn find(&self, rows: &Ask<'_>, columns: &Ask<'_>, progress: &mut dyn Progress) -> Result<[Answer; 2]> {
        find(&self.scan(), [rows, columns], progress)
    }

    /// Results of `work` for every row, in the order of the rows; it is called with the row's number and its scores with all
    /// columns, which it may overwrite, on any thread.
    ///
    /// The scores are the fine approximate ones of the source, within its bound of the exact ones.
    ///
    /// # Errors
    /// The first error of `progress`, which is told between blocks of rows, or of the source.
    ///
    /// # Cost
    /// An approximate score of each pair; beside the memory of the source 32 MiB for each thread, or 12 rows of scores where
    /// that is more.
    pub fn map_rows<T: Send>(
        &self,
        work: impl Fn(usize, &mut [f32]) -> T + Sync,
        progress: &mut dyn Progress,
    ) -> Result<Vec<T>> {
        let scan = self.scan();
        map_rows(&scan, 0..stripes(scan.scores.sizes()[0]), &work, progress)
    }

    /// Ranks the columns for every row by the row's scores as `correction` leaves them: what [`Search::find`] gives the rows, for
    /// methods of any form. Equal scores go to the lower index; one that is not a number counts as −∞.
    ///
    /// It has checkpoints as [`Search::find`] has. [`Search::map_rows`], whose results may be anything, has none.
    ///
    /// Nothing is computed again: corrected scores that differ by less than the error of fine scores are in the order of that
    /// error.
    ///
    /// # Errors
    /// A positive is no column, or there are not as many lists as rows; and as [`Search::map_rows`].
    pub fn rank_corrected(
        &self,
        k: usize,
        positives: Positives<'_>,
        correction: &dyn Correction,
        progress: &mut dyn Progress,
    ) -> Result<Answer> {
        rank_corrected(&self.scan(), &Ask { k, positives, ..Ask::default() }, correction, progress)
    }

    /// The potentials of Sinkhorn normalisation after `iterations`, from h = τ·ln m on, each of which scales the queries and then
    /// the items, for each of `queries`: the side that asks. All of them are computed in the same passes.
    ///
    /// Where `progress` has a [`CheckpointStore`](super::CheckpointStore) and all passes together are more than
    /// [`MINIMUM_COST`](super::MINIMUM_COST) multiply-adds, the potentials are saved after each pass, and the same search goes on
    /// from there.
    ///
    /// # Errors
    /// τ is not above 0, or so small that 1/τ is no f32; a side is empty; or the first error of `progress`, which is told
    /// between blocks of rows, or of the source.
    ///
    /// # Cost
    /// As many passes over fine scores as iterations, and one more where columns ask; in each an exponential or two a score.
    /// Beside the memory of the source 32 MiB for each thread, or 12 rows of scores where that is more. The error is about
    /// 10⁻⁶·τ more than that of the scores.
    pub fn sinkhorn(
        &self,
        tau: f64,
        iterations: usize,
        queries: &[Side],
        progress: &mut dyn Progress,
    ) -> Result<Vec<Potentials>> {
        sinkhorn(&self.scan(), tau, iterations, queries, progress)
    }

    /// The matchings of rows with columns, and of columns with rows: those of
    /// [`relaxed_greedy`](crate::kernels::hubness::greedy::relaxed_greedy) on exact scores less a shift, in f64.
    ///
    /// # Errors
    /// A number that is taken off is not finite, or the first error of `progress`, which is told between blocks of rows of each
    /// pass, or of the source.
    ///
    /// # Cost
    /// One pass of [`Search::find`] for both sides, and for the queries that run out a pass over the items that are not full, each
    /// time for four times as many candidates, or as many as 128 MiB hold; with λ near 1, and with strong hubs, many do. 16 bytes a
    /// candidate, and while queries are asked for again the vectors of those and of the items once more.
    pub fn match_greedily(
        &self,
        rows: &Greedy<'_>,
        columns: &Greedy<'_>,
        progress: &mut dyn Progress,
    ) -> Result<[Vec<Matched>; 2]> {
        match_greedily(&self.scan(), [rows, columns], progress)
    }
}
