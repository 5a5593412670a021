//! Checks of the parameters of methods.

/// Problems of parameters: the name of the setting, and a message.
pub type ParameterProblems = Vec<(&'static str, String)>;

/// The largest inverse temperature. Scores are f32: with a larger one, rounding errors of scores would decide.
pub const MAX_INVERSE_TEMPERATURE: f64 = 1e6;

/// Problem of an inverse temperature, if there is one.
#[must_use]
pub fn check_inverse_temperature(name: &'static str, beta: f64) -> Option<(&'static str, String)> {
    let fits = beta > 0.0 && beta <= MAX_INVERSE_TEMPERATURE;
    (!fits).then(|| (name, format!("got {beta}, wanted a number above 0 and at most {MAX_INVERSE_TEMPERATURE}")))
}

/// Problem of a temperature, if there is one.
#[must_use]
pub fn check_temperature(name: &'static str, tau: f64) -> Option<(&'static str, String)> {
    let fits = tau >= 1.0 / MAX_INVERSE_TEMPERATURE && tau.is_finite();
    (!fits).then(|| (name, format!("got {tau}, wanted a finite number of at least {}", 1.0 / MAX_INVERSE_TEMPERATURE)))
}

/// Problem of a weight, which must be finite and at least 0, if there is one.
#[must_use]
pub fn check_weight(name: &'static str, weight: f64) -> Option<(&'static str, String)> {
    let fits = weight >= 0.0 && weight.is_finite();
    (!fits).then(|| (name, format!("got {weight}, wanted a finite number of at least 0")))
}

/// Problem of a count, which must be at least 1, if there is one.
#[must_use]
pub fn check_count(name: &'static str, count: usize) -> Option<(&'static str, String)> {
    (count == 0).then(|| (name, "got 0, wanted at least 1".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_out_of_range_are_problems() {
        for wrong in [f64::NAN, f64::INFINITY, -1.0] {
            assert!(check_inverse_temperature("beta", wrong).is_some());
            assert!(check_temperature("tau", wrong).is_some());
            assert!(check_weight("alpha", wrong).is_some());
        }
        assert!(check_inverse_temperature("beta", 0.0).is_some() && check_temperature("tau", 0.0).is_some());
        assert!(check_inverse_temperature("beta", 2e6).is_some() && check_inverse_temperature("beta", 1e6).is_none());
        assert!(check_weight("alpha", 0.0).is_none() && check_temperature("tau", 0.01).is_none());
        let wanted = Some(("k", "got 0, wanted at least 1".to_owned()));
        assert_eq!((check_count("k", 0), check_count("k", 1)), (wanted, None));
    }
}
