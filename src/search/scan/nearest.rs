//! The best items of every row and every column, and the ranks of their positives, in one pass.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use super::blocks::{Scan, Visitor};
use super::candidates::Candidates;
use super::ranks::{Best, Count, ranked_by};
use crate::error::{Error, Result};
use crate::kernels::hubness::matching::Candidate;
use crate::kernels::measure::rank::Rank;
use crate::kernels::product::COLUMNS;
use crate::kernels::scores::{Columns, Hit, Row, find};
use crate::search::checkpoint::{Reader, Writer};
use crate::search::question::Ask;
use crate::search::scores::{Bound, ExactCache, Lane, Side};
use crate::search::threads::in_parts;

/// What is known of one side's queries before the pass.
#[derive(Debug)]
pub struct Queries<'a> {
    side: Side,
    ask: Ask<'a>,
    /// Items that are kept of each, at least `ask.k`.
    keep: usize,
    /// A bound on the error of what a query ranks by, where it is computed in f32.
    errors: Vec<f64>,
    best: Vec<Option<Best>>,
    /// `ask.minus` in f32, of every item.
    minus: Vec<f32>,
}

impl<'a> Queries<'a> {
    /// `bounds`: of each query's scores, the largest error and the largest absolute value.
    ///
    /// # Errors
    /// A number that is taken off is not finite, or no f32; or the first one of the source.
    #[expect(clippy::cast_possible_truncation, reason = "the error of rounding is part of the bound")]
    pub fn new(scan: &Scan<'_>, side: Side, ask: Ask<'a>, keep: usize, bounds: &[Bound]) -> Result<Self> {
        let largest = ask.minus.iter().fold(0.0f64, |largest, number| largest.max(number.abs()));
        if let Some((item, number)) = ask.minus.iter().enumerate().find(|(_, x)| x.is_nan() || x.abs() >= LARGEST_MINUS)
        {
            let message = format!("item {item} has correction {number}, wanted a number below {LARGEST_MINUS:e}");
            return Err(Error::data(message));
        }
        // One rounding of the number, and one of the difference; without numbers nothing is rounded.
        let rounding =
            |score: f64| if ask.minus.is_empty() { 0.0 } else { f64::from(f32::EPSILON) * (largest + score) };
        let error = |&Bound { error, largest }: &Bound| error + rounding(largest + error) * (1.0 + 1e-6);
        let items = scan.scores.sizes()[side.other().index()];
        let minus = if ask.minus.is_empty() { vec![0.0; items] } else { ask.minus.iter().map(|&h| h as f32).collect() };
        let best = Best::of_all(scan, side, &ask)?;
        Ok(Self { side, ask, keep, errors: bounds.iter().map(error).collect(), best, minus })
    }

    /// Above this all is counted, and between the two it is in doubt.
    fn doubt(&self, query: usize) -> (f32, f32) {
        let best = self.best.get(query).copied().flatten();
        best.map_or((f32::INFINITY, f32::INFINITY), |best| best.doubt(self.errors[query]))
    }

    fn candidates(&self, query: usize) -> Candidates {
        Candidates::new(self.keep, self.errors[query])
    }

    /// What a query has found when its candidates are settled.
    fn known(&self, by: &mut By<'_, '_>, query: usize, candidates: Candidates, count: Count) -> Result<Known> {
        let best = candidates.finish(&mut |items, ranked| self.settle(by, query, items, ranked))?;
        Ok(Known { best, count })
    }

    /// Adds what a query ranks items by.
    fn settle(&self, (scan, cache): &mut By<'_, '_>, query: usize, items: &[u32], ranked: &mut Vec<f64>) -> Result<()> {
        let mut scores = Vec::with_capacity(items.len());
        let items: Vec<usize> = items.iter().map(|&item| item as usize).collect();
        cache.exact(scan.scores, self.side, query, &items, &mut scores)?;
        ranked.extend(scores.iter().zip(items).map(|(&score, item)| ranked_by(score, self.ask.minus, item)));
        Ok(())
    }
}

