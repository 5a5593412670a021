//! Messages about values of vectors that are no finite f32.

/// Description of a value that is not finite as f32, by its value in the file: `1e300, which is …`.
pub(super) fn not_finite(value: f64) -> String {
    if value.is_finite() {
        format!("{value:e}, which is beyond f32, wanted at most {:e}", f32::MAX)
    } else {
        format!("{value}, wanted a finite number")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_of_the_file_is_named() {
        assert_eq!(not_finite(-1e300), "-1e300, which is beyond f32, wanted at most 3.4028235e38");
        assert_eq!(not_finite(f64::NAN), "NaN, wanted a finite number");
        assert_eq!(not_finite(f64::NEG_INFINITY), "-inf, wanted a finite number");
    }
}
