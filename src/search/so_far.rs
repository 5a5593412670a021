//! What one pass has found when some of its sections are done, and how it is kept.

use super::Watch;
use super::ask::{Ask, Unrounded};
use super::find::answer;
use super::nearest::Known;
use super::pass::rows_of;
use super::section::Sections;
use super::sums::{OfColumns, Summed};
use super::words::{Reader, Writer};
use crate::error::Result;

/// What a pass is to find.
#[derive(Debug)]
pub(super) struct Pass<'p> {
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
pub(super) struct SoFar {
    /// The next one.
    pub section: usize,
    /// Of the rows of those before.
    pub rows: Unrounded,
    /// Of all columns; nothing before the first section. Their sums are with [`Summed`].
    pub columns: Vec<Known>,
}

/// Names of what is kept of a section.
const ROWS: &str = "rows";
const COLUMNS: &str = "columns";

impl Pass<'_> {
    /// What was kept: the most sections from the first on whose rows are all there, and the columns after the last of them.
    pub fn resume(&self, watch: Watch<'_>) -> Result<SoFar> {
        let mut rows = Vec::new();
        for (section, stripes) in self.sections.stripes.iter().enumerate() {
            let of_section = rows_of(stripes, self.counts[0]).len();
            let kept = self.sections.kept(ROWS, section, watch)?;
            match kept.and_then(|words| Unrounded::read(&words, self.asks[0], of_section, self.counts[1])) {
                Some(answer) => rows.push(answer),
                None => break,
            }
        }
        while let Some(last) = rows.len().checked_sub(1) {
            let kept = self.sections.kept(COLUMNS, last, watch)?;
            if let Some((columns, sums)) = kept.and_then(|words| self.read_columns(last, &words)) {
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
    pub fn done(&self, so_far: &mut SoFar, rows: Unrounded, columns: Vec<Known>, watch: Watch<'_>) -> Result<()> {
        self.sections.keep(COLUMNS, so_far.section, watch, || {
            let mut words = Writer::default();
            for known in &columns {
                known.write(&mut words);
            }
            if let Some(summed) = &self.summed {
                summed.write(&mut words);
            }
            words.0
        })?;
        self.sections.keep(ROWS, so_far.section, watch, || rows.write())?;
        so_far.section += 1;
        so_far.rows.append(rows);
        so_far.columns = columns;
        Ok(())
    }

    /// What rows and columns found, when all sections are done.
    pub fn finish(&self, so_far: SoFar) -> [Unrounded; 2] {
        let asked = self.asks[1];
        let found = so_far.columns.into_iter().enumerate();
        let found = found.map(|(column, known)| known.found(asked.positives.any(column))).collect();
        let sums = self.summed.as_ref().map(|summed| summed.of_columns(asked.statistics));
        [so_far.rows, answer(asked, found, sums)]
    }

    /// What columns know after a section, and their sums.
    fn read_columns(&self, section: usize, words: &[i32]) -> Option<(Vec<Known>, Option<OfColumns>)> {
        let mut words = Reader(words);
        let seen = rows_of(&self.sections.stripes[section], self.counts[0]).end;
        let known = (0..self.counts[1]).map(|_| Known::read(&mut words, seen, self.keep[1]));
        let known = known.collect::<Option<Vec<_>>>()?;
        let sums = match &self.summed {
            Some(summed) => Some(summed.read(&mut words)?),
            None => None,
        };
        words.end()?;
        Some((known, sums))
    }
}
