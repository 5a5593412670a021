//! Top-k items of every row and every column, and the ranks of their positives, in one pass.

use std::ops::{Range, RangeInclusive};
use std::sync::atomic::{AtomicBool, Ordering};

use super::blocks::{Scan, ScoreVisitor};
use super::candidates::{CandidateList, sort_best_first};
use crate::checkpoint::{PayloadReader, PayloadWriter};
use crate::request::SearchRequest;
use crate::scores::{ExactCache, MatrixSide, PanelRow, ScoreBound};
use crate::threads::parallel_ranges;
use pairloom_base::error::{Error, Result};
use pairloom_kernels::hubness::relaxed_greedy::MatchCandidate;
use pairloom_kernels::measure::recall::BestMatchRank;
use pairloom_kernels::product::TILE_COLUMNS;
use pairloom_kernels::score_panels::{ColumnThresholds, RowThresholds, ThresholdHit, find_hits};

/// Queries of one side, with everything that is known before the pass.
#[derive(Debug)]
pub struct SideQueries<'a> {
    side: MatrixSide,
    request: SearchRequest<'a>,
    /// Number of best items kept for each query, at least `request.k`.
    list_length: usize,
    /// Error bound of the ranking keys of each query, if they are computed in f32.
    error_bounds: Vec<f64>,
    best_positives: Vec<Option<BestPositive>>,
    /// Shift of every item (`request.item_shifts`), in f32.
    item_shifts: Vec<f32>,
}

impl<'a> SideQueries<'a> {
    /// Prepares the queries of a side; `bounds` are those of the scores of each query.
    ///
    /// # Errors
    /// A shift is not finite, or no f32; or the first error of the source.
    #[expect(clippy::cast_possible_truncation, reason = "the error of rounding is part of the bound")]
    pub fn new(
        scan: &Scan<'_>,
        side: MatrixSide,
        request: SearchRequest<'a>,
        list_length: usize,
        bounds: &[ScoreBound],
    ) -> Result<Self> {
        let largest = request.item_shifts.iter().fold(0.0f64, |largest, number| largest.max(number.abs()));
        if let Some((item, number)) =
            request.item_shifts.iter().enumerate().find(|(_, x)| x.is_nan() || x.abs() >= MAX_ITEM_SHIFT)
        {
            let message = format!("item {item} has shift {number}, expected a number below {MAX_ITEM_SHIFT:e}");
            return Err(Error::data(message));
        }
        // The shift and the difference are rounded. Without shifts there is no such rounding.
        let rounding =
            |score: f64| if request.item_shifts.is_empty() { 0.0 } else { f64::from(f32::EPSILON) * (largest + score) };
        let error = |&ScoreBound { error, largest }: &ScoreBound| error + rounding(largest + error) * (1.0 + 1e-6);
        let items = scan.scores.shape()[side.other().index()];
        let item_shifts = if request.item_shifts.is_empty() {
            vec![0.0; items]
        } else {
            request.item_shifts.iter().map(|&h| h as f32).collect()
        };
        let best_positives = BestPositive::find_all(scan, side, &request)?;
        Ok(Self {
            side,
            request,
            list_length,
            error_bounds: bounds.iter().map(error).collect(),
            best_positives,
            item_shifts,
        })
    }

    /// Range of uncertain scores. Items with scores above the range rank before the best positive.
    fn uncertain_range(&self, query: usize) -> (f32, f32) {
        let best = self.best_positives.get(query).copied().flatten();
        best.map_or((f32::INFINITY, f32::INFINITY), |best| best.uncertain_range(self.error_bounds[query]))
    }

    fn candidates(&self, query: usize) -> CandidateList {
        CandidateList::new(self.list_length, self.error_bounds[query])
    }

    /// Final state of a query: computes the exact keys of its candidates.
    fn finish_query(
        &self,
        by: &mut ExactScorer<'_, '_>,
        query: usize,
        candidates: CandidateList,
        count: RankCounts,
    ) -> Result<QueryState> {
        let best = candidates.finish(&mut |items, keys| self.ranking_keys(by, query, items, keys))?;
        Ok(QueryState { best, count })
    }

    /// Appends the exact ranking keys of items.
    fn ranking_keys(
        &self,
        (scan, cache): &mut ExactScorer<'_, '_>,
        query: usize,
        items: &[u32],
        keys: &mut Vec<f64>,
    ) -> Result<()> {
        let mut scores = Vec::with_capacity(items.len());
        let items: Vec<usize> = items.iter().map(|&item| item as usize).collect();
        cache.exact_scores(scan.scores, self.side, query, &items, &mut scores)?;
        keys.extend(scores.iter().zip(items).map(|(&score, item)| ranking_key(score, self.request.item_shifts, item)));
        Ok(())
    }
}