/// By what scores are settled.
type By<'b, 'd> = (&'b Scan<'b>, &'b mut ExactCache<'d>);

/// Below it f32 can hold what is left of a score, and beyond it nothing is.
const LARGEST_MINUS: f64 = 1e30;

/// What is known of a query that has seen some of its items.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Known {
    /// By what it ranks them, exactly, and best first; as many as are kept.
    best: Vec<(f64, u32)>,
    count: Count,
}

impl Known {
    pub fn write(&self, payload: &mut Writer) {
        payload.number(self.best.len());
        for &(score, item) in &self.best {
            payload.double(score);
            payload.number(item as usize);
        }
        self.count.write(payload);
    }

    /// What was written of a query that has seen `items` items and keeps `keep`; `None` where that cannot be.
    pub fn read(payload: &mut Reader<'_>, items: usize, keep: usize) -> Option<Self> {
        let count = payload.number(keep.min(items)).filter(|&count| count == keep.min(items))?;
        let mut one = || {
            let score = payload.double().filter(|score| !score.is_nan())?;
            Some((score, index(payload.number(items - 1)?)))
        };
        let best = (0..count).map(|_| one()).collect::<Option<Vec<_>>>()?;
        Some(Self { best, count: Count::read(payload, items)? })
    }

    /// The best, and the rank where a positive has one.
    pub fn found(self, has_positives: bool) -> Found {
        let candidate = |(score, item): (f64, u32)| Candidate { item: item as usize, score };
        Found { top: self.best.into_iter().map(candidate).collect(), rank: has_positives.then(|| self.count.rank()) }
    }
}

/// What a query found.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    pub top: Vec<Candidate>,
    pub rank: Option<Rank>,
}

/// What both sides ask.
#[derive(Debug)]
pub struct Asked<'a> {
    pub scan: Scan<'a>,
    pub rows: Queries<'a>,
    pub columns: Queries<'a>,
    /// Whether there is a better approximation to turn to, should too many scores be in doubt.
    pub may_give_up: bool,
    /// Whether there are, and all that was seen is worth nothing.
    pub given_up: AtomicBool,
}

/// One in so many pairs, and so many of a row, may be in doubt: where it is more, f32 products take less time than bf16 ones
/// and exact scores of what these leave in doubt, and it is worth finding out which vectors are equal.
const DOUBTFUL: (usize, usize) = (32, 64);

/// What one thread has seen.
#[derive(Debug)]
pub struct Nearest<'n> {
    asked: &'n Asked<'n>,
    /// Of each panel.
    columns: Vec<Columns>,
    of_columns: Vec<(Candidates, Count)>,
    /// Of the block.
    rows: Vec<Row>,
    above: Vec<u32>,
    of_rows: Vec<(Candidates, Count)>,
    found: Vec<(usize, Found)>,
    hits: Vec<Hit>,
    doubts: Vec<Doubt>,
    /// Pairs seen, and how many of them were computed exactly.
    pairs: usize,
    settled: usize,
    exact: ExactCache<'n>,
    /// True once duplicate vectors were looked for.
    looked: bool,
}

/// A pair whose score must be known exactly for the rank of a query.
#[derive(Debug, Clone, Copy)]
struct Doubt {
    /// In the block.
    row: usize,
    column: usize,
    of: Side,
}

