//! Everything that one pass finds.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Watch;
use super::ask::{Answer, Ask, Unrounded};
use super::exact::Exact;
use super::nearest::{Asked, Found, Nearest, Queries};
use super::packed::Packed;
use super::pass::{Ground, Visitor, rows_of};
use super::products::Products;
use super::scoring::{Scoring, Side};
use super::so_far::{Pass, SoFar};
use super::sums::{Summed, Sums, is_sum};
use super::twins::Twins;
use super::vectors::Vectors;
use crate::error::{Error, Result};
use crate::kernels::hubness::matching::Candidate;
use crate::kernels::hubness::statistic::Statistic;
use crate::kernels::product::{COLUMNS, Lanes, vectors};

/// Rows and columns whose scores are searched, packed once for any number of passes.
#[derive(Debug)]
pub struct Search<'v> {
    pub(super) exact: Exact<'v>,
    pub(super) threads: usize,
    /// In f32, and in bf16.
    pub(super) packed: [OnceLock<Packed>; 2],
    /// What computes the scores in place of tiles.
    pub(super) products: Option<Box<dyn Products + 'v>>,
    /// What approximate scores are computed as, and rows of a block, where a test wants certain ones.
    pub(super) forced: (Option<Lanes>, Option<usize>),
    /// Digests of rows and columns.
    pub(super) digest: OnceLock<[blake3::Hash; 2]>,
    /// Vectors that are equal, if many are.
    pub(super) twins: OnceLock<Option<Twins>>,
}

impl<'v> Search<'v> {
    /// Scores of `rows` with `columns`, computed on `threads` threads.
    ///
    /// # Errors
    /// The widths differ.
    pub fn new(rows: &'v Vectors<'v>, columns: &'v Vectors<'v>, scoring: Scoring, threads: usize) -> Result<Self> {
        let (a, b) = (rows.width(), columns.width());
        if a != b {
            return Err(Error::data(format!("vectors of width {a} cannot be compared with vectors of width {b}")));
        }
        let exact = Exact { rows, columns, scoring };
        Ok(Self {
            exact,
            threads: threads.max(1),
            packed: [OnceLock::new(), OnceLock::new()],
            products: None,
            forced: (None, None),
            digest: OnceLock::new(),
            twins: OnceLock::new(),
        })
    }

    /// With scores of `products`, which are those of the same rows and columns by the same scoring, in place of the tiles of
    /// this module. Ranks, lists and statistics of the largest scores stay the same, bit for bit; sums of scores, and rows that
    /// are handed out whole, are rounded in other places.
    ///
    /// Beside what `products` holds, each thread then holds 32 MiB of scores, or 12 rows of them where that is more.
    #[must_use]
    pub fn by(self, products: Box<dyn Products + 'v>) -> Self {
        Self { products: Some(products), ..self }
    }

    /// What rows ask of the columns and columns of the rows, in one pass.
    ///
    /// Where `watch` has a [`Keeper`](super::Keeper), a pass of more than [`WORTH`](super::WORTH) multiply-adds is cut into
    /// sections of rows, 64 at most. What the rows of a section found is kept when it is done, and what all columns have found so
    /// far. A search that asks the same of the same vectors goes on after the last section that was kept, and finds what it
    /// would have found, bit for bit.
    ///
    /// # Errors
    /// What is asked is not possible (a positive that is no item, lists of another length than the side, a correction that
    /// is not finite, a negative β), or the first error of `watch`, which is told between blocks of rows.
    ///
    /// # Cost
    /// `O(n_rows · n_columns · width)` time, in bf16 where the processor multiplies that and no statistic is a sum over all
    /// scores, and then in f32. Memory: the columns once more (half, in bf16), and for each thread 200 rows, and of every
    /// column 40 bytes, 8 bytes for each of `k + max(k, 32)` candidates, and 12 or 16 for each sum. Where sections are kept, of
    /// every column 16·k bytes more, and while it is kept 12 for each of the k best, 12 if there are ranks, and 12 or 16 for each
    /// sum, twice.
    ///
    /// Pairs in doubt cost an exact score each, but of vectors that are equal once: where all are equal, a search takes some four
    /// times as long as others.
    pub fn find(&self, rows: &Ask<'_>, columns: &Ask<'_>, watch: Watch<'_>) -> Result<[Answer; 2]> {
        Ok(self.found(rows, columns, watch)?.map(Unrounded::rounded))
    }

