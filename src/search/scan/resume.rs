//! Resumption of a search pass: saves its state after each section, and restores it.

use std::ops::Range;
use std::sync::Arc;

use super::nearest::QueryState;
use super::ordered_sum::parts_per_group;
use super::stripes::{stripe_count, stripe_rows_range};
use super::sums::{ColumnTotals, SumStatistics};
use crate::checkpoint::{PayloadReader, PayloadWriter, SearchProgress, Sections};
use crate::request::SearchRequest;
use crate::results::UnroundedResults;
use pairloom_base::error::Result;

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
        let wanted = self.list_lengths[1].min(self.counts[0]);
        state.columns.len() == self.counts[1] && state.columns.iter().all(|known| known.n_best() == wanted)
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
        for (known, of_section) in state.columns.iter_mut().zip(columns) {
            known.merge(of_section, self.list_lengths[1]);
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
