//! Search pass: top-k lists, ranks and statistics of both sides in one scan, resumed from the state after each section.
//!
//! Threads compute blocks of rows, and visitors process each panel while it lies in the cache.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use self::nearest::{NearestContext, NearestVisitor, QueryResult, QueryState, SideQueries};
use self::sums::{ColumnTotals, SumStatistics, SumVisitor, is_sum_statistic};
use crate::checkpoint::{PayloadReader, PayloadWriter, SearchProgress, Sections};
use crate::request::{SearchRequest, UnroundedResults};
use crate::scores::{MatrixSide, PanelRow, ScorePrecision};
use pairloom_base::error::{Error, Result};
use pairloom_kernels::hubness::method::Statistic;
use pairloom_kernels::hubness::relaxed_greedy::MatchCandidate;
use pairloom_kernels::identity::IdentityWriter;

pub(super) use blocks::{Scan, ScanOverrides, ScoreVisitor, stripe_count, stripe_rows_range};
pub(super) use rows::{map_rows, rank_corrected};
pub(super) use sums::{OrderedSum, parts_per_group, to_f32};

mod blocks;
mod candidates;
mod nearest;
mod sums;
mod rows;

/// Answers the requests of rows for columns and of columns for rows, in one pass.
///
/// # Errors
/// An invalid request; or the first error of `progress` or of the source.
pub(super) fn find(
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
pub(super) fn candidates(
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
pub(super) fn prepare<'p>(
    scan: &Scan<'_>,
    requests: [&'p SearchRequest<'p>; 2],
    sections: Sections,
) -> Result<SearchPass<'p>> {
    let counts = scan.scores.shape();
    if let Some(count) = counts.iter().find(|&&count| u32::try_from(count).is_err()) {
        return Err(Error::data(format!("got {count} vectors on one side, expected fewer than 2³²")));
    }
    let list_lengths = [requests[0].list_length(counts[0], counts[1])?, requests[1].list_length(counts[1], counts[0])?];
    let sums = SumStatistics::new(scan, requests.map(|request| request.statistics))?;
    Ok(SearchPass { requests, list_lengths, counts, sums, sections, known_columns: Arc::default() })
}

/// Results of a pass whose state is complete.
pub(super) fn results(pass: &SearchPass<'_>, state: PassState) -> [UnroundedResults; 2] {
    let request = pass.requests[1];
    let columns = state.columns.into_iter().enumerate();
    let columns = columns.map(|(column, known)| known.into_result(request.positives.has_any(column))).collect();
    let sums = pass.sums.as_ref().map(|summed| summed.column_statistics(request.statistics));
    [state.rows, side_results(request, columns, sums)]
}

/// Scans all remaining sections: with coarse scores, if these are faster and suffice.
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
        let row_stripes = stripe_rows_range(stripes, pass.counts[0]);
        let sums = summed
            .map(|summed| summed.row_statistics(rows.statistics, row_stripes, sums.into_iter().flatten().collect()));
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

/// Best rows of every column among those of the sections of a pass that a worker has scanned.
///
/// A row that is worse than k of these cannot be among the k best of all rows. So each further section of the worker has
/// fewer candidates, computes fewer exact scores, and returns shorter lists.
#[derive(Debug, Default)]
pub(super) struct KnownColumns(Mutex<ScannedSections>);

#[derive(Debug, Default)]
struct ScannedSections {
    /// First stripes of the sections. A section that is scanned again has no new rows.
    starts: BTreeSet<usize>,
    columns: Arc<Vec<QueryState>>,
}

impl KnownColumns {
    fn columns(&self) -> Arc<Vec<QueryState>> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner).columns)
    }

    /// Adds the best rows of the section that starts at a stripe, of which `keep` are kept for each column, and drops from
    /// the section those that are worse than all kept ones.
    fn add(&self, start: usize, section: &mut [QueryState], keep: usize) {
        let mut scanned = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = scanned.starts.insert(start);
        let columns = Arc::make_mut(&mut scanned.columns);
        columns.resize(section.len(), QueryState::default());
        for (known, section_part) in columns.iter_mut().zip(section) {
            if is_new {
                known.merge(section_part.clone(), keep);
            }
            section_part.drop_worse(known, keep);
        }
    }
}