    /// The best items of rows and of columns alone, with what they are ranked by in f64.
    pub(super) fn candidates(
        &self,
        rows: &Ask<'_>,
        columns: &Ask<'_>,
        watch: Watch<'_>,
    ) -> Result<[Vec<Vec<Candidate>>; 2]> {
        Ok(self.found(rows, columns, watch)?.map(|found| found.top))
    }

    fn found(&self, rows: &Ask<'_>, columns: &Ask<'_>, watch: Watch<'_>) -> Result<[Unrounded; 2]> {
        let counts = [self.exact.rows.len(), self.exact.columns.len()];
        let keep = [check(rows, counts[0], counts[1])?, check(columns, counts[1], counts[0])?];
        let summed = Summed::new(&self.exact, [rows.statistics, columns.statistics], self.threads)?;
        let fast = self.forced.0.unwrap_or(if vectors(Lanes::Bf16) { Lanes::Bf16 } else { Lanes::F32 });
        let narrow = summed.is_none() && self.products.is_none();
        let mut lanes = self.exact.scoring.lanes(if narrow { fast } else { Lanes::F32 });
        let pass =
            Pass { asks: [rows, columns], keep, counts, summed, sections: self.sections(&(rows, columns), watch) };
        let mut so_far = pass.resume(watch)?;
        watch.tell(so_far.rows.top.len() as u64, counts[0] as u64)?;
        while so_far.section < pass.sections.stripes.len() {
            if self.look(lanes, &pass, &mut so_far, watch)? {
                break;
            }
            lanes = Lanes::F32;
        }
        Ok(pass.finish(so_far))
    }

    /// Goes on to the end of a pass, or to where bf16 leaves too much in doubt, and then says no.
    fn look(&self, lanes: Lanes, pass: &Pass<'_>, so_far: &mut SoFar, watch: Watch<'_>) -> Result<bool> {
        let packed = self.packed(lanes);
        let [row_bounds, column_bounds] = packed.errors(self.exact.scoring, self.exact.rows.width());
        let [rows, columns] = pass.asks;
        let asked = Asked {
            exact: self.exact,
            rows: Queries::new(&self.exact, Side::Rows, *rows, pass.keep[0], &row_bounds, self.threads)?,
            columns: Queries::new(&self.exact, Side::Columns, *columns, pass.keep[1], &column_bounds, self.threads)?,
            may_give_up: lanes == Lanes::Bf16 && self.forced.0.is_none(),
            twins: &self.twins,
            threads: self.threads,
            given_up: AtomicBool::new(false),
        };
        let (ground, summed) = (self.ground(packed), pass.summed.as_ref());
        while let Some(stripes) = pass.sections.stripes.get(so_far.section) {
            let visitor = |_| Both(Nearest::new(&asked, &so_far.columns), summed.map(Sums::new));
            let visitors = ground.pass(stripes.clone(), (0..self.threads).map(visitor).collect(), watch)?;
            if asked.given_up.load(Ordering::Relaxed) {
                return Ok(false);
            }
            let (nearest, sums): (Vec<_>, Vec<_>) =
                visitors.into_iter().map(|Both(nearest, sums)| (nearest, sums)).unzip();
            let (found, known) = Nearest::finish(&asked, nearest, &so_far.columns, self.threads);
            let of_rows = rows_of(stripes, pass.counts[0]);
            let sums =
                summed.map(|summed| summed.of_rows(rows.statistics, of_rows, sums.into_iter().flatten().collect()));
            pass.done(so_far, answer(rows, found, sums), known, watch)?;
        }
        Ok(true)
    }

