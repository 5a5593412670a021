//! Sinkhorn normalisation without the matrix: one pass over the scores an iteration.
//!
//! Sinkhorn and Knopp, "Concerning nonnegative matrices and doubly stochastic matrices", 1967. P = diag(u)·exp(S/τ)·diag(v) gets
//! rows that sum to 1/n and columns that sum to 1/m, by scaling one after the other. In logarithms, with h = −τ·ln v of the
//! items and g = −τ·ln u of the queries:
//!
//! - g(q) = τ·(ln n + ln Σ exp((s(q, i) − h(i)) / τ)), over all items i
//! - h(i) = τ·(ln m + ln Σ exp((s(q, i) − g(q)) / τ)), over all queries q
//!
//! The queries' numbers are there once their rows are, so the rows of a block are held until then and looked at again for
//! the items. Sums are [`LogSum`]s, which no temperature makes overflow.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::checkpoint::{Progress, Reader, Writer, load, name, save};
use super::scan::{InOrder, Scan, Visitor, narrow, stripes};
use super::scores::{Lane, Precision, Side};
use crate::error::{Error, Result};
use crate::kernels::product::COLUMNS;
use crate::kernels::scores::{ColumnSums, LogSum, add_along_columns, add_along_rows};

/// What Sinkhorn normalisation takes off scores.
#[derive(Debug, Clone, PartialEq)]
pub struct Potentials {
    /// g of every query; it makes scores of different queries comparable.
    pub queries: Vec<f64>,
    /// h of every item: a query ranks by s − h.
    pub items: Vec<f64>,
}

/// The potentials after `iterations`, from h = τ·ln m on, for each of `queries`: the side that asks.
///
/// # Errors
/// τ is not above 0, or so small that 1/τ is no f32; a side is empty; or the first error of `progress` or of the source.
pub(super) fn sinkhorn(
    scan: &Scan<'_>,
    tau: f64,
    iterations: usize,
    queries: &[Side],
    progress: &mut dyn Progress,
) -> Result<Vec<Potentials>> {
    let counts = scan.scores.sizes();
    if !(tau > 0.0 && tau.recip() <= f64::from(f32::MAX)) {
        return Err(Error::usage(format!("got τ = {tau}, wanted a temperature above 0")));
    }
    if counts.contains(&0) {
        let message = format!("got {} vectors and {}, wanted some on both sides", counts[0], counts[1]);
        return Err(Error::data(message));
    }
    let mut chains: Vec<Chain> = queries.iter().map(|&queries| Chain::new(queries, tau, counts)).collect();
    let passes = |queries: &Side| if iterations == 0 { 0 } else { iterations + usize::from(*queries == Side::Columns) };
    let passes = queries.iter().map(passes).max().unwrap_or(0);
    let cost = scan.cost() * passes as u128;
    let is_long = progress.checkpoints().is_some_and(|store| cost > store.minimum_cost().into());
    let name = is_long.then(|| {
        name(|fields| {
            fields.text("sinkhorn");
            fields.float(tau);
            fields.number(iterations);
            fields.list(queries.len());
            for side in queries {
                fields.text(side.name());
            }
            scan.scores.identity(fields);
        })
    });
    let begin = match &name {
        Some(name) => resume(name, &mut chains, passes, progress)?,
        None => 0,
    };
    for pass in begin..passes {
        scale(scan, tau, iterations, &mut chains, [pass, passes], progress)?;
        if let Some(name) = &name {
            let mut payload = Writer::default();
            chains.iter().flat_map(Chain::numbers).for_each(|&potential| payload.double(potential));
            save(progress, &after(name, pass), payload.0)?;
        }
    }
    Ok(chains.into_iter().map(Chain::finish).collect())
}

