//! Scores of vectors, computed on the CPU.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::OnceLock;

use az::SaturatingAs;

use super::MatrixSide;
use super::ScoreBound;
use super::score_function::ScoreFunction;
use super::vector_matrix::{Duplicates, ScoredVectors, VectorMatrix};
use super::{ConsumePanel, PanelRow, ScorePrecision, Scores};
use crate::threads::parallel_ranges;
use pairloom_base::error::{Error, Result};
use pairloom_kernels::identity::IdentityWriter;
use pairloom_kernels::product::{ElementType, LeftFactor, NormBound, RightFactor, TILE_COLUMNS, TILE_ROWS, has_avx512};

/// Bytes of the packed rows of a block. With a panel of columns they fit the L2 cache of a CPU.
const BLOCK_BYTES: usize = 400 << 10;
/// Maximum number of rows of a block.
const MAX_BLOCK_ROWS: usize = 16 * TILE_ROWS;

/// Scores of vectors with vectors on the CPU: the product kernel computes tiles of a few rows and [`TILE_COLUMNS`]
/// columns, and each is consumed while it lies in the cache.
///
/// Approximate scores are products in f32, or in bf16 if the CPU has instructions for it. The columns are packed once
/// for any number of passes, in each of the two types when it is first needed.
///
/// Approximate scores of equal vectors are equal, and have the same bits for any number of threads.
///
/// # Cost
/// `O(width)` a score. Memory: a copy of the columns, half as large in bf16, and a norm or two of each vector.
#[derive(Debug)]
pub struct VectorScores<'v> {
    rows: Cow<'v, VectorMatrix<'v>>,
    columns: Cow<'v, VectorMatrix<'v>>,
    score_function: ScoreFunction,
    threads: usize,
    /// True if products in bf16 take less time.
    coarse: bool,
    /// Packed columns in f32 and in bf16.
    packed: [OnceLock<PackedVectors>; 2],
    /// Digests of the rows and of the columns.
    digests: OnceLock<[blake3::Hash; 2]>,
    duplicates: OnceLock<Option<Duplicates>>,
}

impl<'v> VectorScores<'v> {
    /// Scores of `rows` with `columns`. Packing and digests use `threads` threads.
    ///
    /// # Errors
    /// The widths differ.
    pub fn new(
        rows: &'v VectorMatrix<'v>,
        columns: &'v VectorMatrix<'v>,
        scoring: ScoreFunction,
        threads: usize,
    ) -> Result<Self> {
        Self::from_cows(Cow::Borrowed(rows), Cow::Borrowed(columns), scoring, threads)
    }

    /// Scores of vectors that it owns, for searches on one thread.
    ///
    /// # Errors
    /// The widths differ.
    pub(crate) fn from_owned(
        rows: VectorMatrix<'v>,
        columns: VectorMatrix<'v>,
        scoring: ScoreFunction,
    ) -> Result<Self> {
        Self::from_cows(Cow::Owned(rows), Cow::Owned(columns), scoring, 1)
    }

    fn from_cows(
        rows: Cow<'v, VectorMatrix<'v>>,
        columns: Cow<'v, VectorMatrix<'v>>,
        scoring: ScoreFunction,
        threads: usize,
    ) -> Result<Self> {
        let (a, b) = (rows.width(), columns.width());
        if a != b {
            return Err(Error::data(format!("vectors of width {a} cannot be compared with vectors of width {b}")));
        }
        Ok(Self {
            rows,
            columns,
            score_function: scoring,
            threads: threads.max(1),
            coarse: scoring == ScoreFunction::Product && has_avx512(ElementType::Bf16),
            packed: [OnceLock::new(), OnceLock::new()],
            digests: OnceLock::new(),
            duplicates: OnceLock::new(),
        })
    }

    /// Enables or disables products in bf16, on any CPU.
    #[cfg(test)]
    pub(crate) fn with_coarse(self, coarse: bool) -> Self {
        Self { coarse: coarse && self.score_function == ScoreFunction::Product, ..self }
    }