impl<'n> Nearest<'n> {
    /// `known`: what columns know of rows before; nothing where there were none.
    pub fn new(asked: &'n Asked<'n>, known: &[Known]) -> Self {
        let n = asked.scan.scores.sizes()[1];
        let mut columns = vec![Columns::NONE; n.div_ceil(COLUMNS)];
        let candidates = |column: usize| {
            let known = known.get(column).map_or(&[][..], |known| &known.best);
            (asked.columns.candidates(column).beside(known), Count::default())
        };
        let of_columns: Vec<_> = (0..n).map(candidates).collect();
        for column in 0..n {
            let (to, c) = (&mut columns[column / COLUMNS], column % COLUMNS);
            to.minus[c] = asked.rows.minus[column];
            to.top[c] = of_columns[column].0.bar();
            (to.low[c], to.high[c]) = asked.columns.doubt(column);
        }
        Self {
            asked,
            columns,
            of_columns,
            rows: Vec::new(),
            above: Vec::new(),
            of_rows: Vec::new(),
            found: Vec::new(),
            hits: Vec::new(),
            doubts: Vec::new(),
            pairs: 0,
            settled: 0,
            exact: ExactCache::default(),
            looked: false,
        }
    }

    /// Scores that are high enough to be among the best, and those in doubt.
    fn hit(&mut self, first: usize, panel: usize, hit: Hit, scores: &Lane) -> Result<()> {
        let Asked { scan, rows, columns, .. } = self.asked;
        let row = &mut self.rows[hit.row];
        for c in bits(hit.of_row) {
            let (score, column) = (scores[c] - self.columns[panel].minus[c], panel * COLUMNS + c);
            if score >= row.top {
                let candidates = &mut self.of_rows[hit.row].0;
                candidates.offer(score, index(column), &mut |items, ranked| {
                    self.settled += items.len();
                    rows.settle(&mut (scan, &mut self.exact), first + hit.row, items, ranked)
                })?;
                row.top = candidates.bar();
            }
            if score >= row.low && score <= row.high {
                self.doubts.push(Doubt { row: hit.row, column, of: Side::Rows });
            }
        }
        let thresholds = &mut self.columns[panel];
        for c in bits(hit.of_column) {
            let (score, column) = (scores[c] - row.minus, panel * COLUMNS + c);
            if score >= thresholds.top[c] {
                let candidates = &mut self.of_columns[column].0;
                candidates.offer(score, index(first + hit.row), &mut |items, ranked| {
                    self.settled += items.len();
                    columns.settle(&mut (scan, &mut self.exact), column, items, ranked)
                })?;
                thresholds.top[c] = candidates.bar();
            }
            if score >= thresholds.low[c] && score <= thresholds.high[c] {
                self.doubts.push(Doubt { row: hit.row, column, of: Side::Columns });
            }
        }
        Ok(())
    }

    /// Settles what is in doubt, row by row.
    fn settle(&mut self, first: usize) -> Result<()> {
        let Asked { scan, rows, columns, .. } = self.asked;
        self.settled += self.doubts.len();
        let (mut items, mut scores) = (Vec::new(), Vec::new());
        for doubts in self.doubts.chunk_by(|a, b| a.row == b.row) {
            let row = first + doubts[0].row;
            items.clear();
            items.extend(doubts.iter().map(|doubt| doubt.column));
            self.exact.exact(scan.scores, Side::Rows, row, &items, &mut scores)?;
            for (doubt, &score) in doubts.iter().zip(&scores) {
                let (queries, query, item, count) = match doubt.of {
                    Side::Rows => (rows, row, doubt.column, &mut self.of_rows[doubt.row].1),
                    Side::Columns => (columns, doubt.column, row, &mut self.of_columns[doubt.column].1),
                };
                if let Some(best) = &queries.best[query] {
                    let ranked = ranked_by(score, queries.ask.minus, item);
                    count.settle(best, ranked, item, || queries.ask.positives.contains(query, item));
                }
            }
        }
        self.doubts.clear();
        Ok(())
    }

