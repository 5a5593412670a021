//! Values that a parameter can have, for checks of checkpoints and of model files.

use tch::{Kind, Tensor};

/// Values that a parameter can have. Training never leaves them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AllowedValues {
    /// All finite numbers.
    #[default]
    Finite,
    /// Numbers from 0 on, such as variances.
    NotNegative,
    /// Whole numbers from −1 to `count` − 1: indices, and −1 for none.
    IndexOrNone {
        /// Number of things that are counted.
        count: i64,
    },
    /// Rows, each with a finite sum above 0.
    PositiveRowSums,
}

impl AllowedValues {
    /// Mistake of the parameter `name`, with the first row that is wrong.
    #[must_use]
    pub fn mistake(self, name: &str, values: &Tensor) -> Option<String> {
        let values = values.to_kind(Kind::Double);
        let (values, allowed) = match self {
            Self::Finite => return None,
            Self::NotNegative => (values.shallow_clone(), values.ge(0.0)),
            Self::IndexOrNone { count } => {
                let whole = values.floor().eq_tensor(&values);
                let in_range = values.ge(-1.0).logical_and(&values.lt(count));
                (values, whole.logical_and(&in_range))
            }
            Self::PositiveRowSums => {
                let sums = values.sum_dim_intlist(1i64, false, None::<Kind>);
                let allowed = sums.gt(0.0).logical_and(&sums.isfinite());
                (sums, allowed)
            }
        };
        let wrong = allowed.reshape([-1]).logical_not().nonzero();
        if wrong.size()[0] == 0 {
            return None;
        }
        let row = wrong.int64_value(&[0, 0]);
        let got = values.reshape([-1]).double_value(&[row]);
        Some(match self {
            Self::PositiveRowSums => format!("row {row} of `{name}` has the sum {got}, wanted more than 0"),
            Self::IndexOrNone { count } => {
                format!("row {row} of `{name}` holds {got}, wanted a whole number from -1 to {}", count - 1)
            }
            Self::Finite | Self::NotNegative => format!("row {row} of `{name}` holds {got}, wanted 0 or more"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_wrong_row_is_named() {
        let indices = AllowedValues::IndexOrNone { count: 3 };
        let of = |allowed: AllowedValues, values: &[f32]| allowed.mistake("x", &Tensor::from_slice(values));
        assert_eq!(of(indices, &[-1.0, 0.0, 2.0]), None);
        for (wrong, got) in [(3.0, "3"), (9999.0, "9999"), (0.5, "0.5"), (-50.0, "-50"), (-1.5, "-1.5")] {
            let wanted = format!("row 1 of `x` holds {got}, wanted a whole number from -1 to 2");
            assert_eq!(of(indices, &[2.0, wrong, 7.0]), Some(wanted));
        }
        assert_eq!(of(AllowedValues::NotNegative, &[0.0, 1.0]), None);
        let negative = of(AllowedValues::NotNegative, &[0.0, -0.25]);
        assert_eq!(negative.as_deref(), Some("row 1 of `x` holds -0.25, wanted 0 or more"));
        assert_eq!(of(AllowedValues::Finite, &[-3.0]), None);
        let rows =
            |values: &[f32]| AllowedValues::PositiveRowSums.mistake("A", &Tensor::from_slice(values).view([-1, 2]));
        assert_eq!(rows(&[1.0, 0.0, -1.0, 2.0]), None);
        assert_eq!(rows(&[1.0, 0.0, 0.0, 0.0]).as_deref(), Some("row 1 of `A` has the sum 0, wanted more than 0"));
        assert!(rows(&[1.0, -1.5]).is_some_and(|mistake| mistake.contains("the sum -0.5")));
    }
}
