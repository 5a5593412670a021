//! Sampling of the memory bank: the samples that it holds in an epoch, as a pure function.

use super::Permutation;
use crate::random::Rng;

/// Path element that separates these random numbers from others of the same seed.
const RANDOM_STREAM: u64 = 0x6261_6e6b;

/// Sampling of the memory bank: number of samples, and method.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MemoryBankSampling {
    /// A fixed number of samples, drawn uniformly without replacement.
    Samples(usize),
    /// Whole batches of a shuffled data set: batch size, and the probability of each batch. The number of samples
    /// varies from epoch to epoch, with a standard deviation of √(p·(1−p)/b) of the data set, for `b` batches.
    Batches(usize, f64),
}

/// Draws the samples of an epoch from `0..n`; ascending. Cost: about 50 ns a drawn sample.
#[must_use]
pub fn sample_memory_bank(n: usize, sampling: MemoryBankSampling, seed: u64, epoch: u64) -> Vec<usize> {
    let permutation = Permutation::new(n, seed, &[RANDOM_STREAM, epoch]);
    let mut drawn: Vec<usize> = match sampling {
        MemoryBankSampling::Samples(count) => (0..count.min(n)).map(|place| permutation.at(place)).collect(),
        MemoryBankSampling::Batches(batch_size, probability) => {
            let mut rng = Rng::new(seed, &[RANDOM_STREAM, epoch, 1]);
            let batches = (0..n).step_by(batch_size.max(1)).filter(|_| rng.uniform() < probability);
            batches.flat_map(|start| start..(start + batch_size).min(n)).map(|place| permutation.at(place)).collect()
        }
    };
    drawn.sort_unstable();
    drawn
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_distinct_and_have_the_right_number() {
        for (n, count) in [(1, 1), (10, 3), (1000, 1000), (5, 9), (7, 0)] {
            let drawn = sample_memory_bank(n, MemoryBankSampling::Samples(count), 3, 4);
            assert_eq!(drawn.len(), count.min(n));
            assert!(drawn.array_windows().all(|[a, b]| a < b) && drawn.iter().all(|&sample| sample < n), "{drawn:?}");
        }
        assert_ne!(
            sample_memory_bank(1000, MemoryBankSampling::Samples(50), 3, 4),
            sample_memory_bank(1000, MemoryBankSampling::Samples(50), 3, 5)
        );
        assert_eq!(
            sample_memory_bank(1000, MemoryBankSampling::Samples(50), 3, 4),
            sample_memory_bank(1000, MemoryBankSampling::Samples(50), 3, 4)
        );
    }

    /// In 200 epochs, each of 500 samples is drawn 20 times on average; the standard deviation is 4.2.
    #[test]
    fn every_sample_is_drawn_equally_often() {
        for sampling in [MemoryBankSampling::Samples(50), MemoryBankSampling::Batches(10, 0.1)] {
            let mut counts = vec![0; 500];
            for epoch in 0..200 {
                for sample in sample_memory_bank(500, sampling, 1, epoch) {
                    counts[sample] += 1;
                }
            }
            let all: usize = counts.iter().sum();
            assert!((9000..11000).contains(&all), "{all}");
            assert!(counts.iter().all(|count| (3..45).contains(count)), "{counts:?}");
        }
    }

    #[test]
    fn batches_are_drawn_whole() {
        let sizes: Vec<usize> = (0..50)
            .map(|epoch| sample_memory_bank(1003, MemoryBankSampling::Batches(10, 0.3), 9, epoch).len() % 10)
            .collect();
        // The last batch of a data set has three samples.
        assert!(sizes.iter().all(|size| [0, 3].contains(size)), "{sizes:?}");
        assert!(sample_memory_bank(1003, MemoryBankSampling::Batches(10, 0.0), 9, 0).is_empty());
        assert_eq!(sample_memory_bank(1003, MemoryBankSampling::Batches(10, 1.0), 9, 0).len(), 1003);
    }
}