    /// Returns the rows.
    #[must_use]
    pub fn rows(&self) -> &VectorMatrix<'v> {
        &self.rows
    }

    /// Returns the columns.
    #[must_use]
    pub fn columns(&self) -> &VectorMatrix<'v> {
        &self.columns
    }

    /// Returns the score function of a row and a column.
    #[must_use]
    pub fn score_function(&self) -> ScoreFunction {
        self.score_function
    }

    /// Bounds of f32 scores that another library computes, such as libtorch on a GPU.
    ///
    /// A score must be a sum of f32 products, one for each entry (of squares, for order similarity), in any order,
    /// fused or not. Subnormal numbers, below 2⁻¹²⁶, may count as 0. Products in fewer bits, such as TF32, are not
    /// covered. Scores of equal vectors may differ by rounding.
    #[must_use]
    pub fn bounds_of_foreign_f32(&self) -> [Vec<ScoreBound>; 2] {
        let width = self.rows.width();
        let norm_bounds = [&self.rows, &self.columns]
            .map(|vectors| vectors.norms().iter().map(|&norm| NormBound::of_unpacked(norm, width)).collect::<Vec<_>>());
        self.score_function.bounds(width, norm_bounds.each_ref().map(Vec::as_slice))
    }

    fn side_vectors(&self, side: MatrixSide) -> &VectorMatrix<'v> {
        match side {
            MatrixSide::Rows => &self.rows,
            MatrixSide::Columns => &self.columns,
        }
    }

    fn packed(&self, element_type: ElementType) -> &PackedVectors {
        self.packed[usize::from(element_type == ElementType::Bf16)]
            .get_or_init(|| PackedVectors::new(element_type, &self.rows, &self.columns, self.threads))
    }

    /// Returns true for each type in which the columns are packed: f32, bf16.
    #[cfg(test)]
    pub(crate) fn is_packed(&self) -> [bool; 2] {
        self.packed.each_ref().map(|packed| packed.get().is_some())
    }
}

/// Element type of tiles.
fn element_type_of(precision: ScorePrecision) -> ElementType {
    match precision {
        ScorePrecision::Coarse => ElementType::Bf16,
        ScorePrecision::Fine => ElementType::F32,
    }
}