/// Source of exact scores: the scan and a cache.
type ExactScorer<'b, 'd> = (&'b Scan<'b>, &'b mut ExactCache<'d>);

/// Upper limit of item shifts: scores less a larger shift lose all precision in f32.
const MAX_ITEM_SHIFT: f64 = 1e30;

/// State of a query that has been compared with some of its items.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct QueryState {
    /// Best items with their exact ranking keys, best first.
    best: Vec<(f64, u32)>,
    count: RankCounts,
}

impl QueryState {
    pub fn write(&self, payload: &mut PayloadWriter) {
        payload.write_index(self.best.len());
        for &(score, item) in &self.best {
            payload.write_f64(score);
            payload.write_index(item as usize);
        }
        self.count.write(payload);
    }

    /// Reads the state of a query that has been compared with `items` and has one of `counts` best items; `None` if the
    /// payload does not fit.
    pub fn read(payload: &mut PayloadReader<'_>, items: &Range<usize>, counts: &RangeInclusive<usize>) -> Option<Self> {
        let count = payload.read_index(*counts.end()).filter(|count| counts.contains(count))?;
        let mut one = || {
            let score = payload.read_f64().filter(|score| !score.is_nan())?;
            let item = payload.read_index(items.end - 1)?;
            Some((score, to_u32(items.contains(&item).then_some(item)?)))
        };
        let best = (0..count).map(|_| one()).collect::<Option<Vec<_>>>()?;
        Some(Self { best, count: RankCounts::read(payload, items.len())? })
    }

    /// Adds the state after a comparison with other items; keeps the best `keep`.
    pub fn merge(&mut self, other: Self, keep: usize) {
        self.best.extend(other.best);
        sort_best_first(&mut self.best);
        self.best.truncate(keep);
        // States are kept for long.
        self.best.shrink_to_fit();
        self.count.merge(other.count);
    }

    /// Drops the items that are worse than the `keep` best of `known`, which has these items and others.
    pub fn drop_worse(&mut self, known: &Self, keep: usize) {
        if let Some(&(kth, _)) = keep.checked_sub(1).and_then(|last| known.best.get(last)) {
            self.best.retain(|&(score, _)| score >= kth);
        }
    }

    /// Number of best items.
    pub fn n_best(&self) -> usize {
        self.best.len()
    }

    /// Returns the best items, and the rank of the best positive if there is one.
    pub fn into_result(self, has_positives: bool) -> QueryResult {
        let candidate = |(score, item): (f64, u32)| MatchCandidate { item: item as usize, score };
        QueryResult {
            top: self.best.into_iter().map(candidate).collect(),
            rank: has_positives.then(|| self.count.rank()),
        }
    }
}

/// Result of a query: its best items and the rank of its best positive.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryResult {
    pub top: Vec<MatchCandidate>,
    pub rank: Option<BestMatchRank>,
}

/// Queries of both sides, shared by all threads of a scan.
#[derive(Debug)]
pub struct NearestContext<'a> {
    pub scan: Scan<'a>,
    pub rows: SideQueries<'a>,
    pub columns: SideQueries<'a>,
    /// True if the scan may stop when too many pairs are uncertain, because finer scores exist.
    pub may_abandon: bool,
    /// True if the scan has stopped for that reason. Its results are then void.
    pub abandoned: AtomicBool,
}

/// Limit of exact scores in a scan: one for every 32 pairs, and 64 for every row. Beyond it f32 products take less time
/// than bf16 products with that many exact scores, and a look for duplicate vectors pays off.
const PAIRS_PER_EXACT_SCORE: usize = 32;
const EXACT_SCORES_PER_ROW: usize = 64;

/// Visitor that collects top-k candidates and counts ranks, on one thread.
#[derive(Debug)]
pub struct NearestVisitor<'n> {
    context: &'n NearestContext<'n>,
    /// Thresholds and counts of the columns, by panel.
    column_thresholds: Vec<ColumnThresholds>,
    column_candidates: Vec<(CandidateList, RankCounts)>,
    /// Thresholds of the rows of the block.
    row_thresholds: Vec<RowThresholds>,
    row_counts: Vec<u32>,
    row_candidates: Vec<(CandidateList, RankCounts)>,
    results: Vec<(usize, QueryResult)>,
    hits: Vec<ThresholdHit>,
    uncertain: Vec<UncertainPair>,
    /// Number of pairs visited, and of pairs with an exact score.
    pairs: usize,
    exact_pairs: usize,
    exact: ExactCache<'n>,
    /// True if the search for duplicate vectors is done.
    checked_duplicates: bool,
}

