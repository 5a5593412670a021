//! The order in which an epoch visits its samples.

use super::sample::Sample;

/// Keeps the stream of the order apart from others of the same seed.
const ORDER: u64 = 0x006f_7264_6572;

/// A permutation of `0..n` that depends on `seed` and `epoch` alone, every one equally likely.
#[must_use]
pub fn epoch_order(n: usize, seed: u64, epoch: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..n).collect();
    Sample::new(seed, &[ORDER, epoch]).shuffle(&mut order);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visits_every_sample_once_in_an_order_of_its_own() {
        let first = epoch_order(500, 7, 0);
        assert_eq!(first, epoch_order(500, 7, 0));
        assert_ne!(first, epoch_order(500, 7, 1));
        assert_ne!(first, epoch_order(500, 8, 0));
        let mut sorted = first;
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..500));
        assert!(epoch_order(0, 7, 0).is_empty());
    }
}
