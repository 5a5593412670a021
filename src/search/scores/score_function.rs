//! Score function of a row and a column, and error bounds of its approximations.

use serde::{Deserialize, Serialize};

use super::MatrixSide;
use super::ScoreBound;
use pairloom_kernels::distance::{dot, dot_products};
use pairloom_kernels::identity::IdentityWriter;
use pairloom_kernels::order_similarity::{
    OrderPenalty, OrderViolation, add_violations, order_similarity, order_similarity_error,
};
use pairloom_kernels::product::{
    ElementType, NormBound, TILE_COLUMNS, TILE_ROWS, Tile, add_product, product_error_bound,
};

/// Score function of a row and a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScoreFunction {
    /// Inner product ([`dot`]): the cosine of unit vectors.
    Product,
    /// Order similarity ([`order_similarity`]).
    Order {
        /// Penalty of a violation: its norm, or the squared norm.
        form: OrderPenalty,
        /// Side that holds the captions. A caption violates the order where its entries exceed those of the image.
        captions: MatrixSide,
    },
}

impl ScoreFunction {
    /// Score function of the matrix whose rows are this `side`.
    pub(super) fn with_rows(self, side: MatrixSide) -> Self {
        match (self, side) {
            (Self::Order { form, captions }, MatrixSide::Columns) => Self::Order { form, captions: captions.other() },
            _ => self,
        }
    }

    /// Appends the exact scores of a vector of `side` with `others` of the other side.
    pub(super) fn exact_scores(self, side: MatrixSide, vector: &[f32], others: &[&[f32]], scores: &mut Vec<f32>) {
        match self {
            Self::Product => dot_products(vector, others, scores),
            Self::Order { form, captions } if captions == side => {
                scores.extend(others.iter().map(|image| order_similarity(image, vector, form)));
            }
            Self::Order { form, .. } => {
                scores.extend(others.iter().map(|caption| order_similarity(vector, caption, form)));
            }
        }
    }

    /// Exact score of one pair.
    #[must_use]
    pub fn score(self, row: &[f32], column: &[f32]) -> f32 {
        match self {
            Self::Product => dot(row, column),
            Self::Order { form, captions: MatrixSide::Columns } => order_similarity(row, column, form),
            Self::Order { form, captions: MatrixSide::Rows } => order_similarity(column, row, form),
        }
    }

    /// Bounds for every row and for every column, from the norms and rounding errors of the packed vectors.
    pub(super) fn bounds(self, width: usize, norm_bounds: [&[NormBound]; 2]) -> [Vec<ScoreBound>; 2] {
        let largest =
            norm_bounds.map(|norm_bounds| norm_bounds.iter().copied().fold(NormBound::default(), NormBound::max));
        [0, 1].map(|side: usize| {
            let other = largest[1 - side];
            let bound = |&norm_bound: &NormBound| ScoreBound {
                error: self.error_bound(width, norm_bound, other),
                largest: self.max_abs_score(norm_bound, other),
            };
            norm_bounds[side].iter().map(bound).collect()
        })
    }

    /// Bound on the difference of an approximate score and the exact one.
    fn error_bound(self, width: usize, a: NormBound, b: NormBound) -> f64 {
        match self {
            Self::Product => product_error_bound(width, a, b),
            Self::Order { form, .. } => order_similarity_error(width, form, a, b),
        }
    }

    /// Bound on the absolute value of a score.
    fn max_abs_score(self, a: NormBound, b: NormBound) -> f64 {
        match self {
            Self::Product => a.norm * b.norm,
            Self::Order { form: OrderPenalty::Norm, .. } => a.norm + b.norm,
            Self::Order { form: OrderPenalty::Squared, .. } => (a.norm + b.norm).powi(2),
        }
    }

    /// Writes the score function.
    pub(super) fn identity(self, fields: &mut IdentityWriter<'_>) {
        match self {
            Self::Product => fields.write_text("product"),
            Self::Order { form, captions } => {
                fields.write_text("order");
                fields.write_text(match form {
                    OrderPenalty::Norm => "norm",
                    OrderPenalty::Squared => "squared",
                });
                fields.write_text(captions.name());
            }
        }
    }

    /// Computes the scores of a panel of rows with a panel of columns, to one row of `scores` for each row of the
    /// panel.
    pub(super) fn tile(
        self,
        element_type: ElementType,
        left: &[u32],
        right: &[u32],
        scores: &mut [[f32; TILE_COLUMNS]],
    ) {
        let (mut out, rows) = (Tile::ZERO, scores.len().min(TILE_ROWS));
        match self {
            Self::Product => add_product(element_type, rows, left, right, &mut out),
            Self::Order { form, captions } => {
                let violation = match captions {
                    MatrixSide::Columns => OrderViolation::ColumnsExceedRows,
                    MatrixSide::Rows => OrderViolation::RowsExceedColumns,
                };
                add_violations(violation, rows, left, right, &mut out);
                for value in out.0[..rows].as_flattened_mut() {
                    *value = 0.0 - if form == OrderPenalty::Norm { value.sqrt() } else { *value };
                }
            }
        }
        scores.copy_from_slice(&out.0[..rows]);
    }
}
