//! Data order of an epoch as a pure function: the sample at each position, and the positions of each rank.
//!
//! ```text
//! position in the epoch ─► Mixture: data set, index of the draw ─► PassOrder: sample of the data set ─► shard, row
//!          │
//!          └─ batch b = positions b·B .. (b+1)·B; rank r of W ranks gets `rank_share(B, r, W)` of it
//! ```
//!
//! There is no random state that advances from sample to sample. So the positions can be computed in any order: an
//! epoch resumes in the middle at no cost, and the global batches do not depend on the number of ranks.

use std::ops::Range;

use az::SaturatingAs;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::random::Rng;

pub use memory_bank::{MemoryBankSampling, sample_memory_bank};

mod memory_bank;
#[cfg(test)]
mod tests;

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

/// Training pair: a caption and its image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TrainingPair {
    /// Row in the table `samples`.
    pub row: usize,
    /// Identity of the image, equal for captions of the same image: data set and `image_id`.
    pub image: (i64, i64),
}

impl TrainingPair {
    /// Creates `count` pairs of different images, for tests and benchmarks.
    #[must_use]
    pub fn unrelated(count: usize) -> Vec<Self> {
        let image = |row: usize| (0, row.saturating_as::<i64>());
        (0..count).map(|row| Self { row, image: image(row) }).collect()
    }
}

impl DataOrder {
    /// The data order of a training on `sets` with the global batch size `batch_size`.
    ///
    /// # Errors
    /// There is no data set, a data set has no sample, a weight is not a finite number above 0, or the batch size is 0.
    pub fn new(sets: &[DataSet], shuffle: Shuffle, seed: u64, batch_size: usize) -> Result<Self, String> {
        if batch_size == 0 {
            return Err("a batch of 0 samples, expected at least 1".to_owned());
        }
        for (i, set) in sets.iter().enumerate() {
            if set.shards.iter().sum::<usize>() == 0 {
                return Err(format!("data set {i} has no sample"));
            }
            if !(set.weight.is_finite() && set.weight > 0.0) {
                return Err(format!("data set {i} has weight {}, expected a number above 0", set.weight));
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

/// Number of samples of each data set in an epoch, and their interleaving.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mixture {
    draws: Vec<u64>,
}

impl Mixture {
    /// Distributes `total` samples in proportion to `weights` by the largest-remainder method; ties go to the first
    /// data set.
    pub(super) fn new(total: usize, weights: &[f64]) -> Self {
        let sum: f64 = weights.iter().sum();
        #[expect(clippy::cast_precision_loss, reason = "data sets have fewer than 2^53 samples")]
        let exact: Vec<f64> = weights.iter().map(|weight| weight / sum * total as f64).collect();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share is at most `total`")]
        let mut draws: Vec<u64> = exact.iter().map(|share| share.floor() as u64).collect();
        let mut order: Vec<usize> = (0..weights.len()).collect();
        let remainder = |i: usize| exact[i] - exact[i].floor();
        order.sort_by(|&a, &b| remainder(b).total_cmp(&remainder(a)));
        // With rounding errors, the sum of the floors can be one above the total.
        let mut missing = (total as u64).saturating_sub(draws.iter().sum());
        for &i in order.iter().cycle() {
            if missing == 0 {
                break;
            }
            draws[i] += 1;
            missing -= 1;
        }
        Self { draws }
    }

    /// Number of samples of data set `i` in an epoch.
    pub(super) fn samples_of(&self, i: usize) -> u64 {
        self.draws[i]
    }

    /// Number of positions of an epoch.
    pub(super) fn position_count(&self) -> u64 {
        self.draws.iter().sum()
    }

    /// Number of samples drawn from each data set before `position`.
    pub(super) fn draws_before(&self, position: u64) -> Vec<u64> {
        let total = u128::from(self.position_count().max(1));
        // Draw t of data set i is at the fraction (2t + 1) / (2·draws) of the epoch. Draws well before `position` are
        // counted by this formula, and the few around it one by one.
        let slack = self.draws.len() as u64;
        let from = position.saturating_sub(slack);
        let counted = |draws: u64| u64::try_from((2 * u128::from(from) * u128::from(draws) + total) / (2 * total));
        let mut taken: Vec<u64> = self.draws.iter().map(|&draws| counted(draws).unwrap_or(draws).min(draws)).collect();
        let mut behind = position.saturating_sub(taken.iter().sum());
        while behind > 0 {
            let Some(next) = self.next_data_set(&taken) else { break };
            taken[next] += 1;
            behind -= 1;
        }
        taken
    }

    /// The data set of the next sample, after `taken` samples of each: the one with the earliest next draw; ties go to
    /// the first.
    pub(super) fn next_data_set(&self, taken: &[u64]) -> Option<usize> {
        let mut first: Option<usize> = None;
        for (i, (&taken_i, &draws_i)) in taken.iter().zip(&self.draws).enumerate() {
            if taken_i == draws_i {
                continue;
            }
            // Compares (2t + 1) / draws without a division.
            let earlier = |other: usize| {
                let (mine, theirs) = (2 * u128::from(taken_i) + 1, 2 * u128::from(taken[other]) + 1);
                mine * u128::from(self.draws[other]) < theirs * u128::from(draws_i)
            };
            if first.is_none_or(earlier) {
                first = Some(i);
            }
        }
        first
    }
}

/// Path element that separates these random numbers from others of the same seed.
const RANDOM_STREAM: u64 = 0x006f_7264_6572;

/// Shuffling of the samples of an epoch. The order depends on the seed and the epoch only, not on the location of the
/// store or on how often a training is resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Shuffle {
    /// A permutation of all samples. All shards are needed all the time, so they must fit into the cache.
    #[default]
    Global,
    /// A permutation of the shards (parts of `features`), then of the samples in each window of this many consecutive
    /// shards. For data that does not fit into the cache. The cache must hold the table of samples and two windows (one
    /// in use, one read ahead), or four batches if these are larger.
    Windows(usize),
}

/// Shards of a data set: shard `s` holds samples `starts[s] .. starts[s + 1]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ShardLayout {
    starts: Vec<usize>,
}

impl ShardLayout {
    pub(super) fn new(shards: &[usize]) -> Self {
        let mut starts = vec![0];
        starts.extend(shards.iter().scan(0, |end, rows| {
            *end += rows;
            Some(*end)
        }));
        Self { starts }
    }

