//! The end of both encoders: rows divided by their L2 norm, then their absolute values, where a model has either.

use tch::Tensor;

/// Norms below this count as this.
const LEAST: f64 = 1e-12;

/// What the gradient needs.
#[derive(Debug)]
pub(super) struct Unit {
    /// Rows before |·|.
    rows: Tensor,
    /// Their norms before the division, `[n, 1]`, where they were divided.
    norms: Option<Tensor>,
    absolute: bool,
}

/// `y = v / max(‖v‖, 10⁻¹²)` where `normalize`, and |y| where `absolute`: a row of zeros stays what it is.
pub(super) fn forward(rows: Tensor, normalize: bool, absolute: bool) -> (Tensor, Unit) {
    let norms = normalize.then(|| rows.norm_scalaropt_dim(2, [1i64].as_slice(), true));
    let rows = norms.as_ref().map_or_else(|| rows.shallow_clone(), |norms| &rows / norms.clamp_min(LEAST));
    let out = if absolute { rows.abs() } else { rows.shallow_clone() };
    (out, Unit { rows, norms, absolute })
}

impl Unit {
    /// The gradient in the rows given, from that in the result: `(d − y·⟨y, d⟩) / ‖v‖`, with `d` times the sign of `y` after
    /// |·|. Where the norm was too small to divide by, it is a constant: `d / 10⁻¹²`.
    pub(super) fn backward(self, d: &Tensor) -> Tensor {
        let Self { rows, norms, absolute } = self;
        let d = if absolute { d * rows.sign() } else { d.shallow_clone() };
        let Some(norms) = norms else { return d };
        let along = (&d * &rows).sum_dim_intlist([1i64].as_slice(), true, None);
        let along = along.masked_fill(&norms.lt(LEAST), 0.0);
        (d - rows * along) / norms.clamp_min(LEAST)
    }
}