/// Results of a pass over `stripes` alone, encoded for
/// [`SearchPass::merge_section`](SearchPass::merge_section). The stripes are whole groups, and `known` has
/// the sections of this pass that were scanned before; the merged results do not depend on it.
///
/// # Errors
/// An invalid request; or the first error of `progress` or of the source.
pub(super) fn find_section(
    scan: &Scan<'_>,
    requests: [&SearchRequest<'_>; 2],
    stripes: Range<usize>,
    known: &KnownColumns,
    progress: &mut dyn SearchProgress,
) -> Result<Vec<i32>> {
    let mut pass = prepare(scan, requests, Sections::without_checkpoints(vec![stripes.clone()]))?;
    pass.known_columns = known.columns();
    if let Some(sums) = &pass.sums {
        sums.keep_groups(stripes.clone());
    }
    let mut state = PassState::default();
    scan_pass(scan, &pass, &mut state, progress)?;
    // Without it the states of the columns are changed in place.
    pass.known_columns = Arc::default();
    known.add(stripes.start, &mut state.columns, pass.list_lengths[1]);
    Ok(pass.section_payload(&state))
}

/// Search pass: its requests and its sections.
#[derive(Debug)]
pub struct SearchPass<'p> {
    /// Requests of rows and of columns. All pairs of fields are in this order.
    pub requests: [&'p SearchRequest<'p>; 2],
    /// Number of best items kept for each query.
    pub list_lengths: [usize; 2],
    pub counts: [usize; 2],
    pub sums: Option<SumStatistics>,
    pub sections: Sections,
    /// States of all columns after rows outside of the pass; empty if there were none. They only save work.
    pub known_columns: Arc<Vec<QueryState>>,
}

/// State of a pass after some sections.
#[derive(Debug, Default)]
pub(super) struct PassState {
    /// Next section.
    pub section: usize,
    /// Results of the rows of the sections before.
    pub rows: UnroundedResults,
    /// State of all columns; empty before the first section. Their sums are in [`SumStatistics`].
    pub columns: Vec<QueryState>,
}

/// Names of the parts of a checkpoint.
const ROWS: &str = "rows";
const COLUMNS: &str = "columns";

