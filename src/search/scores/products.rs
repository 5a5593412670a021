//! Scores of vectors, computed on the processor.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::OnceLock;

use super::duplicates::Duplicates;
use super::packed::Packed;
use super::scoring::Scoring;
use super::side::Side;
use super::source::{Bound, Consume, Lane, Precision, Scores};
use super::vectors::Vectors;
use crate::error::{Error, Result};
use crate::kernels::identity::Fields;
use crate::kernels::product::{COLUMNS, Extent, Lanes, Left, ROWS, vectors};
use crate::search::threads::in_parts;

/// Bytes of packed rows of a block: with a panel of columns they fit a processor's second cache.
const BLOCK_BYTES: usize = 400 << 10;
/// The longest block.
const LONGEST: usize = 16 * ROWS;

/// Scores of vectors with vectors, by kernels of our own: tiles of a few rows and [`COLUMNS`] columns, each consumed while it
/// lies in the cache.
///
/// Approximate scores are products in f32, and in bf16 where the processor multiplies that. The columns are packed once, for
/// any number of passes, each way when it is first asked for.
///
/// Approximate scores of equal vectors are equal, and have the same bits for any number of threads.
///
/// # Cost
/// `O(width)` a score. Memory: the columns once more, in bf16 half of that, and a norm or two of each vector.
#[derive(Debug)]
pub struct VectorScores<'v> {
    rows: Cow<'v, Vectors<'v>>,
    columns: Cow<'v, Vectors<'v>>,
    scoring: Scoring,
    threads: usize,
    /// True if products in bf16 take less time.
    coarse: bool,
    /// In f32, and in bf16.
    packed: [OnceLock<Packed>; 2],
    /// Duplicates of rows and of columns.
    digests: OnceLock<[blake3::Hash; 2]>,
    duplicates: OnceLock<Option<Duplicates>>,
}

impl<'v> VectorScores<'v> {
    /// Scores of `rows` with `columns`, which are packed and digested on `threads` threads.
    ///
    /// # Errors
    /// The widths differ.
    pub fn new(rows: &'v Vectors<'v>, columns: &'v Vectors<'v>, scoring: Scoring, threads: usize) -> Result<Self> {
        Self::of(Cow::Borrowed(rows), Cow::Borrowed(columns), scoring, threads)
    }

    fn of(rows: Cow<'v, Vectors<'v>>, columns: Cow<'v, Vectors<'v>>, scoring: Scoring, threads: usize) -> Result<Self> {
        let (a, b) = (rows.width(), columns.width());
        if a != b {
            return Err(Error::data(format!("vectors of width {a} cannot be compared with vectors of width {b}")));
        }
        Ok(Self {
            rows,
            columns,
            scoring,
            threads: threads.max(1),
            coarse: scoring == Scoring::Product && vectors(Lanes::Bf16),
            packed: [OnceLock::new(), OnceLock::new()],
            digests: OnceLock::new(),
            duplicates: OnceLock::new(),
        })
    }

    /// With products in bf16 on any processor, or on none.
    #[cfg(test)]
    pub(crate) fn with_coarse(self, coarse: bool) -> Self {
        Self { coarse: coarse && self.scoring == Scoring::Product, ..self }
    }

    /// The rows.
    #[must_use]
    pub fn rows(&self) -> &Vectors<'v> {
        &self.rows
    }

    /// The columns.
    #[must_use]
    pub fn columns(&self) -> &Vectors<'v> {
        &self.columns
    }

    /// The score of a row and a column.
    #[must_use]
    pub fn scoring(&self) -> Scoring {
        self.scoring
    }

    /// Bounds for f32 scores that something else computes, a library on a GPU: each a sum of one f32 product an entry (of
    /// squares, for order similarity), in any order, fused or not; numbers below 2⁻¹²⁶ may count as 0. Nothing is multiplied
    /// in fewer bits, such as TF32. Equal vectors may get scores that differ by rounding.
    #[must_use]
    pub fn bounds_of_any_f32(&self) -> [Vec<Bound>; 2] {
        let width = self.rows.width();
        let extents = [&self.rows, &self.columns]
            .map(|vectors| vectors.norms().iter().map(|&norm| Extent::elsewhere(norm, width)).collect::<Vec<_>>());
        self.scoring.bounds(width, extents.each_ref().map(Vec::as_slice))
    }

    fn vectors(&self, side: Side) -> &Vectors<'v> {
        match side {
            Side::Rows => &self.rows,
            Side::Columns => &self.columns,
        }
    }

    fn packed(&self, lanes: Lanes) -> &Packed {
        self.packed[usize::from(lanes == Lanes::Bf16)]
            .get_or_init(|| Packed::new(lanes, &self.rows, &self.columns, self.threads))
    }

    /// True where the columns were packed: in f32, in bf16.
    #[cfg(test)]
    pub(crate) fn is_packed(&self) -> [bool; 2] {
        self.packed.each_ref().map(|packed| packed.get().is_some())
    }
}