impl Scores for VectorScores<'_> {
    fn shape(&self) -> [usize; 2] {
        [self.rows.len(), self.columns.len()]
    }

    fn cost(&self) -> u64 {
        self.rows.width() as u64
    }

    fn has_coarse(&self) -> bool {
        self.coarse
    }

    fn bounds(&self, precision: ScorePrecision) -> [Vec<ScoreBound>; 2] {
        self.score_function.bounds(self.rows.width(), self.packed(element_type_of(precision)).norm_bounds())
    }

    fn block_rows(&self, precision: ScorePrecision) -> usize {
        let bytes = match precision {
            ScorePrecision::Fine => 4 * self.rows.width(),
            ScorePrecision::Coarse => 2 * self.rows.width(),
        };
        (BLOCK_BYTES / bytes.max(1) / TILE_ROWS * TILE_ROWS).clamp(TILE_ROWS, MAX_BLOCK_ROWS)
    }

    fn compute_block(
        &self,
        precision: ScorePrecision,
        rows: Range<usize>,
        buffer: &mut Vec<PanelRow>,
        consume: ConsumePanel<'_>,
    ) -> Result<()> {
        let element_type = element_type_of(precision);
        let packed = self.packed(element_type);
        let left =
            LeftFactor::from_rows(element_type, rows.len(), self.rows.width(), |i| self.rows.row(rows.start + i));
        buffer.resize(rows.len(), [0.0; TILE_COLUMNS]);
        for panel in 0..self.columns.len().div_ceil(TILE_COLUMNS) {
            let right = packed.panel(panel);
            for (scores, (_, left)) in buffer.chunks_mut(TILE_ROWS).zip(left.panels()) {
                self.score_function.tile(element_type, left, right, scores);
            }
            consume(panel, buffer)?;
        }
        Ok(())
    }

    fn exact_scores(&self, side: MatrixSide, query: usize, items: &[usize], scores: &mut Vec<f32>) -> Result<()> {
        let others = self.side_vectors(side.other());
        let items: Vec<&[f32]> = items.iter().map(|&item| others.row(item)).collect();
        scores.clear();
        self.score_function.exact_scores(side, self.side_vectors(side).row(query), &items, scores);
        Ok(())
    }

    fn duplicates(&self) -> Option<&Duplicates> {
        let digests = |vectors: &VectorMatrix<'_>| {
            let digest = |i: usize| *blake3::hash(&bytes(vectors.row(i))).as_bytes();
            parallel_ranges(self.threads, vectors.len(), |part| part.map(digest).collect::<Vec<_>>()).concat()
        };
        let find = || Duplicates::from_digests([digests(&self.rows), digests(&self.columns)]);
        self.duplicates.get_or_init(find).as_ref()
    }

    fn subset(&self, side: MatrixSide, queries: &[usize], items: &[usize]) -> Result<Option<Box<dyn Scores + '_>>> {
        let [queries, items] = [(side, queries), (side.other(), items)]
            .map(|(side, some)| Cow::Owned(self.side_vectors(side).subset(some)));
        Ok(Some(Box::new(Self::from_cows(queries, items, self.score_function.with_rows(side), self.threads)?)))
    }

    fn as_vectors(&self) -> Option<ScoredVectors<'_>> {
        Some(ScoredVectors { rows: &self.rows, columns: &self.columns, score_function: self.score_function })
    }

    fn identity(&self, fields: &mut IdentityWriter<'_>) {
        let [rows, columns] =
            self.digests.get_or_init(|| [&self.rows, &self.columns].map(|vectors| digest(vectors, self.threads)));
        fields.write_text("vectors");
        self.score_function.identity(fields);
        fields.write_usize(self.rows.width());
        fields.write_bytes(rows.as_bytes());
        fields.write_bytes(columns.as_bytes());
    }
}

fn bytes(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Digest of all values, the same for any number of threads.
fn digest(vectors: &VectorMatrix<'_>, threads: usize) -> blake3::Hash {
    /// Number of vectors hashed at a time.
    const VECTORS_PER_HASH: usize = 1024;
    let group = |group: usize| {
        let mut hasher = blake3::Hasher::new();
        for row in group * VECTORS_PER_HASH..vectors.len().min((group + 1) * VECTORS_PER_HASH) {
            hasher.update(&bytes(vectors.row(row)));
        }
        hasher.finalize()
    };
    let groups =
        parallel_ranges(threads, vectors.len().div_ceil(VECTORS_PER_HASH), |part| part.map(group).collect::<Vec<_>>());
    let mut hasher = blake3::Hasher::new();
    for group in groups.into_iter().flatten() {
        hasher.update(group.as_bytes());
    }
    hasher.finalize()
}

/// Exact scores for one thread. With [`Duplicates`] it caches the scores of the latest pairs, direct-mapped.
#[derive(Debug, Default)]
pub(crate) struct ExactCache<'d> {
    duplicates: Option<&'d Duplicates>,
    /// Class number of a pair, and its score.
    slots: Vec<(u64, f32)>,
}

/// Base-2 logarithm of the number of slots.
const SLOT_BITS: u32 = 12;

impl<'d> ExactCache<'d> {
    /// Caches scores from now on.
    pub fn use_duplicates(&mut self, duplicates: &'d Duplicates) {
        self.duplicates = Some(duplicates);
        // No pair has this number: vectors are fewer than 2³².
        self.slots = vec![(u64::MAX, 0.0); 1 << SLOT_BITS];
    }

