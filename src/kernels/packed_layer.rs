//! Linear layer whose weights are packed once, for inference: y = x · wᵀ + bias.
//!
//! A convolution with a kernel of 1 × 1 over values in the order (row, column, channel) is such a layer.

use std::ops::Range;

use crate::product::{ElementType, LeftFactor, RightFactor, TILE_COLUMNS, TILE_ROWS, Tile, add_product};

/// Number of rows that are multiplied together. Their factor fits the L2 cache beside a panel of the weights.
const ROWS_PER_BLOCK: usize = 8 * TILE_ROWS;

/// Linear layer with packed weights.
#[derive(Debug)]
pub struct PackedLayer {
    element_type: ElementType,
    weights: RightFactor,
    bias: Vec<f32>,
    depth: usize,
}

impl PackedLayer {
    /// Packs weights `[outputs, inputs]` and a bias of `outputs` values.
    ///
    /// # Panics
    /// There are no outputs or inputs, or the lengths do not fit each other.
    #[must_use]
    pub fn new(element_type: ElementType, weights: &[f32], bias: Vec<f32>) -> Self {
        let columns = bias.len();
        assert!(columns > 0 && !weights.is_empty() && weights.len().is_multiple_of(columns), "weights of each output");
        let depth = weights.len() / columns;
        let weights = RightFactor::from_columns(element_type, depth, columns, |j| &weights[j * depth..][..depth]);
        Self { element_type, weights, bias, depth }
    }

    /// Number of inputs.
    #[must_use]
    pub fn inputs(&self) -> usize {
        self.depth
    }

    /// Number of outputs.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.bias.len()
    }

    /// Computes the outputs of each row.
    ///
    /// # Shapes
    /// - `rows`: `[n, inputs]`
    /// - `out`: `[n, outputs]`
    ///
    /// # Panics
    /// The lengths do not fit each other.
    pub fn apply(&self, rows: &[f32], out: &mut [f32]) {
        let (depth, columns) = (self.depth, self.bias.len());
        assert_eq!(rows.len() / depth * columns, out.len(), "one row of outputs for each row");
        assert!(rows.len().is_multiple_of(depth), "whole rows of {depth} values");
        for (rows, out) in rows.chunks(ROWS_PER_BLOCK * depth).zip(out.chunks_mut(ROWS_PER_BLOCK * columns)) {
            let count = rows.len() / depth;
            let left = LeftFactor::from_rows(self.element_type, count, depth, |i| &rows[i * depth..][..depth]);
            for (panel, (width, weights)) in self.weights.panels().enumerate() {
                let first = panel * TILE_COLUMNS;
                for ((height, rows), out) in left.panels().zip(out.chunks_mut(TILE_ROWS * columns)) {
                    let mut tile = Tile::ZERO;
                    add_product(self.element_type, height, rows, weights, &mut tile);
                    self.write(&tile, first..first + width, out);
                }
            }
        }
    }

    /// Writes the columns of a tile, plus the bias, to the rows of the result.
    fn write(&self, tile: &Tile, columns: Range<usize>, out: &mut [f32]) {
        let bias = &self.bias[columns.clone()];
        for (out, values) in out.chunks_exact_mut(self.bias.len()).zip(&tile.0) {
            for ((out, value), bias) in out[columns.clone()].iter_mut().zip(values).zip(bias) {
                *out = value + bias;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Rng;

    #[test]
    fn outputs_are_those_of_the_definition() {
        let mut rng = Rng::new(5, &[]);
        #[expect(clippy::cast_possible_truncation, reason = "factors are f32")]
        let mut draw = |count: usize| (0..count).map(|_| rng.uniform() as f32 - 0.5).collect::<Vec<_>>();
        for [n, outputs, inputs] in [[1, 1, 1], [5, 40, 7], [200, 33, 20], [97, 64, 65]] {
            let (rows, weights, bias) = (draw(n * inputs), draw(outputs * inputs), draw(outputs));
            for (kind, most) in [(ElementType::F32, 1e-5), (ElementType::Bf16, 5e-2)] {
                let layer = PackedLayer::new(kind, &weights, bias.clone());
                assert_eq!((layer.inputs(), layer.outputs()), (inputs, outputs));
                let mut out = vec![f32::NAN; n * outputs];
                layer.apply(&rows, &mut out);
                for (place, &got) in out.iter().enumerate() {
                    let (i, j) = (place / outputs, place % outputs);
                    let terms =
                        (0..inputs).map(|k| f64::from(rows[i * inputs + k]) * f64::from(weights[j * inputs + k]));
                    let expected = terms.sum::<f64>() + f64::from(bias[j]);
                    assert!((f64::from(got) - expected).abs() < most, "{kind:?} {n} × {outputs}: {got} and {expected}");
                }
            }
        }
    }
}
