//! Sinkhorn normalisation without the score matrix in memory: one pass over the scores for each iteration.
//!
//! Sinkhorn and Knopp, "Concerning nonnegative matrices and doubly stochastic matrices", 1967. The algorithm scales the
//! rows and the columns of P = diag(u)·exp(S/τ)·diag(v) in turn, until rows sum to 1/n and columns to 1/m. In
//! logarithms, with h = −τ·ln v of the items and g = −τ·ln u of the queries:
//!
//! - g(q) = τ·(ln n + ln Σ exp((s(q, i) − h(i)) / τ)), over all items i
//! - h(i) = τ·(ln m + ln Σ exp((s(q, i) − g(q)) / τ)), over all queries q
//!
//! g of a query needs all scores of its row, and h of the items needs g. So a block of rows is held until its g are
//! known, and then read again for h. Sums are [`RunningLogSumExp`]s, which do not overflow at any temperature.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::checkpoint::{PayloadReader, PayloadWriter, SearchProgress, checkpoint_name, load, save};
use super::scan::{OrderedSum, Scan, ScoreVisitor, stripe_count, to_f32};
use super::scores::{MatrixSide, PanelRow, ScorePrecision};
use pairloom_base::error::{Error, Result};
use pairloom_kernels::product::TILE_COLUMNS;
use pairloom_kernels::score_panels::{ColumnLogSumExps, RunningLogSumExp, add_exp_columns, add_exp_rows};

/// Potentials of Sinkhorn normalisation: numbers that are subtracted from scores.
#[derive(Debug, Clone, PartialEq)]
pub struct Potentials {
    /// g of every query. It makes the scores of different queries comparable.
    pub queries: Vec<f64>,
    /// h of every item: a query ranks by s − h.
    pub items: Vec<f64>,
}

/// Computes the potentials after some `iterations` from h = τ·ln m on, for each query side in `queries`.
///
/// # Errors
/// τ is not above 0, or so small that 1/τ is no f32. A side is empty. The first error of `progress` or of the source.
pub(super) fn sinkhorn(
    scan: &Scan<'_>,
    tau: f64,
    iterations: usize,
    queries: &[MatrixSide],
    progress: &mut dyn SearchProgress,
) -> Result<Vec<Potentials>> {
    let counts = scan.scores.shape();
    if !(tau > 0.0 && tau.recip() <= f64::from(f32::MAX)) {
        return Err(Error::usage(format!("got τ = {tau}, expected a temperature above 0")));
    }
    if counts.contains(&0) {
        let message = format!("got {} vectors and {}, expected some on both sides", counts[0], counts[1]);
        return Err(Error::data(message));
    }
    let mut states: Vec<PotentialState> =
        queries.iter().map(|&queries| PotentialState::new(queries, tau, counts)).collect();
    let passes = |queries: &MatrixSide| {
        if iterations == 0 { 0 } else { iterations + usize::from(*queries == MatrixSide::Columns) }
    };
    let passes = queries.iter().map(passes).max().unwrap_or(0);
    let cost = scan.cost() * passes as u128;
    let is_long = progress.checkpoint_store().is_some_and(|store| cost > store.minimum_cost().into());
    let name = is_long.then(|| {
        checkpoint_name(|fields| {
            fields.write_text("sinkhorn");
            fields.write_f64(tau);
            fields.write_usize(iterations);
            fields.write_list_length(queries.len());
            for side in queries {
                fields.write_text(side.name());
            }
            scan.scores.identity(fields);
        })
    });
    let begin = match &name {
        Some(name) => resume(name, &mut states, passes, progress)?,
        None => 0,
    };
    for pass in begin..passes {
        run_pass(scan, tau, iterations, &mut states, [pass, passes], progress)?;
        if let Some(name) = &name {
            let mut payload = PayloadWriter::default();
            states.iter().flat_map(PotentialState::values).for_each(|&potential| payload.write_f64(potential));
            save(progress, &pass_checkpoint(name, pass), payload.0)?;
        }
    }
    Ok(states.into_iter().map(PotentialState::into_potentials).collect())
}

/// Updates the potentials by one pass over all scores.
fn run_pass(
    scan: &Scan<'_>,
    tau: f64,
    iterations: usize,
    states: &mut [PotentialState],
    [pass, passes]: [usize; 2],
    progress: &mut dyn SearchProgress,
) -> Result<()> {
    let counts = scan.scores.shape();
    let (rows, all) = (counts[0] as u64, (counts[0] * passes) as u64);
    let updates = states.iter().map(|state| state.updates(pass, iterations)).collect();
    let shared =
        SinkhornPass { states, updates, tau, counts, columns: Mutex::new(OrderedSum::new(stripe_count(counts[0]))) };
    let visitors = (0..scan.threads).map(|_| SinkhornVisitor::new(&shared)).collect();
    let report = &mut |done: u64, _: u64| progress.report(pass as u64 * rows + done, all);
    let visitors = scan.run(ScorePrecision::Fine, 0..stripe_count(counts[0]), visitors, report)?;
    let mut scaled: Vec<(usize, Vec<f64>)> = visitors.into_iter().flat_map(|visitor| visitor.rows).collect();
    scaled.sort_unstable_by_key(|&(row, _)| row);
    let sums = shared.columns.into_inner().unwrap_or_else(PoisonError::into_inner);
    let none = Vec::new();
    let (sums, updates) = (sums.total().unwrap_or(&none), shared.updates);
    for (number, (state, update)) in states.iter_mut().zip(updates).enumerate() {
        if update.rows {
            state.potentials[0] = scaled.iter().map(|(_, potentials)| potentials[number]).collect();
        }
        if update.columns {
            let log = |j: usize| sums[number][j / TILE_COLUMNS].value(j % TILE_COLUMNS, tau.recip());
            state.potentials[1] = (0..counts[1]).map(|j| tau * (ln_count(counts[1]) + log(j))).collect();
        }
    }
    Ok(())
}

