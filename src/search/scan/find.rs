//! Everything that one pass finds.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use super::blocks::{Scan, Visitor};
use super::nearest::{Asked, Found, Nearest, Queries};
use super::resume::{Pass, SoFar};
use super::stripes::{rows_of, stripes};
use super::sums::{Summed, Sums, is_sum};
use crate::error::{Error, Result};
use crate::kernels::hubness::matching::Candidate;
use crate::kernels::hubness::statistic::Statistic;
use crate::kernels::identity::Fields;
use crate::search::answer::{Answer, Unrounded};
use crate::search::checkpoint::{Progress, Sections};
use crate::search::question::Ask;
use crate::search::scores::{Lane, Precision, Side};

/// Questions of rows to columns and of columns to rows, in one pass.
///
/// # Errors
/// A question that has no answer; or the first error of `progress` or of the source.
pub fn find(scan: &Scan<'_>, asks: [&Ask<'_>; 2], progress: &mut dyn Progress) -> Result<[Answer; 2]> {
    Ok(found(scan, asks, progress)?.map(Unrounded::rounded))
}

/// The best items of rows and of columns alone, with what they are ranked by in f64.
///
/// # Errors
/// As [`find`].
pub fn candidates(
    scan: &Scan<'_>,
    asks: [&Ask<'_>; 2],
    progress: &mut dyn Progress,
) -> Result<[Vec<Vec<Candidate>>; 2]> {
    Ok(found(scan, asks, progress)?.map(|found| found.top))
}

fn found(scan: &Scan<'_>, asks: [&Ask<'_>; 2], progress: &mut dyn Progress) -> Result<[Unrounded; 2]> {
    let counts = scan.scores.sizes();
    if let Some(count) = counts.iter().find(|&&count| u32::try_from(count).is_err()) {
        return Err(Error::data(format!("got a side of {count} vectors, wanted fewer than 2³²")));
    }
    let keep = [asks[0].keep(counts[0], counts[1])?, asks[1].keep(counts[1], counts[0])?];
    let summed = Summed::new(scan, [asks[0].statistics, asks[1].statistics])?;
    let identity = |fields: &mut Fields<'_>| {
        fields.text("find");
        for ask in asks {
            ask.identity(fields);
        }
        scan.scores.identity(fields);
    };
    let sections = Sections::new(stripes(counts[0]), scan.cost(), identity, progress);
    let coarse = summed.is_none() && scan.scores.has_coarse() && scan.forced.precision != Some(Precision::Fine);
    let mut precision = if coarse { Precision::Coarse } else { Precision::Fine };
    let pass = Pass { asks, keep, counts, summed, sections };
    let mut so_far = pass.resume(progress)?;
    progress.report(so_far.rows.top.len() as u64, counts[0] as u64)?;
    while so_far.section < pass.sections.stripes.len() {
        if look(scan, precision, &pass, &mut so_far, progress)? {
            break;
        }
        precision = Precision::Fine;
    }
    let columns = so_far.columns.into_iter().enumerate();
    let columns = columns.map(|(column, known)| known.found(asks[1].positives.any(column))).collect();
    let sums = pass.summed.as_ref().map(|summed| summed.of_columns(asks[1].statistics));
    Ok([so_far.rows, answer(asks[1], columns, sums)])
}

/// Goes on to the end of a pass, or to where coarse scores leave too much in doubt, and then says no.
fn look(
    scan: &Scan<'_>,
    precision: Precision,
    pass: &Pass<'_>,
    so_far: &mut SoFar,
    progress: &mut dyn Progress,
) -> Result<bool> {
    let [row_bounds, column_bounds] = scan.scores.bounds(precision);
    let [rows, columns] = pass.asks;
    let asked = Asked {
        scan: *scan,
        rows: Queries::new(scan, Side::Rows, *rows, pass.keep[0], &row_bounds)?,
        columns: Queries::new(scan, Side::Columns, *columns, pass.keep[1], &column_bounds)?,
        may_give_up: precision == Precision::Coarse && scan.forced.precision.is_none(),
        given_up: AtomicBool::new(false),
    };
    let summed = pass.summed.as_ref();
    while let Some(stripes) = pass.sections.stripes.get(so_far.section) {
        let visitor = |_| Both(Nearest::new(&asked, &so_far.columns), summed.map(Sums::new));
        let visitors = (0..scan.threads).map(visitor).collect();
        let visitors = scan.run(precision, stripes.clone(), visitors, progress)?;
        if asked.given_up.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let (nearest, sums): (Vec<_>, Vec<_>) = visitors.into_iter().map(|Both(nearest, sums)| (nearest, sums)).unzip();
        let (found, known) = Nearest::finish(&asked, nearest, &so_far.columns)?;
        let of_rows = rows_of(stripes, pass.counts[0]);
        let sums = summed.map(|summed| summed.of_rows(rows.statistics, of_rows, sums.into_iter().flatten().collect()));
        pass.done(so_far, answer(rows, found, sums), known, progress)?;
    }
    Ok(true)
}

/// Answer to the queries of one side.
#[expect(clippy::cast_possible_truncation, reason = "statistics are of f32 scores")]
fn answer(ask: &Ask<'_>, found: Vec<Found>, sums: Option<Vec<Vec<f64>>>) -> Unrounded {
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

    fn panel(&mut self, rows: Range<usize>, panel: usize, scores: &[Lane]) -> Result<()> {
        self.0.panel(rows.clone(), panel, scores)?;
        self.1.as_mut().map_or(Ok(()), |sums| sums.panel(rows, panel, scores))
    }

    fn block(&mut self, rows: Range<usize>) -> Result<()> {
        self.0.block(rows.clone())?;
        self.1.as_mut().map_or(Ok(()), |sums| sums.block(rows))
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