/// Pair whose exact score is needed for the rank of a query.
#[derive(Debug, Clone, Copy)]
struct UncertainPair {
    /// Index of the row in the block.
    row: usize,
    column: usize,
    side: MatrixSide,
    /// Score that was seen.
    score: f32,
}

impl<'n> NearestVisitor<'n> {
    /// Starts from the states of the columns after other rows; `known` is empty if there were none. A row that is worse
    /// than the best of these becomes no candidate.
    pub fn new(context: &'n NearestContext<'n>, known: &[QueryState]) -> Self {
        let n = context.scan.scores.shape()[1];
        let mut columns = vec![ColumnThresholds::NONE; n.div_ceil(TILE_COLUMNS)];
        let candidates = |column: usize| {
            let known = known.get(column).map_or(&[][..], |known| &known.best);
            (context.columns.candidates(column).with_known_best(known), RankCounts::default())
        };
        let column_lists: Vec<_> = (0..n).map(candidates).collect();
        for column in 0..n {
            let (to, c) = (&mut columns[column / TILE_COLUMNS], column % TILE_COLUMNS);
            to.shifts[c] = context.rows.item_shifts[column];
            to.top[c] = column_lists[column].0.threshold();
            (to.low[c], to.high[c]) = context.columns.uncertain_range(column);
        }
        Self {
            context,
            column_thresholds: columns,
            column_candidates: column_lists,
            row_thresholds: Vec::new(),
            row_counts: Vec::new(),
            row_candidates: Vec::new(),
            results: Vec::new(),
            hits: Vec::new(),
            uncertain: Vec::new(),
            pairs: 0,
            exact_pairs: 0,
            exact: ExactCache::default(),
            checked_duplicates: false,
        }
    }

    /// Processes the scores of a row that are high enough for a top-k list, and the uncertain ones.
    fn process_hit(&mut self, first: usize, panel: usize, hit: ThresholdHit, scores: &PanelRow) -> Result<()> {
        let NearestContext { scan, rows, columns, .. } = self.context;
        let mut offer = |queries: &SideQueries<'_>, to: &mut CandidateList, query, item, [score, shifted]: [f32; 2]| {
            if scan.scores.is_exact() {
                to.offer_exact(ranking_key(score, queries.request.item_shifts, item), to_u32(item));
                return Ok(());
            }
            to.offer(shifted, to_u32(item), &mut |items, keys| {
                self.exact_pairs += items.len();
                queries.ranking_keys(&mut (scan, &mut self.exact), query, items, keys)
            })
        };
        let row = &mut self.row_thresholds[hit.row];
        for c in set_bits(hit.of_row) {
            let column = panel * TILE_COLUMNS + c;
            let shifted = scores[c] - self.column_thresholds[panel].shifts[c];
            if shifted >= row.top {
                let candidates = &mut self.row_candidates[hit.row].0;
                offer(rows, candidates, first + hit.row, column, [scores[c], shifted])?;
                row.top = candidates.threshold();
            }
            if shifted >= row.low && shifted <= row.high {
                self.uncertain.push(UncertainPair { row: hit.row, column, side: MatrixSide::Rows, score: scores[c] });
            }
        }
        let thresholds = &mut self.column_thresholds[panel];
        for c in set_bits(hit.of_column) {
            let (column, shifted) = (panel * TILE_COLUMNS + c, scores[c] - row.shift);
            if shifted >= thresholds.top[c] {
                let candidates = &mut self.column_candidates[column].0;
                offer(columns, candidates, column, first + hit.row, [scores[c], shifted])?;
                thresholds.top[c] = candidates.threshold();
            }
            if shifted >= thresholds.low[c] && shifted <= thresholds.high[c] {
                let side = MatrixSide::Columns;
                self.uncertain.push(UncertainPair { row: hit.row, column, side, score: scores[c] });
            }
        }
        Ok(())
    }

    /// Computes the exact scores of uncertain pairs and counts them, row by row.
    fn resolve_uncertain(&mut self, first: usize) -> Result<()> {
        let NearestContext { scan, rows, columns, .. } = self.context;
        let (mut items, mut scores) = (Vec::new(), Vec::new());
        for pairs in self.uncertain.chunk_by(|a, b| a.row == b.row) {
            let row = first + pairs[0].row;
            if scan.scores.is_exact() {
                scores.clear();
                scores.extend(pairs.iter().map(|pair| pair.score));
            } else {
                self.exact_pairs += pairs.len();
                items.clear();
                items.extend(pairs.iter().map(|pair| pair.column));
                self.exact.exact_scores(scan.scores, MatrixSide::Rows, row, &items, &mut scores)?;
            }
            for (pair, &score) in pairs.iter().zip(&scores) {
                let (queries, query, item, count) = match pair.side {
                    MatrixSide::Rows => (rows, row, pair.column, &mut self.row_candidates[pair.row].1),
                    MatrixSide::Columns => (columns, pair.column, row, &mut self.column_candidates[pair.column].1),
                };
                if let Some(best) = &queries.best_positives[query] {
                    let key = ranking_key(score, queries.request.item_shifts, item);
                    count.add_exact(best, key, item, || queries.request.positives.contains(query, item));
                }
            }
        }
        self.uncertain.clear();
        Ok(())
    }

    /// Merges the visitors of all threads: the results of the rows, in order, and the states of the columns after them.
    /// `known` are the states of the columns before.
    pub fn finish(
        context: &NearestContext<'_>,
        visitors: Vec<Self>,
        known: &[QueryState],
    ) -> Result<(Vec<QueryResult>, Vec<QueryState>)> {
        let mut rows: Vec<(usize, QueryResult)> = Vec::new();
        let mut column_lists: Vec<Vec<(CandidateList, RankCounts)>> = Vec::new();
        for mut visitor in visitors {
            rows.append(&mut visitor.results);
            for (column, (_, count)) in visitor.column_candidates.iter_mut().enumerate() {
                count.add(visitor.column_thresholds[column / TILE_COLUMNS].counts[column % TILE_COLUMNS]);
            }
            column_lists.push(visitor.column_candidates);
        }
        rows.sort_unstable_by_key(|&(row, _)| row);
        let columns = parallel_ranges(context.scan.threads, context.scan.scores.shape()[1], |part| {
            let mut exact = ExactCache::default();
            part.map(|column| {
                let known = known.get(column);
                let best = known.map_or(&[][..], |known| &known.best);
                let mut candidates = context.columns.candidates(column).with_exact(best);
                let mut count = known.map_or_else(RankCounts::default, |known| known.count);
                for visitor in &column_lists {
                    candidates.merge(visitor[column].0.clone());
                    count.merge(visitor[column].1);
                }
                context.columns.finish_query(&mut (&context.scan, &mut exact), column, candidates, count)
            })
            .collect::<Result<Vec<_>>>()
        });
        let columns = columns.into_iter().collect::<Result<Vec<_>>>()?;
        Ok((rows.into_iter().map(|(_, found)| found).collect(), columns.concat()))
    }
}

