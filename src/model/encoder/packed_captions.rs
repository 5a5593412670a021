//! Packed sequence of captions of different lengths, without padding.

use tch::{Device, Tensor};

/// Packed sequence of a batch of captions, as PyTorch's `PackedSequence`. Captions are sorted by decreasing length. The
/// first words of all captions come first, then the second words of all captions with at least two words, and so on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackedCaptions {
    /// Index of each word in `distinct_token_ids`.
    pub token_rows: Vec<usize>,
    /// Distinct token ids of the batch, ascending.
    pub distinct_token_ids: Vec<i64>,
    /// Number of captions that have a word at position `t`, decreasing in `t`.
    pub batch_sizes: Vec<usize>,
    /// Index of each caption of the original order in the sorted order.
    pub unsorted_indices: Vec<usize>,
}

impl PackedCaptions {
    /// Packs captions of at least one word each. Captions of equal length keep their order.
    #[must_use]
    pub fn new(captions: &[&[i32]]) -> Self {
        let mut order: Vec<usize> = (0..captions.len()).collect();
        order.sort_by_key(|&i| std::cmp::Reverse(captions[i].len()));
        let mut places = vec![0; captions.len()];
        for (place, &i) in order.iter().enumerate() {
            places[i] = place;
        }
        let longest = order.first().map_or(0, |&i| captions[i].len());
        let mut sequence: Vec<i32> = Vec::with_capacity(captions.iter().map(|caption| caption.len()).sum());
        let mut sizes = Vec::with_capacity(longest);
        for t in 0..longest {
            let before = sequence.len();
            sequence.extend(order.iter().map_while(|&i| captions[i].get(t)));
            sizes.push(sequence.len() - before);
        }
        let mut distinct = sequence.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let words = sequence.iter().map(|word| distinct.partition_point(|d| d < word)).collect();
        // libtorch's indices are i64.
        let distinct = distinct.into_iter().map(i64::from).collect();
        Self { token_rows: words, distinct_token_ids: distinct, batch_sizes: sizes, unsorted_indices: places }
    }

    /// Packs sets of vectors whose rows follow each other. Each vector takes the place of a distinct word.
    ///
    /// # Panics
    /// There are 2^31 vectors or more.
    #[must_use]
    pub fn of_sets(lengths: &[i64]) -> Self {
        let count = i32::try_from(lengths.iter().sum::<i64>()).expect("a batch has fewer than 2^31 vectors");
        let rows: Vec<i32> = (0..count).collect();
        let mut rest = rows.as_slice();
        let sets = lengths.iter().map(|&length| {
            let (set, after) = rest.split_at(usize::try_from(length).unwrap_or(0));
            rest = after;
            set
        });
        Self::new(&sets.collect::<Vec<_>>())
    }

    /// The distinct token ids as indices of a table of word vectors.
    pub fn distinct_rows(&self, device: Device) -> Tensor {
        Tensor::from_slice(&self.distinct_token_ids).to_device(device)
    }

    /// Number of words of each caption, longest caption first.
    #[must_use]
    pub fn lengths(&self) -> Vec<usize> {
        let mut lengths = vec![0; self.unsorted_indices.len()];
        for &size in &self.batch_sizes {
            lengths[..size].iter_mut().for_each(|length| *length += 1);
        }
        lengths
    }

    /// For each word, the index of its caption, longest caption first.
    #[must_use]
    pub fn caption_of_word(&self) -> Vec<usize> {
        self.batch_sizes.iter().flat_map(|&size| 0..size).collect()
    }

    /// Permutation that reverses every caption: word `i` of the reversed captions is word `p[i]` of these, for the
    /// returned `p`, and vice versa.
    #[must_use]
    pub fn reversed_order(&self) -> Vec<usize> {
        let starts = self.position_starts();
        let lengths = self.lengths();
        let positions = self.batch_sizes.iter().enumerate();
        positions
            .flat_map(|(t, &size)| (0..size).map(move |c| (t, c)))
            .map(|(t, c)| starts[lengths[c] - 1 - t] + c)
            .collect()
    }

    /// Index of the last word of each caption, longest caption first.
    #[must_use]
    pub fn last_words(&self) -> Vec<usize> {
        let mut ends = vec![0; self.unsorted_indices.len()];
        let mut start = 0;
        for &size in &self.batch_sizes {
            ends[..size].iter_mut().enumerate().for_each(|(caption, end)| *end = start + caption);
            start += size;
        }
        ends
    }

    /// For each word in the order of the captions given, caption by caption, its index in packed order.
    #[must_use]
    pub fn caption_order(&self) -> Vec<usize> {
        let (starts, lengths) = (self.position_starts(), self.lengths());
        let captions = self.unsorted_indices.iter();
        captions.flat_map(|&place| starts[..lengths[place]].iter().map(move |start| start + place)).collect()
    }

    /// Index of the first word of each position.
    fn position_starts(&self) -> Vec<usize> {
        let before = self.batch_sizes.iter().scan(0, |next, &size| {
            *next += size;
            Some(*next - size)
        });
        before.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_ordered_by_position_and_captions_by_length() {
        let packed = PackedCaptions::new(&[&[1, 2], &[1, 9, 5, 2], &[1, 7, 2]]);
        assert_eq!(packed.batch_sizes, [3, 3, 2, 1]);
        assert_eq!(packed.unsorted_indices, [2, 0, 1]);
        let sequence = |rows: &[usize]| {
            rows.iter().map(|&row| packed.distinct_token_ids[packed.token_rows[row]]).collect::<Vec<_>>()
        };
        assert_eq!(sequence(&[0, 1, 2, 3, 4, 5, 6, 7, 8]), [1, 1, 1, 9, 7, 2, 5, 2, 2]);
        assert_eq!(packed.distinct_token_ids, [1, 2, 5, 7, 9]);
        assert_eq!(packed.lengths(), [4, 3, 2]);
        assert_eq!(packed.caption_of_word(), [0, 1, 2, 0, 1, 2, 0, 1, 0]);
        assert_eq!(sequence(&packed.last_words()), [2, 2, 2]);
        assert_eq!(sequence(&packed.reversed_order()), [2, 2, 2, 5, 7, 1, 9, 1, 1]);
        assert_eq!(sequence(&packed.caption_order()), [1, 2, 1, 9, 5, 2, 1, 7, 2]);
    }

    /// Sets of 1, 3 and 2 vectors: rows 0, 1 2 3, 4 5.
    #[test]
    fn sets_are_packed_as_captions_of_distinct_words() {
        let packed = PackedCaptions::of_sets(&[1, 3, 2]);
        assert_eq!(
            (packed.token_rows.as_slice(), packed.batch_sizes.as_slice()),
            (&[1, 4, 0, 2, 5, 3][..], &[3, 2, 1][..])
        );
        assert_eq!(packed.distinct_token_ids, [0, 1, 2, 3, 4, 5]);
    }
}
