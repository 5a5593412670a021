//! Shuffling: the order of one pass over a data set, in which every sample occurs once.

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::permutation::Permutation;

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
