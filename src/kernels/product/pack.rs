//! Packing of factors for [`add_product`](super::add_product): element types, and transposition of packed blocks.

use super::{TILE_COLUMNS, TILE_ROWS};
use crate::cpu::{prefetch, widest};

/// Vector of a factor by its index.
///
/// It is not a type parameter so that packing is compiled in this package, which is always optimised, and not in the
/// caller's.
type VectorByIndex<'f, 'v> = &'f dyn Fn(usize) -> &'v [f32];

/// Left factor of a product, `rows × depth`, in panels of [`TILE_ROWS`] rows.
#[derive(Debug)]
pub struct LeftFactor(PackedPanels<TILE_ROWS>);

/// Right factor of a product, `depth × columns`, in panels of [`TILE_COLUMNS`] columns.
#[derive(Debug)]
pub struct RightFactor(PackedPanels<TILE_COLUMNS>);

impl LeftFactor {
    /// Packs the factor whose row `i` is `row(i)`, `depth` values.
    pub fn from_rows<'v>(
        element_type: ElementType,
        rows: usize,
        depth: usize,
        row: impl Fn(usize) -> &'v [f32],
    ) -> Self {
        Self::from_vectors(element_type, rows, depth, &row)
    }

    /// Packs the factor whose column `k` is `column(k)`, `rows` values.
    pub fn from_columns<'v>(
        element_type: ElementType,
        rows: usize,
        depth: usize,
        column: impl Fn(usize) -> &'v [f32],
    ) -> Self {
        Self::from_components(element_type, rows, depth, &column)
    }

    fn from_vectors(element_type: ElementType, rows: usize, depth: usize, row: VectorByIndex<'_, '_>) -> Self {
        Self(PackedPanels::from_vectors(element_type, rows, depth, row))
    }

    fn from_components(element_type: ElementType, rows: usize, depth: usize, column: VectorByIndex<'_, '_>) -> Self {
        Self(PackedPanels::from_components(element_type, rows, depth, column))
    }

    /// Panels, each with the number of its rows.
    pub fn panels(&self) -> impl ExactSizeIterator<Item = (usize, &[u32])> {
        self.0.panels()
    }

    /// Panel `i`.
    #[must_use]
    pub fn panel(&self, i: usize) -> &[u32] {
        self.0.panel(i)
    }
}

impl RightFactor {
    /// Packs the factor whose row `k` is `row(k)`, `columns` values.
    pub fn from_rows<'v>(
        element_type: ElementType,
        depth: usize,
        columns: usize,
        row: impl Fn(usize) -> &'v [f32],
    ) -> Self {
        Self::from_components(element_type, columns, depth, &row)
    }

    /// Packs the factor whose column `j` is `column(j)`, `depth` values.
    pub fn from_columns<'v>(
        element_type: ElementType,
        depth: usize,
        columns: usize,
        column: impl Fn(usize) -> &'v [f32],
    ) -> Self {
        Self::from_vectors(element_type, columns, depth, &column)
    }

    fn from_components(element_type: ElementType, columns: usize, depth: usize, row: VectorByIndex<'_, '_>) -> Self {
        Self(PackedPanels::from_components(element_type, columns, depth, row))
    }

    fn from_vectors(element_type: ElementType, columns: usize, depth: usize, column: VectorByIndex<'_, '_>) -> Self {
        Self(PackedPanels::from_vectors(element_type, columns, depth, column))
    }

    /// Panels, each with the number of its columns.
    pub fn panels(&self) -> impl ExactSizeIterator<Item = (usize, &[u32])> {
        self.0.panels()
    }

    /// Panel `i`.
    #[must_use]
    pub fn panel(&self, i: usize) -> &[u32] {
        self.0.panel(i)
    }
}

/// Vectors (rows of the left factor, columns of the right factor) in panels of `W`. A panel has the first values of its
/// vectors, then the second values, and so on. The last panel is padded with zeros.
#[derive(Debug)]
struct PackedPanels<const W: usize> {
    vectors: usize,
    /// Number of values of a panel.
    size: usize,
    values: Vec<u32>,
    /// Index of the first panel, aligned to a cache line.
    start: usize,
}

impl<const W: usize> PackedPanels<W> {
    fn new(element_type: ElementType, vectors: usize, depth: usize) -> Self {
        let size = depth.div_ceil(element_type.step()) * W;
        let values = vec![0; vectors.div_ceil(W) * size + 15];
        let start = values.as_ptr().align_offset(64).min(15);
        Self { vectors, size, values, start }
    }