/// Name of the checkpoint after a pass.
fn pass_checkpoint(name: &str, pass: usize) -> String {
    format!("{name} potentials {pass}")
}

/// Loads the potentials of the last pass that has a checkpoint, and returns the number of the next pass.
fn resume(
    name: &str,
    states: &mut [PotentialState],
    passes: usize,
    progress: &mut dyn SearchProgress,
) -> Result<usize> {
    for pass in (0..passes).rev() {
        let saved = load(progress, &pass_checkpoint(name, pass))?;
        let numbers = states.iter().flat_map(PotentialState::values).count();
        let read = |payload: Vec<i32>| {
            let mut payload = PayloadReader(&payload);
            let read = (0..numbers).map(|_| payload.read_f64().filter(|number| number.is_finite()));
            let read = read.collect::<Option<Vec<f64>>>()?;
            payload.finish().map(|()| read)
        };
        if let Some(read) = saved.and_then(read) {
            let to = states.iter_mut().flat_map(|state| state.potentials.iter_mut().flatten());
            to.zip(read).for_each(|(to, potential)| *to = potential);
            return Ok(pass + 1);
        }
    }
    Ok(0)
}

/// Potentials of rows and columns, with the side that holds the queries.
#[derive(Debug, Clone)]
struct PotentialState {
    queries: MatrixSide,
    potentials: [Vec<f64>; 2],
}

/// Potentials that a pass updates: first `rows` from the potentials of the columns, then `columns` from those of the
/// rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PassUpdates {
    rows: bool,
    columns: bool,
}

impl PotentialState {
    fn new(queries: MatrixSide, tau: f64, counts: [usize; 2]) -> Self {
        Self { queries, potentials: counts.map(|count| vec![tau * ln_count(count); count]) }
    }

    /// Updates of a pass. Queries are scaled before items: rows as queries before the columns of the same pass, columns
    /// as queries before the rows of the next pass.
    fn updates(&self, pass: usize, iterations: usize) -> PassUpdates {
        match self.queries {
            MatrixSide::Rows => PassUpdates { rows: pass < iterations, columns: pass < iterations },
            MatrixSide::Columns => PassUpdates { rows: (1..=iterations).contains(&pass), columns: pass < iterations },
        }
    }

    fn values(&self) -> impl Iterator<Item = &f64> {
        self.potentials.iter().flatten()
    }

    fn into_potentials(self) -> Potentials {
        let [rows, columns] = self.potentials;
        match self.queries {
            MatrixSide::Rows => Potentials { queries: rows, items: columns },
            MatrixSide::Columns => Potentials { queries: columns, items: rows },
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "vectors are fewer than 2³²")]
fn ln_count(count: usize) -> f64 {
    (count as f64).ln()
}

/// State of a pass that all threads share.
struct SinkhornPass<'s> {
    states: &'s [PotentialState],
    updates: Vec<PassUpdates>,
    tau: f64,
    counts: [usize; 2],
    columns: Mutex<OrderedSum<Vec<Vec<ColumnLogSumExps>>>>,
}

/// Visitor that updates potentials, on one thread.
struct SinkhornVisitor<'s> {
    pass: &'s SinkhornPass<'s>,
    /// Scores of the block, by panel and row.
    scores: Vec<[f32; TILE_COLUMNS]>,
    /// Sums of the block, by potential state and row.
    sums: Vec<Vec<RunningLogSumExp>>,
    /// Sums of the stripe, by potential state and panel.
    columns: Vec<Vec<ColumnLogSumExps>>,
    /// Negated potentials of the columns in f32, by potential state and panel; −∞ beyond the last column.
    offsets: Vec<Vec<[f32; TILE_COLUMNS]>>,
    /// Rows of the thread, each with its potential in every potential state.
    rows: Vec<(usize, Vec<f64>)>,
}

