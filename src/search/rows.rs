//! Whole rows of scores, for methods that correct a score by more than a number of its item.

use std::ops::Range;

use super::Watch;
use super::ask::{Answer, Ask, Positives, Unrounded};
use super::find::{Search, check};
use super::pass::{Visitor, rows_of, stripes};
use crate::error::Result;
use crate::kernels::hubness::matching::Candidate;
use crate::kernels::hubness::method::Correction;
use crate::kernels::measure::rank::best_rank;
use crate::kernels::product::{COLUMNS, Lanes};
use crate::kernels::top_k::{Scored, top_k};

/// Bytes of scores that a thread holds, or one tile's rows of them where that is more.
pub(super) const HELD: usize = 32 << 20;

impl Search<'_> {
    /// What `work` makes of every row, in the order of the rows; it is called with the row's number and its scores with all
    /// columns, which it may overwrite, on any thread.
    ///
    /// The scores are f32 products: within the bound of [`product_error`](crate::kernels::product::product_error) of the exact
    /// ones, the same for equal vectors, and the same bits for any number of threads. Where [`Products`](super::Products) computes
    /// them, only the bound holds.
    ///
    /// # Errors
    /// The first error of `watch`, which is told between blocks of rows.
    ///
    /// # Cost
    /// `O(n_rows · n_columns · width)` time in f32; beside the packed columns 32 MiB for each thread, or 12 rows of scores where
    /// that is more.
    pub fn map_rows<T: Send>(&self, work: impl Fn(usize, &mut [f32]) -> T + Sync, watch: Watch<'_>) -> Result<Vec<T>> {
        self.map_stripes(0..stripes(self.exact.rows.len()), &work, watch)
    }

    /// [`Search::map_rows`] of some stripes.
    fn map_stripes<T: Send>(
        &self,
        stripes: Range<usize>,
        work: &(impl Fn(usize, &mut [f32]) -> T + Sync),
        watch: Watch<'_>,
    ) -> Result<Vec<T>> {
        let columns = self.exact.columns.len();
        let visitor = |_| Rows { columns, work, scores: Vec::new(), made: Vec::new() };
        let visitors = (0..self.threads).map(visitor).collect();
        let visitors = self.ground(self.packed(Lanes::F32)).holding(HELD).pass(stripes, visitors, watch)?;
        let mut made: Vec<(usize, T)> = visitors.into_iter().flat_map(|visitor| visitor.made).collect();
        made.sort_unstable_by_key(|&(row, _)| row);
        Ok(made.into_iter().map(|(_, made)| made).collect())
    }

    /// Ranks the columns for every row by the row's scores as `correction` leaves them: what [`Search::find`] gives the rows, for
    /// methods of any form. Equal scores go to the lower index; one that is not a number counts as −∞.
    ///
    /// Its sections are kept as those of [`Search::find`], known by the `Debug` form of the correction. Those of
    /// [`Search::map_rows`], whose results may be anything, are not.
    ///
    /// Nothing is computed again: corrected scores that differ by less than the error of f32 are in the order of that error.
    ///
    /// # Errors
    /// A positive is no column, or there are not as many lists as rows; and as [`Search::map_rows`].
    pub fn rank_corrected(
        &self,
        k: usize,
        positives: Positives<'_>,
        correction: &dyn Correction,
        watch: Watch<'_>,
    ) -> Result<Answer> {
        let asked = Ask { k, positives, ..Ask::default() };
        let (rows, columns) = (self.exact.rows.len(), self.exact.columns.len());
        check(&asked, rows, columns)?;
        let work = |row: usize, scores: &mut [f32]| {
            correction.row(row, scores);
            (top_k(scores, k), best_rank(scores, &positives.of(row)))
        };
        let sections = self.sections(&(&asked, correction), watch);
        let mut all = Unrounded::default();
        for (section, stripes) in sections.stripes.iter().enumerate() {
            let of_section = rows_of(stripes, rows).len();
            let kept = sections.kept("corrected", section, watch)?;
            if let Some(kept) = kept.and_then(|words| Unrounded::read(&words, &asked, of_section, columns)) {
                all.append(kept);
                watch.tell(all.top.len() as u64, rows as u64)?;
                continue;
            }
            let candidate = |best: Scored| Candidate { item: best.item, score: best.score.into() };
            let (top, mut ranks): (Vec<Vec<_>>, Vec<_>) =
                self.map_stripes(stripes.clone(), &work, watch)?.into_iter().unzip();
            if positives.queries().is_none() {
                ranks.clear();
            }
            let top = top.into_iter().map(|top| top.into_iter().map(candidate).collect()).collect();
            let answer = Unrounded { top, ranks, statistics: Vec::new() };
            sections.keep("corrected", section, watch, || answer.write())?;
            all.append(answer);
        }
        Ok(all.rounded())
    }
}

/// What one thread does.
struct Rows<'w, T, W> {
    columns: usize,
    work: &'w W,
    /// Of the block, row by row.
    scores: Vec<f32>,
    made: Vec<(usize, T)>,
}

impl<T: Send, W: Fn(usize, &mut [f32]) -> T + Sync> Visitor for Rows<'_, T, W> {
    fn panel(&mut self, rows: Range<usize>, panel: usize, scores: &[[f32; COLUMNS]]) {
        self.scores.resize(rows.len() * self.columns, 0.0);
        let first = panel * COLUMNS;
        let used = (self.columns - first).min(COLUMNS);
        for (to, scores) in self.scores.chunks_exact_mut(self.columns).zip(scores) {
            to[first..first + used].copy_from_slice(&scores[..used]);
        }
    }

    fn block(&mut self, rows: Range<usize>) {
        for (i, row) in rows.enumerate() {
            let scores = &mut self.scores[i * self.columns..][..self.columns];
            self.made.push((row, (self.work)(row, scores)));
        }
    }
}