    /// What rows found, in order, from all threads, and what columns know after them, who knew `known` before.
    ///
    /// # Errors
    /// The first one of the source.
    pub fn finish(asked: &Asked<'_>, visitors: Vec<Self>, known: &[Known]) -> Result<(Vec<Found>, Vec<Known>)> {
        let mut rows: Vec<(usize, Found)> = Vec::new();
        let mut of_columns: Vec<Vec<(Candidates, Count)>> = Vec::new();
        for mut visitor in visitors {
            rows.append(&mut visitor.found);
            for (column, (_, count)) in visitor.of_columns.iter_mut().enumerate() {
                count.add(visitor.columns[column / COLUMNS].above[column % COLUMNS]);
            }
            of_columns.push(visitor.of_columns);
        }
        rows.sort_unstable_by_key(|&(row, _)| row);
        let columns = in_parts(asked.scan.threads, asked.scan.scores.sizes()[1], |part| {
            let mut exact = ExactCache::default();
            part.map(|column| {
                let known = known.get(column);
                let best = known.map_or(&[][..], |known| &known.best);
                let mut candidates = asked.columns.candidates(column).with(best);
                let mut count = known.map_or_else(Count::default, |known| known.count);
                for visitor in &of_columns {
                    candidates.merge(visitor[column].0.clone());
                    count.merge(visitor[column].1);
                }
                asked.columns.known(&mut (&asked.scan, &mut exact), column, candidates, count)
            })
            .collect::<Result<Vec<_>>>()
        });
        let columns = columns.into_iter().collect::<Result<Vec<_>>>()?;
        Ok((rows.into_iter().map(|(_, found)| found).collect(), columns.concat()))
    }
}

impl Visitor for Nearest<'_> {
    fn panel(&mut self, rows: Range<usize>, panel: usize, scores: &[Lane]) -> Result<()> {
        let asked = self.asked;
        if self.is_over() {
            return Ok(());
        }
        if panel == 0 {
            self.above = vec![0; rows.len()];
            self.of_rows = rows.clone().map(|row| (asked.rows.candidates(row), Count::default())).collect();
            let thresholds = |(row, (candidates, _)): (usize, &(Candidates, Count))| {
                let (low, high) = asked.rows.doubt(row);
                Row { minus: asked.columns.minus[row], top: candidates.bar(), low, high }
            };
            self.rows = rows.clone().zip(&self.of_rows).map(thresholds).collect();
        }
        let used = asked.scan.scores.sizes()[1] - panel * COLUMNS;
        let mut hits = std::mem::take(&mut self.hits);
        find(scores, used, &self.rows, &mut self.above, &mut self.columns[panel], &mut hits);
        for hit in hits.drain(..) {
            self.hit(rows.start, panel, hit, &scores[hit.row])?;
        }
        self.hits = hits;
        self.settle(rows.start)?;
        self.pairs += rows.len() * used.min(COLUMNS);
        let (of_pairs, of_row) = DOUBTFUL;
        if !self.looked && self.settled > self.pairs / of_pairs + (rows.len() + self.found.len()) * of_row {
            if asked.may_give_up {
                asked.given_up.store(true, Ordering::Relaxed);
                return Ok(());
            }
            self.looked = true;
            if let Some(duplicates) = asked.scan.scores.duplicates() {
                self.exact.look_up(duplicates);
            }
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.asked.given_up.load(Ordering::Relaxed)
    }

    fn block(&mut self, rows: Range<usize>) -> Result<()> {
        let asked = self.asked;
        if self.is_over() {
            return Ok(());
        }
        if self.columns.is_empty() {
            self.of_rows = rows.clone().map(|row| (asked.rows.candidates(row), Count::default())).collect();
            self.above = vec![0; rows.len()];
        }
        for ((row, (candidates, mut count)), &above) in rows.zip(self.of_rows.drain(..)).zip(&self.above) {
            count.add(above);
            let known = asked.rows.known(&mut (&asked.scan, &mut self.exact), row, candidates, count)?;
            self.found.push((row, known.found(asked.rows.ask.positives.any(row))));
        }
        Ok(())
    }
}

/// The places of the bits that are set, from the lowest.
fn bits(mut bits: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let place = (bits != 0).then(|| bits.trailing_zeros() as usize);
        bits &= bits.wrapping_sub(1);
        place
    })
}

fn index(i: usize) -> u32 {
    u32::try_from(i).expect("vectors are fewer than 2³²")
}
