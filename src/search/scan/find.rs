//! Search pass: top-k lists, ranks and statistics of both sides in one scan.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::blocks::{Scan, ScoreVisitor};
use super::nearest::{NearestContext, NearestVisitor, QueryResult, SideQueries};
use super::ordered_sum::parts_per_group;
use super::resume::{PassState, SearchPass};
use super::stripes::{stripe_count, stripe_rows_range};
use super::sums::{SumStatistics, SumVisitor, is_sum_statistic};
use crate::checkpoint::{SearchProgress, Sections};
use crate::request::SearchRequest;
use crate::results::UnroundedResults;
use crate::scores::{MatrixSide, PanelRow, ScorePrecision};
use pairloom_base::error::{Error, Result};
use pairloom_kernels::hubness::incremental_matching::MatchCandidate;
use pairloom_kernels::hubness::statistic::Statistic;
use pairloom_kernels::identity::IdentityWriter;

/// Answers the requests of rows for columns and of columns for rows, in one pass.
///
/// # Errors
/// An invalid request; or the first error of `progress` or of the source.
pub fn find(
    scan: &Scan<'_>,
    requests: [&SearchRequest<'_>; 2],
    progress: &mut dyn SearchProgress,
) -> Result<[UnroundedResults; 2]> {
    let identity = |fields: &mut IdentityWriter<'_>| {
        fields.write_text("find");
        for request in requests {
            request.identity(fields);
        }
        scan.scores.identity(fields);
    };
    let stripes = stripe_count(scan.scores.shape()[0]);
    let sections = Sections::new([stripes, parts_per_group(stripes)], scan.cost(), identity, progress);
    let pass = prepare(scan, requests, sections)?;
    let mut state = pass.resume(progress)?;
    scan_pass(scan, &pass, &mut state, progress)?;
    Ok(results(&pass, state))
}

/// Finds the best items of rows and of columns alone, with their ranking keys in f64.
///
/// # Errors
/// As [`find`].
pub fn candidates(
    scan: &Scan<'_>,
    requests: [&SearchRequest<'_>; 2],
    progress: &mut dyn SearchProgress,
) -> Result<[Vec<Vec<MatchCandidate>>; 2]> {
    Ok(find(scan, requests, progress)?.map(|found| found.top))
}

/// Pass with these requests.
///
/// # Errors
/// An invalid request, or the first error of the source.
pub fn prepare<'p>(
    scan: &Scan<'_>,
    requests: [&'p SearchRequest<'p>; 2],
    sections: Sections,
) -> Result<SearchPass<'p>> {
    let counts = scan.scores.shape();
    if let Some(count) = counts.iter().find(|&&count| u32::try_from(count).is_err()) {
        return Err(Error::data(format!("got {count} vectors on one side, wanted fewer than 2³²")));
    }
    let list_lengths = [requests[0].list_length(counts[0], counts[1])?, requests[1].list_length(counts[1], counts[0])?];
    let sums = SumStatistics::new(scan, requests.map(|request| request.statistics))?;
    Ok(SearchPass { requests, list_lengths, counts, sums, sections, known_columns: Arc::default() })
}

/// Results of a pass whose state is complete.
pub fn results(pass: &SearchPass<'_>, state: PassState) -> [UnroundedResults; 2] {
    let request = pass.requests[1];
    let columns = state.columns.into_iter().enumerate();
    let columns = columns.map(|(column, known)| known.into_result(request.positives.has_any(column))).collect();
    let sums = pass.sums.as_ref().map(|summed| summed.column_statistics(request.statistics));
    [state.rows, side_results(request, columns, sums)]
}

/// Scans all remaining sections: with coarse scores, if these are faster and suffice.
///
/// # Errors
/// The first error of `progress` or of the source.
pub fn scan_pass(
    scan: &Scan<'_>,
    pass: &SearchPass<'_>,
    state: &mut PassState,
    progress: &mut dyn SearchProgress,
) -> Result<()> {
    let can_be_coarse = scan.scores.has_coarse() && scan.overrides.precision != Some(ScorePrecision::Fine);
    let mut precision =
        if pass.sums.is_none() && can_be_coarse { ScorePrecision::Coarse } else { ScorePrecision::Fine };
    progress.report(state.rows.top.len() as u64, pass.counts[0] as u64)?;
    while state.section < pass.sections.stripes.len() {
        if scan_sections(scan, precision, pass, state, progress)? {
            break;
        }
        precision = ScorePrecision::Fine;
    }
    Ok(())
}

