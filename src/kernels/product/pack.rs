//! Factors rearranged for [`tile`](super::tile()).

use super::lanes::Lanes;
use super::tile::{COLUMNS, ROWS};

/// The vectors of a factor by their number.
///
/// Not a type parameter: packing is compiled here, with the optimisation of this package, and not where it is called.
type Vectors<'f, 'v> = &'f dyn Fn(usize) -> &'v [f32];

/// The left factor of a product, `rows × depth`: panels of [`ROWS`] rows.
#[derive(Debug)]
pub struct Left(Panels<ROWS>);

/// The right factor of a product, `depth × columns`: panels of [`COLUMNS`] columns.
#[derive(Debug)]
pub struct Right(Panels<COLUMNS>);

impl Left {
    /// The factor whose row `i` is `row(i)`, `depth` values.
    pub fn from_rows<'v>(lanes: Lanes, rows: usize, depth: usize, row: impl Fn(usize) -> &'v [f32]) -> Self {
        Self::across(lanes, rows, depth, &row)
    }

    /// The factor whose column `k` is `column(k)`, `rows` values.
    pub fn from_columns<'v>(lanes: Lanes, rows: usize, depth: usize, column: impl Fn(usize) -> &'v [f32]) -> Self {
        Self::along(lanes, rows, depth, &column)
    }

    fn across(lanes: Lanes, rows: usize, depth: usize, row: Vectors<'_, '_>) -> Self {
        Self(Panels::across(lanes, rows, depth, row))
    }

    fn along(lanes: Lanes, rows: usize, depth: usize, column: Vectors<'_, '_>) -> Self {
        Self(Panels::along(lanes, rows, depth, column))
    }

    /// Its panels, each with the number of its rows.
    pub fn panels(&self) -> impl ExactSizeIterator<Item = (usize, &[u32])> {
        self.0.panels()
    }

    /// Panel `i`.
    #[must_use]
    pub fn panel(&self, i: usize) -> &[u32] {
        self.0.panel(i)
    }
}

impl Right {
    /// The factor whose row `k` is `row(k)`, `columns` values.
    pub fn from_rows<'v>(lanes: Lanes, depth: usize, columns: usize, row: impl Fn(usize) -> &'v [f32]) -> Self {
        Self::along(lanes, columns, depth, &row)
    }

    /// The factor whose column `j` is `column(j)`, `depth` values.
    pub fn from_columns<'v>(lanes: Lanes, depth: usize, columns: usize, column: impl Fn(usize) -> &'v [f32]) -> Self {
        Self::across(lanes, columns, depth, &column)
    }

    fn along(lanes: Lanes, columns: usize, depth: usize, row: Vectors<'_, '_>) -> Self {
        Self(Panels::along(lanes, columns, depth, row))
    }

    fn across(lanes: Lanes, columns: usize, depth: usize, column: Vectors<'_, '_>) -> Self {
        Self(Panels::across(lanes, columns, depth, column))
    }

    /// Its panels, each with the number of its columns.
    pub fn panels(&self) -> impl ExactSizeIterator<Item = (usize, &[u32])> {
        self.0.panels()
    }

    /// Panel `i`.
    #[must_use]
    pub fn panel(&self, i: usize) -> &[u32] {
        self.0.panel(i)
    }
}

/// Vectors (rows of the left, columns of the right factor) in panels of `W`; in a panel the first value of all vectors, then
/// the second, and so on, the last panel filled up with zeros.
#[derive(Debug)]
struct Panels<const W: usize> {
    vectors: usize,
    /// Values of a panel.
    size: usize,
    values: Vec<u32>,
    /// Where the panels start, so that they lie on cache lines.
    start: usize,
}

impl<const W: usize> Panels<W> {
    fn new(lanes: Lanes, vectors: usize, depth: usize) -> Self {
        let size = depth.div_ceil(lanes.step()) * W;
        let values = vec![0; vectors.div_ceil(W) * size + 15];
        let start = values.as_ptr().align_offset(64).min(15);
        Self { vectors, size, values, start }
    }

    /// From vectors one after the other.
    fn across(lanes: Lanes, vectors: usize, depth: usize, vector: Vectors<'_, '_>) -> Self {
        let mut this = Self::new(lanes, vectors, depth);
        for (first, panel) in (0..vectors).step_by(W).zip(this.values[this.start..].chunks_exact_mut(this.size.max(1)))
        {
            let steps = panel.as_chunks_mut::<W>().0;
            let group: Vec<&[f32]> = (first..vectors.min(first + W)).map(|i| &vector(i)[..depth]).collect();
            // Blocks of steps, so that what is written stays in the nearest cache while all vectors go through.
            for (block, steps) in steps.chunks_mut(BLOCK).enumerate() {
                let from = block * BLOCK * lanes.step();
                for (i, vector) in group.iter().enumerate() {
                    let values = &vector[from..depth.min(from + BLOCK * lanes.step())];
                    for (step, value) in steps.iter_mut().zip(block_of(lanes, values)) {
                        step[i] = value;
                    }
                }
            }
        }
        this
    }

