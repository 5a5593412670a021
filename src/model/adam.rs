//! Adam with a bound on the gradient: Kingma and Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015.

use tch::Tensor;

const BETA1: f64 = 0.9;
const BETA2: f64 = 0.999;
const EPSILON: f64 = 1e-8;

/// Values that a pass of the update touches together, so that they stay in the processor's cache.
const BLOCK: i64 = 1 << 16;

/// The state of the optimiser: steps done, first and second moment of every parameter.
#[derive(Debug)]
pub struct Adam {
    steps: i32,
    moments: Vec<(Tensor, Tensor)>,
}

impl Adam {
    /// The state before the first step.
    #[must_use]
    pub fn new<'p>(parameters: impl IntoIterator<Item = &'p Tensor>) -> Self {
        Self { steps: 0, moments: parameters.into_iter().map(|p| (p.zeros_like(), p.zeros_like())).collect() }
    }

    /// The state after `steps` steps.
    #[must_use]
    pub fn resume(steps: i32, moments: Vec<(Tensor, Tensor)>) -> Self {
        Self { steps, moments }
    }

    /// Steps done.
    #[must_use]
    pub fn steps(&self) -> i32 {
        self.steps
    }

    /// First and second moment of every parameter.
    pub fn moments(&self) -> &[(Tensor, Tensor)] {
        &self.moments
    }

    /// Moves `parameters` against `gradients`, in place, with β = (0.9, 0.999) and ε = 1e-8 as `torch.optim.Adam`.
    ///
    /// Parameters, gradients and moments must be contiguous, and in the order and shapes of [`Adam::new`].
    pub fn step<'p>(
        &mut self,
        parameters: impl IntoIterator<Item = &'p Tensor>,
        gradients: &[Tensor],
        learning_rate: f64,
    ) {
        self.steps += 1;
        let first = 1.0 - BETA1.powi(self.steps);
        let second = 1.0 - BETA2.powi(self.steps);
        tch::no_grad(|| {
            for ((parameter, gradient), (m, v)) in parameters.into_iter().zip(gradients).zip(&self.moments) {
                let [parameter, gradient, m, v] = [parameter, gradient, m, v].map(|tensor| tensor.view(-1));
                let all = parameter.size()[0];
                for start in (0..all).step_by(usize::try_from(BLOCK).unwrap_or(usize::MAX)) {
                    let block = |tensor: &Tensor| tensor.narrow(0, start, BLOCK.min(all - start));
                    let (mut parameter, gradient, mut m, mut v) =
                        (block(&parameter), block(&gradient), block(&m), block(&v));
                    let _ = m.lerp_(&gradient, 1.0 - BETA1);
                    let _ = v.g_mul_scalar_(BETA2).g_add_(&(gradient.square().g_mul_scalar_(1.0 - BETA2)));
                    let spread = v.sqrt().g_div_scalar_(second.sqrt()).g_add_scalar_(EPSILON);
                    let _ = parameter.g_add_(&(&m / spread).g_mul_scalar_(-learning_rate / first));
                }
            }
        });
    }
}

/// Scales `gradients`, in place, so that their global L2 norm is at most `largest`, as `clip_grad_norm_` does; gives the
/// norm before.
pub fn clip(gradients: &[Tensor], largest: f64) -> f64 {
    tch::no_grad(|| {
        let squares: f64 = gradients.iter().map(|g| g.norm().double_value(&[]).powi(2)).sum();
        let norm = squares.sqrt();
        let scale = largest / (norm + 1e-6);
        if scale < 1.0 {
            for gradient in gradients {
                let _ = gradient.shallow_clone().g_mul_scalar_(scale);
            }
        }
        norm
    })
}
