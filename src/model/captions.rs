//! Captions of different lengths as one tensor, without padding.

use tch::Tensor;

/// A batch of captions, longest first, word position by word position: first the first words of all captions, then the
/// second words of those that have one, and so on (what PyTorch calls a packed sequence).
#[derive(Debug)]
pub struct Packed {
    /// Row of each word in `distinct`, `[n]` i64.
    pub words: Tensor,
    /// The different words of the batch, `[u]` i64, ascending.
    pub distinct: Tensor,
    /// Captions that have a word at position `t`; never grows with `t`.
    pub sizes: Vec<i64>,
    /// Where each caption of the batch, in the order it was given, went: `[b]` i64.
    pub places: Tensor,
}

impl Packed {
    /// Packs captions of at least one word each. Captions of one length keep their order.
    #[must_use]
    pub fn new(captions: &[&[i64]], device: tch::Device) -> Self {
        let mut order: Vec<usize> = (0..captions.len()).collect();
        order.sort_by_key(|&i| std::cmp::Reverse(captions[i].len()));
        let mut places = vec![0; captions.len()];
        for (place, &i) in order.iter().enumerate() {
            places[i] = number(place);
        }
        let longest = order.first().map_or(0, |&i| captions[i].len());
        let mut sequence = Vec::with_capacity(captions.iter().map(|caption| caption.len()).sum());
        let mut sizes = Vec::with_capacity(longest);
        for t in 0..longest {
            let before = sequence.len();
            sequence.extend(order.iter().map_while(|&i| captions[i].get(t)));
            sizes.push(number(sequence.len() - before));
        }
        let mut distinct = sequence.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let words: Vec<i64> = sequence.iter().map(|word| number(distinct.partition_point(|d| d < word))).collect();
        let tensor = |numbers: &[i64]| Tensor::from_slice(numbers).to_device(device);
        Self { words: tensor(&words), distinct: tensor(&distinct), sizes, places: tensor(&places) }
    }
}

fn number(index: usize) -> i64 {
    i64::try_from(index).expect("a batch has fewer than 2^63 words")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_go_position_by_position_longest_caption_first() {
        let packed = Packed::new(&[&[1, 2], &[1, 9, 5, 2], &[1, 7, 2]], tch::Device::Cpu);
        assert_eq!(packed.sizes, [3, 3, 2, 1]);
        let numbers = |tensor: &Tensor| Vec::<i64>::try_from(tensor).expect("numbers");
        assert_eq!(numbers(&packed.places), [2, 0, 1]);
        let sequence = numbers(&packed.distinct.index_select(0, &packed.words));
        assert_eq!(sequence, [1, 1, 1, 9, 7, 2, 5, 2, 2]);
        assert_eq!(numbers(&packed.distinct), [1, 2, 5, 7, 9]);
    }
}