    /// From the first values of all vectors, the second ones, and so on.
    fn along(lanes: Lanes, vectors: usize, depth: usize, values: Vectors<'_, '_>) -> Self {
        let mut this = Self::new(lanes, vectors, depth);
        let (size, start) = (this.size, this.start);
        let zeros = vec![0.0; vectors];
        for (step, k) in (0..depth).step_by(lanes.step()).enumerate() {
            let first = values(k)[..vectors].as_chunks::<W>();
            let second = match lanes {
                Lanes::Bf16 if k + 1 < depth => &values(k + 1)[..vectors],
                _ => &zeros,
            };
            let second = second.as_chunks::<W>();
            let pack = |a: f32, b: f32| match lanes {
                Lanes::F32 => a.to_bits(),
                Lanes::Bf16 => pair_of(a, b),
            };
            let mut panels = this.values[start..].chunks_exact_mut(size).map(|panel| &mut panel[step * W..][..W]);
            for ((to, a), b) in panels.by_ref().zip(first.0).zip(second.0) {
                for i in 0..W {
                    to[i] = pack(a[i], b[i]);
                }
            }
            if let Some(to) = this.values[start..].chunks_exact_mut(size).nth(first.0.len()) {
                let to = &mut to[step * W..][..W];
                to.iter_mut().zip(first.1.iter().zip(second.1)).for_each(|(to, (&a, &b))| *to = pack(a, b));
            }
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

/// Steps that are packed together.
const BLOCK: usize = 16;

/// At most [`BLOCK`] steps of a vector.
fn block_of(lanes: Lanes, values: &[f32]) -> [u32; BLOCK] {
    let mut out = [0; BLOCK];
    match lanes {
        Lanes::F32 => out.iter_mut().zip(values).for_each(|(out, value)| *out = value.to_bits()),
        Lanes::Bf16 => {
            let (pairs, last) = values.as_chunks::<2>();
            out.iter_mut().zip(pairs).for_each(|(out, &[a, b])| *out = pair_of(a, b));
            if let [last] = last {
                out[pairs.len()] = pair_of(*last, 0.0);
            }
        }
    }
    out
}

/// Two values as bf16, the first one in the lower half.
fn pair_of(first: f32, second: f32) -> u32 {
    bf16(first) >> 16 | bf16(second) & 0xffff_0000
}

/// The nearest bf16, of two the even one, in the upper half. What is not a number stays none.
pub(super) fn bf16(value: f32) -> u32 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1));
    if value.is_nan() { bits | 0x0040_0000 } else { rounded }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bf16_is_the_nearest_of_two_the_even_one() {
        for (value, wanted) in [
            (1.0, 0x3f80),
            (1.0 + 1.0 / 256.0, 0x3f80), // halfway to 1 + 2/256, whose last bit is odd
            (1.0 + 3.0 / 256.0, 0x3f82),
            (1.0 + 1.1 / 256.0, 0x3f81),
            (-2.5, 0xc020),
            (f32::MAX, 0x7f80),
            (f32::INFINITY, 0x7f80),
            (0.0, 0),
        ] {
            assert_eq!(bf16(value) >> 16, wanted, "{value}");
        }
        assert!(f32::from_bits(bf16(f32::NAN) & 0xffff_0000).is_nan());
    }

    #[test]
    fn both_ways_of_packing_agree_and_fill_with_zeros() {
        let (rows, depth) = (ROWS + 3, 35);
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let by_row: Vec<f32> = (0..rows * depth).map(|i| i as f32 + 0.3).collect();
        let by_column: Vec<f32> = (0..rows * depth).map(|i| by_row[i % rows * depth + i / rows]).collect();
        for lanes in [Lanes::F32, Lanes::Bf16] {
            let a = Left::from_rows(lanes, rows, depth, |i| &by_row[i * depth..][..depth]);
            let b = Left::from_columns(lanes, rows, depth, |k| &by_column[k * rows..][..rows]);
            assert!(a.panels().eq(b.panels()) && a.panels().len() == 2);
            assert_eq!(a.panels().map(|(rows, _)| rows).collect::<Vec<_>>(), [ROWS, 3]);
            assert!(a.panel(1).as_chunks::<ROWS>().0.iter().all(|step| step[3..].iter().all(|&value| value == 0)));
        }
        let f32s = Left::from_rows(Lanes::F32, rows, depth, |i| &by_row[i * depth..][..depth]);
        assert_eq!(f32s.panel(0)[ROWS + 2], by_row[2 * depth + 1].to_bits());
    }
}