impl<'s> SinkhornVisitor<'s> {
    fn new(shared: &'s SinkhornPass<'s>) -> Self {
        let panels = shared.counts[1].div_ceil(TILE_COLUMNS);
        let offsets = |state: &PotentialState| {
            let offset = |j: usize| state.potentials[1].get(j).map_or(f32::NEG_INFINITY, |&h| -to_f32(h));
            (0..panels).map(|panel| std::array::from_fn(|c| offset(panel * TILE_COLUMNS + c))).collect()
        };
        let offsets = shared.states.iter().map(offsets).collect();
        Self { pass: shared, scores: Vec::new(), sums: Vec::new(), columns: Vec::new(), offsets, rows: Vec::new() }
    }

    fn beta(&self) -> f32 {
        to_f32(self.pass.tau.recip())
    }
}

impl ScoreVisitor for SinkhornVisitor<'_> {
    const HOLDS_BLOCK: bool = true;

    fn begin_stripe(&mut self, _stripe: usize) {
        let panels = self.pass.counts[1].div_ceil(TILE_COLUMNS);
        self.columns = self.pass.states.iter().map(|_| vec![ColumnLogSumExps::EMPTY; panels]).collect();
    }

    fn visit_panel(&mut self, rows: Range<usize>, panel: usize, scores: &[PanelRow]) -> Result<()> {
        if panel == 0 {
            self.scores.clear();
            self.sums = self.pass.states.iter().map(|_| vec![RunningLogSumExp::EMPTY; rows.len()]).collect();
        }
        self.scores.extend_from_slice(scores);
        let beta = self.beta();
        for ((update, offsets), sums) in self.pass.updates.iter().zip(&self.offsets).zip(&mut self.sums) {
            if update.rows {
                add_exp_rows(beta, scores, &offsets[panel], sums);
            }
        }
        Ok(())
    }

    fn end_block(&mut self, rows: Range<usize>) -> Result<()> {
        let SinkhornPass { states, updates, tau, counts, .. } = self.pass;
        let beta = self.beta();
        let mut row_sums = vec![Vec::with_capacity(states.len()); rows.len()];
        for ((state, update), (sums, columns)) in
            states.iter().zip(updates).zip(self.sums.iter().zip(&mut self.columns))
        {
            let potentials: Vec<f64> = if update.rows {
                sums.iter().map(|sum| tau * (ln_count(counts[0]) + sum.value(tau.recip()))).collect()
            } else {
                state.potentials[0][rows.clone()].to_vec()
            };
            if update.columns {
                let offsets: Vec<f32> = potentials.iter().map(|&g| -to_f32(g)).collect();
                for (scores, sums) in self.scores.chunks_exact(rows.len()).zip(columns) {
                    add_exp_columns(beta, scores, &offsets, sums);
                }
            }
            row_sums.iter_mut().zip(potentials).for_each(|(row, potential)| row.push(potential));
        }
        self.rows.extend(rows.zip(row_sums));
        Ok(())
    }

    fn end_stripe(&mut self, stripe: usize) {
        let beta = self.beta();
        let merge = |total: &mut Vec<Vec<ColumnLogSumExps>>, part: Vec<Vec<ColumnLogSumExps>>| {
            for (total, part) in total.iter_mut().flatten().zip(part.iter().flatten()) {
                total.merge(part, beta);
            }
        };
        let part = std::mem::take(&mut self.columns);
        self.pass.columns.lock().unwrap_or_else(PoisonError::into_inner).add(stripe, part, merge);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{SinkhornCase, sinkhorn_cases};
    use crate::{ScoreFunction, Search, VectorMatrix};

    #[test]
    fn potentials_are_those_of_the_definition_for_either_side_and_any_temperature() {
        sinkhorn_cases(&mut |case| {
            let search = |threads: usize| {
                Search::from_vectors(case.rows, case.columns, ScoreFunction::Product, threads).expect("of one width")
            };
            let results = [(1, None), (2, Some(1)), (3, Some(100))];
            let results = results.map(|(threads, block)| case.check(search(threads), block));
            assert!(results.iter().all(|result| *result == results[0]), "the same bits");
            // One side alone is the same.
            for (place, side) in SinkhornCase::SIDES.into_iter().enumerate() {
                let alone = search(2).sinkhorn(case.tau, case.iterations, &[side], &mut |_, _| Ok(()));
                assert_eq!(alone.expect("possible")[0], results[0][place]);
            }
        });
    }

    #[test]
    fn impossible_settings_are_refused() {
        let (some, none) = (VectorMatrix::new("a", &[1.0, 0.0], 2), VectorMatrix::new("b", &[], 2));
        let (some, none) = (some.expect("good"), none.expect("none"));
        let search = Search::from_vectors(&some, &some, ScoreFunction::Product, 1).expect("of one width");
        for tau in [0.0, -1.0, f64::NAN, 1e-40] {
            let error = search.sinkhorn(tau, 1, &[MatrixSide::Rows], &mut |_, _| Ok(())).expect_err("no temperature");
            assert!(error.to_string().contains("expected a temperature"), "{error}");
        }
        let search = Search::from_vectors(&some, &none, ScoreFunction::Product, 1).expect("of one width");
        assert!(search.sinkhorn(0.1, 1, &[MatrixSide::Rows], &mut |_, _| Ok(())).is_err());
    }
}
