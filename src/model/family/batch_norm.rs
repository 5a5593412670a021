//! Batch normalisation.

use tch::{Kind, Tensor};

use super::graph::Graph;
use super::parameters::{AllowedValues, ParameterInit, ParameterSpec};
use pairloom_base::error::{Error, Result};

use pairloom_spec::family::BatchNormStatistics;

/// Added to variances, as in `torch.nn.BatchNorm1d`.
const EPSILON: f64 = 1e-5;

/// Share of the statistics of a batch in the running statistics, as in `torch.nn.BatchNorm1d`.
const MOMENTUM: f64 = 0.1;

/// Position of the normalised features in a tensor.
#[derive(Debug, Clone, Copy)]
pub struct BatchNormAxes<'t> {
    /// Dimensions over which the statistics are taken. Another dimension that is not that of the features separates
    /// groups with statistics of their own.
    pub over: &'t [i64],
    /// Shape of weight and bias beside the tensor, with 1 for every dimension but that of the features.
    pub shape: &'t [i64],
    /// 1 for values that count and 0 for padding, in a shape that fits the tensor. `None` if all values count.
    pub present: Option<&'t Tensor>,
}

impl ParameterSpec {
    /// Creates the specifications of a batch normalisation of `width` features: `name.weight`, 1; `name.bias`, 0; and
    /// the running statistics `name.running_mean`, 0, and `name.running_var`, 1, which have no gradient.
    #[must_use]
    pub fn batch_norm(name: &str, width: i64) -> [Self; 4] {
        let part = |part: &str, value: f64, trainable: bool| Self {
            trainable,
            ..Self::new(&format!("{name}.{part}"), &[width], ParameterInit::Constant(value))
        };
        [
            part("weight", 1.0, true),
            part("bias", 0.0, true),
            part("running_mean", 0.0, false),
            Self { allowed: AllowedValues::NotNegative, ..part("running_var", 1.0, false) },
        ]
    }
}

impl Graph<'_> {
    /// Batch normalisation `(x − μ) / √(σ² + 10⁻⁵) · weight + bias` with the parameters of
    /// [`ParameterSpec::batch_norm`].
    ///
    /// In training with [`BatchNormStatistics::Batch`], μ and σ² are those of `x`, and the running statistics are
    /// updated with momentum 0.1 and the unbiased variance, once for each group. A group of one value has no unbiased
    /// variance and updates nothing. Otherwise μ and σ² are the running statistics.
    pub fn batch_norm(
        &self,
        name: &str,
        x: &Tensor,
        axes: BatchNormAxes<'_>,
        statistics: BatchNormStatistics,
    ) -> Result<Tensor> {
        let part = |part: &str| -> Result<Tensor> { Ok(self.get(&format!("{name}.{part}"))?.view(axes.shape)) };
        let (mean, variance) = if self.is_training() && statistics == BatchNormStatistics::Batch {
            let (mean, variance, counts) = moments(x, axes);
            self.update_running_statistics(name, &mean, &variance, &counts)?;
            (mean, variance)
        } else {
            (part("running_mean")?, part("running_var")?)
        };
        let scale = (variance + EPSILON).rsqrt() * part("weight")?;
        Ok((x - mean) * scale + part("bias")?)
    }

    /// Batch normalisation of the columns of rows `[n, width]`, as [`Graph::batch_norm`].
    pub fn batch_norm_of_rows(&self, name: &str, rows: &Tensor, statistics: BatchNormStatistics) -> Result<Tensor> {
        let shape = [1, rows.size()[1]];
        self.batch_norm(name, rows, BatchNormAxes { over: &[0], shape: &shape, present: None }, statistics)
    }

    /// Updates the running statistics with those of each group in turn.
    fn update_running_statistics(&self, name: &str, mean: &Tensor, variance: &Tensor, counts: &Tensor) -> Result<()> {
        let Some(recorder) = self.buffers() else { return Ok(()) };
        let index = |part: &str| {
            let name = format!("{name}.{part}");
            self.parameters().index_of(&name).ok_or_else(|| Error::internal(format!("there is no parameter `{name}`")))
        };
        let indices = [index("running_mean")?, index("running_var")?];
        tch::no_grad(|| {
            let mut recorder = recorder.borrow_mut();
            let width = self.parameters().tensors()[indices[0]].size()[0];
            let groups = |tensor: &Tensor| tensor.detach().view([-1, width]);
            let counts = counts.expand_as(mean).contiguous().view([-1, width]);
            let unbiased = groups(variance) * (&counts / (&counts - 1.0).clamp_min(1.0));
            for (index, values) in indices.into_iter().zip([groups(mean), unbiased]) {
                let mut running =
                    recorder.remove(&index).unwrap_or_else(|| self.parameters().tensors()[index].detach());
                for group in 0..values.size()[0] {
                    let updated = &running * (1.0 - MOMENTUM) + values.get(group) * MOMENTUM;
                    running = updated.where_self(&counts.get(group).gt(1.0), &running);
                }
                recorder.insert(index, running);
            }
        });
        Ok(())
    }
}

