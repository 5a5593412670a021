//! Random draws of a training step, pair by pair.

use az::SaturatingAs;
use tch::Tensor;

use super::model::LocalBatch;
use pairloom_kernels::random::Rng;

impl LocalBatch<'_> {
    /// Random numbers for a pair of the local batch. They depend on the seed, the step, the index of the pair in the
    /// global batch and `stream`, so the number of ranks does not matter.
    #[must_use]
    pub fn rng(&self, pair: usize, stream: u64) -> Rng {
        let [seed, step] = self.seed_and_step;
        Rng::new(seed, &[stream, step, (self.pairs.start + pair).saturating_as::<u64>()])
    }

    /// Dropout mask of the pairs, with `counts[i]` rows of `width` values for pair i, `[Σ counts, width]`, of the type and
    /// device of `like`. A value is 0 with `probability`, and 1 / (1 − probability) elsewhere.
    pub fn dropout_mask(&self, stream: u64, counts: &[i64], width: i64, probability: f64, like: &Tensor) -> Tensor {
        #[expect(clippy::cast_possible_truncation, reason = "activations are f32 or f64")]
        let kept = (1.0 / (1.0 - probability)) as f32;
        let mut mask = Vec::new();
        for (pair, &count) in counts.iter().enumerate() {
            let mut rng = self.rng(pair, stream);
            let draw = |_: i64| if rng.uniform() < probability { 0.0 } else { kept };
            mask.extend((0..count * width).map(draw));
        }
        Tensor::from_slice(&mask).view([-1, width]).to_device(like.device()).to_kind(like.kind())
    }
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind};

    use super::*;
    use crate::family::image_rows::ImageRows;

    #[test]
    fn masks_of_a_pair_do_not_depend_on_the_rank() {
        let like = Tensor::zeros([1], (Kind::Float, Device::Cpu));
        let mask = |pairs: std::ops::Range<usize>, step: u64, counts: &[i64]| {
            let images = ImageRows::new(&[], 1, &like).expect("no images");
            let batch = LocalBatch { images, captions: &[], pairs, global_size: 3, seed_and_step: [7, step] };
            Vec::<f32>::try_from(batch.dropout_mask(1, counts, 500, 0.4, &like).view(-1)).expect("values")
        };
        let all = mask(0..3, 1, &[1, 2, 1]);
        assert_eq!(mask(1..3, 1, &[2, 1]), all[500..]);
        assert_ne!(mask(0..3, 2, &[1, 2, 1]), all);
        let dropped = all.iter().filter(|&&value| value == 0.0).count();
        // 800 of 2,000 with a standard deviation of 22.
        assert!((700..900).contains(&dropped), "{dropped}");
        assert!(all.iter().all(|&value| value == 0.0 || (value - 1.0 / 0.6).abs() < 1e-6));
    }
}