/// One pass, of so many.
fn scale(
    scan: &Scan<'_>,
    tau: f64,
    iterations: usize,
    chains: &mut [Chain],
    [pass, passes]: [usize; 2],
    progress: &mut dyn Progress,
) -> Result<()> {
    let counts = scan.scores.sizes();
    let (rows, all) = (counts[0] as u64, (counts[0] * passes) as u64);
    let steps = chains.iter().map(|chain| chain.steps(pass, iterations)).collect();
    let shared = Shared { chains, steps, tau, counts, columns: Mutex::default() };
    let visitors = (0..scan.threads).map(|_| Scaling::new(&shared)).collect();
    let told = &mut |done: u64, _: u64| progress.report(pass as u64 * rows + done, all);
    let visitors = scan.run(Precision::Fine, 0..stripes(counts[0]), visitors, told)?;
    let mut scaled: Vec<(usize, Vec<f64>)> = visitors.into_iter().flat_map(|visitor| visitor.rows).collect();
    scaled.sort_unstable_by_key(|&(row, _)| row);
    let sums = shared.columns.into_inner().unwrap_or_else(PoisonError::into_inner);
    let none = Vec::new();
    let (sums, steps) = (sums.total().unwrap_or(&none), shared.steps);
    for (number, (chain, step)) in chains.iter_mut().zip(steps).enumerate() {
        if step.rows {
            chain.potentials[0] = scaled.iter().map(|(_, of)| of[number]).collect();
        }
        if step.columns {
            let log = |j: usize| sums[number][j / COLUMNS].value(j % COLUMNS, tau.recip());
            chain.potentials[1] = (0..counts[1]).map(|j| tau * (logarithm(counts[1]) + log(j))).collect();
        }
    }
    Ok(())
}

/// The name of the checkpoint after a pass.
fn after(name: &str, pass: usize) -> String {
    format!("{name} potentials {pass}")
}

/// Takes the potentials after the last pass of which they were saved, and says which one comes next.
fn resume(name: &str, chains: &mut [Chain], passes: usize, progress: &mut dyn Progress) -> Result<usize> {
    for pass in (0..passes).rev() {
        let saved = load(progress, &after(name, pass))?;
        let numbers = chains.iter().flat_map(Chain::numbers).count();
        let read = |payload: Vec<i32>| {
            let mut payload = Reader(&payload);
            let read = (0..numbers).map(|_| payload.double().filter(|number| number.is_finite()));
            let read = read.collect::<Option<Vec<f64>>>()?;
            payload.end().map(|()| read)
        };
        if let Some(read) = saved.and_then(read) {
            let to = chains.iter_mut().flat_map(|chain| chain.potentials.iter_mut().flatten());
            to.zip(read).for_each(|(to, potential)| *to = potential);
            return Ok(pass + 1);
        }
    }
    Ok(0)
}

/// The potentials of rows and columns, and which of them ask.
#[derive(Debug, Clone)]
struct Chain {
    queries: Side,
    potentials: [Vec<f64>; 2],
}

/// What a pass does for a chain: the rows' potentials from the columns', then the columns' from the rows'.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Step {
    rows: bool,
    columns: bool,
}

impl Chain {
    fn new(queries: Side, tau: f64, counts: [usize; 2]) -> Self {
        Self { queries, potentials: counts.map(|count| vec![tau * logarithm(count); count]) }
    }

    /// Rows that ask are scaled before the columns of the same pass; columns that ask, before the rows of the next one.
    fn steps(&self, pass: usize, iterations: usize) -> Step {
        match self.queries {
            Side::Rows => Step { rows: pass < iterations, columns: pass < iterations },
            Side::Columns => Step { rows: (1..=iterations).contains(&pass), columns: pass < iterations },
        }
    }

    fn numbers(&self) -> impl Iterator<Item = &f64> {
        self.potentials.iter().flatten()
    }

    fn finish(self) -> Potentials {
        let [rows, columns] = self.potentials;
        match self.queries {
            Side::Rows => Potentials { queries: rows, items: columns },
            Side::Columns => Potentials { queries: columns, items: rows },
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "vectors are fewer than 2³²")]
fn logarithm(count: usize) -> f64 {
    (count as f64).ln()
}

/// What all threads of a pass have in common.
struct Shared<'s> {
    chains: &'s [Chain],
    steps: Vec<Step>,
    tau: f64,
    counts: [usize; 2],
    columns: Mutex<InOrder<Vec<Vec<ColumnSums>>>>,
}

