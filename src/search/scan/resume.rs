//! Resumption of a pass: what it has found when some of its sections are done, in checkpoints and out of them again.

use super::nearest::Known;
use super::stripes::rows_of;
use super::sums::{OfColumns, Summed};
use crate::error::Result;
use crate::search::answer::Unrounded;
use crate::search::checkpoint::{Progress, Reader, Sections, Writer};
use crate::search::question::Ask;

/// A pass, and what it is to find.
#[derive(Debug)]
pub struct Pass<'p> {
    /// Of rows and of columns, as all that follows.
    pub asks: [&'p Ask<'p>; 2],
    /// Items that are kept of each.
    pub keep: [usize; 2],
    pub counts: [usize; 2],
    pub summed: Option<Summed>,
    pub sections: Sections,
}

/// After some sections.
#[derive(Debug, Default)]
pub struct SoFar {
    /// The next one.
    pub section: usize,
    /// Of the rows of those before.
    pub rows: Unrounded,
    /// Of all columns; nothing before the first section. Their sums are with [`Summed`].
    pub columns: Vec<Known>,
}

/// Parts of a section that are saved.
const ROWS: &str = "rows";
const COLUMNS: &str = "columns";

impl Pass<'_> {
    /// What was kept: the most sections from the first on whose rows are all there, and the columns after the last of them.
    pub fn resume(&self, progress: &mut dyn Progress) -> Result<SoFar> {
        let mut rows = Vec::new();
        for (section, stripes) in self.sections.stripes.iter().enumerate() {
            let of_section = rows_of(stripes, self.counts[0]).len();
            let kept = self.sections.load(ROWS, section, progress)?;
            match kept.and_then(|payload| Unrounded::read(&payload, self.asks[0], of_section, self.counts[1])) {
                Some(answer) => rows.push(answer),
                None => break,
            }
        }
        while let Some(last) = rows.len().checked_sub(1) {
            let kept = self.sections.load(COLUMNS, last, progress)?;
            if let Some((columns, sums)) = kept.and_then(|payload| self.read_columns(last, &payload)) {
                if let (Some(summed), Some(sums)) = (&self.summed, sums) {
                    summed.go_on(sums, self.sections.stripes[last].end);
                }
                let mut so_far = SoFar { section: rows.len(), columns, ..SoFar::default() };
                for answer in rows {
                    so_far.rows.append(answer);
                }
                return Ok(so_far);
            }
            rows.pop();
        }
        Ok(SoFar::default())
    }

    /// One more section is done, whose rows and all columns found this.
    pub fn done(
        &self,
        so_far: &mut SoFar,
        rows: Unrounded,
        columns: Vec<Known>,
        progress: &mut dyn Progress,
    ) -> Result<()> {
        self.sections.save(COLUMNS, so_far.section, progress, || {
            let mut payload = Writer::default();
            for known in &columns {
                known.write(&mut payload);
            }
            if let Some(summed) = &self.summed {
                summed.write(&mut payload);
            }
            payload.0
        })?;
        self.sections.save(ROWS, so_far.section, progress, || rows.write())?;
        so_far.section += 1;
        so_far.rows.append(rows);
        so_far.columns = columns;
        Ok(())
    }

    /// What columns know after a section, and their sums.
    fn read_columns(&self, section: usize, payload: &[i32]) -> Option<(Vec<Known>, Option<OfColumns>)> {
        let mut payload = Reader(payload);
        let seen = rows_of(&self.sections.stripes[section], self.counts[0]).end;
        let known = (0..self.counts[1]).map(|_| Known::read(&mut payload, seen, self.keep[1]));
        let known = known.collect::<Option<Vec<_>>>()?;
        let sums = match &self.summed {
            Some(summed) => Some(summed.read(&mut payload)?),
            None => None,
        };
        payload.end()?;
        Some((known, sums))
    }
}