/// Element type of tiles.
fn lanes(precision: Precision) -> Lanes {
    match precision {
        Precision::Coarse => Lanes::Bf16,
        Precision::Fine => Lanes::F32,
    }
}

impl Scores for VectorScores<'_> {
    fn sizes(&self) -> [usize; 2] {
        [self.rows.len(), self.columns.len()]
    }

    fn cost(&self) -> u64 {
        self.rows.width() as u64
    }

    fn has_coarse(&self) -> bool {
        self.coarse
    }

    fn bounds(&self, precision: Precision) -> [Vec<Bound>; 2] {
        self.scoring.bounds(self.rows.width(), self.packed(lanes(precision)).extents())
    }

    fn block_rows(&self, precision: Precision) -> usize {
        let bytes = match precision {
            Precision::Fine => 4 * self.rows.width(),
            Precision::Coarse => 2 * self.rows.width(),
        };
        (BLOCK_BYTES / bytes.max(1) / ROWS * ROWS).clamp(ROWS, LONGEST)
    }

    fn block(
        &self,
        precision: Precision,
        rows: Range<usize>,
        buffer: &mut Vec<Lane>,
        consume: Consume<'_>,
    ) -> Result<()> {
        let lanes = lanes(precision);
        let packed = self.packed(lanes);
        let left = Left::from_rows(lanes, rows.len(), self.rows.width(), |i| self.rows.row(rows.start + i));
        buffer.resize(rows.len(), [0.0; COLUMNS]);
        for panel in 0..self.columns.len().div_ceil(COLUMNS) {
            let right = packed.panel(panel);
            for (scores, (_, left)) in buffer.chunks_mut(ROWS).zip(left.panels()) {
                self.scoring.tile(lanes, left, right, scores);
            }
            consume(panel, buffer)?;
        }
        Ok(())
    }

    fn exact(&self, side: Side, query: usize, items: &[usize], scores: &mut Vec<f32>) -> Result<()> {
        let others = self.vectors(side.other());
        let items: Vec<&[f32]> = items.iter().map(|&item| others.row(item)).collect();
        scores.clear();
        self.scoring.exact(side, self.vectors(side).row(query), &items, scores);
        Ok(())
    }

    fn duplicates(&self) -> Option<&Duplicates> {
        let digests = |vectors: &Vectors<'_>| {
            let digest = |i: usize| *blake3::hash(&bytes(vectors.row(i))).as_bytes();
            in_parts(self.threads, vectors.len(), |part| part.map(digest).collect::<Vec<_>>()).concat()
        };
        let find = || Duplicates::of([digests(&self.rows), digests(&self.columns)]);
        self.duplicates.get_or_init(find).as_ref()
    }

    fn subset(&self, side: Side, queries: &[usize], items: &[usize]) -> Result<Option<Box<dyn Scores + '_>>> {
        let [queries, items] =
            [(side, queries), (side.other(), items)].map(|(side, some)| Cow::Owned(self.vectors(side).subset(some)));
        Ok(Some(Box::new(Self::of(queries, items, self.scoring.from(side), self.threads)?)))
    }

    fn identity(&self, fields: &mut Fields<'_>) {
        let [rows, columns] =
            self.digests.get_or_init(|| [&self.rows, &self.columns].map(|vectors| digest(vectors, self.threads)));
        fields.text("vectors");
        self.scoring.identity(fields);
        fields.number(self.rows.width());
        fields.bytes(rows.as_bytes());
        fields.bytes(columns.as_bytes());
    }
}

fn bytes(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// A digest of all values, the same for any number of threads.
fn digest(vectors: &Vectors<'_>, threads: usize) -> blake3::Hash {
    /// Vectors that are digested together.
    const TOGETHER: usize = 1024;
    let group = |group: usize| {
        let mut hasher = blake3::Hasher::new();
        for row in group * TOGETHER..vectors.len().min((group + 1) * TOGETHER) {
            hasher.update(&bytes(vectors.row(row)));
        }
        hasher.finalize()
    };
    let groups = in_parts(threads, vectors.len().div_ceil(TOGETHER), |part| part.map(group).collect::<Vec<_>>());
    let mut hasher = blake3::Hasher::new();
    for group in groups.into_iter().flatten() {
        hasher.update(group.as_bytes());
    }
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_as_many_whole_tiles_as_fit_the_cache() {
        for width in [1, 300, 1024, 2048, 8192, 100_000] {
            let values = vec![1.0; width];
            let one = Vectors::new("one", &values, width).expect("good");
            let scores = VectorScores::new(&one, &one, Scoring::Product, 1).expect("of one width");
            for (precision, bytes) in [(Precision::Fine, 4), (Precision::Coarse, 2)] {
                let rows = scores.block_rows(precision);
                assert!(rows > 0 && rows.is_multiple_of(ROWS), "{precision:?} {width}: {rows}");
                assert!(rows == ROWS || rows * width * bytes <= BLOCK_BYTES, "{precision:?} {width}: {rows}");
                assert!(
                    rows == LONGEST || (rows + ROWS) * width * bytes > BLOCK_BYTES,
                    "{precision:?} {width}: {rows}"
                );
            }
        }
    }
}
