//! Section of a pass that is scanned alone.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use super::blocks::Scan;
use super::find::{prepare, scan_pass};
use super::nearest::QueryState;
use super::resume::PassState;
use crate::checkpoint::{SearchProgress, Sections};
use crate::request::SearchRequest;
use pairloom_base::error::Result;

/// Best rows of every column among those of the sections of a pass that a worker has scanned.
///
/// A row that is worse than k of these cannot be among the k best of all rows. So each further section of the worker has
/// fewer candidates, computes fewer exact scores, and returns shorter lists.
#[derive(Debug, Default)]
pub struct KnownColumns(Mutex<ScannedSections>);

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
        for (known, of_section) in columns.iter_mut().zip(section) {
            if is_new {
                known.merge(of_section.clone(), keep);
            }
            of_section.drop_worse(known, keep);
        }
    }
}

/// Results of a pass over `stripes` alone, encoded for
/// [`SearchPass::merge_section`](super::resume::SearchPass::merge_section). The stripes are whole groups, and `known` has
/// the sections of this pass that were scanned before; the merged results do not depend on it.
///
/// # Errors
/// An invalid request; or the first error of `progress` or of the source.
pub fn find_section(
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