    /// Packs from vectors.
    fn from_vectors(element_type: ElementType, vectors: usize, depth: usize, vector: VectorByIndex<'_, '_>) -> Self {
        let mut this = Self::new(element_type, vectors, depth);
        for (first, panel) in (0..vectors).step_by(W).zip(this.values[this.start..].chunks_exact_mut(this.size.max(1)))
        {
            let steps = panel.as_chunks_mut::<W>().0;
            let group: Vec<&[f32]> = (first..vectors.min(first + W)).map(|i| &vector(i)[..depth]).collect();
            // Blocks of steps, so that the written values stay in the L1 cache while all vectors are packed.
            for (block, steps) in steps.chunks_mut(BLOCK).enumerate() {
                let from = block * BLOCK * element_type.step();
                for (part, vectors) in group.chunks(SIDE).enumerate() {
                    let mut packed = [[0; SIDE]; SIDE];
                    for (packed, vector) in packed.iter_mut().zip(vectors) {
                        let values = &vector[from..depth.min(from + BLOCK * element_type.step())];
                        *packed = pack_block(element_type, values);
                    }
                    for (step, values) in steps.iter_mut().zip(&transpose(&packed)) {
                        copy_start(values, &mut step[part * SIDE..][..vectors.len()]);
                    }
                }
            }
        }
        this
    }

    /// Packs from the first values of all vectors, the second values, and so on.
    fn from_components(element_type: ElementType, vectors: usize, depth: usize, values: VectorByIndex<'_, '_>) -> Self {
        let mut this = Self::new(element_type, vectors, depth);
        let (size, start) = (this.size, this.start);
        let zeros = vec![0.0; vectors];
        for (step, k) in (0..depth).step_by(element_type.step()).enumerate() {
            let first = &values(k)[..vectors];
            let second = match element_type {
                ElementType::Bf16 if k + 1 < depth => &values(k + 1)[..vectors],
                _ => &zeros,
            };
            for later in (k + VALUES_AHEAD..depth).take(element_type.step()) {
                prefetch(&values(later)[..vectors.min(MAX_PREFETCHED)]);
            }
            pack_step(PackStep {
                element_type,
                width: W,
                first,
                second,
                panels: &mut this.values[start..],
                size,
                step,
            });
        }
        this
    }

    fn panels(&self) -> impl ExactSizeIterator<Item = (usize, &[u32])> {
        (0..self.vectors.div_ceil(W)).map(|i| (W.min(self.vectors - i * W), self.panel(i)))
    }

    fn panel(&self, i: usize) -> &[u32] {
        &self.values[self.start + i * self.size..][..self.size]
    }
}

/// Values along the depth between those that are packed and those that are brought into the cache meanwhile.
const VALUES_AHEAD: usize = 16;
/// Vectors of which values are brought into the cache. The processor foresees the rest of a longer row by itself.
const MAX_PREFETCHED: usize = 256;

/// Number of steps that are packed together.
const BLOCK: usize = SIDE;

/// Copies as many values as `to` has. The compiler moves the usual numbers of them as vectors.
#[inline(always)]
#[expect(clippy::inline_always, reason = "it is a few instructions")]
fn copy_start(values: &[u32; SIDE], to: &mut [u32]) {
    match to.len() {
        SIDE => to.copy_from_slice(values),
        TILE_ROWS => to.copy_from_slice(&values[..TILE_ROWS]),
        len => to.copy_from_slice(&values[..len]),
    }
}

/// One step of all vectors, and the panels that it is packed into.
struct PackStep<'p> {
    element_type: ElementType,
    /// Vectors of a panel.
    width: usize,
    /// Values of all vectors at the step, and in bf16 those after them.
    first: &'p [f32],
    second: &'p [f32],
    panels: &'p mut [u32],
    /// Values of a panel.
    size: usize,
    step: usize,
}

