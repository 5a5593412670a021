//! Whole rows of scores, for methods whose corrections are more than a shift of each item.

use std::ops::Range;

use super::blocks::{Scan, ScoreVisitor, stripe_count, stripe_rows_range};
use super::sums::parts_per_group;
use crate::checkpoint::{SearchProgress, Sections};
use crate::request::{SearchRequest, SearchResults, UnroundedResults};
use crate::scores::{PanelRow, ScorePrecision};
use pairloom_base::error::Result;
use pairloom_kernels::hubness::method::Correction;
use pairloom_kernels::hubness::relaxed_greedy::MatchCandidate;
use pairloom_kernels::identity::IdentityWriter;
use pairloom_kernels::measure::recall::best_rank;
use pairloom_kernels::product::TILE_COLUMNS;
use pairloom_kernels::top_k::{ScoredItem, top_k};

/// Maps every row of these stripes with `work` and returns the results in the order of the rows.
pub fn map_rows<T: Send>(
    scan: &Scan<'_>,
    stripes: Range<usize>,
    work: &(impl Fn(usize, &mut [f32]) -> T + Sync),
    progress: &mut dyn SearchProgress,
) -> Result<Vec<T>> {
    let columns = scan.scores.shape()[1];
    let visitor = |_| RowVisitor { columns, work, scores: Vec::new(), results: Vec::new() };
    let visitors = scan.run(ScorePrecision::Fine, stripes, (0..scan.threads).map(visitor).collect(), progress)?;
    let mut made: Vec<(usize, T)> = visitors.into_iter().flat_map(|visitor| visitor.results).collect();
    made.sort_unstable_by_key(|&(row, _)| row);
    Ok(made.into_iter().map(|(_, made)| made).collect())
}

/// Ranks the columns for every row by the scores that `correction` makes of the row. `request` has the list length and
/// the positives.
///
/// # Errors
/// An invalid request; or the first error of `progress` or of the source.
pub fn rank_corrected(
    scan: &Scan<'_>,
    request: &SearchRequest<'_>,
    correction: &dyn Correction,
    progress: &mut dyn SearchProgress,
) -> Result<SearchResults> {
    let [rows, columns] = scan.scores.shape();
    request.list_length(rows, columns)?;
    let work = |row: usize, scores: &mut [f32]| {
        correction.correct_row(row, scores);
        (top_k(scores, request.k), best_rank(scores, &request.positives.of_query(row)))
    };
    let identity = |fields: &mut IdentityWriter<'_>| {
        fields.write_text("rank_corrected");
        request.identity(fields);
        correction.identity(fields);
        scan.scores.identity(fields);
    };
    let stripes = stripe_count(rows);
    let sections = Sections::new([stripes, parts_per_group(stripes)], scan.cost(), identity, progress);
    let mut all = UnroundedResults::default();
    for (section, stripes) in sections.stripes.iter().enumerate() {
        let section_rows = stripe_rows_range(stripes, rows).len();
        let saved = sections.load("corrected", section, progress)?;
        if let Some(saved) =
            saved.and_then(|payload| UnroundedResults::from_payload(&payload, request, section_rows, columns))
        {
            all.append(saved);
            progress.report(all.top.len() as u64, rows as u64)?;
            continue;
        }
        let candidate = |best: ScoredItem| MatchCandidate { item: best.item, score: best.score.into() };
        let (top, mut ranks): (Vec<Vec<_>>, Vec<_>) =
            map_rows(scan, stripes.clone(), &work, progress)?.into_iter().unzip();
        if request.positives.n_queries().is_none() {
            ranks.clear();
        }
        let top = top.into_iter().map(|top| top.into_iter().map(candidate).collect()).collect();
        let results = UnroundedResults { top, ranks, statistics: Vec::new() };
        sections.save("corrected", section, progress, || results.to_payload())?;
        all.append(results);
    }
    Ok(all.into_rounded())
}

/// Visitor that collects whole rows, on one thread.
struct RowVisitor<'w, T, W> {
    columns: usize,
    work: &'w W,
    /// Scores of the block, row-major.
    scores: Vec<f32>,
    results: Vec<(usize, T)>,
}

impl<T: Send, W: Fn(usize, &mut [f32]) -> T + Sync> ScoreVisitor for RowVisitor<'_, T, W> {
    const HOLDS_BLOCK: bool = true;

    fn visit_panel(&mut self, rows: Range<usize>, panel: usize, scores: &[PanelRow]) -> Result<()> {
        self.scores.resize(rows.len() * self.columns, 0.0);
        let first = panel * TILE_COLUMNS;
        let used = (self.columns - first).min(TILE_COLUMNS);
        for (to, scores) in self.scores.chunks_exact_mut(self.columns).zip(scores) {
            to[first..first + used].copy_from_slice(&scores[..used]);
        }
        Ok(())
    }

    fn end_block(&mut self, rows: Range<usize>) -> Result<()> {
        for (i, row) in rows.enumerate() {
            let scores = &mut self.scores[i * self.columns..][..self.columns];
            self.results.push((row, (self.work)(row, scores)));
        }
        Ok(())
    }
}