impl ScoreVisitor for NearestVisitor<'_> {
    fn visit_panel(&mut self, rows: Range<usize>, panel: usize, scores: &[PanelRow]) -> Result<()> {
        let context = self.context;
        if self.is_done() {
            return Ok(());
        }
        if panel == 0 {
            self.row_counts = vec![0; rows.len()];
            self.row_candidates =
                rows.clone().map(|row| (context.rows.candidates(row), RankCounts::default())).collect();
            let thresholds = |(row, (candidates, _)): (usize, &(CandidateList, RankCounts))| {
                let (low, high) = context.rows.uncertain_range(row);
                RowThresholds { shift: context.columns.item_shifts[row], top: candidates.threshold(), low, high }
            };
            self.row_thresholds = rows.clone().zip(&self.row_candidates).map(thresholds).collect();
        }
        let used = context.scan.scores.shape()[1] - panel * TILE_COLUMNS;
        let mut hits = std::mem::take(&mut self.hits);
        find_hits(
            scores,
            used,
            &self.row_thresholds,
            &mut self.row_counts,
            &mut self.column_thresholds[panel],
            &mut hits,
        );
        for hit in hits.drain(..) {
            self.process_hit(rows.start, panel, hit, &scores[hit.row])?;
        }
        self.hits = hits;
        self.resolve_uncertain(rows.start)?;
        self.pairs += rows.len() * used.min(TILE_COLUMNS);
        let limit = self.pairs / PAIRS_PER_EXACT_SCORE + (rows.len() + self.results.len()) * EXACT_SCORES_PER_ROW;
        if !self.checked_duplicates && self.exact_pairs > limit {
            if context.may_abandon {
                context.abandoned.store(true, Ordering::Relaxed);
                return Ok(());
            }
            self.checked_duplicates = true;
            if let Some(duplicates) = context.scan.scores.duplicates() {
                self.exact.use_duplicates(duplicates);
            }
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.context.abandoned.load(Ordering::Relaxed)
    }

    fn end_block(&mut self, rows: Range<usize>) -> Result<()> {
        let context = self.context;
        if self.is_done() {
            return Ok(());
        }
        if self.column_thresholds.is_empty() {
            self.row_candidates =
                rows.clone().map(|row| (context.rows.candidates(row), RankCounts::default())).collect();
            self.row_counts = vec![0; rows.len()];
        }
        for ((row, (candidates, mut count)), &above) in rows.zip(self.row_candidates.drain(..)).zip(&self.row_counts) {
            count.add(above);
            let known = context.rows.finish_query(&mut (&context.scan, &mut self.exact), row, candidates, count)?;
            self.results.push((row, known.into_result(context.rows.request.positives.has_any(row))));
        }
        Ok(())
    }
}

