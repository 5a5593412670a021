//! Whole rows of scores, for methods that correct a score by more than a number of its item.

use std::ops::Range;

use super::blocks::{Scan, Visitor};
use super::stripes::{rows_of, stripes};
use crate::error::Result;
use crate::kernels::hubness::matching::Candidate;
use crate::kernels::hubness::method::Correction;
use crate::kernels::identity::Fields;
use crate::kernels::measure::rank::best_rank;
use crate::kernels::product::COLUMNS;
use crate::kernels::top_k::{Scored, top_k};
use crate::search::answer::{Answer, Unrounded};
use crate::search::checkpoint::{Progress, Sections};
use crate::search::question::Ask;
use crate::search::scores::{Lane, Precision};

/// Results of `work` on every row of these stripes, in the order of the rows.
///
/// # Errors
/// The first error of `progress` or of the source.
pub fn map_rows<T: Send>(
    scan: &Scan<'_>,
    stripes: Range<usize>,
    work: &(impl Fn(usize, &mut [f32]) -> T + Sync),
    progress: &mut dyn Progress,
) -> Result<Vec<T>> {
    let columns = scan.scores.sizes()[1];
    let visitor = |_| Rows { columns, work, scores: Vec::new(), made: Vec::new() };
    let visitors = scan.run(Precision::Fine, stripes, (0..scan.threads).map(visitor).collect(), progress)?;
    let mut made: Vec<(usize, T)> = visitors.into_iter().flat_map(|visitor| visitor.made).collect();
    made.sort_unstable_by_key(|&(row, _)| row);
    Ok(made.into_iter().map(|(_, made)| made).collect())
}

/// Ranks the columns for every row by the row's scores as `correction` leaves them; `ask` says how many and which match.
///
/// # Errors
/// A question that has no answer; or the first error of `progress` or of the source.
pub fn rank_corrected(
    scan: &Scan<'_>,
    ask: &Ask<'_>,
    correction: &dyn Correction,
    progress: &mut dyn Progress,
) -> Result<Answer> {
    let [rows, columns] = scan.scores.sizes();
    ask.keep(rows, columns)?;
    let work = |row: usize, scores: &mut [f32]| {
        correction.row(row, scores);
        (top_k(scores, ask.k), best_rank(scores, &ask.positives.of(row)))
    };
    let identity = |fields: &mut Fields<'_>| {
        fields.text("rank_corrected");
        ask.identity(fields);
        correction.identity(fields);
        scan.scores.identity(fields);
    };
    let sections = Sections::new(stripes(rows), scan.cost(), identity, progress);
    let mut all = Unrounded::default();
    for (section, stripes) in sections.stripes.iter().enumerate() {
        let of_section = rows_of(stripes, rows).len();
        let saved = sections.load("corrected", section, progress)?;
        if let Some(saved) = saved.and_then(|payload| Unrounded::read(&payload, ask, of_section, columns)) {
            all.append(saved);
            progress.report(all.top.len() as u64, rows as u64)?;
            continue;
        }
        let candidate = |best: Scored| Candidate { item: best.item, score: best.score.into() };
        let (top, mut ranks): (Vec<Vec<_>>, Vec<_>) =
            map_rows(scan, stripes.clone(), &work, progress)?.into_iter().unzip();
        if ask.positives.queries().is_none() {
            ranks.clear();
        }
        let top = top.into_iter().map(|top| top.into_iter().map(candidate).collect()).collect();
        let answer = Unrounded { top, ranks, statistics: Vec::new() };
        sections.save("corrected", section, progress, || answer.write())?;
        all.append(answer);
    }
    Ok(all.rounded())
}

/// Work of one thread.
struct Rows<'w, T, W> {
    columns: usize,
    work: &'w W,
    /// Values of the block, row by row.
    scores: Vec<f32>,
    made: Vec<(usize, T)>,
}

impl<T: Send, W: Fn(usize, &mut [f32]) -> T + Sync> Visitor for Rows<'_, T, W> {
    const HOLDS_BLOCK: bool = true;

    fn panel(&mut self, rows: Range<usize>, panel: usize, scores: &[Lane]) -> Result<()> {
        self.scores.resize(rows.len() * self.columns, 0.0);
        let first = panel * COLUMNS;
        let used = (self.columns - first).min(COLUMNS);
        for (to, scores) in self.scores.chunks_exact_mut(self.columns).zip(scores) {
            to[first..first + used].copy_from_slice(&scores[..used]);
        }
        Ok(())
    }

    fn block(&mut self, rows: Range<usize>) -> Result<()> {
        for (i, row) in rows.enumerate() {
            let scores = &mut self.scores[i * self.columns..][..self.columns];
            self.made.push((row, (self.work)(row, scores)));
        }
        Ok(())
    }
}
