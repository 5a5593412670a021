//! Choosing a free number on a validation split.

/// The number of `grid` with the best result, and that result; of equal results the first. `None` when the grid is empty or
/// no result is a number.
///
/// What is best on the test may not be chosen on it: `result` is measured on a validation split, as the sum of recalls.
pub fn choose(grid: &[f64], mut result: impl FnMut(f64) -> f64) -> Option<(f64, f64)> {
    let mut best: Option<(f64, f64)> = None;
    for &number in grid {
        let got = result(number);
        if !got.is_nan() && best.is_none_or(|(_, best)| got > best) {
            best = Some((number, got));
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_the_best_is_chosen() {
        let rsum = |lambda: f64| if lambda == 1.5 { f64::NAN } else { 100.0 - (lambda - 2.5).abs() };
        assert_eq!(choose(&[1.0, 1.5, 2.0, 3.0, 4.0], rsum), Some((2.0, 99.5)));
        assert_eq!(choose(&[3.0, 2.0], rsum), Some((3.0, 99.5)));
        assert_eq!(choose(&[1.5], rsum), None);
        assert_eq!(choose(&[], rsum), None);
        assert_eq!(choose(&[7.0], |_| f64::NEG_INFINITY), Some((7.0, f64::NEG_INFINITY)));
    }
}