fn pack_step(step: PackStep<'_>) {
    widest!(pack_step_in(step: PackStep<'_>));
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "it takes the instructions of the function that it is in")]
fn pack_step_in(step: PackStep<'_>) {
    // The compiler unrolls loops of a known length.
    if step.width == TILE_COLUMNS {
        pack_step_of::<TILE_COLUMNS>(step);
    } else {
        pack_step_of::<TILE_ROWS>(step);
    }
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "it takes the instructions of the function that it is in")]
fn pack_step_of<const W: usize>(PackStep { element_type, first, second, panels, size, step, .. }: PackStep<'_>) {
    let pack = |a: f32, b: f32| match element_type {
        ElementType::F32 => a.to_bits(),
        ElementType::Bf16 => pack_bf16_pair(a, b),
    };
    let (first, second) = (first.as_chunks::<W>(), second.as_chunks::<W>());
    let mut panels = panels.chunks_exact_mut(size).map(|panel| &mut panel[step * W..][..W]);
    // The panels come last: an iterator that ends first has taken nothing from those after it.
    for ((a, b), to) in first.0.iter().zip(second.0).zip(panels.by_ref()) {
        for i in 0..W {
            to[i] = pack(a[i], b[i]);
        }
    }
    if let Some(to) = panels.next() {
        to.iter_mut().zip(first.1.iter().zip(second.1)).for_each(|(to, (&a, &b))| *to = pack(a, b));
    }
}

/// Packs at most [`BLOCK`] steps of a vector.
fn pack_block(element_type: ElementType, values: &[f32]) -> [u32; BLOCK] {
    widest!(pack_block_in(element_type: ElementType, values: &[f32]) -> [u32; BLOCK])
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "it takes the instructions of the function that it is in")]
fn pack_block_in(element_type: ElementType, values: &[f32]) -> [u32; BLOCK] {
    let mut out = [0; BLOCK];
    match element_type {
        ElementType::F32 => out.iter_mut().zip(values).for_each(|(out, value)| *out = value.to_bits()),
        ElementType::Bf16 => {
            let (pairs, last) = values.as_chunks::<2>();
            out.iter_mut().zip(pairs).for_each(|(out, &[a, b])| *out = pack_bf16_pair(a, b));
            if let [last] = last {
                out[pairs.len()] = pack_bf16_pair(*last, 0.0);
            }
        }
    }
    out
}

/// Packs two values as bf16, the first in the lower half.
#[inline(always)]
#[expect(clippy::inline_always, reason = "it takes the instructions of the function that it is in")]
fn pack_bf16_pair(first: f32, second: f32) -> u32 {
    round_to_bf16(first) >> 16 | round_to_bf16(second) & 0xffff_0000
}

/// Rounds to the nearest bf16, ties to even; the result is in the upper half. NaN stays NaN.
#[inline(always)]
#[expect(clippy::inline_always, reason = "it takes the instructions of the function that it is in")]
pub(super) fn round_to_bf16(value: f32) -> u32 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1));
    if value.is_nan() { bits | 0x0040_0000 } else { rounded }
}

/// Element type of packed factors. Products are summed in f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElementType {
    /// f32.
    F32,
    /// bf16, rounded to nearest; packed in pairs along the depth.
    Bf16,
}

impl ElementType {
    /// Number of values along the depth that are multiplied in one step.
    pub(super) fn step(self) -> usize {
        match self {
            Self::F32 => 1,
            Self::Bf16 => 2,
        }
    }
}

/// Rows and columns of a block: the numbers of a vector of AVX-512.
pub(super) const SIDE: usize = 16;

/// Block of values, row by row.
pub(super) type Block = [[u32; SIDE]; SIDE];

