//! Vectors that can be searched.

use std::borrow::Cow;
use std::ops::Range;

use crate::error::{Error, Mistakes, Result};
use crate::kernels::product::{Extent, Lanes};

/// The largest norm: products of two such vectors stay within f32.
const LARGEST: f64 = 4.611_686_018_427_388e18;

/// Vectors of one width, none of them 0 and all numbers finite.
#[derive(Debug, Clone)]
pub struct Vectors<'v> {
    values: Cow<'v, [f32]>,
    width: usize,
    norms: Vec<f64>,
}

impl<'v> Vectors<'v> {
    /// Checks them; `name` is what an error calls them.
    ///
    /// # Shapes
    /// `values`: `n × width`, row-major; n may be 0.
    ///
    /// # Errors
    /// Rows with values that are not finite, with norm 0 or above 2⁶², named from 0; more than 2³² rows; `width` 0, or
    /// `values` that are no whole number of vectors.
    pub fn new(name: &str, values: &'v [f32], width: usize) -> Result<Self> {
        if width == 0 || !values.len().is_multiple_of(width) {
            let message = format!("`{name}` has {} values, no whole number of vectors of width {width}", values.len());
            return Err(Error::internal(message));
        }
        if u32::try_from(values.len() / width).is_err() {
            return Err(Error::data(format!("`{name}` has {} rows, wanted fewer than 2³²", values.len() / width)));
        }
        let mut mistakes = Mistakes::of_table(name);
        let norms: Vec<f64> = values.chunks_exact(width).map(|row| Extent::of(Lanes::F32, row).norm).collect();
        for (row, &norm) in norms.iter().enumerate() {
            if !norm.is_finite() {
                let vector = &values[row * width..][..width];
                let (place, value) = vector.iter().enumerate().find(|(_, x)| !x.is_finite()).unwrap_or((0, &f32::NAN));
                mistakes.add(format_args!("row {row}"), format_args!("got {value} at {place}, wanted finite numbers"));
            } else if norm == 0.0 {
                mistakes.add(format_args!("row {row}"), "got a vector of zeros, which has no direction");
            } else if norm > LARGEST {
                mistakes.add(format_args!("row {row}"), format_args!("got norm {norm:.1e}, wanted at most 2⁶²"));
            }
        }
        mistakes.finish()?;
        Ok(Self { values: Cow::Borrowed(values), width, norms })
    }

    /// A copy of some of them, in this order.
    pub(super) fn subset(&self, some: &[usize]) -> Self {
        Self {
            values: some.iter().flat_map(|&i| self.row(i).iter().copied()).collect(),
            width: self.width,
            norms: some.iter().map(|&i| self.norms[i]).collect(),
        }
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.norms.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.norms.is_empty()
    }

    /// Values of each.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Vector `i`.
    #[must_use]
    pub fn row(&self, i: usize) -> &[f32] {
        &self.values[i * self.width..][..self.width]
    }

    /// The values of some of them, one after the other.
    #[must_use]
    pub fn rows(&self, some: Range<usize>) -> &[f32] {
        &self.values[some.start * self.width..some.end * self.width]
    }

    /// Their L2 norms.
    #[must_use]
    pub fn norms(&self) -> &[f64] {
        &self.norms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_rows_are_named() {
        let fails = |values: &[f32], width| Vectors::new("captions", values, width).expect_err("bad").to_string();
        let message = fails(&[1.0, 0.0, f32::NAN, 1.0, 0.0, 0.0, 1.0, f32::INFINITY, 1e30, 0.0], 2);
        for wanted in [
            "`captions` has 4 mistakes",
            "row 1: got NaN at 0",
            "row 2: got a vector of zeros",
            "row 3: got inf at 1",
            "row 4: got norm 1.0e30",
        ] {
            assert!(message.contains(wanted), "{message}");
        }
        let many = fails(&[0.0; 50], 2);
        assert!(many.contains("25 mistakes") && many.ends_with("and 5 more"), "{many}");
        assert!(fails(&[1.0; 3], 2).contains("3 values"));
        assert!(fails(&[1.0; 3], 0).contains("width 0"));
        // The norm of what is finite is.
        assert!(fails(&[f32::MAX; 2], 2).contains("row 0: got norm"));
    }

    #[test]
    fn rows_and_norms() {
        let vectors = Vectors::new("images", &[3.0, 4.0, 0.0, -2.0], 2).expect("good");
        assert_eq!((vectors.len(), vectors.width(), vectors.row(1)), (2, 2, &[0.0, -2.0][..]));
        assert_eq!((vectors.rows(0..2), vectors.rows(1..2)), (&[3.0, 4.0, 0.0, -2.0][..], vectors.row(1)));
        assert_eq!(vectors.norms(), [5.0, 2.0]);
        assert!(Vectors::new("images", &[], 7).expect("none").is_empty());
    }
}