impl SearchPass<'_> {
    /// Loads the state of the pass: all leading sections whose rows were saved, and the columns after the last of
    /// these.
    pub fn resume(&self, progress: &mut dyn SearchProgress) -> Result<PassState> {
        let mut rows = Vec::new();
        for (section, stripes) in self.sections.stripes.iter().enumerate() {
            let section_part = stripe_rows_range(stripes, self.counts[0]).len();
            let saved = self.sections.load(ROWS, section, progress)?;
            match saved.and_then(|payload| {
                UnroundedResults::from_payload(&payload, self.requests[0], section_part, self.counts[1])
            }) {
                Some(results) => rows.push(results),
                None => break,
            }
        }
        while let Some(last) = rows.len().checked_sub(1) {
            let saved = self.sections.load(COLUMNS, last, progress)?;
            let seen = 0..stripe_rows_range(&self.sections.stripes[last], self.counts[0]).end;
            if let Some((columns, sums)) = saved.and_then(|payload| self.read_columns(seen, usize::MAX, 1, &payload)) {
                if let (Some(summed), Some(sums)) = (&self.sums, sums.into_iter().next()) {
                    summed.resume(sums, self.sections.stripes[last].end);
                }
                let mut state = PassState { section: rows.len(), columns, ..PassState::default() };
                for results in rows {
                    state.rows.append(results);
                }
                return Ok(state);
            }
            rows.pop();
        }
        Ok(PassState::default())
    }

    /// Ends a section: saves the results of its rows and the state of all columns, and adds them to the state.
    pub fn finish_section(
        &self,
        state: &mut PassState,
        rows: UnroundedResults,
        columns: Vec<QueryState>,
        progress: &mut dyn SearchProgress,
    ) -> Result<()> {
        self.sections
            .save(COLUMNS, state.section, progress, || self.columns_payload(&columns, SumStatistics::write))?;
        self.sections.save(ROWS, state.section, progress, || rows.to_payload())?;
        state.section += 1;
        state.rows.append(rows);
        state.columns = columns;
        Ok(())
    }

    /// True if every column has as many best rows as it can have.
    pub fn is_complete(&self, state: &PassState) -> bool {
        let expected = self.list_lengths[1].min(self.counts[0]);
        state.columns.len() == self.counts[1] && state.columns.iter().all(|known| known.n_best() == expected)
    }

    /// Encodes the results of a section that was scanned alone: of its rows, and the state of all columns.
    pub fn section_payload(&self, state: &PassState) -> Vec<i32> {
        let rows = state.rows.to_payload();
        let mut payload = PayloadWriter::default();
        payload.write_index(rows.len());
        payload.0.extend(rows);
        payload.0.extend(self.columns_payload(&state.columns, SumStatistics::write_groups));
        payload.0
    }

    /// Adds the results of the next section, which [`SearchPass::section_payload`] encoded; `None` if they do not fit.
    pub fn merge_section(&self, state: &mut PassState, payload: &[i32]) -> Option<()> {
        let stripes = self.sections.stripes.get(state.section)?;
        let own = stripe_rows_range(stripes, self.counts[0]);
        let mut reader = PayloadReader(payload);
        let length = reader.read_index(payload.len())?;
        let (rows, columns) = reader.0.split_at_checked(length)?;
        let rows = UnroundedResults::from_payload(rows, self.requests[0], own.len(), self.counts[1])?;
        let groups = stripes.len().div_ceil(parts_per_group(stripe_count(self.counts[0])));
        // A section drops rows that are worse than those that its worker knows from other sections.
        let (columns, sums) = self.read_columns(own, 0, groups, columns)?;
        state.rows.append(rows);
        state.columns.resize(columns.len(), QueryState::default());
        for (known, section_part) in state.columns.iter_mut().zip(columns) {
            known.merge(section_part, self.list_lengths[1]);
        }
        if let Some(all) = &self.sums {
            for group in sums {
                all.add_group(group);
            }
        }
        state.section += 1;
        Some(())
    }

    fn columns_payload(
        &self,
        columns: &[QueryState],
        write_sums: impl FnOnce(&SumStatistics, &mut PayloadWriter),
    ) -> Vec<i32> {
        let mut payload = PayloadWriter::default();
        for known in columns {
            known.write(&mut payload);
        }
        if let Some(sums) = &self.sums {
            write_sums(sums, &mut payload);
        }
        payload.0
    }

    /// Decodes the state of all columns that were compared with the rows `seen`, and their sums over `groups` groups. A
    /// column has at least `least` best rows, or as many as it can have.
    fn read_columns(
        &self,
        seen: Range<usize>,
        least: usize,
        groups: usize,
        payload: &[i32],
    ) -> Option<(Vec<QueryState>, Vec<ColumnTotals>)> {
        let mut payload = PayloadReader(payload);
        let most = self.list_lengths[1].min(seen.len());
        let counts = least.min(most)..=most;
        let known = (0..self.counts[1]).map(|_| QueryState::read(&mut payload, &seen, &counts));
        let known = known.collect::<Option<Vec<_>>>()?;
        let sums = match &self.sums {
            Some(sums) => (0..groups).map(|_| sums.read(&mut payload)).collect::<Option<Vec<_>>>()?,
            None => Vec::new(),
        };
        payload.finish()?;
        Some((known, sums))
    }
}
