//! Captions of different lengths as one sequence, without padding.

/// A batch of captions, longest first, word position by word position: first the first words of all captions, then the
/// second words of those that have one, and so on (what PyTorch calls a packed sequence).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packed {
    /// Row of each word in `distinct`.
    pub words: Vec<usize>,
    /// The different words of the batch, ascending.
    pub distinct: Vec<i64>,
    /// Captions that have a word at position `t`; never grows with `t`.
    pub sizes: Vec<usize>,
    /// Where each caption of the batch, in the order it was given, went.
    pub places: Vec<usize>,
}

impl Packed {
    /// Packs captions of at least one word each. Captions of one length keep their order.
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
        // libtorch looks rows up by 64 bits.
        let distinct = distinct.into_iter().map(i64::from).collect();
        Self { words, distinct, sizes, places }
    }

    /// Words of each caption, longest caption first.
    #[must_use]
    pub fn lengths(&self) -> Vec<usize> {
        let mut lengths = vec![0; self.places.len()];
        for &size in &self.sizes {
            lengths[..size].iter_mut().for_each(|length| *length += 1);
        }
        lengths
    }

    /// The caption, longest first, that each word is of.
    #[must_use]
    pub fn captions(&self) -> Vec<usize> {
        self.sizes.iter().flat_map(|&size| 0..size).collect()
    }

    /// Where the words are when every caption is read from its end: word `i` of that order is word `reverse[i]` of this
    /// one, and the other way round.
    #[must_use]
    pub fn reverse(&self) -> Vec<usize> {
        let starts = self.starts();
        let lengths = self.lengths();
        let positions = self.sizes.iter().enumerate();
        positions
            .flat_map(|(t, &size)| (0..size).map(move |c| (t, c)))
            .map(|(t, c)| starts[lengths[c] - 1 - t] + c)
            .collect()
    }

    /// The last word of each caption, longest caption first.
    #[must_use]
    pub fn last(&self) -> Vec<usize> {
        let mut ends = vec![0; self.places.len()];
        let mut start = 0;
        for &size in &self.sizes {
            ends[..size].iter_mut().enumerate().for_each(|(caption, end)| *end = start + caption);
            start += size;
        }
        ends
    }

    /// The first word of each position.
    fn starts(&self) -> Vec<usize> {
        let before = self.sizes.iter().scan(0, |next, &size| {
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
    fn words_go_position_by_position_longest_caption_first() {
        let packed = Packed::new(&[&[1, 2], &[1, 9, 5, 2], &[1, 7, 2]]);
        assert_eq!(packed.sizes, [3, 3, 2, 1]);
        assert_eq!(packed.places, [2, 0, 1]);
        let sequence = |rows: &[usize]| rows.iter().map(|&row| packed.distinct[packed.words[row]]).collect::<Vec<_>>();
        assert_eq!(sequence(&[0, 1, 2, 3, 4, 5, 6, 7, 8]), [1, 1, 1, 9, 7, 2, 5, 2, 2]);
        assert_eq!(packed.distinct, [1, 2, 5, 7, 9]);
        assert_eq!(packed.lengths(), [4, 3, 2]);
        assert_eq!(packed.captions(), [0, 1, 2, 0, 1, 2, 0, 1, 0]);
        assert_eq!(sequence(&packed.last()), [2, 2, 2]);
        assert_eq!(sequence(&packed.reverse()), [2, 2, 2, 5, 7, 1, 9, 1, 1]);
    }
}
