//! Data order of all epochs of a training.

use std::ops::Range;

use az::SaturatingAs;

use super::mixture::Mixture;
use super::shuffle::{PassOrder, ShardLayout, Shuffle};

/// A data set to train on: its shards and its weight in the mixture.
#[derive(Debug, Clone, PartialEq)]
pub struct DataSet {
    /// Number of samples of each shard.
    pub shards: Vec<usize>,
    /// Weight of the data set: its fraction of an epoch is this weight over the sum of all weights.
    pub weight: f64,
}

/// Data order of every epoch: maps (epoch, position) to a sample.
///
/// An epoch has as many positions as all data sets have samples. Data set `i` fills `weight[i] / Σ weight` of them,
/// interleaved evenly. It passes over all its samples before any of them repeats, and the next epoch continues the
/// pass. So with a single data set, every epoch has every sample once.
///
/// Batch `b` starts at position `b · batch_size`. The last batch has the remaining samples; no sample is dropped or
/// repeated. Every rank has the same number of batches; if the last batch has fewer samples than there are ranks, the
/// shares of some ranks are empty.
#[derive(Debug)]
pub struct DataOrder {
    sets: Vec<ShardLayout>,
    mixture: Mixture,
    shuffle: Shuffle,
    seed: u64,
    batch_size: usize,
}

/// Window of shards: the shards that a range of positions reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardWindow {
    /// Index of the data set.
    pub data_set: usize,
    /// The shards.
    pub shards: Vec<usize>,
    /// The range of positions. With several data sets, it can be longer than exact, by up to one position for each data
    /// set.
    pub positions: Range<usize>,
}

/// A sample of one of the data sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Sample {
    /// Index of the data set.
    pub data_set: usize,
    /// Index in the data set, in the order of its shards.
    pub index: usize,
}

impl DataOrder {
    /// The data order of a training on `sets` with the global batch size `batch_size`.
    ///
    /// # Errors
    /// There is no data set, a data set has no sample, a weight is not a finite number above 0, or the batch size is 0.
    pub fn new(sets: &[DataSet], shuffle: Shuffle, seed: u64, batch_size: usize) -> Result<Self, String> {
        if batch_size == 0 {
            return Err("a batch of 0 samples, wanted at least 1".to_owned());
        }
        for (i, set) in sets.iter().enumerate() {
            if set.shards.iter().sum::<usize>() == 0 {
                return Err(format!("data set {i} has no sample"));
            }
            if !(set.weight.is_finite() && set.weight > 0.0) {
                return Err(format!("data set {i} has weight {}, wanted a number above 0", set.weight));
            }
        }
        if sets.is_empty() {
            return Err("no data set".to_owned());
        }
        let weights: Vec<f64> = sets.iter().map(|set| set.weight).collect();
        let sets: Vec<ShardLayout> = sets.iter().map(|set| ShardLayout::new(&set.shards)).collect();
        let total = sets.iter().map(ShardLayout::sample_count).sum();
        let mixture = if let [only] = sets.as_slice() {
            Mixture::new(only.sample_count(), &[1.0])
        } else {
            Mixture::new(total, &weights)
        };
        Ok(Self { sets, mixture, shuffle, seed, batch_size })
    }

    /// The seed, for other random numbers of a position.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Shuffling of each data set.
    #[must_use]
    pub fn shuffle(&self) -> Shuffle {
        self.shuffle
    }

    /// Number of positions of an epoch.
    #[must_use]
    pub fn position_count(&self) -> usize {
        self.mixture.position_count().saturating_as::<usize>()
    }

    /// Number of batches of an epoch; the same for every rank.
    #[must_use]
    pub fn batch_count(&self) -> usize {
        self.position_count().div_ceil(self.batch_size)
    }

    /// The positions of batch `b`.
    #[must_use]
    pub fn batch_positions(&self, b: usize) -> Range<usize> {
        let end = self.position_count();
        (b * self.batch_size).min(end)..((b + 1) * self.batch_size).min(end)
    }

    /// The shard of a sample.
    #[must_use]
    pub fn shard(&self, sample: Sample) -> usize {
        self.sets[sample.data_set].shard_of(sample.index)
    }