    pub(super) fn sample_count(&self) -> usize {
        self.starts.last().copied().unwrap_or(0)
    }

    pub(super) fn shard_count(&self) -> usize {
        self.starts.len() - 1
    }

    /// The shard of a sample.
    pub(super) fn shard_of(&self, sample: usize) -> usize {
        self.starts.partition_point(|&start| start <= sample) - 1
    }

    fn samples_in(&self, shard: usize) -> usize {
        self.starts[shard + 1] - self.starts[shard]
    }
}

/// Order of one pass over a data set.
#[derive(Debug)]
pub(super) enum PassOrder {
    Global(Permutation),
    Windows(WindowedPass),
}

/// Order of a pass in windows of shards.
#[derive(Debug)]
pub(super) struct WindowedPass {
    /// The shards in their shuffled order.
    shards: Vec<usize>,
    /// End position of each of `shards`, if the samples of a window were not shuffled.
    ends: Vec<usize>,
    /// Start position of each window, then the end of the last one.
    starts: Vec<usize>,
    /// Permutation of each window.
    within: Vec<Permutation>,
    size: usize,
}

impl PassOrder {
    pub(super) fn new(layout: &ShardLayout, shuffle: Shuffle, seed: u64, data_set: u64, pass: u64) -> Self {
        let size = match shuffle {
            Shuffle::Global => {
                return Self::Global(Permutation::new(layout.sample_count(), seed, &[RANDOM_STREAM, data_set, pass]));
            }
            Shuffle::Windows(size) => size.max(1),
        };
        let permutation = Permutation::new(layout.shard_count(), seed, &[RANDOM_STREAM, data_set, pass, 1]);
        let shards: Vec<usize> = (0..layout.shard_count()).map(|place| permutation.at(place)).collect();
        let (mut ends, mut starts, mut within) = (Vec::new(), vec![0], Vec::new());
        let mut end = 0;
        for (window, members) in shards.chunks(size).enumerate() {
            let start = end;
            for &shard in members {
                end += layout.samples_in(shard);
                ends.push(end);
            }
            starts.push(end);
            within.push(Permutation::new(end - start, seed, &[RANDOM_STREAM, data_set, pass, 2, window as u64]));
        }
        Self::Windows(WindowedPass { shards, ends, starts, within, size })
    }

