//! What may be wrong with the free numbers of a method.

/// Names of free numbers, and what is wrong with each.
pub type Problems = Vec<(&'static str, String)>;

/// The largest inverse temperature. Scores are f32: a larger one would compare little but their rounding.
pub const LARGEST_BETA: f64 = 1e6;

/// What is wrong with an inverse temperature, if anything.
#[must_use]
pub fn not_a_beta(name: &'static str, beta: f64) -> Option<(&'static str, String)> {
    let fits = beta > 0.0 && beta <= LARGEST_BETA;
    (!fits).then(|| (name, format!("got {beta}, wanted a number above 0 and at most {LARGEST_BETA}")))
}

/// What is wrong with a temperature, if anything.
#[must_use]
pub fn not_a_temperature(name: &'static str, tau: f64) -> Option<(&'static str, String)> {
    let fits = tau >= 1.0 / LARGEST_BETA && tau.is_finite();
    (!fits).then(|| (name, format!("got {tau}, wanted a finite number of at least {}", 1.0 / LARGEST_BETA)))
}

/// What is wrong with a number that must be finite and at least 0, if anything.
#[must_use]
pub fn not_a_weight(name: &'static str, weight: f64) -> Option<(&'static str, String)> {
    let fits = weight >= 0.0 && weight.is_finite();
    (!fits).then(|| (name, format!("got {weight}, wanted a finite number of at least 0")))
}

/// What is wrong with a count, if anything.
#[must_use]
pub fn none(name: &'static str, count: usize) -> Option<(&'static str, String)> {
    (count == 0).then(|| (name, "got 0, wanted at least 1".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_is_refused_everywhere() {
        for wrong in [f64::NAN, f64::INFINITY, -1.0] {
            assert!(not_a_beta("beta", wrong).is_some());
            assert!(not_a_temperature("tau", wrong).is_some());
            assert!(not_a_weight("alpha", wrong).is_some());
        }
        assert!(not_a_beta("beta", 0.0).is_some() && not_a_temperature("tau", 0.0).is_some());
        assert!(not_a_beta("beta", 2e6).is_some() && not_a_beta("beta", 1e6).is_none());
        assert!(not_a_weight("alpha", 0.0).is_none() && not_a_temperature("tau", 0.01).is_none());
        let wanted = Some(("k", "got 0, wanted at least 1".to_owned()));
        assert_eq!((none("k", 0), none("k", 1)), (wanted, None));
    }
}
