//! Adam (Kingma and Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015), with decoupled weight decay `AdamW`
//! (Loshchilov and Hutter, "Decoupled Weight Decay Regularization", ICLR 2019), and the global norm of gradients.

use tch::{Kind, Tensor};

use super::tensor_slices::{as_mut_slice, as_slice, is_f32_slice, thread_count};
use pairloom_kernels::adam::{AdamCoefficients, BETAS, EPSILON, step, sum_of_squares};

/// Number of values that are updated together, so that they stay in the CPU's cache.
const BLOCK: usize = 1 << 16;

/// Decoupled weight decay.
#[derive(Debug, Clone, Copy)]
pub struct AdamDecay {
    /// Weight decay d: a parameter is multiplied by 1 − learning rate · d before a step.
    pub weight_decay: f64,
    /// Number of parameters, from the first on, that decay.
    pub parameters: usize,
}

/// State of the optimiser: number of steps, first and second moment of every parameter.
#[derive(Debug)]
pub struct Adam {
    steps: i32,
    moments: Vec<(Tensor, Tensor)>,
}

impl Adam {
    /// Creates the state before the first step.
    #[must_use]
    pub fn new<'p>(parameters: impl IntoIterator<Item = &'p Tensor>) -> Self {
        Self { steps: 0, moments: parameters.into_iter().map(|p| (p.zeros_like(), p.zeros_like())).collect() }
    }

    /// Restores the state after `steps` steps.
    #[must_use]
    pub fn from_moments(steps: i32, moments: Vec<(Tensor, Tensor)>) -> Self {
        Self { steps, moments }
    }

    /// Number of steps done.
    #[must_use]
    pub fn steps(&self) -> i32 {
        self.steps
    }

    /// First and second moment of every parameter.
    pub fn moments(&self) -> &[(Tensor, Tensor)] {
        &self.moments
    }

    /// Updates `parameters` in place with `gradients` times `scale`; β = (0.9, 0.999) and ε = 1e-8 as in
    /// `torch.optim.Adam`. Decay is that of `torch.optim.AdamW`.
    ///
    /// Parameters, gradients and moments must be contiguous and have the order and shapes of [`Adam::new`].
    pub fn step<'p>(
        &mut self,
        parameters: impl IntoIterator<Item = &'p Tensor>,
        gradients: &[Tensor],
        scale: f64,
        learning_rate: f64,
        decay: AdamDecay,
    ) {
        self.steps += 1;
        let scales = [1.0 - learning_rate * decay.weight_decay, 1.0];
        let scale_of = |index: usize| scales[usize::from(index >= decay.parameters)];
        let [first, second] = BETAS.map(|beta| 1.0 - beta.powi(self.steps));
        let mut all: Vec<[Tensor; 4]> = parameters
            .into_iter()
            .zip(gradients)
            .zip(&self.moments)
            .map(|((p, g), (m, v))| [p, g, m, v].map(Tensor::shallow_clone))
            .collect();
        if all.iter().flatten().all(is_f32_slice) {
            #[expect(clippy::cast_possible_truncation, reason = "the parameters are f32")]
            let coefficients = |index: usize| AdamCoefficients {
                gradient_scale: scale as f32,
                negative_step_size: (-learning_rate / first) as f32,
                bias_correction2_sqrt: second.sqrt() as f32,
                parameter_scale: scale_of(index) as f32,
            };
            return fused_step(&mut all, &coefficients);
        }
        tch::no_grad(|| {
            for (index, [p, g, m, v]) in all.iter_mut().enumerate() {
                let g = &*g * scale;
                let _ = m.lerp_(&g, 1.0 - BETAS[0]);
                let _ = v.g_mul_scalar_(BETAS[1]).g_add_(&(g.square() * (1.0 - BETAS[1])));
                let spread = v.sqrt() / second.sqrt() + EPSILON;
                let _ = p.g_mul_scalar_(scale_of(index)).g_add_(&(&*m / spread * (-learning_rate / first)));
            }
        });
    }
}

/// Updates parameters and moments in one pass over memory, in blocks that are distributed to threads. `coefficients`
/// returns those of a parameter by its index.
fn fused_step(all: &mut [[Tensor; 4]], coefficients: &dyn Fn(usize) -> AdamCoefficients) {
    let mut blocks = Vec::new();
    for (index, tensors) in all.iter_mut().enumerate() {
        let coefficients = coefficients(index);
        let [p, g, m, v] = tensors.each_mut();
        let changed = [p, m, v].map(|tensor| as_mut_slice(tensor).chunks_mut(BLOCK));
        let [p, m, v] = changed;
        let parameter_blocks = p.zip(as_slice(g).chunks(BLOCK)).zip(m.zip(v));
        blocks.extend(parameter_blocks.map(|block| (block, coefficients)));
    }
    let share = blocks.len().div_ceil(thread_count()).max(1);
    std::thread::scope(|scope| {
        while !blocks.is_empty() {
            let mine = blocks.split_off(blocks.len().saturating_sub(share));
            let work =
                move || mine.into_iter().for_each(|(((p, g), (m, v)), coefficients)| step(p, g, m, v, coefficients));
            if blocks.is_empty() { work() } else { drop(scope.spawn(work)) }
        }
    });
}

/// Global L2 norm of `gradients`.
#[must_use]
pub fn global_norm(gradients: &[Tensor]) -> f64 {
    if !gradients.iter().all(is_f32_slice) {
        let squares = |g: &Tensor| g.norm().to_kind(Kind::Double).double_value(&[]).powi(2);
        return gradients.iter().map(squares).sum::<f64>().sqrt();
    }
    // Sums of blocks are added in order, so the result does not depend on the number of threads.
    let blocks: Vec<&[f32]> = gradients.iter().flat_map(|gradient| as_slice(gradient).chunks(BLOCK)).collect();
    let share = blocks.len().div_ceil(thread_count()).max(1);
    let sum = |blocks: &[&[f32]]| blocks.iter().map(|block| sum_of_squares(block)).collect::<Vec<f64>>();
    let sums = std::thread::scope(|scope| {
        let (first, rest) = blocks.split_at(share.min(blocks.len()));
        let others: Vec<_> = rest.chunks(share).map(|blocks| scope.spawn(move || sum(blocks))).collect();
        let mut sums = sum(first);
        sums.extend(others.into_iter().flat_map(|other| other.join().expect("no sum panics")));
        sums
    });
    sums.iter().sum::<f64>().sqrt()
}
