//! Resumption of a search pass: saves its state after each section, and restores it.

use super::nearest::QueryState;
use super::stripes::stripe_rows_range;
use super::sums::{ColumnTotals, SumStatistics};
use crate::error::Result;
use crate::search::checkpoint::{PayloadReader, PayloadWriter, SearchProgress, Sections};
use crate::search::request::SearchRequest;
use crate::search::results::UnroundedResults;

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
}

/// State of a pass after some sections.
#[derive(Debug, Default)]
pub struct PassState {
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
            let of_section = stripe_rows_range(stripes, self.counts[0]).len();
            let saved = self.sections.load(ROWS, section, progress)?;
            match saved.and_then(|payload| {
                UnroundedResults::from_payload(&payload, self.requests[0], of_section, self.counts[1])
            }) {
                Some(results) => rows.push(results),
                None => break,
            }
        }
        while let Some(last) = rows.len().checked_sub(1) {
            let saved = self.sections.load(COLUMNS, last, progress)?;
            if let Some((columns, sums)) = saved.and_then(|payload| self.read_columns(last, &payload)) {
                if let (Some(summed), Some(sums)) = (&self.sums, sums) {
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
        self.sections.save(COLUMNS, state.section, progress, || {
            let mut payload = PayloadWriter::default();
            for known in &columns {
                known.write(&mut payload);
            }
            if let Some(summed) = &self.sums {
                summed.write(&mut payload);
            }
            payload.0
        })?;
        self.sections.save(ROWS, state.section, progress, || rows.to_payload())?;
        state.section += 1;
        state.rows.append(rows);
        state.columns = columns;
        Ok(())
    }

    /// Decodes the state of all columns after a section, and their sums.
    fn read_columns(&self, section: usize, payload: &[i32]) -> Option<(Vec<QueryState>, Option<ColumnTotals>)> {
        let mut payload = PayloadReader(payload);
        let seen = stripe_rows_range(&self.sections.stripes[section], self.counts[0]).end;
        let known = (0..self.counts[1]).map(|_| QueryState::read(&mut payload, seen, self.list_lengths[1]));
        let known = known.collect::<Option<Vec<_>>>()?;
        let sums = match &self.sums {
            Some(summed) => Some(summed.read(&mut payload)?),
            None => None,
        };
        payload.finish()?;
        Some((known, sums))
    }
}