/// Scans the remaining sections of a pass. Returns false if it stopped because coarse scores leave too many pairs
/// uncertain.
fn scan_sections(
    scan: &Scan<'_>,
    precision: ScorePrecision,
    pass: &SearchPass<'_>,
    state: &mut PassState,
    progress: &mut dyn SearchProgress,
) -> Result<bool> {
    let [row_bounds, column_bounds] = scan.scores.bounds(precision);
    let [rows, columns] = pass.requests;
    let context = NearestContext {
        scan: *scan,
        rows: SideQueries::new(scan, MatrixSide::Rows, *rows, pass.list_lengths[0], &row_bounds)?,
        columns: SideQueries::new(scan, MatrixSide::Columns, *columns, pass.list_lengths[1], &column_bounds)?,
        may_abandon: precision == ScorePrecision::Coarse && scan.overrides.precision.is_none(),
        abandoned: AtomicBool::new(false),
    };
    let summed = pass.sums.as_ref();
    while let Some(stripes) = pass.sections.stripes.get(state.section) {
        let known = if state.columns.is_empty() { &*pass.known_columns } else { &state.columns };
        let visitor = |_| NearestAndSums(NearestVisitor::new(&context, known), summed.map(SumVisitor::new));
        let visitors = (0..scan.threads).map(visitor).collect();
        let visitors = scan.run(precision, stripes.clone(), visitors, progress)?;
        if context.abandoned.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let (nearest, sums): (Vec<_>, Vec<_>) =
            visitors.into_iter().map(|NearestAndSums(nearest, sums)| (nearest, sums)).unzip();
        let (found, known) = NearestVisitor::finish(&context, nearest, &state.columns)?;
        let of_rows = stripe_rows_range(stripes, pass.counts[0]);
        let sums =
            summed.map(|summed| summed.row_statistics(rows.statistics, of_rows, sums.into_iter().flatten().collect()));
        pass.finish_section(state, side_results(rows, found, sums), known, progress)?;
    }
    Ok(true)
}

/// Results for the queries of one side.
#[expect(clippy::cast_possible_truncation, reason = "statistics are of f32 scores")]
fn side_results(request: &SearchRequest<'_>, found: Vec<QueryResult>, sums: Option<Vec<Vec<f64>>>) -> UnroundedResults {
    let sums = sums.unwrap_or_else(|| vec![Vec::new(); request.statistics.len()]);
    let statistic = |(statistic, sums): (&Statistic, Vec<f64>)| match *statistic {
        _ if is_sum_statistic(statistic) => sums,
        Statistic::MeanOfLargest { k } | Statistic::KthLargest { k } => {
            let largest = |top: &[MatchCandidate]| {
                statistic.compute(top[..k.min(top.len())].iter().map(|best| best.score as f32))
            };
            found.iter().map(|found| largest(&found.top)).collect()
        }
        _ => sums,
    };
    let statistics = request.statistics.iter().zip(sums).map(statistic).collect();
    let has_positives = request.positives.n_queries().is_some();
    let ranks = if has_positives { found.iter().map(|found| found.rank).collect() } else { Vec::new() };
    let cut = |mut found: QueryResult| {
        found.top.truncate(request.k);
        found.top
    };
    UnroundedResults { top: found.into_iter().map(cut).collect(), ranks, statistics }
}

/// Visitor that passes scores on to two visitors: top-k lists and ranks, and sums.
struct NearestAndSums<'s>(NearestVisitor<'s>, Option<SumVisitor<'s>>);

impl ScoreVisitor for NearestAndSums<'_> {
    fn begin_stripe(&mut self, stripe: usize) {
        if let Some(sums) = &mut self.1 {
            sums.begin_stripe(stripe);
        }
    }

    fn visit_panel(&mut self, rows: Range<usize>, panel: usize, scores: &[PanelRow]) -> Result<()> {
        self.0.visit_panel(rows.clone(), panel, scores)?;
        self.1.as_mut().map_or(Ok(()), |sums| sums.visit_panel(rows, panel, scores))
    }

    fn end_block(&mut self, rows: Range<usize>) -> Result<()> {
        self.0.end_block(rows.clone())?;
        self.1.as_mut().map_or(Ok(()), |sums| sums.end_block(rows))
    }

    fn end_stripe(&mut self, stripe: usize) {
        if let Some(sums) = &mut self.1 {
            sums.end_stripe(stripe);
        }
    }

    fn is_done(&self) -> bool {
        self.0.is_done()
    }
}
