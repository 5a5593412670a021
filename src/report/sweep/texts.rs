//! Texts of differences and p-values.

/// Difference with its sign and one decimal.
pub(super) fn signed(difference: f64) -> String {
    format!("{difference:+.1}")
}

/// p-value with three decimals.
pub(super) fn p_value(p: f64) -> String {
    if p < 0.001 { "< 0.001".to_owned() } else { format!("{p:.3}") }
}