    /// The order of one epoch. Cost: a few nanoseconds a shard, independent of the number of samples.
    #[must_use]
    pub fn epoch(&self, epoch: u64) -> Epoch<'_> {
        let passes = self.sets.iter().enumerate().map(|(i, layout)| {
            let (samples, draws) = (layout.sample_count() as u64, self.mixture.samples_of(i));
            let first = epoch.saturating_mul(draws);
            let passes = first / samples..=first.saturating_add(draws.saturating_sub(1)) / samples;
            EpochPasses {
                first,
                passes: passes.map(|pass| PassOrder::new(layout, self.shuffle, self.seed, i as u64, pass)).collect(),
            }
        });
        Epoch { data_order: self, passes: passes.collect() }
    }

    /// The sample at a position of an epoch; `None` past the end. It depends on the seed, the epoch and the position
    /// only.
    #[must_use]
    pub fn sample_at(&self, epoch: u64, position: usize) -> Option<Sample> {
        self.epoch(epoch).samples(position..position + 1).next()
    }
}

/// Passes over a data set that an epoch is part of.
#[derive(Debug)]
struct EpochPasses {
    /// Number of samples drawn from the data set in all earlier epochs.
    first: u64,
    passes: Vec<PassOrder>,
}

/// Data order of one epoch.
#[derive(Debug)]
pub struct Epoch<'p> {
    data_order: &'p DataOrder,
    passes: Vec<EpochPasses>,
}

impl Epoch<'_> {
    /// The samples at these positions, in order. Stops at the end of the epoch.
    pub fn samples(&self, positions: Range<usize>) -> impl Iterator<Item = Sample> {
        let mixture = &self.data_order.mixture;
        let mut taken = mixture.draws_before(positions.start as u64);
        positions.map_while(move |_| {
            let set = mixture.next_data_set(&taken)?;
            let draw = self.passes[set].first + taken[set];
            taken[set] += 1;
            Some(Sample { data_set: set, index: self.sample(set, draw) })
        })
    }

    /// The windows of shards that the epoch reads, by first position. A shard can occur twice: at the end of one pass
    /// over a data set and at the beginning of the next.
    #[must_use]
    pub fn shard_windows(&self) -> Vec<ShardWindow> {
        let total = u128::from(self.data_order.mixture.position_count());
        // Rounding moves a draw by less than one position for each other data set.
        let slack = self.data_order.sets.len() - 1;
        let mut windows = Vec::new();
        for (set, passes) in self.passes.iter().enumerate() {
            let (layout, draws) = (&self.data_order.sets[set], self.data_order.mixture.samples_of(set));
            let position = |draw: u64| index(u128::from(draw) * total / u128::from(draws.max(1)));
            let mut begin = passes.first / layout.sample_count() as u64 * layout.sample_count() as u64;
            for pass in &passes.passes {
                for (range, shards) in pass.windows(layout) {
                    let draw = |at: usize| (begin + at as u64).saturating_sub(passes.first).min(draws);
                    let (start, end) = (draw(range.start), draw(range.end));
                    if start < end {
                        let end = (position(end) + slack).min(self.data_order.position_count());
                        windows.push(ShardWindow {
                            data_set: set,
                            shards,
                            positions: position(start).saturating_sub(slack)..end,
                        });
                    }
                }
                begin += layout.sample_count() as u64;
            }
        }
        windows.sort_by_key(|window| window.positions.start);
        windows
    }

    fn sample(&self, set: usize, draw: u64) -> usize {
        let layout = &self.data_order.sets[set];
        let samples = layout.sample_count() as u64;
        let passes = &self.passes[set];
        let (pass, position) = (draw / samples - passes.first / samples, draw % samples);
        passes.passes[index(pass.into())].sample(layout, index(position.into()))
    }
}

/// The range of a batch of `samples` samples that rank `rank` of `ranks` processes. The shares of all ranks,
/// concatenated, are the batch; their lengths differ by at most one.
#[must_use]
pub fn rank_share(samples: usize, rank: usize, ranks: usize) -> Range<usize> {
    let bound = |rank: usize| index(samples as u128 * rank as u128 / ranks.max(1) as u128);
    bound(rank)..bound(rank + 1)
}

fn index(number: u128) -> usize {
    number.saturating_as::<usize>()
}