    /// The sample at a position of the pass.
    pub(super) fn sample(&self, layout: &ShardLayout, position: usize) -> usize {
        match self {
            Self::Global(permutation) => permutation.at(position),
            Self::Windows(windows) => {
                let window = windows.starts.partition_point(|&start| start <= position) - 1;
                let start = windows.starts[window];
                let place = start + windows.within[window].at(position - start);
                let at = windows.ends.partition_point(|&end| end <= place);
                let before = if at == 0 { 0 } else { windows.ends[at - 1] };
                layout.starts[windows.shards[at]] + place - before
            }
        }
    }

    /// The windows in order: the positions of each in the pass, and its shards.
    pub(super) fn windows(&self, layout: &ShardLayout) -> Vec<(Range<usize>, Vec<usize>)> {
        match self {
            Self::Global(_) => vec![(0..layout.sample_count(), (0..layout.shard_count()).collect())],
            Self::Windows(windows) => {
                let ranges = windows.starts.windows(2).map(|pair| pair[0]..pair[1]);
                ranges
                    .zip(windows.shards.chunks(windows.size))
                    .map(|(range, shards)| (range, shards.to_vec()))
                    .collect()
            }
        }
    }
}

// Pseudo-random permutation that is computed for each index, without a table.
//
// A Feistel network over the smallest number of bits that holds `n`, applied until the value is below `n` (cycle
// walking): Black, Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002. The widths of the two halves can
// differ by one bit, so that less than half of the values are skipped.

/// Rounds of the network. Four give a pseudo-random permutation of a large domain (Luby and Rackoff, 1988); more make
/// small domains, of a few samples, nearly uniform too.
const ROUNDS: usize = 8;

/// Minimum number of bits, since smaller halves mix badly. For a few samples, more values are skipped in exchange.
const MIN_BITS: u32 = 8;

/// A permutation of `0..n`.
#[derive(Debug, Clone)]
pub struct Permutation {
    n: u64,
    /// Bits of the two halves.
    high: u32,
    low: u32,
    keys: [u64; ROUNDS],
}

impl Permutation {
    /// The permutation of `0..n` for a seed and a path of numbers, as in [`Rng::new`].
    #[must_use]
    pub fn new(n: usize, seed: u64, path: &[u64]) -> Self {
        let mut rng = Rng::new(seed, path);
        let keys = std::array::from_fn(|_| rng.next_u64());
        let n = n as u64;
        let bits = (u64::BITS - n.saturating_sub(1).leading_zeros()).max(MIN_BITS);
        Self { n, high: bits / 2, low: bits - bits / 2, keys }
    }

    /// The value at `place`. Takes about 20 ns on average.
    ///
    /// # Panics
    /// `place` is not below `n`.
    #[must_use]
    pub fn at(&self, place: usize) -> usize {
        let mut value = place as u64;
        assert!(value < self.n, "place {value} of a permutation of {}", self.n);
        loop {
            value = self.scramble(value);
            if value < self.n {
                return usize::try_from(value).expect("below a usize");
            }
        }
    }

    /// A bijection of all values of `high + low` bits.
    fn scramble(&self, value: u64) -> u64 {
        let (mut left, mut right) = (value >> self.low, value & mask(self.low));
        // The halves swap, with their widths, in every round. After an even number of rounds the widths are as at
        // first.
        for (round, key) in self.keys.iter().enumerate() {
            let width = if round % 2 == 0 { self.high } else { self.low };
            (left, right) = (right, left ^ (mix(right ^ key) & mask(width)));
        }
        (left << self.low) | right
    }
}

fn mask(bits: u32) -> u64 {
    (1 << bits) - 1
}

/// The finalizer of SplitMix64.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
