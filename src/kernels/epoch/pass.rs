//! One pass over a data set: every sample once, in an order of its own.

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::permutation::Permutation;

/// Keeps the streams of the order apart from others of the same seed.
const ORDER: u64 = 0x006f_7264_6572;

/// How the samples of an epoch are shuffled. The order is a function of the seed and the epoch, wherever the store lies and
/// however often a training is resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// All samples at once: any order can come out. All shards are needed all the time, so they must fit the cache.
    #[default]
    Global,
    /// The shards (parts of `features`), and then the samples of each that many shards that follow each other. For data that
    /// does not fit the cache: two windows of shards must (one in use and one read ahead), or four batches if those are more,
    /// beside the samples.
    Windows(usize),
}

/// Where the samples of a data set lie: shard `s` holds samples `starts[s] .. starts[s + 1]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Layout {
    starts: Vec<usize>,
}

impl Layout {
    pub(super) fn new(shards: &[usize]) -> Self {
        let mut starts = vec![0];
        starts.extend(shards.iter().scan(0, |end, rows| {
            *end += rows;
            Some(*end)
        }));
        Self { starts }
    }

    pub(super) fn samples(&self) -> usize {
        self.starts.last().copied().unwrap_or(0)
    }

    pub(super) fn shards(&self) -> usize {
        self.starts.len() - 1
    }

    /// The shard of a sample. Empty shards have none.
    pub(super) fn shard(&self, sample: usize) -> usize {
        self.starts.partition_point(|&start| start <= sample) - 1
    }

    fn rows(&self, shard: usize) -> usize {
        self.starts[shard + 1] - self.starts[shard]
    }
}

/// The order of one pass.
#[derive(Debug)]
pub(super) enum Pass {
    Global(Permutation),
    Windows(Windows),
}

/// Windows of shards, and the order within each.
#[derive(Debug)]
pub(super) struct Windows {
    /// Shards in their order.
    shards: Vec<usize>,
    /// The position at which each shard's samples would stand if a window were not shuffled.
    ends: Vec<usize>,
    /// The position at which each window begins, and the end.
    starts: Vec<usize>,
    /// The order within each window.
    within: Vec<Permutation>,
    size: usize,
}

impl Pass {
    pub(super) fn new(layout: &Layout, order: Order, seed: u64, set: u64, pass: u64) -> Self {
        let size = match order {
            Order::Global => return Self::Global(Permutation::new(layout.samples(), seed, &[ORDER, set, pass])),
            Order::Windows(size) => size.max(1),
        };
        let permutation = Permutation::new(layout.shards(), seed, &[ORDER, set, pass, 1]);
        let shards: Vec<usize> = (0..layout.shards()).map(|place| permutation.at(place)).collect();
        let (mut ends, mut starts, mut within) = (Vec::new(), vec![0], Vec::new());
        let mut end = 0;
        for (window, members) in shards.chunks(size).enumerate() {
            let start = end;
            for &shard in members {
                end += layout.rows(shard);
                ends.push(end);
            }
            starts.push(end);
            within.push(Permutation::new(end - start, seed, &[ORDER, set, pass, 2, window as u64]));
        }
        Self::Windows(Windows { shards, ends, starts, within, size })
    }

    /// The sample at a position of the pass.
    pub(super) fn sample(&self, layout: &Layout, position: usize) -> usize {
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

    /// The windows in their order: the positions of the pass that each fills, and its shards.
    pub(super) fn windows(&self, layout: &Layout) -> Vec<(Range<usize>, Vec<usize>)> {
        match self {
            Self::Global(_) => vec![(0..layout.samples(), (0..layout.shards()).collect())],
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