    /// The columns, packed with these lanes.
    pub(super) fn packed(&self, lanes: Lanes) -> &Packed {
        let place = usize::from(lanes == Lanes::Bf16);
        let Exact { rows, columns, .. } = self.exact;
        self.packed[place].get_or_init(|| match self.products {
            None => Packed::new(lanes, rows, columns, self.threads),
            Some(_) => Packed::elsewhere(rows, columns),
        })
    }

    pub(super) fn ground<'s>(&'s self, packed: &'s Packed) -> Ground<'s> {
        let ground = Ground::new(self.exact, packed, self.forced.1);
        self.products.as_deref().map_or(ground, |products| ground.by(products, self.forced.1))
    }
}

/// How many items must be kept of each query.
///
/// # Errors
/// What is asked is not possible.
pub(super) fn check(ask: &Ask<'_>, queries: usize, items: usize) -> Result<usize> {
    let wrong =
        |what: &str, got: usize, wanted: usize| Err(Error::internal(format!("got {what} of {got}, wanted {wanted}")));
    if let Some(got) = ask.positives.queries().filter(|&got| got != queries) {
        return wrong("positives", got, queries);
    }
    if let Some((query, item)) = ask.positives.beyond(items) {
        return Err(Error::internal(format!("item {item} matches query {query}, but there are {items} items")));
    }
    if !ask.minus.is_empty() && ask.minus.len() != items {
        return wrong("corrections", ask.minus.len(), items);
    }
    let largest = |statistic: &Statistic| match *statistic {
        Statistic::MeanOfLargest { k } | Statistic::KthLargest { k } => Some(k),
        _ => None,
    };
    let most = ask.statistics.iter().filter_map(largest).max();
    if most.is_some() && !ask.minus.is_empty() {
        return Err(Error::internal("the largest scores and the best of corrected ones are two passes"));
    }
    Ok(ask.k.max(most.unwrap_or(0)).min(items))
}

/// What one side gets.
#[expect(clippy::cast_possible_truncation, reason = "statistics are of f32 scores")]
pub(super) fn answer(ask: &Ask<'_>, found: Vec<Found>, sums: Option<Vec<Vec<f64>>>) -> Unrounded {
    let sums = sums.unwrap_or_else(|| vec![Vec::new(); ask.statistics.len()]);
    let statistic = |(statistic, sums): (&Statistic, Vec<f64>)| match *statistic {
        _ if is_sum(statistic) => sums,
        Statistic::MeanOfLargest { k } | Statistic::KthLargest { k } => {
            let largest =
                |top: &[Candidate]| statistic.of(top[..k.min(top.len())].iter().map(|best| best.score as f32));
            found.iter().map(|found| largest(&found.top)).collect()
        }
        _ => sums,
    };
    let statistics = ask.statistics.iter().zip(sums).map(statistic).collect();
    let asked = ask.positives.queries().is_some();
    let ranks = if asked { found.iter().map(|found| found.rank).collect() } else { Vec::new() };
    let cut = |mut found: Found| {
        found.top.truncate(ask.k);
        found.top
    };
    Unrounded { top: found.into_iter().map(cut).collect(), ranks, statistics }
}

/// Two visitors that see the same.
struct Both<'s>(Nearest<'s>, Option<Sums<'s>>);

impl Visitor for Both<'_> {
    fn begin(&mut self, stripe: usize) {
        if let Some(sums) = &mut self.1 {
            sums.begin(stripe);
        }
    }

    fn panel(&mut self, rows: Range<usize>, panel: usize, scores: &[[f32; COLUMNS]]) {
        self.0.panel(rows.clone(), panel, scores);
        if let Some(sums) = &mut self.1 {
            sums.panel(rows, panel, scores);
        }
    }

    fn block(&mut self, rows: Range<usize>) {
        self.0.block(rows.clone());
        if let Some(sums) = &mut self.1 {
            sums.block(rows);
        }
    }

    fn end(&mut self, stripe: usize) {
        if let Some(sums) = &mut self.1 {
            sums.end(stripe);
        }
    }

    fn is_over(&self) -> bool {
        self.0.is_over()
    }
}
