//! Last layer of both encoders: optional L2 normalisation, then optional absolute values.

use tch::Tensor;

/// Lower bound of norms.
const MIN_NORM: f64 = 1e-12;

/// Tensors that the backward pass needs.
#[derive(Debug)]
pub(super) struct NormalizeTape {
    /// Rows before |·|.
    rows: Tensor,
    /// Norms before the division, `[n, 1]`, if the rows were normalised.
    norms: Option<Tensor>,
    absolute: bool,
}

/// Computes `y = v / max(‖v‖, 10⁻¹²)` if `normalize`, then |y| if `absolute`. A row of zeros stays zero.
pub(super) fn forward(rows: Tensor, normalize: bool, absolute: bool) -> (Tensor, NormalizeTape) {
    let norms = normalize.then(|| rows.norm_scalaropt_dim(2, [1i64].as_slice(), true));
    let rows = norms.as_ref().map_or_else(|| rows.shallow_clone(), |norms| &rows / norms.clamp_min(MIN_NORM));
    let out = if absolute { rows.abs() } else { rows.shallow_clone() };
    (out, NormalizeTape { rows, norms, absolute })
}

impl NormalizeTape {
    /// Gradient in the input rows from that in the result: `(d − y·⟨y, d⟩) / ‖v‖`, with `d` multiplied by the sign of
    /// `y` if `absolute`. Where the norm is below the lower bound, it is `d / 10⁻¹²`.
    pub(super) fn backward(self, d: &Tensor) -> Tensor {
        let Self { rows, norms, absolute } = self;
        let d = if absolute { d * rows.sign() } else { d.shallow_clone() };
        let Some(norms) = norms else { return d };
        let along = (&d * &rows).sum_dim_intlist([1i64].as_slice(), true, None);
        let along = along.masked_fill(&norms.lt(MIN_NORM), 0.0);
        (d - rows * along) / norms.clamp_min(MIN_NORM)
    }
}
