//! Captions as sparse tf-idf vectors in compressed sparse rows, the content of the table `caption_ngrams`.

use super::frequency::Idf;
use super::ngrams::{Ngram, ORDERS};
use az::SaturatingAs;

/// Upper bound of n-gram ids. All captions of COCO have about a hundredth of this many n-grams.
const MAX_NGRAM_IDS: i64 = 1 << 30;

/// Tf-idf vectors of many captions.
#[derive(Debug, Clone)]
pub struct CaptionVectors {
    images: Vec<usize>,
    word_count: Vec<u32>,
    offsets: Vec<usize>,
    ngrams: Vec<u32>,
    orders: Vec<i8>,
    counts: Vec<i32>,
    weights: Vec<f64>,
}

/// Vector of one caption of [`CaptionVectors`]. All slices have the same length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CaptionVector<'a> {
    /// Index of the image.
    pub image: usize,
    /// Number of words of the caption.
    pub words: u32,
    /// Ids of the distinct n-grams, ascending.
    pub ngrams: &'a [u32],
    /// n of each n-gram, 1 to 4.
    pub orders: &'a [i8],
    /// Occurrences of each n-gram in the caption.
    pub counts: &'a [i32],
    /// count · idf of each n-gram, at least 0.
    pub weights: &'a [f64],
}

impl Default for CaptionVectors {
    fn default() -> Self {
        Self {
            images: Vec::new(),
            word_count: Vec::new(),
            offsets: vec![0],
            ngrams: Vec::new(),
            orders: Vec::new(),
            counts: Vec::new(),
            weights: Vec::new(),
        }
    }
}

impl CaptionVectors {
    /// Adds a caption of the image with index `image`.
    pub fn push(&mut self, image: usize, words: usize, ngrams: &[Ngram], idf: &Idf) {
        for ngram in ngrams {
            self.ngrams.push(ngram.id);
            self.orders.push(ngram.order);
            self.counts.push(ngram.count);
            self.weights.push(f64::from(ngram.count) * idf.weight(ngram.id));
        }
        self.finish_caption(image, words.saturating_as::<u32>());
    }

    /// Adds a caption of the image with index `image`, from a row of the table `caption_ngrams`.
    ///
    /// # Errors
    /// The lists have different lengths, the ids are not ascending, an n is not 1 to 4, a count is below 1, or a weight
    /// is negative, NaN or too large. The caption is not added in this case.
    pub fn push_row(
        &mut self,
        image: usize,
        words: i64,
        ngrams: &[i64],
        orders: &[i8],
        counts: &[i32],
        weights: &[f64],
    ) -> Result<(), String> {
        let Ok(words) = u32::try_from(words) else {
            return Err(format!("{words} words, wanted 0 to {}", u32::MAX));
        };
        let lengths = [ngrams.len(), orders.len(), counts.len(), weights.len()];
        if lengths.iter().any(|&length| length != ngrams.len()) {
            return Err(format!("{lengths:?} n-grams, orders, counts, weights, wanted equally many of each"));
        }
        if let Some([a, b]) = ngrams.array_windows().find(|[a, b]| a >= b) {
            return Err(format!("n-gram {a} before {b}, wanted ascending ids"));
        }
        if let Some(id) = ngrams.iter().find(|id| !(0..MAX_NGRAM_IDS).contains(*id)) {
            return Err(format!("n-gram {id}, wanted 0 to {}", MAX_NGRAM_IDS - 1));
        }
        if let Some(order) = orders.iter().find(|&&order| !(1..=ORDERS).any(|n| usize::try_from(order) == Ok(n))) {
            return Err(format!("an n-gram of {order} words, wanted 1 to {ORDERS}"));
        }
        if let Some(count) = counts.iter().find(|&&count| count < 1) {
            return Err(format!("an n-gram counted {count} times, wanted at least 1"));
        }
        // No weight reaches 1e12: 2^31 occurrences of an n-gram with df = 1 in 2^32 images weigh 4.8e10.
        if let Some(weight) = weights.iter().find(|&&weight| !(0.0..1e12).contains(&weight)) {
            return Err(format!("an n-gram of weight {weight}, wanted at least 0 and less than 1e12"));
        }
        self.ngrams.extend(ngrams.iter().filter_map(|&id| u32::try_from(id).ok()));
        self.orders.extend(orders);
        self.counts.extend(counts);
        self.weights.extend(weights);
        self.finish_caption(image, words);
        Ok(())
    }

    /// The caption `index`, counted in the order in which captions were added.
    #[must_use]
    pub fn caption(&self, index: usize) -> CaptionVector<'_> {
        let range = self.offsets[index]..self.offsets[index + 1];
        CaptionVector {
            image: self.images[index],
            words: self.word_count[index],
            ngrams: &self.ngrams[range.clone()],
            orders: &self.orders[range.clone()],
            counts: &self.counts[range.clone()],
            weights: &self.weights[range],
        }
    }

    /// Number of captions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.images.len()
    }

    /// True if there is no caption.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.images.is_empty()
    }

    fn finish_caption(&mut self, image: usize, words: u32) {
        self.images.push(image);
        self.word_count.push(words);
        self.offsets.push(self.ngrams.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::cider::NgramVocabulary;

    #[test]
    fn a_row_of_the_table_gives_the_same_caption() {
        let mut ngrams = NgramVocabulary::default();
        let words: Vec<String> = "a dog and a cat".split(' ').map(str::to_owned).collect();
        let mut vectors = CaptionVectors::default();
        vectors.push(3, words.len(), &ngrams.count_ngrams(&words), &Idf::uniform());
        vectors.push(3, 0, &[], &Idf::uniform());
        let caption = vectors.caption(0);
        let ids: Vec<i64> = caption.ngrams.iter().map(|&id| id.into()).collect();
        let mut read = CaptionVectors::default();
        read.push_row(3, 5, &ids, caption.orders, caption.counts, caption.weights).expect("a caption");
        read.push_row(3, 0, &[], &[], &[], &[]).expect("a caption without words");
        assert_eq!((read.caption(0), read.caption(1)), (caption, vectors.caption(1)));
        assert_eq!((read.len(), caption.ngrams.len()), (2, 4 + 4 + 3 + 2));
    }

    #[test]
    fn invalid_rows_are_refused() {
        let mut vectors = CaptionVectors::default();
        let mut refused = |words, ngrams: &[i64], order, count, weight, wanted: &str| {
            let n = ngrams.len();
            let result = vectors.push_row(0, words, ngrams, &vec![order; n], &vec![count; n], &vec![weight; n]);
            assert!(result.as_ref().is_err_and(|error| error.contains(wanted)), "{result:?}");
        };
        refused(-1, &[1], 1, 1, 1.0, "-1 words");
        refused(1, &[2, 2], 1, 1, 1.0, "2 before 2");
        refused(1, &[-2], 1, 1, 1.0, "n-gram -2");
        refused(1, &[i64::MAX], 1, 1, 1.0, "n-gram 9223");
        refused(1, &[1], 0, 1, 1.0, "0 words, wanted 1 to 4");
        refused(1, &[1], 5, 1, 1.0, "5 words");
        refused(1, &[1], 1, 0, 1.0, "0 times");
        refused(1, &[1], 1, 1, -1.0, "weight -1");
        refused(1, &[1], 1, 1, f64::NAN, "weight NaN");
        assert!(vectors.push_row(0, 1, &[1], &[1, 1], &[1], &[1.0]).is_err());
        assert!(vectors.is_empty() && vectors.offsets == [0]);
    }
}