/// Positions of the bits that are set, from the lowest.
fn set_bits(mut bits: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let place = (bits != 0).then(|| bits.trailing_zeros() as usize);
        bits &= bits.wrapping_sub(1);
        place
    })
}

fn to_u32(i: usize) -> u32 {
    u32::try_from(i).expect("vectors are fewer than 2³²")
}

/// Ranking key of an item: its score less its shift. It is never −0, so equal keys have equal bits.
pub fn ranking_key(score: f32, item_shifts: &[f64], item: usize) -> f64 {
    f64::from(score) - item_shifts.get(item).copied().unwrap_or(0.0) + 0.0
}

/// Best positive of a query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BestPositive {
    /// Exact ranking key.
    pub score: f64,
    pub item: usize,
}

impl BestPositive {
    /// Finds the best positive of every query of a side.
    pub fn find_all(scan: &Scan<'_>, side: MatrixSide, request: &SearchRequest<'_>) -> Result<Vec<Option<Self>>> {
        let parts = parallel_ranges(scan.threads, request.positives.n_queries().unwrap_or(0), |queries| {
            let mut scores = Vec::new();
            let mut best = |query: usize| -> Result<Option<Self>> {
                let items = request.positives.of_query(query);
                scan.scores.exact_scores(side, query, &items, &mut scores)?;
                let scored = items.into_iter().zip(&scores);
                Ok(scored
                    .map(|(item, &score)| Self { score: ranking_key(score, request.item_shifts, item), item })
                    .reduce(|a, b| if b.score > a.score || (b.score == a.score && b.item < a.item) { b } else { a }))
            };
            queries.map(&mut best).collect::<Result<Vec<_>>>()
        });
        Ok(parts.into_iter().collect::<Result<Vec<_>>>()?.concat())
    }

    /// Range of uncertain approximate scores: a score below the first number is certainly below the exact key, a score
    /// above the second certainly above it.
    #[expect(clippy::cast_possible_truncation, reason = "rounded outwards by the steps that follow")]
    pub fn uncertain_range(&self, error: f64) -> (f32, f32) {
        (((self.score - error) as f32).next_down(), ((self.score + error) as f32).next_up())
    }
}

/// Counts of the items that rank before the best positive.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct RankCounts {
    /// Items with a higher score.
    above: u32,
    /// Items with the same score and a lower index that do not match.
    before: u32,
    /// Items with the same score that do not match.
    ties: u32,
}

impl RankCounts {
    /// Adds items that are certainly above.
    pub fn add(&mut self, above: u32) {
        self.above += above;
    }

    /// Counts an uncertain item by its exact key.
    pub fn add_exact(&mut self, best: &BestPositive, score: f64, item: usize, matches: impl Fn() -> bool) {
        if score > best.score {
            self.above += 1;
        } else if score == best.score && !matches() {
            self.ties += 1;
            self.before += u32::from(item < best.item);
        }
    }

    pub fn merge(&mut self, other: Self) {
        self.above += other.above;
        self.before += other.before;
        self.ties += other.ties;
    }

    pub fn write(&self, payload: &mut PayloadWriter) {
        for count in [self.above, self.before, self.ties] {
            payload.write_index(count as usize);
        }
    }

    /// Reads what [`RankCounts::write`] wrote; `None` if a count is above `most`.
    pub fn read(payload: &mut PayloadReader<'_>, most: usize) -> Option<Self> {
        let mut count = || payload.read_index(most).and_then(|count| u32::try_from(count).ok());
        Some(Self { above: count()?, before: count()?, ties: count()? })
    }

    pub fn rank(&self) -> BestMatchRank {
        let [above, before, ties] = [self.above, self.before, self.ties].map(|count| count as usize);
        BestMatchRank { rank: above + before, optimistic: above, pessimistic: above + ties }
    }
}