/// What one thread does in a pass.
struct Scaling<'s> {
    shared: &'s Shared<'s>,
    /// Of the block: for every panel, of every row.
    scores: Vec<[f32; COLUMNS]>,
    /// Of the block: for every chain, of every row.
    sums: Vec<Vec<LogSum>>,
    /// Of the stripe: for every chain, of every panel.
    columns: Vec<Vec<ColumnSums>>,
    /// For every chain the potentials of the columns in f32, with the other sign; of columns that are not there, −∞.
    offsets: Vec<Vec<[f32; COLUMNS]>>,
    /// Potentials of a row in every chain.
    rows: Vec<(usize, Vec<f64>)>,
}

impl<'s> Scaling<'s> {
    fn new(shared: &'s Shared<'s>) -> Self {
        let panels = shared.counts[1].div_ceil(COLUMNS);
        let offsets = |chain: &Chain| {
            let offset = |j: usize| chain.potentials[1].get(j).map_or(f32::NEG_INFINITY, |&h| -narrow(h));
            (0..panels).map(|panel| std::array::from_fn(|c| offset(panel * COLUMNS + c))).collect()
        };
        let offsets = shared.chains.iter().map(offsets).collect();
        Self { shared, scores: Vec::new(), sums: Vec::new(), columns: Vec::new(), offsets, rows: Vec::new() }
    }

    fn beta(&self) -> f32 {
        narrow(self.shared.tau.recip())
    }
}

