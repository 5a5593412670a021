//! Adam with a bound on the gradient: Kingma and Ba, "Adam: A Method for Stochastic Optimization", ICLR 2015.

use tch::{Kind, Tensor};

use super::slices::{is_slice, threads, values, values_mut};
use crate::kernels::adam::{BETA, EPSILON, Rates, squares, step};

/// Values that a pass of the update touches together, so that they stay in the processor's cache.
const BLOCK: usize = 1 << 16;

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

    /// Moves `parameters` against `gradients` times `scale`, in place, with β = (0.9, 0.999) and ε = 1e-8 as
    /// `torch.optim.Adam`.
    ///
    /// Parameters, gradients and moments must be contiguous, and in the order and shapes of [`Adam::new`].
    pub fn step<'p>(
        &mut self,
        parameters: impl IntoIterator<Item = &'p Tensor>,
        gradients: &[Tensor],
        scale: f64,
        learning_rate: f64,
    ) {
        self.steps += 1;
        let [first, second] = BETA.map(|beta| 1.0 - beta.powi(self.steps));
        let mut all: Vec<[Tensor; 4]> = parameters
            .into_iter()
            .zip(gradients)
            .zip(&self.moments)
            .map(|((p, g), (m, v))| [p, g, m, v].map(Tensor::shallow_clone))
            .collect();
        if all.iter().flatten().all(is_slice) {
            #[expect(clippy::cast_possible_truncation, reason = "the parameters are f32")]
            let rates =
                Rates { scale: scale as f32, first: (-learning_rate / first) as f32, second: second.sqrt() as f32 };
            return in_one_pass(&mut all, rates);
        }
        tch::no_grad(|| {
            for [p, g, m, v] in &mut all {
                let g = &*g * scale;
                let _ = m.lerp_(&g, 1.0 - BETA[0]);
                let _ = v.g_mul_scalar_(BETA[1]).g_add_(&(g.square() * (1.0 - BETA[1])));
                let spread = v.sqrt() / second.sqrt() + EPSILON;
                let _ = p.g_add_(&(&*m / spread * (-learning_rate / first)));
            }
        });
    }
}

/// Each value of all parameters with its gradient and moments once, blocks dealt out to threads.
fn in_one_pass(all: &mut [[Tensor; 4]], rates: Rates) {
    let mut blocks = Vec::new();
    for tensors in all {
        let [p, g, m, v] = tensors.each_mut();
        let changed = [p, m, v].map(|tensor| values_mut(tensor).chunks_mut(BLOCK));
        let [p, m, v] = changed;
        blocks.extend(p.zip(values(g).chunks(BLOCK)).zip(m.zip(v)));
    }
    let share = blocks.len().div_ceil(threads()).max(1);
    std::thread::scope(|scope| {
        while !blocks.is_empty() {
            let mine = blocks.split_off(blocks.len().saturating_sub(share));
            let work = move || mine.into_iter().for_each(|((p, g), (m, v))| step(p, g, m, v, rates));
            if blocks.is_empty() { work() } else { drop(scope.spawn(work)) }
        }
    });
}

/// The global L2 norm of `gradients`.
#[must_use]
pub fn norm(gradients: &[Tensor]) -> f64 {
    if !gradients.iter().all(is_slice) {
        let squares = |g: &Tensor| g.norm().to_kind(Kind::Double).double_value(&[]).powi(2);
        return gradients.iter().map(squares).sum::<f64>().sqrt();
    }
    // One sum a block, added in their order: the same for any number of threads.
    let blocks: Vec<&[f32]> = gradients.iter().flat_map(|gradient| values(gradient).chunks(BLOCK)).collect();
    let share = blocks.len().div_ceil(threads()).max(1);
    let sum = |blocks: &[&[f32]]| blocks.iter().map(|block| squares(block)).collect::<Vec<f64>>();
    let sums = std::thread::scope(|scope| {
        let (first, rest) = blocks.split_at(share.min(blocks.len()));
        let others: Vec<_> = rest.chunks(share).map(|blocks| scope.spawn(move || sum(blocks))).collect();
        let mut sums = sum(first);
        sums.extend(others.into_iter().flat_map(|other| other.join().expect("no sum panics")));
        sums
    });
    sums.iter().sum::<f64>().sqrt()
}
