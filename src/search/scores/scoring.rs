//! The score of a row and a column, and how far a tile's may be from it.

use super::side::Side;
use super::source::Bound;
use crate::kernels::dot::{dot, dots};
use crate::kernels::identity::Fields;
use crate::kernels::order::{Form, order, order_error};
use crate::kernels::product::{COLUMNS, Extent, Lanes, ROWS, Tile, Violation, product_error, tile, violations};

/// How a row and a column are scored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scoring {
    /// By [`dot`]: the cosine of unit vectors.
    Product,
    /// By [`order`].
    Order {
        /// What is made of violations.
        form: Form,
        /// Which side are the captions, whose entries should not exceed the images'.
        captions: Side,
    },
}

impl Scoring {
    /// The same where `side` are the rows.
    pub(super) fn from(self, side: Side) -> Self {
        match (self, side) {
            (Self::Order { form, captions }, Side::Columns) => Self::Order { form, captions: captions.other() },
            _ => self,
        }
    }

    /// Adds the exact scores of a vector of `side` with `others` of the other side.
    pub(super) fn exact(self, side: Side, vector: &[f32], others: &[&[f32]], scores: &mut Vec<f32>) {
        match self {
            Self::Product => dots(vector, others, scores),
            Self::Order { form, captions } if captions == side => {
                scores.extend(others.iter().map(|image| order(image, vector, form)));
            }
            Self::Order { form, .. } => scores.extend(others.iter().map(|caption| order(vector, caption, form))),
        }
    }

    /// The exact score of one pair.
    #[must_use]
    pub fn score(self, row: &[f32], column: &[f32]) -> f32 {
        match self {
            Self::Product => dot(row, column),
            Self::Order { form, captions: Side::Columns } => order(row, column, form),
            Self::Order { form, captions: Side::Rows } => order(column, row, form),
        }
    }

    /// Bounds for every row and for every column, of vectors that were changed in packing as these say.
    pub(super) fn bounds(self, width: usize, extents: [&[Extent]; 2]) -> [Vec<Bound>; 2] {
        let largest = extents.map(|extents| extents.iter().copied().fold(Extent::default(), Extent::max));
        [0, 1].map(|side: usize| {
            let other = largest[1 - side];
            let bound = |&extent: &Extent| Bound {
                error: self.error(width, extent, other),
                largest: self.largest(extent, other),
            };
            extents[side].iter().map(bound).collect()
        })
    }

    /// A bound on how far an approximate score is from the exact one.
    fn error(self, width: usize, a: Extent, b: Extent) -> f64 {
        match self {
            Self::Product => product_error(width, a, b),
            Self::Order { form, .. } => order_error(width, form, a, b),
        }
    }

    /// A bound on the absolute value of a score.
    fn largest(self, a: Extent, b: Extent) -> f64 {
        match self {
            Self::Product => a.norm * b.norm,
            Self::Order { form: Form::Norm, .. } => a.norm + b.norm,
            Self::Order { form: Form::Squared, .. } => (a.norm + b.norm).powi(2),
        }
    }

    /// Writes what the score is.
    pub(super) fn identity(self, fields: &mut Fields<'_>) {
        match self {
            Self::Product => fields.text("product"),
            Self::Order { form, captions } => {
                fields.text("order");
                fields.text(match form {
                    Form::Norm => "norm",
                    Form::Squared => "squared",
                });
                fields.text(captions.name());
            }
        }
    }

    /// The scores of a panel of rows with a panel of columns, to `scores`, one row of it for each row of the panel.
    pub(super) fn tile(self, lanes: Lanes, left: &[u32], right: &[u32], scores: &mut [[f32; COLUMNS]]) {
        let (mut out, rows) = (Tile::ZERO, scores.len().min(ROWS));
        match self {
            Self::Product => tile(lanes, rows, left, right, &mut out),
            Self::Order { form, captions } => {
                let violation = match captions {
                    Side::Columns => Violation::OfColumns,
                    Side::Rows => Violation::OfRows,
                };
                violations(violation, rows, left, right, &mut out);
                for value in out.0[..rows].as_flattened_mut() {
                    *value = 0.0 - if form == Form::Norm { value.sqrt() } else { *value };
                }
            }
        }
        scores.copy_from_slice(&out.0[..rows]);
    }
}