/// Exchanges rows and columns.
pub(super) fn transpose(block: &Block) -> Block {
    #[cfg(target_arch = "x86_64")]
    if crate::cpu::has_avx512() {
        // SAFETY: the CPU has the instructions, as checked above.
        #[expect(unsafe_code, reason = "vector instructions, called after the CPU was checked for them")]
        return unsafe { avx512::transpose(block) };
    }
    std::array::from_fn(|column| std::array::from_fn(|row| block[row][column]))
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::{
        _mm512_loadu_si512, _mm512_shuffle_i32x4, _mm512_storeu_si512, _mm512_unpackhi_epi32, _mm512_unpackhi_epi64,
        _mm512_unpacklo_epi32, _mm512_unpacklo_epi64,
    };

    use super::{Block, SIDE};

    /// Selections of two vectors' quarters: the even and the odd ones of both.
    const EVEN: i32 = 0x88;
    const ODD: i32 = 0xdd;

    #[target_feature(enable = "avx512f")]
    pub(super) fn transpose(block: &Block) -> Block {
        // SAFETY: a row has the size of a vector, and needs no alignment.
        #[expect(unsafe_code, reason = "vectors are loaded by address")]
        let rows = block.each_ref().map(|row| unsafe { _mm512_loadu_si512(row.as_ptr().cast()) });
        // Quarter q of vector 4g + j has the values of column 4q + j in the rows 4g to 4g + 3.
        let mut quarters = rows;
        for g in (0..SIDE).step_by(4) {
            let [a, b, c, d] = [rows[g], rows[g + 1], rows[g + 2], rows[g + 3]];
            let [low, high] = [_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b)];
            let [low_next, high_next] = [_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d)];
            quarters[g] = _mm512_unpacklo_epi64(low, low_next);
            quarters[g + 1] = _mm512_unpackhi_epi64(low, low_next);
            quarters[g + 2] = _mm512_unpacklo_epi64(high, high_next);
            quarters[g + 3] = _mm512_unpackhi_epi64(high, high_next);
        }
        let mut columns = [[0; SIDE]; SIDE];
        for j in 0..4 {
            let [a, b, c, d] = [quarters[j], quarters[4 + j], quarters[8 + j], quarters[12 + j]];
            let [upper, upper_odd] = [_mm512_shuffle_i32x4::<EVEN>(a, b), _mm512_shuffle_i32x4::<ODD>(a, b)];
            let [lower, lower_odd] = [_mm512_shuffle_i32x4::<EVEN>(c, d), _mm512_shuffle_i32x4::<ODD>(c, d)];
            let found = [
                _mm512_shuffle_i32x4::<EVEN>(upper, lower),
                _mm512_shuffle_i32x4::<EVEN>(upper_odd, lower_odd),
                _mm512_shuffle_i32x4::<ODD>(upper, lower),
                _mm512_shuffle_i32x4::<ODD>(upper_odd, lower_odd),
            ];
            for (quarter, vector) in found.into_iter().enumerate() {
                // SAFETY: a column has the size of a vector, and needs no alignment.
                #[expect(unsafe_code, reason = "vectors are stored by address")]
                unsafe {
                    _mm512_storeu_si512(columns[4 * quarter + j].as_mut_ptr().cast(), vector);
                }
            }
        }
        columns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bf16_is_rounded_to_nearest_ties_to_even() {
        for (value, expected) in [
            (1.0, 0x3f80),
            (1.0 + 1.0 / 256.0, 0x3f80), // halfway to 1 + 2/256, whose last bit is odd
            (1.0 + 3.0 / 256.0, 0x3f82),
            (1.0 + 1.1 / 256.0, 0x3f81),
            (-2.5, 0xc020),
            (f32::MAX, 0x7f80),
            (f32::INFINITY, 0x7f80),
            (0.0, 0),
        ] {
            assert_eq!(round_to_bf16(value) >> 16, expected, "{value}");
        }
        assert!(f32::from_bits(round_to_bf16(f32::NAN) & 0xffff_0000).is_nan());
    }

    #[test]
    fn packing_by_rows_and_by_columns_agrees_and_pads_with_zeros() {
        let (rows, depth) = (TILE_ROWS + 3, 35);
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let by_row: Vec<f32> = (0..rows * depth).map(|i| i as f32 + 0.3).collect();
        let by_column: Vec<f32> = (0..rows * depth).map(|i| by_row[i % rows * depth + i / rows]).collect();
        for element_type in [ElementType::F32, ElementType::Bf16] {
            let a = LeftFactor::from_rows(element_type, rows, depth, |i| &by_row[i * depth..][..depth]);
            let b = LeftFactor::from_columns(element_type, rows, depth, |k| &by_column[k * rows..][..rows]);
            assert!(a.panels().eq(b.panels()) && a.panels().len() == 2);
            assert_eq!(a.panels().map(|(rows, _)| rows).collect::<Vec<_>>(), [TILE_ROWS, 3]);
            assert!(a.panel(1).as_chunks::<TILE_ROWS>().0.iter().all(|step| step[3..].iter().all(|&value| value == 0)));
        }
        let f32s = LeftFactor::from_rows(ElementType::F32, rows, depth, |i| &by_row[i * depth..][..depth]);
        assert_eq!(f32s.panel(0)[TILE_ROWS + 2], by_row[2 * depth + 1].to_bits());
    }

    #[test]
    fn rows_become_columns() {
        let mut numbers = 0u32..;
        let block: Block = std::array::from_fn(|_| std::array::from_fn(|_| numbers.next().unwrap_or_default()));
        let transposed = transpose(&block);
        for (column, values) in transposed.iter().enumerate() {
            for (row, &value) in values.iter().enumerate() {
                assert_eq!(value as usize, SIDE * row + column);
            }
        }
        assert_eq!(transpose(&transposed), block);
    }
}