/// Mean, biased variance and number of values of each group and feature; the number may have fewer dimensions.
fn moments(x: &Tensor, BatchNormAxes { over, present, .. }: BatchNormAxes<'_>) -> (Tensor, Tensor, Tensor) {
    let sum = |values: &Tensor| values.sum_dim_intlist(over, true, None::<Kind>);
    let counts = match present {
        Some(present) => sum(&present.expand_as(x)),
        None => {
            let count: i64 = over.iter().map(|&dimension| x.size()[usize::try_from(dimension).unwrap_or(0)]).product();
            Tensor::full(vec![1; x.dim()], count, (x.kind(), x.device()))
        }
    };
    let divisor = counts.clamp_min(1.0);
    let weighted = |values: Tensor| match present {
        Some(present) => values * present,
        None => values,
    };
    let mean = sum(&weighted(x.shallow_clone())) / &divisor;
    let variance = sum(&weighted((x - &mean).square())) / &divisor;
    (mean, variance, counts)
}

#[cfg(test)]
mod tests {
    use tch::Device;

    use super::super::parameters::BufferRecorder;
    use super::*;
    use crate::family::parameters::Parameters;
    use pairloom_spec::input_spec::InputSpec;
    use pairloom_spec::precision::MatmulPrecision;

    fn numbers(tensor: &Tensor) -> Vec<f64> {
        Vec::try_from(tensor.to_kind(Kind::Double).contiguous().view(-1)).expect("values")
    }

    /// Weight 1 and bias 0, so a value is its distance from the mean in standard deviations.
    #[test]
    fn groups_update_the_running_statistics_in_turn() {
        let spec = InputSpec::for_features(1, 1);
        let tensors = [1.0, 0.0, 0.0, 1.0].map(|value| Tensor::from_slice(&[value]).to_kind(Kind::Double));
        let parameters =
            Parameters::new(ParameterSpec::batch_norm("bn", 1).into(), &spec, tensors.into()).expect("parameters");
        let x = Tensor::from_slice(&[1.0, 3.0, 0.0, 10.0, 20.0, 60.0]).view([2, 3]);
        let present = Tensor::from_slice(&[1.0, 1.0, 0.0, 1.0, 1.0, 1.0]).view([2, 3]);
        let axes = BatchNormAxes { over: &[1], shape: &[1, 1], present: Some(&present) };
        let recorder = BufferRecorder::default();
        let graph = Graph::with_gradient(&parameters, MatmulPrecision::default(), Some(&recorder));
        let found = numbers(&graph.batch_norm("bn", &x, axes, BatchNormStatistics::Batch).expect("a result"));
        // Means 2 and 30; biased variances 1 and 1400/3.
        assert!((found[0] + 1.0 / 1.00001f64.sqrt()).abs() < 1e-12, "{found:?}");
        assert!((found[5] - 30.0 / (1400.0 / 3.0 + 1e-5f64).sqrt()).abs() < 1e-12, "{found:?}");
        // Unbiased variances 2 and 700.
        let recorded = recorder.into_inner();
        let [mean, variance] = [2, 3].map(|index| numbers(&recorded[&index])[0]);
        assert!((mean - (0.9 * 0.2 + 3.0)).abs() < 1e-12, "{mean}");
        assert!((variance - (0.9 * (0.9 + 0.2) + 70.0)).abs() < 1e-12, "{variance}");
        for graph in [
            Graph::without_gradient(&parameters, MatmulPrecision::default()),
            Graph::with_gradient(&parameters, MatmulPrecision::default(), None),
        ] {
            let frozen = graph.batch_norm("bn", &x, axes, BatchNormStatistics::Frozen).expect("a result");
            assert!((numbers(&frozen)[5] - 60.0 / 1.00001f64.sqrt()).abs() < 1e-12);
        }
    }

    #[test]
    fn one_value_updates_nothing() {
        let spec = InputSpec::for_features(1, 1);
        let parameters = Parameters::random(ParameterSpec::batch_norm("bn", 2).into(), &spec, 1, Device::Cpu);
        let parameters = parameters.expect("parameters");
        let recorder = BufferRecorder::default();
        let graph = Graph::with_gradient(&parameters, MatmulPrecision::default(), Some(&recorder));
        let x = Tensor::from_slice(&[5.0f32, 7.0]).view([1, 2]);
        let found = graph.batch_norm_of_rows("bn", &x, BatchNormStatistics::Batch).expect("a result");
        assert_eq!(numbers(&found), [0.0, 0.0]);
        let recorded = recorder.into_inner();
        assert_eq!([2, 3].map(|index| numbers(&recorded[&index])), [[0.0, 0.0], [1.0, 1.0]]);
    }
}