    /// As [`Scores::exact_scores`].
    pub fn exact_scores(
        &mut self,
        source: &dyn Scores,
        side: MatrixSide,
        query: usize,
        items: &[usize],
        scores: &mut Vec<f32>,
    ) -> Result<()> {
        let Some(duplicates) = self.duplicates else { return source.exact_scores(side, query, items, scores) };
        scores.clear();
        let mut one = Vec::with_capacity(1);
        for &item in items {
            let pair = duplicates.pair_class(side, query, item);
            // Fibonacci hashing.
            let slot = pair.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - SLOT_BITS);
            let slot = &mut self.slots[slot.saturating_as::<usize>()];
            if slot.0 != pair {
                source.exact_scores(side, query, &[item], &mut one)?;
                *slot = (pair, one[0]);
            }
            scores.push(slot.1);
        }
        Ok(())
    }
}

/// Number of panels that a thread packs at a time.
const PANELS_PER_GROUP: usize = 32;

/// All columns as the right factor of a product, and the norms of both sides for error bounds.
#[derive(Debug)]
pub(super) struct PackedVectors {
    groups: Vec<RightFactor>,
    /// Norms of the rows and of the columns.
    norm_bounds: [Vec<NormBound>; 2],
}

impl PackedVectors {
    pub fn new(element_type: ElementType, rows: &VectorMatrix<'_>, columns: &VectorMatrix<'_>, threads: usize) -> Self {
        let width = columns.width();
        let group = |group: usize| {
            let first = group * PANELS_PER_GROUP * TILE_COLUMNS;
            let count = (columns.len() - first).min(PANELS_PER_GROUP * TILE_COLUMNS);
            RightFactor::from_columns(element_type, width, count, |j| columns.row(first + j))
        };
        let groups = columns.len().div_ceil(PANELS_PER_GROUP * TILE_COLUMNS);
        let groups = parallel_ranges(threads, groups, |part| part.map(group).collect::<Vec<_>>());
        let norm_bounds = [rows, columns].map(|vectors| {
            let norm_bound = |i: usize| match element_type {
                ElementType::F32 => NormBound { norm: vectors.norms()[i], packing_error: 0.0 },
                ElementType::Bf16 => NormBound::of_packed(element_type, vectors.row(i)),
            };
            parallel_ranges(threads, vectors.len(), |part| part.map(norm_bound).collect::<Vec<_>>()).concat()
        });
        Self { groups: groups.into_iter().flatten().collect(), norm_bounds }
    }

    /// Returns panel `i` of the columns.
    pub fn panel(&self, i: usize) -> &[u32] {
        self.groups[i / PANELS_PER_GROUP].panel(i % PANELS_PER_GROUP)
    }

    /// Returns the norms of the packed rows and columns.
    pub fn norm_bounds(&self) -> [&[NormBound]; 2] {
        self.norm_bounds.each_ref().map(Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_as_many_whole_tiles_as_fit_the_cache() {
        for width in [1, 300, 1024, 2048, 8192, 100_000] {
            let values = vec![1.0; width];
            let one = VectorMatrix::new("one", &values, width).expect("good");
            let scores = VectorScores::new(&one, &one, ScoreFunction::Product, 1).expect("of one width");
            for (precision, bytes) in [(ScorePrecision::Fine, 4), (ScorePrecision::Coarse, 2)] {
                let rows = scores.block_rows(precision);
                assert!(rows > 0 && rows.is_multiple_of(TILE_ROWS), "{precision:?} {width}: {rows}");
                assert!(rows == TILE_ROWS || rows * width * bytes <= BLOCK_BYTES, "{precision:?} {width}: {rows}");
                assert!(
                    rows == MAX_BLOCK_ROWS || (rows + TILE_ROWS) * width * bytes > BLOCK_BYTES,
                    "{precision:?} {width}: {rows}"
                );
            }
        }
    }
}
