//! Blocks of captions of similar length, in which a model scores them with all images of a batch.

use std::cmp::Reverse;
use std::ops::Range;

use az::SaturatingAs;
use tch::Tensor;

use super::encoded_items::EncodedItems;
use pairloom_base::error::Result;

/// Largest number of values of a block in one tensor, unless a family says otherwise: 16 MiB of f32.
pub(super) const BLOCK_VALUES: i64 = 1 << 22;

/// Limit of the values of all blocks together, in one tensor. Up to it, the graphs of all blocks are kept until the
/// backward pass: about a dozen such tensors for cross attention, 0.8 GiB. Beyond it, each block is computed again there.
pub(super) const KEPT_VALUES: i64 = 1 << 24;

/// Captions in the order of their lengths, in blocks.
#[derive(Debug)]
pub(super) struct ScoreBlocks {
    /// Captions from long to short, as published data loaders sort a batch.
    order: Vec<usize>,
    /// Ranges of `order`.
    ranges: Vec<Range<usize>>,
    /// Number of values of all blocks in one tensor.
    values: i64,
}

impl ScoreBlocks {
    /// Cuts captions into blocks of at most `block_values` values. `values_per_word` is the number of values that the score
    /// of all images with one word needs in one tensor. Captions of one vector each are one block.
    pub fn new(captions: &EncodedItems, values_per_word: i64, block_values: i64) -> Self {
        let Some(lengths) = &captions.lengths else {
            let all = 0..captions.len();
            return Self { order: all.clone().collect(), ranges: vec![all], values: 0 };
        };
        let mut order: Vec<usize> = (0..lengths.len()).collect();
        order.sort_by_key(|&caption| Reverse(lengths[caption]));
        let mut blocks = Self { order, ranges: Vec::new(), values: 0 };
        let (mut start, mut words) = (0, 0);
        for end in 0..blocks.order.len() {
            let length = lengths[blocks.order[end]];
            let padded = lengths[blocks.order[start]] * (end + 1 - start).saturating_as::<i64>();
            // At most a quarter of padding, and at most the largest number of values.
            let is_full = padded * 4 > (words + length) * 5 || padded.saturating_mul(values_per_word) > block_values;
            if is_full && end > start {
                blocks.push(start..end, lengths, values_per_word);
                (start, words) = (end, 0);
            }
            words += length;
        }
        blocks.push(start..blocks.order.len(), lengths, values_per_word);
        blocks
    }

    fn push(&mut self, range: Range<usize>, lengths: &[i64], values_per_word: i64) {
        let longest = range.clone().map(|at| lengths[self.order[at]]).max().unwrap_or(0);
        let words = longest * range.len().saturating_as::<i64>();
        self.values = self.values.saturating_add(words.saturating_mul(values_per_word));
        self.ranges.push(range);
    }

    /// True if the graphs of all blocks may be kept at the same time, with at most so many values in one tensor.
    pub fn keeps_graphs(&self, most_values: i64) -> bool {
        self.ranges.len() == 1 || self.values <= most_values
    }

    /// Captions of every block.
    pub fn captions(&self) -> impl Iterator<Item = &[usize]> {
        self.ranges.iter().map(|range| &self.order[range.clone()])
    }

    /// Scores all captions, `[n, m]`, with `score` for each block.
    ///
    /// # Errors
    /// Errors of `score`.
    pub fn score(&self, captions: &EncodedItems, score: impl Fn(&EncodedItems) -> Result<Tensor>) -> Result<Tensor> {
        let is_sorted = self.order.is_sorted();
        let copy = (!is_sorted).then(|| captions.select(&self.order));
        let sorted = copy.as_ref().unwrap_or(captions);
        let blocks = self.ranges.iter().map(|range| score(&sorted.slice(range.clone())));
        let mut blocks = blocks.collect::<Result<Vec<_>>>()?;
        let blocks = if blocks.len() == 1 { blocks.remove(0) } else { Tensor::cat(&blocks, 1) };
        if is_sorted {
            return Ok(blocks);
        }
        let mut places = vec![0i64; self.order.len()];
        self.order.iter().zip(0..).for_each(|(&caption, place)| places[caption] = place);
        Ok(blocks.index_select(1, &Tensor::from_slice(&places).to_device(blocks.device())))
    }
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind};

    use super::*;

    fn captions(lengths: &[i64]) -> EncodedItems {
        let vectors = Tensor::arange(lengths.iter().sum::<i64>(), (Kind::Double, Device::Cpu)).view([-1, 1]);
        EncodedItems { vectors, lengths: Some(lengths.to_vec()) }
    }

    #[test]
    fn captions_of_like_length_are_together() {
        let blocks = ScoreBlocks::new(&captions(&[9, 3, 3, 10, 4, 9]), 1, BLOCK_VALUES);
        assert_eq!(blocks.captions().collect::<Vec<_>>(), [&[3usize, 0, 5, 4][..], &[1, 2]]);
        assert!(blocks.keeps_graphs(KEPT_VALUES));
        // 4 words of a million values each are a block.
        let blocks = ScoreBlocks::new(&captions(&[2, 2, 2, 5, 2]), 1 << 20, BLOCK_VALUES);
        assert_eq!(blocks.captions().collect::<Vec<_>>(), [&[3usize][..], &[0, 1], &[2, 4]]);
        assert_eq!((blocks.values, blocks.keeps_graphs(KEPT_VALUES)), (13 << 20, true));
        assert!(!ScoreBlocks::new(&captions(&[2, 2, 2, 5, 2]), 1 << 21, BLOCK_VALUES).keeps_graphs(KEPT_VALUES));
    }

    /// The score of a caption is the sum of its words' numbers: captions keep their order.
    #[test]
    fn scores_have_the_order_of_the_captions() {
        let all = captions(&[3, 1, 9, 2]);
        let score = |block: &EncodedItems| {
            Ok(block.padded().vectors.sum_dim_intlist([1i64, 2].as_slice(), false, None::<Kind>).unsqueeze(0))
        };
        let blocks = ScoreBlocks::new(&all, 1, BLOCK_VALUES);
        assert!(blocks.captions().count() > 1);
        let found = Vec::<f64>::try_from(blocks.score(&all, score).expect("scores").view(-1)).expect("f64");
        assert_eq!(found, [3.0, 3.0, 72.0, 27.0]);
    }
}
