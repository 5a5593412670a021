//! Checks that settings of several models and losses share.

use std::ops::RangeInclusive;

use pairloom_stage::Problem;

/// Plausible range of a number, and a text with the usual values.
pub type UsualRange = (RangeInclusive<f64>, &'static str);

/// Usual margins of triplet losses.
pub const MARGINS: UsualRange = (0.0..=1.0, "usual is 0.05 to 0.5, as scores are mostly below 1");

/// Warning about a number that is possible, but implausible.
#[must_use]
pub fn check_plausible(name: &str, got: f64, (plausible, usual): UsualRange) -> Option<Problem> {
    // Very small and very large numbers are readable in scientific notation alone.
    let text = if got == 0.0 || (1e-4..1e9).contains(&got.abs()) { got.to_string() } else { format!("{got:e}") };
    (!plausible.contains(&got)).then(|| Problem::warning(name, format!("got {text}; {usual}")))
}

/// Returns true for the default of a flag: leaving it out keeps the keys of older results.
#[must_use]
pub fn is_false(flag: &bool) -> bool {
    !*flag
}

/// Largest width of a layer. Its recurrent weights fill 3 GiB.
const MAX_WIDTH: usize = 16_384;

/// Largest number of layers that follow each other.
const MAX_LAYERS: usize = 64;

/// Problems of widths that are 0 or too large.
#[must_use]
pub fn check_widths(widths: &[(&str, usize)]) -> Vec<Problem> {
    outside(widths, 1, MAX_WIDTH)
}

/// Problem of a number of layers. `least` is the smallest number that the model allows.
#[must_use]
pub fn check_layers(setting: &str, layers: usize, least: usize) -> Vec<Problem> {
    outside(&[(setting, layers)], least, MAX_LAYERS)
}

fn outside(settings: &[(&str, usize)], least: usize, most: usize) -> Vec<Problem> {
    let wrong = settings.iter().filter(|(_, got)| !(least..=most).contains(got));
    wrong.map(|(setting, got)| Problem::new(*setting, format!("got {got}, expected {least} to {most}"))).collect()
}

/// Problem of the setting `dropout`.
#[must_use]
pub fn check_dropout(probability: f64) -> Option<Problem> {
    let is_valid = (0.0..1.0).contains(&probability);
    (!is_valid).then(|| Problem::new("dropout", format!("got {probability}, expected a probability below 1")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_and_layers_are_bounded() {
        let text = |problems: Vec<Problem>| -> Vec<String> {
            problems.into_iter().map(|problem| format!("{}: {}", problem.setting, problem.message)).collect()
        };
        assert_eq!(
            text(check_widths(&[("a", 0), ("b", 1), ("c", 16_384), ("d", 200_000)])),
            ["a: got 0, expected 1 to 16384", "d: got 200000, expected 1 to 16384"]
        );
        assert_eq!(text(check_layers("layers", 0, 0)), [""; 0]);
        assert_eq!(text(check_layers("layers", 10_000_000_000, 1)), ["layers: got 10000000000, expected 1 to 64"]);
    }

    #[test]
    fn numbers_outside_of_the_plausible_range_are_reported_with_the_usual_one() {
        assert_eq!(check_plausible("margin", 1.0, MARGINS), None);
        let message = "got 20; usual is 0.05 to 0.5, as scores are mostly below 1";
        let small = check_plausible("rate", 1e-30, (1e-7..=1.0, "usual is 1e-3"));
        assert_eq!(small, Some(Problem::warning("rate", "got 1e-30; usual is 1e-3")));
        assert_eq!(check_plausible("margin", 20.0, MARGINS), Some(Problem::warning("margin", message)));
    }
}