impl Visitor for Scaling<'_> {
    const HOLDS_BLOCK: bool = true;

    fn begin(&mut self, _stripe: usize) {
        let panels = self.shared.counts[1].div_ceil(COLUMNS);
        self.columns = self.shared.chains.iter().map(|_| vec![ColumnSums::EMPTY; panels]).collect();
    }

    fn panel(&mut self, rows: Range<usize>, panel: usize, scores: &[Lane]) -> Result<()> {
        if panel == 0 {
            self.scores.clear();
            self.sums = self.shared.chains.iter().map(|_| vec![LogSum::EMPTY; rows.len()]).collect();
        }
        self.scores.extend_from_slice(scores);
        let beta = self.beta();
        for ((step, offsets), sums) in self.shared.steps.iter().zip(&self.offsets).zip(&mut self.sums) {
            if step.rows {
                add_along_rows(beta, scores, &offsets[panel], sums);
            }
        }
        Ok(())
    }

    fn block(&mut self, rows: Range<usize>) -> Result<()> {
        let Shared { chains, steps, tau, counts, .. } = self.shared;
        let beta = self.beta();
        let mut of_rows = vec![Vec::with_capacity(chains.len()); rows.len()];
        for ((chain, step), (sums, columns)) in chains.iter().zip(steps).zip(self.sums.iter().zip(&mut self.columns)) {
            let potentials: Vec<f64> = if step.rows {
                sums.iter().map(|sum| tau * (logarithm(counts[0]) + sum.value(tau.recip()))).collect()
            } else {
                chain.potentials[0][rows.clone()].to_vec()
            };
            if step.columns {
                let offsets: Vec<f32> = potentials.iter().map(|&g| -narrow(g)).collect();
                for (scores, sums) in self.scores.chunks_exact(rows.len()).zip(columns) {
                    add_along_columns(beta, scores, &offsets, sums);
                }
            }
            of_rows.iter_mut().zip(potentials).for_each(|(of, potential)| of.push(potential));
        }
        self.rows.extend(rows.zip(of_rows));
        Ok(())
    }

    fn end(&mut self, stripe: usize) {
        let beta = self.beta();
        let merge = |total: &mut Vec<Vec<ColumnSums>>, part: Vec<Vec<ColumnSums>>| {
            for (total, part) in total.iter_mut().flatten().zip(part.iter().flatten()) {
                total.merge(part, beta);
            }
        };
        let part = std::mem::take(&mut self.columns);
        self.shared.columns.lock().unwrap_or_else(PoisonError::into_inner).add(stripe, part, merge);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::testing::{Kind, by_libtorch, values};
    use crate::search::{Scoring, Search, Vectors};

    /// The definition in f64: g and h.
    fn plain(scores: &[Vec<f64>], tau: f64, iterations: usize) -> [Vec<f64>; 2] {
        let (n, m) = (scores.len(), scores[0].len());
        let log_sum = |terms: Vec<f64>| {
            let largest = terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            largest + terms.iter().map(|term| (term - largest).exp()).sum::<f64>().ln()
        };
        let (mut g, mut h) = (vec![0.0; n], vec![tau * logarithm(m); m]);
        for _ in 0..iterations {
            for q in 0..n {
                g[q] = tau * (logarithm(n) + log_sum((0..m).map(|i| (scores[q][i] - h[i]) / tau).collect()));
            }
            for i in 0..m {
                h[i] = tau * (logarithm(m) + log_sum((0..n).map(|q| (scores[q][i] - g[q]) / tau).collect()));
            }
        }
        [g, h]
    }

    #[test]
    fn potentials_are_those_of_the_definition_for_either_side_and_any_temperature() {
        let (n, m, width) = (430, 75, 24);
        for kind in [Kind::Spread, Kind::Close, Kind::Equal] {
            let (a, b) = (values(kind, 1, n, width), values(kind, 2, m, width));
            let rows = Vectors::new("rows", &a, width).expect("good");
            let columns = Vectors::new("columns", &b, width).expect("good");
            let score = |i: usize, j: usize| f64::from(Scoring::Product.score(rows.row(i), columns.row(j)));
            let by_row: Vec<Vec<f64>> = (0..n).map(|i| (0..m).map(|j| score(i, j)).collect()).collect();
            let by_column: Vec<Vec<f64>> = (0..m).map(|j| (0..n).map(|i| score(i, j)).collect()).collect();
            for (tau, iterations) in [(0.01, 10), (0.001, 3), (1.0, 1)] {
                let both = [Side::Rows, Side::Columns];
                let mut results = Vec::new();
                for (threads, block) in [(1, None), (2, Some(1)), (3, Some(100))] {
                    let mut search =
                        Search::of_vectors(&rows, &columns, Scoring::Product, threads).expect("of one width");
                    search.forced.block = block;
                    let got = search.sinkhorn(tau, iterations, &both, &mut |_, _| Ok(())).expect("possible");
                    results.push(got);
                }
                assert!(results.iter().all(|result| *result == results[0]), "the same bits");
                let search = Search::owning(by_libtorch(&rows, &columns, Scoring::Product), 2);
                results.push(search.sinkhorn(tau, iterations, &both, &mut |_, _| Ok(())).expect("possible"));
                let scores = [&by_row, &by_column];
                for (got, scores) in results[0].iter().zip(scores).chain(results[3].iter().zip(scores)) {
                    let [g, h] = plain(scores, tau, iterations);
                    for (got, wanted) in got.queries.iter().chain(&got.items).zip(g.iter().chain(&h)) {
                        assert!((got - wanted).abs() < 4e-7 + 1e-5 * tau, "{kind:?} τ {tau}: {got}, wanted {wanted}");
                    }
                }
                // One side alone is the same.
                let search = Search::of_vectors(&rows, &columns, Scoring::Product, 2).expect("of one width");
                for (place, side) in both.into_iter().enumerate() {
                    let alone = search.sinkhorn(tau, iterations, &[side], &mut |_, _| Ok(())).expect("possible");
                    assert_eq!(alone[0], results[0][place]);
                }
            }
        }
    }

    #[test]
    fn impossible_settings_are_refused() {
        let (some, none) = (Vectors::new("a", &[1.0, 0.0], 2), Vectors::new("b", &[], 2));
        let (some, none) = (some.expect("good"), none.expect("none"));
        let search = Search::of_vectors(&some, &some, Scoring::Product, 1).expect("of one width");
        for tau in [0.0, -1.0, f64::NAN, 1e-40] {
            let error = search.sinkhorn(tau, 1, &[Side::Rows], &mut |_, _| Ok(())).expect_err("no temperature");
            assert!(error.to_string().contains("wanted a temperature"), "{error}");
        }
        let search = Search::of_vectors(&some, &none, Scoring::Product, 1).expect("of one width");
        assert!(search.sinkhorn(0.1, 1, &[Side::Rows], &mut |_, _| Ok(())).is_err());
    }
}
